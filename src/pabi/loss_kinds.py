"""What each kind of loss guarantees: its parameters, and the facts that follow from them.

The constants of named losses are the classical ones, rounded up; `feature_norm` R bounds the vector that
the model sees, intercept included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pabi import validate
from pabi.errors import InvalidInput
from pabi.rounding import fraction_up, up

Pairs = tuple[tuple[float, float], ...]
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """What a loss guarantees of one record.

    `curvature` [lo, hi], None if nothing is known; `gradient_bound`, the largest norm of its gradient,
    None if unknown; `glm`, whether its gradient is a scalar function of the parameters times a fixed vector,
    `separable`, whether it is a sum of functions of one coordinate each, which is what makes clipping of
    norms, and of coordinates, harmless. `monotone`: the smoothness β, ∞ if there is none, of what is no
    gradient but a monotone field, that of convex–concave descent–ascent. `holder`: pairs (p, M), the loss
    being convex on all of ℝ^d with a p-Hölder gradient of constant M. `dissipative`: (λ, κ) with
    ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ.
    """

    curvature: tuple[float, float] | None = None
    gradient_bound: float | None = None
    glm: bool = False
    holder: Pairs = ()
    dissipative: tuple[float, float] | None = None
    separable: bool = False
    monotone: float | None = None


def _times(*factors: float) -> Fraction:
    product = Fraction(1)
    for f in factors:
        product *= Fraction(f)
    return product


def _exp_up(x: float) -> float:
    try:
        return up(up(math.exp(x)))
    except OverflowError:
        return math.inf


# Named losses of a linear predictor: convex on all of ℝ^d.


def _linear_predictor(curvature: Fraction, bound: float, glm: bool = True) -> Facts:
    hi = fraction_up(curvature)
    return Facts((0.0, hi), bound, glm, holder=((0.0, 2.0 * bound), (1.0, hi)))


def _logistic(p: Parameters) -> Facts:
    r = p["feature_norm"]
    return _linear_predictor(_times(r, r) / 4, r)


def _softmax(p: Parameters) -> Facts:
    r = p["feature_norm"]
    bound = fraction_up(_times(r, up(math.sqrt(2.0))))
    return _linear_predictor(_times(r, r) / 2, bound, glm=False)


def _squared(p: Parameters) -> Facts:
    r = p["feature_norm"]
    return _linear_predictor(_times(r, r), fraction_up(_times(r, p["residual_bound"])))


def _huber(p: Parameters) -> Facts:
    r = p["feature_norm"]
    return _linear_predictor(_times(r, r), fraction_up(_times(r, p["threshold"])))


def _smoothed_hinge(p: Parameters) -> Facts:
    r = p["feature_norm"]
    return _linear_predictor(_times(r, r) / Fraction(p["smoothing"]), r)


def _poisson(p: Parameters) -> Facts:
    r, rate = p["feature_norm"], _exp_up(p["predictor_bound"])
    if math.isinf(rate):
        raise InvalidInput(
            "predictor_bound", f"exp({p['predictor_bound']!r}) is not a finite number"
        )
    bound = fraction_up(_times(r, max(p["count_bound"], rate)))
    return _linear_predictor(_times(r, r, rate), bound)


# Generic losses.


def _stated(p: Parameters) -> dict[str, Any]:
    """What may be said of any of them."""
    return {
        "gradient_bound": p.get("gradient_bound"),
        "glm": bool(p.get("glm", False)),
        "separable": bool(p.get("separable", False)),
    }


def _generic(p: Parameters, lo: float, hi: float) -> Facts:
    return Facts((lo, hi), **_stated(p))


def _lipschitz(p: Parameters) -> Facts:
    stated = _stated(p) | {"gradient_bound": p["constant"]}
    return Facts(holder=((0.0, 2.0 * p["constant"]),), **stated)


def _saddle(p: Parameters) -> Facts:
    return Facts(gradient_bound=p["constant"], monotone=p.get("smoothness", math.inf))


def _weakly_smooth(p: Parameters) -> Facts:
    smooth = [m for exponent, m in p["pairs"] if exponent == 1.0]
    bound = p.get("gradient_bound")
    bounded: Pairs = () if bound is None else ((0.0, 2.0 * bound),)
    curvature = (0.0, min(smooth)) if smooth else None
    return Facts(curvature, holder=(*p["pairs"], *bounded), **_stated(p))


def _dissipative(p: Parameters) -> Facts:
    smoothness = p["smoothness"]
    return Facts((-smoothness, smoothness), dissipative=(p["offset"], p["rate"]), **_stated(p))


def _unknown(p: Parameters) -> Facts:
    return Facts(None, p.get("gradient_bound"))


@dataclass(frozen=True)
class Kind:
    """The required parameters, the optional ones, and what follows from them."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    facts: Callable[[Parameters], Facts]


