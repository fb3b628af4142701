"""Chains of a sampler, one by one and together, fine steps of a diffusion, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, singledispatch
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pabi.account.outlook import outlook_on
from pabi.budget.ledger import Ledger
from pabi.describe import prox
from pabi.describe.batches import FullBatch
from pabi.describe.langevin import OTHER_KEYWORDS, LangevinChain, LangevinDiffusion
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD, Prox
from pabi.execute.batches import BatchRows, batch_rows
from pabi.execute.computed_steps import paid_for, rests_on
from pabi.execute.hiding import (
    Terms,
    checked,
    hides,
    mapped,
    read_only,
    refuse_unenforceable,
    returned,
    starting_point,
    walk_of,
)
from pabi.execute.noise import StepNoise
from pabi.execute.records import numbers_of
from pabi.execute.sums import least_move
from pabi.numbers import validate
from pabi.numbers.errors import (
    InvalidInput,
    NotApplicable,
    SamplingWarning,
    must_be,
    require,
    warn,
    warn_once,
)
from pabi.numbers.rounding import HALF_ULP, Array, fraction_up, up
from pabi.sampling.draws import Draws, drawn
from pabi.sampling.linear_models import MeanGradient, MeanOfLogs
from pabi.tradeoff.guarantee import INDEPENDENT, Composed, Guarantee

# What several draws of the same kind cost together.


def repeated(guarantee: Guarantee, times: int) -> Guarantee:
    """The guarantee of `times` independent releases that each have this one.

    It is that of `pabi.compose`, with the method named once. Source: Dong, Roth, Su 2022, Thm 3.2.
    """
    if times == 1:
        return guarantee
    reference = guarantee.composition
    return replace(
        guarantee,
        curve=guarantee.curve.self_compose(times),
        composition=None if reference is None else reference.self_compose(times),
        method=f"{guarantee.method}, {times} times",
        assumptions=(*guarantee.assumptions, INDEPENDENT),
        proof=None if guarantee.proof is None else Composed([guarantee] * times),
    )


# Proximal maps applied to every chain's point by itself, (chains, *shape) → (chains, *shape).
#
# A proximal map takes one point. The penalties that act entry by entry take all points at once; the
# projections are written here for many points, each within the rounding margins of `pabi.prox`; any other
# map is called chain by chain.


EachChain = Callable[[Array, float], Array]


def each_chain(proximal: Any, shape: tuple[int, ...]) -> EachChain:
    """`proximal` (a proximal map or None) as a map of (chains, *shape) arrays and a step size."""
    expected = getattr(proximal, "point_shape", None)
    if expected not in (None, shape):
        raise InvalidInput("prox", f"expected one for points of shape {shape}, got {expected}")
    return partial(_each, proximal)


@singledispatch
def _each(proximal: Any, x: Array, step_size: float) -> Array:
    result = np.empty_like(x)
    for i in range(len(x)):
        result[i] = mapped(proximal(x[i].copy(), step_size), x.shape[1:])
    return result


@_each.register
def _none(proximal: None, x: Array, step_size: float) -> Array:
    return x


@_each.register(prox.l1)
@_each.register(prox.l2)
@_each.register(prox.elastic_net)
def _entrywise(proximal: prox.ProximalMap, x: Array, step_size: float) -> Array:
    return proximal(x, step_size)


@_each.register
def _box(proximal: prox.box, x: Array, step_size: float) -> Array:
    # The bounds broadcast over the leading axis; infinite entries meet the largest doubles, as there.
    return np.clip(prox.within_range(x), proximal.lower, proximal.upper)


@_each.register
def _ball(proximal: prox.ball, x: Array, step_size: float) -> Array:
    points = prox.within_range(x.reshape(len(x), -1))
    d = points.shape[1]
    centre = None if proximal.center is None else np.asarray(proximal.center).reshape(-1)
    offset = points if centre is None else prox.within_range(points - centre)
    peak = np.max(np.abs(offset), axis=1, initial=0.0, keepdims=True)
    unit = offset / np.where(peak > 0.0, peak, 1.0)
    length = np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]
    # As in `pabi.prox.ball`, whose comment says what the slack is for.
    target = proximal.radius / np.maximum(1.0, length)
    slack = (d + 16) * HALF_ULP
    inside = unit * (target * (1.0 - 2.0 * slack))
    moved = inside if centre is None else prox.add_towards(centre, inside)
    return np.where(peak <= target * (1.0 - slack), points, moved).reshape(x.shape)


@_each.register
def _simplex(proximal: prox.simplex, x: Array, step_size: float) -> Array:
    points = prox.within_range(x.reshape(len(x), -1))
    d = points.shape[1]
    y = np.maximum((points - np.max(points, axis=1, keepdims=True)) / proximal.total, -1.0)
    descending = np.sort(y, axis=1)[:, ::-1]
    thresholds = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, d + 1)
    positive = np.count_nonzero(descending > thresholds, axis=1, keepdims=True)
    threshold = np.take_along_axis(thresholds, np.maximum(positive, 1) - 1, axis=1)
    weights = np.maximum(y - threshold, 0.0)
    share = proximal.total / np.sum(weights, axis=1, keepdims=True)
    share *= 1.0 - (2 * d + 16) * HALF_ULP
    return np.asarray(weights * share).reshape(x.shape)


@_each.register
def _halfspace(proximal: prox.halfspace, x: Array, step_size: float) -> Array:
    """Points that are clearly inside stay, those clearly outside are moved to just inside the boundary;
    the few for which rounding could decide are left to the exact map."""
    points = prox.within_range(x.reshape(len(x), -1))
    scaled, offset = proximal._scaled
    normal = scaled.reshape(-1)
    excess = points @ normal - offset
    margin = np.abs(points) @ np.abs(normal) + abs(offset)
    margin *= (points.shape[1] + 8) * 4.0 * HALF_ULP
    outside = excess > margin
    result = points
    share = (excess[outside] + margin[outside]) / np.vdot(normal, normal)
    result[outside] -= share[:, None] * normal
    unclear = ~outside & ~(excess < -margin)
    for i in np.flatnonzero(unclear | ~np.all(np.isfinite(result), axis=1)):
        result[i] = proximal(x[i], step_size).reshape(-1)
    return result.reshape(x.shape)


Gradient = Callable[..., ArrayLike]

TAKEN = (
    "gradient returns that of the mean loss as described, regulariser included and rounding excluded, of "
    "each chain from its own point alone"
)


_CHAINS = dict.fromkeys(("draws", "num_samples", "num_chains"), "chains")
_OF_CHAIN = _CHAINS | {name: name for name in ("chains", "steps", "release", "prox")}
_RANDOM = "is called random_state, and is for tests only: leave it out to protect anyone"
_OTHER_WORDS = {
    **{
        name: f"belongs to the chain: write dataclasses.replace(chain, {own}={{}})"
        for name, own in _OF_CHAIN.items()
    },
    **dict.fromkeys(("tune", "warmup", "num_warmup", "burn_in"), OTHER_KEYWORDS["warmup"]),
    **dict.fromkeys(("seed", "rng", "random_seed"), _RANDOM),
}


@validate.answering(_OTHER_WORDS)
def langevin(
    chain: LangevinChain,
    gradient: Gradient,
    x0: ArrayLike,
    thin: int = 1,
    random_state: int | np.random.Generator | None = None,
    *,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> Draws:
    """Draws of `chain`, all of its chains at once, with their guarantee.

    Every step is x ← Π(x − h∇L(x) + √(2η)Z), Z ~ N(0, I), with h = `chain.gradient_step` and Π the
    proximal map `chain.prox`(·, h), on each chain by itself. What is released is rounded to a grid of
    2⁻²⁰ of the noise, so that low-order bits say nothing.

    Parameters
    ----------
    chain : LangevinChain
        What to do. With `release="last"` exactly one draw a chain is kept, its last iterate: nothing else
        that depends on a path is kept, shown or returned, which the guarantee rests on.
    gradient : callable
        (chains, *shape) ↦ (chains, *shape): ∇L of the mean loss, regulariser included, at every chain's
        point. With batches other than `FullBatch()` it is called as gradient(x, rows) and returns
        (1/size)·Σ_{i in rows} ∇ℓ_i(x) + l2·x, whatever the number of rows, an (m,) integer array. It must
        not keep or show what it is given. `mean_gradient` makes one for linear models.
    x0 : array
        Where the chains start, chosen without looking at the data: of the shape of a point, for all of
        them, or, with two axes or more of which the first is as long as there are chains, one for each.
        Not projected.
    thin : int
        With `release="path"`: every `thin`-th iterate is returned, counted back from the last, which is
        among them. The guarantee is that of the whole path.
    random_state : None, int or numpy Generator
        None (default): noise and batches from a ChaCha generator keyed by the operating system. Anything
        else is for tests: a PrivacyWarning, and a guarantee that says so.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read.

    Returns
    -------
    Draws
        What was released, its guarantee, and `chain`.

    Raises
    ------
    InvalidInput
        `diameter` where it is only assumed, `thin`, `x0`, `prox`, `random_state`, or a gradient of the
        wrong shape, not finite, or not in doubles where the path is hidden. `x0`, `prox` or `noise_std` where
        points may grow so large that doubles are coarse against the noise.
    NotApplicable
        No analysis covers the chain; nothing has then been computed from the data.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, δ is large for n records, or a `mean_gradient` may be longer
        or steeper than described.

    SamplingWarning
        Public numbers leave it possible that the draws are far from the Gibbs law, or say nothing of it
        (`pabi.mixing.outlook`); or the whole path would cost no more than the last iterates.

    Notes
    -----
    The law sampled is the chain's own, which is not the Gibbs law ∝ exp(−βL): see docs, "Sampling".

    References
    ----------
    Bok, Su, Altschuler 2024, §5; Bravo, Flores-Mella, Guzmán, (PLA).
    """
    terms = Terms(delta=delta, random_state=random_state, ledger=ledger)
    return langevin_on(terms, chain, gradient, x0, thin)


def langevin_on(
    terms: Terms,
    chain: LangevinChain,
    gradient: Gradient,
    x0: ArrayLike,
    thin: int,
    *,
    settles: bool = True,
) -> Draws:
    """What `langevin` returns, on these terms; `settles`: whether its target is the Gibbs law."""
    validate.instance("chain", chain, LangevinChain, "a pabi.LangevinChain")
    return _drawn_by(terms, chain, chain, gradient, x0, thin, chain.chains, settles)


def _drawn_by(
    terms: Terms,
    described: LangevinChain | LangevinDiffusion,
    steps: LangevinChain | NoisySGD,
    gradient: Gradient,
    x0: ArrayLike,
    thin: int,
    chains: int,
    settles: bool,
) -> Draws:
    """The draws of so many chains that take these steps for what was described."""
    run = _run_of(steps)
    refuse_unenforceable(run)
    every = thinned(run.release, thin, run.steps)
    enforced = check_gradient(gradient, run.loss, run.n, run.batches.batch_size(run.n))
    start = starting_points(x0, chains)
    if isinstance(gradient, MeanGradient) and start.shape[1:] != (gradient.d,):
        each = f" or {(chains, gradient.d)}, one a chain" if chains > 1 else ""
        raise InvalidInput("x0", f"expected shape ({gradient.d},){each}, got {np.shape(x0)}")
    _refuse_other_logs(gradient, described, start)
    each_chain(run.prox, start.shape[1:])  # refuses maps of other points
    # Before the data is touched: neither depends on it.
    longest = float(np.max(np.linalg.norm(start.reshape(len(start), -1), axis=1), initial=0.0))
    of_steps = start.shape[1:], longest, enforced
    steps, proven = paid_for(steps, terms.delta, *of_steps)
    run = _run_of(steps)
    proven = checked(proven, *walk_of(run, start))
    proven = proven.assuming(*rests_on(steps, *of_steps)) if hides(proven) else proven
    if settles and isinstance(steps, LangevinChain):
        _say_how_far(steps, start, proven, terms.delta)
    if not enforced:
        proven = proven.assuming(TAKEN)
    if isinstance(steps, NoisySGD):
        proven = repeated(proven, chains)
    sizes = np.broadcast_to(np.asarray(run.step_size, dtype=np.float64), run.steps)
    walks = Walks(
        gradient=gradient,
        l2=run.loss.l2,
        run=None if isinstance(run.batches, FullBatch) else run,
        prox=run.prox,
        start=start,
        sizes=sizes,
        # The noise of a step in doubles, not below the described one.
        noise_std=up(float(np.max(sizes * run.gradient_noise_std))),
        thin=every,
        moved=least_move(run),
        hidden=hides(proven),
    )
    return walks.released(terms, proven, steps, run.release)


def _run_of(steps: LangevinChain | NoisySGD) -> NoisySGD:
    return steps.run if isinstance(steps, LangevinChain) else steps


def _say_how_far(chain: LangevinChain, start: Array, proven: Guarantee, delta: float) -> None:
    """Warns of draws that may be far from their target, and offers a path that costs no more."""
    try:
        estimate = outlook_on(chain, start.reshape(len(start), -1), proven, delta)
    except NotApplicable as unknown:
        warn(f"how far draws are from their target is not known: {unknown.reason}", SamplingWarning)
        return
    if estimate.warning:
        warn(estimate.warning, SamplingWarning)
    if estimate.offer:
        warn_once(estimate.offer, SamplingWarning)


def check_gradient(gradient: Any, loss: Loss, n: int, size: int) -> bool:
    """Whether `gradient` is known to be the described one. Raises InvalidInput where it is another."""
    if isinstance(gradient, MeanGradient):
        gradient.refuse_other(loss, n)
        must_be(gradient.size == size, "size", f"{size!r} as described", gradient.size)
        return gradient.loss == loss
    validate.function("gradient", gradient)
    return False


def _refuse_other_logs(
    gradient: Any, described: LangevinChain | LangevinDiffusion, start: Array
) -> None:
    """Raises InvalidInput for a gradient from log densities that is of other records or another prior."""
    if isinstance(gradient, MeanOfLogs):
        gradient.refuse_other(described.n, described.gap, described.adjacency)
        gradient.refuse_other_prior(start[0])


def starting_points(x0: ArrayLike, chains: int) -> Array:
    """(chains, *shape) from one starting point or one for each chain. Raises InvalidInput."""
    start = starting_point(x0)
    if start.ndim >= 2 and len(start) == chains:
        return start
    return np.broadcast_to(start, (chains, *start.shape)).copy()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Walks:
    """Chains from their starting points, all but their noise.

    `run`: by which steps draw batches, None where every step uses all records. `start`: (chains, *shape).
    `sizes`: h of every step. `noise_std`: of the noise of one. `thin`: every how many steps an iterate is
    released, counted back from the last; None for the last alone. `moved`: see `least_move`. `hidden`:
    whether the guarantee needs the path to stay hidden.
    """

    gradient: Gradient
    l2: float
    run: NoisySGD | None
    prox: Prox | None
    start: Array
    sizes: Array
    noise_std: float
    thin: int | None
    moved: float
    hidden: bool

    def __len__(self) -> int:
        return len(self.start)

    def part(self, some: range) -> Self:
        """Some of the chains."""
        return replace(self, start=self.start[some.start : some.stop])

    def values(self, generator: np.random.Generator) -> Array:
        """(chains, draws, *shape) the iterates x ← Π(x − h·mean(x, step) + noise) that are released.

        Every local here is secret but the result.
        """
        order = None if self.run is None else batch_rows(self.run, generator)
        l2 = self.l2 if isinstance(self.gradient, MeanGradient) else 0.0  # others add it themselves
        x, project = self.start, each_chain(self.prox, self.start.shape[1:])
        steps = len(self.sizes)
        between = self.thin or steps
        draws = np.empty((len(x), -(-steps // between), *x.shape[1:]))
        for k, size in enumerate(self.sizes.tolist()):
            pull = -size * self._mean(x, order, k)
            rest = x - (size * l2) * x if l2 else x
            noise = StepNoise(self.noise_std, size * self.moved or self.noise_std, x[0].size)
            # As in trainings: a hidden path hands on a rounding of the real iterate. Else noise is on the
            # data's part, while its rounding is what `mean_gradient` leaves room for.
            x = noise(rest + pull, generator) if self.hidden else rest + noise(pull, generator)
            left = steps - 1 - k
            x = project(x, size)
            if left % between == 0:
                draws[:, -1 - left // between] = x
        return draws

    def _mean(self, x: Array, order: BatchRows | None, step: int) -> Array:
        """(chains, *shape) the gradient of a step's batch at `x`, of the data alone where it is ours."""
        own = self.gradient.of_data if isinstance(self.gradient, MeanGradient) else None
        gradient: Gradient = own or self.gradient
        short = not self.hidden  # roundings of a hidden path are to be small
        if order is None:
            return returned("gradient", gradient(read_only(x)), x.shape, short=short)
        rows = order.batch(step)
        if rows is None:  # an empty batch: the regulariser alone, and nobody is asked
            return np.asarray((0.0 if own else self.l2) * x)
        return returned("gradient", gradient(read_only(x), numbers_of(rows)), x.shape, short=short)

    def released(
        self, terms: Terms, proven: Guarantee, chain: LangevinChain | NoisySGD, release: str
    ) -> Draws:
        """The draws of the description that was accounted."""
        values, guarantee = terms.release(
            proven, lambda source: drawn(self, source, terms.machines)
        )
        return Draws(values, guarantee, chain, release)


