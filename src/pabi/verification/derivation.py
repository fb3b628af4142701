"""What a description of noisy SGD says about each step, in exact rational arithmetic.

Written independently of the code that accounts: constants of the losses, the rule for regulariser and
batch fraction, sensitivities, noise, and which steps use a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import arb, fmpq

from pabi.losses import Loss
from pabi.runs import NoisySGD
from pabi.verification.arithmetic import Repeated, Steps, Stretch
from pabi.verification.limits import positions, timed
from pabi.verification.refusal import Refused


def exact(x: float | int) -> Any:
    """A double as a rational number."""
    return fmpq(*float(x).as_integer_ratio())


def above(ball: Any) -> Any:
    """A rational not below a ball."""
    mantissa, exponent = ball.upper().man_exp()
    power = int(exponent)
    return fmpq(mantissa) * (fmpq(2) ** power if power >= 0 else 1 / fmpq(2) ** -power)


def _of_features(loss: Loss, norm: Any) -> tuple[Any, Any, bool]:
    """(curvature bound, gradient bound, whether the gradient is a scalar times a fixed vector)."""
    p = {name: exact(value) for name, value in loss.parameters}
    square = norm * norm
    if loss.kind == "logistic":
        return square / 4, norm, True
    if loss.kind == "softmax":
        return square / 2, above(arb(2).sqrt() * arb(norm)), False
    if loss.kind == "squared":
        return square, norm * p["residual_bound"], True
    if loss.kind == "huber":
        return square, norm * p["threshold"], True
    if loss.kind == "smoothed_hinge":
        return square / p["smoothing"], norm, True
    if loss.kind == "poisson":
        rate = above(arb(p["predictor_bound"]).exp())
        return square * rate, norm * max(p["count_bound"], rate), True
    raise Refused(f"loss: the checker knows no {loss.kind!r}")


class Facts(NamedTuple):
    """What a loss says of one record: curvature interval, gradient bound, whether the gradient is a scalar
    times a fixed vector, whether it is a sum of functions of one coordinate each, Hölder exponents with
    constants of a loss convex on all of space, (offset, rate) of dissipativity, whether it is a convex
    loss's at all, whether it is a monotone field, and the Lipschitz constant of that (None: unknown)."""

    curvature: tuple[Any, Any] | None = None
    bound: Any | None = None
    scalar: bool = False
    separable: bool = False
    holder: tuple[tuple[Any, Any], ...] = ()
    dissipative: tuple[Any, Any] | None = None
    convex: bool = False
    monotone: bool = False
    lipschitz: Any = None


def facts_of(loss: Loss) -> Facts:
    p = dict(loss.parameters)
    if "feature_norm" in p:
        hi, bound, scalar = _of_features(loss, exact(p["feature_norm"]))
        holder = ((fmpq(0), 2 * bound), (fmpq(1), hi))
        return Facts((fmpq(0), hi), bound, scalar, holder=holder, convex=True)
    given = p.get("gradient_bound", p.get("constant"))
    bound = None if given is None else exact(given)
    said: dict[str, Any] = {
        "bound": bound,
        "scalar": bool(p.get("glm", False)),
        "separable": bool(p.get("separable", False)),
    }
    if loss.kind == "unknown":
        return Facts(**said)
    if loss.kind == "lipschitz":
        return Facts(holder=((fmpq(0), 2 * exact(p["constant"])),), convex=True, **said)
    if loss.kind == "saddle":
        smooth = p.get("smoothness")
        lipschitz = None if smooth is None else exact(smooth)
        return Facts(bound=bound, monotone=True, lipschitz=lipschitz)
    if loss.kind == "weakly_smooth":
        pairs = tuple((exact(q), exact(m)) for q, m in p["pairs"])
        smooth = [m for q, m in pairs if q == 1]
        if bound is not None:
            pairs = (*pairs, (fmpq(0), 2 * bound))
        curvature = (fmpq(0), min(smooth)) if smooth else None
        return Facts(curvature, holder=pairs, convex=True, **said)
    hi = exact(p["smoothness"])
    if loss.kind == "dissipative":
        return Facts((-hi, hi), dissipative=(exact(p["offset"]), exact(p["rate"])), **said)
    if loss.kind == "convex":
        lo = fmpq(0)
    elif loss.kind == "strongly_convex":
        lo = exact(p["strong_convexity"])
    elif loss.kind == "nonconvex":
        lo = -hi
    elif loss.kind == "weakly_convex":
        lo = -exact(p["weak_convexity"])
    else:
        raise Refused(f"loss: the checker knows no {loss.kind!r}")
    return Facts((lo, hi), convex=lo >= 0, **said)


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


