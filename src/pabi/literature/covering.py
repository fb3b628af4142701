"""Which published bounds cover a run of noisy SGD, and what they say of it.

Every candidate names the hypotheses of its theorem, in the order in which they are checked, and the terms
of the run that its formula takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

from pabi.convert import clt_mu
from pabi.describe.runs import NoisySGD
from pabi.literature import (
    altschuler_talwar,
    asoodeh_diaz,
    bok,
    bravo,
    chien_li,
    dong,
    feldman,
    kong_ribero,
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
from pabi.numbers.showing import shown

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


CANDIDATES = (
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
