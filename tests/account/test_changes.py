"""What to change for a smaller ε: every number is that of a run which is described, and another training."""

import math
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.account import changes as module
from pabi.account.facts.positions import OrderedView
from pabi.describe.files import from_dict, to_dict

DELTA = 1e-6
FALLING = np.linspace(1.0, 0.1, 800)
BINS = pabi.BallsInBins(500, 700, redraw="epoch")


def a_run(**changed):
    fields = {"n": 20_000, "batches": pabi.Reshuffle(500), "epochs": 20, "step_size": 1.0}
    fields |= {"loss": pabi.Loss.logistic(feature_norm=1.0, l2=1e-3), "noise_multiplier": 1.5}
    return pabi.NoisySGD(**{**fields, **changed})


def rough(loss, **changed):
    return a_run(loss=loss, noise_multiplier=None, noise_std=0.003, **changed)


RUNS = {
    "reshuffled": a_run(),
    "falling": a_run(step_size=FALLING),
    "noise that varies": a_run(step_size=FALLING, noise_multiplier=np.linspace(1.4, 1.6, 800)),
    "cyclic": a_run(batches=pabi.Cyclic(500)),
    "a number of steps": a_run(batches=pabi.Cyclic(500), epochs=None, steps=790),
    "Poisson": a_run(batches=pabi.Poisson(500, cap=800)),
    "fixed size": a_run(batches=pabi.FixedSize(500)),
    "bins, every epoch": a_run(batches=BINS, step_size=FALLING),
    "some left out": a_run(batches=pabi.Reshuffle(500, spare=200), step_size=FALLING),
    "full": a_run(batches=pabi.FullBatch()),
    "path": a_run(release="path"),
    "momentum": a_run(update=pabi.updates.Momentum()),
    "momentum and path": a_run(update="other", release="path"),
    "large steps": a_run(step_size=12.0),
    "steps of which some are large": a_run(step_size=12.0 * FALLING),
    "clipped, not linear": a_run(loss=pabi.Loss.convex(smoothness=0.5), clip_norm=1.0),
    "kinks": rough(pabi.Loss.lipschitz(1.0, l2=1e-3)),
    "kinks, and steps that fall": rough(pabi.Loss.lipschitz(1.0), step_size=FALLING),
    "Hölder gradients": rough(pabi.Loss.weakly_smooth([(0.5, 1.0)], gradient_bound=1.0)),
    "unknown": a_run(loss=pabi.Loss.unknown(), clip_norm=1.0),
    "cooled": a_run(cooldown_steps=40),
}


@pytest.fixture(autouse=True)
def _in_time(monkeypatch):
    """However slow the machine is that the tests run on."""
    monkeypatch.setattr(module, "_AT_LEAST", 60.0)
    monkeypatch.setattr(module, "SLOW", 60.0)


@pytest.mark.parametrize("name", RUNS)
def test_every_change_is_a_run_that_costs_as_much(name):
    run = RUNS[name]
    explanation = run.explain(DELTA)
    losses = [change.epsilon for change in explanation.changes]
    assert losses == sorted(losses)
    assert len(losses) <= 3
    for change in explanation.changes:
        assert change.description != run, "a change is another training"
        assert change.epsilon < 0.95 * run.guarantee(DELTA).epsilon(DELTA)
        again = from_dict(to_dict(change.description))
        assert again == change.description
        assert again.guarantee(DELTA).epsilon(DELTA) == change.epsilon
        assert again.data_steps == run.data_steps, "as many steps see data"
        lines = [x for x in str(explanation).splitlines() if f"  with {change.what}: ε = " in x]
        assert any(change.training in line for line in lines)


def by_what(run):
    return {change.what: change for change in run.explain(DELTA).changes}


def test_one_order_for_all_epochs_keeps_what_else_is_said():
    bins, drawn = pabi.BallsInBins, pabi.BallsInBins(500, redraw="epoch")
    once = pabi.ShuffleOnce(500, 200)
    for batches, other, what in (
        (pabi.Reshuffle(500, 200), once, "ShuffleOnce(500, spare=200)"),
        (BINS, bins(500, 700), "BallsInBins(500, cap=700)"),
        (drawn, bins(500), "BallsInBins(500)"),
    ):
        edit = module._drawn_once(a_run(batches=batches))
        assert edit.what == f"batches={what}"
        assert edit.fields == {"batches": other}
        assert module._drawn_once(a_run(batches=other)) is None


