"""Random allocations: one record in one of many secret batches, all of whose outputs are released.

Larger shares and sizes reveal more (docs, "Theory", 6.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from pabi.verification.arithmetic import Refused, double_above, integer, nonnegative, timed
from pabi.verification.factors import Repeated, several, unserved
from pabi.verification.factors.closed_forms import read_mu, written_mu
from pabi.verification.factors.mixtures import WHOLE

_MOST_DRAWS = 64
# By how much less a claimed hub may have, as shares are rounded up: more than a few units in their last
# place, and far less than the 1e-13 by which readings are raised for it.
LEFT = Fraction(1, 2**47)


@dataclass(frozen=True)
class LabelGroup:
    """`count` labels of the probability `share` together, each of which moves its outputs by one of `sizes`:
    by which, is drawn for all of them, and everybody sees it. `common`: how far each moves one more output,
    the same for all labels."""

    share: Fraction
    sizes: tuple[float, ...]
    count: int
    common: float = 0.0

    @property
    def seen(self) -> tuple[float, ...]:
        """How far a label moves all its outputs together, at most."""
        if not self.common:
            return self.sizes
        return tuple(math.nextafter(math.hypot(x, self.common), math.inf) for x in self.sizes)

    def covers(self, needed: LabelGroup, /) -> bool:
        """Whether a label of these is no less likely, and moves no less, than one of those."""
        return (
            len(self.sizes) == len(needed.sizes)
            and all(a >= b for a, b in zip(self.sizes, needed.sizes, strict=True))
            and self.common >= needed.common
            and self.share * needed.count >= needed.share * self.count
        )


class Allocation(NamedTuple):
    """One record in one of many batches. `opposite`: whether another record moves the outputs on the other
    data set; `displaces`: whether it takes the place of another record; `times`: how many there are; `hub`:
    how far the last batch moves its outputs, where the displaced record goes there. What is left of 1 is the
    share of the hub."""

    labels: tuple[LabelGroup, ...]
    opposite: bool
    displaces: bool
    times: int = 1
    hub: float = 0.0

    @property
    def seen(self) -> float:
        """A μ whose Gaussian reveals no less: that of the batch in sight."""
        largest = max(self.hub, *(max(one.seen) for one in self.labels))
        return largest * (2.0 if self.opposite else 1.0)

    @property
    def left(self) -> Fraction:
        """What is left of 1."""
        return 1 - sum((one.share for one in self.labels), Fraction(0))

    def covers(self, needed: Allocation, /) -> bool:
        """Whether this reveals no less: for every label it has one of its own that covers it."""
        if (self.opposite, self.displaces) != (needed.opposite, needed.displaces):
            return False
        if not self.hub >= needed.hub or (self.hub and not self.left >= needed.left - LEFT):
            return False
        offered = sorted(self.labels, key=lambda labels: labels.sizes)
        demands = sorted(needed.labels, key=lambda labels: labels.sizes, reverse=True)
        return not unserved(
            [(one, one.count) for one in demands], [(one, one.count) for one in offered]
        )


class Allocations(Repeated[Allocation]):
    """Allocations of independent releases."""

    CURVES = MappingProxyType(
        {
            "random_allocation": (
                "shares",
                "sizes",
                "counts",
                "opposite",
                "displaces",
                "hub",
                "common",
            )
        }
    )

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` allocations as a trade-off function in JSON states them."""
        several(curve, count)
        for name in ("opposite", "displaces"):
            if not isinstance(curve[name], bool):
                raise Refused(f"{name}: expected true or false, got {curve[name]!r}")
        columns = [curve[name] for name in ("shares", "sizes", "counts")]
        if not columns[0] or len({len(column) for column in columns}) != 1:
            raise Refused("shares: expected one share, size and count for each group of labels")
        common = curve.get("common", [0.0] * len(columns[0]))
        if not isinstance(common, list) or len(common) != len(columns[0]):
            raise Refused("common: expected one for each group of labels")
        labels = tuple(
            LabelGroup(Fraction(nonnegative("shares", share)), _sizes(size), _count(n), read_mu(a))
            for share, size, n, a in timed(zip(*columns, common, strict=True))
        )
        if len({len(one.sizes) for one in labels}) != 1:
            raise Refused("sizes: expected as many for every group")
        if not sum(one.share for one in labels) <= WHOLE:
            raise Refused("shares: expected a sum of at most 1")
        hub = read_mu(curve.get("hub", 0.0))
        one = Allocation(labels, curve["opposite"], curve["displaces"], count, hub)
        if any(a.common for a in labels):
            if one.opposite or one.displaces or len(labels[0].sizes) > 1:
                raise Refused("common: expected none where records displace or replace others")
            if not abs(one.left) <= WHOLE - 1:
                raise Refused("shares: expected a sum of 1")
        if hub and not (one.displaces and one.left > 0):
            raise Refused("hub: expected 0, unless records are displaced and shares are below 1")
        return cls((one,))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if an allocation has no claimed one of its own that covers it; else None."""
        demands = sorted(self.entries, key=lambda one: one.seen, reverse=True)
        offered = sorted(claimed.entries, key=lambda one: one.seen)
        missing = unserved(
            [(one, one.times) for one in demands], [(one, one.times) for one in offered]
        )
        if not missing:
            return None
        count = sum(times for _, times in missing)
        return f"factors: {count} random allocations are not covered by the claimed ones"

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for every allocation to the `factors` of a product in JSON."""
        for one in self.entries:
            product["factors"].append(
                {
                    "kind": "random_allocation",
                    "shares": [double_above(labels.share) for labels in one.labels],
                    "sizes": [_written_sizes(labels.sizes) for labels in one.labels],
                    "counts": [labels.count for labels in one.labels],
                    "opposite": one.opposite,
                    "displaces": one.displaces,
                    "count": one.times,
                }
                | ({"hub": written_mu(one.hub)} if one.hub else {})
                | (
                    {"common": [written_mu(labels.common) for labels in one.labels]}
                    if any(labels.common for labels in one.labels)
                    else {}
                )
            )

    @property
    def text(self) -> str:
        """How many batches stay secret, in words."""
        first = self.entries[0]
        count = sum(one.count for one in first.labels) + (first.hub > 0.0)
        return f"one of {count} secret batches"


def _count(value: Any) -> int:
    if (count := integer("counts", value)) < 1:
        raise Refused(f"counts: expected at least 1, got {count}")
    return count


def _sizes(stated: Any) -> tuple[float, ...]:
    if not isinstance(stated, list):
        return (read_mu(stated),)
    if not 2 <= len(stated) <= _MOST_DRAWS:
        raise Refused(f"sizes: expected one, or 2 to {_MOST_DRAWS}, got {len(stated)}")
    return tuple(map(read_mu, stated))


def _written_sizes(sizes: tuple[float, ...]) -> Any:
    return [written_mu(size) for size in sizes] if sizes[1:] else written_mu(sizes[0])


FACTORS = (Allocations,)
