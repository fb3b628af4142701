"""Descriptions of Langevin samplers: the chain that is run, and the diffusion it approximates.

L is the mean loss over n records with its regulariser, and the Gibbs density is proportional to
exp(−βL): a posterior has β = n and l2 = (precision of the prior)/n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from pabi.describe.accounted import (
    ADJACENCY,
    IF_ANY,
    RECORDS,
    Accounted,
    Adjacency,
    Unit,
    about_gap,
    about_mean_loss,
    adjacent,
    changed,
    those_that_hold,
)
from pabi.describe.batches import Batches, FullBatch, KnownUses, order_of
from pabi.describe.iteration import Group, Groups, NoisyIteration, Stretch
from pabi.describe.losses import LOSS, Loss
from pabi.describe.runs import COUNT, RELEASE, NoisySGD, Prox
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, must_be, require
from pabi.numbers.rounding import Array, down, fraction_down, fraction_up
from pabi.numbers.validate import POSITIVE, by, convert

CELLS = 1 << 15  # into which the time of a diffusion of varying temperature is cut
_MARGIN = 1e-14  # relative, over all roundings of a step's numbers, those of its exponent included


def gradient_gap_of(
    loss: Loss,
    n: int,
    adjacency: Adjacency,
    gradient_gap: float | None,
) -> float:
    """Δ: how far ∇L of two adjacent data sets can be apart, stated or from the loss's gradient bound."""
    if gradient_gap is not None:
        return gradient_gap
    bound = loss.gradient_bound
    if bound is None:
        raise InvalidInput(
            "gradient_gap",
            "missing: nothing bounds one record's gradient; give it, or a loss with a gradient bound",
        )
    return gap_of(bound, n, adjacency)


def gap_of(bound: float, n: int, adjacency: Adjacency) -> float:
    """How far the mean gradients of adjacent data sets are apart at most, rounded up.

    `bound`: the largest norm of a record's.
    """
    return fraction_up(Fraction(bound) * changed(adjacency) / n)


# Words that others have for what is described here, {} for their value.


_INVERSE = "its inverse multiplies the mean loss: write inverse_temperature=n for a posterior"
_PRIOR = "belongs to the loss: write loss.with_l2(precision of the prior / inverse_temperature)"
_DRAWS = 'every chain gives one draw, or with release="path" its whole path: write chains={}'
_WARM_UP = (
    "a chain has none: all its steps are in steps, and discard= leaves out the first of a path"
)
_SAMPLER = "belongs to pabi.sampling.langevin"
OTHER_KEYWORDS = {
    **dict.fromkeys(
        ("beta", "kappa"), "is called inverse_temperature: write inverse_temperature={}"
    ),
    "temperature": _INVERSE,
    **dict.fromkeys(("l2", "tau", "prior_precision"), _PRIOR),
    **dict.fromkeys(("draws", "num_samples", "num_chains"), _DRAWS),
    **dict.fromkeys(("tune", "warmup", "num_warmup", "burn_in"), _WARM_UP),
    **dict.fromkeys(("thin", "x0", "seed", "random_state"), _SAMPLER),
    "noise_std": "follows from step_size: √(2·step_size)",
    "radius": "write prox=pabi.prox.ball({})",
    "epsilon": "write pabi.calibrate(chain, epsilon={}, delta=…)",
    "delta": "belongs to the guarantee: write chain.guarantee(delta={})",
}


