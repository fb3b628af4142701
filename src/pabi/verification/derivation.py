"""What a description of noisy SGD says about each step, in exact rational arithmetic.

Written independently of the code that accounts: constants of the losses, the rule for regulariser and
batch fraction, noise, diameter. What depends on the order of the batches is in `ordered_runs` and
`drawn_runs`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq

from pabi.describe.runs import NoisySGD, run_sentences
from pabi.describe.updates import SGD
from pabi.verification.arithmetic import Refused, above, exact
from pabi.verification.bounds import Bounds
from pabi.verification.losses import (
    DerivedFacts,
    ModulusRow,
    Omega,
    Root,
    clipped_facts_of,
    facts_of,
    largest_of,
    least_of,
    linear,
)
from pabi.verification.roundings import products_below
from pabi.verification.theorem import About, Compared, Proven, read_adjacency

# What one step on a batch's gradients, as a run clips them, does to the distance of two points.
#
# The step is x ↦ x − η(λx + f·g(x)): λ the regulariser, g the mean of the clipped gradients of the batch,
# f the number of its records over the divisor. With ηλ < 1 and ω_e a modulus of x ↦ x − e·g(x), it has
# the modulus (1 − ηλ)·ω_e, e = ηf/(1 − ηλ). (Docs, "Moduli of gradient steps".)


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

    def rates(self, fractions: tuple[Any, ...]) -> set[Any] | None:
        """The r of which the worst makes |1 − ηr| the slope of a step of any size η on these parts of a
        batch; None where it is not of that form."""
        if self.curvature is None and any(fractions):
            return None
        ends = self.curvature or (fmpq(0), fmpq(0))
        return {self.l2 + fraction * h for fraction in fractions for h in ends}

    def slope_for(self, eta: Any, fractions: tuple[Any, ...]) -> Any:
        """The largest slope of a step of size η over these parts of a batch, None if none is known."""
        slopes = [self.slope(eta, fraction) for fraction in fractions]
        return None if any(slope is None for slope in slopes) else max(slopes)

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


def takes_plain_steps(update: Any) -> bool:
    """Whether an update is plain noisy SGD. What is not known to be is not."""
    return type(update) is SGD or (type(update) is str and update == "sgd")


def hides_its_path(release: Any) -> bool:
    """Whether only the last iterate is released. What is not known to be hidden is not."""
    return type(release) is str and release == "last"


def least_diameter(stated: float | None, prox: Any) -> float | None:
    """D: the lesser of the stated diameter and that of the proximal map's range, None without any."""
    bounds = [float(d) for d in (stated, getattr(prox, "diameter", None)) if d is not None]
    least = min(bounds, default=math.inf)
    return None if least == math.inf else least


class Derived(About):
    """Step sizes, noises and gradients of `run`, as rationals; steps count from 0.

    `size`: the number that every batch sum is divided by. `total`: all steps; `data`: those before the
    cool-down. `position`: the only batch spoken of, None for everybody. `constant`: whether step size and
    noise are the same at all steps. `diameter`: D, None if there is none. `neighbours`: what becomes of a
    record; `adjacency`: what is compared.
    """

    position: int | None = None

    def __init__(self, run: NoisySGD, size: int) -> None:
        self.run, self.size = run, size
        self.neighbours, self.unit = read_adjacency(run.adjacency), run.unit
        self.adjacency: Compared = self.neighbours
        self.total = int(run.steps)
        self.data = self.total - int(run.cooldown_steps)
        self.gradients = ClippedGradients(run)
        self.nulls = self.gradients.facts.holds_of_zero
        if self.unit == "user" and not facts_of(run.loss).holds_of_zero:
            raise Refused("unit: the loss 0 of a user without records is not of the stated kind")
        self.diameter = least_diameter(run.diameter, run.prox)
        self.constant = not any(
            isinstance(x, np.ndarray) for x in (run.step_size, run.noise_std, run.noise_multiplier)
        )

    def assumptions(self, *, hidden: bool) -> tuple[str, ...]:
        """What a proof about the run rests on; refused if it needs a hidden path and there is none."""
        run = self.run
        if hidden and not (hides_its_path(run.release) and takes_plain_steps(run.update)):
            raise Refused("run: the theorem needs plain noisy SGD with a hidden path")
        return self.sentences(hidden)

    def sentences(self, hidden: bool) -> tuple[str, ...]:
        """The sentences of the description, with those that hide its path or without."""
        return run_sentences(self.run, hidden=hidden, position=self.position)

    def computed(self, proven: Proven) -> Bounds:
        """Of a hidden path the bounds on a run whose steps are as near to exact ones as the description says.
        What rests on the sentences for every iterate adds up computed steps as it is."""
        r = Fraction(self.run.rounding)
        if r == 0 or set(self.assumptions(hidden=False)) <= set(proven.assumptions):
            return proven.bounds
        return tuple(bound.computed(r) for bound in proven.bounds)

    def step_size(self, k: int) -> Any:
        """The step size η of step k, a rational."""
        return _at(self.run.step_size, k)

    @cached_property
    def noises(self) -> Any:
        """The noise ς on the gradient, one double or one for every step: as stated, or what a multiplier
        stands for, and no more than the double that the trainer adds."""
        run = self.run
        if run.noise_std is not None:
            return run.noise_std
        if run.noise_multiplier is None:
            raise Refused("noise_std: the description has no noise")
        # What the multiplier multiplies is part of the description, as the trainer reads it.
        unit = exact(run.clip_norm if run.clip_norm is not None else run.loss.gradient_bound or 0.0)
        stated, added = np.atleast_1d(run.noise_multiplier), run.gradient_noise_std
        least = np.minimum(products_below(np.ones(len(stated)), stated, unit / self.size), added)
        return least if np.ndim(added) else float(least[0])

    def noise(self, k: int) -> Any:
        """The standard deviation ς of the noise on the gradient at step k, a rational."""
        return _at(self.noises, k)

    def sigma(self, k: int) -> Any:
        """The standard deviation of the noise on the iterate at step k, a rational."""
        return self.step_size(k) * self.noise(k)

    def changed_by(self, gradients: int) -> Any:
        """How far a batch's gradient sum moves if so many gradients of one record change, or as stated."""
        if self.run.gradient_sensitivity is not None:
            return exact(self.run.gradient_sensitivity)
        if self.gradients.bound is None:
            raise Refused("clip_norm: nothing bounds one record's gradient")
        return gradients * self.gradients.bound


def _at(schedule: Any, k: int) -> Any:
    return exact(schedule[k] if isinstance(schedule, np.ndarray) else schedule)


NO_DATA = (fmpq(0),)  # the fraction of a step of the cool-down
