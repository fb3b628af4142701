"""Composition against the joint law of a quadratic's iterates, published numbers, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from pabi import Cyclic, FixedSize, Loss, NoisyIteration, NoisySGD, Poisson, Reshuffle, ShuffleOnce
from pabi.account.analyses import composition
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.tradeoff import Gaussian
from support.every_case import every

DELTA = 1e-5
ROUNDINGS = 1e-12  # relative, more than a few sums and roots err


def a_run(batches=None, **changes):
    settings = {"n": 10, "epochs": 3, "step_size": 0.5, "noise_std": 0.4, "clip_norm": 1.0}
    batches = Cyclic(2) if batches is None else batches
    return NoisySGD(Loss.convex(1.0), batches=batches, **settings | changes)


def mu_of_path(run, position):
    """μ between the joint laws of all iterates x ← x − η(x + u/b + ξ), where u = ±1 is the record's gradient
    in its batch's steps: they have one covariance, and means that are apart."""
    steps, period = run.data_steps, run.steps_per_epoch
    eta, noise = np.broadcast_to(run.step_size, steps), np.broadcast_to(run.noise_std, steps)
    pull = np.where(np.arange(steps) % period == position, 2.0 / run.batch_size, 0.0)
    apart = np.zeros(steps)
    factor = np.zeros((steps, steps))  # of the noises, by step: the covariance is its square
    for k in range(steps):
        apart[k] = (1.0 - eta[k]) * apart[k - 1] * (k > 0) - eta[k] * pull[k]
        factor[k] = (1.0 - eta[k]) * factor[k - 1] * (k > 0)
        factor[k, k] = eta[k] * noise[k]
    return float(np.linalg.norm(np.linalg.solve(factor, apart)))


VARYING = {"step_size": np.linspace(0.9, 0.1, 15), "noise_std": 0.2 + 0.05 * np.arange(15.0)}


@every("changes", [{}, VARYING, {"epochs": 2.6, "step_size": 0.3}])
def test_the_path_of_a_quadratic_is_exactly_so_private(changes):
    run = a_run(**changes)
    truths = [mu_of_path(run, j) for j in range(run.steps_per_epoch)]
    for j, truth in enumerate(truths):
        mu = composition.apply(run, DELTA, position=j).mu
        assert truth * (1.0 - ROUNDINGS) <= mu <= truth * (1.0 + ROUNDINGS)
    worst = composition.apply(run, DELTA).mu
    assert worst == pytest.approx(max(truths), rel=ROUNDINGS)


def test_the_loss_does_not_matter():
    unknown = NoisySGD(
        Loss.unknown(), 10, Cyclic(2), epochs=3, step_size=9.0, noise_std=0.4, clip_norm=1.0
    )
    assert composition.apply(unknown, DELTA).mu == composition.apply(a_run(), DELTA).mu


def test_a_secret_place_is_averaged_over():
    """Batches of 2, 2 and 1 records of n = 5, each in its own noise: δ(ε) = Σ_j P(J = j)·δ_{G(μ_j)}(ε)."""
    noise = np.array([0.5, 0.7, 1.1])
    changes = {"n": 5, "epochs": 1, "noise_std": noise}
    curve = composition.apply(a_run(ShuffleOnce(2), **changes), DELTA).curve
    mus, shares = 2.0 / (2.0 * noise), np.array([0.4, 0.4, 0.2])
    for epsilon in (0.0, 0.5, 3.0):
        deltas = norm.cdf(mus / 2 - epsilon / mus)
        deltas -= math.exp(epsilon) * norm.cdf(-mus / 2 - epsilon / mus)
        assert curve.delta(epsilon) == pytest.approx(float(shares @ deltas), rel=1e-9)


