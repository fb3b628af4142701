"""How far one step on a batch's gradients can push two points apart, from what is known of the loss.

The step is x ↦ x − η(λx + f·g(x)): λ the regulariser, g the mean of the (clipped) gradients of the batch,
f the number of its records over the divisor. With ηλ < 1 and ω_e the modulus of x ↦ x − e·g(x),

    ω(δ) = (1 − ηλ)·ω_e(δ),   e = ηf/(1 − ηλ).

Each row of the table below bounds ω_e. They are stated for one record's loss, and a mean inherits all of
them: averages of operators in a convex set stay in it, and Hölder, dissipativity and gradient bounds add up.

| what is known | ω_e(δ) |
|---|---|
| curvature in [lo, hi] | max(|1 − e·lo|, |1 − e·hi|)·δ |
| the same, then clipped | L_clip·δ, see `clipping_slope` |
| monotone, β-smooth (convex–concave descent–ascent) | √(1 + e²β²)·δ; clipped, (1 + eβ)·δ |
| convex or monotone, ‖gradient‖ ≤ L | √(δ² + (2eL)²) |
| convex, gradient p-Hölder with constant M on all of ℝ^d | √(δ² + 4(1 − p)/(1 + p)·(eM/2)^(2/(1 − p))) |
| ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ', β-smooth | √(max(0, 1 − 2eκ + e²β²)·δ² + 2eλ') |
| ‖gradient‖ ≤ C | δ + 2eC |

A kind of loss may add rows of its own (`Kind.rows`), as dissipative losses do theirs.

Sources: Bok, Su, Altschuler, Lemma 2.8; Bravo, Flores-Mella, Guzmán, §2 and Remark 3.6; Kong, Ribero,
Prop. 3.4(a); for clipping, docs, "Clipping".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from pabi.describe.moduli import Modulus, finite_or_unbounded
from pabi.numbers.errors import NotApplicable, must_be
from pabi.numbers.rounding import Array, fraction_down, fraction_up, one_minus_product, up
from pabi.numbers.validate import POSITIVE, SHARE, Check, Checked, by, one_of

# What can be known of a loss, and what a kind of loss has to say of itself.
#
# A kind of loss is one `Kind`, a row of the table in `pabi.describe.losses`; that of a linear model's
# loss is made by `pabi.describe.vector_losses`. The accountant knows losses by these rows alone.


Pairs = tuple[tuple[float, float], ...]
Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """What a loss guarantees of one record; None where nothing is known.

    `curvature`: [lo, hi]. `glm`, `separable`: whether its gradient is a scalar function times a fixed vector,
    and whether it is a sum of functions of one coordinate each. That makes clipping of norms, and of
    coordinates, harmless. `convex_holder`: pairs (p, M) where it is convex on all of ℝ^d with a p-Hölder
    gradient of constant M; `holder`: where it need not be convex. `cone`: cos² of the angle of a cone around
    a fixed direction in which the gradient stays. `dissipative`: (λ, κ) with
    ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ. `monotone`: the smoothness β, ∞ if there is none, of what is no
    gradient but a monotone field, that of convex–concave descent–ascent.
    """

    curvature: tuple[float, float] | None = None
    gradient_bound: float | None = None
    glm: bool = False
    convex_holder: Pairs = ()
    holder: Pairs = ()
    dissipative: tuple[float, float] | None = None
    separable: bool = False
    monotone: float | None = None
    cone: Fraction | None = None

    @property
    def convex(self) -> bool:
        """Whether the loss is known to be convex."""
        return bool(self.convex_holder) or (self.curvature is not None and self.curvature[0] >= 0.0)

    @property
    def least_curvature(self) -> float | None:
        """The largest known m with ⟨g(x) − g(y), x − y⟩ ≥ m‖x − y‖², g the gradient or the field."""
        if self.curvature is not None:
            return self.curvature[0]
        return 0.0 if self.convex or self.monotone is not None else None

    @property
    def steepness(self) -> float:
        """The Lipschitz constant of the gradient or the field; ∞ if none is known."""
        if self.curvature is not None:
            return max(map(abs, self.curvature))
        return math.inf if self.monotone is None else self.monotone


Constraints = Mapping[str, Check]


def holder_pairs(name: str, value: Any) -> Pairs:
    """Pairs (exponent in [0, 1], constant > 0) by increasing exponent, of equal ones the least constant."""
    expected = "at least one pair (exponent in [0, 1], constant > 0)"
    must_be(isinstance(value, list | tuple) and value, name, expected, value)
    least: dict[float, float] = {}
    for pair in value:
        must_be(isinstance(pair, list | tuple) and len(pair) == 2, name, expected, pair)
        exponent = SHARE(name, pair[0])
        least[exponent] = min(POSITIVE(name, pair[1]), least.get(exponent, math.inf))
    return tuple(sorted(least.items()))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of loss.

    required, optional
        Its parameters by name, each with its constraint.
    facts
        (parameters) ↦ what follows from them.
    sentences
        (subject, parameters, facts) ↦ what the user must be able to stand behind, each sentence of the first
        about the subject, "each record's loss (…)".
    ordered
        Two required parameters of which the first may not exceed the second; None if there are none.
    rows
        (parameters, e, clips) ↦ moduli of x ↦ x − e·g(x), g the gradient of one record, that do not follow
        from `facts`; None if there are none. They are made of `Modulus.linear`, `affine` and `sqrt`. A mean
        of gradients inherits them, since its step is the mean of their steps. `clips`: whether gradients may
        be clipped, which few rows survive. Trainers raise the noise in place of scaling such gradients down.
    clipped
        (parameters, C) ↦ what follows from them of the loss clipped convexly to gradients of norm C; None
        where nobody knows how.
    """

    required: Constraints
    optional: Constraints = field(default_factory=dict)
    facts: Callable[[Parameters], Facts]
    sentences: Callable[[str, Parameters, Facts], list[str]]
    ordered: tuple[str, str] | None = None
    rows: Callable[[Parameters, Fraction, bool], list[Modulus]] | None = None
    clipped: Callable[[Parameters, float], Facts] | None = None


