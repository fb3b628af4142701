"""Payments epoch by epoch: from one distance before an epoch to one after it, wherever the use is.

In an epoch let W_k be the product of the slopes after step k and V the sum of (σ_k·W_k)². A payment a at
step k lessens the distance at the end by a·W_k, so that to lessen it by Y costs Y²/V at least. Before
the use at step i no more can be paid than there is, D = r·ΠC of the distance r before the epoch. So
to end at distance r' costs, with Y = D + s_i·W_i − r',

    Y²/V  if  D·V ≥ Y·V₁,  and  D²/V₁ + (Y − D)²/V₂  otherwise,

V₁ and V₂ the parts of V before step i and from it on (docs, "Secret order"). The dearest place counts.
Distances of at least the diameter cost nothing. The distances between epochs are found by dynamic
programming; whichever are taken, what they cost is a bound.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, assert_never

import numpy as np

from pabi.account.facts.positions import OrderedView, Uses
from pabi.account.shifts import isotonic, periodic
from pabi.account.shifts.advance import Between
from pabi.account.shifts.nonlinear import StepPayments
from pabi.account.shifts.periodic import PeriodicShifts
from pabi.account.shifts.start import Start, best_start
from pabi.describe.iteration import Groups, Schedule, Steps
from pabi.numbers.locking import tick
from pabi.numbers.rounding import TINY, Array, power_of_two_near

_LEAST, _MOST = 0.02, 8.0  # distances that are tried, in the largest sensitivity of the epoch
_FARTHER = 12  # distances beyond, up to the one that nothing has to be paid for
_WORK = 20_000_000  # cells of all tables of one search
_FEWEST, _FINEST = 8, 48  # distances in a table
_PLACES = 48  # places of a use that a search looks at
_LARGEST = 1e307  # of which a few add up to a double
_CLOSER = (1.3, 1.06)  # factors within which the distances found are varied


class Resting(NamedTuple):
    """Distances `r` (m + 1,) before the first and after each of m epochs, and what they cost in all."""

    r: Array
    cost: float


class _Epoch:
    """One epoch, for the use at every place."""

    def __init__(self, steps: Steps) -> None:
        c, s, sigma = steps
        with np.errstate(all="ignore"):
            # Products are taken as sums of logarithms: on the way they may leave the doubles and come back.
            logs = np.log(c)
            whole = np.cumsum(logs[::-1])[::-1]
            later = np.append(whole[1:], 0.0)
            square = np.square(sigma * np.exp(later))
            self.whole = float(_not_lost(whole[:1])[0])
            use = np.maximum(s * _not_lost(later), TINY)
            self.use = np.where((s > 0.0) & (later > -math.inf), use, 0.0)
            # Room that overflows is no more than what doubles hold.
            self.after = np.minimum(np.cumsum(square[::-1])[::-1], _LARGEST)
            before = np.minimum(np.cumsum(square), _LARGEST)
            self.before = np.append(0.0, before[:-1])
        self.scale = float(s.max())

    def costs(self, begin: Array, end: Array, places: slice) -> Array:
        """The dearest place's cost of each pair of distances, (begin, end)."""
        use, v1, v2 = (x[places] for x in (self.use, self.before, self.after))
        with np.errstate(all="ignore"):
            owed = np.where(begin > 0.0, begin * self.whole, 0.0)[:, None, None]
            paid = np.maximum(owed + use - end[None, :, None], 0.0)
            even = paid * (v1 / (v1 + v2)) <= owed
            total = np.where(
                even,
                paid * (paid / (v1 + v2)),
                owed * (owed / v1) + (paid - owed) * ((paid - owed) / v2),
            )
            # What is too small for doubles is no less than TINY.
            cost = np.where(paid <= 0.0, 0.0, np.maximum(total, TINY))  # of NaN nothing is known
            worst = cost.max(axis=2)
        return np.where(np.isnan(worst), math.inf, worst)

    def unpaid(self, begin: float) -> float:
        """How far apart the runs can be after the epoch where nothing is paid."""
        grown = begin * self.whole if begin > 0.0 else 0.0
        return float((grown + self.use).max())

    def some(self) -> slice:
        """Places that a search looks at: the last of each of as many stretches."""
        every = max(1, self.use.size // _PLACES)
        return slice((self.use.size - 1) % every, None, every)


def _not_lost(logs: Array) -> Array:
    """e^logs; what is too small for doubles is TINY, and 0 only where a slope is."""
    return np.where(logs == -math.inf, 0.0, np.maximum(np.exp(logs), TINY))


class Rests:
    """The epochs of a run before the last one, and the best distances between them.

    Two iterates are never further apart than `diameter`: to end there costs nothing.
    """

    def __init__(self, steps: Steps, period: int, epochs: int, diameter: float = math.inf) -> None:
        # Lengths are measured in a unit near the noise, so that squares stay within the doubles.
        self._unit = unit = power_of_two_near(float(steps.sigma.max()) or 1.0)
        self._diameter = diameter / unit
        s = np.where(steps.s > 0.0, np.maximum(steps.s / unit, TINY), 0.0)
        steps = Steps(steps.c, s, steps.sigma / unit)
        parts = [Steps(*(x[e * period : (e + 1) * period] for x in steps)) for e in range(epochs)]
        keys = [b"".join(x.tobytes() for x in part) for part in parts]
        epochs_by_key = {
            key: _Epoch(part) for key, part in dict(zip(keys, parts, strict=True)).items()
        }
        self._epochs = [epochs_by_key[key] for key in keys]
        count = math.isqrt(_WORK // (len(epochs_by_key) * min(period, 2 * _PLACES)))
        self._points = np.geomspace(_LEAST, _MOST, min(max(count, _FEWEST), _FINEST))

    def paths(self) -> list[Array]:
        """The best distances (m,) after each epoch on a coarse grid, for each of several last ones."""
        grids, apart = [], 0.0
        for epoch in self._epochs:
            apart = min(epoch.unpaid(apart), self._diameter)
            grids.append(self._grid(epoch.scale, apart))
        return self._paths(grids)

    def _grid(self, scale: float, apart: float) -> Array:
        """The distances that are tried after an epoch, at most `apart`, beyond which none is worth more."""
        near = scale * self._points
        if not apart < math.inf:
            return np.append(0.0, near)
        far = np.geomspace(near[-1], apart, _FARTHER) if apart > near[-1] else np.array([apart])
        return np.concatenate([[0.0], near[near < apart], far])

    def _paths(self, grids: list[Array]) -> list[Array]:
        """The best path through these distances after each epoch, for each of the last ones."""
        value, at, back = np.zeros(1), np.zeros(1), []
        tables: dict[tuple[int, bytes, bytes], Array] = {}
        for epoch, grid in zip(self._epochs, grids, strict=True):
            tick()
            key = id(epoch), at.tobytes(), grid.tobytes()
            if key not in tables:
                tables[key] = self._costs(epoch, at, grid, epoch.some())
            total = value[:, None] + tables[key]
            back.append(np.argmin(total, axis=0))
            value, at = np.min(total, axis=0), grid
        paths = []
        for last in np.flatnonzero(np.isfinite(value)).tolist():
            path, place = [], last
            for grid, best in zip(reversed(grids), reversed(back), strict=True):
                path.append(float(grid[place]))
                place = int(best[place])
            paths.append(np.array(path[::-1]))
        return paths

    def refined(self, path: Array) -> Resting:
        """Distances with the same end, the others as good as they get nearby, and what they cost."""
        for factor in _CLOSER:
            near = np.geomspace(1.0 / factor, factor, 7)
            grids = [r * near if r else np.zeros(1) for r in path[:-1].tolist()]
            better = self._paths([*grids, path[-1:]])
            path = better[0] if better else path
        return self.costing(np.append(0.0, path) * self._unit)

    def _costs(self, epoch: _Epoch, begin: Array, end: Array, places: slice) -> Array:
        return np.where(end >= self._diameter, 0.0, epoch.costs(begin, end, places))

    def costing(self, r: Array) -> Resting:
        """The distances (m + 1,) before the first and after each epoch, with what they cost."""
        units, total = r / self._unit, 0.0
        for k, epoch in enumerate(self._epochs):
            begin, end = units[k : k + 1], units[k + 1 : k + 2]
            total += float(self._costs(epoch, begin, end, slice(None))[0, 0])
        return Resting(r, total)


# What the optimal shifts prove for each record of a run: one solved normal form per position.


_FAR = 1e140  # beyond it, squares of products get close to overflow
# By how much, relatively, slopes are rounded up: once where they are at most 1, a few times above.
_EXCESS, _EXCESS_ABOVE = 2.0**-52, 2.0**-50
_SURE = 1.0 + 2.0**-50  # more than the roundings of a few products
_WRITE_OUT = 4_000_000  # steps up to which a run-length schedule may be expanded


class Advance(NamedTuple):
    """Uses before step `paid` are paid for before it, those from there on from step `begin` on, of which the
    last `ahead` in advance, as they are known to pull to one side. `before`: the payments for the first ones.
    `square`: μ² in all."""

    paid: int
    begin: int
    ahead: int
    before: Record
    between: Between
    square: float


Shifts = PeriodicShifts | Start | StepPayments | Advance


class Record(NamedTuple):
    """A record with these uses, and the shifts that prove how private it is (None: never used).

    `paid`: μ² of what is paid before the shifts begin.
    """

    uses: Uses
    shifts: Shifts | None = None
    paid: float = 0.0

    @property
    def mu(self) -> float:
        """About the μ that is proven."""
        return math.sqrt(energy_of(self.shifts) + self.paid)


def energy_of(shifts: Shifts | None) -> float:
    """About the μ² that is proven; 0 without a use."""
    match shifts:
        case None:
            return 0.0
        case PeriodicShifts():
            return shifts.energy
        case Start():
            return shifts.payments.energy
        case StepPayments() | Advance():
            return shifts.square
        case _:
            assert_never(shifts)


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
    return schedule, solved if stated else _raised(_excess(schedule.c), solved)


def _excess(c: Array) -> Array | None:
    """By how much the logarithms of the products of the first slopes may be too large; None if by nothing."""
    if (c == 1.0).all():
        return None
    return np.cumsum(np.where(c > 1.0, _EXCESS_ABOVE, _EXCESS))


def _raised(excess: Array | None, start: Start) -> Start:
    """The payments raised so that they suffice under the slopes before they were rounded up.

    What a block pays at a step is worth what the later slopes of the block leave of it, as is what it is paid
    for, but it is smaller by these slopes itself. So it is short by as much as they are too large.
    """
    payments = start.payments
    if excess is None or not payments.ends.size:
        return start
    begins = np.append(payments.first, payments.ends[:-1] + 1)
    factor = np.nextafter(np.exp(excess[payments.ends] - excess[begins]) * _SURE, np.inf)
    energy = payments.energy * float(factor.max()) ** 2
    raised = payments._replace(
        energy=energy, q=payments.q * factor, costs=payments.costs * factor * factor
    )
    return start._replace(payments=raised)


def record(view: OrderedView, uses: Uses) -> Record:
    """The bound for a record with these uses."""
    if uses.total == 0:
        return Record(uses)
    return Record(uses, solve_schedule(view.schedule(uses), view.diameter, stated=view.stated)[1])


def derived(
    view: OrderedView, uses: Uses, owed: Array, first: int = 0, start: float = 0.0
) -> Record:
    """The bound where every step from `first` on owes `owed` (steps,), from the distance `start` on. How much
    that is follows from the description, so that a proof does not write the steps down."""
    c, _, sigma = (x[first:] for x in view.arrays)
    steps = Steps(c, owed, sigma)
    return Record(uses, solve_schedule(steps, view.run.range_diameter, start, stated=False)[1])


def cyclic(view: OrderedView, positions: Any = None) -> list[Record]:
    """The bounds of the records in each batch of a cyclic run (or of the batches in `positions`)."""
    where = range(view.period) if positions is None else positions
    run = view.run
    one_by_one = run.constant or math.isfinite(run.range_diameter) or view.demand.forgets
    if not (one_by_one or (view.arrays.c == 0.0).any()):
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
        c, s, sigma = view.arrays
        self.excess = None if view.stated else _excess(c)
        whole = view.run.data_steps // view.period
        self.whole, cut = whole, whole * view.period
        self.unit = power_of_two_near(float(sigma.max()))
        self.s = s / self.unit
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
        s, cut = self.s, self.whole * view.period
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
        start = Start(0, 0.0, payments._replace(first=j, ends=ends), self.unit)
        return Record(uses, _raised(self.excess, start))


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
    past = ((0, 0), (0, 1))  # one more column
    product = np.cumprod(c[:, ::-1], axis=1, dtype=np.longdouble)[:, ::-1]
    product = np.pad(product, past, constant_values=1.0)
    capacity = v * product[:, 1:] * product[:, 1:]
    return product, np.pad(np.cumsum(capacity[:, ::-1], axis=1)[:, ::-1], past)
