"""Gaussian mechanisms on random batches: of fixed size (C_p), and drawn record by record (O_p)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its parts are loaded on first use
from flint import arb, ctx

from pabi.numbers import gaussian
from pabi.numbers.errors import InvalidInput, must_be
from pabi.numbers.gaussian import gdp_epsilon_bounds, gdp_to_delta, nonnegative
from pabi.numbers.rounding import (
    THREE_ROUNDINGS,
    Array,
    bisected_arrays,
    fraction_down,
    fraction_up,
    times_up,
    up,
)
from pabi.numbers.validate import SHARE, Checked, by, one_of
from pabi.numbers.vectorised import both_signs, gaussian_delta
from pabi.tradeoff.base import (
    DIRECTIONS,
    Directed,
    Direction,
    Orientation,
    Readers,
    TradeOff,
    decode,
    encode,
    one_order,
    support_lines,
)
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.halves import Half
from pabi.tradeoff.law import MixtureLaw
from pabi.tradeoff.pairs import LARGEST_EXPONENT, undrawn
from pabi.tradeoff.two_halves import OfLaw, TwoHalves

_BITS = 200  # of ball arithmetic: no answer here is wider than one double
_FARTHEST = 40.0  # Φ(-40) is below every positive double


def _gaussian(name: str, value: Any) -> Gaussian:
    """The check that passes objects of `Gaussian` alone."""
    if type(value) is not Gaussian:
        raise InvalidInput(name, f"expected a Gaussian, got {value!r}")
    return value


@dataclass(frozen=True)
class Subsampled(Checked, OfLaw):
    """C_p(f) = min{f_p, f_p^-1}**, f_p = p·f + (1 - p)·Id, of a Gaussian f.

    A mechanism that is f-DP under replacement of a record, run on a uniformly random subset of the
    share p of the records. δ(ε) = p·δ_f(log(1 + (e^ε - 1)/p)) for ε ≥ 0. Rényi divergences are computed by
    quadrature, with a margin of 1e-8 (relative).

    Parameters
    ----------
    base : Gaussian
        f = G(μ).
    probability : float
        p in [0, 1].

    References
    ----------
    Dong, Roth, Su 2022, Thm 4.2 and Prop. 4.3; Bok, Su, Altschuler 2024, Def. 4.7, Prop. D.4.
    """

    base: Gaussian = field(metadata=by(_gaussian))
    probability: float = field(metadata=by(SHARE))

    kind: ClassVar[str] = "subsampled"

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if self._plain is not None:
            return self._plain._epsilon_bounds(delta, rtol)
        mu, p = self.base.mu, self.probability
        share = Fraction(delta) / Fraction(p)
        if share >= 1:
            return 0.0, 0.0
        low = gdp_epsilon_bounds(mu, fraction_up(share))[0]
        high = gdp_epsilon_bounds(mu, fraction_down(share))[1]
        return _amplified(low, p)[0], _amplified(high, p)[1]

    @property
    def _plain(self) -> Gaussian | None:
        if self.probability in (0.0, 1.0) or self.base.mu == 0.0:
            return self.base if self.probability else Gaussian(0.0)
        return None

    @property
    def _largest(self) -> float:
        """The μ of the Gaussian, or 0."""
        return self.base.mu if self.probability else 0.0

    @cached_property
    def _law(self) -> MixtureLaw:
        half = Half.single(self.base.mu, self.base.mu, self.probability)
        return MixtureLaw(half, half)

    def _tradeoff(self, alpha: Array) -> Array:
        """The two lines at the ε where the likelihood-ratio test has type I error α, or its mirror."""
        mu, p = self.base.mu, self.probability
        if self._plain is not None:
            return self._plain._tradeoff(alpha)
        if mu == math.inf:
            return np.maximum(
                0.0, (1.0 - p) * (1.0 - alpha) * (1.0 - THREE_ROUNDINGS) - THREE_ROUNDINGS * p
            )
        with np.errstate(divide="ignore", over="ignore"):
            z = -scipy.special.ndtri(alpha)  # on the left, α = Q(Z > z)
            half = self._law.upper
            left = half.loss(np.clip(z - half.origin, 0.0, _FARTHEST))
            # On the right f = x and α = p·f(x) + (1 - p)(1 - x): a bisection in z finds x.
            x, _ = bisected_arrays(
                lambda z: (
                    p * scipy.special.ndtr(z - mu) + (1.0 - p) * scipy.special.ndtr(z) < alpha
                ),
                np.full_like(z, -_FARTHEST),
                np.full_like(z, _FARTHEST + mu),
                rounds=60,
            )
            right = half.loss(np.clip(x - half.origin, 0.0, _FARTHEST + mu))
        result = np.zeros_like(alpha)
        for epsilon in (left, right, np.zeros_like(alpha)):
            epsilon = np.minimum(epsilon, LARGEST_EXPONENT)
            result = np.maximum(result, support_lines(alpha, epsilon, self._delta_array(epsilon)))
        return np.where(alpha == 0.0, 1.0, result)

    def _delta(self, epsilon: float) -> float:
        mu, p = self.base.mu, self.probability
        if epsilon == -math.inf:
            return 1.0
        if p == 0.0 or mu == 0.0:
            return Gaussian(0.0)._delta(epsilon)
        if epsilon >= 0.0:
            return _forward_delta(mu, p, epsilon)
        # δ(-ε) = 1 - e^-ε·(1 - δ(ε))
        mirrored = Fraction(_forward_delta(mu, p, -epsilon))
        factor = Fraction(math.nextafter(math.exp(epsilon), 0.0))
        return min(1.0, fraction_up(1 - factor * (1 - mirrored)))

    def _delta_array(self, epsilon: Array) -> Array:
        mu, p = self.base.mu, self.probability
        if p == 0.0 or mu == 0.0:
            return Gaussian(0.0)._delta_array(epsilon)
        size = np.abs(epsilon)
        with np.errstate(under="ignore"):
            value = times_up(np.asarray(gaussian_delta(mu, undrawn(size, p))), p)
            return both_signs(epsilon, value * (1.0 + THREE_ROUNDINGS))

    def _fields(self) -> dict[str, Any]:
        return {"mu": encode(self.base.mu), "probability": self.probability}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(Gaussian(decode("mu", fields.pop("mu"))), fields.pop("probability"))


@dataclass(frozen=True)
class PoissonSubsampled(Checked, Directed, OfLaw):
    """The Gaussian mechanism on a Poisson batch: O_p(μ) = T(p·N(μ, 1) + (1 - p)·N(0, 1), N(0, 1)).

    Of one release the worse direction is C_p(G(μ)); of several it is not, and each direction is composed by
    itself. Rényi divergences are computed by quadrature, with a margin of 1e-8 (relative).

    Parameters
    ----------
    mu : float
        μ in [0, ∞].
    probability : float
        p in [0, 1], with which the batch holds the record.
    direction : str
        "remove" is O_p(μ) itself, the first data set holding the record; "add" its inverse; "both" the
        worse of the two.

    References
    ----------
    Zhu, Dong, Wang 2022, Thm 11; docs, "Random batches".
    """

    mu: float = field(metadata=by(nonnegative))
    probability: float = field(metadata=by(SHARE))
    direction: Direction = field(default="both", metadata=by(one_of(*DIRECTIONS)))

    kind: ClassVar[str] = "poisson_subsampled"
    _readers: ClassVar[Readers] = {"mu": decode}

    @property
    def orientation(self) -> Orientation:
        """The direction; "symmetric" where nothing is random or nothing revealed."""
        return "symmetric" if self._plain is not None else self.direction

    @cached_property
    def _worse(self) -> Subsampled:
        return Subsampled(Gaussian(self.mu), self.probability)

    def _reader(self, *, positive: bool) -> TradeOff:
        """The function that answers for one release; `positive`: whether at ε ≥ 0 only.

        There removal is the worse direction, so that C_p(G(μ)) answers for it.
        """
        alike = not one_order(self.orientation) or (positive and self.orientation == "remove")
        return self._worse if alike else TradeOff._table.product(((self, 1),))

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        return self._reader(positive=True).epsilon_bounds(delta, rtol)

    @property
    def _plain(self) -> Gaussian | None:
        return self._worse._plain

    @property
    def _largest(self) -> float:
        """The μ of the Gaussian without sampling, or 0."""
        return self._worse._largest

    @cached_property
    def _law(self) -> MixtureLaw:
        return MixtureLaw.of(self._worse._law.upper)

    def _tradeoff(self, alpha: Array) -> Array:
        return self._reader(positive=False)._tradeoff(alpha)

    def _delta(self, epsilon: float) -> float:
        return self._reader(positive=epsilon >= 0.0)._delta(epsilon)

    def _delta_array(self, epsilon: Array) -> Array:
        one_by_one = one_order(self.orientation)
        return super()._delta_array(epsilon) if one_by_one else self._worse._delta_array(epsilon)


def _amplified(epsilon: float, p: float) -> tuple[float, float]:
    """log(1 + p·(e^ε - 1)), rounded down and up."""
    if epsilon in (0.0, math.inf):
        return epsilon, epsilon
    with ctx.workprec(_BITS):
        value = (arb(p) * arb(epsilon).expm1()).log1p()
        return gaussian.lower(value), gaussian.upper(value)


def _forward_delta(mu: float, p: float, epsilon: float) -> float:
    """p·δ_G(log(1 + (e^ε - 1)/p)), ε ≥ 0, rounded up."""
    if epsilon == math.inf:
        return p if mu == math.inf else 0.0
    with ctx.workprec(_BITS):
        place = gaussian.lower((arb(epsilon).expm1() / arb(p)).log1p())
    return min(1.0, fraction_up(Fraction(p) * Fraction(gdp_to_delta(mu, place))))


@dataclass(frozen=True)
class PoissonReplaced(Checked, TwoHalves):
    """T(p·N(μ, 1) + (1 - p)·N(0, 1), p·N(-μ, 1) + (1 - p)·N(0, 1)): its own inverse.

    A Poisson batch holds the record with probability p; the record moves the sum by μ standard deviations
    of the noise at most, and the one in its place, in the worst case, the other way. It is never below
    C_p(G(2μ)).

    Parameters
    ----------
    mu : float
        μ in [0, ∞].
    probability : float
        p in [0, 1].

    References
    ----------
    docs, "Theory", 20.
    """

    mu: float = field(metadata=by(nonnegative))
    probability: float = field(metadata=by(SHARE))

    kind: ClassVar[str] = "poisson_replaced"
    _readers: ClassVar[Readers] = {"mu": decode}

    @property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where nothing is random or nothing revealed."""
        if self.mu == 0.0 or self.probability == 0.0:
            return Gaussian(0.0)
        return Gaussian(2.0 * self.mu) if self.probability == 1.0 else None

    @property
    def _largest(self) -> float:
        """That of G(2μ), or 0."""
        return 2.0 * self.mu if self.probability else 0.0

    @cached_property
    def _law(self) -> MixtureLaw:
        half = Half.single(self.mu, 2.0 * self.mu, self.probability)
        return MixtureLaw(half, half)