ITERATES = "a convex set that holds all iterates"


def curvature_known(subject: str, _: Parameters, facts: Facts) -> list[str]:
    """The sentence of a loss of which the curvature is all there is to say."""
    assert facts.curvature is not None
    lo, hi = facts.curvature
    return [f"{subject} has curvature in [{lo!r}, {hi!r}] on {ITERATES}"]


OwnRows = Callable[[Fraction, bool], list[Modulus]]

_ROUNDING = 1e-13  # relative, over powers and logarithms
_LOGARITHMS = 1e-15  # over the roundings of a sum of logarithms, relative to the sizes of its terms
_EXPONENT = 4e-16  # over those of a product and a sum, relative to their sizes
_LEAST_GAP = 1e-300  # in place of a gap that underflows
_LARGEST_EXPONENT = 1.0 - 1e-13  # below 1, where the gap's own exponent has no pole
_FARTHEST = 28.0  # exponents that are closer than e^−28 to the larger of two are not looked at


@dataclass(frozen=True)
class Gradients(Checked):
    """One record's gradients as a step uses them: what is known of the loss, and how they are clipped.

    `clip_norm`: None where they are not; `clipping`: "norm" or "coordinates", InvalidInput for another.
    """

    facts: Facts
    clip_norm: float | None = None
    clipping: str = field(default="norm", metadata=by(one_of("norm", "coordinates")))

    @property
    def clips(self) -> bool:
        """Whether clipping can ever change a gradient."""
        if self.clip_norm is None:
            return False
        bound = self.facts.gradient_bound
        return self.clipping == "coordinates" or bound is None or self.clip_norm < bound

    @property
    def harmless(self) -> bool:
        """Whether the clipped gradients are still those of a loss of the same kind.

        A scalar function times a fixed vector stays one when its norm is clipped, and so does each coordinate
        of a separable loss's gradient when that is.
        """
        survives = {"norm": self.facts.glm, "coordinates": self.facts.separable}
        return survives[self.clipping] or not self.clips

    @property
    def curvature(self) -> tuple[float, float] | None:
        """[lo, hi] of the clipped gradients; None where they need not be those of any smooth loss."""
        if self.facts.curvature is None or not self.harmless:
            return None
        lo, hi = self.facts.curvature
        # Where clipping is harmless it only shrinks derivatives.
        return (min(lo, 0.0), max(hi, 0.0)) if self.clips else (lo, hi)

    @property
    def monotone(self) -> bool:
        """Whether the clipped gradients are those of a convex function, or a monotone field."""
        if self.facts.monotone is not None:
            return not self.clips
        return self.facts.convex and self.harmless

    @property
    def bound(self) -> Fraction | None:
        """A bound on the norm of the clipped gradients, None if there is none."""
        bounds = [b for b in (self.clip_norm, self.facts.gradient_bound) if b is not None]
        return Fraction(min(bounds)) if bounds else None


