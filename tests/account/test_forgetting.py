"""Planning forgetting: arguments, the fewest epochs, and the least noise."""

import itertools
from dataclasses import replace
from fractions import Fraction as F
from math import inf

import numpy as np
import pytest

import pabi
from pabi.account.facts.demand import Demand
from pabi.account.facts.positions import OrderedView
from pabi.account.forgetting import read_bill
from pabi.numbers.errors import InvalidInput, NotApplicable, TargetUnreachable
from support.every_case import every, refused

GIVEN = {"epochs": 5, "step_size": 0.5, "noise_std": 0.02, "adjacency": "zero_out"}
RUN = pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=0.02), 2000, pabi.Cyclic(100), **GIVEN)


def test_epochs_and_steps_say_the_same():
    two = RUN.unlearning(1e-5, epochs=2)
    assert two.mu == RUN.unlearning(1e-5, steps=40).mu
    assert RUN.unlearning(1e-5, epochs=0.51).mu == RUN.unlearning(1e-5, steps=11).mu
    three = RUN.unlearning(1e-5, requests=[(2, 3)])
    assert three.mu == RUN.unlearning(1e-5, steps=40, records=3).mu


def test_what_is_wrong_is_named():
    for arguments, field in (
        ({}, "epochs"),
        ({"epochs": 1, "steps": 20}, "epochs"),
        ({"epochs": 1, "requests": [(1, 1)]}, "epochs"),
        ({"requests": [(1, 1)], "records": 2}, "records"),
        ({"requests": [(1, 1, 1)]}, "requests"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": "1"}, "epochs"),
        ({"epochs": 1e300}, "epochs"),
        ({"steps": 1.5}, "steps"),
        ({"epochs": 1, "records": 0}, "records"),
        ({"epochs": 1, "records": 2001}, "requests"),
        ({"epochs": 1, "published": "yes"}, "published"),
        ({"epochs": 1, "delta": 1.0}, "delta"),
    ):
        refused(field, RUN.unlearning, **arguments)


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
@pytest.mark.parametrize("records", [1, 5])
def test_the_fewest_epochs_are_enough_and_one_less_is_not(epsilon, records):
    epochs = RUN.epochs_to_forget(epsilon, 1e-5, records)
    assert epochs > 0
    assert RUN.unlearning(1e-5, epochs=epochs, records=records).epsilon(1e-5) <= epsilon
    assert RUN.unlearning(1e-5, epochs=epochs - 1, records=records).epsilon(1e-5) > epsilon


def test_a_model_that_is_private_enough_has_forgotten():
    assert RUN.epochs_to_forget(1000.0, 1e-5) == 0


def test_steps_that_expand_forget_nothing():
    run = replace(RUN, loss=pabi.Loss.nonconvex(1.0, gradient_bound=1.0), batches=pabi.FullBatch())
    with pytest.raises(TargetUnreachable, match="cannot be met by epochs") as refusal:
        run.epochs_to_forget(0.01, 1e-5)
    assert refusal.value.best > 0.01


@every("name", ["noise_std", "noise_multiplier"])
def test_the_least_noise_is_enough_and_less_is_not(name):
    run = replace(RUN, clip_norm=0.5, **({"noise_std": None} | {name: 1.0}))
    found = run.with_noise_to_forget(0.2, 1e-5, epochs=1, records=2)
    noise = getattr(found, name)
    assert found.unlearning(1e-5, epochs=1, records=2).epsilon(1e-5) <= 0.2
    less = replace(found, **{name: noise * (1 - 1e-6)})
    assert less.unlearning(1e-5, epochs=1, records=2).epsilon(1e-5) > 0.2


def test_a_run_without_noise_gets_some():
    run = replace(RUN, noise_std=None)
    assert run.with_noise_to_forget(0.2, 1e-5).noise_std > 0.0


def test_an_explanation_lists_the_ways_to_forget():
    rows = {row.method: row for row in pabi.Unlearning(RUN, [(20, 1)]).explain(1e-5)}
    assert rows["unlearning"].epsilon < rows["unlearning, composition"].epsilon
    assert not rows["unlearning, random batches"].applies


def test_forgetting_is_not_mixed_with_training(tmp_path):
    training, forgetting = RUN.guarantee(1e-5), RUN.unlearning(1e-5, epochs=1)
    for mix in (pabi.compose, lambda *both: pabi.select(list(both), mean_trials=3)):
        with pytest.raises(InvalidInput, match="forgetting is compared with retraining"):
            mix(training, forgetting)
    ledger = pabi.Ledger(tmp_path / "people.ledger", epsilon=3.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="no request reacts to a release"):
        ledger.spend(forgetting)
    refused("besides", pabi.calibrate, RUN, 1.0, 1e-5, besides=[forgetting])
    # Links of a chain would be compared with different models; the number forgotten is stated.
    for size in (1, 2):
        with pytest.raises(InvalidInput, match=r"^adjacency: .*'retrained'.*records="):
            forgetting.for_groups(size)
    both = pabi.compose(forgetting, forgetting)
    assert (both.adjacency, pabi.verify(both).ok) == ("retrained", True)
    assert both.mu == pytest.approx(2**0.5 * forgetting.mu, rel=1e-12)


@every("adjacency", ["zero_out", "replace_one"])
@every("of", ["unlearning", "guarantee"])
def test_every_answer_has_the_bill(adjacency, of):
    """ε of the training, of all steps as one run, of all its iterates, and of two trainings."""
    run = replace(RUN, adjacency=adjacency)
    if of == "unlearning":
        answer = run.unlearning(1e-5, requests=[(2, 1), (3, 4)])
    else:
        answer = pabi.Unlearning(run, [(40, 1), (60, 4)]).guarantee(1e-5)
    bill = read_bill(pabi.Guarantee.from_json(answer.to_json()).notes)
    training = run.guarantee(1e-5)
    whole = replace(run, epochs=10.0)
    assert bill.before == (training.epsilon(1e-5), training.epsilon(1e-5), 5.0)
    assert bill.going_on.epochs == 5.0
    # The same proof of the same steps, once as a number and once as an array: a last digit of difference.
    assert bill.going_on.epsilon == pytest.approx(whole.guarantee(1e-5).epsilon(1e-5), rel=1e-9)
    path = replace(whole, release="path").guarantee(1e-5).epsilon(1e-5)
    assert bill.going_on.epsilon <= bill.going_on.released <= path * (1 + 1e-9)
    both = pabi.compose(training, training).epsilon(1e-5)
    assert bill.retraining == (training.epsilon(1e-5), both, 5.0)


def test_those_who_stay_are_not_promised_the_curvature_of_who_left():
    """Two records with the strongly convex loss m‖x‖²/2, full batches. Without one a step contracts by
    1 − ηm/2, so that the other's influence lasts longer than in a run with both."""
    step, m, bound, noise, first, later = 1.0, 0.5, 1.0, 0.5, 2, 40
    given = {"epochs": first, "step_size": step, "noise_std": noise, "adjacency": "zero_out"}
    loss = pabi.Loss.strongly_convex(m, smoothness=1.0, gradient_bound=bound)
    run = pabi.NoisySGD(loss, 2, pabi.FullBatch(), **given)
    shift, variance = 0.0, 0.0
    for slope in [1 - step * m] * first + [1 - step * m / 2] * later:
        shift = slope * shift + step * bound / 2
        variance = slope**2 * variance + (step * noise) ** 2
    truth = pabi.tradeoff.Gaussian(shift / variance**0.5).epsilon(1e-5)
    with_both = replace(run, epochs=first + later).guarantee(1e-5).epsilon(1e-5)
    assert with_both < 0.9 * truth  # what must not be said
    bill = read_bill(run.unlearning(1e-5, steps=later).notes)
    assert bill.going_on.epsilon >= truth
    assert bill.dear


def test_a_cool_down_in_between_is_in_no_proof():
    """All iterates are paid for: no modulus is used where none is proven."""
    bill = read_bill(replace(RUN, cooldown_steps=7).unlearning(1e-5, epochs=1).notes)
    assert bill.going_on.epsilon == bill.going_on.released > bill.before.epsilon


def test_what_is_not_proven_is_infinite(monkeypatch):
    from pabi.account import forgetting

    def nothing(run, delta):
        raise NotApplicable("no analysis")

    real = forgetting.best_guarantee
    unlearning = pabi.Unlearning(RUN, [(20, 1)])
    monkeypatch.setattr(forgetting, "best_guarantee", nothing)
    bill = forgetting.bill_of(unlearning, 1e-5)
    assert bill.going_on[:2] == bill.retraining[:2] == bill.before[:2] == (inf, inf)
    assert real(RUN, 1e-5).noting(bill.noted()).to_json()
    assert read_bill(bill.noted()) == bill


def test_notes_that_are_no_bill_are_none():
    negative = {"epochs": 1, "epsilon": -1, "released": 1}
    notes = [{"delta": 2.0, "before": {}, "retraining": {}}, {"delta": 1e-5, "before": negative}]
    notes += [{}, {"delta": 1e-5}, {"delta": 1e-5, "before": [1, 2, 3]}, {"delta": 10**400}]
    for noted in (*notes, "text", None):
        assert read_bill({"those_who_stay": noted}) is None
    assert read_bill({}) is None


# Who may be left in a batch, and what withdrawn records may add to the distance.


def run_of(batches, **changes):
    given = {"n": 7, "steps": 8, "step_size": 0.5, "noise_std": 1.0, "adjacency": "zero_out"}
    return pabi.NoisySGD(pabi.Loss.logistic(1.0), batches=batches, **(given | changes))


def test_a_batch_may_lack_all_withdrawn_records():
    run = run_of(pabi.Cyclic(3))
    assert Demand.of(run).left((F(1), F(1, 3)), 1) == (F(0), F(1))
    assert Demand.of(run).left((F(1),), 2) == (F(1, 3), F(1))
    assert Demand.of(run).left((F(1),), 9) == (F(0), F(1))
    assert Demand.of(run_of(pabi.Cyclic(3), adjacency="replace_one")).left((F(1),), 2) == (F(1),)


@every("batches", [pabi.ShuffleOnce(3), pabi.BallsInBins(3)])
@every("records", [1, 2, 3])
def test_the_chance_that_none_is_there_counts_all_ways(batches, records):
    run = run_of(batches)
    if isinstance(batches, pabi.ShuffleOnce):
        places = [0, 0, 0, 1, 1, 1, 2]
        ways = list(itertools.permutations(places, records))
    else:
        ways = list(itertools.product(range(3), repeat=records))
    for count in range(3):  # the last batches, this many of them
        share = run.order.share(3 - count, 2) if count else F(0)
        without = sum(all(j < 3 - count for j in way) for way in ways)
        assert Demand.of(pabi.Unlearning(run, [(1, records)])).none_in(share) == F(
            without, len(ways)
        )


@every("batches", [pabi.ShuffleOnce(3), pabi.Reshuffle(3), pabi.BallsInBins(3)])
def test_one_record_is_last_where_it_is(batches):
    run = run_of(batches)
    shares = [run.order.share(j, j) for j in range(3)]
    assert Demand.of(run).last_in(shares) == shares
    assert Demand.of(run).last_in(shares[1:]) == shares[1:]


def test_several_records_fill_batches_one_after_another():
    unlearning = pabi.Unlearning(run_of(pabi.Cyclic(3)), [(2, 1), (4, 4)])
    view, unit = OrderedView(unlearning, 1e-5), 0.5 / 3.0
    every = [3] * 8 + [3] * 2 + [0] * 4  # five, later four, at most three a batch
    np.testing.assert_allclose(view.every(3), np.array(every) * unit, rtol=1e-15)
    last = np.zeros(14)
    last[[1, 4, 7]] += 1.0  # used last in step 7, before the first request
    last[[0, 3, 6, 9]] += 4.0  # used last in step 9, before the second
    np.testing.assert_allclose(view.last(), last * unit, rtol=1e-15)
    latest = np.zeros(14)
    latest[[2, 5, 7]] += 1.0
    latest[[2, 5, 8, 9]] += 4.0
    np.testing.assert_allclose(view.latest(), latest * unit, rtol=1e-14)


def test_a_use_that_stands_for_earlier_ones_is_as_large_as_they_become():
    """Steps that expand by 1.2: the first use of an epoch of two, moved to its end."""
    given = {"steps": 4, "step_size": 0.5, "noise_std": 1.0, "adjacency": "zero_out"}
    loss = pabi.Loss.nonconvex(0.4, gradient_bound=1.0)
    run = pabi.NoisySGD(loss, n=4, batches=pabi.Cyclic(2), **given)
    view = OrderedView(pabi.Unlearning(run, [(1, 1), (2, 1)]), 1e-5)
    owed = view.latest()
    np.testing.assert_allclose(owed[[1, 3]], 2 * 0.25 * 1.2, rtol=1e-14)
    assert owed[4] == pytest.approx(0.25, rel=1e-14)
    assert not owed[[0, 2, 5, 6]].any()