def thinned(release: str, thin: int, steps: int) -> int | None:
    """Every how many iterates one is released, None for the last alone. Raises InvalidInput."""
    validate.integer("thin", thin, at_least=1, at_most=steps)
    if release == "path":
        return thin
    require(thin == 1, "thin", f'expected 1 with release="last", got {thin}')
    return None


# A reflected diffusion by fine steps of projected chains, accounted as the steps that are executed.


def diffusion(
    diffusion: LangevinDiffusion,
    gradient: Gradient,
    x0: ArrayLike,
    domain: Any = None,
    *,
    steps: int,
    chains: int = 1,
    thin: int = 1,
    random_state: int | np.random.Generator | None = None,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> Draws:
    """Draws of the chain that follows `diffusion` by `steps` equal fine steps, with that chain's guarantee.

    With η = time/steps, step k is x ← Π(x − h_k∇L(x) + √(2η)Z), h_k = ηβ at the middle of the step and
    Π the projection on `domain`, which stands in for the reflection. With a constant temperature that is
    a `LangevinChain`, run by `langevin`. How far the law of such a chain is from the diffusion's is
    another matter (it shrinks with the steps, as √η where the boundary is felt), and no guarantee of the
    diffusion is claimed for it: `chain` of the result is what was accounted and executed.

    Parameters
    ----------
    diffusion : LangevinDiffusion
        Loss, temperature, time, adjacency, `release` and the diameter of the set.
    gradient : callable
        (chains, *shape) ↦ (chains, *shape): ∇L of the mean loss, as for `langevin`.
    x0 : array
        As for `langevin`.
    domain : pabi.prox.ball, box, …, optional
        The convex set, of a diameter that is at most the diffusion's; None only where it has none.
    steps : int
        Fine steps.
    chains : int
        How many are run, each with noise of its own.
    thin : int
        With `release="path"`: every `thin`-th iterate is returned, as for `langevin`.
    random_state : None, int or numpy Generator
        None (default): noise from a ChaCha generator keyed by the operating system. Anything else is for
        tests: a PrivacyWarning, and a guarantee that says so.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read.

    Returns
    -------
    Draws
        What was released, its guarantee, and the chain, or the run, of the fine steps.

    Raises
    ------
    InvalidInput
        `diffusion`, `steps`, `chains`, a `domain` whose diameter is larger than the diffusion's, an
        `inverse_temperature` that is not finite and above 0 at the middles of steps; and as `langevin` does.
    NotApplicable
        No analysis covers the steps; nothing has then been computed from the data.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, (2); docs, "Sampling".
    """
    terms = Terms(delta=delta, random_state=random_state, ledger=ledger)
    return diffusion_on(terms, diffusion, gradient, x0, domain, steps, chains, thin)


def diffusion_on(
    terms: Terms,
    diffusion: LangevinDiffusion,
    gradient: Gradient,
    x0: ArrayLike,
    domain: Any,
    steps: int,
    chains: int,
    thin: int,
) -> Draws:
    """What `diffusion` returns, on these terms."""
    validate.instance("diffusion", diffusion, LangevinDiffusion, "a pabi.LangevinDiffusion")
    validate.integer("steps", steps, at_least=1)
    validate.integer("chains", chains, at_least=1)
    _check_domain(diffusion, domain)
    if diffusion.constant:
        chain = LangevinChain(
            diffusion.loss,
            diffusion.n,
            inverse_temperature=diffusion.inverse_temperature,
            step_size=diffusion.time / steps,
            steps=steps,
            gradient_gap=diffusion.gradient_gap,
            adjacency=diffusion.adjacency,
            prox=domain,
            chains=chains,
            release=diffusion.release,
        )
        return langevin_on(terms, chain, gradient, x0, thin, settles=False)
    run = executed(diffusion, steps, domain)
    return _drawn_by(terms, diffusion, run, gradient, x0, thin, chains, False)


def _check_domain(diffusion: LangevinDiffusion, domain: Any) -> None:
    enforced = getattr(domain, "diameter", None)
    if diffusion.diameter is None or (enforced is not None and enforced <= diffusion.diameter):
        return
    shown = "none" if domain is None else repr(domain)
    raise InvalidInput(
        "domain",
        f"expected one of diameter at most {diffusion.diameter!r}, the diffusion's, got {shown}",
    )


def executed(diffusion: LangevinDiffusion, steps: int, domain: Any) -> NoisySGD:
    """The steps x ← Π(x − h_k∇L(x) + √(2η)Z) as a run, with its noise rounded down."""
    length, gap = diffusion.time / steps, diffusion.gradient_gap
    beta = diffusion.inverse_temperature
    middles = np.arange(steps) + 0.5
    if isinstance(beta, np.ndarray):
        values = beta[(middles * (len(beta) / steps)).astype(np.intp)]
    else:
        values = np.array([float(beta(t)) for t in (middles * length).tolist()])
        require(
            np.all(np.isfinite(values) & (values > 0.0)),
            "inverse_temperature",
            "expected finite numbers > 0 at the middle of every step",
        )
    sizes = length * values
    return NoisySGD(
        diffusion.loss,
        diffusion.n,
        FullBatch(),
        steps=steps,
        step_size=sizes,
        noise_std=math.sqrt(2.0 * length) * (1.0 - 4.0 * HALF_ULP) / sizes,
        gradient_sensitivity=None if gap is None else fraction_up(Fraction(gap) * diffusion.n),
        adjacency=diffusion.adjacency,
        prox=domain,
        release=diffusion.release,
    )
