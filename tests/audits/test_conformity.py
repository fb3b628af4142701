"""Trainers that do something else than the run says are found, and those that do what it says are not.

What is trained here is written anew: row by row, many models side by side.
"""

import itertools
import json
import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, ks_2samp

import pabi
from pabi.audits import conformity, probes, reach
from pabi.audits.conformity import TrainerTests, p_value, power
from pabi.audits.probes import BatchCounts
from pabi.numbers.errors import NotApplicable
from support.every_case import every, refused

N, SIZE, STEP, CLIP, L2 = 20, 4, 1.0, 0.45, 0.05
STD = 0.15
SCHEMES = {
    "cyclic": pabi.Cyclic(SIZE),
    "once": pabi.ShuffleOnce(SIZE),
    "reshuffle": pabi.Reshuffle(SIZE),
    "bins": pabi.BallsInBins(SIZE),
    "fixed": pabi.FixedSize(SIZE),
    "poisson": pabi.Poisson(SIZE),
}


AFRESH = pabi.BallsInBins(SIZE, redraw="epoch")


def described(scheme, **changes):
    fields = {"n": N, "batches": SCHEMES[scheme], "epochs": 2, "step_size": STEP}
    fields |= {"noise_std": STD, "clip_norm": CLIP}
    return pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=L2), **(fields | changes))


def members(scheme, steps, count, rng):
    """(count, steps, N) who is in which batch."""
    period = N // SIZE
    rows = np.tile(np.arange(N), (count, 1))
    inside = np.zeros((count, steps, N), dtype=bool)
    places = rows // SIZE
    for k in range(steps):
        if (scheme == "once" and k == 0) or (scheme == "reshuffle" and k % period == 0):
            places = rng.permuted(rows, axis=1) // SIZE
        if scheme == "bins" and k == 0:
            places = rng.integers(period, size=(count, N))
        if scheme == "poisson":
            inside[:, k] = rng.random((count, N)) < SIZE / N
        elif scheme == "fixed":
            inside[:, k] = rng.permuted(rows, axis=1) < SIZE
        else:
            inside[:, k] = places == k % period
    return inside


