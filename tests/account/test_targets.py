"""Targets in other terms than ε: what they mean on Gaussians, and that what is proven meets them."""

import re
from dataclasses import replace
from statistics import NormalDist

import pytest

import pabi
from pabi.account.targets import gaussian_of
from pabi.tradeoff import Gaussian
from support.every_case import every, refused

DELTA = 1e-5
NORMAL = NormalDist()
LOSS = pabi.Loss.convex(smoothness=1.0, gradient_bound=1.0)
GIVEN = {"steps": 1, "step_size": 0.5, "adjacency": "zero_out"}
FULL = pabi.NoisySGD(LOSS, 1_000, pabi.FullBatch(), **GIVEN)


def advantage_of(mu):
    """Dong, Roth, Su 2022: the total variation distance of N(0, 1) and N(μ, 1) is 2Φ(μ/2) − 1."""
    return 2.0 * NORMAL.cdf(0.5 * mu) - 1.0


def power_of(mu, fpr):
    """That of the Neyman–Pearson test of N(0, 1) against N(μ, 1)."""
    return NORMAL.cdf(NORMAL.inv_cdf(fpr) + mu)


@every("mu", [0.1, 1.0, 3.0])
def test_one_step_on_all_records_is_gaussian(mu):
    """One of n contributions of norm 1 becomes 0: μ is 1 over the multiplier, exactly."""
    targets = [{"mu": mu}, {"advantage": advantage_of(mu)}]
    targets += [{"tpr": power_of(mu, fpr), "fpr": fpr} for fpr in (1e-4, 0.3)]
    for target in targets:
        met = pabi.calibrate(FULL, parameter="noise_multiplier", **target)
        assert met.noise_multiplier == pytest.approx(1.0 / mu, rel=1e-8), target


@every("delta", [5e-324, 1e-300, 1e-12, 1e-5, 0.3, 1 - 1e-12])
@every("mu", [1e-300, 1e-6, 0.1, 1.0, 50.0, 1e40, 1e160])
def test_a_reading_of_a_gaussian_is_that_of_its_mu(mu, delta):
    """Up to rounding where ε is far from 0 and δ from 1, and without an error everywhere: calibrations look
    by it."""
    epsilon = Gaussian(mu).epsilon(delta)
    found = gaussian_of(pabi.Target(epsilon=1.0, delta=delta), epsilon)
    if 1e-3 < epsilon < 1e200 and delta < 0.5:
        assert found == pytest.approx(mu, rel=1e-9)
    assert 0.0 < found < 1e101


def test_a_target_at_the_least_delta_is_met():
    met = pabi.calibrate(FULL, 1.0, 5e-324)
    assert 0.999 < met.guarantee(5e-324).epsilon(5e-324) <= 1.0


@every("batches", [pabi.Cyclic(100), pabi.ShuffleOnce(100), pabi.Reshuffle(100), pabi.Poisson(100)])
def test_what_is_proven_meets_the_target_narrowly(batches):
    run = replace(FULL, batches=batches, steps=None, epochs=2)
    for target in ({"advantage": 0.1}, {"tpr": 0.1, "fpr": 0.01}, {"mu": 0.5}):
        goal = pabi.Target(**target)
        met = pabi.calibrate(run, **target)
        assert goal.cost(met.guarantee(DELTA)) <= goal.most
        # Composed numerically, what is met is the target to about a hundredth.
        less = 0.97 if batches == pabi.Poisson(100) else 1.0 - 1e-8
        beyond = replace(met, noise_std=met.noise_std * less)
        assert goal.cost(beyond.guarantee(DELTA)) > goal.most


@every("name", ["advantage", "tpr"])
def test_other_parameters(name):
    run = replace(FULL, batches=pabi.ShuffleOnce(100), steps=None, epochs=1, noise_std=0.02)
    target = {name: 0.5} | ({"fpr": 0.05} if name == "tpr" else {})
    goal, met = pabi.Target(**target), pabi.calibrate(run, parameter="epochs", **target)
    assert met.epochs > 1
    assert goal.cost(met.guarantee(DELTA)) <= goal.most
    longer = replace(met, epochs=met.epochs + 1)
    assert goal.cost(longer.guarantee(DELTA)) > goal.most


