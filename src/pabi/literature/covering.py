"""Which published bounds cover a description."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from pabi.convert import clt_mu
from pabi.describe.iteration import NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.moduli import Linear, Modulus, Sqrt
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.literature import (
    altschuler_talwar,
    asoodeh_diaz,
    balle,
    bok,
    bravo,
    chien_li,
    chien_wang_chen_li,
    dong,
    feldman,
    kong_ribero,
    langevin_universality,
    mcsherry_talwar,
    ye_shokri,
)
from pabi.literature.published import (
    Bound,
    CandidateBound,
    Evaluate,
    Hypothesis,
    Reading,
    Terms,
    arguments,
    check,
    covers,
    needs,
    reading,
    require,
)
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown, shown_down

# Which published bounds cover a noisy iteration in normal form, and what they say of it.
#
# Some are about private runs, others about chains that differ only in where they start.


# Private runs.


_ONE_START = needs("one starting point", lambda it: it.start == 0.0)


def _equal_steps(it: NoisyIteration) -> tuple[float, float, float]:
    """(c, s, σ) of equal steps from one starting point; c is NaN where no linear modulus is known."""
    _ONE_START(it)
    columns = [
        np.unique(np.asarray(x, dtype=np.float64))
        for x in (it.slopes, it.step_sensitivity, it.step_noise_std)
    ]
    require(all(len(x) == 1 for x in columns), "steps that are all alike")
    c, s, sigma = (float(x[0]) for x in columns)
    require(s > 0.0 and sigma > 0.0, "steps that use the record, with noise")
    return c, s, sigma


def _mus_iterations(it: NoisyIteration) -> Array:
    """μ of every step that uses the record."""
    _ONE_START(it)
    s, sigma = (_column(it, x) for x in (it.step_sensitivity, it.step_noise_std))
    require(bool(np.all(sigma[s > 0.0] > 0.0)), "noise in every step that uses the record")
    return s[s > 0.0] / sigma[s > 0.0]


def _column(it: NoisyIteration, values: Any) -> Array:
    """(steps,) values of every step."""
    assert it.steps is not None
    return np.broadcast_to(np.asarray(values, dtype=np.float64), it.steps)


_CONTRACTING = needs("steps that contract", lambda it: _equal_steps(it)[0] < 1.0)
_NONEXPANSIVE = needs("steps that do not expand", lambda it: _equal_steps(it)[0] <= 1.0)
_ON_A_SET = needs("a set of finite diameter", lambda it: it.diameter is not None)
_PRIVATE: Terms = {
    "L": lambda it: _equal_steps(it)[1],
    "n": lambda it: 1,
    "noise_std": lambda it: _equal_steps(it)[2],
    "step_size": lambda it: 1.0,
    "slope": lambda it: _equal_steps(it)[0],
    "steps": attrgetter("steps"),
    "diameter": attrgetter("diameter"),
}

# Chains.


class Chain(NamedTuple):
    """Equal steps from starts at a distance: κ, h and σ of every step."""

    distance: float
    kappa: list[float]
    h: list[float]
    sigma: list[float]


def _chain(it: NoisyIteration) -> Chain:
    require(
        it.start > 0.0 and not np.any(np.asarray(it.step_sensitivity) > 0.0),
        "runs that differ only in where they start",
    )
    if it.moduli is None:
        shapes = [(float(c) ** 2, 0.0) for c in _column(it, it.contraction)]
    else:
        shapes = [_shape(modulus) for modulus in it.every_modulus]
    sigma = _column(it, it.step_noise_std)
    require(bool(np.all(sigma > 0.0)), "noise in every step")
    kappa, h = (list(values) for values in zip(*shapes, strict=True))
    require(min(kappa) > 0.0, "slopes above 0")
    distance = min(it.start, math.inf if it.diameter is None else it.diameter)
    return Chain(distance, kappa, h, sigma.tolist())


def _shape(modulus: Modulus) -> tuple[float, float]:
    """(κ, h) of the modulus √(κδ² + h)."""
    if isinstance(modulus, Linear):
        return modulus.slope**2, 0.0
    if isinstance(modulus, Sqrt):
        return modulus.kappa, modulus.h
    raise NotApplicable("needs moduli √(κδ² + h)")


def _equal_chain(it: NoisyIteration) -> tuple[float, float, float]:
    """(κ, h, σ) of a chain whose steps are all alike."""
    columns = _chain(it)[1:]
    require(all(len(set(x)) == 1 for x in columns), "steps that are all alike")
    kappa, h, sigma = (x[0] for x in columns)
    return kappa, h, sigma


def _nonsmooth(it: NoisyIteration) -> None:
    kappa, h, _ = _equal_chain(it)
    require(kappa == 1.0 and h > 0.0, "moduli √(δ² + h)")


def _linear(lowest: float, highest: float) -> Hypothesis:
    """Linear moduli with squared slopes in this range."""

    def hypothesis(it: NoisyIteration) -> None:
        kappa, h, _ = _equal_chain(it)
        require(h == 0.0, "linear moduli")
        require(lowest <= kappa <= highest, f"a slope in [{shown(lowest)}, {shown_down(highest)}]")

    return hypothesis


_CHAIN_ITERATIONS: Terms = {
    "diameter": lambda it: _chain(it).distance,
    "kappa": lambda it: _chain(it).kappa,
    "h": lambda it: _chain(it).h,
    "sigma": lambda it: _chain(it).sigma,
}
_EQUAL_CHAIN: Terms = {
    "diameter": lambda it: _chain(it).distance,
    "kappa": lambda it: _equal_chain(it)[0],
    "h": lambda it: _equal_chain(it)[1],
    "step_noise_std": lambda it: _equal_chain(it)[2],
    "steps": attrgetter("steps"),
}

ITERATIONS = (
    covers(dong.corollary_3_3, {"mus": _mus_iterations}),
    covers(bok.theorem_4_2, _PRIVATE, _CONTRACTING),
    covers(bok.theorem_4_3, _PRIVATE, _NONEXPANSIVE, _ON_A_SET),
    covers(bravo.theorem_3_4, _CHAIN_ITERATIONS),
    covers(bravo.corollary_3_7, _EQUAL_CHAIN, _nonsmooth),
    covers(bravo.corollary_3_8, _EQUAL_CHAIN, _linear(0.0, math.inf)),
    covers(altschuler_talwar.contractive, _EQUAL_CHAIN, _linear(0.0, 1.0)),
    covers(altschuler_talwar.proposition_2_10, _EQUAL_CHAIN, _linear(1.0, 1.0)),
    covers(balle.iterated_lipschitz, _EQUAL_CHAIN, _linear(0.0, math.inf)),
)

# Which published bounds cover a run of noisy SGD, and what they say of it.
#
# Every candidate names the hypotheses of its theorem, in the order in which they are checked, and the
# terms of the run that its formula takes.


# Hypotheses: what a run must be for the theorems to speak of it.

_PLAIN: tuple[Hypothesis, ...] = (
    needs("plain noisy SGD", lambda run: run.rule.plain),
    needs("release of the last iterate only", lambda run: run.release == "last"),
    needs("constant step size and noise", lambda run: run.constant),
    needs("no cool-down", lambda run: run.cooldown_steps == 0),
)
_FULL = (*_PLAIN, needs("full batches", lambda run: run.batches.kind == "full_batch"))
_DIVIDING = needs("a batch size that divides n", lambda run: run.n % run.batch_size == 0)
_CYCLIC = (
    *_PLAIN,
    needs("cyclic batches", lambda run: run.batches.kind == "cyclic"),
    _DIVIDING,
    needs("whole epochs", lambda run: run.data_steps % run.steps_per_epoch == 0),
)
_UNCAPPED = needs("batches without a cap", lambda run: getattr(run.batches, "cap", None) is None)
_FIXED_SIZE = (
    *_PLAIN,
    needs("batches of fixed size drawn afresh", lambda run: run.batches.kind == "fixed_size"),
    _UNCAPPED,
)
_POISSON = (
    *_PLAIN,
    needs("Poisson batches", lambda run: run.batches.kind == "poisson"),
    needs(
        "Poisson batches of probability size/n",
        lambda run: getattr(run.batches, "probability", None) is None,
    ),
    _UNCAPPED,
)
_WITHOUT_L2 = needs("no ℓ2 term beside the bounded gradients", lambda run: run.loss.l2 == 0.0)
_REPLACED = (
    needs("adjacency replace_one", lambda run: run.adjacency == "replace_one"),
    _WITHOUT_L2,
)
_TWO_BATCHES = needs("at least 2 batches an epoch", lambda run: run.steps_per_epoch >= 2)
_AN_EPOCH = needs("at least one epoch", lambda run: run.steps >= run.steps_per_epoch)
_ONE_PASS = needs(
    "one pass, one record at a time", lambda run: run.batch_size == 1 and _epochs(run) == 1
)


def _strongly_convex(run: NoisySGD) -> None:
    slope = _slope(run)
    require(slope < 1.0, f"strongly convex losses and steps that contract (slope {shown(slope)})")


def _convex(run: NoisySGD) -> None:
    slope = _slope(run)
    require(slope <= 1.0, f"convex smooth losses and η ≤ 2/M (slope {shown(slope)})")


# Terms: what the formulas take.


def _slope(run: NoisySGD) -> float:
    step = np.array([run.step_size])
    return float(run.loss.slopes(step, run.clip_norm, clipping=run.clipping)[0])


def _diameter(run: NoisySGD) -> float:
    require(math.isfinite(run.range_diameter), "a set of finite diameter")
    return run.range_diameter


def _record_bound(run: NoisySGD) -> float:
    bound = run.record_gradient_bound
    if bound is None:
        raise NotApplicable("needs a bound on one record's gradient")
    return bound


def _curvature(run: NoisySGD) -> tuple[float, float]:
    """(m, M) of losses of curvature in [−m, M]."""
    curvature = run.loss.curvature
    if curvature is None:
        raise NotApplicable("needs losses of known curvature")
    m, big = max(0.0, -curvature[0]), max(0.0, curvature[1])
    require(m + big > 0.0, "losses that are not linear")
    return m, big


def _smoothness(run: NoisySGD) -> float:
    return max(_curvature(run))


def _noise_std(run: NoisySGD) -> float:
    return float(run.gradient_noise_std)


def _epochs(run: NoisySGD) -> int:
    return run.data_steps // run.steps_per_epoch


def _mus(run: NoisySGD) -> list[float]:
    """μ of every use of a record whose gradients are all released."""
    require(not run.order.fresh, "batches that use a record at known times")
    require(run.constant, "constant step size and noise")
    uses = -(-run.data_steps // run.steps_per_epoch)
    return [run.sensitivity / (run.batch_size * _noise_std(run))] * uses


def _hoelder(run: NoisySGD) -> tuple[float, float]:
    """(p, M): gradients that are p-Hölder with constant M, convex or not."""
    if run.loss.kind == "holder":
        parameters = dict(run.loss.parameters)
        return parameters["exponent"], parameters["constant"]
    return 1.0, _smoothness(run)


def _step_constants(run: NoisySGD) -> tuple[float, float]:
    """(s, σ) of a step, on the iterate."""
    s, sigma = run.step_constants(np.array([run.step_size]), np.array([run.gradient_noise_std]))
    return float(s[0]), float(sigma[0])


_BOUNDED: tuple[Hypothesis, ...] = (*_REPLACED, _record_bound, _diameter)
_CLIPPED = (
    *_PLAIN,
    needs("cyclic batches", lambda run: run.batches.kind in ("cyclic", "full_batch")),
    _DIVIDING,
    *_REPLACED,
    _record_bound,
)
_NOT_CONCAVE = needs("convex losses", lambda run: _curvature(run)[0] == 0.0)

_RUN: Terms = {
    "b": attrgetter("batch_size"),
    "n": attrgetter("n"),
    "steps": attrgetter("steps"),
    "step_size": attrgetter("step_size"),
    "batches_per_epoch": attrgetter("steps_per_epoch"),
    "epochs": _epochs,
    "diameter": _diameter,
    "noise_std": _noise_std,
    "slope": _slope,
}
# L is a bound on one record's pull here, and on its gradient there.
_PULL: Terms = {**_RUN, "L": attrgetter("sensitivity")}
_GRADIENT: Terms = {**_RUN, "L": _record_bound, "smoothness": _smoothness}
_KONG: Terms = {
    **_RUN,
    "m": lambda run: _curvature(run)[0],
    "M": lambda run: _curvature(run)[1],
    "clip_norm": _record_bound,
    "step_noise_std": lambda run: run.step_size * _noise_std(run),
}
_CHIEN: Terms = {
    **_RUN,
    "exponent": lambda run: _hoelder(run)[0],
    "constant": lambda run: _hoelder(run)[1],
    "step_sensitivity": lambda run: _step_constants(run)[0],
    "step_noise_std": lambda run: _step_constants(run)[1],
    "order": lambda run: 2.0,  # linear in the order
}

# Bounds with something left to choose.


def _best_start(
    bound: Bound[...], run: NoisySGD, delta: float, longest: int, guess: Callable[[int], float]
) -> Reading:
    """The least ε found over the numbers of last steps, 1..longest, in which the theorem lets one pay.

    From the best of `guess` downhill, in steps that are halved until they are one. Every number is valid.
    """
    values = arguments(bound, _PULL, run)

    @cache
    def epsilon(left: int) -> float:
        return reading(bound, {**values, "start": run.steps - left}, delta)[0]

    here = min({round(x) for x in np.geomspace(1, longest, 200)}, key=guess)
    best, stride = epsilon(here), max(1, here // 8)
    while True:
        tried = {k: epsilon(k) for k in (here - stride, here + stride) if 1 <= k <= longest}
        nearest = min(tried, key=lambda k: tried[k], default=here)
        if tried.get(nearest, math.inf) < best:
            here, best = nearest, tried[nearest]
        elif stride == 1:
            return best, None
        else:
            stride //= 2


def _clt(run: NoisySGD, factor: float, steps: int, shift: float) -> float:
    """The central limit's guess of the μ of a shift and `steps` subsampled factors."""
    mu = factor * run.sensitivity / (run.batch_size * _noise_std(run))
    return math.hypot(shift, clt_mu(run.batch_size / run.n, mu, steps))


