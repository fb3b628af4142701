"""What the checker makes of products where moments or relative errors of ε say little."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import pytest
from mpmath import mpf

from pabi.tradeoff import Gaussian, Product, Subsampled
from pabi.verification.products import Refined, Sampled, epsilons


def truth(parts, delta):
    """The ε at which Σ w·δ(ε) of the parts is `delta`, in 30 digits."""

    def excess(epsilon):
        total = mpf(0)
        for weight, mu in parts:
            near, far = mpf(mu) / 2 - epsilon / mu, -mpf(mu) / 2 - epsilon / mu
            total += mpf(weight) * (mp.ncdf(near) - mp.exp(epsilon) * mp.ncdf(far))
        return mp.log(total / mpf(delta))

    with mp.workdps(40):
        return float(mp.findroot(excess, (1e-3, 300.0), solver="bisect", tol=1e-12))


def test_a_small_epsilon_at_a_large_delta():
    """At δ just below δ(0) an error of δ, however small, is a large part of ε: finer grids are tried."""
    factors = [Sampled("subsampled", Fraction(5, 11), 0.0320847165402357, 3)]
    stated = Product([(Subsampled(Gaussian(0.0320847165402357), 5 / 11), 3)]).epsilon(0.01)
    assert 0.0 < stated < 3e-4
    found = Refined(epsilons([], factors, 0.01), 0.01).least(1.004 * stated)
    assert stated * (1 - 1e-3) <= found <= 1.004 * stated


@pytest.mark.parametrize("rare", [0.0, 1e-24, 1e-19, 1e-14, 1e-10])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_mixtures_in_which_rare_outcomes_reveal_much(rare, delta):
    """Bounds by moments are far too large there."""
    parts = [(0.6, 1.5), (0.4 - 2.0**-20 - rare, 3.0), (2.0**-20, 6.0), (rare, 20.0)]
    exact = truth(parts, delta)
    stated = [(Fraction(weight), mu) for weight, mu in parts]
    found = Refined(epsilons(stated, [], delta), delta).least(0.0)
    assert exact * (1 - 1e-9) <= found <= exact * 1.001
