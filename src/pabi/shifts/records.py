"""What the optimal shifts prove for each record of a run: one solved normal form per position."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, assert_never

import numpy as np

from pabi.describe.iteration import Groups, Schedule, Steps
from pabi.normal_forms.positions import OrderedView, Uses
from pabi.numbers.rounding import TINY, Array, power_of_two_near, up
from pabi.numbers.waiting import tick
from pabi.shifts import isotonic, periodic
from pabi.shifts.nonlinear import StepPayments
from pabi.shifts.periodic import PeriodicShifts
from pabi.shifts.start import Start, best_start

_FAR = 1e140  # beyond it, squares of products get close to overflow
# By how much, relatively, slopes are rounded up: once where they are at most 1, a few times above.
_EXCESS, _EXCESS_ABOVE = 2.0**-52, 2.0**-50
_SURE = 1.0 + 2.0**-50  # more than the roundings of a few products
_WRITE_OUT = 4_000_000  # steps up to which a run-length schedule may be expanded

Shifts = PeriodicShifts | Start | StepPayments


class Record(NamedTuple):
    """A record with these uses, and the shifts that prove how private it is (None: never used).

    `schedule`: for which the shifts were solved, None where it follows from the description. `paid`: μ² of
    what is paid before the shifts begin.
    """

    uses: Uses
    schedule: Schedule | None = None
    shifts: Shifts | None = None
    paid: float = 0.0

    @property
    def mu(self) -> float:
        """The proven μ."""
        if self.shifts is None:
            return 0.0
        energy = energy_of(self.shifts)
        return mu_of(up(energy + self.paid) if self.paid else energy)


def energy_of(shifts: Shifts) -> float:
    """μ², rounded up."""
    match shifts:
        case PeriodicShifts():
            return shifts.energy
        case Start():
            return shifts.payments.energy
        case StepPayments():
            return shifts.square
        case _:
            assert_never(shifts)


def mu_of(energy: float) -> float:
    """μ from μ², rounded up."""
    return math.nextafter(math.sqrt(energy), math.inf) if 0.0 < energy < math.inf else energy


def solve_schedule(
    schedule: Schedule, diameter: float, start: float = 0.0, *, stated: bool = True
) -> tuple[Schedule, Shifts]:
    """The best start and payments for a schedule in either form, and the form that was solved.

    `stated`: whether a proof states steps that are written out. Else whoever checks it derives their slopes,
    of which those here are rounded up.
    """
    tick()
    if isinstance(schedule, Groups):
        slopes = [x.c for _, x in schedule.stretches()]
        exact = math.isinf(diameter) or all(c <= 1.0 for c in slopes)
        if periodic.solvable(schedule) and (exact or schedule.steps > _WRITE_OUT):
            return schedule, periodic.best_start(schedule, diameter, start)
        schedule = Steps(*(np.asarray(x) for x in schedule.columns()))
    solved = best_start(schedule, diameter, start)
    return schedule, solved if stated else _raised(schedule.c, solved)


def _raised(c: Array, start: Start) -> Start:
    """The payments raised so that they suffice under the slopes that `c` are rounded up from.

    What a block pays at a step is worth what the later slopes of the block leave of it, as is what it is paid
    for, but it is smaller by these slopes itself. So it is short by as much as they are too large.
    """
    payments = start.payments
    if not payments.ends.size or (c == 1.0).all():
        return start
    excess = np.cumsum(np.where(c > 1.0, _EXCESS_ABOVE, _EXCESS))
    begins = np.append(payments.first, payments.ends[:-1] + 1)
    factor = np.nextafter(np.exp(excess[payments.ends] - excess[begins]) * _SURE, np.inf)
    energy = payments.energy * float(factor.max()) ** 2 * _SURE
    raised = payments._replace(
        energy=energy, q=payments.q * factor, costs=payments.costs * factor * factor
    )
    return start._replace(payments=raised)


def record(view: OrderedView, uses: Uses) -> Record:
    """The bound for a record with these uses."""
    if uses.total == 0:
        return Record(uses)
    schedule, diameter = view.schedule(uses), view.run.range_diameter
    return Record(uses, *solve_schedule(schedule, diameter, stated=view.stated))


def cyclic(view: OrderedView, positions: Any = None) -> list[Record]:
    """The bounds of the records in each batch of a cyclic run (or of the batches in `positions`)."""
    where = range(view.period) if positions is None else positions
    bounded = math.isfinite(view.run.range_diameter)
    if not (view.run.constant or bounded or (view.arrays.c == 0.0).any()):
        merged = _EpochSums(view)
        if merged.accurate:
            return [merged.record(j) for j in where]
    return [record(view, view.uses(j)) for j in where]


class _EpochSums:
    """A varying schedule, merged to one piece per use of a record, for every position at once.

    The steps between two uses of position j are the rest of one epoch and the beginning of the next,
    so that running products and sums from both ends of each epoch give all pieces in O(t).
    """

    def __init__(self, view: OrderedView) -> None:
        self.view = view
        c, _, sigma = view.arrays
        whole = view.run.data_steps // view.period
        self.whole, cut = whole, whole * view.period
        self.unit = power_of_two_near(float(sigma.max()))
        v = np.square((sigma / self.unit).astype(np.longdouble))
        shape = (whole, view.period)
        self.before = _from_left(c[:cut].reshape(shape), v[:cut].reshape(shape))
        self.after = _from_right(c[:cut].reshape(shape), v[:cut].reshape(shape))
        self.rest_before = _from_left(c[None, cut:], v[None, cut:])
        self.rest_after = _from_right(c[None, cut:], v[None, cut:])

    @property
    def accurate(self) -> bool:
        """Whether all products and sums stay far from the ends of the range of doubles."""
        return all(
            bool(np.all((x >= low) & (x <= _FAR)))
            for sums in (self.before, self.after, self.rest_before, self.rest_after)
            for x, low in zip(sums, (1.0 / _FAR, 0.0), strict=True)
        )

    def record(self, j: int) -> Record:
        """The bound for a record of batch j."""
        view, uses = self.view, self.view.uses(j)
        if uses.total == 0:
            return Record(uses)
        s, cut = view.arrays.s / self.unit, self.whole * view.period
        product, weight = self.after[0][:, j], self.after[1][:, j]
        demand = s[j : j + cut : view.period][: self.whole] * self.after[0][:, j + 1]
        in_rest = uses.epochs > self.whole
        last = j if in_rest else -1  # the steps that follow the last whole epoch's use
        ahead = np.append(self.before[0][1:, j], self.rest_before[0][0, last] if self.whole else [])
        room = np.append(self.before[1][1:, j], self.rest_before[1][0, last] if self.whole else [])
        c, d, v = product * ahead, demand * ahead, weight * ahead * ahead + room
        if in_rest:
            c = np.append(c, self.rest_after[0][0, j])
            d = np.append(d, s[cut + j] * self.rest_after[0][0, j + 1])
            v = np.append(v, self.rest_after[1][0, j])
        payments = isotonic.solve(np.maximum(c, TINY), np.maximum(d, TINY), v, steps=view.run.steps)
        # A piece ends before the record's next use, the last one with the run.
        after = np.append(uses.steps(view.period)[1:], view.run.steps) - 1
        ends = after[payments.ends].astype(np.int64)
        moved = payments._replace(first=j, ends=ends)
        start = Start(0, 0.0, moved, self.unit)
        return Record(
            uses, view.steps(uses), start if view.stated else _raised(view.arrays.c, start)
        )


def _from_left(c: Any, v: Any) -> tuple[Any, Any]:
    """Per row and column j: the product of the slopes of columns < j, and their capacity."""
    rows, n = c.shape
    product, weight = np.ones((rows, n + 1), np.longdouble), np.zeros((rows, n + 1), np.longdouble)
    for j in range(n):
        product[:, j + 1] = product[:, j] * c[:, j]
        weight[:, j + 1] = weight[:, j] * c[:, j] * c[:, j] + v[:, j]
    return product, weight


def _from_right(c: Any, v: Any) -> tuple[Any, Any]:
    """Per row and column j: the product of the slopes of columns ≥ j, and their capacity."""
    rows, n = c.shape
    product, weight = np.ones((rows, n + 1), np.longdouble), np.zeros((rows, n + 1), np.longdouble)
    for j in reversed(range(n)):
        weight[:, j] = weight[:, j + 1] + v[:, j] * product[:, j + 1] * product[:, j + 1]
        product[:, j] = product[:, j + 1] * c[:, j]
    return product, weight
