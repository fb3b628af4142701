"""Others at margin 0: their gradients are those of logistic losses, and laws of runs those of a grid."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import pabi
from pabi.audits.instances import Bent, Margins, instances
from pabi.learn import LogisticGradients

from .trained import assert_not_dearer, statistics

DELTA = 1e-5
# Short batches, and a last one that is shorter; noise so large that the gradients of others bend.
FIELDS = {"n": 22, "batches": pabi.Cyclic(6), "epochs": 2, "step_size": 2.0, "noise_std": 0.5}


def run_of(**changes):
    return pabi.NoisySGD(pabi.Loss.logistic(2.0, l2=0.01), **{**FIELDS, **changes})


def bent_of(run):
    (one,) = (i for i in instances(run) if isinstance(i, Bent))
    return one


def test_two_records_of_either_label_cancel_at_margin_zero():
    points = np.linspace(-3.0, 3.0, 13)
    records = LogisticGradients(np.full((2, 1), 1.5), np.array([0, 1]))
    means = [np.mean(records(np.array([x]), np.arange(2))) for x in points]
    assert Margins(1.5)(points) == pytest.approx(means, abs=1e-15)
    assert Margins(1.5)(np.zeros(1)) == 0.0
    slopes = np.diff(Margins(1.5)(np.linspace(-1.0, 1.0, 2001))) / 0.001
    assert slopes.max() == pytest.approx(Margins(1.5).steepest, rel=1e-5)
    assert slopes.min() > 0.0


def on_a_grid(one, gradient, edges):
    """(cells,) masses, by a plain sum over 601 points, written from the data sets themselves."""
    run, norm = one.run, one.gradient.norm
    x = np.linspace(-1.2 * one.reach, 1.2 * one.reach, 601)
    law, eta, sizes = None, 2.0, [6, 6, 6, 4]
    for k in range(run.steps):
        batch, last = k % 4, k % 4 == 3
        pairs = math.floor(one.shares[batch] * (sizes[batch] - last) / 2)
        start = np.zeros(1) if law is None else x
        pull = pairs * norm * (1 / (1 + np.exp(-norm * start)) - 1 / (1 + np.exp(norm * start)))
        to = start - eta * (0.01 * start + (pull + last * gradient) / 6)
        weights = np.ones(1) if law is None else law
        if k + 1 == run.steps:
            below = ndtr((edges[:, None] - to) / (eta * 0.5)) @ weights
            return np.diff(np.concatenate([[0.0], below, [1.0]]))
        density = np.exp(-0.5 * ((x[:, None] - to) / (eta * 0.5)) ** 2) @ weights
        law = density / density.sum()
    raise AssertionError


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_the_law_is_that_of_the_data_sets(adjacency):
    run = run_of(adjacency=adjacency)
    one = bent_of(run)
    assert any(one.shares)
    pair = one.pair()
    for gradient, masses in ((one.record, pair.one), (one.other, pair.other)):
        assert np.abs(on_a_grid(one, gradient, pair.edges) - masses).max() < 1e-10
    assert 0.0 < pair.beyond < 1e-12


def test_what_is_trained_has_the_law_and_stays_within_reach():
    one = bent_of(run_of(epochs=3))
    assert all(x < 100.0 for x in statistics(one, one.pair(), 5))
    assert np.abs(one.trained(one.record, 20_000, np.random.default_rng(0))).max() < one.reach


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_it_costs_more_than_linear_losses_and_no_more_than_is_promised(adjacency):
    run = run_of(adjacency=adjacency, n=60, noise_std=0.3, step_size=1.0)
    linear = max(i.pair().epsilon(DELTA) for i in instances(run) if not isinstance(i, Bent))
    assert bent_of(run).pair().epsilon(DELTA) > 1.1 * linear
    assert_not_dearer(bent_of(run), run.guarantee(DELTA))


OTHERS = {
    "a secret order": {"batches": pabi.ShuffleOnce(6)},
    "one batch": {"batches": pabi.FullBatch()},
    "clipped": {"clip_norm": 0.5},
}


@pytest.mark.parametrize("other", OTHERS)
def test_there_is_none_where_batches_are_secret_or_records_clipped(other):
    assert not any(isinstance(i, Bent) for i in instances(run_of(**OTHERS[other])))
