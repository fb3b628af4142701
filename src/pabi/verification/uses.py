"""Which steps use a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pabi.verification.limits import positions
from pabi.verification.refusal import Refused


class UseSteps:
    """Steps that use a record: first + i·period for i < count, and those of `then`."""

    def __init__(self, first: int, count: int, *, period: int, then: Sequence[int] = ()) -> None:
        self.first, self.count, self.then, self.period = first, count, tuple(then), period

    def among(self, a: int, b: int) -> bool:
        """Whether any of the steps a..b−1 uses the record."""
        if any(a <= k < b for k in self.then):
            return True
        last = self.first + (self.count - 1) * self.period
        if self.count == 0 or b <= self.first or a > last:
            return False
        following = a + (self.first - a) % self.period if a > self.first else self.first
        return following < b and following <= last

    def all(self) -> Iterator[int]:
        """All steps that use the record."""
        count = positions("uses", self.count)
        yield from (self.first + i * self.period for i in range(count))
        yield from self.then

    @property
    def total(self) -> int:
        """The number of steps that use the record."""
        return self.count + len(self.then)


def check_uses(case: dict[str, Any], uses: UseSteps) -> None:
    """Refuse unless the case is about a record with these uses."""
    first, count, then = case["uses"]
    if [first, count, list(then)] != [uses.first, uses.count, list(uses.then)]:
        raise Refused(
            f"uses: expected {[uses.first, uses.count, list(uses.then)]}, got {case['uses']}"
        )