def _positive(field: str, value: Any) -> float:
    """The check that passes ∞ and numbers above 0."""
    size = nonnegative(field, value)
    must_be(size > 0.0, field, "a number > 0", value)
    return size


@dataclass(frozen=True)
class FixedSizeSubsampled(Checked, Directed, TwoHalves):
    """The Gaussian mechanism on a batch of fixed size, which a record joins in the place of another.

    Batch and noise aside, the sum is moved with probability p, by W on the first data set and by W' on the
    second, |W| ≤ a, |W'| ≤ a' and |W - W'| ≤ m in standard deviations of the noise. With
    D(a, m) = T(p·N(a, 1) + (1 - p)·N(0, 1), p·N(a - m, 1) + (1 - p)·N(0, 1)) the δ at ε ≥ 0 is that of
    D(a, m) in the one order and that of D(a', m) in the other. It is never below C_p(G(max{a, a', m})).

    Parameters
    ----------
    norm : float
        a in (0, ∞].
    other : float
        a' in (0, ∞].
    apart : float
        m in [0, ∞]; more than a + a' says no more than that.
    probability : float
        p in [0, 1], with which the batch holds the record.
    direction : str
        "remove" is the function itself, the first data set having a; "add" its inverse; "both" the worse of
        the two, each composed by itself.

    References
    ----------
    docs, "Theory", 10.2, Lemma 8b and Theorem 40.
    """

    norm: float = field(metadata=by(_positive))
    other: float = field(metadata=by(_positive))
    apart: float = field(metadata=by(nonnegative))
    probability: float = field(metadata=by(SHARE))
    direction: Direction = field(default="both", metadata=by(one_of(*DIRECTIONS)))

    kind: ClassVar[str] = "fixed_size_subsampled"
    _readers: ClassVar[Readers] = dict.fromkeys(("norm", "other", "apart"), decode)

    @property
    def _within(self) -> float:
        """m, at most a + a'."""
        return min(self.apart, up(self.norm + self.other))

    @property
    def _largest(self) -> float:
        """The M for which C_p(G(M)) is never above the function, or 0."""
        return max(self.norm, self.other, self._within) if self.probability else 0.0

    @property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where nothing is random or nothing revealed."""
        if self._within == 0.0 or self.probability == 0.0:
            return Gaussian(0.0)
        return Gaussian(self._within) if self.probability == 1.0 else None

    @property
    def orientation(self) -> Orientation:
        """The direction; "symmetric" where both orders are one."""
        symmetric = self.norm == self.other or self._plain is not None
        return "symmetric" if symmetric else self.direction

    @cached_property
    def _law(self) -> MixtureLaw:
        sizes = self.norm, self.other
        return MixtureLaw(*(Half.single(a, self._within, self.probability) for a in sizes))

    def _halves(self, *, positive: bool) -> Sequence[Half]:
        """D(a, m) is worse for a larger a."""
        return [max(super()._halves(positive=positive), key=lambda half: half.highest)]
