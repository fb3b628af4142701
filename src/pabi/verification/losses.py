"""What is known of losses, and the moduli of their steps, derived again.

A loss that the table does not hold is refused, and so is a parameter that nobody reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from flint import arb, fmpq

from pabi.describe.losses import Loss
from pabi.verification.arithmetic import (
    Refused,
    above,
    closed,
    exact,
    fraction_of,
    nonnegative,
    timed,
)

# Moduli of continuity in ball arithmetic, and payments under them.
#
# A modulus is the least of several rows for z > 0, and 0 at 0. A row is √(κz² + h) + e, or any other
# function that never decreases.


Omega = Callable[[Any], Any]  # a ball above a distance ↦ a ball above ω of it


class ModulusRow(Protocol):
    """One bound ω on how far apart a step can bring two points; it never decreases."""

    def scaled(self, factor: Any) -> ModulusRow:
        """factor·ω, for a rational factor ≥ 0."""

    def omega(self) -> Omega:
        """ω of balls above a distance z > 0."""


class Root(NamedTuple):
    """√(κz² + h) + e, of balls or rationals."""

    kappa: Any
    h: Any
    shift: Any

    def scaled(self, factor: Any) -> Root:
        """factor·(√(κz² + h) + e), as a root of the same form."""
        square = factor * factor
        return Root(square * self.kappa, square * self.h, factor * self.shift)

    def omega(self) -> Omega:
        """The function z ↦ √(κz² + h) + e on balls; a constant where κ = 0."""
        kappa, h, shift = arb(self.kappa), arb(self.h), arb(self.shift)
        if kappa.is_zero():  # 0·∞ is 0 here: a constant is one at every distance
            value = h.sqrt() + shift
            return lambda z: value
        return lambda z: (kappa * z * z + h).sqrt() + shift


class Function(NamedTuple):
    """factor·ω(z), ω any function of balls above a distance that gives balls above its values, and that
    never decreases."""

    function: Omega
    factor: Any = 1

    def scaled(self, factor: Any) -> Function:
        """The function times a further factor ≥ 0."""
        return self._replace(factor=factor * self.factor)

    def omega(self) -> Omega:
        """The function z ↦ factor·ω(z) on balls."""
        function, factor = self.function, arb(self.factor)
        return lambda z: factor * function(z)


def linear(slope: Any) -> Root:
    """The row z ↦ slope·z."""
    return Root(slope * slope, 0, 0)


def least_of(rows: Sequence[ModulusRow]) -> Omega:
    """The modulus made of these rows; without any it is ∞ for z > 0."""
    every = [row.omega() for row in rows]

    def omega(z: Any) -> Any:
        if z.is_zero():
            return arb(0)
        if not every:
            return arb("inf")
        return reduce(arb.min, [one(z) for one in every])

    return omega


def largest_of(moduli: Sequence[Omega]) -> Omega:
    """The modulus that is the largest of several at every distance."""
    if len(moduli) == 1:
        return moduli[0]
    return lambda z: reduce(arb.max, [modulus(z) for modulus in moduli])


def stated(table: Any) -> list[ModulusRow]:
    """The rows of a modulus that is taken as stated."""
    kind = table["kind"]
    if kind == "minimum":
        closed("a minimum", table, ("kind", "parts"))
        return [row for part in table["parts"] for row in stated(part)]
    if kind == "unbounded":
        closed("an unbounded modulus", table, ("kind",))
        return []
    names = {"linear": ("slope",), "sqrt": ("kappa", "h"), "affine": ("slope", "shift")}
    if kind not in names:
        raise Refused(f"moduli: the checker knows no {kind!r}")
    closed(f"a modulus of kind {kind}", table, ("kind", *names[kind]))
    p = {name: exact(nonnegative(name, table[name])) for name in names[kind]}
    if kind == "sqrt":
        return [Root(p["kappa"], p["h"], 0)]
    return [Root(p["slope"] ** 2, 0, p.get("shift", 0))]


def check_paid_off(z: Any, steps: int) -> None:
    """Refuse a distance z > 0 after the last of so many steps."""
    if not z.is_zero():
        raise Refused(f"step {steps}: the payments leave a distance of {z.str(5)} at the end")


def pay_once(omega: Omega, demand: Any, noise: Any, z: Any, a: float, k: int) -> tuple[Any, Any]:
    """((a/σ)², max(0, ω(z) + s − a)) of step k (0-based); the distance is rounded up."""
    if not 0.0 <= a < math.inf:
        raise Refused(f"step {k + 1}: payments: expected a finite number ≥ 0, got {a!r}")
    owed = omega(z) + demand - arb(a)
    cost = arb(0)
    if a > 0.0:
        if noise.is_zero():
            raise Refused(f"step {k + 1}: payments: no noise is there to pay with")
        cost = (arb(a) / noise) ** 2
    if owed <= 0:
        return cost, arb(0)
    return cost, arb(above(owed)) if owed.is_finite() else owed


Parameters = Mapping[str, Any]
Pairs = Sequence[tuple[Any, Any]]


class DerivedFacts(NamedTuple):
    """What a loss says of one record.

    `curvature`: an interval that holds it, None if nothing does. `bound`: the largest norm of its gradient,
    None if there is none. `scalar`: whether the gradient is a scalar times a fixed vector. `separable`:
    whether it is a sum of functions of one coordinate each. `convex`: whether it is a convex loss's at all.
    `monotone`: whether it is no gradient but a monotone field, and `lipschitz` the Lipschitz constant of that
    (None: unknown). `dissipative`: (offset, rate). `cone`: cos² of the angle of a cone around a fixed
    direction that the gradient, clipped or not, never leaves. `moduli`: further ones of x ↦ x − e·(mean of
    the gradients), a row for every e > 0; `as_they_are` only if no gradient is clipped, `however_clipped` in
    any case.
    """

    curvature: tuple[Any, Any] | None = None
    bound: Any | None = None
    scalar: bool = False
    separable: bool = False
    convex: bool = False
    monotone: bool = False
    lipschitz: Any = None
    dissipative: tuple[Any, Any] | None = None
    cone: Any = None
    as_they_are: tuple[Callable[[Any], ModulusRow], ...] = ()
    however_clipped: tuple[Callable[[Any], ModulusRow], ...] = ()

    @property
    def holds_of_zero(self) -> bool:
        """Whether the loss 0 is one of which all of this is true."""
        inside = self.curvature is None or self.curvature[0] <= 0 <= self.curvature[1]
        return bool(inside) and self.dissipative is None


def facts_of(loss: Loss) -> DerivedFacts:
    """What is known of a loss of a known kind, with the parameters of that kind."""
    kind, parameters = _read(loss)
    return kind.facts(parameters)


def clipped_facts_of(loss: Loss, norm: Any) -> DerivedFacts:
    """What is known of a loss of a linear model that is clipped convexly to gradients of this norm, > 0."""
    kind, parameters = _read(loss)
    if kind.clipped is None:
        raise Refused(f"clipping: the checker knows no residual of a loss of kind {loss.kind!r}")
    own = kind.facts(parameters)
    assert own.curvature is not None
    hi = min(own.curvature[1], kind.clipped(parameters, exact(parameters["feature_norm"]), norm))
    clipped = _convex(hi, min(own.bound, norm), scalar=own.scalar)
    return clipped._replace(cone=own.cone)


def _read(loss: Loss) -> tuple[_Kind, dict[str, Any]]:
    """The row of a loss's kind, and its parameters."""
    if type(loss) is not Loss:
        raise Refused(f"loss: the checker knows no {type(loss).__name__}")
    if loss.kind not in _KINDS:
        raise Refused(f"loss: the checker knows no {loss.kind!r}")
    kind, parameters = _KINDS[loss.kind], dict(loss.parameters)
    for name in parameters:
        if name not in kind.parameters:
            raise Refused(f"loss: the checker knows no {name!r} of a loss of kind {loss.kind!r}")
    return kind, parameters


