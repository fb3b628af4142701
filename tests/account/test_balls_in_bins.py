"""Balls in bins: beside one secret shuffle, its sizes, its failure, its certificate, and what is trained."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import pabi
from pabi import BallsInBins, Loss, NoisySGD, ShuffleOnce
from pabi.account.analyses import secret_order
from pabi.account.best import best_of, outcomes
from pabi.account.facts.positions import OrderedView
from pabi.tradeoff import Mixture, Product
from support.every_case import every

DELTA = 1e-5
EPSILONS = np.concatenate([np.linspace(-2.0, 8.0, 41), [1e-9]])
BASE = {"n": 1000, "epochs": 10, "step_size": 0.5, "noise_std": 0.05}
STEEP = {"step_size": 3.0, "epochs": 20}


def a_run(loss=None, batches=None, **changes):
    loss = Loss.logistic(1.0) if loss is None else loss
    batches = BallsInBins(100) if batches is None else batches
    return NoisySGD(loss, batches=batches, **{**BASE, **changes})


def proven(run, name):
    """The guarantee of one analysis."""
    return next(one.guarantee for one in outcomes(run, DELTA) if one.name == name)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("cap", [None, 200])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"epochs": 7.3},
        {"epochs": 0.4},
        {"loss": Loss.unknown(), "clip_norm": 1.0, "epochs": 7.3},  # composition needs no sizes
        {"cooldown_steps": 4},
        {"diameter": 0.2, "epochs": 60},
        {"epochs": None, "steps": 35, "step_size": np.linspace(0.5, 0.1, 35)},
    ],
    ids=repr,
)
def test_it_is_one_secret_shuffle_where_sizes_do_not_matter(adjacency, cap, changes):
    """Steps on a convex loss are nonexpansive for batches of 0 to n = 1000 records: ηM·n/size ≤ 1.25.

    Secret steps are worth more in bins, and what is paid in advance depends on how large batches may be."""
    beside = ("secret steps", "payments in advance")
    shuffled = outcomes(a_run(batches=ShuffleOnce(100), adjacency=adjacency, **changes), DELTA)
    once = best_of([one for one in shuffled if one.name not in beside], DELTA)
    run = a_run(batches=BallsInBins(100, cap), adjacency=adjacency, **changes)
    bins = proven(run, once.method)
    for epsilon in EPSILONS:
        assert bins.delta(float(epsilon)) == pytest.approx(once.delta(float(epsilon)), abs=1e-12)


def test_a_short_last_batch_is_as_likely_as_any():
    """n = 950 and size 100: ten bins of equal probability, where a shuffle has one of 50 records."""
    bins = proven(a_run(n=950), "secret order").curve
    assert isinstance(bins, Mixture)
    assert bins.weights == pytest.approx([0.1] * len(bins.weights), rel=1e-12)


LOSS = Loss.logistic(1.0, l2=0.05)  # an empty batch contracts less than a full one


def test_slopes_cover_the_empty_batch_and_the_cap():
    run = a_run(LOSS, BallsInBins(100, 180), step_size=1.9)
    full, last, _, _, _ = OrderedView(run).constants
    slopes = [1.0 - 1.9 * 0.05, 1.9 * (0.05 + 1.8 * 0.25) - 1.0]
    assert full == last == pytest.approx(max(map(abs, slopes)), rel=1e-14)


def test_a_larger_cap_is_no_safer():
    runs = [a_run(LOSS, BallsInBins(100, cap), **STEEP) for cap in (100, 200, 250, 300)]
    mus = [max(p.mu for p in secret_order.apply(run, DELTA).curve.parts) for run in runs]
    assert mus == sorted(mus)
    assert mus[0] < mus[-1]


def test_the_failure_is_added_once():
    run = a_run(LOSS, step_size=3.0, epochs=200)
    curve = run.guarantee(DELTA).curve
    assert isinstance(curve, Product)
    cap = run.guarantee(DELTA).certificate.payload["cap"]
    exact = 10 * binom.sf(cap, 1000, 0.1)
    assert exact <= curve.failure <= 2.0 * exact
    assert curve.failure <= 1e-3 * DELTA < 10 * binom.sf(cap - 1, 1000, 0.1) * 2.0


RUN = a_run(LOSS, step_size=3.0, epochs=30)


def test_another_cap_than_its_own_is_refused():
    payload = RUN.guarantee(DELTA).certificate.payload
    words = "independently of the data and of all other records"
    assert any(words in a for a in RUN.guarantee(DELTA).assumptions)
    for cap in (0, 100, 130, 150):  # which fails more often
        assert cap < payload["cap"]
        assert "failure" in pabi.verify({**payload, "cap": cap}).reason
    assert not pabi.verify({**payload, "cap": 1000}).ok  # whose steps are steeper


def test_a_stated_cap_is_the_described_one():
    """With which nothing fails."""
    g = replace(RUN, batches=BallsInBins(100, 150)).guarantee(DELTA)
    assert isinstance(g.curve, Mixture)
    assert any("more than 150 records is replaced by an empty one" in a for a in g.assumptions)
    payload = g.certificate.payload
    assert "cap" in pabi.verify({**payload, "cap": 140}).reason
    assert payload.pop("cap") == 150
    assert pabi.verify(payload).ok  # it follows from the description


def test_a_lower_cap_proves_nothing_of_moduli_either():
    given = {"n": 20, "epochs": 300, "step_size": 0.01, "noise_std": 2.0, "diameter": 0.3}
    g = proven(a_run(Loss.lipschitz(1.0), BallsInBins(2), **given), "nonlinear shifts")
    assert g.certificate.payload["cap"] > 2
    assert not pabi.verify({**g.certificate.payload, "cap": 2}).ok


@every("scheme", [BallsInBins, pabi.Poisson])
def test_as_many_records_as_a_run_may_have(scheme):
    """Up to 10¹⁸ of them: the bound on the failure may be useless there, but is no error."""
    from pabi.describe.batches import binomial_tail

    assert 0.0 <= binomial_tail(10**17, 1e-3, 2 * 10**14) <= 1.0
    run = a_run(n=10**17, batches=scheme(10**14), epochs=0.003)
    assert run.guarantee(1e-20).epsilon(1e-20) >= 0.0
