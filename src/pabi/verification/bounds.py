"""What is proven of a curve, from above and from below, beside what is claimed.

A bound is a list of factors; several bounds on one release hold at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, TypeVar

from flint import arb, fmpq

from pabi.verification.arithmetic import (
    Refused,
    closed,
    double_above,
    exact,
    root_up,
    timed,
)
from pabi.verification.factors import Factor, nothing, read_alone, read_counted, read_keys
from pabi.verification.factors.allocations import Allocations
from pabi.verification.factors.closed_forms import (
    BoundedRanges,
    Failure,
    Gaussians,
    Laplaces,
    Part,
    PureFactors,
    Rounding,
    read_mu,
)
from pabi.verification.factors.divergences import Divergences
from pabi.verification.factors.mixtures import SampledGaussians, SecretMixtures, whole_mu

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
        if Rounding in by_kind:
            merged = _folded(merged)
        return cls(tuple(sorted(merged, key=_place) if len(merged) > 1 else merged))

    @classmethod
    def gaussian(cls, mu: float) -> JointBound:
        """The bound of one Gaussian, of parameter μ ≥ 0, which may be infinite."""
        return cls.of(Gaussians.single(mu))

    def computed(self, r: Fraction) -> JointBound:
        """The bound on a release that is G(r) away, on either data set, from one that has this bound."""
        rounding = Rounding(r * r)
        failure = Failure(rounding.failure(self.get(Failure).probability))
        return JointBound.of(
            *(f for f in self.factors if type(f) is not Failure), failure, rounding
        )

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
        """What of the factors the claimed ones do not cover; None if they cover all, or a Gaussian that lies
        below them."""
        gap = self._gap(claimed)
        if gap is None or not (self.get(Rounding).square or claimed.get(Rounding).square):
            return gap
        # Of what is proven the worst Gaussian, of what is claimed no more than the Gaussian is compared.
        worst = max((mu for weight, mu in self.parts if weight > 0), default=0.0)
        others = (f for f in self.factors if type(f) is not Gaussians)
        few = (f for f in claimed.factors if type(f) in (Gaussians, Rounding, Failure))
        again = JointBound.of(Gaussians.single(worst), *others)._gap(JointBound.of(*few))
        return again and gap

    def _gap(self, claimed: JointBound) -> str | None:
        """What of the factors the claimed ones do not cover, kind by kind."""
        gaps = (factor.missing(claimed.get(type(factor))) for factor in self.factors)
        return next((gap for gap in gaps if gap is not None), None)

    @property
    def composed(self) -> bool:
        """Whether `epsilon` can compose its factors."""
        alone = self.get(Divergences).size == len(self.factors) == 1
        return alone or all(type(factor) in _COMPOSED for factor in self.factors)

    def epsilon(self, delta: float, enough: float = 0.0) -> float:
        """An ε that is proven at `delta`, composed anew.

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
        from pabi.verification.anew import epsilon_of

        return epsilon_of(self, delta, enough)

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


_COMPOSED = (Gaussians, SampledGaussians, SecretMixtures, Allocations, Failure, Rounding)


def _folded(factors: list[Any]) -> list[Any]:
    """The factors, of which a Gaussian that is alone, but for failures, becomes G(μ + 2r)."""
    rounding = next((f for f in factors if type(f) is Rounding), nothing(Rounding))
    failures = [f for f in factors if type(f) is Failure]
    rest = [f for f in factors if type(f) not in (Failure, Rounding)] or [nothing(Gaussians)]
    one = rest[0]
    if not rounding.square or len(rest) > 1 or type(one) is not Gaussians or one.mu is None:
        return factors
    if sum(weight for weight, _ in one.parts) < 1:
        return factors
    if math.isfinite(one.mu):
        one = Gaussians.single(double_above(Fraction(one.mu) + 2 * Fraction(rounding.r)))
    return [one, *failures]


# Several bounds on one release, all of which hold.
Bounds = tuple[JointBound, ...]


def _place(factor: Factor) -> tuple[bool, str]:
    """In what order the factors of a bound stand, and gaps are named: what is no factor comes last."""
    return factor.size == 0, type(factor).__name__


def best_curve(bounds: Sequence[JointBound]) -> dict[str, Any]:
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
    pairs = ((one, other) for one in first for other in second)
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


# Which Gaussian lies below what is proven: G(μ) ≤ f (docs, "Theory", 16).


_LARGE = 600.0


def square_below(bound: JointBound) -> Any:
    """A rational μ² with G(μ) below the bound; None where no finite one is known."""
    total = total_of((1, _square(f)) for f in bound.factors if type(f) is not Rounding)
    r = bound.get(Rounding).r
    if total is None or r == 0.0:
        return total
    root = root_up(total)
    return None if math.isinf(root) else (exact(root) + 2 * exact(r)) ** 2


def _square(factor: Factor) -> Any:
    match factor:
        case Gaussians(parts=parts):
            # The worst case of a mixture; claimed cases of no weight are left out.
            return _of_mu(max((mu for weight, mu in parts if weight > 0), default=math.inf))
        case SampledGaussians(entries=entries):
            # A record that is in the batch for sure reveals no less.
            used = [f for f in timed(entries) if f.times and f.probability > 0.0]
            return total_of((f.times, _of_mu(whole_mu(f))) for f in used)
        case Allocations(entries=entries):
            return total_of((one.times, _of_mu(one.seen)) for one in timed(entries))
        case BoundedRanges(entries=entries):
            return total_of((n, _of_mu(_between_logits(0.5 * e))) for e, n in timed(entries) if n)
        case PureFactors(entries=entries):
            return total_of((n, _of_mu(_between_logits(e))) for e, n in timed(entries) if n)
        case Laplaces(entries=entries):
            return total_of((n, _of_mu(_between_halves(e))) for e, n in timed(entries) if n)
        case _:  # a probability with which nothing is promised
            return None


