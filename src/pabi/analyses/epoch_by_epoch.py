"""Epoch by epoch: a secret order for every epoch, whatever the steps do, at distances fixed between epochs.

Whoever knows the record's place in every epoch but the last may pay accordingly. So fix how far apart the
runs may be after each of these epochs; wherever the record is in one, payments bring the distance before
it to that after it, at the cost of the dearest place (docs, "Secret order"). The last epoch begins at the
last of these distances and is averaged over, as in `secret_order`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from pabi.analyses.secret_order import Solved, averaged, changing_places, places
from pabi.analyses.shifted_interpolation import DEFAULT_DELTA
from pabi.analyses.writing import Case, promised
from pabi.describe.iteration import NoisyIteration
from pabi.describe.orders import SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import OrderedView, Uses
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import fraction_up
from pabi.shifts.epochs import Record, Resting, Rests, derived
from pabi.tradeoff import average

NAME = "epoch by epoch"
SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, with shifts within each epoch, averaged over the record's last "
    "position (docs, Secret order)"
)

_MOST_STEPS = 1_000_000
# Ranges of positions in the last epoch: of the proof, and where distances are compared.
_MOST_RANGES, _FEW_RANGES = 64, 12


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate when every epoch has a secret order of its own."""
    at = delta or DEFAULT_DELTA
    view, order = changing_places(description, at)
    if view.run.steps > _MOST_STEPS:
        raise NotApplicable(f"more than {_MOST_STEPS} steps, which are looked at one by one")
    last = _LastEpoch(view, order)
    if not last.older:
        raise NotApplicable("there is one epoch only: see latest uses")
    rests = Rests(view.arrays, view.period, last.older, view.run.range_diameter)
    paths = rests.paths()
    if not paths:
        raise NotApplicable("the distance between the runs overflows")
    best = _least(
        [partial(rests.refined, path) for path in paths],
        lambda resting: last.epsilon(resting, at),
    )
    solved = last.records(best, _MOST_RANGES)
    return promised(averaged(NAME, view, solved, view.fractions, resting=best.r[1:]), SOURCE)


def _least(
    choices: Sequence[Callable[[], Resting]], epsilon: Callable[[Resting], float]
) -> Resting:
    """The one of least ε, if that falls and then rises along the list."""

    @cache
    def choice(i: int) -> Resting:
        return choices[i]()

    @cache
    def at(i: int) -> float:
        return epsilon(choice(i))

    low, high = 0, len(choices) - 1
    while low < high:
        middle = (low + high) // 2
        if at(middle) <= at(middle + 1):
            high = middle
        else:
            low = middle + 1
    return choice(low)


class _LastEpoch:
    """The last epoch, which may be partial, and the cool-down."""

    def __init__(self, view: OrderedView, order: SecretOrder) -> None:
        self.view, self.order = view, order
        self.older = -(-view.run.data_steps // view.period) - 1
        self.first = self.older * view.period
        self.length = view.run.data_steps - self.first

    def records(self, resting: Resting, most: int) -> list[Solved]:
        """What is proven of a record in each of at most `most` ranges of positions."""
        cases = [
            Case(self._uses(where), weight, (where,))
            for where, weight in places(self.view, self.order, self.length, most)
        ]
        return [(self._record(case, resting), case) for case in cases]

    def epsilon(self, resting: Resting, delta: float) -> float:
        """About the ε of these distances."""
        solved = self.records(resting, _FEW_RANGES)
        weights = [fraction_up(case.weight) for _, case in solved]
        return average([r.mu for r, _ in solved], weights).epsilon(delta)

    def _uses(self, where: tuple[int, int] | None) -> Uses:
        then = () if where is None else (self.first + where[1],)
        return Uses(self.view.period - 1, self.older, then)

    def _record(self, case: Case, resting: Resting) -> Record:
        own = np.zeros(self.view.run.steps - self.first)
        (where,) = case.ranges
        if where is not None:
            own[where[1]] = self.view.standing(self.first + where[0], self.first + where[1])
        record = derived(self.view, case.uses, own, self.first, float(resting.r[-1]))
        return record._replace(paid=resting.cost)
