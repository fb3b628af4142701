"""Kinds of factors that are mixtures of Gaussians."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from pabi.verification.arithmetic import (
    Refused,
    Weighted,
    dominated,
    double_above,
    nonnegative,
    timed,
)
from pabi.verification.factors import Listed, Repeated, several, unserved
from pabi.verification.factors.closed_forms import (
    Part,
    largest_first,
    read_mu,
    read_parts,
    written_mu,
)

# Sampled Gaussians: O_p(μ) ("poisson_subsampled"), R_p(μ) ("poisson_replaced"), and those of records that
# displace others ("fixed_size_subsampled"), of which C_p(G(μ)) ("subsampled") is the one with all sizes
# μ.
#
# Larger sizes and probabilities, and more factors, reveal more. R_p(μ) reveals no more than C_p(G(2μ)).


PRESENT, REPLACED, DISPLACING = "poisson_subsampled", "poisson_replaced", "subsampled"
_FIXED_SIZE = "fixed_size_subsampled"


class Sampled(NamedTuple):
    """`times` factors of a kind: O_p(μ) ("poisson_subsampled"), R_p(μ) ("poisson_replaced"), or that of a
    record that displaces others ("subsampled").

    Of the latter μ is how far apart the sums are, `norm` how far the record moves the one sum, and `other`
    how far the other is moved; None: no more than μ, which is C_p(G(μ)).
    """

    kind: str
    probability: Fraction | float
    mu: float
    times: int
    norm: float | None = None
    other: float | None = None

    @property
    def sizes(self) -> tuple[float, float]:
        """(norm, other)."""
        norm = self.mu if self.norm is None else self.norm
        return norm, self.mu if self.other is None else self.other

    def turned(self) -> Sampled:
        """The same with the data sets exchanged, of a record that displaces others."""
        return self._replace(norm=self.sizes[1], other=self.sizes[0])


def whole_mu(factor: Sampled) -> float:
    """The μ of the Gaussian that a factor is if the record is drawn for sure."""
    return 2.0 * factor.mu if factor.kind == REPLACED else factor.mu


class SampledGaussians(Repeated[Sampled]):
    """Any number of sampled Gaussians."""

    CURVES = MappingProxyType(
        {
            "subsampled": ("mu", "probability"),
            "poisson_subsampled": ("mu", "probability", "direction"),
            "poisson_replaced": ("mu", "probability"),
            "fixed_size_subsampled": ("norm", "other", "apart", "probability", "direction"),
        }
    )
    ALONE = False
    FINE = True

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` factors of one μ and probability, for both directions."""
        if curve.get("direction", "both") != "both":
            raise Refused("direction: expected a factor for both")
        probability = nonnegative("probability", curve["probability"])
        if probability > 1.0:
            raise Refused(f"probability: expected at most 1, got {probability!r}")
        kind = curve["kind"]
        if kind == _FIXED_SIZE:
            apart, norm, other = (read_mu(curve[name]) for name in ("apart", "norm", "other"))
            return cls((Sampled(DISPLACING, probability, apart, count, norm, other),))
        return cls((Sampled(kind, probability, read_mu(curve["mu"]), count),))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if the claim has too few factors as large as some that are needed; else None."""
        entries = self._as_claimed(claimed)
        for kind in sorted({f.kind for f in entries}, reverse=True):
            needed = [f for f in entries if f.kind == kind and f.mu > 0.0 and f.times]
            offered = [f for f in claimed.entries if f.kind == kind]
            ceiling: Fraction | float = math.inf
            for p in timed(sorted({f.probability for f in needed}, reverse=True)):
                # Claimed factors of probability p or more serve those of p, but serve only once.
                here = [f for f in needed if f.probability == p]
                serving = [f for f in offered if p <= f.probability < ceiling]
                ceiling = p
                if not _cover(serving, here):
                    worst = max(f.mu for f in here)
                    total, offered_count = (sum(f.times for f in x) for x in (here, serving))
                    return (
                        f"factors: {total} of {kind!r} with p = {float(p)!r} and μ up to {worst!r} are "
                        f"needed, which the {offered_count} claimed ones do not cover"
                    )
        return None

    def _as_claimed(self, claimed: Self) -> list[Sampled]:
        """The factors, with two records that displace others in place of R_p(μ) where the claim knows no R_p:
        so do older files."""
        if any(f.kind == REPLACED for f in claimed.entries):
            return list(self.entries)
        return [
            f._replace(kind=DISPLACING, mu=2.0 * f.mu, norm=f.mu, other=f.mu)
            if f.kind == REPLACED
            else f
            for f in self.entries
        ]

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for each to a product in JSON, its probability rounded up."""
        for f in self.entries:
            if f.times:
                p = min(1.0, double_above(Fraction(f.probability)))
                curve: dict[str, Any] = {"kind": f.kind, "mu": written_mu(f.mu)}
                if f.kind == DISPLACING and f.sizes != (f.mu, f.mu):
                    norm, other = map(written_mu, f.sizes)
                    curve = {"kind": _FIXED_SIZE, "norm": norm, "other": other}
                    curve["apart"] = written_mu(f.mu)
                product["factors"].append(curve | {"probability": p, "count": f.times})

    @property
    def text(self) -> str:
        """The number of factors, in words."""
        return f"product of {self.size} factors"


