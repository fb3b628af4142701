"""Attacks on the law of the distance under random batches: linear losses, whose last iterate is known."""

from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.account.analyses.random_batches import _drawn, pulls_apart
from pabi.account.facts.sampled import SampledRun
from pabi.account.shifts import random
from pabi.account.shifts.random import Cost, PayOff
from support.daily import of_today
from support.last_iterates import delta, histogram

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
EPSILONS = (0.0, 0.3, 1.5)


def random_run(rng) -> pabi.NoisySGD:
    """Some ten steps of a linear loss, with much noise or little, strong regularisers or none."""
    size = int(rng.integers(1, 6))
    batches = pabi.FixedSize(size) if rng.random() < 0.5 else pabi.Poisson(size, cap=40)
    step = float(rng.uniform(0.05, 0.5))
    return pabi.NoisySGD(
        pabi.Loss.convex(1.0, gradient_bound=1.0, glm=True, l2=float(rng.choice([0.0, 0.3, 1.5]))),
        batches=batches,
        n=40,
        epochs=None,
        steps=int(rng.integers(4, 10)),
        cooldown_steps=int(rng.integers(0, 3)),
        step_size=step,
        noise_std=float(np.exp(rng.uniform(-2.0, 0.5))) / size,
        clip_norm=1.0,
        adjacency=str(rng.choice(["zero_out", "replace_one"])),
    )


def with_a_long_cool_down(rng) -> pabi.NoisySGD:
    """Two or three batches that hold half of the records, and noise alone afterwards."""
    data = int(rng.integers(2, 4))
    return replace(
        random_run(rng),
        loss=pabi.Loss.convex(1.0, gradient_bound=1.0, glm=True),
        batches=pabi.Poisson(20, cap=40),
        steps=data + 8,
        cooldown_steps=8,
        noise_std=float(np.exp(rng.uniform(-1.5, 0.0))) / 20,
        adjacency="zero_out",
    )


def claim(run, rng):
    """The curve of a plan with the law of the distance, from a random start for a random tilt; or None."""
    view, power = SampledRun(run, 1e-5), float(rng.uniform(0.5, 8.0))
    cost = Cost(view.factor, view.probability, power, 50.0)
    window = int(rng.integers(max(1, run.cooldown_steps), run.steps))
    plan = _drawn(view, PayOff(cost, pulls_apart(view)), window, power)
    return None if plan is None else plan.curve


def exact(run) -> list[float]:
    """δ at every ε of the record whose gradient is C against −C, or against 0."""
    opposite = -1.0 if run.adjacency == "replace_one" else 0.0
    laws = histogram(run, 1.0), histogram(run, opposite)
    return [delta(*laws, epsilon) for epsilon in EPSILONS]


def attacks(count: int, seed: int, make=random_run) -> tuple[int, int]:
    """(attacks, successes)."""
    rng = np.random.default_rng(seed)
    tried = won = 0
    while tried < count:
        run = make(rng)
        curve = claim(run, rng)
        if curve is None:
            continue
        tried += 1
        truths = exact(run)
        won += any(t > curve.delta(e) + 1e-12 for t, e in zip(truths, EPSILONS, strict=True))
    return tried, won


@pytest.mark.parametrize("count", [6, pytest.param(500, marks=pytest.mark.nightly)])
def test_no_linear_loss_reveals_more_than_proven(count):
    today = of_today("linear losses") if count > 6 else count
    assert attacks(count, today) == (count, 0)


def test_a_distance_that_is_too_small_is_found(monkeypatch):
    """Half of every distance: some last iterates are further apart."""
    honest = random.drawn_distance

    def smaller(view, steps):
        law = honest(view, steps)
        return None if law is None else replace(law, values=0.5 * law.values)

    monkeypatch.setattr("pabi.account.analyses.random_batches.drawn_distance", smaller)
    _, won = attacks(12, 0, with_a_long_cool_down)
    assert won > 0


def test_a_long_cool_down_reveals_no_more_than_proven():
    assert attacks(12, 0, with_a_long_cool_down) == (12, 0)