def slopes(gradients: Gradients, step_sizes: Array, batch_fraction: Fraction, l2: float) -> Array:
    """The least slopes of steps, rounded up, one for each step size; see `Loss.slopes`.

    Raises NotApplicable where no slope is known.
    """
    if not batch_fraction:
        return _of_curvature(step_sizes, Fraction(0), (0.0, 0.0), l2)
    if gradients.curvature is not None:
        return _of_curvature(step_sizes, batch_fraction, gradients.curvature, l2)
    sizes, places = np.unique(step_sizes, return_inverse=True)
    least = np.empty(sizes.shape)
    for i, size in enumerate(sizes.tolist()):
        least[i] = _without_curvature(gradients.facts, gradients.clips, size, batch_fraction, l2)
    return np.asarray(least[places].reshape(step_sizes.shape))


@lru_cache(maxsize=1 << 14)
def _without_curvature(
    facts: Facts, clips: bool, size: float, batch_fraction: Fraction, l2: float
) -> float:
    """The slope of one step, which every reading of a search asks for."""
    shrunk = 1 - Fraction(size) * Fraction(l2)
    if shrunk <= 0:
        raise NotApplicable(f"step_size·l2 = {size * l2!r}, expected less than 1")
    slope = _data_slope(facts, clips, Fraction(size) * batch_fraction / shrunk)
    return up(fraction_up(shrunk * Fraction(slope)))


def _of_curvature(
    step_sizes: Array, batch_fraction: Fraction, curvature: tuple[float, float], l2: float
) -> Array:
    """max over h in [lo, hi] of |1 − η(λ + fraction·h)|, the largest at the ends."""
    lo, hi = (Fraction(l2) + batch_fraction * Fraction(h) for h in curvature)
    with np.errstate(over="ignore", invalid="ignore"):
        _, shrink = one_minus_product(step_sizes, fraction_down(lo))
        overshoot, _ = one_minus_product(step_sizes, fraction_up(hi))
    return np.asarray(np.maximum(shrink, -overshoot))


def _data_slope(facts: Facts, clips: bool, step: Fraction) -> float:
    """The slope of x ↦ x − e·g(x) where the gradients, clipped or not, have no curvature."""
    if facts.curvature is not None:
        return clipping_slope(step, *map(Fraction, facts.curvature))
    assert facts.monotone is not None
    steepness = step * Fraction(facts.monotone)
    # ‖x − y − e(F(x) − F(y))‖² ≤ (1 + e²β²)‖x − y‖² for a monotone field F.
    return fraction_up(1 + steepness) if clips else _root_up(1 + steepness**2)


def gaps(gradients: Gradients, step: Fraction, own: OwnRows | None) -> list[Modulus]:
    """The moduli of x ↦ x − e·g(x), e = `step`, beside the slope.

    `own`: (e, whether gradients may be clipped) ↦ the rows that the loss's kind adds.
    """
    facts, bound, rows = gradients.facts, gradients.bound, list[Modulus]()
    if gradients.monotone and bound is not None:
        rows.append(finite_or_unbounded(Modulus.sqrt, 1.0, fraction_up((2 * step * bound) ** 2)))
    if facts.convex_holder and not gradients.clips:
        gap = holder_gap(step, facts.convex_holder)
        rows += [Modulus.sqrt(1.0, gap)] if math.isfinite(gap) else []
    if own is not None:
        rows.extend(own(step, gradients.clips))
    if bound is not None:
        rows.append(finite_or_unbounded(Modulus.affine, 1.0, fraction_up(2 * step * bound)))
    return rows


