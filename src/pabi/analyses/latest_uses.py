"""Latest uses: a secret order for every epoch where steps expand, or sensitivities fall.

As in `secret_order` the last two epochs are averaged over, and all older uses are taken to be at the ends
of their epochs. That a later use is worse holds for steps that do not expand and sensitivities that do
not fall. In general it does once the later use is made large enough: a use at step i is no worse than one
at step j > i of the sensitivity s_i·Λ_{i+1}⋯Λ_j, Λ_k the slope of step k (docs, "The worst record", rule
(ii)). So a use anywhere in a range of steps stands at the range's end, with the largest of these numbers.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from pabi.analyses.secret_order import MAX_WORK, averaged, changing_places, last_two_epochs
from pabi.analyses.shifted_interpolation import DEFAULT_DELTA
from pabi.analyses.writing import Case, promised
from pabi.describe.iteration import NoisyIteration
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import OrderedView
from pabi.numbers.errors import NotApplicable
from pabi.shifts.epochs import Record, derived

NAME = "latest uses"
SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts, averaged over the record's last two positions "
    "(docs, The worst record)"
)

_MOST_RANGES, _MOST_BEFORE = 64, 8  # of positions in the last epoch and in the one before
# Steps times cases, which a checker goes through one by one. Fewer cases cost less than 0.1 % of ε.
_CHECKED = 4_000_000


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate when every epoch has a secret order of its own."""
    view, order = changing_places(description, delta or DEFAULT_DELTA)
    if view.run.steps > MAX_WORK:
        raise NotApplicable(f"more than {MAX_WORK} steps, whose uses are moved one by one")
    affordable = _CHECKED // view.run.steps
    most = max(1, min(_MOST_RANGES, affordable))
    before = max(1, min(_MOST_BEFORE, affordable // most))
    uses = _Uses(view)
    solved = [(uses.record(case), case) for case in last_two_epochs(view, order, most, before)]
    return promised(averaged(NAME, view, solved, view.fractions), SOURCE)


class _Uses:
    """The steps of a run, and how large a use has to be that stands for those of a range."""

    def __init__(self, view: OrderedView) -> None:
        self.view, self.standing = view, cache(view.standing)
        self.epochs = -(-view.run.data_steps // view.period)
        begins = range(0, (self.epochs - 2) * view.period, view.period)
        self._older = [self.standing(first, first + view.period - 1) for first in begins]

    def record(self, case: Case) -> Record:
        """The bound for a record with these uses."""
        own, period = np.zeros(self.view.run.steps), self.view.period
        own[period - 1 : period * len(self._older) : period] = self._older
        for epoch, covered in enumerate(case.ranges, self.epochs - 2):
            if covered is not None:
                first, last = (epoch * period + where for where in covered)
                own[last] = self.standing(first, last)
        return derived(self.view, case.uses, own) if case.uses.total else Record(case.uses)