def released(data, count, rng, *, scheme, epochs=2, noise=1.0, clip=1.0, momentum=0.0):
    """(count,) models of a trainer, which has the faults that it is given."""
    steps = epochs * (N // SIZE)
    inside, signs = members(scheme, steps, count, rng), np.where(np.asarray(data.y) > 0, 1.0, -1.0)
    pulls, x, velocity = signs * data.X[:, 0], np.zeros(count), np.zeros(count)
    for k in range(steps):
        gradients = -pulls / (1.0 + np.exp(pulls * x[:, None]))
        gradients = np.clip(gradients, -clip * CLIP, clip * CLIP)
        total = np.where(inside[:, k], gradients, 0.0).sum(axis=1) / SIZE
        velocity = momentum * velocity + L2 * x + total + noise * STD * rng.normal(size=count)
        x = x - STEP * velocity
    return x


FAULTS = {
    "noise": {"noise": 0.9},
    "clip norm": {"clip": 2.0},
    "epochs": {"epochs": 3},
    "momentum": {"momentum": 0.5},
    "rows in their own order": {"scheme": "cyclic"},
    "one shuffle": {"scheme": "once"},
    "a shuffle every epoch": {"scheme": "reshuffle"},
}


@pytest.fixture(scope="module", params=["poisson", "once"])
def claimed(request):
    """(the scheme that is claimed, what finds faults in 1 000 trainings, and which it says it finds)."""
    plan = TrainerTests(described(request.param), 1_000, 0.95, np.random.default_rng(5))
    return request.param, plan, {row.kind: row for row in plan.reach().faults}


def audited(plan, rng, **trained):
    return plan.tested([released(data, plan.each, rng, **trained) for data in plan.data])


# What is found.


@pytest.mark.parametrize("kind", FAULTS)
def test_what_is_said_to_be_found_is_found(claimed, kind):
    """In four of five audits at least: of 20, fewer than 10 are found with a probability below 0.001."""
    scheme, plan, rows = claimed
    changes = {"scheme": scheme, **FAULTS[kind]}
    if kind not in rows or rows[kind].trainings is None:
        pytest.skip("what is claimed itself, or hardly anything else")
    if (needed := rows[kind].trainings) > 1_000:
        plan = TrainerTests(described(scheme), needed, 0.95, np.random.default_rng(5))
    rng = np.random.default_rng(11)
    assert sum(audited(plan, rng, **changes).refuted for _ in range(20)) >= 10


def test_the_faults_that_were_asked_for_are_within_reach(claimed):
    """A new shuffle every epoch is hardly told apart from one in two epochs; from Poisson batches it is."""
    scheme, _, rows = claimed
    assert rows["noise"].trainings <= 10_000
    found = ["clip norm", "epochs", "momentum", "rows in their own order"]
    found += (
        ["one shuffle", "a shuffle every epoch"] if scheme == "poisson" else ["Poisson batches"]
    )
    assert max(rows[kind].trainings for kind in found) <= 2_000


def test_fewer_trainings_than_are_said_miss_a_fault(claimed):
    """So that the number says something: an eighth of them find it in less than half of all audits."""
    (scheme, _, rows), rng = claimed, np.random.default_rng(12)
    few = rows["noise"].trainings // 8
    plan = TrainerTests(described(scheme), few, 0.95, np.random.default_rng(6))
    assert sum(audited(plan, rng, scheme=scheme, noise=0.9).refuted for _ in range(40)) <= 20


def test_who_does_what_the_run_says_is_left_alone(claimed):
    """p-values are at most α with a probability of at most α; 300 audits say so."""
    scheme, plan, _ = claimed
    rng = np.random.default_rng(13)
    values = np.array([audited(plan, rng, scheme=scheme).p_value for _ in range(300)])
    for level in (0.01, 0.05, 0.2):
        assert (values <= level).sum() <= binom.ppf(1.0 - 1e-6, 300, level)


# Through what users call.


def trainer(run, count, seed=0, **trained):
    """A trainer that hands out models which were trained side by side."""
    rng, stores = np.random.default_rng(seed), {}

    def train(X, y):
        key = X.tobytes() + np.asarray(y, dtype=float).tobytes()
        if key not in stores:
            stores[key] = iter(released(probes.CanaryData(X, y), count, rng, **trained))
        return [next(stores[key])]

    return train


def test_shuffling_in_place_of_poisson_batches_is_found():
    run = described("poisson")
    audit = pabi.audit(run, train=trainer(run, 1_000, scheme="once"), trainings=4_000)
    assert audit.not_as_described
    assert not audit.refuted  # what was done keeps what was promised, as far as this shows
    assert "NOT AS DESCRIBED, p = " in str(audit)
    assert audit.to_dict()["not_as_described"] is True
    assert audit.reach.trainings == audit.conformity.trainings == 4_000


def test_an_honest_trainer_is_not_found(capfd):
    run = described("poisson")
    honest = trainer(run, 250, scheme="poisson")
    audit = pabi.audit(
        run, train=honest, trainings=1_000, confidence=0.999999, progress=True, random_state=1
    )
    assert not audit.not_as_described
    assert not audit.refuted
    assert audit.trainings == 500
    assert "nothing else was found in 1000 trainings" in str(audit)
    err = capfd.readouterr().err
    assert err.index("1000 trainings find") < err.index("auditing")


def test_models_of_several_numbers_are_not_compared():
    """Those of changing size are refused."""

    class Fitted:
        coef_, intercept_ = np.zeros((1, 1)), np.ones(1)

    rng, sizes = np.random.default_rng(0), itertools.cycle([1, 2])
    for train in (lambda X, y: rng.normal(size=2), lambda X, y: Fitted):
        audit = pabi.audit(described("cyclic"), train=train, trainings=100)
        assert audit.conformity is None
        assert not audit.not_as_described
        assert "not tested" in str(audit)
    changing = {"train": lambda X, y: np.zeros(next(sizes)), "trainings": 100}
    assert "as many coefficients" in refused("train", pabi.audit, described("cyclic"), **changing)


def test_the_reach_is_said_before_anything_is_trained():
    said = reach(described("poisson"), trainings=1_000, random_state=0)
    table = json.loads(json.dumps(said.to_dict()))
    kinds = [row["kind"] for row in table["faults"]]
    assert kinds[:4] == ["noise", "clip norm", "epochs", "momentum"]
    lines = str(said).splitlines()
    assert lines[0].startswith("1000 trainings find, at confidence 0.95 and with probability 0.8:")
    assert len(lines) == 2 + len(said.faults)


def test_a_reach_of_what_is_out_of_range_or_not_one_number_is_refused():
    refused("trainings", reach, described("once"), trainings=99)
    refused("confidence", reach, described("once"), confidence=1.0)
    refused("run", reach, 3)
    with pytest.raises(NotApplicable, match="several rows"):
        reach(described("once", unit="user"))
    with pytest.raises(NotApplicable, match="update"):
        reach(described("once", update="other"))


# The parts.


def test_models_have_the_law_of_the_run():
    rng = np.random.default_rng(3)
    for scheme in SCHEMES:
        run = described(scheme)
        for data in probes.probes(run):
            ours = probes.models(run, data, 4_000, rng)
            assert ks_2samp(ours, released(data, 4_000, rng, scheme=scheme)).pvalue > 1e-6


@pytest.mark.parametrize("cap", [4, 5])
@pytest.mark.parametrize("scheme", [pabi.Poisson, pabi.BallsInBins])
def test_batches_beyond_the_cap_are_empty(scheme, cap):
    run = described("poisson", batches=scheme(SIZE, cap=cap))
    kinds = (np.arange(N) >= 15).astype(int)
    counts = BatchCounts(run, kinds, 1, 40_000, np.random.default_rng(0)).at(0)
    assert counts.sum(axis=0).max() <= cap
    truth = binom.cdf(cap, N, SIZE / N) - binom.pmf(0, N, SIZE / N)
    assert (counts.sum(axis=0) > 0).mean() == pytest.approx(truth, abs=5.0 * 0.5 / 200.0)


@every("scheme", [*(SCHEMES[k] for k in ("once", "reshuffle", "bins")), AFRESH])
def test_every_row_is_used_once_an_epoch(scheme):
    run = described("once", batches=scheme)
    uses = BatchCounts(run, np.arange(N) % 3, 2, 50, np.random.default_rng(0))
    epochs = [[uses.at(5 * epoch + j) for j in range(5)] for epoch in range(2)]
    assert all((sum(epoch) == np.array([7, 7, 6])[:, None]).all() for epoch in epochs)
    once = scheme in (SCHEMES["once"], SCHEMES["bins"])
    assert np.array_equal(*epochs) is once


@pytest.mark.parametrize("scheme", [pabi.ShuffleOnce, pabi.Reshuffle])
def test_rows_left_out_are_not_used(scheme):
    """Seven of 20 rows, so that batches have 4, 4, 4 and 1; how many of a kind are in is hypergeometric."""
    run, count = described("once", batches=scheme(SIZE, spare=7)), 20_000
    uses = BatchCounts(run, np.arange(N) % 2, 1, count, np.random.default_rng(0))
    epochs = [[uses.at(4 * epoch + j) for j in range(4)] for epoch in range(2)]
    for epoch in epochs:
        assert [set(batch.sum(axis=0).tolist()) for batch in epoch] == [{4}, {4}, {4}, {1}]
        for kind in range(2):
            found = np.bincount(sum(epoch)[kind], minlength=11) / count
            truth = hypergeom.pmf(np.arange(11), N, 10, 13)
            assert found == pytest.approx(truth, abs=5.0 * 0.5 / math.sqrt(count))
    same = all(np.array_equal(a, b) for a, b in zip(*epochs, strict=True))
    assert same == (scheme is pabi.ShuffleOnce)


def test_p_values_are_those_of_counting():
    each, count, reference = 4, 6, (2, 3)
    for found in itertools.product(range(each + 1), repeat=2):
        totals = [k + r for k, r in zip(found, reference, strict=True)]
        ways = sum(
            math.prod(
                comb(t, o) * comb(each + count - t, each - o)
                for t, o in zip(totals, other, strict=True)
            )
            for other in itertools.product(range(each + 1), repeat=2)
            if sum(other) >= sum(found)
        )
        truth = Fraction(ways, comb(each + count, each) ** 2)
        value = p_value(found, reference, each, count)
        assert float(truth) <= value <= float(truth) * (1.0 + 2e-6) + 1e-13


def test_the_power_is_that_of_two_binomials():
    """The least count that is rare enough, and how likely a fault reaches it."""
    each, level, usual, faulty = 50, 0.01, 0.3, 0.5
    needed = min(k for k in range(51) if binom.sf(k - 1, each, usual) <= level)
    truth = binom.sf(needed - 1, each, faulty)
    assert power(np.array([usual]), np.array([faulty]), each, level, 0.0) == pytest.approx(truth)


def test_a_clip_that_nothing_reaches_is_out_of_reach():
    """Twice a norm that no gradient has is no fault, and none is found."""
    rows = {r.kind: r for r in reach(described("once", clip_norm=1.0), trainings=400).faults}
    assert rows["clip norm"].least is None
    assert rows["clip norm"].trainings is None


def test_confidence_is_shared():
    """Half of it is for the bounds, and what is left for all tests together."""
    plan = TrainerTests(described("once"), 100, 0.9, np.random.default_rng(0))
    assert sum(test.share for test in plan._tests) == pytest.approx(1.0)
    certain = conformity.Conformity(100, 0.9, 0.0999, "noise")
    assert certain.refuted
    assert not conformity.Conformity(100, 0.9, 0.1001, "noise").refuted
