"""What is proven or claimed together, and when one implies the other.

A bound is a list of factors, one object for every kind that it has; several bounds on one release hold at
the same time. Nothing here knows the kinds but `epsilon`, whose method composes some of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from flint import arb, ctx

from pabi.verification.arithmetic import BITS, double_above, double_below
from pabi.verification.factors import Factor, nothing
from pabi.verification.factors.divergences import Divergences
from pabi.verification.factors.failure import Failure
from pabi.verification.factors.gaussians import Gaussians, Part
from pabi.verification.factors.sampled import SampledGaussians
from pabi.verification.factors.secret_mixtures import SecretMixtures, SecretParts
from pabi.verification.limits import timed
from pabi.verification.products import Sampled, epsilon_bound, whole_mu
from pabi.verification.secret_laws import advantage, epsilon_alone, laws_of, orders_of

_MOST_BOUNDS = 1024

F = TypeVar("F", bound=Factor)


@dataclass(frozen=True)
class JointBound:
    """What holds together: at most one object of every kind, and none that reveals nothing.

    Made by `of`. A kind that is not there reveals nothing.

    Attributes
    ----------
    factors : tuple of Factor
        One object for every kind that reveals something.
    """

    factors: tuple[Factor, ...] = ()
    _readings: dict[float, float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, *factors: Factor) -> JointBound:
        """The bound on independent releases that these factors describe."""
        by_kind: dict[type[Factor], list[Any]] = {}
        for factor in factors:
            by_kind.setdefault(type(factor), []).append(factor)
        merged = []
        for kind, own in by_kind.items():
            together = own[0] if len(own) == 1 else kind.merged(own)
            if together != nothing(kind):
                merged.append(together)
        return cls(tuple(sorted(merged, key=_place) if len(merged) > 1 else merged))

    @classmethod
    def gaussian(cls, mu: float) -> JointBound:
        """The bound of one Gaussian, of parameter μ ≥ 0, which may be infinite."""
        return cls.of(Gaussians.single(mu))

    def only(self, kind: type[F]) -> F | None:
        """The factors of a kind, if the bound has no others; else None."""
        if all(type(factor) is kind for factor in self.factors):
            return self.get(kind)
        return None

    def get(self, kind: type[F]) -> F:
        """The factors of a kind; what reveals nothing if the bound has none."""
        for factor in self.factors:
            if type(factor) is kind:
                return factor
        return nothing(kind)

    @property
    def parts(self) -> tuple[Part, ...]:
        """(probability, μ) for every case of the mixture of Gaussians in it."""
        return self.get(Gaussians).parts

    @property
    def size(self) -> int:
        """The number of factors."""
        return sum(factor.size for factor in self.factors)

    @property
    def text(self) -> str:
        """The bound in a few words."""
        if len(self.factors) == 1 and self.size <= 1:
            return self.factors[0].text
        return f"product of {self.size} factors" if self.factors else Gaussians().text

    def missing(self, claimed: JointBound) -> str | None:
        """What of the factors the claimed ones do not cover; None if they cover all."""
        for factor in self.factors:
            gap = factor.missing(claimed.get(type(factor)))
            if gap is not None:
                return gap
        return None

    @property
    def composed(self) -> bool:
        """Whether `epsilon` can compose its factors."""
        alone = self.get(Divergences).size == len(self.factors) == 1
        return alone or all(type(factor) in _COMPOSED for factor in self.factors)

    def epsilon(self, delta: float, enough: float = 0.0) -> float:
        """An ε that is proven at `delta`, computed anew.

        Parameters
        ----------
        delta : float
            A probability in (0, 1).
        enough : float
            An ε ≥ 0 that will do: the search ends where it finds one of at most this.

        Returns
        -------
        float
            ε ≥ 0; ∞ if none is found, or if there are factors that are not composed here.

        Raises
        ------
        Refused
            If it takes longer than a verification may.
        """
        least = self._readings.get(delta, math.inf)
        if not least <= enough:
            least = self._readings[delta] = min(least, self._least(delta, enough))
        return least

    def _least(self, delta: float, enough: float) -> float:
        left = Fraction(delta) - self.get(Failure).probability
        if left <= 0 or not self.composed:
            return math.inf
        rest = double_below(left)
        if (divergence := self.get(Divergences)).size:
            return divergence.epsilon(rest)
        sampled = [f for f in self.get(SampledGaussians).entries if f.mu > 0.0 and f.times]
        secret = Counter(self.get(SecretMixtures).entries)
        gaussians = self.get(Gaussians)
        if not (sampled or secret):
            with ctx.workprec(BITS):
                if gaussians.delta(enough) <= rest:
                    return enough
        elif not any(math.isinf(max(f.mu, *f.sizes)) for f in sampled):
            if self._advantage(sampled, secret, rest) <= rest:
                return 0.0
            every = [(f, f.times) for f in sampled] + list(secret.items())
            if len(every) == 1 and every[0][1] == 1 and not gaussians.size:
                return epsilon_alone(orders_of(every[0][0]), rest, enough)
        others = [(laws_of(mixture), times) for mixture, times in secret.items()]
        return epsilon_bound(self.parts, sampled, rest, enough, others)

    def _advantage(
        self, sampled: Sequence[Sampled], secret: Mapping[SecretParts, int], most: float
    ) -> Any:
        """A ball not below δ(0), at most the sum over all releases; or one above `most`."""
        with ctx.workprec(BITS):
            total = arb(0)
            for factor in timed(sampled):
                share = arb(double_above(Fraction(factor.probability)))
                total += factor.times * share * (arb(whole_mu(factor)) / arb(8).sqrt()).erf()
            if total <= most:
                total += self.get(Gaussians).delta(0.0)
            for mixture, times in secret.items():
                if total <= most:
                    total += times * advantage(orders_of(mixture))
            return total

    def curve(self) -> dict[str, Any]:
        """The trade-off function that the bound proves, in JSON."""
        product: dict[str, Any] = {"kind": "product", "factors": []}
        for factor in self.factors:
            factor.write(product)
        if not product["factors"]:
            Gaussians().write(product)
        first, *others = product["factors"]
        if others or first["count"] != 1 or set(product) != {"kind", "factors"}:
            return product
        return {key: value for key, value in first.items() if key != "count"}


_COMPOSED = (Gaussians, SampledGaussians, SecretMixtures, Failure)

# Several bounds on one release, all of which hold.
Bounds = tuple[JointBound, ...]


def _place(factor: Factor) -> tuple[bool, str]:
    """In what order the factors of a bound stand, and gaps are named: what is no factor comes last."""
    return factor.size == 0, type(factor).__name__


def best_curve(bounds: Bounds) -> dict[str, Any]:
    """The trade-off function that several bounds on one release prove, in JSON."""
    parts = [bound.curve() for bound in bounds]
    return parts[0] if len(parts) == 1 else {"kind": "best", "parts": parts}


def uncovered(proven: Bounds, claimed: Bounds) -> str | None:
    """Why some claimed bound follows from none that is proven; None if all do."""
    if not proven or not claimed:
        return "nothing is proven" if claimed else "nothing is claimed"
    for one in timed(claimed):
        first = proven[0].missing(one)
        if first and all(bound.missing(one) for bound in timed(proven[1:])):
            return first
    return None


def all_together(first: Bounds, second: Bounds) -> Bounds:
    """What two independent releases prove: every bound on one with every bound on the other; where they are
    many, those that reveal least."""
    pairs = [(one, other) for one in first for other in second]
    every = (JointBound.of(*one.factors, *other.factors) for one, other in timed(pairs))
    bounds = list(dict.fromkeys(every))
    if len(bounds) > _MOST_BOUNDS:
        bounds = sorted(bounds, key=_revealed)[:_MOST_BOUNDS]
    return tuple(bounds)


def _revealed(bound: JointBound) -> float:
    """About what the factors that bounds on one release differ in amount to."""
    return sum(factor.revealed for factor in bound.factors)


def several_releases(parts: Sequence[Bounds]) -> Bounds:
    """What independent releases prove, of each of which these bounds hold."""
    total: Bounds = (JointBound(),)
    for one in parts:
        total = all_together(total, one)
    return total