def total_of(terms: Iterable[tuple[int, Any]]) -> Any:
    """Σ times·(what one reveals), a rational number; None where one is None."""
    total: Any = fmpq(0)
    for times, one in terms:
        if one is None:
            return None
        total += times * one
    return total


def _of_mu(mu: float) -> Any:
    return None if math.isinf(mu) else exact(mu) * exact(mu)


def _between_logits(x: float) -> float:
    """A double μ with Φ(−μ/2) ≤ 1/(1 + e^x), which is what the pair of logit distance x lies above."""
    if x == 0.0:
        return 0.0
    if not x < _LARGE:  # Φ(−t) ≤ e^(−t²/2)/2 at t = √2x
        return math.nextafter(2.0 * math.sqrt(2.0 * x), math.inf)
    return _of_tail(1.0 / (1.0 + math.exp(x)), 1 / (1 + arb(x).exp()), x)


def _between_halves(x: float) -> float:
    """A double μ with Φ(−μ/2) ≤ e^(−x/2)/2, which is what the Laplace pair of distance x lies above."""
    if x == 0.0:
        return 0.0
    if not x < _LARGE:  # Φ(−t) ≤ e^(−t²/2)/2 at t = √x
        return math.nextafter(2.0 * math.sqrt(x), math.inf)
    return _of_tail(0.5 * math.exp(-0.5 * x), (arb(x) / -2).exp() / 2, x)


def _of_tail(near: float, tail: Any, x: float) -> float:
    """A double μ with Φ(−μ/2) ≤ `tail`, a ball around `near`."""
    mu, step = -2.0 * NormalDist().inv_cdf(near), 1.0
    root8 = arb(8).sqrt()
    while not (arb(mu) / root8).erfc() / 2 <= tail:
        mu += step * math.ulp(max(mu, math.ulp(1.0) * x))
        step *= 2.0
    return mu


# Reading what is claimed, and whether what is proven implies it.


def read_bounds(curve: Any) -> Bounds:
    """The bounds that a trade-off function in JSON is the best of."""
    if curve["kind"] != "best":
        return (read_bound(curve),)
    closed("a best", curve, ("kind", "parts"))
    if not curve["parts"]:
        raise Refused("parts: expected at least one")
    return tuple(read_bound(part) for part in curve["parts"])


def read_bound(curve: Any) -> JointBound:
    """The bound that a trade-off function in JSON states."""
    if curve["kind"] != "product":
        return JointBound.of(read_alone(curve))
    beside = read_keys(curve)
    return JointBound.of(*map(read_counted, timed(curve["factors"])), *beside)


def _read_claim(claim: Any) -> Bounds:
    stated: Any
    name, stated = next(iter(claim.items())) if len(claim) == 1 else ("", None)
    match name:
        case "mu":
            return (JointBound.gaussian(read_mu(stated)),)
        case "mixture":
            return (JointBound.of(Gaussians.stated(stated)),)
        case "product":
            return (read_bound(stated),)
        case "tradeoff":
            return read_bounds(stated)
        case _:
            raise Refused("claim: expected one of mu, mixture, product and tradeoff, alone")


def _claim_of(proven: Bounds) -> dict[str, Any]:
    """The claim of what is proven."""
    curve = best_curve(proven)
    match curve["kind"]:
        case "gaussian":
            return {"mu": curve["mu"]}
        case "mixture":  # from the least μ on
            parts = zip(curve["weights"][::-1], curve["mus"][::-1], strict=True)
            return {"mixture": [[*part] for part in parts]}
        case _:
            return {"tradeoff": curve}


def claimed_curve(claim: dict[str, Any]) -> dict[str, Any]:
    """The trade-off function in JSON that a claim states."""
    match claim:
        case {"mu": mu}:
            return {"kind": "gaussian", "mu": mu}
        case {"mixture": pairs}:
            return {
                "kind": "mixture",
                "mus": [x for _, x in pairs],
                "weights": [w for w, _ in pairs],
            }
        case _:
            (curve,) = claim.values()
            return dict(curve)


def check_claim(payload: dict[str, Any], proven: Bounds) -> Bounds:
    """The bounds that a certificate claims. Refused unless those that are proven imply them; where none are
    claimed, these are from now on."""
    if "claim" not in payload:
        payload["claim"] = _claim_of(proven)
    claimed = _read_claim(payload["claim"])
    gap = uncovered(proven, claimed)
    if gap is not None:
        raise Refused(gap)
    return claimed


def implied(
    proven: Bounds,
    adjacency: str | None,
    assumptions: Sequence[str],
    guarantee: dict[str, Any],
) -> str | None:
    """None if what is proven implies a guarantee (as a dictionary), or the reason why not."""
    try:
        claimed = read_bounds(guarantee["tradeoff"])
    except Refused as refusal:
        return str(refusal)
    gap = uncovered(proven, claimed)
    if gap is not None:
        return f"tradeoff: the certificate proves less than the guarantee claims ({gap})"
    if guarantee["adjacency"] != adjacency:
        return f"adjacency: the certificate is for {adjacency!r}, not {guarantee['adjacency']!r}"
    listed = set(guarantee["assumptions"])
    for sentence in assumptions:
        if sentence not in listed:
            return f"assumptions: the guarantee keeps silent about: {sentence}"
    return None
