"""Private selections: the best of a random number of runs, whose δ is E[K]·δ_0(ε − c), δ_0 of one run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from pabi.verification.arithmetic import nonnegative
from pabi.verification.factors import Repeated, several
from pabi.verification.limits import Refused


class Selection(NamedTuple):
    """`times` selections: one run's trade-off function as JSON text, E[K] and c."""

    base: str
    mean_trials: float
    log_ratio: float
    times: int

    def covered_by(self, other: Selection) -> bool:
        """Whether the other reveals no less, whatever `times`: both bounds grow with E[K] and c."""
        alike = self.base == other.base
        return alike and self.mean_trials <= other.mean_trials and self.log_ratio <= other.log_ratio


class Selections(Repeated[Selection]):
    """Selections, each from runs whose function is claimed as it is written."""

    CURVES = MappingProxyType({"selected": ("base", "mean_trials", "log_ratio")})

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` selections as a trade-off function in JSON states them. What one run proves is compared
        by its text, which the theorem has checked."""
        several(curve, count)
        mean = nonnegative("mean_trials", curve["mean_trials"])
        if not mean >= 1.0:
            raise Refused(f"mean_trials: expected a number ≥ 1, got {mean!r}")
        text = json.dumps(curve["base"], sort_keys=True)
        return cls((Selection(text, mean, nonnegative("log_ratio", curve["log_ratio"]), count),))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if some selection has no claimed one that reveals as much; else None."""
        # The largest first, each from the smallest that cover it.
        stated = sorted(claimed.entries, key=_reveals)
        left = [one.times for one in stated]
        for one in sorted(self.entries, key=_reveals, reverse=True):
            if not _taken(one, stated, left):
                return (
                    f"factors: a selection of {one.mean_trials!r} trials with log_ratio {one.log_ratio!r} is "
                    "not covered by the claimed ones"
                )
        return None

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for every selection to the `factors` of a product in JSON."""
        for one in self.entries:
            curve = {
                "kind": "selected",
                "base": json.loads(one.base),
                "mean_trials": one.mean_trials,
                "log_ratio": one.log_ratio,
            }
            product["factors"].append(curve | {"count": one.times})

    @property
    def text(self) -> str:
        """The first selection, in words."""
        return f"the best of {self.entries[0].mean_trials!r} runs, in the mean"


def _reveals(one: Selection) -> tuple[float, float]:
    return one.mean_trials, one.log_ratio


def _taken(one: Selection, claimed: Sequence[Selection], left: list[int]) -> bool:
    """Whether enough of the claimed ones are left to cover this one; takes them off."""
    rest = one.times
    for i, other in enumerate(claimed):
        if one.covered_by(other):
            share = min(rest, left[i])
            left[i], rest = left[i] - share, rest - share
    return rest == 0


FACTOR = Selections