def _bok_4_9(run: NoisySGD, delta: float) -> Reading:
    check(run, (*_FIXED_SIZE, _strongly_convex))
    slope, t = _slope(run), run.steps
    require(t >= 2, "at least 2 steps")
    unit = 2.0 * math.sqrt(2.0) * run.sensitivity / (run.batch_size * _noise_std(run))

    def guess(left: int) -> float:
        moved = unit * (slope ** (left + 1) - slope**t) / (1.0 - slope)
        return _clt(run, 2.0, left, moved)

    return _best_start(bok.theorem_4_9, run, delta, t - 1, guess)


def _bok_4_10(run: NoisySGD, delta: float) -> Reading:
    check(run, (*_FIXED_SIZE, _convex))
    unit = math.sqrt(2.0) * _diameter(run) / (run.step_size * _noise_std(run))

    def guess(left: int) -> float:
        return _clt(run, 2.0 * math.sqrt(2.0), left, unit / math.sqrt(left))

    return _best_start(bok.theorem_4_10, run, delta, run.steps, guess)


def _convex_hoelder(run: NoisySGD) -> list[tuple[float, float]]:
    """Pairs (p, M): convex losses whose gradient is p-Hölder with constant M."""
    clips = run.loss.clips(run.clip_norm, run.clipping)
    require(not clips, "gradients that are bounded by themselves")
    pairs = [(float(p), float(c)) for p, c in dict(run.loss.parameters).get("pairs", ())]
    curvature, bound = run.loss.curvature, run.loss.gradient_bound
    convex = bool(pairs) or run.loss.kind == "lipschitz" or bool(curvature and curvature[0] >= 0.0)
    require(convex, "convex losses")
    if curvature is not None and curvature[1] > 0.0:
        pairs.append((1.0, curvature[1]))
    if bound is not None:
        pairs.append((0.0, 2.0 * bound))
    return pairs


