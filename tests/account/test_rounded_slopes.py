"""Proofs of schedules that vary close in exact arithmetic where they leave their steps to the description.

The slopes that payments were found under are rounded up, and those derived again are not.
"""

from __future__ import annotations

import numpy as np
import pytest

import pabi
from pabi import Cyclic, Loss, NoisySGD, Reshuffle, ShuffleOnce
from pabi.account.best import outcomes
from pabi.account.facts import positions

DELTA, STEPS = 1e-5, 1200


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
        verdict = pabi.verify(other)
        assert verdict.ok, (other.method, verdict.reason)
        epsilon, least = other.epsilon(DELTA), one.epsilon(DELTA)
        assert least <= epsilon <= least * (1.0 + STEPS * 2.0**-47)


LINEAR = ("shifted interpolation", "secret order", "latest uses", "epoch by epoch", "unlearning")
