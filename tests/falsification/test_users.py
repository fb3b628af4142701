"""Attacks with several records of one user: they break what is claimed of a record, never of a user."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import pabi
from pabi import FullBatch, Loss, NoisySGD, Poisson
from pabi.execute.linear_gradients import LinearGradients, fast_sum
from pabi.execute.sums import UserRows
from support.falsification.claims import gaussian_delta
from support.falsification.mixtures import Mixture, hockey_sticks

DELTA = 1e-5
N, RECORDS = 40, 6  # users, and how many records the attacker's target has
EPSILONS = np.linspace(0.0, 6.0, 61)


def run_of(batches, unit, adjacency, n):
    """One step on linear losses, whose gradients are as long as they may be."""
    return NoisySGD(
        Loss.convex(1e-9, gradient_bound=1.0),
        n,
        batches,
        steps=1,
        step_size=1.0,
        noise_std=0.1,
        clip_norm=1.0,
        adjacency=adjacency,
        unit=unit,
    )


def shifted(run, signs, groups=None):
    """The mean of the released iterate where all gradients of the target's records have this sign."""
    gradients = LinearGradients(
        np.ones((len(signs), 1)), np.asarray(signs, float), lambda predictor, target: target.copy()
    )
    rows = None if groups is None else UserRows.of(groups, run.n)
    value = fast_sum(gradients, run, rows)(np.zeros(1), slice(0, run.n))
    return -run.step_size * float(value[0]) / run.batch_size


def test_an_exact_attack_on_full_batches():
    """Gaussians of one variance: the user's records turn around together, or vanish."""
    for adjacency in ["replace_one", "zero_out"]:
        others = [0.0] * (N - 1)
        ids = [0] * RECORDS + list(range(1, N))
        other = -1.0 if adjacency == "replace_one" else 0.0
        by_user = run_of(FullBatch(), "user", adjacency, N)
        one, two = (shifted(by_user, [sign] * RECORDS + others, ids) for sign in (1.0, other))
        truth = gaussian_delta(abs(one - two) / by_user.noise_std, EPSILONS)
        claimed = by_user.guarantee(DELTA).delta(EPSILONS)
        assert (truth <= claimed).all(), adjacency
        assert truth == pytest.approx(claimed, rel=1e-4, abs=1e-12)  # the claim is attained
        # The same user where rows are records: what one record costs is not what this user pays.
        by_record = run_of(FullBatch(), "record", adjacency, N + RECORDS - 1)
        one, two = (shifted(by_record, [sign] * RECORDS + others) for sign in (1.0, other))
        truth = gaussian_delta(abs(one - two) / by_record.noise_std, EPSILONS)
        of_one = by_record.guarantee(DELTA)
        assert (truth > of_one.delta(EPSILONS)).all(), adjacency
        of_all = of_one.for_groups(RECORDS).delta(EPSILONS)
        assert (truth <= of_all).all(), adjacency
        assert truth == pytest.approx(of_all, rel=1e-4, abs=1e-12), adjacency


def mixture(weights, means) -> Mixture:
    return Mixture(np.array(weights), np.array(means), np.full(len(means), 0.1))


def test_an_exact_attack_on_random_batches():
    """Each user is drawn with probability 1/4, with all records; a record is drawn alone.

    What rows of one user are drawn is binomial, so that both laws are mixtures of Gaussians.
    """
    size, epsilons = 10, np.array([0.0, 0.5, 1.5, 3.0])
    by_user = run_of(Poisson(size), "user", "zero_out", N)
    share, nothing = size / N, mixture([1.0], [0.0])
    drawn = mixture([1.0 - share, share], [0.0, 1.0 / size])
    truth = hockey_sticks(drawn, nothing, epsilons)  # in both orders
    assert (truth <= by_user.guarantee(DELTA).delta(epsilons) + 1e-9).all()
    rows, j = N + RECORDS - 1, np.arange(RECORDS + 1)
    by_record = run_of(Poisson(size), "record", "zero_out", rows)
    drawn = mixture(binom.pmf(j, RECORDS, size / rows), j / size)
    truth = hockey_sticks(drawn, nothing, epsilons)
    of_one = by_record.guarantee(DELTA)
    assert (truth <= of_one.for_groups(RECORDS).delta(epsilons) + 1e-9).all()
    assert (truth > of_one.delta(epsilons))[truth > 1e-6].all()


def test_a_user_without_records_is_no_further_than_another():
    """Replaced by one with none: half as far as by one whose records all turn around."""
    run = run_of(FullBatch(), "user", "replace_one", N)
    ids = [0] * RECORDS + list(range(1, N))
    with_rows = shifted(run, [1.0] * RECORDS + [0.5] * (N - 1), ids)
    without = shifted(run, [0.5] * (N - 1), list(range(1, N)))
    assert abs(with_rows - without) * N == pytest.approx(1.0, rel=1e-9)
    assert abs(with_rows - without) / run.noise_std <= run.guarantee(DELTA).mu


def test_groups_of_strongly_convex_losses_are_refused_where_the_others_vanish():
    """Where others vanish steps contract less: the pair that the proof would miss.

    Two steps on quadratics, a record in the first batch: the last step contracts by 1 − ηm for a full batch
    of strongly convex losses, and not at all for one whose contributions are 0.
    """
    given = {"epochs": 1, "step_size": 1.0, "noise_std": 1.0, "adjacency": "zero_out"}
    run = NoisySGD(Loss.strongly_convex(0.9, 1.0, gradient_bound=1.0), 2, pabi.Cyclic(1), **given)
    first = run.guarantee(DELTA, position=0)
    # With the second record's contribution 0 the last step is x + noise: the shift of 1 stays, under 2σ².
    missed = 1.0 / math.sqrt(2.0)
    assert first.mu < missed
    with pytest.raises(pabi.NotApplicable, match="strongly convex"):
        first.for_groups(2)
    replaced = NoisySGD(**{**run.__getstate__(), "adjacency": "replace_one"}).guarantee(DELTA)
    assert replaced.for_groups(2).mu == pytest.approx(2.0 * replaced.mu, rel=1e-12)