def _best_exponent(bound: Bound[...]) -> Evaluate:
    """The least ε over the Hölder exponents that are known of the losses."""

    def evaluate(run: NoisySGD, delta: float) -> Reading:
        check(run, (*_POISSON, *_BOUNDED))
        values: dict[str, Any] = arguments(bound, _GRADIENT, run)
        best, reason = math.inf, "no Hölder exponent"
        for exponent, constant in _convex_hoelder(run):
            pair = {"exponent": exponent, "constant": constant}
            try:
                best = min(best, reading(bound, {**values, **pair}, delta)[0])
            except NotApplicable as no:
                reason = no.reason
        if best == math.inf:
            raise NotApplicable(reason)
        return best, None

    return evaluate


RUNS = (
    covers(dong.corollary_3_3, {"mus": _mus}),
    covers(bok.theorem_4_1, _PULL, *_FULL),
    covers(bok.theorem_4_2, _PULL, *_FULL, _strongly_convex),
    covers(bok.theorem_4_3, _PULL, *_FULL, _convex),
    covers(bok.theorem_4_4, _PULL, *_CYCLIC),
    covers(bok.theorem_4_5, _PULL, *_CYCLIC, _strongly_convex),
    covers(bok.theorem_4_6, _PULL, *_CYCLIC, _convex),
    covers(bok.theorem_4_8, _PULL, *_FIXED_SIZE),
    CandidateBound(bok.theorem_4_9, _bok_4_9),
    CandidateBound(bok.theorem_4_10, _bok_4_10),
    covers(ye_shokri.theorem_3_3, _PULL, *_CYCLIC, _TWO_BATCHES, _strongly_convex),
    covers(
        feldman.theorem_23,
        {**_GRADIENT, "position": attrgetter("n")},
        *(*_CYCLIC, _ONE_PASS, _convex, *_REPLACED),
    ),
    covers(kong_ribero.theorem_4_3, _KONG, *_CLIPPED, _AN_EPOCH),
    covers(kong_ribero.theorem_4_4, _KONG, *_CLIPPED),
    covers(kong_ribero.theorem_4_5, _KONG, *_CLIPPED),
    covers(kong_ribero.equation_22, _KONG, *_CLIPPED, _NOT_CONCAVE),
    covers(kong_ribero.corollary_c_3, _KONG, *_CLIPPED, _curvature, _AN_EPOCH),
    covers(chien_li.theorem_3_1, _CHIEN, *_FULL, _WITHOUT_L2),
    CandidateBound(bravo.theorem_5_2, _best_exponent(bravo.theorem_5_2)),
    CandidateBound(bravo.remark_5_3, _best_exponent(bravo.remark_5_3)),
    covers(bravo.theorem_5_4, _GRADIENT, *_FIXED_SIZE, *_BOUNDED),
    covers(altschuler_talwar.theorem_3_1, _GRADIENT, *_POISSON, *_BOUNDED, _convex),
    covers(asoodeh_diaz.theorem_2, _GRADIENT, *_FIXED_SIZE, *_BOUNDED),
    covers(asoodeh_diaz.equation_24, _GRADIENT, *_FIXED_SIZE, *_BOUNDED),
)