@dataclass(frozen=True, eq=False)
class LangevinChain(Accounted):
    """The Langevin chain x ← Π(x − ηβ∇L(x) + √(2η)Z), Z ~ N(0, I), run `chains` times independently.

    Parameters
    ----------
    loss : Loss
        One record's loss ℓ and the regulariser; L(x) = (1/n)Σ ℓ_i(x) + (l2/2)‖x‖².
    n : int
        Records.
    inverse_temperature : float
        β > 0.
    step_size : float
        η > 0, a time: the noise of a step has variance 2η per coordinate. The gradient is multiplied by
        the double nearest to η·β.
    steps : int
        Steps of every chain.
    gradient_gap : float, optional
        Δ ≥ ‖∇L_D − ∇L_D'‖ for adjacent data sets; by default it follows from the loss's gradient bound G:
        2G/n ("replace_one") or G/n ("zero_out").
    adjacency : str
        "replace_one" (default) or "zero_out".
    prox : Prox, optional
        A proximal map applied after every step, e.g. a projection.
    diameter : float, optional
        A bound on the distance of any two iterates. Given without `prox` it is an assumption.
    chains : int
        Independent chains on the same data, all of them released.
    release : str
        "last": of every chain its last iterate. "path": everything, e.g. for diagnostics.
    batches : Batches
        `FullBatch()`, or the batches of stochastic gradients; with several chains not random ones.
    unit : str
        "record": whom the guarantee protects.
    rounding : float
        As of `NoisySGD`, of every chain: how far computed steps may be from exact ones.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Bok, Su, Altschuler 2024, §5; Bravo, Flores-Mella, Guzmán, §4.
    """

    loss: Loss = field(metadata=LOSS)
    n: int = field(metadata=by(COUNT))
    inverse_temperature: float = field(metadata=by(POSITIVE))
    step_size: float = field(metadata=by(POSITIVE))
    steps: int = field(metadata=by(COUNT))
    gradient_gap: float | None = field(default=None, metadata=IF_ANY)
    adjacency: Adjacency = field(default="replace_one", metadata=ADJACENCY)
    prox: Prox | None = None
    diameter: float | None = field(default=None, metadata=IF_ANY)
    chains: int = field(default=1, metadata=by(COUNT))
    release: str = "last"
    batches: Batches = field(default_factory=FullBatch)
    unit: Unit = field(default="record", metadata=RECORDS)
    rounding: float = field(default=0.0, metadata=by(validate.SHARE))

    def __post_init__(self) -> None:
        super().__post_init__()
        order = order_of(self.batches, self.n, self.steps)
        require(
            self.chains <= 1 or isinstance(order, KnownUses),
            "chains",
            f"expected 1 with batches drawn at random ({self.batches.kind}), got {self.chains}; "
            "run them one by one and compose",
        )
        require(
            self.gradient_gap is None or not order.fresh,
            "gradient_gap",
            f"a {self.batches.kind} batch holds the record in place of others or not at all: expected "
            "a loss with a gradient bound instead",
        )
        if not math.isfinite(self.gap * self.n):
            raise InvalidInput("gradient_gap", "its product with n leaves the range of numbers")
        if not math.isfinite(self.step_noise_std):
            raise InvalidInput("step_size", "twice it leaves the range of numbers")
        require(
            0.0 < self.gradient_step < math.inf
            and self.step_noise_std / self.gradient_step < math.inf,
            "inverse_temperature",
            "its product with step_size leaves the range of numbers",
        )
        _ = self.run

    @property
    def gap(self) -> float:
        """Δ: how far the gradients of two adjacent data sets' mean losses can be apart."""
        return gradient_gap_of(self.loss, self.n, self.adjacency, self.gradient_gap)

    @property
    def gradient_step(self) -> float:
        """The double nearest to η·β, by which the gradient of the mean loss is multiplied."""
        return float(self.step_size) * float(self.inverse_temperature)

    @property
    def step_noise_std(self) -> float:
        """√(2η): the standard deviation, per coordinate, of a step's noise."""
        return math.sqrt(2.0 * self.step_size)

    @cached_property
    def run(self) -> NoisySGD:
        """One chain as a run of noisy SGD, with the noise rounded down."""
        noise = self.step_noise_std / self.gradient_step
        while (Fraction(self.gradient_step) * Fraction(noise)) ** 2 > 2 * Fraction(self.step_size):
            noise = down(noise)
        gap = self.gradient_gap
        return NoisySGD(
            self.loss,
            self.n,
            self.batches,
            steps=self.steps,
            step_size=self.gradient_step,
            noise_std=noise,
            gradient_sensitivity=None if gap is None else fraction_up(Fraction(gap) * self.n),
            adjacency=self.adjacency,
            prox=self.prox,
            diameter=self.diameter,
            release=self.release,
            rounding=self.rounding,
        )

    def iteration(self) -> NoisyIteration:
        """The normal form of one chain, as the worst record sees it.

        Returns
        -------
        NoisyIteration
            One chain in normal form.

        Raises
        ------
        InvalidInput
            Where no record is the worst.
        """
        return self.run.iteration()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this chain to hold."""
        return chain_sentences(self, self.run.assumptions)


LangevinChain.__init__ = validate.answering(OTHER_KEYWORDS)(LangevinChain.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False)
class LangevinDiffusion(Accounted):
    """The Langevin diffusion dθ = −β_t ∇L(θ)dt + √2 dW up to `time`, reflected at a convex set.

    Parameters
    ----------
    loss : Loss
        One record's loss and the regulariser; L is the mean loss. Only the lower end of its curvature
        matters: a convex loss need not be smooth.
    n : int
        Records.
    inverse_temperature : float, (N,) array or callable
        β > 0: a constant, one value for each of N equal parts of [0, time], or a function of time,
        which is read at the ends of equal cells and assumed monotone within each.
    time : float
        T > 0.
    gradient_gap : float, optional
        Δ ≥ ‖∇L_D − ∇L_D'‖; by default from the loss's gradient bound.
    adjacency : str
        "replace_one" (default) or "zero_out".
    diameter : float, optional
        The diameter of the convex set at whose boundary the diffusion is reflected.
    release : str
        "last": the point at `time`. "path": the whole path.
    unit : str
        "record": whom the guarantee protects.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, (1) and (2).
    """

    loss: Loss = field(metadata=LOSS)
    n: int = field(metadata=by(COUNT))
    inverse_temperature: Any
    time: float = field(metadata=by(POSITIVE))
    gradient_gap: float | None = field(default=None, metadata=IF_ANY)
    adjacency: Adjacency = field(default="replace_one", metadata=ADJACENCY)
    diameter: float | None = field(default=None, metadata=IF_ANY)
    release: str = field(default="last", metadata=by(RELEASE))
    unit: Unit = field(default="record", metadata=RECORDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.inverse_temperature):
            convert(self, inverse_temperature=partial(validate.schedule, positive=True))
        _ = self.gap, self.cells

    @property
    def gap(self) -> float:
        """Δ: how far the gradients of two adjacent data sets' mean losses can be apart."""
        return gradient_gap_of(self.loss, self.n, self.adjacency, self.gradient_gap)

    @property
    def constant(self) -> bool:
        """Whether the temperature is the same all the time."""
        return isinstance(self.inverse_temperature, float)

    @property
    def least_curvature(self) -> float | None:
        """The lower end of the curvature of L with its regulariser, rounded down; None if unknown."""
        lo = self.loss.least_curvature
        return None if lo is None else fraction_down(Fraction(lo) + Fraction(self.loss.l2))

    @cached_property
    def cells(self) -> tuple[Array, Array]:
        """(least β, largest β) in each of equal cells of [0, time], read-only arrays."""
        beta: Any = self.inverse_temperature
        if isinstance(beta, float):
            both = np.array([beta])
            return both, both
        return (beta, beta) if isinstance(beta, np.ndarray) else _read(beta, self.time)

    def iteration(self, cells: int = CELLS) -> NoisyIteration:
        """An iteration in normal form that is no safer than the diffusion, and as safe in the limit.

        Step k stands for a cell of length h in which the distance z of two paths obeys
        z' = −mβz + βΔ − a, m the curvature, and the shifts are paid at a constant rate a. With
        E = ∫_0^h e^(−mβt)dt: c = e^(−mβh), s = βΔE and σ = E√(2/h).

        Parameters
        ----------
        cells : int, in 1..2^24
            About how many equal steps.

        Returns
        -------
        NoisyIteration
            Slopes and sensitivities are rounded up, noises down.

        Raises
        ------
        InvalidInput
            For `cells` outside of its range.
        NotApplicable
            Where no lower end of the curvature is known, or the paths may part beyond all numbers.

        References
        ----------
        docs, "Diffusions".
        """
        validate.integer("cells", cells, at_least=1, at_most=1 << 24)
        m = self.least_curvature
        if m is None:
            raise NotApplicable(f"nothing is known of the curvature of a {self.loss.kind} loss")
        low, high = self.cells
        each = max(1, -(-cells // low.size))
        h = self.time / (each * low.size)
        rate = (low if m > 0.0 else high) * m
        x = rate * h
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            margin = _MARGIN * (1.0 + np.abs(x))
            slope = np.where(x == 0.0, 1.0, np.exp(-x) * (1.0 + margin))
            length = h * np.where(x == 0.0, 1.0, -np.expm1(-x) / np.where(x == 0.0, 1.0, x))
            s = high * self.gap * length * (1.0 + margin)
            sigma = length * math.sqrt(2.0 / h) * (1.0 - margin)
        if not (np.isfinite(slope) & np.isfinite(s)).all():
            raise NotApplicable("the paths of adjacent data sets may part beyond all numbers")
        if low.size == 1:
            stretch = Stretch(1, float(slope[0]), float(s[0]), float(sigma[0]))
            columns: tuple[Any, ...] = Groups((Group(each, (stretch,)),)).columns()
        else:
            columns = tuple(np.repeat(column, each) for column in (slope, s, sigma))
        c, per_step, noise = columns
        return NoisyIteration(c, per_step, noise, diameter=self.diameter, adjacency=self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this diffusion to hold."""
        return diffusion_sentences(self)


def _read(beta: Callable[[float], float], time: float) -> tuple[Array, Array]:
    """β at the ends of equal cells: (the lesser, the larger) of each cell."""
    ends = np.linspace(0.0, time, CELLS + 1)
    values = np.empty(ends.size)
    for k, t in enumerate(ends.tolist()):
        try:
            value = float(beta(t))
        except (TypeError, ValueError, ArithmeticError) as bad:
            raise InvalidInput(
                "inverse_temperature", f"expected a number at time {t!r}, got an error: {bad}"
            ) from None
        # β may vanish where the clock starts, as t^a does.
        must_be(
            0.0 <= value < math.inf,
            "inverse_temperature",
            f"a finite number ≥ 0 at time {t!r}",
            value,
        )
        values[k] = value
    if not (values > 0.0).any():
        raise InvalidInput("inverse_temperature", "expected a function that is not 0 throughout")
    low, high = np.minimum(values[:-1], values[1:]), np.maximum(values[:-1], values[1:])
    low.flags.writeable = high.flags.writeable = False
    return low, high


def chain_sentences(chain: LangevinChain, of_one: Sequence[str]) -> tuple[str, ...]:
    """What a guarantee of `chain` rests on, where that of one chain as noisy SGD rests on `of_one`."""
    gap = None if chain.gradient_gap is None else about_gap(chain.gradient_gap, chain.loss)
    return those_that_hold(
        *((gap if "(gradient_sensitivity)" in s else None) or s for s in of_one),
        chain.chains > 1
        and f"the {chain.chains} chains use independent noise, and no others are released",
    )


def by_cells(diffusion: LangevinDiffusion, hidden: bool) -> NoisyIteration:
    """The iteration that stands for a diffusion of which only the last point is seen, or the path: then
    nothing is forgotten, and of its steps only s_k/σ_k means anything. Raises as `iteration`."""
    if hidden:
        return diffusion.iteration()
    flat = replace(diffusion, loss=Loss.convex(1.0), gradient_gap=diffusion.gap)
    return flat.iteration(1)


FOLLOWED_EXACTLY = (
    "the diffusion is followed exactly; a chain of finite steps is another description"
)


def diffusion_sentences(diffusion: LangevinDiffusion, hidden: bool = True) -> tuple[str, ...]:
    """What a guarantee of `diffusion` rests on; `hidden`: whether it needs the path to stay hidden."""
    last = "only the point at the end is released; the path before it stays hidden"
    return those_that_hold(
        *adjacent(diffusion.adjacency, diffusion.unit),
        last if hidden else "the whole path may be released",
        FOLLOWED_EXACTLY,
        callable(diffusion.inverse_temperature)
        and f"the inverse temperature is monotone on each of {diffusion.cells[0].size} equal parts of the "
        "time",
        "the starting point, the temperature and the time do not depend on the data",
        about_gap(diffusion.gradient_gap, diffusion.loss),
        *(about_mean_loss(diffusion.loss) if hidden else ()),
        diffusion.diameter is not None
        and f"the diffusion is reflected at the boundary of a convex set of diameter {diffusion.diameter!r}",
    )