class Derived:
    """Slopes, sensitivities and noises of `run`, as rationals; steps count from 0."""

    def __init__(self, run: NoisySGD) -> None:
        self.run = run
        self.size = run.n if run.batches.kind == "full_batch" else int(run.batches.size)  # type: ignore[attr-defined]
        self.period = -(-run.n // self.size)
        self.last_size = run.n - (self.period - 1) * self.size
        self.total = int(run.steps)
        self.data = self.total - run.cooldown_steps
        self.facts = facts_of(run.loss)
        self.bound = self.facts.bound
        self.clips = run.clip_norm is not None and (
            run.clipping == "coordinates" or self.bound is None or exact(run.clip_norm) < self.bound
        )
        kept = self.facts.scalar if run.clipping == "norm" else self.facts.separable
        self.harmless = kept or not self.clips
        self.curvature = self._clipped()
        self.l2 = exact(run.loss.l2)
        self.sensitivity = self._sensitivity()
        self.constant = not any(
            isinstance(x, np.ndarray) for x in (run.step_size, run.noise_std, run.noise_multiplier)
        )

    def _clipped(self) -> tuple[Any, Any] | None:
        """The curvature of the gradients as clipped, None where they are no loss's."""
        curvature = self.facts.curvature
        if curvature is None or not self.harmless:
            return None
        lo, hi = curvature
        return (min(lo, fmpq(0)), max(hi, fmpq(0))) if self.clips else (lo, hi)

    @property
    def steepness(self) -> Any:
        """By how much one record's gradient changes per unit of distance at most; None if unknown."""
        if self.facts.curvature is not None:
            return max(abs(h) for h in self.facts.curvature)
        return self.facts.lipschitz

    def _sensitivity(self) -> Any:
        run = self.run
        if run.gradient_sensitivity is not None:
            return exact(run.gradient_sensitivity)
        bounds = [exact(run.clip_norm)] if run.clip_norm is not None else []
        bounds += [self.bound] if self.bound is not None else []
        bound = min(bounds)
        return 2 * bound if run.adjacency == "replace_one" else bound

    def _at(self, schedule: Any, k: int) -> Any:
        return exact(schedule[k] if isinstance(schedule, np.ndarray) else schedule)

    def step_size(self, k: int) -> Any:
        return self._at(self.run.step_size, k)

    def noise(self, k: int) -> Any:
        """ς of step k."""
        run = self.run
        if run.noise_std is not None:
            return self._at(run.noise_std, k)
        if run.noise_multiplier is None:
            raise Refused("noise_std: the description has no noise")
        # What the multiplier multiplies is part of the description, as the trainer reads it.
        unit = exact(run.clip_norm if run.clip_norm is not None else run.loss.gradient_bound or 0.0)
        return self._at(run.noise_multiplier, k) * unit / self.size

    def s(self, k: int) -> Any:
        """The sensitivity of step k when the record is in its batch."""
        return self.step_size(k) * self.sensitivity / self.size

    def sigma(self, k: int) -> Any:
        return self.step_size(k) * self.noise(k)

    def privacy_loss(self, k: int) -> Any:
        """(s_k/σ_k)², which does not depend on the step size."""
        ratio = self.sensitivity / (self.size * self.noise(k))
        return ratio * ratio

    @cached_property
    def sensitivities(self) -> list[Any]:
        """s of every step that uses data."""
        return [self.s(k) for k in timed(range(positions("steps", self.data)))]

    @cached_property
    def slopes(self) -> list[Any]:
        """The slope of every step."""
        return [self.slope(k) for k in timed(range(positions("steps", self.total)))]

    def slope(self, k: int) -> Any:
        """The least slope of step k."""
        slope = self.slope_at(self.step_size(k), self.fraction(k))
        if slope is None:
            raise Refused("loss: no slope is known of its steps")
        return slope

    def fraction(self, k: int) -> Any:
        """Records in the batch of step k over their divisor."""
        if k >= self.data:
            return fmpq(0)
        return fmpq(self.last_size, self.size) if k % self.period == self.period - 1 else fmpq(1)

    def slope_at(self, eta: Any, fraction: Any) -> Any:
        """max over curvatures h of |1 − ηλ − η·fraction·h|, or its counterpart for gradients as clipped and
        for monotone fields; None if there is none."""
        if fraction == 0 or self.curvature is not None:
            lo, hi = self.curvature or (fmpq(0), fmpq(0))
            return max(abs(1 - eta * (self.l2 + fraction * h)) for h in (lo, hi))
        kept = 1 - eta * self.l2
        if self.steepness is None or kept <= 0:
            return None
        step = eta * fraction / kept
        if self.facts.curvature is not None:
            return kept * _clipping_constant(step, *self.facts.curvature)
        change = step * self.steepness
        return kept * (1 + change if self.clips else above(arb(1 + change * change).sqrt()))

    def kinds(self, a: int, b: int) -> list[int]:
        """One step of every kind (full batch, last batch of an epoch, cool-down) in a..b−1."""
        found = []
        if b > self.data and b > a:
            found.append(max(a, self.data))
        b = min(b, self.data)
        closing = a + (self.period - 1 - a % self.period)
        if a < b and closing < b:
            found.append(closing)
        if a < b and self.period > 1:
            plain = a if a % self.period != self.period - 1 else a + 1
            if plain < b:
                found.append(plain)
        return found

    @cached_property
    def slopes_by_kind(self) -> dict[int, Any]:
        """For a constant schedule: the slope of every kind of step that is taken."""
        return {k: self.slope(k) for k in self.kinds(0, min(self.total, self.period))} | {
            k: self.slope(k) for k in self.kinds(self.data, self.total)
        }

    def nonexpansive(self) -> bool:
        """Whether no step stretches distances."""
        if self.constant:
            return all(c <= 1 for c in self.slopes_by_kind.values())
        return all(c <= 1 for c in self.slopes)

    def later_is_worse(self) -> bool:
        """Rules (i) and (ii) of "The worst record": no earlier use can be worse than a later one."""
        if (
            self.constant
            and self.data == self.total
            and len(set(self.slopes_by_kind.values())) == 1
        ):
            return True
        if not self.nonexpansive():
            return False
        return self.constant or all(a <= b for a, b in pairwise(self.sensitivities))

    def steps(self, used: set[int]) -> Steps:
        """The normal form written out, for a record used at these steps."""
        positions("steps", self.total)
        if self.constant:
            once, sigma = arb(self.s(0)), arb(self.sigma(0))
            by_kind = [arb(self.slope(k)) for k in self._one_of_each()]
            return Steps(
                [by_kind[self._kind(k)] for k in range(self.total)],
                [once if k in used else arb(0) for k in range(self.total)],
                [sigma] * self.total,
            )
        slopes, demands, noises = self._balls
        own = [demands[k] if k in used else arb(0) for k in range(self.total)]
        return Steps(slopes, own, noises)

    @cached_property
    def _balls(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Every step of a varying schedule, s as if the record were in every batch."""
        return (
            [arb(c) for c in self.slopes],
            [arb(s) for s in self.sensitivities] + [arb(0)] * (self.total - self.data),
            [arb(self.sigma(k)) for k in timed(range(self.total))],
        )

    def _kind(self, k: int) -> int:
        if k >= self.data:
            return 2
        return 1 if k % self.period == self.period - 1 else 0

    def _one_of_each(self) -> list[int]:
        """A step of every kind, or step 0 where there is none of a kind (never looked up then)."""
        found = {self._kind(k): k for k in (*self.kinds(0, self.total),)}
        return [found.get(i, 0) for i in range(3)]

    def share(self, a: int, b: int) -> Any:
        """The share of the records that are in batches a..b, cyclically if b < a."""
        if b < a:
            return self.share(a, self.period - 1) + self.share(0, b)
        missing = self.size - self.last_size if b == self.period - 1 else 0
        return fmpq((b - a + 1) * self.size - missing, self.run.n)


class Uses:
    """Steps that use a record: first + i·period for i < count, and those of `then`."""

    def __init__(self, first: int, count: int, then: Sequence[int], period: int) -> None:
        self.first, self.count, self.then, self.period = first, count, tuple(then), period

    def among(self, a: int, b: int) -> bool:
        """Whether any of a..b−1 is a use."""
        if any(a <= k < b for k in self.then):
            return True
        last = self.first + (self.count - 1) * self.period
        if self.count == 0 or b <= self.first or a > last:
            return False
        following = a + (self.first - a) % self.period if a > self.first else self.first
        return following < b and following <= last

    def all(self) -> Iterator[int]:
        count = positions("uses", self.count)
        yield from (self.first + i * self.period for i in range(count))
        yield from self.then

    @property
    def total(self) -> int:
        return self.count + len(self.then)


def check_groups(derived: Derived, uses: Uses, skipped: int, groups: Sequence[Repeated]) -> None:
    """Refuse unless the groups, from step `skipped` on, are at least what the description implies."""
    k = skipped
    for times, stretches in timed(groups):
        length = sum(x.n for x in stretches)
        if times > 1 and (
            length % derived.period
            or (uses.count and k < uses.first)
            or k + times * length > derived.data
            or any(k <= x < k + times * length for x in uses.then)
        ):
            raise Refused(f"step {k + 1}: a repetition that the description does not have")
        for stretch in stretches:
            _check_stretch(derived, uses, k, stretch)
            k += stretch.n
        k += (times - 1) * length
    if k != derived.total:
        raise Refused(f"step {k}: the certificate ends there, the run at {derived.total}")


def _check_stretch(derived: Derived, uses: Uses, k: int, stretch: Stretch) -> None:
    for step in derived.kinds(k, k + stretch.n):
        least = derived.slope(step)
        if not exact(stretch.c) >= least:
            raise Refused(_differs(step, "slope", stretch.c, "at least", least))
    if uses.among(k, k + stretch.n) and not exact(stretch.s) >= derived.s(k):
        raise Refused(_differs(k, "sensitivity", stretch.s, "at least", derived.s(k)))
    if not exact(stretch.sigma) <= derived.sigma(k):
        raise Refused(_differs(k, "noise", stretch.sigma, "at most", derived.sigma(k)))


def check_arrays(derived: Derived, c: Any, s: Any, sigma: Any) -> None:
    """Refuse unless written-out steps are at least what the description implies."""
    if not len(c) == len(s) == len(sigma) == derived.total:
        raise Refused(f"steps: expected {derived.total} of each column")
    for k, least in timed(enumerate(derived.slopes)):
        if not exact(c[k]) >= least:
            raise Refused(_differs(k, "slope", c[k], "at least", least))
        if k < derived.data and not exact(s[k]) >= derived.s(k):
            raise Refused(_differs(k, "sensitivity", s[k], "at least", derived.s(k)))
        if not exact(sigma[k]) <= derived.sigma(k):
            raise Refused(_differs(k, "noise", sigma[k], "at most", derived.sigma(k)))


def _differs(k: int, what: str, got: float, bound: str, value: Any) -> str:
    implied = float(arb(value).mid())
    return f"step {k + 1}: {what}: the description implies {bound} {implied!r}, got {float(got)!r}"