# Which published bounds cover a Langevin chain, a diffusion or an exponential mechanism.


def _strong_convexity_langevin(
    description: LangevinChain | LangevinDiffusion | ExponentialMechanism,
) -> float:
    require(description.loss.kind != "saddle", "potentials, not convex–concave functions")
    lo = description.loss.least_curvature
    m = 0.0 if lo is None else lo + description.loss.l2
    require(m > 0.0, "strongly convex losses")
    return m


# Chains: one of them is a run of noisy SGD.


def _of_run(evaluate: Evaluate) -> Evaluate:
    def of_chain(chain: LangevinChain, delta: float) -> Reading:
        require(chain.chains == 1, "a single chain")
        return evaluate(chain.run, delta)

    return of_chain


def _small_steps(chain: LangevinChain) -> None:
    require(chain.chains == 1 and chain.release == "last", "the last iterate of a single chain")
    require(chain.batches.kind == "full_batch", "full batches")
    m, curvature = _strong_convexity_langevin(chain), chain.loss.curvature
    require(curvature is not None, "smooth losses")
    assert curvature is not None
    big = curvature[1] + chain.loss.l2
    require(chain.gradient_step * (m + big) <= 2.0, "η ≤ 2/(M + m)")


_CHAIN: Terms = {
    "L": lambda chain: chain.inverse_temperature * chain.gap,
    "strong_convexity": lambda chain: chain.inverse_temperature * _strong_convexity_langevin(chain),
    "step_size": attrgetter("step_size"),
}
CHAINS = (
    *(CandidateBound(c.bound, _of_run(c.evaluate)) for c in RUNS),
    covers(bok.proposition_5_1, _CHAIN, _small_steps),
)

