"""Gaussian differential privacy: f = G(μ) = T(N(0, 1), N(μ, 1))."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.gaussian import (
    gdp_epsilon_bounds,
    gdp_to_delta,
    gdp_to_epsilon,
    gdp_to_rdp,
    gdp_to_zcdp,
    nonnegative,
)
from pabi.numbers.rounding import Array, fraction_up, root_of_fraction_up
from pabi.numbers.validate import Checked, by
from pabi.numbers.vectorised import gaussian_delta
from pabi.tradeoff.base import Readers, TradeOff, decode
from pabi.tradeoff.law import Labelled
from pabi.tradeoff.pairs import Pair

# Relative errors allowed for scipy's ndtri and ndtr, several times what was measured against ball
# arithmetic (5e-16 and 2.4e-13).
_NDTRI = 4e-15
_NDTR = 5e-13
_DIFFERENCE = 3e-16  # relative: subtracting μ and the margin of it
_LEAST_ALPHA, _ITS_QUANTILE = 1e-300, 37.04  # Φ(-37.04) > 1e-300


@dataclass(frozen=True)
class Gaussian(Checked, TradeOff):
    """Gaussian differential privacy: G(μ)(α) = Φ(Φ^-1(1 - α) - μ).

    Parameters
    ----------
    mu : float
        μ in [0, ∞].

    References
    ----------
    Dong, Roth, Su 2022, Def. 2.6.
    """

    mu: float = field(metadata=by(nonnegative))

    kind: ClassVar[str] = "gaussian"
    _readers: ClassVar[Readers] = {"mu": decode}

    def _epsilon(self, delta: float) -> float:
        return gdp_to_epsilon(self.mu, delta)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        return gdp_epsilon_bounds(self.mu, delta)

    def _rdp(self, order: float) -> float:
        return gdp_to_rdp(self.mu, order)

    @property
    def _square(self) -> float:
        return self.mu * self.mu

    @property
    def zcdp(self) -> float:
        """The ρ = μ²/2, rounded up.

        References
        ----------
        Bun, Steinke 2016, Lemma 2.4.
        """
        return gdp_to_zcdp(self.mu)

    def _power(self, k: int) -> TradeOff:
        """G(μ·√k), the parameter rounded up."""
        if math.isinf(self.mu):
            return self
        return Gaussian(root_of_fraction_up(k * Fraction(self.mu) ** 2))

    def losses(self) -> tuple[Pair, ...]:
        """The loss N(μ²/2, μ²), the same in both orders."""
        return (Labelled((self.mu,), (1.0,)),)

    def _compose(self, other: TradeOff) -> TradeOff | None:
        if self.mu == 0.0:
            return other
        if not isinstance(other, Gaussian):
            return None
        if math.inf in (self.mu, other.mu):
            return Gaussian(math.inf)
        return Gaussian(root_of_fraction_up(Fraction(self.mu) ** 2 + Fraction(other.mu) ** 2))

    def _tradeoff(self, alpha: Array) -> Array:
        if math.isinf(self.mu):
            return np.zeros_like(alpha)
        if self.mu == 0.0:
            value = 1.0 - alpha
            return np.where(1.0 - value < alpha, np.nextafter(value, 0.0), value)
        with np.errstate(under="ignore"):
            z = scipy.special.ndtri(alpha)
            argument = -z - self.mu
            argument -= _NDTRI * np.abs(np.where(np.isinf(z), 0.0, z)) + _DIFFERENCE * self.mu
            value = scipy.special.ndtr(argument) * (1.0 - _NDTR)
            # Left of the least α ndtri meets subnormal numbers: there f is at least its value here.
            near_zero = float(scipy.special.ndtr(_ITS_QUANTILE - self.mu)) * (1.0 - _NDTR)
        value = np.where(alpha < _LEAST_ALPHA, np.minimum(value, near_zero), value)
        return np.where(alpha == 0.0, 1.0, np.where(alpha == 1.0, 0.0, value))

    def _delta(self, epsilon: float) -> float:
        return gdp_to_delta(self.mu, epsilon)

    def _delta_array(self, epsilon: Array) -> Array:
        return np.asarray(gaussian_delta(self.mu, epsilon))


def widened_mu(mu: float, r: float) -> float:
    """μ + 2r, rounded up: what is G(r) away from G(μ) on either data set reveals no more."""
    return mu if math.isinf(mu) else fraction_up(Fraction(mu) + 2 * Fraction(r))


def Identity() -> Gaussian:
    """Perfect privacy, f(α) = 1 - α.

    Returns
    -------
    Gaussian
        Equal to `Gaussian(0)`.
    """
    return Gaussian(0.0)