# Generic losses.


_WORD = ("gradient_bound", "glm", "separable")


def _word(p: Parameters) -> dict[str, Any]:
    """What the user may say of any generic loss."""
    bound = p.get("gradient_bound")
    return {
        "bound": None if bound is None else exact(bound),
        "scalar": bool(p.get("glm", False)),
        "separable": bool(p.get("separable", False)),
    }


def _lipschitz(p: Parameters) -> DerivedFacts:
    bound = exact(p["constant"])
    row = _weakly_smooth_row([(fmpq(0), 2 * bound)])
    return DerivedFacts(convex=True, as_they_are=(row,), **_word(p) | {"bound": bound})


def _weakly_smooth(p: Parameters) -> DerivedFacts:
    pairs, word = [(exact(q), exact(m)) for q, m in p["pairs"]], _word(p)
    smooth = [m for q, m in pairs if q == 1]
    if word["bound"] is not None:
        pairs.append((fmpq(0), 2 * word["bound"]))
    curvature = (fmpq(0), min(smooth)) if smooth else None
    return DerivedFacts(curvature, convex=True, as_they_are=(_weakly_smooth_row(pairs),), **word)


def _holder(p: Parameters) -> DerivedFacts:
    """Gradients that differ by at most M·z^p, clipped or not: z + eM·z^p."""
    exponent, constant, word = exact(p["exponent"]), exact(p["constant"]), _word(p)
    if not 0 <= exponent <= 1:
        raise Refused("exponent: expected a number in [0, 1]")

    def row(step: Any) -> ModulusRow:
        if exponent == 1:
            return linear(1 + step * constant)
        if exponent == 0:
            return Root(1, 0, step * constant)
        return Function(lambda z: z + step * constant * (z.log() * exponent).exp())

    curvature = (-constant, constant) if exponent == 1 else None
    return DerivedFacts(curvature, however_clipped=(row,), **word)


