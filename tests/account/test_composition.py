"""Composition against the joint law of a quadratic's iterates, published numbers, and what is refused."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from pabi import Cyclic, FixedSize, Loss, NoisyIteration, NoisySGD, Poisson, Reshuffle, ShuffleOnce
from pabi.account.analyses import composition
from pabi.numbers.errors import NotApplicable
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
        mu = composition.apply(run, DELTA, position=j).curve.mu
        assert truth * (1.0 - ROUNDINGS) <= mu <= truth * (1.0 + ROUNDINGS)
    worst = composition.apply(run, DELTA).curve.mu
    assert worst == pytest.approx(max(truths), rel=ROUNDINGS)


@every("n, spare", [(5, 0), (7, 3)])
@every(
    "changes",
    [{"epochs": 2.5}, {"epochs": 0.5}, {"epochs": 2, "noise_std": 0.4 + 0.1 * np.arange(6)}],
)
def test_a_secret_place_is_averaged_over(n, spare, changes):
    """Batches of two and of what is left of n records: δ(ε) = Σ_j P(J = j)·δ_{G(μ_j)}(ε). Records that are
    left out pay nothing."""
    sizes = [min(2, n - spare - a) for a in range(0, n - spare, 2)]
    steps = math.ceil(changes["epochs"] * len(sizes))
    if "noise_std" in changes:
        changes = {**changes, "noise_std": changes["noise_std"][:steps]}
    run = a_run(ShuffleOnce(2, spare=spare), n=n, **changes)
    curve = composition.apply(run, DELTA).curve
    noise = np.broadcast_to(run.gradient_noise_std, run.steps)
    mus = [math.sqrt(float(np.sum(noise[j :: len(sizes)] ** -2.0))) for j in range(len(sizes))]
    for epsilon in (0.1, 0.5, 3.0):
        deltas = [
            norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            if mu
            else 0.0
            for mu in mus
        ]
        assert curve.delta(epsilon) == pytest.approx(np.dot(sizes, deltas) / n, rel=1e-9)


def test_records_left_out_of_some_epochs_pay_for_all():
    """That they are in no batch of one epoch says nothing of the next."""
    some, all_of_them = (a_run(Reshuffle(2, spare=spare), epochs=4) for spare in (4, 0))
    assert composition.apply(some, DELTA).curve.mu == composition.apply(all_of_them, DELTA).curve.mu


def test_a_place_drawn_anew_is_the_worst_of_every_epoch():
    noise = np.array([0.5, 0.7, 0.9, 0.4, 0.3, 0.6])
    run = a_run(Reshuffle(4), n=12, epochs=2, noise_std=noise)
    truth = 2.0 / 4.0 * math.hypot(1.0 / 0.5, 1.0 / 0.3)
    assert composition.apply(run, DELTA).curve.mu == pytest.approx(truth, rel=ROUNDINGS)


@every("batches", [FixedSize(10), Poisson(10)])
def test_batches_of_everybody_are_full_batches(batches):
    curve = composition.apply(a_run(batches, epochs=None, steps=9), DELTA).curve
    exact = Gaussian(3.0 * 2.0 / (10 * 0.4))
    assert exact.epsilon(DELTA) <= curve.epsilon(DELTA) <= exact.epsilon(DELTA) * (1.0 + 1e-3)


def test_iterations_pay_where_they_use_the_record():
    s, sigma = [0.0, 0.3, 0.0, 0.4], [0.0, 0.1, 0.0, 0.2]
    pays = NoisyIteration([0.5] * 4, s, sigma)
    assert composition.of_iteration(pays, DELTA).curve.mu == pytest.approx(
        math.hypot(3.0, 2.0), rel=ROUNDINGS
    )
    once = composition.of_iteration(NoisyIteration([0.5] * 2, s[1:3], sigma[1:3]), DELTA)
    assert once.curve.mu == pytest.approx(3.0, rel=ROUNDINGS)
    free = NoisyIteration(0.5, 0.0, 1.0, steps=7)
    assert composition.of_iteration(free, DELTA).curve.mu == 0.0
    bare = NoisyIteration([0.5] * 2, [0.3, 0.3], [0.1, 0.0])
    assert composition.of_iteration(bare, DELTA).curve.mu == math.inf


def test_starts_that_are_apart_are_refused():
    apart = NoisyIteration(0.5, 0.1, 1.0, steps=3, start=0.2)
    with pytest.raises(
        NotApplicable, match="the runs start apart, which no noisy step has paid for"
    ):
        composition.of_iteration(apart, DELTA)