def test_what_is_spent_besides_counts():
    """Half of μ² is spent, so that one step may have the other half."""
    first = pabi.Guarantee.from_tradeoff(
        Gaussian(0.5**0.5), adjacency="zero_out", method="another", source="its makers"
    )
    met = pabi.calibrate(
        FULL, advantage=advantage_of(1.0), parameter="noise_multiplier", besides=[first]
    )
    assert met.noise_multiplier == pytest.approx(2.0**0.5, rel=1e-8)
    both = pabi.compose(first, met.guarantee(DELTA))
    assert both.advantage <= advantage_of(1.0)
    with pytest.raises(pabi.TargetUnreachable, match=r"besides alone cost mu = 0\.70"):
        pabi.calibrate(FULL, mu=0.7, besides=[first])


def test_what_is_never_reached_is_named():
    run = replace(FULL, noise_std=1e-5)
    with pytest.raises(pabi.TargetUnreachable, match="the best reachable is advantage = ") as no:
        pabi.calibrate(run, advantage=0.01, parameter="steps")
    assert no.value.best == run.guarantee(DELTA).advantage
    # No Gaussian is below what may fail.
    bins = replace(FULL, batches=pabi.BallsInBins(100, cap=150), steps=None, epochs=1)
    with pytest.raises(pabi.TargetUnreachable, match="no finite mu is known"):
        pabi.calibrate(bins, mu=1.0)


def test_other_targets_are_refused_in_one_line():
    for target, field, said in (
        ({}, "target", "exactly one of .* got none"),
        ({"epsilon": 1.0, "delta": DELTA, "mu": 1.0}, "target", "got epsilon and mu"),
        ({"mu": 1.0, "advantage": 0.1, "tpr": 0.5}, "target", "got mu and advantage and tpr"),
        ({"fpr": 0.1}, "target", "got none"),
        ({"delta": DELTA}, "target", "got none"),
        ({"epsilon": 1.0}, "delta", "missing"),
        ({"tpr": 0.1}, "fpr", "missing"),
        ({"mu": 1.0, "fpr": 0.1}, "fpr", "expected none with mu"),
        ({"tpr": 0.1, "fpr": 0.1}, "tpr", "guessing reaches"),
        ({"tpr": 1.0, "fpr": 0.1}, "tpr", "< 1"),
        ({"tpr": 0.1, "fpr": 0.0}, "fpr", "> 0"),
        ({"advantage": 1.0}, "advantage", "< 1"),
        ({"advantage": 0.0}, "advantage", "> 0"),
        ({"mu": -1.0}, "mu", "> 0"),
        ({"mu": float("inf")}, "mu", "finite"),
    ):
        for ask in (pabi.Target, lambda **given: pabi.calibrate(FULL, **given)):
            assert re.search(said, refused(field, ask, **target)), target


def test_nothing_is_searched_for_at_delta_0():
    pure = pabi.ExponentialMechanism(LOSS, n=100, dimension=2, diameter=1.0, epsilon=1.0)
    assert "described with its epsilon" in refused("delta", pabi.calibrate, pure, 2.0, 0.0)


def test_estimators_meet_a_target():
    size = (2_000, 5)
    for goal in (pabi.Target(mu=0.3), pabi.Target(advantage=0.1), pabi.Target(tpr=0.05, fpr=0.01)):
        planned = pabi.learn.PrivateLogisticRegression(goal, DELTA, classes=[0, 1]).plan(*size)
        assert 0.99 * goal.most <= goal.cost(planned.guarantee) <= goal.most
    for wrong in (pabi.Target(epsilon=1.0, delta=DELTA), pabi.Target(mu=1.0, delta=DELTA)):
        with pytest.raises(pabi.InvalidInput, match="or a Target without"):
            pabi.learn.PrivateLinearRegression(wrong, DELTA).plan(*size)