# Diffusions.


def _squared_integral(diffusion: LangevinDiffusion) -> float:
    """∫β² dt, at most."""
    largest = diffusion.cells[1]
    return float(np.mean(largest * largest)) * diffusion.time


_HIDDEN = needs("a hidden path", lambda diffusion: diffusion.release == "last")
_CONSTANT = needs("a constant temperature", lambda diffusion: diffusion.constant)
_PATH: Terms = {
    "gradient_gap": attrgetter("gap"),
    "time": attrgetter("time"),
    "squared_integral": _squared_integral,
}
_LAST_POINT: Terms = {
    **_PATH,
    "m": _strong_convexity_langevin,
    "inverse_temperature": attrgetter("inverse_temperature"),
}
DIFFUSIONS = (
    covers(langevin_universality.lemma_c_1, _PATH),
    covers(langevin_universality.lemma_i_2, _LAST_POINT, _HIDDEN, _CONSTANT),
)

# Exponential mechanisms: F = κL.


_CONVEX = needs(
    "convex losses",
    lambda mechanism: mechanism.least_curvature is not None and mechanism.least_curvature >= 0.0,
)
_DIFFERENCE: Terms = {
    "L": lambda mechanism: mechanism.kappa * mechanism.gap,
    "strong_convexity": lambda mechanism: mechanism.kappa * _strong_convexity_langevin(mechanism),
}
# L = κΔ/2 for F and F' that are both L-Lipschitz; only ‖∇F − ∇F'‖ ≤ 2L matters.
_BOTH: Terms = {
    "L": lambda mechanism: 0.5 * mechanism.kappa * mechanism.gap,
    "diameter": attrgetter("diameter"),
}
MECHANISMS = (
    covers(mcsherry_talwar.exponential_mechanism, _BOTH),
    covers(bok.corollary_5_2, _DIFFERENCE),
    covers(bok.corollary_5_4, _BOTH, _CONVEX),
)

