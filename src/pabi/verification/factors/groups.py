"""Groups of units: the trade-off function of a chain of adjacent data sets, from that of one link."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from pabi.verification.arithmetic import integer
from pabi.verification.factors import Repeated, several
from pabi.verification.limits import Refused


class AdjacentChain(NamedTuple):
    """`times` chains of `size` links, and one link's trade-off function as JSON text."""

    base: str
    size: int
    times: int


class GroupFactors(Repeated[AdjacentChain]):
    """Chains, each of links whose function is claimed as it is written."""

    CURVES = MappingProxyType({"grouped": ("base", "size")})

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` chains as a trade-off function in JSON states them. What one link proves is compared by its
        text, which the theorem has checked."""
        several(curve, count)
        size = integer("size", curve["size"])
        if size < 2:
            raise Refused(f"size: expected at least 2, got {size}")
        return cls((AdjacentChain(json.dumps(curve["base"], sort_keys=True), size, count),))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if some chain is not among the claimed ones as often; else None."""
        for one in dict.fromkeys((entry.base, entry.size) for entry in self.entries):
            if claimed._count(one) < self._count(one):
                return f"factors: a group of {one[1]} is not covered by the claimed ones"
        return None

    def _count(self, chain: tuple[str, int]) -> int:
        """How often a chain of this link and length is listed."""
        return sum(one.times for one in self.entries if (one.base, one.size) == chain)

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for every chain to the `factors` of a product in JSON."""
        for one in self.entries:
            curve = {"kind": "grouped", "base": json.loads(one.base), "size": one.size}
            product["factors"].append(curve | {"count": one.times})

    @property
    def text(self) -> str:
        """The first chain, in words."""
        return f"groups of {self.entries[0].size}"


FACTOR = GroupFactors
