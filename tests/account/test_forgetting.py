"""Planning forgetting: arguments, the fewest epochs, and the least noise."""

from __future__ import annotations

from dataclasses import replace

import pytest

import pabi
from pabi.numbers.errors import InvalidInput, TargetUnreachable

RUN = pabi.NoisySGD(
    pabi.Loss.logistic(1.0, l2=0.02),
    n=2000,
    batches=pabi.Cyclic(100),
    epochs=5,
    step_size=0.5,
    noise_std=0.02,
    adjacency="zero_out",
)


def test_epochs_and_steps_say_the_same():
    assert RUN.unlearning(1e-5, epochs=2).mu == RUN.unlearning(1e-5, steps=40).mu
    assert RUN.unlearning(1e-5, epochs=0.51).mu == RUN.unlearning(1e-5, steps=11).mu
    assert (
        RUN.unlearning(1e-5, requests=[(2, 3)]).mu == RUN.unlearning(1e-5, steps=40, records=3).mu
    )


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
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
    ],
)
def test_what_is_wrong_is_named(arguments, field):
    with pytest.raises(InvalidInput) as refusal:
        RUN.unlearning(**arguments)
    assert refusal.value.field == field


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


@pytest.mark.parametrize("name", ["noise_std", "noise_multiplier"])
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
    with pytest.raises(InvalidInput, match="besides"):
        pabi.calibrate(RUN, 1.0, 1e-5, besides=[forgetting])


def test_units_are_not_mixed():
    records = RUN.unlearning(1e-5, epochs=1)
    users = replace(RUN, unit="user").unlearning(1e-5, epochs=1)
    with pytest.raises(InvalidInput, match="^unit: expected 'record' throughout, got 'user' too"):
        pabi.compose(records, users)


def test_no_chain_of_forgetting_models_is_made():
    """Its links would be compared with different retrained models; the number forgotten is stated."""
    one = RUN.unlearning(1e-5, epochs=1)
    for size in (1, 2):
        with pytest.raises(InvalidInput, match=r"^adjacency: .*'retrained'.*records="):
            one.for_groups(size)


def test_two_forgetting_models_compose():
    one = RUN.unlearning(1e-5, epochs=1)
    both = pabi.compose(one, one)
    assert both.adjacency == "retrained"
    assert both.mu == pytest.approx(2**0.5 * one.mu, rel=1e-12)
    assert pabi.verify(both).ok
