"""Gaussians: values, rates, composition, and the one that lies below another curve."""

import math
from fractions import Fraction

import mpmath
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pabi import convert
from pabi import tradeoff as t
from pabi.numbers.rounding import root_of_fraction_up
from pabi.tradeoff.gaussian_below import gaussian_below
from support.every_case import every
from support.normal_mixtures import gaussian_tradeoff


def test_end_points():
    assert t.Gaussian(1.0)(0.0) == t.Gaussian(50.0)(0.0) == 1.0
    assert t.Gaussian(math.inf)([0.0, 0.5, 1.0]).tolist() == [0.0, 0.0, 0.0]
    for alpha in (0.1, 0.3, 1e-17, 1 - 1e-16):
        assert t.Identity()(alpha) <= 1 - mp.mpf(alpha)
        assert t.Identity()(alpha) >= 1 - mp.mpf(alpha) - mp.mpf(2) ** -53


def test_readings():
    g = t.Gaussian(1.0)
    assert g.epsilon_bounds(1e-5)[1] == g.epsilon(1e-5) == convert.gdp_to_epsilon(1.0, 1e-5)
    assert g.rdp(3.0) == convert.gdp_to_rdp(1.0, 3.0)
    assert g.zcdp == pytest.approx(0.5, rel=1e-15)
    # δ(0) = Φ(μ/2) - Φ(-μ/2) = erf(μ/√8)
    assert g.advantage == pytest.approx(math.erf(1 / math.sqrt(8)), rel=1e-15)
    for fpr in (1e-6, 0.1, 0.9):
        assert g.tpr(fpr) >= 1 - gaussian_tradeoff(1.0, fpr)
        assert g.tpr(fpr) == pytest.approx(1 - g(fpr), rel=1e-15)
    assert g.tpr([0.0, 1.0]).tolist() == [0.0, 1.0]


@every("mu", [0.1, 1.0, 4.0])
@every("prior", [0.001, 0.3, 0.5, 0.8, 0.9999])
def test_bayes_success_is_the_best_threshold(mu, prior):
    value = t.Gaussian(mu).bayes_success(prior)
    # The optimal test of N(μ,1), prior p, against N(0,1) rejects above the cut.
    p = mp.mpf(prior)
    cut = mp.log((1 - p) / p) / mu + mp.mpf(mu) / 2
    truth = (1 - p) * mp.ncdf(cut) + p * mp.ncdf(mu - cut)
    assert truth <= value <= truth + 1e-13
    # and no other threshold does better
    for other in (float(cut) - 0.1, float(cut) + 0.1):
        rate = (1 - prior) * float(mp.ncdf(other)) + prior * float(mp.ncdf(mu - other))
        assert rate <= value


def test_composition():
    assert t.Gaussian(3.0).compose(t.Gaussian(4.0)) == t.Gaussian(5.0)
    root = root_of_fraction_up(100 * Fraction(0.1) ** 2)
    assert t.Gaussian(0.1).self_compose(100) == t.Gaussian(root)
    assert t.Gaussian(2.0).self_compose(1) == t.Gaussian(2.0)
    assert t.Gaussian(2.0).self_compose(4) == t.Gaussian(4.0)
    assert t.Gaussian(math.inf).self_compose(3) == t.Gaussian(math.inf)
    assert t.Gaussian(1.0).compose(t.Gaussian(math.inf)) == t.Gaussian(math.inf)
    assert t.Identity().compose(t.Gaussian(1.5)) == t.Gaussian(1.5)
    assert t.Gaussian(1e308).compose(t.Gaussian(1.7e308)) == t.Gaussian(math.inf)
    both = t.Product([(t.Gaussian(1.0), 1), (t.ApproxDP(1.0, 1e-6), 1)])  # no closed form
    assert t.Gaussian(1.0).compose(t.ApproxDP(1.0, 1e-6)) == both
    assert t.Identity().compose(t.ApproxDP(1.0, 1e-6)) == t.ApproxDP(1.0, 1e-6)
    assert t.ApproxDP(1.0, 1e-6).compose(t.Identity()) == t.ApproxDP(1.0, 1e-6)


@given(st.floats(1e-150, 1e150), st.floats(1e-150, 1e150))
def test_composed_parameter_is_the_next_double_up(a, b):
    with mp.workdps(700):
        truth = mp.sqrt(mp.mpf(a) ** 2 + mp.mpf(b) ** 2)
        composed = t.Gaussian(a).compose(t.Gaussian(b))
        assert isinstance(composed, t.Gaussian)
        assert truth <= composed.mu
        assert math.nextafter(composed.mu, 0.0) < truth