def test_the_fields_that_change_are_those_that_are_named():
    for name, what, changed in (
        ("cyclic", "batches=ShuffleOnce(500)", {"batches": pabi.ShuffleOnce(500)}),
        ("cyclic", "cooldown_steps=40", {"cooldown_steps": 40}),
        ("path", 'release="last"', {"release": "last"}),
        ("momentum", 'update="sgd"', {"update": "sgd"}),
        (
            "momentum and path",
            'release="last" and update="sgd"',
            {"release": "last", "update": "sgd"},
        ),
    ):
        assert by_what(RUNS[name])[what].description == replace(RUNS[name], **changed)
    longer = by_what(RUNS["a number of steps"])["cooldown_steps=40"].description
    assert (longer.steps, longer.data_steps, longer.cooldown_steps) == (830, 790, 40)


def test_a_constant_step_has_the_mean_of_the_schedule():
    explanation = module.changes(RUNS["falling"], DELTA, math.inf, 0.0)
    constant = [c for c in explanation if c.what.startswith("step_size=")]
    assert [c.description.step_size for c in constant] == [pytest.approx(FALLING.mean(), rel=1e-3)]


@pytest.mark.parametrize("name", ["large steps", "steps of which some are large"])
def test_smaller_steps_expand_nothing_and_are_about_the_largest(name):
    run = RUNS[name]
    assert not OrderedView(run).nonexpansive
    changes = [c for c in run.explain(DELTA).changes if c.what.startswith("step_size")]
    assert changes
    for change in changes:
        sizes = np.asarray(change.description.step_size)
        assert OrderedView(change.description).nonexpansive
        largest = 2.0 / (0.25 + 1e-3)  # 2 over the curvature with the regulariser
        assert 0.99 * largest < sizes.max() <= largest
        before, _ = run.schedule(0, run.steps)
        after, _ = change.description.schedule(0, run.steps)
        assert np.array_equal(after, np.minimum(before, sizes.max()))


def test_what_cannot_help_is_not_listed():
    changes = RUNS["unknown"].explain(DELTA).changes
    assert changes
    assert all(change.what.startswith("batches=") for change in changes)
    assert "cooldown_steps" not in str(RUNS["cooled"].explain(DELTA))
    assert RUNS["clipped, not linear"].explain(DELTA).advice == ()
    assert a_run(batches=pabi.FullBatch(), epochs=5).explain(0.0).changes == ()


def test_of_a_loss_nobody_knows_it_says_what_would_help_and_no_number():
    explanation = RUNS["unknown"].explain(DELTA)
    (sentence,) = explanation.advice
    assert "Loss.logistic(feature_norm)" in sentence
    assert sentence in str(explanation)


@pytest.mark.parametrize("name", ["kinks", "kinks, and steps that fall", "Hölder gradients"])
def test_kinks_are_rounded_off_as_far_as_steps_expand_nothing(name):
    """The curvature is about 2 over the step, and the ε that of the run with such a loss."""
    run = RUNS[name]
    changes = [c for c in run.explain(DELTA).changes if c.what.startswith("loss=")]
    assert changes
    for change in changes:
        smooth = change.description.loss
        assert smooth.kind == "convex"
        assert (smooth.l2, smooth.gradient_bound) == (run.loss.l2, 1.0)
        assert OrderedView(change.description).nonexpansive
        assert 1.97 < smooth.curvature[1] <= 2.0
        assert change.epsilon < 0.5 * run.guarantee(DELTA).epsilon(DELTA)
        assert f"Loss.convex({smooth.curvature[1]:.3g}" in change.what


def test_of_a_loss_with_kinks_it_says_which_smooth_losses_there_are():
    (sentence,) = RUNS["kinks"].explain(DELTA).advice
    for name in ("Loss.smoothed_hinge", "Loss.huber", "Loss.convex"):
        assert name in sentence
        assert hasattr(pabi.Loss, name.removeprefix("Loss."))
    for other in ("cyclic", "large steps", "clipped, not linear"):
        assert RUNS[other].explain(DELTA).advice == ()
    assert module.advice(rough(pabi.Loss.saddle(1.0))) == ()


def test_nothing_is_tried_where_one_guarantee_is_slow(monkeypatch):
    monkeypatch.setattr(module, "SLOW", 2.0)
    run = RUNS["cyclic"]
    slow = replace(run.explain(DELTA), seconds=2.1)
    assert slow.changes == ()
    assert "no change was tried: accounting took 2.1 s" in str(slow)
    assert replace(slow, seconds=0.0).changes