@every(
    "changes", [{}, {"epochs": 2.5}, {"epochs": 0.5}, {"noise_std": np.array([0.5, 0.7, 1.1, 0.9])}]
)
def test_records_left_out_pay_nothing(changes):
    """Two batches of 2 of n = 7 records, 4 steps: 3/7 of δ is that of G(0), whatever else is."""
    given = {"n": 7, "epochs": 2, **changes}
    run = a_run(ShuffleOnce(2, spare=3), **given)
    curve = composition.apply(run, DELTA).curve
    noise = np.broadcast_to(run.gradient_noise_std, run.steps)
    mus = [math.sqrt(float(np.sum((2.0 / 2.0 / noise[j::2]) ** 2))) for j in range(2)]
    for epsilon in (0.1, 0.5, 3.0):
        deltas = [
            norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            for mu in mus
            if mu
        ]
        assert curve.delta(epsilon) == pytest.approx(2 / 7 * sum(deltas), rel=1e-9)


def test_records_left_out_of_some_epochs_pay_for_all():
    """That they are in no batch of one epoch says nothing of the next."""
    run = a_run(Reshuffle(2, spare=4), epochs=4)
    assert (
        composition.apply(run, DELTA).mu
        == composition.apply(a_run(Reshuffle(2), epochs=4), DELTA).mu
    )


def test_a_place_drawn_anew_is_the_worst_of_every_epoch():
    noise = np.array([0.5, 0.7, 0.9, 0.4, 0.3, 0.6])
    run = a_run(Reshuffle(4), n=12, epochs=2, noise_std=noise)
    truth = 2.0 / 4.0 * math.hypot(1.0 / 0.5, 1.0 / 0.3)
    assert composition.apply(run, DELTA).mu == pytest.approx(truth, rel=ROUNDINGS)


@every("batches", [FixedSize(10), Poisson(10)])
def test_batches_of_everybody_are_full_batches(batches):
    curve = composition.apply(a_run(batches, epochs=None, steps=9), DELTA).curve
    exact = Gaussian(3.0 * 2.0 / (10 * 0.4))
    assert exact.epsilon(DELTA) <= curve.epsilon(DELTA) <= exact.epsilon(DELTA) * (1.0 + 1e-3)


@every(("epochs", "printed"), [(50, 30.51), (100, 49.88), (200, 83.83)])
def test_bok_su_altschuler_table_1(epochs, printed):
    given = {"epochs": epochs, "step_size": 0.05, "noise_std": 0.01, "gradient_sensitivity": 10.0}
    run = NoisySGD(Loss.convex(1.0, l2=0.002), 60_000, Cyclic(1_500), **given)
    assert composition.apply(run, DELTA).epsilon(DELTA) == pytest.approx(printed, abs=0.005)


def test_iterations_pay_where_they_use_the_record():
    s, sigma = [0.0, 0.3, 0.0, 0.4], [0.0, 0.1, 0.0, 0.2]
    pays = NoisyIteration([0.5] * 4, s, sigma)
    assert composition.apply(pays, DELTA).mu == pytest.approx(math.hypot(3.0, 2.0), rel=ROUNDINGS)
    assert composition.apply(NoisyIteration([0.5] * 2, s[1:3], sigma[1:3]), DELTA).mu >= 3.0
    free = NoisyIteration(0.5, 0.0, 1.0, steps=7)
    assert composition.apply(free, DELTA).mu == 0.0
    bare = NoisyIteration([0.5] * 2, [0.3, 0.3], [0.1, 0.0])
    assert composition.apply(bare, DELTA).mu == math.inf


def test_starts_that_are_apart_are_refused():
    apart = NoisyIteration(0.5, 0.1, 1.0, steps=3, start=0.2)
    with pytest.raises(
        NotApplicable, match="the runs start apart, which no noisy step has paid for"
    ):
        composition.apply(apart, DELTA)


@every("batches", [ShuffleOnce(2), Reshuffle(2), FixedSize(2), Poisson(2)])
def test_positions_need_a_known_order(batches):
    with pytest.raises(InvalidInput, match="has no known positions, got 0") as refusal:
        composition.apply(a_run(batches), DELTA, position=0)
    assert refusal.value.field == "position"