EPSILONS = np.concatenate(
    [-np.geomspace(1e-3, 12.0, 40)[::-1], [0.0], np.geomspace(1e-3, 12.0, 40)]
)
CURVES = {
    "mixture": t.Mixture([t.Gaussian(0.2), t.Gaussian(0.9)], [0.7, 0.3]),
    "subsampled": t.Subsampled(t.Gaussian(1.1), 0.2),
    "poisson": t.PoissonSubsampled(1.3, 0.1),
    "poisson, removed": t.PoissonSubsampled(1.3, 0.4, "remove"),
    "bounded range": t.BoundedRange(1.7),
    "wide range": t.BoundedRange(9.0),
    "pure": t.ApproxDP(0.8, 0.0),
    "Laplace": t.Laplace(1.3),
    "wide Laplace": t.Laplace(15.0),
    "sampled Laplace": t.Laplace(1.3, 0.3),
    "replaced": t.PoissonReplaced(0.8, 0.3),
    "displaced": t.FixedSizeSubsampled(0.8, 0.4, 0.5, 0.3),
    "very pure": t.ApproxDP(1e-4, 0.0),
    "product": t.Product(
        [(t.BoundedRange(0.5), 3), (t.ApproxDP(0.3, 0.0), 2), (t.Gaussian(0.4), 1)]
    ),
    "best": t.Best([t.Gaussian(0.7), t.Mixture([t.Gaussian(0.1), t.Gaussian(0.9)], [0.9, 0.1])]),
}


@every("name", CURVES)
def test_it_lies_below(name):
    curve, below = CURVES[name], t.Gaussian(gaussian_below(CURVES[name]))
    assert 0.0 < below.mu < math.inf
    # Both are upper bounds, to 12 digits; of what is composed numerically, by a thousandth of ε.
    slack = 2e-3 if isinstance(curve, t.Product) else 1e-12
    assert np.all(curve.delta(EPSILONS) <= below.delta(EPSILONS - slack * np.abs(EPSILONS)) + 2e-12)


@every("name", ["bounded range", "wide range", "pure", "very pure", "Laplace", "wide Laplace"])
def test_none_that_is_closer_lies_below(name):
    """The two touch at type I error = type II error."""
    curve, closer = CURVES[name], t.Gaussian(gaussian_below(CURVES[name]) * (1.0 - 1e-6))
    middle = 1.0 / (1.0 + math.exp(curve.epsilon_0 / (1.0 if "pure" in name else 2.0)))
    if "Laplace" in name:
        middle = 0.5 * math.exp(-0.5 * curve.epsilon_0)
    error = mpmath.ncdf(-mpmath.mpf(closer.mu) / 2)
    # A test with both errors `middle` exists, and G(closer) denies it.
    assert float(error) > middle


@every("name", ["mixture", "subsampled", "poisson"])
def test_in_the_tail_no_smaller_parameter_lies_below(name):
    curve, mu = CURVES[name], gaussian_below(CURVES[name])
    assert curve.delta(25.0) > t.Gaussian(0.9 * mu).delta(25.0)


@every("x", [1e-300, 1e-9, 0.3, 5.0, 80.0, 599.0, 601.0, 1e5])
def test_pure_privacy_in_high_precision(x):
    mu = gaussian_below(t.ApproxDP(x, 0.0))
    with mpmath.workdps(700):
        assert mpmath.ncdf(-mpmath.mpf(mu) / 2) <= 1 / (1 + mpmath.exp(mpmath.mpf(x)))
    rate = math.sqrt(math.pi / 8.0) * 2.0  # of μ by ε near 0
    assert mu <= 1.0001 * max(rate * x if x > 1e-6 else 1.0, 2.0 * math.sqrt(2.0 * x))


def test_sums_are_exact_and_round_up():
    one = t.Product([(t.BoundedRange(0.5), 10**6)])
    part = gaussian_below(t.BoundedRange(0.5))
    exact = mpmath.mpf(part) * 1000
    assert exact <= gaussian_below(one) <= exact * (1 + mpmath.mpf(2) ** -52)


def test_nothing_lies_below_what_may_fail():
    assert gaussian_below(t.ApproxDP(1.0, 1e-9)) == math.inf
    assert (
        gaussian_below(t.Product([(t.Gaussian(1.0), 1), (t.BoundedRange(1.0), 1)], 1e-9))
        == math.inf
    )
    assert gaussian_below(t.Product([(t.PoissonSubsampled(math.inf, 0.1), 3)])) == math.inf
    assert gaussian_below(t.Best([t.Gaussian(2.0), t.ApproxDP(1.0, 1e-9)])) == 2.0
    assert (
        gaussian_below(t.PoissonSubsampled(3.0, 0.0)) == gaussian_below(t.BoundedRange(0.0)) == 0.0
    )


@every("mu", [0.1, 0.5, 1.5, 3.0, 20.0])
def test_arrays_read_far_tails_as_numbers_do(mu):
    """Which are proven: where ε/μ − μ/2 is 9 to 30."""
    curve, epsilon = t.Gaussian(mu), mu * (0.5 * mu + np.array([9.0, 11.0, 14.0, 20.0, 30.0]))
    proven = np.array([curve.delta(e) for e in epsilon.tolist()])
    assert np.all(proven * (1.0 - 1e-12) <= curve.delta(epsilon))
    assert np.all(curve.delta(epsilon) <= proven * (1.0 + 1e-12))
