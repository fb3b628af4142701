"""Releases that are near exact ones: what is read of them is no less than their trade-off function says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from pabi import tradeoff as t
from pabi.tradeoff.gaussian_below import gaussian_below
from pabi.tradeoff.product import rounded
from support.every_case import every, refused

MIXTURE = t.average([0.5, 1.0, 2.0], [0.25, 0.25, 0.5])
DRAWN = t.Product([(t.PoissonSubsampled(1.0, 0.1), 20)])


def own_function(curve):
    """f: in closed form, or by lower bounds on δ at a fine grid, which is off by less than 5e-4."""
    if curve is MIXTURE:
        return curve
    epsilons = np.linspace(-7.0, 7.0, 351)
    deltas = np.array([curve.delta_bounds(e)[0] for e in epsilons])
    return lambda a: np.max(1.0 - deltas - np.exp(epsilons) * np.asarray(a)[:, None], axis=1)


def widened(function, r, a):
    """The definition: Φ(Φ⁻¹(f(Φ(Φ⁻¹(a) + r))) − r)."""
    return ndtr(ndtri(np.maximum(function(ndtr(ndtri(a) + r)), 0.0)) - r)


@every("mu", [0.0, 0.3, 7.0])
@every("r", [1e-300, 1e-8, 0.25, 1.0])
def test_a_gaussian_stays_one(mu, r):
    exact = Fraction(mu) + 2 * Fraction(r)
    curve = rounded(t.Gaussian(mu), r)
    assert exact <= Fraction(curve.mu) <= exact * (1 + Fraction(1, 2**52))
    assert t.Product([(t.Gaussian(mu), 1)], rounding=r).factors == ((curve, 1),)
    assert rounded(curve, 0.0) is curve
    best = rounded(t.Best([t.Gaussian(mu), MIXTURE]), r)
    assert set(best.parts) == {curve, rounded(MIXTURE, r)}


@pytest.mark.parametrize(("curve", "error"), [(MIXTURE, 1e-9), (DRAWN, 5e-4)])
def test_no_reading_is_below_the_definition(curve, error):
    function = own_function(curve)
    a = np.concatenate([np.logspace(-12, -1, 500), np.linspace(0.1, 1.0, 500)])
    for r in (1e-3, 0.05, 0.5):
        computed, least = rounded(curve, r), widened(function, r, a)
        for epsilon in (-1.0, 0.0, 0.5, 2.0, 6.0):
            delta = float(np.max(1.0 - least - math.exp(epsilon) * a))
            assert computed.delta(epsilon) >= delta - error
            if delta > 2.0 * error:
                assert computed.epsilon(delta - error) >= epsilon
        assert np.all(computed(a) <= least + error)
        assert np.all(computed(a) >= least - 20.0 * error - 1e-6)
        low, high = computed.epsilon_bounds(1e-6)
        assert curve.epsilon_bounds(1e-6)[0] <= low <= high
        for order in (1.5, 8.0):
            assert curve.rdp(order) < computed.rdp(order) <= computed.zcdp * order * (1 + 1e-12)
    grid = np.array([-math.inf, -1.0, 0.0, 3.0, 40.0, 700.0, math.inf])
    one_by_one = [computed.delta(e) for e in grid.tolist()]
    np.testing.assert_allclose(computed.delta(grid), one_by_one, rtol=1e-3, atol=1e-12)


@every("mu", [0.1, 1.0, 3.0])
@every("r", [1e-8, 0.1, 1.0])
def test_divergences_are_at_least_those_of_gaussians(mu, r):
    """Of a mixture with a part that has nearly no weight the truth is G(μ + 2r)."""
    curve = rounded(t.average([mu, mu * (1 - 1e-9)], [0.5, 0.5]), r)
    exact = (mu * (1 - 1e-9) + 2 * r) ** 2 / 2
    assert curve.zcdp >= exact
    for order in (1.01, 2.0, 64.0):
        assert curve.rdp(order) >= exact * order
    assert gaussian_below(curve) >= mu * (1 - 1e-9) + 2 * r


@every(
    "curve", [t.average([0.1, 0.2], [0.5, 0.5]), t.Product([(t.PoissonSubsampled(0.5, 0.05), 30)])]
)
def test_little_rounding_changes_little(curve):
    """ε of about 1 at δ = 1e-6, by less than a millionth."""
    before, after = curve.epsilon(1e-6), rounded(curve, 1e-8).epsilon(1e-6)
    assert 0.3 < before < 3.0
    assert before < after < before * (1 + 1e-6)


def test_releases_add_their_squares():
    one, two = rounded(MIXTURE, 0.03), rounded(DRAWN, 0.04)
    both = one.compose(two)
    assert both.rounding == pytest.approx(0.05, rel=1e-15)
    assert Fraction(both.rounding) ** 2 >= Fraction(0.03) ** 2 + Fraction(0.04) ** 2
    assert Fraction(two.self_compose(9).rounding) >= 3 * Fraction(0.04)
    assert two.self_compose(9).rounding == pytest.approx(0.12, rel=1e-15)
    # Mixtures stay one, whatever comes beside them.
    ((mixture, count),) = one.compose(one).compose(t.Gaussian(1.0)).factors
    assert (type(mixture), count) == (t.Mixture, 1)
    # What is widened once more is widened by the sum.
    assert t.Product([(one, 1)], rounding=0.01).rounding == pytest.approx(0.04, rel=1e-15)
    assert both.epsilon(1e-6) > MIXTURE.compose(DRAWN).epsilon(1e-6)


def test_what_may_fail_and_is_rounded():
    """A failure of the exact release counts for more of the computed one, one beside it for no more."""
    inside = rounded(t.Product([(MIXTURE, 1)], 1e-6), 0.05)
    outside = t.Product([(rounded(MIXTURE, 0.05), 1)], 1e-6)
    assert outside.failure == 1e-6
    assert inside.failure >= ndtr(ndtri(1e-6) + 0.05)
    assert inside.failure <= inside.delta(math.inf) <= inside.failure * (1 + 1e-15)
    assert rounded(MIXTURE, 0.05).delta(math.inf) == 0.0
    assert inside.epsilon(inside.failure) == math.inf
    assert inside.rdp(2.0) == inside.zcdp == math.inf


@every("curve", [rounded(MIXTURE, 1e-8), rounded(t.Product([(MIXTURE, 1)], 1e-6), 0.5)])
def test_files(curve):
    stated = curve.to_dict()
    assert t.TradeOff.from_dict(stated) == curve
    assert f"rounded by {curve.rounding:.3g}"[:12] in str(curve)
    assert "rounding" not in t.Product([(MIXTURE, 1)]).to_dict()
    refused("rounding", t.TradeOff.from_dict, stated | {"rounding": -1.0})
    refused("rounding", rounded, MIXTURE, 1.5)


def test_groups_of_computed_releases_cost_more_than_of_exact_ones():
    assert t.grouped(rounded(MIXTURE, 1e-3), 3).epsilon(1e-6) > t.grouped(MIXTURE, 3).epsilon(1e-6)
