"""Mixtures of Gaussians whose label stays secret: Σ w_j·N(m_j, 1) against N(0, 1), or its mirror image.

Moving weight to larger means, or adding some there, only reveals more (docs, "Theory", 6.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from pabi.verification.arithmetic import dominated, double_above
from pabi.verification.factors import Listed, several
from pabi.verification.factors.gaussians import Part, read_parts
from pabi.verification.limits import Refused

_MOST = 64  # of equal mixtures, which are listed one by one


class SecretParts(NamedTuple):
    """(weight, mean) of every label, and whether the other data set has the opposite means or 0."""

    parts: tuple[Part, ...]
    opposite: bool

    def covers(self, needed: SecretParts) -> bool:
        """Whether this reveals no less."""
        return self.opposite == needed.opposite and dominated(needed.parts, self.parts)


class SecretMixtures(Listed[SecretParts]):
    """Mixtures of independent releases."""

    CURVES = MappingProxyType({"secret_mixture": ("means", "weights", "opposite")})

    @classmethod
    def single(cls, parts: Sequence[Part], opposite: bool) -> Self:
        """One mixture of (weight, mean)."""
        if all(mean == 0.0 for _, mean in parts):
            return cls()
        return cls((SecretParts(tuple(parts), opposite),))

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` equal mixtures as a trade-off function in JSON."""
        several(curve, count, most=_MOST)
        if type(curve["opposite"]) is not bool:
            raise Refused(f"opposite: expected true or false, got {curve['opposite']!r}")
        parts = read_parts(zip(curve["weights"], curve["means"], strict=True))
        return cls(cls.single(_exactly(parts), curve["opposite"]).entries * count)

    def missing(self, claimed: Self) -> str | None:
        """A sentence if some mixture has no claimed one of its own that reveals no less; else None."""
        left = list(claimed.entries)
        for needed in self.entries:
            cover = next((one for one in left if one.covers(needed)), None)
            if cover is None:
                return "secret_mixture: the claimed means are too small, too rare, or on the wrong side"
            left.remove(cover)
        return None

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for every mixture to the `factors` of a product in JSON."""
        for parts, opposite in self.entries:
            left, means, weights = Fraction(1), [], []
            for weight, mean in sorted(parts, key=lambda part: -part[1]):
                share = min(weight, left)
                left -= share
                means.append(mean)
                weights.append(double_above(share))
            curve = {"kind": "secret_mixture", "means": means[::-1], "weights": weights[::-1]}
            product["factors"].append(curve | {"opposite": opposite, "count": 1})

    @property
    def size(self) -> int:
        """The number of mixtures."""
        return len(self.entries)

    @property
    def revealed(self) -> float:
        """The zero-concentrated privacy of the largest mean of each."""
        return sum(
            max(mean for _, mean in parts) ** 2 * (2.0 if opposite else 0.5)
            for parts, opposite in self.entries
        )

    @property
    def text(self) -> str:
        """How many places stay secret, in words."""
        return f"a secret mixture of {len(self.entries[0].parts)} places"


def _exactly(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts with weights that add to 1: what is too much is taken from the lowest means, and what is
    missing is added there, as a trade-off function reads them."""
    left, exact = Fraction(1), []
    for weight, mean in sorted(parts, key=lambda part: -part[1]):
        share = min(weight, left)
        left -= share
        exact.append((share, mean))
    weight, mean = exact.pop()
    return (*exact, (weight + left, mean))


FACTOR = SecretMixtures
