"""The Gaussian below a trade-off function: below it everywhere, and no larger than it has to be."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from pabi.tradeoff import (
    ApproxDP,
    Best,
    BoundedRange,
    FixedSizeSubsampled,
    Gaussian,
    Laplace,
    Mixture,
    PoissonReplaced,
    PoissonSubsampled,
    Product,
    Subsampled,
)
from pabi.tradeoff.gaussian_below import gaussian_below
from support.every_case import every

EPSILONS = np.concatenate(
    [-np.geomspace(1e-3, 12.0, 40)[::-1], [0.0], np.geomspace(1e-3, 12.0, 40)]
)
CURVES = {
    "mixture": Mixture([Gaussian(0.2), Gaussian(0.9)], [0.7, 0.3]),
    "subsampled": Subsampled(Gaussian(1.1), 0.2),
    "poisson": PoissonSubsampled(1.3, 0.1),
    "poisson, removed": PoissonSubsampled(1.3, 0.4, "remove"),
    "bounded range": BoundedRange(1.7),
    "wide range": BoundedRange(9.0),
    "pure": ApproxDP(0.8, 0.0),
    "Laplace": Laplace(1.3),
    "wide Laplace": Laplace(15.0),
    "sampled Laplace": Laplace(1.3, 0.3),
    "replaced": PoissonReplaced(0.8, 0.3),
    "displaced": FixedSizeSubsampled(0.8, 0.4, 0.5, 0.3),
    "very pure": ApproxDP(1e-4, 0.0),
    "product": Product([(BoundedRange(0.5), 3), (ApproxDP(0.3, 0.0), 2), (Gaussian(0.4), 1)]),
    "best": Best([Gaussian(0.7), Mixture([Gaussian(0.1), Gaussian(0.9)], [0.9, 0.1])]),
}


@every("name", CURVES)
def test_it_lies_below(name):
    curve, below = CURVES[name], Gaussian(gaussian_below(CURVES[name]))
    assert 0.0 < below.mu < math.inf
    # Both are upper bounds, to 12 digits; of what is composed numerically, by a thousandth of ε.
    slack = 2e-3 if isinstance(curve, Product) else 1e-12
    assert np.all(curve.delta(EPSILONS) <= below.delta(EPSILONS - slack * np.abs(EPSILONS)) + 2e-12)


@every("name", ["bounded range", "wide range", "pure", "very pure", "Laplace", "wide Laplace"])
def test_none_that_is_closer_lies_below(name):
    """The two touch at type I error = type II error."""
    curve, closer = CURVES[name], Gaussian(gaussian_below(CURVES[name]) * (1.0 - 1e-6))
    middle = 1.0 / (1.0 + math.exp(curve.epsilon_0 / (1.0 if "pure" in name else 2.0)))
    if "Laplace" in name:
        middle = 0.5 * math.exp(-0.5 * curve.epsilon_0)
    with mpmath.workdps(40):
        error = mpmath.ncdf(-mpmath.mpf(closer.mu) / 2)
    # A test with both errors `middle` exists, and G(closer) denies it.
    assert float(error) > middle


@every("name", ["mixture", "subsampled", "poisson"])
def test_in_the_tail_no_smaller_parameter_lies_below(name):
    curve, mu = CURVES[name], gaussian_below(CURVES[name])
    assert curve.delta(25.0) > Gaussian(0.9 * mu).delta(25.0)


@every("x", [1e-300, 1e-9, 0.3, 5.0, 80.0, 599.0, 601.0, 1e5])
def test_pure_privacy_in_high_precision(x):
    mu = gaussian_below(ApproxDP(x, 0.0))
    with mpmath.workdps(700):
        assert mpmath.ncdf(-mpmath.mpf(mu) / 2) <= 1 / (1 + mpmath.exp(mpmath.mpf(x)))
    rate = math.sqrt(math.pi / 8.0) * 2.0  # of μ by ε near 0
    assert mu <= 1.0001 * max(rate * x if x > 1e-6 else 1.0, 2.0 * math.sqrt(2.0 * x))


def test_sums_are_exact_and_round_up():
    one = Product([(BoundedRange(0.5), 10**6)])
    part = gaussian_below(BoundedRange(0.5))
    with mpmath.workdps(40):
        exact = mpmath.mpf(part) * 1000
        assert exact <= gaussian_below(one) <= exact * (1 + mpmath.mpf(2) ** -52)


def test_nothing_lies_below_what_may_fail():
    assert gaussian_below(ApproxDP(1.0, 1e-9)) == math.inf
    assert gaussian_below(Product([(Gaussian(1.0), 1), (BoundedRange(1.0), 1)], 1e-9)) == math.inf
    assert gaussian_below(Product([(PoissonSubsampled(math.inf, 0.1), 3)])) == math.inf
    assert gaussian_below(Best([Gaussian(2.0), ApproxDP(1.0, 1e-9)])) == 2.0
    assert gaussian_below(PoissonSubsampled(3.0, 0.0)) == gaussian_below(BoundedRange(0.0)) == 0.0