# Which published bounds cover forgetting, and what they say of it.


def _strong_convexity(unlearning: Unlearning) -> float:
    """m of one record's loss with its regulariser."""
    loss, run = unlearning.run.loss, unlearning.run
    curvature = loss.effective_curvature(run.clip_norm, run.clipping)
    if curvature is None:
        raise NotApplicable("needs losses of known curvature")
    lo, hi = curvature
    require(run.step_size * (lo + hi + 2.0 * loss.l2) <= 2.0, "steps of size 2/(m + L) at most")
    return float(lo + loss.l2)


def _noise(unlearning: Unlearning) -> float:
    """σ, where a step has noise √(2η)·σ on the iterate."""
    run = unlearning.run
    return float(run.gradient_noise_std * run.step_size / math.sqrt(2.0 * run.step_size))


def _is_plain(unlearning: Unlearning) -> bool:
    run = unlearning.whole
    return run.rule.plain and run.constant and run.release == "last"


_HYPOTHESES: tuple[Hypothesis, ...] = (
    needs("one request for one record", lambda u: len(u.requests) == u.records == 1),
    needs("no model handed out", lambda u: not u.published),
    needs("a record replaced by another", lambda u: u.run.adjacency == "replace_one"),
    needs("plain noisy SGD with constant step size and noise", _is_plain),
    needs("no cool-down", lambda u: u.run.cooldown_steps == 0),
    needs("cyclic or full batches", lambda u: u.run.batches.kind in ("cyclic", "full_batch")),
    needs("a batch size that divides n", lambda u: u.n % u.run.batch_size == 0),
    needs(
        "whole epochs after the request",
        lambda u: u.requests[0][0] % u.run.steps_per_epoch == 0,
    ),
)

_TERMS: Terms = {
    "step_size": lambda u: u.run.step_size,
    "gradient_norm": lambda u: u.run.sensitivity / 2.0,
    "strong_convexity": _strong_convexity,
    "noise": _noise,
    "n": lambda u: u.n,
    "b": lambda u: u.run.batch_size,
    "epochs": lambda u: u.requests[0][0] // u.run.steps_per_epoch,
    "order": lambda u: 2.0,  # linear in the order
}

UNLEARNING: tuple[Any, ...] = (covers(chien_wang_chen_li.unlearning, _TERMS, *_HYPOTHESES),)
