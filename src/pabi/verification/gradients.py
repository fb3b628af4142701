"""What one step on a batch's gradients, as a run clips them, does to the distance of two points.

The step is x ↦ x − η(λx + f·g(x)): λ the regulariser, g the mean of the clipped gradients of the batch, f the
number of its records over the divisor. With ηλ < 1 and ω_e a modulus of x ↦ x − e·g(x), it has the modulus
(1 − ηλ)·ω_e, e = ηf/(1 − ηλ). (Docs, "Moduli of gradient steps".)
"""

from __future__ import annotations

from typing import Any

from flint import arb, fmpq

from pabi.describe.runs import NoisySGD
from pabi.verification.arithmetic import above, exact
from pabi.verification.losses import DerivedFacts, clipped_facts_of, facts_of
from pabi.verification.moduli import ModulusRow, Omega, Root, largest_of, least_of, linear
from pabi.verification.refusal import Refused


class ClippedGradients:
    """The gradients of one record as a run clips them.

    `clips`: whether clipping can change one. `harmless`: whether they are still those of a loss of the same
    kind. `bound`: the largest norm after clipping, None if there is none. `curvature`: that of the gradients
    as clipped, None where they are no loss's. `steepness`: by how much one record's gradient changes per unit
    of distance at most, None if unknown.
    """

    def __init__(self, run: NoisySGD) -> None:
        norm = None if run.clip_norm is None else exact(run.clip_norm)
        # A loss that is clipped convexly is one like any other, whose gradients are as they are.
        whole = run.clipping in ("residual", "ball") and norm is not None
        if run.clipping == "ball" and "residual_cap" in dict(run.loss.parameters):
            raise Refused("clipping: the checker knows no ball beside a residual_cap")
        facts = clipped_facts_of(run.loss, norm) if whole else facts_of(run.loss)
        self.facts, self.l2 = facts, exact(run.loss.l2)
        self.clips, same_kind = _clipping(run.clipping, norm, facts)
        self.harmless = same_kind or not self.clips
        bounds = [x for x in (norm, facts.bound) if x is not None]
        self.bound = min(bounds) if bounds else None
        self.curvature = self._clipped()
        self._moduli: dict[Any, Omega] = {}
        if facts.curvature is not None:
            self.steepness = max(abs(h) for h in facts.curvature)
        else:
            self.steepness = facts.lipschitz

    def _clipped(self) -> tuple[Any, Any] | None:
        curvature = self.facts.curvature
        if curvature is None or not self.harmless:
            return None
        lo, hi = curvature
        return (min(lo, fmpq(0)), max(hi, fmpq(0))) if self.clips else (lo, hi)

    def slope(self, eta: Any, fraction: Any) -> Any:
        """max over curvatures h of |1 − ηλ − η·fraction·h|, or its counterpart for gradients as clipped and
        for monotone fields; None if there is none."""
        if fraction == 0 or self.curvature is not None:
            lo, hi = self.curvature or (fmpq(0), fmpq(0))
            return max(abs(1 - eta * (self.l2 + fraction * h)) for h in (lo, hi))
        shrinkage = 1 - eta * self.l2
        if self.steepness is None or shrinkage <= 0:
            return None
        step = eta * fraction / shrinkage
        if self.facts.curvature is not None:
            return shrinkage * _clipping_constant(step, *self.facts.curvature)
        change = step * self.steepness
        return shrinkage * (1 + change if self.clips else above(arb(1 + change * change).sqrt()))

    def modulus(self, eta: Any, fractions: tuple[Any, ...]) -> Omega:
        """The modulus of a step of size η for every batch that is one of these parts or between two."""
        key = eta, fractions
        if key not in self._moduli:
            self._moduli[key] = largest_of([least_of(self.rows(eta, f)) for f in fractions])
        return self._moduli[key]

    def rows(self, eta: Any, fraction: Any) -> list[ModulusRow]:
        """All that is known of a step of size η on so large a part of a batch."""
        shrinkage = 1 - eta * self.l2
        if fraction == 0:
            return [linear(shrinkage)]
        slope = self.slope(eta, fraction)
        rows: list[ModulusRow] = [] if slope is None else [linear(slope)]
        if shrinkage > 0:
            rows += [row.scaled(shrinkage) for row in self._of_data(eta * fraction / shrinkage)]
        return rows

    def _of_data(self, step: Any) -> list[ModulusRow]:
        """Rows of x ↦ x − step·(mean of the gradients as clipped)."""
        facts, rows = self.facts, []
        if self.bound is not None:
            if (facts.monotone and not self.clips) or (facts.convex and self.harmless):
                rows.append(Root(1, (2 * step * self.bound) ** 2, 0))
            rows.append(Root(1, 0, 2 * step * self.bound))
        unclipped = () if self.clips else facts.as_they_are
        return [*rows, *(row(step) for row in (*unclipped, *facts.however_clipped))]


def _clipping(clipping: str, norm: Any, facts: DerivedFacts) -> tuple[bool, bool]:
    """(whether clipping to `norm` can change a gradient, whether what it makes of one is still that of a loss
    of the same kind)."""
    match clipping:
        case "norm":
            return norm is not None and (facts.bound is None or norm < facts.bound), facts.scalar
        case "coordinates":
            return norm is not None, facts.separable
        case "residual" | "ball":
            return False, True
        case _:
            raise Refused(f"clipping: the checker knows no {clipping!r}")


def _clipping_constant(step: Any, lo: Any, hi: Any) -> Any:
    """A rational not below sup ‖I − ηPA‖ over 0 ⪯ P ⪯ I and A of eigenvalues in [min(lo, 0), max(hi, 0)].

    By Jordan's lemma the supremum is that of s(q) over q in [0, 1], 2s² = S + √(S² − 4x²), where
    x = 1 + ηm − η(M + m)q and S = x² + η²(M + m)²q(1 − q) + 1. (Docs, "The least slope of clipped steps",
    where its maximum is worked out.)
    """
    m, big = max(-lo, fmpq(0)), max(hi, fmpq(0))
    a, b = 1 + step * m, 1 - step * big
    least = max(a, abs(b))
    if big == m or a * (a + b) >= 2 or (b <= -1 and b * (a + b) >= 2):
        return least
    square = (1 + step * m * big / (big - m)) / (1 - step * (big - m) / 4)
    return max(least, above(arb(square).sqrt()))
