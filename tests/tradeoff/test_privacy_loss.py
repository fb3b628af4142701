"""Privacy-loss distributions against exact cases, and against the curves they are made from."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from pabi.tradeoff import (
    ApproxDP,
    BoundedRange,
    Gaussian,
    PoissonSubsampled,
    PrivacyLossDistribution,
    Product,
    Subsampled,
)
from support.every_case import every

CURVES = [
    Gaussian(0.7),
    Gaussian(5.0),
    Subsampled(Gaussian(1.0), 0.1),
    PoissonSubsampled(1.0, 0.1, "remove"),
    PoissonSubsampled(1.0, 0.1, "add"),
    PoissonSubsampled(0.4, 0.5),
    ApproxDP(1.0, 1e-3),
    BoundedRange(2.0),
]


def exact_delta(p, q, epsilon):
    level = Fraction(math.exp(epsilon))
    return float(
        sum(max(Fraction(0), Fraction(a) - level * Fraction(b)) for a, b in zip(p, q, strict=True))
    )


def distributions(size):
    weights = st.lists(st.integers(0, 40), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: [x / sum(w) for x in w])


PAIRS = st.integers(2, 7).flatmap(lambda n: st.tuples(distributions(n), distributions(n)))


@given(PAIRS, st.floats(-3.0, 3.0))
def test_delta_is_the_hockey_stick_divergence(pair, epsilon):
    p, q = pair
    forward, backward = exact_delta(p, q, epsilon), exact_delta(q, p, epsilon)
    for direction, truth in (
        ("remove", forward),
        ("add", backward),
        ("both", max(forward, backward)),
    ):
        found = PrivacyLossDistribution(p, q, direction).delta(epsilon)
        assert truth * (1 - 1e-15) <= found <= truth + 1e-13


@given(PAIRS, st.floats(1e-6, 0.9))
def test_epsilon_is_the_least_at_delta(pair, delta):
    curve = PrivacyLossDistribution(*pair, "remove")
    low, high = curve.epsilon_bounds(delta)
    if high == math.inf:
        assert curve.infinity_mass > delta
    else:
        p, q = list(curve.p), list(curve.q)
        assert exact_delta(p, q, high) <= delta * (1 + 1e-12)
        assert high - low <= 1e-12 * (1 + high)
        if low > 0.0:
            assert exact_delta(p, q, low * (1 - 1e-9)) >= delta * (1 - 1e-12)


def test_losses_of_rare_outcomes_keep_their_largest():
    """Logarithms of 1e-232 differ by less than their spacing."""
    p, q = 6.55835062107123e-232, 6.558350621079268e-232
    curve = PrivacyLossDistribution([p, 1.0 - p], [q, 1.0 - q], "add")
    most = Fraction(q) / Fraction(p) - 1  # log(1 + x) > x - x²/2
    least = most - most**2 / 2
    assert Fraction(curve.epsilon(0.0)) >= least
    assert Fraction(Product([(curve, 2)]).epsilon(0.0)) >= 2 * least
    # Of order 1e40 the divergence is the largest loss.
    assert Fraction(curve.zcdp) * 10**40 >= least


def test_directions_of_an_asymmetric_pair_are_composed_by_themselves():
    p, q = [0.5, 0.3, 0.2], [0.4, 0.6, 0.0]
    both = PrivacyLossDistribution(p, q).self_compose(3)
    single = [PrivacyLossDistribution(p, q, d).self_compose(3) for d in ("remove", "add")]
    assert both.delta(0.2) == pytest.approx(max(c.delta(0.2) for c in single), rel=1e-3)
    assert single[0].delta(0.2) != pytest.approx(single[1].delta(0.2), rel=0.05)


def test_the_inverse_exchanges_the_distributions():
    p, q = [0.5, 0.3, 0.2], [0.4, 0.55, 0.05]
    swapped = PrivacyLossDistribution(q, p, "remove")
    inverse = PrivacyLossDistribution(p, q, "remove").inverse()
    alphas = np.linspace(0.0, 1.0, 21)
    np.testing.assert_allclose(inverse(alphas), swapped(alphas), atol=1e-13)
    # f(f^-1(x)) = x where f is continuous and falls
    forward = PrivacyLossDistribution(p, q, "remove")
    np.testing.assert_allclose(forward(inverse(alphas)), alphas, atol=1e-12)


def one_direction(curve, epsilon):
    """δ of O_p or its inverse, by the threshold of the likelihood ratio 1 - p + p·e^(μz - μ²/2)."""
    mu, p = curve.mu, curve.probability
    sign = 1.0 if curve.direction == "remove" else -1.0
    level = (math.expm1(sign * epsilon) + p) / p
    if level <= 0.0:  # all z are on one side
        return -math.expm1(epsilon) if epsilon < 0.0 else 0.0
    z = math.log(level) / mu + mu / 2
    drawn = p * ndtr(sign * (mu - z)) + (1 - p) * ndtr(-sign * z)
    plain = ndtr(-sign * z)
    first, second = (drawn, plain) if curve.direction == "remove" else (plain, drawn)
    return float(first - math.exp(epsilon) * second)


@every("curve", CURVES)
@every("step", [0.2, 0.01])
def test_discretisations_enclose_the_curve(curve, step):
    above = PrivacyLossDistribution.pessimistic(curve, step)
    below = PrivacyLossDistribution.optimistic(curve, step)
    for epsilon in (-1.0, -0.013, 0.0, 0.1, 0.777, 2.0, 5.0):
        upper, lower = above.delta(epsilon), below.delta(epsilon)
        single = isinstance(curve, PoissonSubsampled) and curve.direction != "both"
        value = one_direction(curve, epsilon) if single else curve.delta(epsilon)
        assert upper >= value * (1 - 1e-9) - 1e-12
        assert lower <= value * (1 + 1e-12) + 1e-12
        assert upper - lower <= 2.0 * step * max(step, 1e-3) + 1e-3 * step


def test_finer_grids_err_quadratically_less():
    curve = Subsampled(Gaussian(1.0), 0.2)
    gaps = [
        PrivacyLossDistribution.pessimistic(curve, step).delta(0.5373)
        - PrivacyLossDistribution.optimistic(curve, step).delta(0.5373)
        for step in (0.1, 0.01, 0.001)
    ]
    assert gaps[1] < gaps[0] / 30
    assert gaps[2] < gaps[1] / 30


def test_composing_a_discretisation_bounds_the_composition():
    curve = Subsampled(Gaussian(0.8), 0.05)
    truth_low, truth_high = curve.self_compose(200).epsilon_bounds(1e-6, 1e-4)
    above = PrivacyLossDistribution.pessimistic(curve, 2e-3, 1e-14).self_compose(200)
    below = PrivacyLossDistribution.optimistic(curve, 2e-3, 1e-14).self_compose(200)
    assert truth_low <= above.epsilon(1e-6) <= truth_high * 1.02
    assert below.epsilon_bounds(1e-6)[0] <= truth_high
