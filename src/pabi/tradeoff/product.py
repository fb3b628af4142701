"""Products of trade-off functions, composed numerically with an upper and a lower value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from pabi.numbers.errors import InvalidInput, must_be
from pabi.numbers.locking import ticking
from pabi.numbers.rounding import THREE_ROUNDINGS, Array, fraction_up, root_of_fraction_up, up
from pabi.numbers.showing import shown
from pabi.numbers.validate import NONNEGATIVE, SHARE, integer, keep, number
from pabi.tradeoff import rounded as widened
from pabi.tradeoff.answers import Memo
from pabi.tradeoff.base import RTOL, Orientation, TradeOff, common, one_order, supported
from pabi.tradeoff.best import Best
from pabi.tradeoff.gaussian import Gaussian, widened_mu
from pabi.tradeoff.mixture import Mixture
from pabi.tradeoff.numerical import ComposedLoss
from pabi.tradeoff.pairs import LARGEST_EXPONENT, Pair, worst_divergence

Factor = tuple[TradeOff, int]

_MOST = 10**18  # of one factor
_UNUSUAL = 0.4  # less than ¾·(1 - 1/e): a δ at which ε is what the loss usually exceeds, or more
_SURELY = 0.97  # times a rough reading, which is 1 % above the least ε as a rule
_MOST_POINTS = 20_000  # at which f is supported


@dataclass(frozen=True, init=False)
class Product(TradeOff):
    """f_1^⊗k_1 ⊗ f_2^⊗k_2 ⊗ …: several mechanisms run on the same data.

    The factors are kept as they are: every reading composes their privacy losses on a grid chosen for it,
    from above and from below, so that composing further loses nothing. A random batch of a Gaussian of
    μ > 100 counts as one that reveals the record if it holds it, and a Gaussian of μ > 10⁶, or Laplace noise
    of ε > 300, as one that does; then the lower value is 0. Rényi divergences are the sums of those of the
    factors, each direction by itself; they are ∞ if anything may fail. `epsilon` is the upper one of
    `epsilon_bounds`, or of many releases a little above it, without computing the lower.

    Parameters
    ----------
    factors : iterable of pairs of TradeOff and int
        (f, k), k ≥ 1. As a field products are flattened, equal factors merged, Gaussians multiplied.
    failure : float
        In [0, 1], added to δ at every ε: the probability of an event under which nothing is claimed.
    rounding : float
        r ≥ 0: on either data set the release is G(r) away from an exact one, of which the factors speak.
        Those of several releases combine as the root of the sum of squares. A Gaussian alone becomes
        G(μ + 2r).

    References
    ----------
    Dong, Roth, Su 2022, Thm 3.2; docs, "Numerical composition"; docs, Theory, 9, Theorem 59.
    """

    factors: tuple[Factor, ...]
    failure: float = 0.0
    rounding: float = 0.0

    kind: ClassVar[str] = "product"

    def __init__(
        self, factors: Iterable[Factor], failure: float = 0.0, rounding: float = 0.0
    ) -> None:
        failing, r = SHARE("failure", failure), NONNEGATIVE("rounding", rounding)
        total, squares = 0.0, Fraction(0)
        counts: dict[TradeOff, int] = {}
        gaussian = Gaussian(0.0)
        for curve, count in ticking(factors):
            times = integer("count", count, at_least=1, at_most=_MOST)
            curve = TradeOff._table.check(curve, "factors")
            parts: Iterable[Factor] = ((curve, times),)
            if isinstance(curve, Product):
                total = up(total + up(times * curve.failure))
                squares += times * Fraction(curve.rounding) ** 2
                parts = ((f, k * times) for f, k in curve.factors)
            for part, k in parts:
                if isinstance(part, Gaussian):
                    gaussian = cast("Gaussian", gaussian.compose(part.self_compose(k)))
                else:
                    counts[part] = counts.get(part, 0) + k
        if r > 0.0 and total > 0.0:
            total = widened.failure_of(min(1.0, total), r)
        if failing > 0.0:
            total = up(total + failing) if total > 0.0 else failing
        # The releases are G(√Σr²) away from exact ones, and what is widened once more by r.
        r = fraction_up(Fraction(r) + Fraction(root_of_fraction_up(squares)))
        if not counts:
            gaussian, r = Gaussian(widened_mu(gaussian.mu, r)), 0.0
        if gaussian != Gaussian(0.0) or not counts:
            counts[gaussian] = 1
        keep(self, factors=tuple(counts.items()), failure=min(1.0, total), rounding=r)
        _ = self.orientation  # or InvalidInput

    @property
    def orientation(self) -> Orientation:
        """The orientation that the factors have in common."""
        return common(curve.orientation for curve, _ in self.factors)

    def inverse(self) -> Product:
        """f^-1: the product of the factors' inverses.

        Returns
        -------
        Product
            Failing with the same probability, and rounded as much.
        """
        inverses = ((curve.inverse(), k) for curve, k in self.factors)
        return Product(inverses, self.failure, self.rounding)

    def symmetrised(self) -> Product:
        """The product of the factors, each of them symmetrised.

        Returns
        -------
        Product
            Failing with the same probability, and rounded as much.
        """
        worse = ((curve.symmetrised(), k) for curve, k in self.factors)
        return Product(worse, self.failure, self.rounding)

    def losses(self) -> tuple[Pair, ...]:
        """Refused with InvalidInput: the factors have losses, their product has none in closed form."""
        raise InvalidInput("factors", "a product has no loss in closed form; compose its factors")

    # Readings.

    @cached_property
    def _exact(self) -> TradeOff:
        """The factors, without failure and without rounding."""
        return self._alone or Product(self.factors)

    def _epsilon(self, delta: float) -> float:
        left = self._left(delta)
        if self.rounding > 0.0:
            return widened.epsilon_of(self._exact._epsilon, left, self.rounding)
        if self._alone is not None or not 0.0 <= left < 1.0:
            return self._epsilon_bounds(delta, RTOL)[1]
        return self._upper(left, RTOL)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        rtol = number("rtol", rtol, above=0.0, at_most=1.0)
        left = self._left(delta)
        if left < 0.0:
            return math.inf, math.inf
        if self.rounding > 0.0:
            return self._around(left, rtol)
        if self._alone is not None:
            return self._alone.epsilon_bounds(left, rtol)
        if left >= 1.0:
            return 0.0, 0.0
        return self._bounds((left, rtol), lambda: self._bounded(left, rtol))

    def _around(self, delta: float, rtol: float) -> tuple[float, float]:
        """(lower, upper) values of ε at `delta`: the lower one is that of exact steps."""
        low, _ = self._exact._epsilon_bounds(delta, rtol)
        high = widened.epsilon_of(
            lambda left: self._exact._epsilon_bounds(left, rtol)[1], delta, self.rounding
        )
        return low, high

    def _left(self, delta: float) -> float:
        """What a failure leaves of δ for the losses, rounded down; negative where it leaves nothing."""
        if delta >= 1.0 or self.failure == 0.0:
            return delta
        return math.nextafter(delta - self.failure, -math.inf)

    def _upper(self, delta: float, rtol: float) -> float:
        """An upper value of the losses' ε at `delta` in [0, 1)."""

        def worst() -> float:
            most = 0.0
            for loss in self._losses:
                # Moments may show that this direction is the better one.
                if most == 0.0 or loss.by_moments(delta) > most:
                    floor = self._floor(delta)
                    value = loss.epsilon_bounds(delta, rtol, both=False, floor=floor)[1]
                    most = max(most, value)
            return most

        return self._uppers((delta, rtol), worst)

    def _floor(self, delta: float) -> float:
        """A lower value of ε: no factor alone reveals more than all of them, and a large Gaussian nearly as
        much."""
        if self._simplified:
            return 0.0
        gaussian = next((c for c, _ in self.factors if isinstance(c, Gaussian)), Gaussian(0.0))
        return gaussian.epsilon_bounds(delta)[0]

    def _bounded(self, delta: float, rtol: float) -> tuple[float, float]:
        """(lower, upper) values of the losses' ε at `delta` in [0, 1)."""
        upper = self._upper(delta, rtol)
        if self._simplified:
            return 0.0, upper
        lower = self._floor(delta)
        if upper - lower <= rtol * upper:
            return lower, upper
        bounds = [loss.epsilon_bounds(delta, rtol) for loss in self._losses]
        return max(low for low, _ in bounds), max(high for _, high in bounds)

    @property
    def _alone(self) -> TradeOff | None:
        """The only factor, where it answers for itself."""
        (curve, count), *more = self.factors
        if more or count > 1 or one_order(curve.orientation):
            return None
        return curve

    def delta_bounds(self, epsilon: float, rtol: float = RTOL) -> tuple[float, float]:
        """Bounds on δ at `epsilon` from both sides.

        Parameters
        ----------
        epsilon : float
            Any real ε.
        rtol : float
            The relative error in ε that the grid allows.

        Returns
        -------
        tuple of float
            (lower, upper), both in [0, 1].

        Raises
        ------
        InvalidInput
            Where a factor has no privacy loss of its own.

        References
        ----------
        docs, "Numerical composition".
        """
        low, high = self._delta_bounds(epsilon, rtol)
        if self.rounding > 0.0:
            high = widened.delta_of(
                lambda at: self._delta_bounds(at, rtol)[1], epsilon, self.rounding
            )
        return min(1.0, low + self.failure), min(1.0, up(high + self.failure))

    def _delta_bounds(self, epsilon: float, rtol: float) -> tuple[float, float]:
        """The same of the losses alone."""
        bounds = [loss.delta_bounds(epsilon, rtol) for loss in self._losses]
        low, high = max(low for low, _ in bounds), max(high for _, high in bounds)
        return 0.0 if self._simplified else low, high

    def _rdp(self, order: float) -> float:
        power = number("order", order, above=1.0) - 1.0
        if self.failure > 0.0:
            return math.inf
        if self.rounding > 0.0:
            general = widened.rdp_of(self._exact._rdp, order, self.rounding)
            return min(general, up(self.zcdp * order))
        sums = (
            math.fsum(k * pair.log_moment(power) for pair, k in terms) for terms in self._directions
        )
        return worst_divergence(sums, power)

    def _underestimate(self, delta: float) -> float:
        """A number that ε at `delta` is very likely not below: what `roughly` has found, less 3 %. Or what
        Gaussians in place of all factors reveal; or the Gaussian factor alone, and what the total loss
        usually exceeds."""
        if self.rounding > 0.0:
            return self._exact._underestimate(max(0.0, self._left(delta)))
        rough, _ = self._roughs.value(delta) or (0.0, 0.0)
        if rough > 0.0 or not self.failure < delta < _UNUSUAL:
            return _SURELY * rough
        squares = [k * s for f, k in self.factors if (s := f._square) is not None]
        if len(squares) == len(self.factors):
            return Gaussian(math.sqrt(math.fsum(squares)))._epsilon(self._left(delta))
        # Of what is above ε + 1, δ(ε) is at least the part 1 - 1/e.
        usual = 0.0 if self._alone is not None else self._losses[0].usual - 1.0
        return max(0.0, usual, self._floor(self._left(delta)))

    def roughly(self, delta: float) -> tuple[float, float]:
        """A quick reading of ε in the first direction, as a rule the worse one.

        Parameters
        ----------
        delta : float
            δ in (0, 1).

        Returns
        -------
        tuple of float
            (ε, λ): an upper value of ε up to about 1 % above the least, and the tilt whose moment it depends
            on; (∞, that of G(1)) where no ε is proven.

        Raises
        ------
        InvalidInput
            Where a factor has no privacy loss of its own.

        References
        ----------
        docs, "Numerical composition".
        """
        return self._roughs(delta, lambda: self._read_roughly(delta))

    def _read_roughly(self, delta: float) -> tuple[float, float]:
        loss = self._losses[0]
        rest = max(delta - self.failure, 0.5 * delta)

        def read(left: float) -> float:
            return loss.epsilon_bounds(left, 10.0 * RTOL, both=False)[1]

        epsilon = read(rest)
        if self.rounding > 0.0:
            epsilon = widened.epsilon_of(read, rest, self.rounding)
        if epsilon == math.inf:
            return epsilon, math.sqrt(-2.0 * math.log(delta))
        return epsilon, loss.saddle(epsilon)

    @property
    def zcdp(self) -> float:
        """The sum of the factors' ρ, rounded up, and what rounding adds; ∞ if anything may fail."""
        if self.failure > 0.0:
            return math.inf
        total = up(math.fsum(up(k * curve.zcdp) for curve, k in self.factors))
        return total if self.rounding == 0.0 else widened.zcdp_of(total, self.rounding)

    def _compose(self, other: TradeOff) -> TradeOff | None:
        # The best of several bounds composes each of them.
        if isinstance(other, Best):
            return None
        mine, theirs = _mixture_in(self), _mixture_in(other)
        exact = None if mine is None or theirs is None else mine._compose(theirs)
        return self._instead(exact, Product(((self, 1), (other, 1))))

    def _power(self, k: int) -> TradeOff:
        mixture = _mixture_in(self)
        return self._instead(mixture and mixture._power(k), Product(((self, k),)))

    @staticmethod
    def _instead(exact: TradeOff | None, whole: Product) -> Product:
        """The product with `exact` in place of its factors, where there is one: mixtures have a product."""
        if exact is None:
            return whole
        return Product(((exact, 1),), whole.failure, whole.rounding)

    @property
    def _directions(self) -> list[tuple[tuple[Pair, int], ...]]:
        """The pairs and how often each, in each direction that matters."""
        parts = [(curve.losses(), k) for curve, k in self.factors]
        directions = max(len(pairs) for pairs, _ in parts)
        return [
            tuple((pairs[min(i, len(pairs) - 1)], k) for pairs, k in parts)
            for i in range(directions)
        ]

    @cached_property
    def _simplified(self) -> bool:
        """Whether `_losses` reveal more than the factors do: then they say nothing from below."""
        return any(p.simplified is not p for terms in self._directions for p, _ in terms)

    @cached_property
    def _losses(self) -> tuple[ComposedLoss, ...]:
        """The total privacy loss in each direction that matters, the very large ones taken for infinite."""
        return tuple(
            ComposedLoss(tuple((pair.simplified, k) for pair, k in terms))
            for terms in self._directions
        )

    # A reading may take seconds. Each is kept under all that it depends on beside the factors: (δ, rtol).

    @cached_property
    def _roughs(self) -> Memo[float, tuple[float, float]]:
        return Memo()

    @cached_property
    def _uppers(self) -> Memo[tuple[float, float], float]:
        return Memo()

    @cached_property
    def _bounds(self) -> Memo[tuple[float, float], tuple[float, float]]:
        return Memo()

    def _delta(self, epsilon: float) -> float:
        if self.rounding > 0.0:
            value = widened.delta_of(self._exact._delta, epsilon, self.rounding)
        elif self._alone is not None:
            value = self._alone._delta(epsilon)
        else:
            value = max(loss.delta_bounds(epsilon, RTOL, both=False)[1] for loss in self._losses)
        return value if self._as_read else min(1.0, up(value + self.failure))

    def _delta_array(self, epsilon: Array) -> Array:
        if self.rounding > 0.0:
            value = widened.deltas(self._exact._delta_array, epsilon, self.rounding)
        elif self._alone is not None:
            value = self._alone._delta_array(epsilon)
        else:
            value = np.max([loss.deltas(epsilon, RTOL) for loss in self._losses], axis=0)
        if self._as_read:
            return value
        return np.asarray(np.minimum(1.0, np.nextafter(value + self.failure, 2.0)))

    @property
    def _as_read(self) -> bool:
        """Whether δ is that of another function, to which nothing is added."""
        return self.failure == 0.0 and (self.rounding > 0.0 or self._alone is not None)

    def _tradeoff(self, alpha: Array) -> Array:
        if self.rounding > 0.0:
            near = Gaussian(self.rounding)
            value = np.asarray(near(self._exact.tpr(near.tpr(alpha))))
            return (
                np.maximum(0.0, np.nextafter(value - self.failure, -1.0)) if self.failure else value
            )
        own = [loss.profile for loss in self._losses]
        opposite = own
        if one_order(self.orientation):
            opposite = [loss.profile for loss in self.inverse()._losses]
        epsilon = np.unique(np.concatenate([e for e, _ in (*own, *opposite)]))
        if epsilon.size > _MOST_POINTS:
            epsilon = epsilon[:: epsilon.size // _MOST_POINTS + 1]
        left, right = (
            np.minimum(1.0, np.max([_on_chords(epsilon, *g) for g in grids], axis=0) + self.failure)
            for grids in (opposite, own)
        )
        return supported(alpha, epsilon, left=left, right=right)

    def _fields(self) -> dict[str, Any]:
        factors = [{**curve.to_dict(), "count": k} for curve, k in self.factors]
        stated = {"failure": self.failure, "rounding": self.rounding}
        return {"factors": factors, **{name: value for name, value in stated.items() if value}}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        entries = fields.pop("factors")
        must_be(isinstance(entries, list), "factors", "a list", entries)
        factors = []
        for entry in entries:
            must_be(isinstance(entry, dict), "factors", "objects", entry)
            curve = {name: value for name, value in entry.items() if name != "count"}
            factors.append((TradeOff.from_dict(curve), entry.get("count", 1)))
        return cls(factors, fields.pop("failure", 0.0), fields.pop("rounding", 0.0))

    def __str__(self) -> str:
        parts = [f"{curve!r}" + (f"^{k}" if k > 1 else "") for curve, k in self.factors]
        failing = f", failing with {shown(self.failure, 3)}" if self.failure else ""
        near = f", rounded by {shown(self.rounding, 3)}" if self.rounding else ""
        return " ⊗ ".join(parts) + failing + near


def rounded(curve: TradeOff, r: float) -> TradeOff:
    """What a release reveals that is computed, from what it would reveal if every step were exact.

    Parameters
    ----------
    curve : TradeOff
        That of exact steps.
    r : float
        In [0, 1], how far the computed steps may be from exact ones over the whole release: the root of the
        sum of the squares of error over noise.

    Returns
    -------
    TradeOff
        G(μ + 2r) of G(μ), of several bounds that of each, otherwise a `Product` with this rounding.

    Raises
    ------
    InvalidInput
        For an `r` out of range, and for a class that is not in `pabi.tradeoff`.

    References
    ----------
    docs, Theory, 9, Theorem 59.
    """
    r = SHARE("rounding", r)
    match TradeOff._table.check(curve, "tradeoff"):
        case known if r == 0.0:
            return known
        case Gaussian(mu=mu):
            return Gaussian(widened_mu(mu, r))
        case Best(parts=parts):
            return Best(rounded(part, r) for part in parts)
        case other:
            return Product(((other, 1),), rounding=r)


def unrounded(curve: TradeOff) -> tuple[TradeOff, float]:
    """(that which `rounded` widened by r, r), where it has one factor and cannot fail; (the curve, 0) of
    any other.

    Parameters
    ----------
    curve : TradeOff
        Any of `pabi.tradeoff`.

    Returns
    -------
    (TradeOff, float)
        A Gaussian that was widened is one like any other.

    Raises
    ------
    Nothing.
    """
    match curve:
        case Product(factors=((one, 1),), failure=0.0, rounding=r):
            return one, r
        case _:
            return curve, 0.0


def _mixture_in(curve: TradeOff) -> TradeOff | None:
    """The mixture, or Gaussian, that is the only factor of a curve; None of any other."""
    match curve:
        case Product(factors=((Mixture() | Gaussian() as one, 1),)):
            return one
        case Mixture() | Gaussian():
            return curve
        case _:
            return None


def _on_chords(epsilon: Array, grid: Array, delta: Array) -> Array:
    """δ at `epsilon` on the chords in e^ε between grid points, an upper bound by convexity; 1 outside."""
    at, points = (np.exp(np.minimum(e, LARGEST_EXPONENT)) for e in (epsilon, grid))
    value = np.interp(at, points, delta, left=1.0, right=1.0) * (1.0 + THREE_ROUNDINGS)
    return np.where(epsilon > LARGEST_EXPONENT, 1.0, value)