def _cover(claimed: Sequence[Sampled], needed: Sequence[Sampled]) -> bool:
    """Whether for every factor that is needed there is a claimed one of its own, no smaller in any size."""
    sizes = {f.sizes for f in (*claimed, *needed)}
    if len(sizes) > 1 and any(f.kind == DISPLACING for f in needed):
        return _matched(claimed, needed)
    return dominated([_weighted(f) for f in needed], [_weighted(f) for f in claimed])


def _matched(claimed: Sequence[Sampled], needed: Sequence[Sampled]) -> bool:
    """The same by three sizes: from the largest m down, each takes the claimed one of the least norm that is
    large enough. No other way serves more of them where `other` is in proportion to `norm`."""
    waiting = sorted(claimed, key=lambda f: f.mu)
    pool: list[tuple[tuple[float, float], int]] = []
    for factor in timed(sorted(needed, key=lambda f: -f.mu)):
        while waiting and waiting[-1].mu >= factor.mu:
            one = waiting.pop()
            insort(pool, (one.sizes, one.times))
        left, (norm, other) = factor.times, factor.sizes
        i = bisect_left(pool, ((norm, -math.inf), 0))
        while left and i < len(pool):
            sizes, times = pool[i]
            if sizes[1] >= other:
                part = min(left, times)
                left -= part
                if part == times:
                    pool.pop(i)
                    continue
                pool[i] = sizes, times - part
            i += 1
        if left:
            return False
    return True


def _weighted(factor: Sampled) -> Weighted:
    return Fraction(factor.times), factor.mu


# Mixtures of Gaussians whose label stays secret: Σ w_j·N(m_j, 1) against N(0, 1), or its mirror image.
#
# Moving weight to larger means, or adding some there, only reveals more (docs, "Theory", 6.1).


_MOST = 64  # of equal mixtures, which are listed one by one
WHOLE = 1 + Fraction(1, 10**9)  # more than shares that were rounded up add to


class SecretParts(NamedTuple):
    """(weight, mean) of every label, and whether the other data set has the opposite means or 0."""

    parts: tuple[Part, ...]
    opposite: bool

    def covers(self, needed: SecretParts, /) -> bool:
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
        if sum(weight for weight, _ in parts) < 2 - WHOLE:
            raise Refused("weights: expected a sum of 1")
        return cls(cls.single(_exactly(parts), curve["opposite"]).entries * count)

    def missing(self, claimed: Self) -> str | None:
        """A sentence if some mixture has no claimed one of its own that reveals no less; else None."""
        if not unserved([(one, 1) for one in self.entries], [(one, 1) for one in claimed.entries]):
            return None
        return "secret_mixture: the claimed means are too small, too rare, or on the wrong side"

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for every mixture to the `factors` of a product in JSON."""
        for parts, opposite in self.entries:
            rising = largest_first(parts)[::-1]
            means, weights = [mean for _, mean in rising], [double_above(w) for w, _ in rising]
            curve = {"kind": "secret_mixture", "means": means, "weights": weights}
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
    *others, (_, least) = largest_first(parts)
    return (*others, (1 - sum((share for share, _ in others), Fraction(0)), least))


FACTORS = (SampledGaussians, SecretMixtures)
