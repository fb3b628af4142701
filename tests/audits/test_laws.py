"""The laws of instances against closed forms, mixtures and walks that are computed elsewhere."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

import pabi
from pabi import tradeoff
from pabi.audits import laws
from pabi.audits.auditing import worst
from pabi.audits.instance import Instance
from pabi.audits.instances import instances
from pabi.audits.laws import Aims, Choice, Point, pair_of_sums
from pabi.audits.walks import AffineStep, WalledWalk, pair_between_walls
from pabi.convert import gdp_to_delta, gdp_to_epsilon
from pabi.tradeoff import Gaussian
from support.every_case import every
from support.falsification import random_batches
from support.falsification.mixtures import Mixture, hockey_sticks

from .trained import named, orders, statistics

EPSILONS = np.array([0.0, 0.3, 1.0, 2.5])
CELLS = 2e-5  # what cells of a two-hundredth of a standard deviation lose, of the second order


def one(value):
    return [Choice(np.ones(1), np.array([value]))]


def deltas(pair, epsilons=EPSILONS):
    return np.array([[way.delta(e) for e in epsilons] for way in (pair, pair.swapped())])


@every("mu", [0.01, 0.5, 2.0, 8.0, 25.0])
def test_two_gaussians(mu):
    pair = pair_of_sums(one(0.0), one(3.0 * mu), 3.0)
    epsilons = np.array([0.0, 0.5 * mu, 0.5 * mu * mu])
    truth = np.array([gdp_to_delta(mu, e) for e in epsilons])
    computed = deltas(pair, epsilons)
    assert (computed <= truth * (1.0 + 1e-9) + 1e-13).all()
    assert (computed >= truth * (1.0 - 1e-4) - 1e-13).all()
    assert 0.999 * mu - 1e-4 < pair.mu <= mu * (1.0 + 1e-9)


def test_epsilon_is_the_inverse_of_delta():
    pair = pair_of_sums(one(0.0), one(2.0), 1.0)
    for delta in (1e-8, 1e-5, 1e-2):
        epsilon = pair.epsilon(delta)
        assert pair.delta(epsilon - 1e-6) > delta >= pair.delta(epsilon + 1e-6)
        assert gdp_to_delta(2.0, epsilon) == pytest.approx(delta, rel=1e-3)
    assert pair.epsilon(0.9) == 0.0


def mixture(choices, std):
    """All sums of the choices, one component each."""
    weights, means = np.ones(1), np.zeros(1)
    for choice in choices:
        weights = np.outer(weights, choice.weights).ravel()
        means = np.add.outer(means, choice.values).ravel()
    return Mixture(weights, means, np.full(len(means), std))


@pytest.mark.parametrize("few", [512, 0], ids=["summed", "transformed"])
@pytest.mark.parametrize("seed", range(6))
def test_sums_of_choices_are_mixtures(monkeypatch, few, seed):
    monkeypatch.setattr(laws, "_FEW", few)
    rng = np.random.default_rng(seed)
    std = float(rng.uniform(0.2, 2.0))
    both = []
    for _ in range(2):
        choices = []
        for _ in range(3):
            weights = rng.dirichlet(np.ones(4))
            choices.append(Choice(weights, rng.normal(size=4)))
        both.append(choices)
    computed = deltas(pair_of_sums(*both, std))
    truth = hockey_sticks(*(mixture(choices, std) for choices in both), EPSILONS)
    assert (computed <= truth + 1e-9).all()
    assert (computed >= truth * (1.0 - 1e-4) - CELLS).all()


def test_masses_are_exact_in_the_tails():
    edges = np.linspace(-30.0, 30.0, 601)
    masses = laws.gaussian_masses(edges, 0.0, 1.0)
    right = masses[300:]
    assert right == pytest.approx(norm.sf(edges[300:-1]) - norm.sf(edges[301:]), rel=1e-9)
    assert masses[::-1] == pytest.approx(masses, rel=1e-9)
    assert masses.sum() == pytest.approx(1.0, abs=1e-14)


def test_rates_and_scores_are_those_of_the_tests():
    pair = pair_of_sums(one(1.0), one(0.0), 1.0)
    thresholds, fpr, fnr = pair.rates
    i = int(np.argmin(np.abs(fpr - 0.1)))
    edge = thresholds[i] + 0.5  # log ratio x − 1/2
    assert fpr[i] == pytest.approx(norm.sf(edge), abs=2e-3)
    assert fnr[i] == pytest.approx(norm.cdf(edge - 1.0), abs=2e-3)
    assert (np.diff(thresholds) <= 0.0).all()
    x = np.array([-3.0, 0.5, 2.0])
    assert pair.scores(x) == pytest.approx(x - 0.5, abs=0.01)


# Between walls.


def samplers():
    line = random_batches.Constant
    for sampler in (pabi.FixedSize(2), pabi.Poisson(2)):
        for diameter in (0.4, 1.0):
            yield random_batches.Instance(
                base=((line(0.0), 5),),
                record=line(1.0),
                other=line(-1.0),
                batches=sampler,
                eta=(0.3,) * 6,
                noise=(0.8,) * 6,
                loss=pabi.Loss.convex(1.0, gradient_bound=1.0, l2=0.4),
                diameter=diameter,
            )


@every("case", list(samplers()))
def test_walls_against_quadrature(case):
    """The truth of another file, by other nodes, cells and events."""
    mine = next(
        i for i in instances(case.run) if i.name == "others at rest" and i.curvature == (0.0,)
    )
    truth, error = random_batches.hockey_stick(case, EPSILONS)
    computed = deltas(mine.pair())
    assert (computed <= truth + error + 1e-10).all()
    assert (computed >= truth * (1.0 - 1e-3) - 1e-4).all()


ORDERS = [*orders(4, spare=7), pabi.BallsInBins(4, cap=5, redraw="epoch")]


def run_of(batches, **changes):
    fields = {"n": 18, "steps": 11, "step_size": 0.3, "noise_std": 0.5, "cooldown_steps": 2}
    loss = pabi.Loss.convex(1.0, gradient_bound=1.0, l2=0.3)
    return pabi.NoisySGD(loss, batches=batches, **{**fields, **changes})


@pytest.mark.parametrize("batches", ORDERS, ids=named)
def test_walls_out_of_reach_change_nothing(batches):
    """Two ways to the same law: sums of choices, and a walk that meets no wall."""
    for instance in (i for i in instances(run_of(batches)) if isinstance(i, Instance)):
        diameter = 2.0 * instance.reach
        walled = pair_between_walls(
            diameter, *(instance.walk(instance.moves(g)) for g in (instance.record, instance.other))
        )
        assert deltas(walled) == pytest.approx(deltas(instance.pair()), abs=1e-4)


def test_a_place_that_is_drawn_afresh_is_the_average_over_places():
    """Epochs of three steps, against all nine ways to choose the places."""
    plain, moved = [AffineStep(0.9, 0.0, 0.3)] * 6, [AffineStep(0.9, 0.4, 0.3)] * 6
    still = WalledWalk(plain, plain, np.zeros((6, 1)), np.ones(1))
    drawn = WalledWalk(plain, moved, np.full((6, 1), 1.0 / 3.0), np.ones(1), 3)
    average = 0.0
    for first in range(3):
        for second in range(3):
            chances = np.zeros((6, 1))
            chances[[first, 3 + second]] = 1.0
            average += (
                pair_between_walls(0.8, WalledWalk(plain, moved, chances, np.ones(1)), still).one
                / 9
            )
    computed = pair_between_walls(0.8, drawn, still).one
    assert computed == pytest.approx(average, abs=1e-13)
    assert computed.sum() == pytest.approx(1.0, abs=1e-12)


# What is trained has the law that is computed.


@pytest.mark.parametrize("diameter", [None, 0.5])
@pytest.mark.parametrize("batches", ORDERS, ids=named)
def test_what_is_trained_has_the_law(batches, diameter):
    """A tenth of a standard deviation would be noticed."""
    for instance in instances(run_of(batches, diameter=diameter)):
        assert all(x < 100.0 for x in statistics(instance, instance.pair(), 5))
    full = worst(run_of(pabi.FullBatch()), 1e-5)[0]
    assert all(x > 150.0 for x in statistics(full, full.pair(), 5, move=0.1))


# Confidence bounds against scipy's, and how often they fail.


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


def test_epsilon_and_mu_of_a_point():
    """TPR ≤ e^ε·FPR + δ, and the same of the opposite test in the other order."""
    assert laws.epsilon([point(0.01, 0.5)], 0.1) == pytest.approx(np.log(0.4 / 0.01))
    assert laws.epsilon([point(0.5, 0.01)], 0.1) == pytest.approx(np.log(0.4 / 0.01))
    assert laws.epsilon([point(0.5, 0.5), point(1.0, 1.0)], 0.1) == 0.0
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
    curve = tradeoff.Mixture([Gaussian(0.0), Gaussian(4.0)], [0.9, 0.1])
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
    """Guessed rates count scores at the threshold as alarms."""
    thresholds, fpr, fnr = laws.guessed(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    assert thresholds.tolist() == [0.0, 1.0, 2.0]
    assert (fpr.tolist(), fnr.tolist()) == ([1.0, 0.5, 0.0], [0.0, 0.0, 0.5])
    scores = np.random.default_rng(0).normal(size=(2, 1_000))
    aims = Aims((1e-5,), Gaussian(0.1), 1_000, 0.999999)
    points = laws.counted(*scores, aims.thresholds(*laws.guessed(*scores)), 0.999999)
    assert laws.epsilon(points, 0.0) < 0.5
    assert not laws.refutes(points, Gaussian(0.1))
