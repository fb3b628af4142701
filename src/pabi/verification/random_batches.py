"""Which factors a run with random batches needs, from its description and the payments of its plan.

A step with data has a slope c, that of its batch without the record; the record moves the iterate by at
most s besides; the noise has standard deviation σ; and the pulls of two records differ by ρz more at two
places z apart than they can at one. (Docs, "Certificates" and "Random batches".) Distances are balls; a
larger distance is a worse problem, so that upper bounds will do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import arb, fmpq

from pabi import encoding
from pabi.verification.arithmetic import geometric, root_up
from pabi.verification.claims import Factors
from pabi.verification.derivation import Derived, above, exact
from pabi.verification.limits import in_time, positions, timed
from pabi.verification.moduli import Omega, derived_rows, largest_of, least_of, pay_once
from pabi.verification.products import Sampled
from pabi.verification.reading import closed, integer
from pabi.verification.refusal import Refused

_MOST_FOLLOWED = 100_000  # steps whose moduli are gone through one by one if there is a diameter
_MORE = 1 + arb(2) ** -40  # by so much a payment may exceed s, which is then raised to it


def proven(derived: Derived, theorem: str, plan: Any) -> Factors:
    """The factors that `theorem` needs for this plan."""
    keys = {
        "composition": (),
        "one-sided shift": ("cap", "pulls", "lengths", "shares"),
        "two-sided shift": ("cap", "payments", "lengths", "shares"),
        "nonlinear one-sided shift": ("cap", "payments", "share"),
    }
    if theorem not in keys:
        raise Refused(f"theorem: the checker knows no {theorem!r} for random batches")
    closed("the plan", plan, keys[theorem])
    if theorem == "composition":
        return _composition(derived)
    if theorem == "nonlinear one-sided shift":
        return _nonlinear(derived, plan)
    steps = _Steps(derived, integer("cap", plan["cap"]))
    blocks = _blocks(steps, plan)
    first = derived.total - sum(block.length for block in blocks)  # 0-based, of the blocks
    needed: list[tuple[float, int]] = []
    if theorem == "one-sided shift":
        distance, needed = _leading(steps, first, plan)
        sides = 1
    else:
        distance, needed = _lagging(
            steps, first, encoding.read_floats("payments", plan["payments"])
        )
        sides = 2
    gaussian = _pay_off(steps, blocks, distance, sides, needed)
    return _factors(derived, gaussian, needed, _failure(derived, steps.cap))


def _nonlinear(derived: Derived, plan: Any) -> Factors:
    """Payments of the last steps under moduli that need not be linear. Every step with data gives the shift
    the same share of its noise variance, and so do those of the cool-down."""
    steps = _Steps(derived, integer("cap", plan["cap"]))
    paid = encoding.read_floats("payments", plan["payments"]).tolist()
    share, first = plan["share"], derived.total - len(paid)
    if not (isinstance(share, float) and 0.0 < share < 1.0) or not 0 <= first < derived.total:
        raise Refused(
            f"share: expected a number in (0, 1), and payments of some steps, got {share!r}"
        )
    z = steps.bent_distance(first)
    balls, needed = [], []
    for k, a in timed(enumerate(paid, first)):
        step, omega = steps.at(k, bent=True), steps.modulus(k)
        if not step.s.is_zero():
            pull = _apart(steps, step, z)
            needed.append((_root((pull / step.sigma) ** 2 / (1 - arb(share))), 1))
        cost, z = pay_once(omega, arb(0), step.sigma, z, a, k)
        balls.append(cost)
    if not z.is_zero():
        raise Refused(
            f"step {derived.total}: the payments leave a distance of {z.str(5)} at the end"
        )
    gaussian = _root(sum(balls, arb(0)) / arb(share))
    return _factors(derived, gaussian, needed, _failure(derived, steps.cap))


# What the description says.

_SINGLE, _EITHER = "a record that is there or not", "either of two records"
_FIXED, _ZEROED = "fixed size", "fixed size, a record zeroed"

# How far apart steps from one place can be on the two data sets: so many s.
_CHANGE = {_SINGLE: fmpq(1), _EITHER: fmpq(2), _FIXED: fmpq(1), _ZEROED: fmpq(1, 2)}


def _kind(derived: Derived) -> str:
    if derived.run.batches.kind == "fixed_size":
        return _ZEROED if derived.run.adjacency == "zero_out" else _FIXED
    return _SINGLE if derived.run.adjacency == "zero_out" else _EITHER


def _pull(derived: Derived) -> Any:
    """b/η times the s of one step: a record is added, or takes the place of another."""
    run = derived.run
    if run.gradient_sensitivity is not None:
        return exact(run.gradient_sensitivity)
    bounds = [exact(run.clip_norm)] if run.clip_norm is not None else []
    bounds += [derived.bound] if derived.bound is not None else []
    return min(bounds) * (2 if _kind(derived) in (_FIXED, _ZEROED) else 1)


def _composition(derived: Derived) -> Factors:
    """One factor of parameter (largest change of the gradient sum)/(b·ς) for every step with data."""
    change = _pull(derived) * (2 if _kind(derived) == _EITHER else 1)
    run = derived.run
    noise = run.noise_std if run.noise_std is not None else run.noise_multiplier
    if isinstance(noise, np.ndarray):
        _, places, counts = np.unique(noise[: derived.data], return_index=True, return_counts=True)
        steps = list(zip(places.tolist(), counts.tolist(), strict=True))
    else:
        steps = [(0, derived.data)]
    positions("noises", len(steps))
    needed = [(_root((change / (derived.size * derived.noise(k))) ** 2), n) for k, n in steps]
    return _factors(derived, 0.0, needed, Fraction(0))


def _factors(
    derived: Derived, gaussian: float, needed: Sequence[tuple[float, int]], failure: Fraction
) -> Factors:
    kind = "poisson_subsampled" if _kind(derived) == _SINGLE else "subsampled"
    p = Fraction(derived.size, derived.run.n)
    sampled = tuple(Sampled(kind, p, mu, count) for mu, count in needed)
    return Factors(((Fraction(1), gaussian),), sampled, failure)


def _failure(derived: Derived, cap: int) -> Fraction:
    """A bound on the probability that any batch has more than `cap` records and is taken all the same.

    P(Bin(n, p) = k) falls from k = cap + 1 on at least as fast as a geometric series of its ratio there.
    """
    batches, n, k = derived.run.batches, derived.run.n, cap + 1
    if batches.kind == "fixed_size" or getattr(batches, "cap", None) is not None or k > n:
        return Fraction(0)
    p = fmpq(derived.size, n)
    if p == 1 or (n - k) * p >= (k + 1) * (1 - p):
        return Fraction(1)
    ratio = (n - k) * p / ((k + 1) * (1 - p))
    log = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
    log += k * arb(p).log() + (n - k) * arb(1 - p).log()
    total = above(derived.data * log.exp() / (1 - arb(ratio)))
    return min(Fraction(1), Fraction(int(total.p), int(total.q)))


class _Step(NamedTuple):
    """One step: c, s, σ, ρ, as balls."""

    c: Any
    s: Any
    sigma: Any
    rho: Any


class _Steps:
    """The steps of a run whose batches have at most `cap` records."""

    def __init__(self, derived: Derived, cap: int) -> None:
        run, size = derived.run, derived.size
        self.derived, self.cap, self.kind = derived, cap, _kind(derived)
        stated = getattr(run.batches, "cap", None)
        fixed = self.kind in (_FIXED, _ZEROED)
        expected = size if fixed else None if stated is None else min(stated, run.n)
        if expected is not None and cap != expected:
            raise Refused(f"cap: the description implies {expected}, got {cap}")
        # Between these fractions lie those of all batches; the slope is convex in them.
        self.fractions = (fmpq(1),) if fixed else (fmpq(0), fmpq(cap, size))
        self.pull = _pull(derived) / size
        d = run.range_diameter
        self.diameter = None if math.isinf(d) else arb(d)
        self._known: dict[Any, _Step] = {}
        self._moduli: dict[Any, Omega] = {}

    def modulus(self, k: int) -> Omega:
        """That of step k for every batch that it may have: those of the fractions at both ends, between
        which every row is convex."""
        idle = k >= self.derived.data
        key = idle, self.derived.step_size(k)
        if key not in self._moduli:
            fractions = (fmpq(0),) if idle else self.fractions
            rows = [derived_rows(self.derived, k, f) for f in fractions]
            self._moduli[key] = largest_of([least_of(r) for r in rows])
        return self._moduli[key]

    def bent_distance(self, count: int) -> Any:
        """A bound on the distance after the first `count` steps, from 0, by their moduli."""
        if count > _MOST_FOLLOWED and self.diameter is not None:
            return self.diameter
        positions("steps", count)
        w, k, data = arb(0), 0, self.derived.data
        while k < count:
            in_time()
            pull = _CHANGE[self.kind] * self.at(k, bent=True).s
            after = self.within(arb(above(self.modulus(k)(w) + pull)))
            # Equal steps that leave the diameter as it is go on doing so.
            settled = self.derived.constant and after is w is self.diameter and k < data
            k, w = (min(count, data) if settled else k + 1), after
        return w

    def at(self, k: int, bent: bool = False) -> _Step:
        """Step k, from 0; `bent`: its slope does not matter."""
        derived, idle = self.derived, k >= self.derived.data
        eta, noise = derived.step_size(k), derived.noise(k)
        key = idle, eta, noise, bent
        if key not in self._known:
            fractions = (fmpq(0),) if idle else self.fractions
            slopes = [derived.slope_at(eta, f) for f in fractions]
            if bent:
                slopes = [fmpq(0)]
            if None in slopes:
                raise Refused(f"step {k + 1}: loss: no slope is known of its steps")
            c = max(slopes)
            s = 0 if idle else eta * self.pull
            spread = derived.steepness
            if self.kind != _ZEROED and derived.curvature is not None:
                spread = derived.curvature[1] - derived.curvature[0]
            elif self.kind != _ZEROED and spread is not None:
                spread = 2 * spread
            known = not idle and spread is not None
            rho = eta * spread / derived.size if known else 0 if idle else arb("inf")
            if len(self._known) > 100_000:
                self._known.clear()
            self._known[key] = _Step(arb(c), arb(s), arb(eta * noise), arb(rho))
        return self._known[key]

    def within(self, distance: Any) -> Any:
        """`distance`, or the diameter where that is less."""
        if self.diameter is None or distance <= self.diameter:
            return distance
        return self.diameter

    def distance(self, count: int, pull: Any = 1) -> Any:
        """A bound on the distance after the first `count` steps: w ↦ min(D, c·w + pull·s) from 0 on."""
        derived = self.derived
        if derived.constant:
            busy = min(count, derived.data)
            w = arb(0)
            if busy:
                c, s, _, _ = self.at(0)
                w = self.within(pull * s * geometric(c, busy))
            if count > busy:
                w = self.within(w * self.at(derived.data).c ** (count - busy))
            return w
        positions("steps", count)
        w = arb(0)
        for k in timed(range(count)):
            step = self.at(k)
            w = self.within(step.c * w + pull * step.s)
        return w


# What the plan says.


class _Block(NamedTuple):
    """Equal steps, of whose noise variance the part `share` hides the distance."""

    length: int
    share: Any
    step: _Step


def _blocks(steps: _Steps, plan: Any) -> list[_Block]:
    """The blocks, which cover the last steps."""
    derived = steps.derived
    positions("lengths", len(plan["lengths"]))
    lengths = [integer("lengths", n) for n in plan["lengths"]]
    shares = encoding.read_floats("shares", plan["shares"]).tolist()
    if not lengths or 0 in lengths or len(shares) != len(lengths):
        raise Refused("lengths: expected at least one block, and a share for every one")
    if sum(lengths) > derived.total:
        raise Refused(f"lengths: the blocks are {sum(lengths)} steps, the run {derived.total}")
    k = derived.total - sum(lengths)
    blocks = []
    for n, share in timed(zip(lengths, shares, strict=True)):
        if not 0.0 <= share <= 1.0:
            raise Refused(f"shares: step {k + 1}: expected a number in [0, 1], got {share!r}")
        if n > 1 and not (derived.constant and (k >= derived.data or k + n <= derived.data)):
            raise Refused(f"lengths: step {k + 1}: the {n} steps of a block are not alike")
        blocks.append(_Block(n, arb(share), steps.at(k)))
        k += n
    return blocks


def _leading(steps: _Steps, first: int, plan: Any) -> tuple[Any, list[tuple[float, int]]]:
    """(distance, factors) after the steps right before step `first`, of which each charges for the part
    e ≤ s of the record's pull and leaves s − e to the distance."""
    if "pulls" not in plan:
        return steps.distance(first, _CHANGE[steps.kind]), []
    if steps.kind != _SINGLE:
        raise Refused("pulls: only of a record that is there or not may a part be charged for")
    pulls = encoding.read_floats("pulls", plan["pulls"])
    z, needed = steps.distance(_before("pulls", pulls, first)), []
    for k, pull in timed(enumerate(pulls.tolist(), first - len(pulls))):
        c, s, sigma, _ = steps.at(k)
        e = _part("pulls", k, pull, s)
        if pull > 0.0:
            needed.append((_root((e / sigma) ** 2), 1))
        z = steps.within(c * z + s.max(e) - e)
    return z, needed


