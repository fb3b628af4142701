"""The cost of noisy second moments against the two laws that a worst pair of data sets leads to."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import pabi
from pabi.account.best import outcomes
from support.every_case import every_case

DELTA = 1e-5


def described(**changes):
    fields = {"n": 100, "dimension": 3, "feature_norm": 1.5, "noise_std": 4.0}
    return pabi.NoisySecondMoments(**fields | changes)


def delta_of(mu, epsilon):
    """δ(ε) of two normal laws of variance 1 whose means are μ apart, from 40 digits of their tails."""
    with mpmath.workdps(40):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@every_case("diagonal", [False, True])
@every_case("noise", [0.3, 4.0, 40.0])
@every_case(("adjacency", "changed"), [("replace_one", 2), ("zero_out", 1)])
def test_mu_is_what_a_record_moves_over_the_noise(adjacency, changed, noise, diagonal):
    moments = described(noise_std=noise, adjacency=adjacency, diagonal=diagonal)
    guarantee = moments.guarantee(DELTA)
    truth = changed * Fraction(1.5) ** 4 / Fraction(noise) ** 2
    assert truth <= Fraction(guarantee.mu) ** 2 <= truth * (1 + Fraction(1, 2**50))
    for epsilon in (0.0, 0.5, 2.0):
        least = delta_of(mpmath.sqrt(mpmath.mpf(truth.numerator) / truth.denominator), epsilon)
        assert float(least) * (1.0 - 1e-12) <= guarantee.delta(epsilon)
        assert guarantee.delta(epsilon) <= float(least) * (1.0 + 1e-9)


@every_case("diagonal", [False, True])
def test_the_noise_as_stated_costs_as_much_in_every_direction(diagonal):
    """The change of the sum over the noise of every entry, summed over the entries that are drawn."""
    rng = np.random.default_rng(2)
    moments = described(diagonal=diagonal)
    drawn = np.eye(3) if diagonal else np.triu(np.ones((3, 3)))
    stds = 4.0 * np.where(np.eye(3) > 0, 1.0, math.sqrt(0.5))
    for _ in range(200):
        x, y = rng.standard_normal((2, 3))
        x, y = 1.5 * x / np.linalg.norm(x), 1.5 * y / np.linalg.norm(y)
        change = (np.outer(x, x) - np.outer(y, y)) * drawn / stds
        assert np.linalg.norm(change) <= moments.guarantee(DELTA).mu * (1.0 + 1e-12)
        if not diagonal:  # the same in every direction of the Frobenius norm
            frobenius = np.linalg.norm(np.outer(x, x) - np.outer(y, y))
            assert np.linalg.norm(change) == pytest.approx(frobenius / 4.0, rel=1e-12)


def test_a_multiplier_costs_what_its_noise_costs():
    """σ = 16 R², so that μ = √2/16 whatever R is."""
    for radius in (0.1, 1.5, 3e7):
        moments = described(feature_norm=radius, noise_std=None, noise_multiplier=16.0)
        assert moments.guarantee(DELTA).mu == pytest.approx(math.sqrt(2.0) / 16.0, rel=1e-15)


def test_it_is_the_only_analysis():
    (only,) = outcomes(described(), DELTA)
    assert (only.name, only.reason) == ("Gaussian mechanism", None)
    explained = described().explain(DELTA)
    assert explained.best.source.startswith("Dong, Roth, Su 2022, Thm 2.7")
    assert explained.best.composition is None


def test_noise_that_hides_nothing_costs_everything():
    guarantee = described(noise_std=5e-324, feature_norm=1e10).guarantee(DELTA)
    assert guarantee.mu == math.inf
    assert guarantee.epsilon(DELTA) == math.inf