def _dissipative(p: Parameters) -> DerivedFacts:
    offset, rate, smoothness = (exact(p[name]) for name in ("offset", "rate", "smoothness"))

    def row(step: Any) -> ModulusRow:
        kappa = max(fmpq(0), 1 - 2 * step * rate + (step * smoothness) ** 2)
        return Root(kappa, 2 * step * offset, 0)

    curvature = -smoothness, smoothness
    return DerivedFacts(curvature, dissipative=(offset, rate), as_they_are=(row,), **_word(p))


def _saddle(p: Parameters) -> DerivedFacts:
    smooth = p.get("smoothness")
    lipschitz = None if smooth is None else exact(smooth)
    return DerivedFacts(bound=exact(p["constant"]), monotone=True, lipschitz=lipschitz)


class _Kind(NamedTuple):
    """The parameters that are read of one kind of loss, and what follows from them.

    `clipped`: (parameters, R, C) ↦ a bound on the curvature of the loss that is clipped convexly to gradients
    of norm C, of rows of norm up to R; None where nobody knows how.
    """

    parameters: tuple[str, ...]
    facts: Callable[[Parameters], DerivedFacts]
    clipped: Callable[[Parameters, Any, Any], Any] | None = None


# Losses of a linear predictor, convex on all of space; R bounds the features. Clipped convexly to C they have
# derivatives of size C/‖x‖ in the predictor, and their curvature is largest at rows of norm R.


def _convex(hi: Any, bound: Any, *, scalar: bool) -> DerivedFacts:
    """A convex loss of curvature up to `hi` and gradients of norm `bound` on all of space."""
    row = _weakly_smooth_row(((fmpq(0), 2 * bound), (fmpq(1), hi)))
    return DerivedFacts((fmpq(0), hi), bound, scalar, convex=True, as_they_are=(row,))


def _linear(
    parameters: tuple[str, ...],
    limits: Callable[..., tuple[Any, Any]],
    clipped: Callable[[Parameters, Any, Any], Any],
    *,
    scalar: bool = True,
    falling: bool = False,
) -> _Kind:
    """A loss of a linear predictor; `limits`: exact parameters ↦ (largest curvature, gradient bound).
    `falling`: whether it falls with the margin of a label."""

    def facts(p: Parameters) -> DerivedFacts:
        hi, bound = limits(*(exact(p[name]) for name in parameters))
        return _convex(hi, bound, scalar=scalar)._replace(cone=fmpq(1) if falling else None)

    return _Kind(parameters, facts, clipped)


def _as_steep(p: Parameters, r: Any, norm: Any) -> Any:
    """A quadratic is as steep as before within the residuals that are left."""
    return r * r


def _logistic_within(p: Parameters, r: Any, norm: Any) -> Any:
    """r²s(1 − s) at the largest derivative s = C/r, up to 1/2."""
    return norm * (r - norm) if 2 * norm <= r else r * r / 4


def _hinge_within(p: Parameters, r: Any, norm: Any) -> Any:
    return r * r / exact(p["smoothing"])


def _poisson_within(p: Parameters, r: Any, norm: Any) -> Any:
    """r² times the largest rate that leaves a residual of C/r."""
    return r * (r * exact(p["count_bound"]) + norm)


def _gamma_within(p: Parameters, r: Any, norm: Any) -> Any:
    """r² times the largest target over its mean that leaves a residual of C/r."""
    return r * (r + norm)


def _softmax(p: Parameters) -> DerivedFacts:
    """With a residual that is capped at a the variance that is the curvature is at most 2a(1 − a)."""
    r, cap = exact(p["feature_norm"]), exact(p.get("residual_cap", 1.0))
    if not 0 < cap <= 1:
        raise Refused("residual_cap: expected a number in (0, 1]")
    hi = r * r * (2 * cap * (1 - cap) if 2 * cap <= 1 else fmpq(1, 2))
    facts = _convex(hi, above(cap * arb(2).sqrt() * arb(r)), scalar=False)
    return facts._replace(cone=fmpq(1, 2))  # half of the square is the class's own


def _softmax_within(p: Parameters, r: Any, norm: Any) -> Any:
    """2a(1 − a)r² at a = C/(√2·r), up to a = 1/2."""
    if 2 * norm * norm >= r * r:
        return r * r / 2
    return above(arb(2).sqrt() * arb(norm * r) - arb(norm * norm))