def clipping_slope(step: Fraction, lo: Fraction, hi: Fraction) -> float:
    """L_clip: the least Lipschitz constant of steps on clipped gradients, rounded up.

    It holds for every x ↦ x − η·Clip(∇f(x)), ∇f of curvature in [lo, hi], whatever proximal map the clip is:
    sup ‖I − ηPA‖ over 0 ⪯ P ⪯ I, lo·I ⪯ A ⪯ hi·I.

    With m = max(−lo, 0), M = max(hi, 0), a = 1 + ηm and b = 1 − ηM it is the largest of a, |b| and, if
    a(a + b) < 2 and (b > −1 or b(a + b) < 2), √((1 + ηmM/(M − m))/(1 − η(M − m)/4)). For a convex loss,
    m = 0, that is 1/√(1 − ηM/4) up to ηM = 3, and ηM − 1 beyond. (Docs, "Clipping".)
    """
    m, big = max(-lo, Fraction(0)), max(hi, Fraction(0))
    a, b = 1 + step * m, 1 - step * big
    ends = fraction_up(max(a, abs(b)))
    if not (a * (a + b) < 2 and (b > -1 or b * (a + b) < 2)) or big == m:
        return ends
    square = (1 + step * m * big / (big - m)) / (1 - step * (big - m) / 4)
    return max(ends, _root_up(square))


def _root_up(square: Fraction) -> float:
    """A double not below √x, and the next but one at most."""
    root = math.sqrt(fraction_up(square))
    while Fraction(root) ** 2 < square:
        root = up(root)
    return root


def holder_gap(step: Fraction, pairs: Sequence[tuple[float, float]]) -> float:
    """An h, rounded up, with ω(δ) = √(δ² + h) for a convex loss of p-Hölder gradient, for all `pairs` (p, M).

    A gradient that is both p- and q-Hölder is so for every exponent between, with the weighted geometric
    mean of the constants (Bravo, Flores-Mella, Guzmán, §4); all of them are considered.
    """
    stated = sorted(pairs)
    best = min(_known_gap(step, p, m) for p, m in stated)
    for (p, m), (q, n) in pairwise(stated):
        if best == 0.0:
            return 0.0
        if p < q:
            best = min(best, _least_between(step, (p, math.log(m)), (q, math.log(n))))
    return best


def _known_gap(step: Fraction, p: float, constant: float) -> float:
    """4(1 − p)/(1 + p)·(ηM/2)^(2/(1 − p)), rounded up; for p = 1, 0 if ηM ≤ 2 and ∞ otherwise."""
    product = step * Fraction(constant)
    if p == 0.0:
        return fraction_up(product * product)
    if p == 1.0:
        return 0.0 if product <= 2 else math.inf
    return _gap(step, p, math.log(constant))


def _gap(step: Fraction, p: float, log_constant: float) -> float:
    """The gap 4(1 − p)/(1 + p)·(ηM/2)^(2/(1 − p)), rounded up, from ln M, p < 1."""
    log = math.log(step.numerator) - math.log(step.denominator) + log_constant - math.log(2.0)
    size = abs(math.log(step.numerator)) + abs(math.log(step.denominator)) + abs(log_constant) + 1.0
    log += _LOGARITHMS * size
    exponent = 2.0 / (1.0 - p)
    value = math.log(4.0 * (1.0 - p) / (1.0 + p)) + exponent * log
    if value > 700.0:
        return math.inf
    value += _EXPONENT * exponent * (abs(log) + 1.0)
    return max(math.exp(max(value, -700.0)) * (1.0 + _ROUNDING), _LEAST_GAP)


def _least_between(step: Fraction, low: tuple[float, float], high: tuple[float, float]) -> float:
    """The least gap for the exponents between two known ones, 1 − share = e^−u of the way."""
    from scipy.optimize import minimize_scalar

    (p, log_m), (q, log_n) = low, high

    def gap(u: float) -> float:
        share = -math.expm1(-u)
        exponent = min(p + share * (q - p), _LARGEST_EXPONENT)
        return _gap(step, exponent, (1.0 - share) * log_m + share * log_n + _LOGARITHMS)

    def log_gap(u: float) -> float:
        value = gap(u)
        return math.log(value) if value > 0.0 else -800.0

    grid = [_FARTHEST * i / 60 for i in range(61)]
    near = min(range(61), key=lambda i: log_gap(grid[i]))
    bounds = grid[max(0, near - 1)], grid[min(60, near + 1)]
    options = {"xatol": 1e-10}
    u = float(minimize_scalar(log_gap, bounds=bounds, method="bounded", options=options).x)
    return min(gap(u), gap(grid[near]))
