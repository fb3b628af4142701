"""Instances that are pulled along: their losses are as described, and they cost no more than is promised."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

import pabi
from pabi import Loss, NoisySGD
from pabi.audits.auditing import worst
from pabi.audits.drifts import Drift, best_weights
from pabi.audits.instances import instances
from pabi.convert import gdp_to_epsilon
from pabi.execute.engine import train
from support.every_case import every

from .trained import assert_not_dearer, statistics

DELTA = 1e-5
FAR = {"n": 20_000, "epochs": 6, "step_size": 0.5, "noise_multiplier": 1.5}
KINDS = {
    "convex": (Loss.convex(1.0, gradient_bound=1.0), {"adjacency": "zero_out"}),
    "convex, replaced": (Loss.convex(1.0, gradient_bound=1.0), {}),
    "regularised": (Loss.convex(1.5, gradient_bound=1.0, l2=0.05), {}),
    "huber": (Loss.huber(1.0, 1.0), {"adjacency": "zero_out"}),
    "hinge": (Loss.smoothed_hinge(1.0, 0.5), {}),
    "nonconvex": (Loss.nonconvex(0.5, gradient_bound=1.0), {}),
    "clipped": (Loss.nonconvex(0.5), {"clip_norm": 1.0}),
    "strongly convex": (
        Loss.strongly_convex(0.1, 1.0),
        {"gradient_sensitivity": 2.0, "noise_multiplier": None, "noise_std": 7.5e-4},
    ),
}
ORDERS = (pabi.Cyclic(2_000), pabi.ShuffleOnce(2_000), pabi.Reshuffle(2_000))


def run_of(kind, batches):
    loss, changes = KINDS[kind]
    return NoisySGD(loss, batches=batches, **{**FAR, **changes})


def drifts_of(run):
    return [i for i in instances(run) if isinstance(i, Drift)]


CASES = [
    (kind, batches)
    for kind in KINDS
    for batches in ORDERS
    if isinstance(batches, pabi.Cyclic) or kind in ("convex", "regularised", "strongly convex")
]
each_case = pytest.mark.parametrize(
    ("kind", "batches"), CASES, ids=lambda value: value if isinstance(value, str) else value.kind
)


@each_case
def test_the_losses_are_those_of_the_description(kind, batches):
    """Gradients of others are as steep and as long as is described, everywhere."""
    run = run_of(kind, batches)
    drifts = drifts_of(run)
    assert drifts
    for drift in drifts:
        bound, floor = drift.kind.bound, drift.floor
        low, high = run.loss.curvature
        for points, values in zip(drift.others.points, drift.others.values, strict=True):
            if len(points):
                steepness = np.append(np.diff(values) / np.diff(points), 0.0) + floor
                assert steepness.max() <= high * (1 + 1e-6)
                assert steepness.min() >= low - 1e-6 * abs(low) - 1e-9
                assert np.abs(values).max() <= bound
        assert max(abs(drift.record), abs(drift.other)) <= bound
        assert abs(drift.record - drift.other) <= run.sensitivity * (1 + 1e-12)


@each_case
def test_none_costs_more_than_is_promised(kind, batches):
    run = run_of(kind, batches)
    guarantee = run.guarantee(DELTA)
    for drift in drifts_of(run):
        assert_not_dearer(drift, guarantee)


@each_case
def test_the_way_stays_in_the_strips(kind, batches):
    """Training by the gradients, wherever iterates go: in every step they are as steep as was planned."""
    drift = drifts_of(run_of(kind, batches))[-1]
    assert all(x < 100.0 for x in statistics(drift, drift.pair(), 1))  # wrong once in 10⁹ times


class Rows:
    """Gradients of the records of an instance, for the shipped trainer."""

    def __init__(self, drift, gradient):
        self.drift, self.gradient, self.run = drift, gradient, drift.run
        self.last = (self.run.steps - 1) % self.run.steps_per_epoch * self.run.batch_size

    def __call__(self, x, rows):
        """One row of the last batch is special; each batch has the gradient of its place."""
        owner = self.drift.owner_of(int(rows[0]) // self.run.batch_size)
        usual = self.drift.others.gradient(owner, x)
        table = np.repeat(usual[None], len(rows), axis=0)
        table[rows == self.last] = self.gradient
        return table


def test_the_shipped_trainer_walks_the_same_way():
    """A known order, the data set with the record and the one without: means and spreads of 60 trainings."""
    run = dataclasses.replace(run_of("convex", pabi.Cyclic(200)), n=2_000, epochs=3)
    drift = max(drifts_of(run), key=lambda i: i.pair().epsilon(DELTA))
    for gradient in (drift.record, drift.other):
        (case,) = drift._cases(gradient)
        mean, std = float(case.choices[0].values[0]), case.std
        start = np.array([drift.others.path[0]])
        with pytest.warns(pabi.PrivacyWarning):
            ends = [train(run, Rows(drift, gradient), start, seed).x[0] for seed in range(60)]
        away = (np.array(ends) - drift.others.path[-1] - mean) / std
        assert abs(away.mean()) * np.sqrt(60) < 6.0
        assert 0.4 < away.std() < 1.8  # six standard deviations of the estimate


def test_steps_of_the_largest_size_leave_nothing_between():
    """Cyclic batches whose steps may forget all: the instance costs what is promised."""
    run = dataclasses.replace(run_of("convex", pabi.Cyclic(2_000)), step_size=1.0)
    _, law = worst(run, DELTA)
    instance = max(law.epsilon(DELTA), law.swapped().epsilon(DELTA))
    promised = run.guarantee(DELTA).epsilon(DELTA)
    assert promised / 1.002 < instance <= promised
    cost = (5 / 10 + 1) ** 0.5 / 1.5  # five earlier epochs of ten steps, and the last step
    assert instance == pytest.approx(gdp_to_epsilon(cost, DELTA), rel=2e-3)


def test_what_has_no_room_is_not_made_up():
    """Much noise and short drifts: stretches would overlap."""
    run = dataclasses.replace(run_of("convex", pabi.Cyclic(2_000)), noise_multiplier=2_000.0)
    assert not drifts_of(run)


# The best slopes against a general solver and a closed form.


def mu(weights, moves, stds):
    return weights @ moves / np.linalg.norm(weights * stds)


@every("seed", range(8))
def test_no_other_weights_show_more(seed):
    """Against weights at random, and against a general solver of the same programme."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    moves, stds = rng.uniform(size=count) * (rng.random(count) < 0.6), rng.uniform(0.5, 2.0, count)
    moves[-1] = 1.0
    low = rng.uniform(0.0, 0.7, count) * (rng.random(count) < 0.8)
    high = low + rng.uniform(0.05, 0.8, count)
    best = best_weights(moves, stds, low=low, high=high)
    assert (low[1:] * best[1:] <= best[:-1] * (1 + 1e-12)).all()
    assert (best[:-1] <= high[1:] * best[1:] * (1 + 1e-12)).all()
    for _ in range(2_000):
        slopes = rng.uniform(low, high)
        weights = np.append(np.cumprod(slopes[:0:-1])[::-1], 1.0)
        assert mu(weights, moves, stds) <= mu(best, moves, stds) * (1 + 1e-12)
    rows = [(k, s, b) for k in range(count - 1) for s, b in ((1, low), (-1, high))]
    table = np.zeros((len(rows), count))
    for row, (k, sign, ends) in zip(table, rows, strict=True):
        row[k], row[k + 1] = sign, -sign * ends[k + 1]
    found = minimize(
        lambda w: 0.5 * np.sum((w * stds) ** 2) - w @ moves,
        np.ones(count),
        constraints=LinearConstraint(table, 0.0, np.inf),
        bounds=[(0.0, None)] * count,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1_000},
    )
    assert mu(found.x, moves, stds) == pytest.approx(mu(best, moves, stds), rel=1e-6)


def test_slopes_that_may_vanish_reach_what_is_proven():
    """Ten epochs of ten steps: 1 + 9/10 of a step's cost, against 1 of linear losses."""
    moves = np.zeros(100)
    moves[9::10] = 1.0
    best = best_weights(moves, np.ones(100), low=np.zeros(100), high=np.ones(100))
    assert mu(best, moves, np.ones(100)) ** 2 == pytest.approx(1.9)
    assert mu(np.ones(100), moves, np.ones(100)) ** 2 == pytest.approx(1.0)
