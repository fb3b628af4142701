"""Batches drawn anew in every step: shifts that noise and chance hide, with moduli of any shape.

The last steps hide a distance, each besides what the record adds to it: one-sided, of one run from where it
would be without the record; two-sided, of either of two runs. A one-sided distance is the largest there may
be, or one of a law that is at least as large as that of what was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, assert_never

from flint import arb, fmpq

from pabi.numbers.encoding import read_floats
from pabi.verification.arithmetic import (
    Refused,
    above,
    closed,
    fraction_of,
    geometric,
    integer,
    positions,
    timed,
)
from pabi.verification.drawn_runs import (
    Capped,
    DrawnRun,
    Moved,
    Needed,
    Step,
    named_by_exchange,
    root_above,
)
from pabi.verification.factors.closed_forms import Gaussians, Part
from pabi.verification.losses import check_paid_off, pay_once
from pabi.verification.schemes import Exchange
from pabi.verification.subjects import of_runs
from pabi.verification.theorem import Payload, ProofCheck, Proven, named

KEYS = ("run", "claim", "position", "plan", "reading")
# With a record that is there or not.
PRESENCE_SOURCE = "docs, Theory, 10.4 (Theorem 13, Poisson batches, zero_out)"

_ONE = "Bok, Su, Altschuler 2024, Thm 4.10, extended (docs, Theory, 10.4, Theorem 13)"
_TWO = "Bok, Su, Altschuler 2024, Thm C.13, sharpened (docs, Theory, 10.5, Theorem 14)"
_MORE = 1 + arb(2) ** -40  # by so much a payment may exceed s, which is then raised to it
_MOST_TILTS = 256


class _Start(NamedTuple):
    """What there is before the blocks: the largest distance; the records' factors; and the law of the
    distance, (probability, part of the largest) for each of its values."""

    distance: Any
    needed: list[Needed]
    law: Sequence[tuple[Fraction, Any]] = ((Fraction(1), arb(1)),)


_Before = Callable[[Capped, int, Any], _Start]


def _check(
    run: DrawnRun, payload: Payload, *, keys: Sequence[str], before: _Before, sides: int
) -> Proven:
    """What the blocks prove after the steps `before` them, which the plan states under `keys`, if they hide
    the distance of so many `sides`."""
    plan = payload["plan"]
    closed("the plan", plan, ("cap", *keys, "lengths", "shares"))
    steps = Capped(run, integer("cap", plan["cap"]))
    blocks = _blocks(steps, plan)
    first = run.total - sum(block.length for block in blocks)  # 0-based, of the blocks
    return _proven(steps, blocks, before(steps, first, plan), sides)


class _Block(NamedTuple):
    """Equal steps, of whose noise variance the part `share` hides the distance."""

    length: int
    share: Any
    step: Step


def _blocks(steps: Capped, plan: Any) -> list[_Block]:
    """The blocks, which cover the last steps."""
    alike = _alike(steps, plan, steps.run.total)
    shares = read_floats("shares", plan["shares"]).tolist()
    if len(shares) != len(alike):
        raise Refused("lengths: expected at least one block, and a share for every one")
    for share in shares:
        if not 0.0 <= share <= 1.0:
            raise Refused(f"shares: expected a number in [0, 1], got {share!r}")
    return [_Block(n, arb(share), step) for (n, step), share in zip(alike, shares, strict=True)]


def _alike(steps: Capped, table: Any, last: int) -> list[tuple[int, Step]]:
    """(how many, one of them) for blocks of equal steps, which end before step `last`, from 0."""
    run = steps.run
    positions("lengths", len(table["lengths"]))
    lengths = [integer("lengths", n) for n in table["lengths"]]
    if not lengths or 0 in lengths:
        raise Refused("lengths: expected at least one block, and at least one step in every one")
    if sum(lengths) > last:
        raise Refused(f"lengths: the blocks are {sum(lengths)} steps, the run {last}")
    k, alike = last - sum(lengths), []
    for n in timed(lengths):
        if n > 1 and not (run.constant and (k >= run.data or k + n <= run.data)):
            raise Refused(f"lengths: step {k + 1}: the {n} steps of a block are not alike")
        alike.append((n, steps.at(k)))
        k += n
    return alike


def _started(steps: Capped, first: int, plan: Any) -> _Start:
    """What there is before step `first` of a one-sided shift."""
    if "drawn" not in plan:
        return _leading(steps, first, plan)
    if "pulls" in plan:
        raise Refused("drawn: of a draw that counts no part may be charged for besides")
    distance = steps.distance(first, steps.exchange.change)
    return _Start(distance, [], _law(steps, first, plan["drawn"], distance))


def _law(steps: Capped, first: int, table: Any, largest: Any) -> list[tuple[Fraction, Any]]:
    """A law of the distance before step `first`, as parts of the largest one, that is nowhere too small.

    Each of the steps before, with V drawn, adds g·V to it, and with Σ over all of them
    P(Σ g·V > y) ≤ exp(Σ log(1 − p + p·e^(tg)) − ty), t > 0. What lies further back is taken at its largest.
    """
    closed("drawn", table, ("lengths", "tilts", "distances"))
    blocks = _alike(steps, table, first)
    tilts = read_floats("tilts", table["tilts"]).tolist()
    values = read_floats("distances", table["distances"]).tolist()
    if not 0 < len(tilts) == len(values) <= _MOST_TILTS:
        raise Refused(f"drawn: expected at most {_MOST_TILTS} tilts, and a distance for every one")
    if not all(math.isfinite(x) and x > 0.0 for x in (*tilts, *values)):
        raise Refused("drawn: expected tilts and distances > 0")
    change, added, later = steps.exchange.change, [], arb(1)
    for n, step in timed(reversed(blocks)):
        most = later * (step.c ** (n - 1)).max(arb(1))
        added.append((n, change * step.s * most))
        later = later * step.c**n
    rest = steps.distance(first - sum(n for n, _ in blocks), change) * later
    p = arb(fmpq(steps.run.probability.numerator, steps.run.probability.denominator))
    law, left = [], Fraction(1)
    for value, tilt in sorted(zip(values, tilts, strict=True)):
        t, cumulant = arb(tilt), arb(0)
        for n, g in timed(added):
            cumulant += n * (p * (t * g).expm1()).log1p()
        tail = (cumulant - t * (arb(value) - rest)).exp()
        beyond = min(left, fraction_of(above(tail))) if tail < 1 else left
        law.append((left - beyond, arb(value).min(largest) / largest))
        left = beyond
    return [*law, (left, arb(1))]


def _leading(steps: Capped, first: int, plan: Any) -> _Start:
    """After the steps right before step `first`, of which each charges for the part e ≤ s of the record's
    pull and leaves s − e to the distance."""
    if "pulls" not in plan:
        return _Start(steps.distance(first, steps.exchange.change), [])
    if steps.exchange.on_both:
        raise Refused("pulls: only of a record that is there or not may a part be charged for")
    pulls = read_floats("pulls", plan["pulls"])
    z, needed = steps.distance(_before("pulls", pulls, first)), []
    for k, pull in timed(enumerate(pulls.tolist(), first - len(pulls))):
        c, s, sigma, _ = steps.at(k)
        e = _part("pulls", k, pull, s)
        if pull > 0.0:
            needed.append(Moved(e, e, 0 * e).over(sigma, 1))
        z = steps.within(c * z + s.max(e) - e)
    return _Start(z, needed)


def _lagging(steps: Capped, first: int, plan: Any) -> _Start:
    """After the steps right before step `first`, of which each pays a ≤ s.

    Paying more would not help on the branch without the record, where the distance is c·z.
    """
    payments = read_floats("payments", plan["payments"])
    if not steps.exchange.on_both:
        raise Refused("theorem: no other record takes the place of one that is zeroed")
    z, needed = steps.distance(_before("payments", payments, first)), []
    for k, pay in timed(enumerate(payments.tolist(), first - len(payments))):
        c, s, sigma, _ = steps.at(k)
        a = _part("payments", k, pay, s)
        s = s.max(a)
        owed = c * z + s
        if pay > 0.0:
            needed.append(_shifted(steps.exchange, a, owed=owed, carried=c * z, s=s).over(sigma, 1))
        z = steps.within(owed - a)
    return _Start(z, needed)


def _shifted(exchange: Exchange, a: Any, *, owed: Any, carried: Any, s: Any) -> Moved:
    """The two shifted pulls: a/owed·(cz + s) = a, the other with less than s where less is drawn. They are
    apart by a/owed·(2cz + change·s), unless they may oppose each other."""
    match exchange:
        case Exchange.EITHER:
            return Moved(2 * a, a, a)
        case Exchange.DISPLACED | Exchange.ZEROED:
            other = a * (carried + exchange.other * s) / owed
            return Moved(a * (2 * carried + exchange.change * s) / owed, a, other)
        case Exchange.PRESENCE:
            raise Refused("theorem: no other record takes the place of one that is zeroed")
        case _:
            assert_never(exchange)


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


def _proven(steps: Capped, blocks: Sequence[_Block], start: _Start, sides: int) -> Proven:
    """The Gaussian parameter that hides the distance of each of `sides` runs; adds the records' factors.

    With W the product of the slopes of later steps, every step pays in proportion to share·σ²·W. So
    demand²/Σ share·σ²W² is the square of the parameter, and of what is left to pay, seen from the end,
    every step takes the part that its share·σ²W² has in the sum. A smaller distance is paid off in the same
    proportions, and pulls that are further apart cost more.
    """
    distance, needed = start.distance, [*start.needed]
    rooms, later = [], arb(1)
    for length, share, step in reversed(blocks):
        rooms.append(share * (step.sigma * later) ** 2 * geometric(step.c**2, length))
        later = later * step.c**length
    demand, room = sides * distance * later, sum(rooms, arb(0))
    hidden = demand.is_zero()
    if not (hidden or room > 0):
        raise Refused("shares: no noise is left to hide the distance")
    grown, used, here = distance, arb(0), distance
    for (length, share, step), own in zip(blocks, reversed(rooms), strict=True):
        grown, used = grown * step.c**length, used + own
        after = grown if hidden else grown * (1 - used / room)
        if not step.s.is_zero():
            if not share < 1:
                raise Refused("shares: a step with data needs noise for the record as well")
            pulls = steps.moved(step, sides * here.max(after))
            needed.append(pulls.over(step.sigma, length, 1 - share))
        here = after
    parts: list[Part] = [(Fraction(1), 0.0)]
    if not hidden:
        parts = [(weight, root_above((part * demand) ** 2 / room)) for weight, part in start.law]
    bound = steps.run.bound(needed, hidden=Gaussians(tuple(parts)), failure=steps.failure)
    return Proven(steps.run.assumptions(hidden=True), (bound,))


def proven_shift(run: DrawnRun, payload: Payload) -> Proven:
    """What a plan of a one-sided shift proves."""
    return _check(run, payload, keys=("pulls", "drawn"), before=_started, sides=1)


# The one-sided shift under random batches, with payments under moduli that need not be linear.


_NONLINEAR = "Bok, Su, Altschuler 2024, Thm 4.10, for any modulus (docs, Theory, 10.4, Theorem 13)"


def _check_nonlinear_one_sided(run: DrawnRun, payload: Payload) -> Proven:
    """Payments of the last steps. Every step with data gives the shift the same share of its noise variance,
    and so do those of the cool-down."""
    plan, assumptions = payload["plan"], run.assumptions(hidden=True)
    closed("the plan", plan, ("cap", "payments", "share"))
    steps = Capped(run, integer("cap", plan["cap"]))
    paid = read_floats("payments", plan["payments"]).tolist()
    share, first = plan["share"], run.total - len(paid)
    if not (isinstance(share, float) and 0.0 < share < 1.0) or not 0 <= first < run.total:
        raise Refused(
            f"share: expected a number in (0, 1), and payments of some steps, got {share!r}"
        )
    z = steps.bent_distance(first)
    total, needed = arb(0), list[Needed]()
    for k, a in timed(enumerate(paid, first)):
        step, omega = steps.at(k, bent=True), steps.modulus(k)
        if not step.s.is_zero():
            needed.append(steps.moved(step, z).over(step.sigma, 1, 1 - arb(share)))
        cost, z = pay_once(omega, arb(0), step.sigma, z, a, k)
        total += cost
    check_paid_off(z, run.total)
    gaussian = root_above(total / arb(share))
    return Proven(
        assumptions, (run.bound(needed, hidden=Gaussians.single(gaussian), failure=steps.failure),)
    )


THEOREMS = {
    "one-sided shift": of_runs(
        drawn=ProofCheck(
            KEYS, proven_shift, named_by_exchange("one-sided shift", _ONE, PRESENCE_SOURCE)
        )
    ),
    "two-sided shift": of_runs(
        drawn=ProofCheck(
            KEYS,
            partial(_check, keys=("payments",), before=_lagging, sides=2),
            named("two-sided shift", _TWO),
        )
    ),
    "nonlinear one-sided shift": of_runs(
        drawn=ProofCheck(
            KEYS,
            _check_nonlinear_one_sided,
            named_by_exchange("nonlinear one-sided shift", _NONLINEAR, PRESENCE_SOURCE),
        )
    ),
}
