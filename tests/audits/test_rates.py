"""Confidence bounds against scipy's, and how often they fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from pabi.audits import laws
from pabi.audits.laws import Aims, Choice, Point, pair_of_sums
from pabi.convert import gdp_to_delta, gdp_to_epsilon
from pabi.tradeoff import Gaussian, Mixture
from support.every_case import every


@every(("count", "trials"), [(0, 10), (3, 10), (10, 10), (17, 5_000)])
@every("error", [0.05, 1e-6])
def test_bounds_are_those_of_clopper_and_pearson(count, trials, error):
    test = binomtest(count, trials, alternative="less")
    interval = test.proportion_ci(1.0 - error, method="exact")
    assert float(laws.above(count, trials, error)) == pytest.approx(interval.high, rel=1e-7)


@every("p", [0.001, 0.1, 0.5])
def test_a_bound_is_too_small_no_more_often_than_it_says(p):
    """Summed over all counts, not simulated."""
    counts = np.arange(401)
    wrong = laws.above(counts, 400, 0.05) < p
    assert binom.pmf(counts[wrong], 400, p).sum() <= 0.05


def point(fpr, fnr):
    return Point(0.0, 0, 0, fpr, fnr)


def test_epsilon_of_a_point():
    """TPR ≤ e^ε·FPR + δ, and the same of the opposite test in the other order."""
    assert laws.epsilon([point(0.01, 0.5)], 0.1) == pytest.approx(np.log(0.4 / 0.01))
    assert laws.epsilon([point(0.5, 0.01)], 0.1) == pytest.approx(np.log(0.4 / 0.01))
    assert laws.epsilon([point(0.5, 0.5), point(1.0, 1.0)], 0.1) == 0.0


def test_mu_of_a_point():
    assert laws.mu([point(norm.sf(1.0), norm.cdf(-0.5))]) == pytest.approx(1.5)
    assert laws.mu([point(1.0, 0.0), point(0.6, 0.6)]) == 0.0


def test_a_curve_is_refuted_by_points_below_it_alone():
    curve = Gaussian(1.0)
    on = float(curve(0.2))
    assert laws.refutes([point(0.2, 0.999 * on)], curve)
    assert not laws.refutes([point(0.2, 1.001 * on)], curve)
    assert laws.refutes([point(0.999 * on, 0.2)], curve)


def test_a_curve_that_is_no_gaussian_is_not_refuted_through_mu():
    """One in ten moves far: the point is beyond every Gaussian of the curve's mean μ, and on the curve."""
    curve = Mixture([Gaussian(0.0), Gaussian(4.0)], [0.9, 0.1])
    on = float(curve(0.01))
    assert laws.mu([point(0.01, on)]) > 0.4
    assert not laws.refutes([point(0.01, on)], curve)
    assert laws.refutes([point(0.01, 0.99 * on)], curve)


TRUTH = pair_of_sums([Choice(np.ones(1), np.array([1.0]))], [Choice(np.ones(1), np.zeros(1))], 1.0)


def audits(count, trials, confidence, seed):
    """Points of simulated audits of two Gaussians at distance 1."""
    rng = np.random.default_rng(seed)
    aims = Aims((1e-5, 0.02), Gaussian(1.0), trials, confidence)
    thresholds = aims.thresholds(*TRUTH.rates)
    for _ in range(count):
        null, other = rng.normal(size=trials), 1.0 + rng.normal(size=trials)
        scores = TRUTH.scores(null), TRUTH.scores(other)
        yield laws.counted(*scores, thresholds, confidence)


def test_bounds_exceed_the_truth_as_rarely_as_they_say():
    """1 000 audits at confidence 0.8: more than 248 wrong ones have a probability below 1e-4."""
    truth = gdp_to_epsilon(1.0, 1e-5), gdp_to_epsilon(1.0, 0.02)
    wrong = sum(
        laws.epsilon(points, 1e-5) > truth[0]
        or laws.epsilon(points, 0.02) > truth[1]
        or laws.mu(points) > 1.0
        or laws.refutes(points, Gaussian(1.0))
        for points in audits(1_000, 2_000, 0.8, 1)
    )
    assert binom.sf(248, 1_000, 0.2) < 1e-4
    assert wrong <= 248


def test_thresholds_of_equal_laws_refute_nothing():
    scores = np.random.default_rng(0).normal(size=(2, 1_000))
    aims = Aims((1e-5,), Gaussian(0.1), 1_000, 0.999999)
    points = laws.counted(*scores, aims.thresholds(*laws.guessed(*scores)), 0.999999)
    assert laws.epsilon(points, 0.0) < 0.5
    assert not laws.refutes(points, Gaussian(0.1))


def test_guessed_rates_count_scores_at_the_threshold_as_alarms():
    thresholds, fpr, fnr = laws.guessed(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    assert thresholds.tolist() == [0.0, 1.0, 2.0]
    assert fpr.tolist() == [1.0, 0.5, 0.0]
    assert fnr.tolist() == [0.0, 0.0, 0.5]
