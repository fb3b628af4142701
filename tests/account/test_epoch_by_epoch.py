"""Epoch by epoch: what it proves beside the other analyses, and where it does not apply; and proofs that
leave the steps of a schedule to the description."""

import numpy as np
import pytest

import pabi
from pabi import Cyclic, Loss, NoisySGD, Reshuffle, ShuffleOnce
from pabi.account.best import best_of, outcomes
from pabi.account.facts import positions
from pabi.numbers.encoding import read_floats
from support.certificates import all_refused

DELTA = 1e-6


def a_run(batches=None, **changes):
    settings = {"loss": Loss.softmax(1.0, l2=1e-4), "n": 20_000, "epochs": 20, "step_size": 1.0}
    settings |= {"noise_multiplier": 1.5, "clip_norm": 1.0, "adjacency": "zero_out"} | changes
    return NoisySGD(batches=batches or Reshuffle(500), **settings)


def rows(run):
    return {o.name: o for o in outcomes(run, DELTA)}


def read(found, name="epoch by epoch"):
    guarantee = found[name].guarantee
    assert guarantee is not None
    return guarantee.epsilon(DELTA)


def epsilon(run, name="epoch by epoch"):
    return read(rows(run), name)


def best(found):
    """What `run.guarantee` gives, of analyses that have been asked."""
    return best_of([*found.values()], DELTA)


def cosine(steps):
    return 0.5 * (1.0 + np.cos(np.pi * np.arange(steps) / steps))


@pytest.mark.parametrize("step_size", [1.0, cosine(800)], ids=["constant", "cosine"])
def test_expanding_steps_need_not_end_in_composition(step_size):
    """Shuffling once averages over all epochs at once, so that it is better; composition hides nothing."""
    run = a_run(step_size=step_size)
    once = a_run(ShuffleOnce(500), step_size=step_size).guarantee(DELTA).epsilon(DELTA)
    found = rows(run)
    assert once < read(found) < 1.6 * once
    assert best(found).method == "epoch by epoch"
    assert read(found) < 0.5 * read(found, "composition")


def test_steps_that_hardly_expand_lose_next_to_nothing():
    """Without expansion the secret order is exact but for its ranges of positions."""
    run = a_run(loss=Loss.convex(1.0, gradient_bound=1.0), epochs=5)
    almost = a_run(loss=Loss.nonconvex(1e-9, gradient_bound=1.0), epochs=5)
    assert "see secret order" in rows(run)["epoch by epoch"].reason
    assert epsilon(run, "secret order") == pytest.approx(epsilon(almost), rel=0.01)


def test_a_certificate_with_other_distances_is_refused():
    payload = rows(a_run(n=2_000, epochs=4))["epoch by epoch"].guarantee.certificate.payload
    more = [*read_floats("r", payload["resting"]).tolist(), 1.0]
    all_refused(
        payload,
        [
            ("resting *= 0.8", "payments|distance"),
            (f"resting = {more}", "expected 3 distances"),
            ("resting = [-1.0, -1.0, -1.0]", "finite numbers"),
        ],
    )


def test_reasons():
    for run, words in (
        (a_run(Cyclic(500)), "fixed order"),
        (a_run(ShuffleOnce(500)), "keeps its place"),
        (a_run(epochs=1), "one epoch only"),
        (a_run(epochs=30_000), "more than 1000000 steps"),
        (a_run(release="path"), "path"),
    ):
        assert words in (rows(run)["epoch by epoch"].reason or "")


# Proofs of schedules that vary close in exact arithmetic where they leave their steps to the description: the
# slopes that payments were found under are rounded up, and those derived again are not.

STEPS = 1200
LINEAR = ("shifted interpolation", "secret order", "latest uses", "epoch by epoch", "unlearning")


def falling(batches, loss, **changes):
    """A cosine schedule, whose last steps are so short that their slopes round to 1."""
    share = 0.5 * (1.0 + np.cos(np.pi * np.arange(STEPS) / STEPS))
    fields = {"steps": STEPS, "step_size": 0.5 * share + 1e-9, "noise_std": 0.05}
    return NoisySGD(loss, 240, batches, **{**fields, **changes})


LOGISTIC = Loss.logistic(1.0, l2=0.01)
RUNS = {
    "cyclic": falling(Cyclic(24), LOGISTIC),
    "shuffled": falling(ShuffleOnce(24), LOGISTIC),
    "reshuffled": falling(Reshuffle(60), LOGISTIC),
    "a diameter": falling(Cyclic(24), LOGISTIC, diameter=0.5),
    "forgetting": pabi.Unlearning(falling(Cyclic(24), LOGISTIC), [(40, 2), (40, 1)]),
    "clipped, expanding": falling(Cyclic(24), Loss.softmax(1.0, l2=0.1), clip_norm=0.5),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_leaves_its_steps_to_the_description_verifies(name, monkeypatch):
    """At a bound that is a few 2^-50 above for every step at most."""
    run = RUNS[name]
    linear = [o.guarantee for o in outcomes(run, DELTA) if o.name in LINEAR and o.guarantee]
    assert linear
    monkeypatch.setattr(positions, "_MOST_STATED", 0)
    again = [o.guarantee for o in outcomes(run, DELTA) if o.name in LINEAR and o.guarantee]
    for one, other in zip(linear, again, strict=True):
        epsilon, least = other.epsilon(DELTA), one.epsilon(DELTA)
        assert least <= epsilon <= least * (1.0 + STEPS * 2.0**-47)