def _before(name: str, values: Any, first: int) -> int:
    """The step before which these values begin."""
    if len(values) > first:
        raise Refused(f"{name}: {len(values)} do not fit before step {first + 1}")
    return first - len(values)


def _part(name: str, k: int, value: float, s: Any) -> Any:
    """`value` as a ball, if it is in [0, s] but for a rounding."""
    if not (0.0 <= value < math.inf and arb(value) <= s * _MORE):
        most = float(s.mid())
        raise Refused(
            f"{name}: step {k + 1}: expected a number in [0, s = {most!r}], got {value!r}"
        )
    return arb(value)


def _lagging(steps: _Steps, first: int, payments: Any) -> tuple[Any, list[tuple[float, int]]]:
    """(distance, factors) after the steps right before step `first`, of which each pays a ≤ s.

    Paying more would not help on the branch without the record, where the distance is c·z.
    """
    if steps.kind == _SINGLE:
        raise Refused("theorem: no other record takes the place of one that is zeroed")
    z, needed = steps.distance(_before("payments", payments, first)), []
    for k, pay in timed(enumerate(payments.tolist(), first - len(payments))):
        c, s, sigma, _ = steps.at(k)
        a = _part("payments", k, pay, s)
        s = s.max(a)
        owed = c * z + s
        if pay > 0.0:
            # The two shifted pulls, of norm a, differ by a/owed·(2cz + change·s), or oppose each other.
            apart = 2 * a
            if steps.kind != _EITHER:
                apart = a * owed.max(2 * c * z + _CHANGE[steps.kind] * s) / owed
            needed.append((_root((apart / sigma) ** 2), 1))
        z = steps.within(owed - a)
    return z, needed


