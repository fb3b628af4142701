"""Finitely many outcomes — (ε, δ)-DP, answers, listed distributions — one by one, in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from pabi import tradeoff as t
from support.every_case import every
from support.normal_mixtures import PLAIN, drawn, hockey_stick, turned


def test_end_points_and_limits():
    assert t.ApproxDP(1.0)(0.0) == 1.0
    assert t.ApproxDP(1.0)(1.0) == 0.0
    assert 0.9 - 1e-15 <= t.ApproxDP(1.0, 0.1)(0.0) <= 0.9
    assert t.ApproxDP(0.0).advantage == 0.0
    assert t.ApproxDP(math.inf)([0.0, 0.5]).tolist() == [0.0, 0.0]
    assert t.ApproxDP(math.inf).epsilon(0.5) == math.inf
    assert t.ApproxDP(math.inf).delta(100.0) == 1.0
    assert t.ApproxDP(1e4).delta(0.0) == 1.0
    assert t.ApproxDP(1e4, 0.0)(0.5) == 0.0
    assert t.ApproxDP(2.0, 1e-6).epsilon(0.0) == math.inf
    assert t.ApproxDP(2.0).epsilon(0.0) == 2.0
    assert t.ApproxDP(2.0, 0.3).epsilon(1.0) == 0.0
    assert t.ApproxDP(2.0, 1e-9).rdp(1.5) == t.ApproxDP(2.0, 1e-9).zcdp == math.inf
    # advantage of randomised response: tanh(ε/2)
    assert t.ApproxDP(2.0).advantage == pytest.approx(math.tanh(1.0), rel=1e-15)


def test_composition():
    assert t.ApproxDP(0.0, 0.5).compose(t.ApproxDP(1.0, 0.5)) == t.ApproxDP(1.0, 0.75)
    assert t.ApproxDP(2.0).compose(t.ApproxDP(0.0)) == t.ApproxDP(2.0)
    assert t.ApproxDP(0.0, 0.5).self_compose(3) == t.ApproxDP(0.0, 0.875)
    twice = t.Product([(t.ApproxDP(1.0), 2)])  # no closed form
    assert t.ApproxDP(1.0).compose(t.ApproxDP(1.0)) == t.ApproxDP(1.0).self_compose(2) == twice


AT = (-0.5, 0.0, 0.1, 0.5, 1.0, 2.0)


def exact_delta(p, q, e):
    """Of all outcomes one by one."""
    laws = ([mp.mpf(x.numerator) / x.denominator for x in map(Fraction, law)] for law in (p, q))
    level = mp.exp(mp.mpf(e))
    return float(mp.fsum(max(mp.mpf(0), a - level * b) for a, b in zip(*laws, strict=True)))


def worse_delta(p, q, e):
    return max(exact_delta(p, q, e), exact_delta(q, p, e))


def answers(noise, k, true):
    """The probability of every answer; without a true one they are alike."""
    if true is None:
        return [Fraction(1, k)] * k
    return [noise / k + (1 - noise if i == true else 0) for i in range(k)]


@every("noise", [0.001, 0.25, 0.75, 0.999])
@every("k", [2, 3, 17])
@every("blank", [False, True])
def test_an_answer_reveals_what_its_probabilities_say(noise, k, blank):
    curve = t.randomised_response(noise, k, blank=blank)
    first = answers(Fraction(noise), k, 0)
    second = answers(Fraction(noise), k, None if blank else 1)
    for e in AT:
        truth = worse_delta(first, second, e)
        assert truth <= curve.delta(e) <= truth + 1e-13
    largest = max(abs(math.log(a / b)) for a, b in zip(first, second, strict=True))
    assert curve.epsilon(0.0) == pytest.approx(largest, rel=1e-12)


def test_at_the_ends_an_answer_says_nothing_or_everything():
    assert t.randomised_response(0.3, 1) == t.randomised_response(1.0, 5) == t.Gaussian(0.0)
    assert t.randomised_response(0.0, 4) == t.Gaussian(math.inf)
    # A blank record's answer may be any, the true one among them.
    assert t.randomised_response(0.0, 4, blank=True).delta(0.0) == pytest.approx(0.75)


@every("a, steps", [(0.5, 1), (0.5, 2), (0.01, 30), (3.0, 4), (20.0, 30)])
def test_discrete_noise_reveals_what_its_probabilities_say(a, steps):
    curve = t.discrete_laplace(a, steps)
    far = int(120 / a) + steps
    masses, decay = [mp.tanh(mp.mpf(a) / 2)], mp.exp(-mp.mpf(a))
    for _ in range(far + steps):
        masses.append(masses[-1] * decay)

    def probability(x):
        return masses[abs(x)]

    for e in (0.0, 0.3 * a * steps, 0.9 * a * steps):
        level = mp.exp(mp.mpf(e))
        truth = mp.fsum(
            max(mp.mpf(0), probability(x) - level * probability(x - steps))
            for x in range(-far, far)
        )
        assert float(truth) * (1.0 - 1e-15) <= curve.delta(e) <= float(truth) + 1e-13
    assert curve.epsilon(0.0) == pytest.approx(a * steps, rel=1e-12)


@every("blank", [None, False, True])
def test_products_are_sums_over_all_outcomes(blank):
    curve = (
        t.discrete_laplace(0.3, 4) if blank is None else t.randomised_response(0.4, 5, blank=blank)
    )
    first, second = ([a * b for a in p for b in p] for p in (curve.p, curve.q))
    for e in (0.1, 0.7):
        truth = worse_delta(first, second, e)
        low, high = t.Product([(curve, 2)]).delta_bounds(e, 1e-4)
        assert low * (1.0 - 1e-9) <= truth <= high * (1.0 + 1e-9)
        assert high == pytest.approx(truth, rel=2e-3)


POISSON = [t.PoissonSubsampled(1.0, 0.1, way) for way in ("remove", "add")]
CURVES = [t.Gaussian(0.7), t.Gaussian(5.0), t.Subsampled(t.Gaussian(1.0), 0.1), *POISSON]
CURVES += [t.PoissonSubsampled(0.4, 0.5), t.ApproxDP(1.0, 1e-3), t.BoundedRange(2.0)]


def distributions(size):
    weights = st.lists(st.integers(0, 40), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: [x / sum(w) for x in w])


PAIRS = st.integers(2, 7).flatmap(lambda n: st.tuples(distributions(n), distributions(n)))


@given(PAIRS, st.floats(-3.0, 3.0))
def test_delta_of_a_list_is_the_hockey_stick_divergence(pair, epsilon):
    p, q = pair
    forward, backward = exact_delta(p, q, epsilon), exact_delta(q, p, epsilon)
    truths = {"remove": forward, "add": backward, "both": max(forward, backward)}
    for direction, truth in truths.items():
        found = t.PrivacyLossDistribution(p, q, direction).delta(epsilon)
        assert truth * (1 - 1e-15) <= found <= truth + 1e-13


@given(PAIRS, st.floats(1e-6, 0.9))
def test_epsilon_is_the_least_at_delta(pair, delta):
    curve = t.PrivacyLossDistribution(*pair, "remove")
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
    curve = t.PrivacyLossDistribution([p, 1.0 - p], [q, 1.0 - q], "add")
    most = Fraction(q) / Fraction(p) - 1  # log(1 + x) > x - x²/2
    least = most - most**2 / 2
    assert Fraction(curve.epsilon(0.0)) >= least
    assert Fraction(t.Product([(curve, 2)]).epsilon(0.0)) >= 2 * least
    # Of order 1e40 the divergence is the largest loss.
    assert Fraction(curve.zcdp) * 10**40 >= least


def test_directions_of_an_asymmetric_pair_are_composed_by_themselves():
    p, q = [0.5, 0.3, 0.2], [0.4, 0.6, 0.0]
    both = t.PrivacyLossDistribution(p, q).self_compose(3)
    single = [t.PrivacyLossDistribution(p, q, d).self_compose(3) for d in ("remove", "add")]
    assert both.delta(0.2) == pytest.approx(max(c.delta(0.2) for c in single), rel=1e-3)
    assert single[0].delta(0.2) != pytest.approx(single[1].delta(0.2), rel=0.05)


def test_the_inverse_exchanges_the_distributions():
    p, q = [0.5, 0.3, 0.2], [0.4, 0.55, 0.05]
    swapped = t.PrivacyLossDistribution(q, p, "remove")
    inverse = t.PrivacyLossDistribution(p, q, "remove").inverse()
    alphas = np.linspace(0.0, 1.0, 21)
    np.testing.assert_allclose(inverse(alphas), swapped(alphas), atol=1e-13)
    # f(f^-1(x)) = x where f is continuous and falls
    forward = t.PrivacyLossDistribution(p, q, "remove")
    np.testing.assert_allclose(forward(inverse(alphas)), alphas, atol=1e-12)


@every("curve", CURVES)
@every("step", [0.2, 0.01])
def test_discretisations_enclose_the_curve(curve, step):
    above = t.PrivacyLossDistribution.pessimistic(curve, step)
    below = t.PrivacyLossDistribution.optimistic(curve, step)
    for epsilon in (-1.0, -0.013, 0.0, 0.1, 0.777, 2.0, 5.0):
        upper, lower = above.delta(epsilon), below.delta(epsilon)
        value = curve.delta(epsilon)
        if curve.kind == "poisson_subsampled" and curve.direction != "both":
            truth = hockey_stick(drawn(curve.probability, curve.mu), PLAIN)
            value = float((truth if curve.direction == "remove" else turned(truth))(epsilon))
        assert upper >= value * (1 - 1e-9) - 1e-12
        assert lower <= value * (1 + 1e-12) + 1e-12
        assert upper - lower <= 2.0 * step * max(step, 1e-3) + 1e-3 * step


def test_composing_a_discretisation_bounds_the_composition():
    curve = t.Subsampled(t.Gaussian(0.8), 0.05)
    truth_low, truth_high = curve.self_compose(200).epsilon_bounds(1e-6, 1e-4)
    above = t.PrivacyLossDistribution.pessimistic(curve, 2e-3, 1e-14).self_compose(200)
    below = t.PrivacyLossDistribution.optimistic(curve, 2e-3, 1e-14).self_compose(200)
    assert truth_low <= above.epsilon(1e-6) <= truth_high * 1.02
    assert below.epsilon_bounds(1e-6)[0] <= truth_high
