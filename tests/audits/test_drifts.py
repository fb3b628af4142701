"""Instances that are pulled along: their losses are as described, and they cost no more than is promised."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import pabi
from pabi import Loss, NoisySGD
from pabi.audits.auditing import worst
from pabi.audits.drifts import Drift
from pabi.audits.instances import instances
from pabi.convert import gdp_to_epsilon
from pabi.execute.engine import train

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
        pair = drift.pair()
        for delta in (1e-5, 1e-2):
            promised = guarantee.epsilon(delta) * (1.0 + 1e-9)
            assert pair.epsilon(delta) <= promised
            assert pair.swapped().epsilon(delta) <= promised


@each_case
def test_the_way_stays_in_the_strips(kind, batches):
    """Training by the gradients, wherever iterates go: in every step they are as steep as was planned."""
    run, rng = run_of(kind, batches), np.random.default_rng(1)
    for drift in drifts_of(run)[-1:]:
        pair = drift.pair()
        for gradient, masses in ((drift.record, pair.one), (drift.other, pair.other)):
            x = drift.trained(gradient, 20_000, rng)
            cells = np.minimum((np.cumsum(masses) * 30).astype(int), 29)
            counts = np.bincount(cells[np.searchsorted(pair.edges, x, side="right")], minlength=30)
            expected = np.bincount(cells, masses, minlength=30) * len(x)
            used = expected > 5.0
            statistic = np.sum(np.square(counts - expected)[used] / expected[used])
            assert statistic < 100.0  # χ² of 29 degrees of freedom: a probability below 1e-9


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
    run = NoisySGD(
        Loss.convex(1.0, gradient_bound=1.0),
        n=2_000,
        batches=pabi.Cyclic(200),
        epochs=3,
        step_size=0.5,
        noise_multiplier=1.5,
        adjacency="zero_out",
    )
    drift = max(drifts_of(run), key=lambda i: i.pair().epsilon(DELTA))
    for gradient in (drift.record, drift.other):
        (case,) = drift._cases(gradient)
        mean, std = float(case.choices[0].values[0]), case.std
        with pytest.warns(pabi.PrivacyWarning):
            ends = [
                train(
                    run, Rows(drift, gradient), np.array([drift.others.path[0]]), random_state=seed
                ).x[0]
                for seed in range(60)
            ]
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