_OPTIONS = ("gradient_bound", "glm", "separable")

KINDS = {
    "logistic": Kind(("feature_norm",), (), _logistic),
    "softmax": Kind(("feature_norm",), (), _softmax),
    "squared": Kind(("feature_norm", "residual_bound"), (), _squared),
    "huber": Kind(("feature_norm", "threshold"), (), _huber),
    "smoothed_hinge": Kind(("feature_norm", "smoothing"), (), _smoothed_hinge),
    "poisson": Kind(("feature_norm", "predictor_bound", "count_bound"), (), _poisson),
    "convex": Kind(("smoothness",), _OPTIONS, lambda p: _generic(p, 0.0, p["smoothness"])),
    "strongly_convex": Kind(
        ("strong_convexity", "smoothness"),
        _OPTIONS,
        lambda p: _generic(p, p["strong_convexity"], p["smoothness"]),
    ),
    "nonconvex": Kind(
        ("smoothness",), _OPTIONS, lambda p: _generic(p, -p["smoothness"], p["smoothness"])
    ),
    "weakly_convex": Kind(
        ("weak_convexity", "smoothness"),
        _OPTIONS,
        lambda p: _generic(p, -p["weak_convexity"], p["smoothness"]),
    ),
    "lipschitz": Kind(("constant",), ("glm", "separable"), _lipschitz),
    "weakly_smooth": Kind(("pairs",), _OPTIONS, _weakly_smooth),
    "dissipative": Kind(("offset", "rate", "smoothness"), _OPTIONS, _dissipative),
    "saddle": Kind(("constant",), ("smoothness",), _saddle),
    "unknown": Kind((), _OPTIONS, _unknown),
}

# Pairs of parameters of which the first may not exceed the second.
ORDERED = {
    "strongly_convex": ("strong_convexity", "smoothness"),
    "weakly_convex": ("weak_convexity", "smoothness"),
}
_ANY_SIGN = ("predictor_bound",)
_MAY_BE_ZERO = ("offset",)


def checked(kind: str, given: Parameters) -> Parameters:
    """`given` with every required parameter checked and converted. Raises InvalidInput."""
    if kind not in KINDS:
        raise InvalidInput("kind", f"expected one of {', '.join(KINDS)}, got {kind!r}")
    required, known = KINDS[kind].required, (*KINDS[kind].required, *KINDS[kind].optional)
    found = dict(given)
    for name in required:
        if name not in found:
            raise InvalidInput(name, f"missing: a {kind} loss needs it")
        found[name] = _checked(name, found[name])
    for name in sorted(set(found) - set(known)):
        raise InvalidInput(name, f"a {kind} loss has no such parameter")
    for name in ("glm", "separable"):
        if not isinstance(found.get(name, False), bool):
            raise InvalidInput(name, f"expected true or false, got {found[name]!r}")
    for name in set(known) - set(required) - {"glm", "separable"}:
        if found.get(name) is not None:
            found[name] = validate.number(name, found[name], above=0.0)
    if kind in ORDERED:
        low, high = ORDERED[kind]
        if found[low] > found[high]:
            raise InvalidInput(
                low, f"expected at most {high} = {found[high]!r}, got {found[low]!r}"
            )
    return found


def _checked(name: str, value: Any) -> Any:
    if name == "pairs":
        return _pairs(value)
    if name in _ANY_SIGN:
        return validate.number(name, value)
    if name in _MAY_BE_ZERO:
        return validate.number(name, value, at_least=0.0)
    return validate.number(name, value, above=0.0)


def _pairs(value: Any) -> Pairs:
    """(exponent in [0, 1], constant > 0) of each pair, by increasing exponent."""
    wanted = "expected at least one pair (exponent in [0, 1], constant > 0)"
    if not isinstance(value, list | tuple) or not value:
        raise InvalidInput("pairs", f"{wanted}, got {value!r}")
    found: dict[float, float] = {}
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidInput("pairs", f"{wanted}, got {pair!r}")
        exponent = validate.number("pairs", pair[0], at_least=0.0, at_most=1.0)
        constant = validate.number("pairs", pair[1], above=0.0)
        found[exponent] = min(constant, found.get(exponent, math.inf))
    return tuple(sorted(found.items()))
