"""When claimed (weight, size) pairs cover those that are needed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Weighted = tuple[Fraction, float]


def dominated(needed: Sequence[Weighted], claimed: Sequence[Weighted]) -> bool:
    """Whether the claim puts at least the needed weight on every range of sizes above some m."""
    claimed = sorted(claimed, key=lambda pair: -pair[1])
    granted = required = Fraction(0)
    i = 0
    for weight, size in sorted(needed, key=lambda pair: -pair[1]):
        required += weight
        while i < len(claimed) and claimed[i][1] >= size:
            granted += claimed[i][0]
            i += 1
        if granted < required:
            return False
    return True