def _pay_off(
    steps: _Steps,
    blocks: Sequence[_Block],
    distance: Any,
    sides: int,
    needed: list[tuple[float, int]],
) -> float:
    """The Gaussian parameter that hides `distance` of each of `sides` runs; adds the records' factors.

    With W the product of the slopes of later steps, every step pays in proportion to share·σ²·W. So
    demand²/Σ share·σ²W² is the square of the parameter, and of what is left to pay, seen from the end,
    every step takes the part that its share·σ²W² has in the sum.
    """
    rooms, later = [], arb(1)
    for length, share, step in reversed(blocks):
        rooms.append(share * (step.sigma * later) ** 2 * geometric(step.c**2, length))
        later = later * step.c**length
    demand, room = sides * distance * later, sum(rooms, arb(0))
    hidden = demand.is_zero()
    if not (hidden or room > 0):
        raise Refused("shares: no noise is left to hide the distance")
    grown, used = distance, arb(0)
    here = distance
    for (length, share, step), own in zip(blocks, reversed(rooms), strict=True):
        grown, used = grown * step.c**length, used + own
        after = grown if hidden else grown * (1 - used / room)
        if not step.s.is_zero():
            if not share < 1:
                raise Refused("shares: a step with data needs noise for the record as well")
            pull = _apart(steps, step, sides * here.max(after))
            needed.append((_root((pull / step.sigma) ** 2 / (1 - share)), length))
        here = after
    return 0.0 if hidden else _root(demand**2 / room)


def _apart(steps: _Steps, step: _Step, distance: Any) -> Any:
    """How far apart the record's pulls on two runs can be, or its pull on one.

    Within a block the distance is at most the larger of those at its ends. If c ≤ 1 it falls. If c > 1, it
    is A·c^i + B·c^−i with B ≥ 0 after i steps, which falls if A ≤ 0 and is convex otherwise.
    """
    change = _CHANGE[steps.kind]
    if steps.kind in (_SINGLE, _EITHER):
        return change * step.s
    most = (1 + change) * step.s
    if not step.rho.is_finite():
        return most
    return step.s.max(most.min(change * step.s + step.rho * distance))


def _root(square: Any) -> float:
    """A double not below the root of a ball or rational."""
    square = arb(square).upper()
    if not square.is_finite():
        return math.inf
    root = root_up(square)
    return root if root > 0.0 or square.is_zero() else math.ulp(0.0)
