"""What every kind of loss says of one record, derived anew in exact arithmetic.

A table: kind → the parameters that are read, and the facts that follow from them. A loss that the table does
not hold is refused, and so is a parameter that nobody reads. All that the checker knows of a loss is here:
what steps on its gradients do (`gradients`) follows from these facts alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from flint import arb, fmpq

from pabi.describe.losses import Loss
from pabi.verification.arithmetic import above, exact, fraction_of
from pabi.verification.limits import timed
from pabi.verification.moduli import Function, Root, Row, linear
from pabi.verification.refusal import Refused

Parameters = Mapping[str, Any]
Pairs = Sequence[tuple[Any, Any]]


class Facts(NamedTuple):
    """What a loss says of one record.

    `curvature`: an interval that holds it, None if nothing does. `bound`: the largest norm of its gradient,
    None if there is none. `scalar`: whether the gradient is a scalar times a fixed vector. `separable`:
    whether it is a sum of functions of one coordinate each. `convex`: whether it is a convex loss's at all.
    `monotone`: whether it is no gradient but a monotone field, and `lipschitz` the Lipschitz constant of that
    (None: unknown). `dissipative`: (offset, rate). `moduli`: further ones of x ↦ x − e·(mean of the
    gradients), a row for every e > 0; `as_they_are` only if no gradient is clipped, `however_clipped` in any
    case.
    """

    curvature: tuple[Any, Any] | None = None
    bound: Any | None = None
    scalar: bool = False
    separable: bool = False
    convex: bool = False
    monotone: bool = False
    lipschitz: Any = None
    dissipative: tuple[Any, Any] | None = None
    as_they_are: tuple[Callable[[Any], Row], ...] = ()
    however_clipped: tuple[Callable[[Any], Row], ...] = ()


def facts_of(loss: Loss) -> Facts:
    """What is known of a loss of a known kind, with the parameters of that kind."""
    if type(loss) is not Loss:
        raise Refused(f"loss: the checker knows no {type(loss).__name__}")
    if loss.kind not in _KINDS:
        raise Refused(f"loss: the checker knows no {loss.kind!r}")
    kind, given = _KINDS[loss.kind], dict(loss.parameters)
    for name in given:
        if name not in kind.parameters:
            raise Refused(f"loss: the checker knows no {name!r} of a loss of kind {loss.kind!r}")
    return kind.facts(given)


# Losses of a linear predictor, convex on all of space; R bounds the features.


def _linear(hi: Any, bound: Any, scalar: bool = True) -> Facts:
    pairs = ((fmpq(0), 2 * bound), (fmpq(1), hi))
    return Facts(
        (fmpq(0), hi), bound, scalar, convex=True, as_they_are=(_weakly_smooth_row(pairs),)
    )


def _logistic(p: Parameters) -> Facts:
    r = exact(p["feature_norm"])
    return _linear(r * r / 4, r)


def _softmax(p: Parameters) -> Facts:
    r = exact(p["feature_norm"])
    return _linear(r * r / 2, above(arb(2).sqrt() * arb(r)), scalar=False)


def _squared(p: Parameters) -> Facts:
    r = exact(p["feature_norm"])
    return _linear(r * r, r * exact(p["residual_bound"]))


def _huber(p: Parameters) -> Facts:
    r = exact(p["feature_norm"])
    return _linear(r * r, r * exact(p["threshold"]))


def _smoothed_hinge(p: Parameters) -> Facts:
    r = exact(p["feature_norm"])
    return _linear(r * r / exact(p["smoothing"]), r)


def _poisson(p: Parameters) -> Facts:
    r = exact(p["feature_norm"])
    rate = above(arb(exact(p["predictor_bound"])).exp())
    return _linear(r * r * rate, r * max(exact(p["count_bound"]), rate))


# Generic losses.


def _word(p: Parameters) -> dict[str, Any]:
    """What the user may say of any of them."""
    bound = p.get("gradient_bound")
    return {
        "bound": None if bound is None else exact(bound),
        "scalar": bool(p.get("glm", False)),
        "separable": bool(p.get("separable", False)),
    }


def _convex(p: Parameters) -> Facts:
    return Facts((fmpq(0), exact(p["smoothness"])), convex=True, **_word(p))


def _strongly_convex(p: Parameters) -> Facts:
    curvature = exact(p["strong_convexity"]), exact(p["smoothness"])
    return Facts(curvature, convex=True, **_word(p))


def _nonconvex(p: Parameters) -> Facts:
    hi = exact(p["smoothness"])
    return Facts((-hi, hi), **_word(p))


def _weakly_convex(p: Parameters) -> Facts:
    return Facts((-exact(p["weak_convexity"]), exact(p["smoothness"])), **_word(p))


def _lipschitz(p: Parameters) -> Facts:
    bound = exact(p["constant"])
    row = _weakly_smooth_row([(fmpq(0), 2 * bound)])
    return Facts(convex=True, as_they_are=(row,), **_word(p) | {"bound": bound})


def _weakly_smooth(p: Parameters) -> Facts:
    pairs, word = [(exact(q), exact(m)) for q, m in p["pairs"]], _word(p)
    smooth = [m for q, m in pairs if q == 1]
    if word["bound"] is not None:
        pairs.append((fmpq(0), 2 * word["bound"]))
    curvature = (fmpq(0), min(smooth)) if smooth else None
    return Facts(curvature, convex=True, as_they_are=(_weakly_smooth_row(pairs),), **word)


def _holder(p: Parameters) -> Facts:
    """Gradients that differ by at most M·z^p, clipped or not: z + eM·z^p."""
    exponent, constant, word = exact(p["exponent"]), exact(p["constant"]), _word(p)
    if not 0 <= exponent <= 1:
        raise Refused("exponent: expected a number in [0, 1]")

    def row(step: Any) -> Row:
        if exponent == 1:
            return linear(1 + step * constant)
        if exponent == 0:
            return Root(1, 0, step * constant)
        return Function(lambda z: z + step * constant * (z.log() * exponent).exp())

    curvature = (-constant, constant) if exponent == 1 else None
    return Facts(curvature, however_clipped=(row,), **word)


def _dissipative(p: Parameters) -> Facts:
    offset, rate, smoothness = (exact(p[name]) for name in ("offset", "rate", "smoothness"))

    def row(step: Any) -> Row:
        kappa = max(fmpq(0), 1 - 2 * step * rate + (step * smoothness) ** 2)
        return Root(kappa, 2 * step * offset, 0)

    curvature = -smoothness, smoothness
    return Facts(curvature, dissipative=(offset, rate), as_they_are=(row,), **_word(p))


def _saddle(p: Parameters) -> Facts:
    smooth = p.get("smoothness")
    lipschitz = None if smooth is None else exact(smooth)
    return Facts(bound=exact(p["constant"]), monotone=True, lipschitz=lipschitz)


def _unknown(p: Parameters) -> Facts:
    return Facts(**_word(p))


class _Kind(NamedTuple):
    """The parameters that are read, and what follows from them."""

    parameters: tuple[str, ...]
    facts: Callable[[Parameters], Facts]


_WORD = ("gradient_bound", "glm", "separable")

_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "logistic": _Kind(("feature_norm",), _logistic),
        "softmax": _Kind(("feature_norm",), _softmax),
        "squared": _Kind(("feature_norm", "residual_bound"), _squared),
        "huber": _Kind(("feature_norm", "threshold"), _huber),
        "smoothed_hinge": _Kind(("feature_norm", "smoothing"), _smoothed_hinge),
        "poisson": _Kind(("feature_norm", "predictor_bound", "count_bound"), _poisson),
        "convex": _Kind(("smoothness", *_WORD), _convex),
        "strongly_convex": _Kind(("strong_convexity", "smoothness", *_WORD), _strongly_convex),
        "nonconvex": _Kind(("smoothness", *_WORD), _nonconvex),
        "weakly_convex": _Kind(("weak_convexity", "smoothness", *_WORD), _weakly_convex),
        "lipschitz": _Kind(("constant", "glm", "separable"), _lipschitz),
        "weakly_smooth": _Kind(("pairs", *_WORD), _weakly_smooth),
        "holder": _Kind(("exponent", "constant", *_WORD), _holder),
        "dissipative": _Kind(("offset", "rate", "smoothness", *_WORD), _dissipative),
        "saddle": _Kind(("constant", "smoothness"), _saddle),
        "unknown": _Kind(_WORD, _unknown),
    }
)


# Convex losses whose gradients are p-Hölder with constant M on all of space: √(z² + gap).


def _weakly_smooth_row(pairs: Pairs) -> Callable[[Any], Row]:
    """The row of a loss that is so for every one of these pairs (p, M)."""
    known = sorted(pairs)
    return lambda step: Root(1, _least_gap(step, known), 0)


def _least_gap(step: Any, known: Pairs) -> Any:
    """The least gap 4(1 − p)/(1 + p)·(eM/2)^(2/(1 − p)) found over the known exponents and those between,
    whose constants are weighted geometric means. Any exponent gives a valid one."""
    gaps = [_gap(step, p, arb(m)) for p, m in known]
    for low, high in timed(pairwise(known)):
        if low[0] < high[0]:
            gaps.append(_gap_between(step, low, high))
    best = gaps[0]
    for gap in gaps[1:]:
        best = best.min(gap)
    return best


def _gap(step: Any, p: Any, constant: Any) -> Any:
    half = arb(step) * constant / 2
    if p == 1:
        return arb(0) if half <= 1 else arb("inf")
    ratio = 4 * (1 - p) / (1 + p)
    return arb(ratio) * (half.log() * arb(2 / (1 - p))).exp()


def _gap_between(step: Any, low: tuple[Any, Any], high: tuple[Any, Any]) -> Any:
    """The gap of an exponent that a search in doubles finds, evaluated in balls."""
    (p, m), (q, n) = low, high
    log_half = math.log(_rough(step)) - math.log(2.0)
    log_m, log_n = float(arb(m).log().mid()), float(arb(n).log().mid())
    ends = _rough(p), _rough(q)

    def size(u: float) -> float:
        """The logarithm of the gap, roughly, where e^−u of the way is left."""
        share = -math.expm1(-u)
        x = ends[0] + share * (ends[1] - ends[0])
        if x >= 1.0:
            return math.inf
        log = log_half + (1.0 - share) * log_m + share * log_n
        return math.log(4.0 * (1.0 - x) / (1.0 + x)) + 2.0 / (1.0 - x) * log

    share = exact(-math.expm1(-_minimiser(size)))
    exponent = p + share * (q - p)
    constant = (arb(m).log() * arb(1 - share) + arb(n).log() * arb(share)).exp()
    return _gap(step, exponent, constant)


def _rough(x: Any) -> float:
    value: Fraction = fraction_of(x)
    return float(value)


def _minimiser(size: Callable[[float], float]) -> float:
    """About where a function on [0, 28] is least."""
    grid = [0.5 * i for i in range(57)]
    nearest = min(range(57), key=lambda i: size(grid[i]))
    a, b = grid[max(0, nearest - 1)], grid[min(56, nearest + 1)]
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = b - golden * (b - a), a + golden * (b - a)
        if size(left) <= size(right):
            b = right
        else:
            a = left
    return (a + b) / 2.0