def _one_vs_rest(p: Parameters) -> DerivedFacts:
    """K losses of predictors of their own: as steep as one, with gradients √K times as long."""
    r, classes = exact(p["feature_norm"]), fmpq(p["classes"])  # not the double next to so many
    if not classes >= 2:
        raise Refused("classes: expected at least 2")
    hi = r * r / 4 if p.get("smoothing") is None else _hinge_within(p, r, None)
    facts = _convex(hi, above(arb(classes).sqrt() * arb(r)), scalar=False)
    return facts._replace(cone=1 / classes)  # every margin's derivative has one sign


def _one_vs_rest_within(p: Parameters, r: Any, norm: Any) -> Any:
    """No derivative is larger than all of them together."""
    within = _logistic_within if p.get("smoothing") is None else _hinge_within
    return within(p, r, norm)


def _quadratic(r: Any, most: Any) -> tuple[Any, Any]:
    return r * r, r * most


def _poisson(r: Any, predictor_bound: Any, count_bound: Any) -> tuple[Any, Any]:
    rate = above(arb(predictor_bound).exp())
    return r * r * rate, r * max(count_bound, rate)


def _smooth(
    parameters: tuple[str, ...], curvature: Callable[..., tuple[Any, Any]], convex: bool = False
) -> _Kind:
    """A generic loss; `curvature`: the parameters as exact numbers ↦ an interval that holds it."""

    def facts(p: Parameters) -> DerivedFacts:
        interval = curvature(*(exact(p[name]) for name in parameters))
        return DerivedFacts(interval, convex=convex, **_word(p))

    return _Kind((*parameters, *_WORD), facts)


_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "logistic": _linear(
            ("feature_norm",), lambda r: (r * r / 4, r), _logistic_within, falling=True
        ),
        "softmax": _Kind(("feature_norm", "residual_cap"), _softmax, _softmax_within),
        "one_vs_rest": _Kind(
            ("feature_norm", "classes", "smoothing"), _one_vs_rest, _one_vs_rest_within
        ),
        "squared": _linear(("feature_norm", "residual_bound"), _quadratic, _as_steep),
        "huber": _linear(("feature_norm", "threshold"), _quadratic, _as_steep),
        "vector_huber": _linear(("feature_norm", "threshold"), _quadratic, _as_steep, scalar=False),
        "smoothed_hinge": _linear(
            ("feature_norm", "smoothing"),
            lambda r, h: (r * r / h, r),
            _hinge_within,
            falling=True,
        ),
        "poisson": _linear(
            ("feature_norm", "predictor_bound", "count_bound"), _poisson, _poisson_within
        ),
        "gamma": _linear(
            ("feature_norm", "residual_bound"),
            lambda r, most: (r * r * (1 + most), r * max(most, fmpq(1))),
            _gamma_within,
        ),
        "convex": _smooth(("smoothness",), lambda h: (fmpq(0), h), convex=True),
        "strongly_convex": _smooth(
            ("strong_convexity", "smoothness"), lambda m, h: (m, h), convex=True
        ),
        "nonconvex": _smooth(("smoothness",), lambda h: (-h, h)),
        "weakly_convex": _smooth(("weak_convexity", "smoothness"), lambda m, h: (-m, h)),
        "lipschitz": _Kind(("constant", "glm", "separable"), _lipschitz),
        "weakly_smooth": _Kind(("pairs", *_WORD), _weakly_smooth),
        "holder": _Kind(("exponent", "constant", *_WORD), _holder),
        "dissipative": _Kind(("offset", "rate", "smoothness", *_WORD), _dissipative),
        "saddle": _Kind(("constant", "smoothness"), _saddle),
        "unknown": _Kind(_WORD, lambda p: DerivedFacts(**_word(p))),
    }
)


# Convex losses whose gradients are p-Hölder with constant M on all of space: √(z² + gap).


def _weakly_smooth_row(pairs: Pairs) -> Callable[[Any], ModulusRow]:
    """The row of a loss that is so for every one of these pairs (p, M)."""
    ordered = sorted(pairs)
    return lambda step: Root(1, _least_gap(step, ordered), 0)


def _least_gap(step: Any, ordered: Pairs) -> Any:
    """The least gap 4(1 − p)/(1 + p)·(eM/2)^(2/(1 − p)) found over the known exponents and those between,
    whose constants are weighted geometric means. Any exponent gives a valid one."""
    gaps = [_gap(step, p, arb(m)) for p, m in ordered]
    for low, high in timed(pairwise(ordered)):
        if low[0] < high[0]:
            gaps.append(_gap_between(step, low, high))
    return reduce(arb.min, gaps)


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
    return float(fraction_of(x))


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
