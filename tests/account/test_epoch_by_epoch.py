"""Epoch by epoch: what it proves beside the other analyses, and where it does not apply."""

from __future__ import annotations

import numpy as np
import pytest

import pabi
from pabi import Cyclic, Loss, NoisySGD, Reshuffle, ShuffleOnce
from pabi.account.best import best_of, outcomes

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


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": None, "steps": 790},
        {"n": 19_900},
        {"cooldown_steps": 30},
        {"diameter": 1.0},
        {"epochs": 2},
        {"step_size": 4.0},
    ],
    ids=str,
)
def test_every_kind_of_run_is_verified(changes):
    found = rows(a_run(**changes))
    guarantee = found["epoch by epoch"].guarantee
    assert pabi.verify(guarantee.to_json()).ok
    assert guarantee.assumptions == best(found).assumptions


def test_a_certificate_with_other_distances_is_refused():
    guarantee = rows(a_run(n=2_000, epochs=4))["epoch by epoch"].guarantee
    payload = guarantee.certificate.payload
    distances = [0.8 * r for r in pabi.numbers.encoding.read_floats("r", payload["resting"])]
    for resting, words in (
        (distances, "payments|distance"),
        ([*distances, 1.0], "expected 3 distances"),
        ([-1.0] * 3, "finite numbers"),
    ):
        verdict = pabi.verify({**payload, "resting": resting})
        assert not verdict.ok
        assert any(word in verdict.reason for word in words.split("|")), verdict.reason


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (a_run(Cyclic(500)), "fixed order"),
        (a_run(ShuffleOnce(500)), "keeps its place"),
        (a_run(epochs=1), "one epoch only"),
        (a_run(epochs=30_000), "more than 1000000 steps"),
        (a_run(release="path"), "path"),
    ],
)
def test_reasons(run, words):
    assert words in (rows(run)["epoch by epoch"].reason or "")
