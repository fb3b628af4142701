"""One- and two-sided shifts against last iterates of known law, published bounds, and what is refused."""

import math

import numpy as np
import pytest

from pabi import Cyclic, FixedSize, Loss, NoisyIteration, NoisySGD, Poisson
from pabi.account.analyses import composition, random_batches
from pabi.literature import bok
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import Gaussian
from support.every_case import every
from support.last_iterates import truth

DELTA = 1e-5
READINGS = 1.0 + 2.5e-3  # two readings of ε, each up to 1e-3 above what it reads
LOSS = Loss.convex(1.0, gradient_bound=1.0, glm=True, l2=1.0)
PARABOLA = Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0)
SHIFTS = random_batches.apply, random_batches.two_sided_shift


def a_run(batches=None, **changes):
    settings = {"n": 20, "steps": 6, "step_size": 0.3, "noise_std": 0.5, "clip_norm": 1.0}
    batches = FixedSize(4) if batches is None else batches
    return NoisySGD(changes.pop("loss", LOSS), batches=batches, **settings | changes)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("batches", [FixedSize(4), Poisson(4), Poisson(4, cap=12)], ids=repr)
def test_linear_losses_are_never_safer_than_proven(batches, adjacency):
    there_or_not = batches.kind == "poisson" and adjacency == "zero_out"
    for changes in ({}, {"noise_std": 0.1, "cooldown_steps": 2}, {"loss": LOSS.with_l2(0.0)}):
        run = a_run(batches, adjacency=adjacency, **changes)
        shifts = SHIFTS[:1] if there_or_not else SHIFTS
        curves = [shift(run, DELTA).curve for shift in shifts]
        for epsilon in (0.0, 0.5, 2.0):
            assert truth(run, epsilon) <= min(curve.delta(epsilon) for curve in curves)


def test_one_step_of_poisson_batches_is_exact():
    """The record is there or not, and all noise hides it."""
    run = a_run(Poisson(4), steps=1, adjacency="zero_out", noise_std=0.3)
    curve = random_batches.apply(run, DELTA).curve
    for epsilon in (0.0, 0.2, 0.5):
        exact = truth(run, epsilon)
        assert exact <= curve.delta(epsilon) <= exact * (1.0 + 1e-2) + DELTA


@every("adjacency", ["replace_one", "zero_out"])
def test_a_long_cool_down_hides_a_full_batch_by_its_own_noise(adjacency):
    """A record in every batch: the last iterate is Gaussian, and most of its variance the cool-down's."""
    loss = LOSS.with_l2(0.0)
    run = a_run(FixedSize(20), loss=loss, steps=69, cooldown_steps=64, adjacency=adjacency)
    curve = random_batches.apply(run, DELTA).curve
    apart = 5.0 * (2.0 if adjacency == "replace_one" else 1.0) / (20.0 * 0.5)
    exact, cool_down = Gaussian(apart / math.sqrt(69.0)), Gaussian(apart / math.sqrt(64.0))
    for epsilon in (0.0, 0.1, 0.2):
        assert exact.delta(epsilon) <= curve.delta(epsilon)
        assert curve.delta(epsilon) <= cool_down.delta(epsilon) * 1.01 + DELTA


@pytest.mark.parametrize("steps", [2, 40, 10_000])
def test_steps_that_forget_everything_cost_one(steps):
    """With η = 1 and second derivatives of 1, x is the mean of what the batch says, whatever it was."""
    run = a_run(loss=PARABOLA, clip_norm=None, steps=steps, step_size=1.0)
    once = composition.apply(a_run(steps=1), DELTA).epsilon(DELTA)
    for shift in SHIFTS:
        assert shift(run, DELTA).epsilon(DELTA) <= once * READINGS


def test_never_above_the_published_bounds():
    """Bok, Su, Altschuler 2024, Thms 4.10 and 4.9, at every length of the window."""
    given = {"n": 1000, "noise_std": 0.12, "step_size": 0.1, "diameter": 0.3, "steps": 100_000}
    run = a_run(FixedSize(50), loss=LOSS.with_l2(0.0), **given)
    ours = random_batches.apply(run, DELTA).epsilon(DELTA)
    for window in (30, 100, 300, 1000):
        published = bok.theorem_4_10(L=2.0, b=50, start=100_000 - window, **given)
        assert ours <= published.value.epsilon(DELTA) * READINGS
    given = {"n": 5000, "steps": 2000, "noise_std": 0.02}
    ours = random_batches.two_sided_shift(a_run(FixedSize(100), step_size=0.1, **given), DELTA)
    for window in (1, 3, 10, 30, 100):
        published = bok.theorem_4_9(L=2.0, b=100, slope=0.9, start=2000 - window, **given)
        assert ours.epsilon(DELTA) <= published.value.epsilon(DELTA) * READINGS


def test_what_is_refused():
    there_or_not = a_run(Poisson(4), adjacency="zero_out")
    varying = a_run(step_size=np.linspace(0.3, 0.1, 6))
    for shifts, description, reason in (
        (SHIFTS, NoisyIteration(0.9, 0.1, 1.0, steps=3), "a bare iteration follows one record"),
        (SHIFTS, a_run(Cyclic(4)), "the batches are not drawn afresh at every step"),
        (SHIFTS, a_run(release="path"), "the path is released, so nothing is forgotten"),
        (SHIFTS, a_run(update="other"), "the update is not plain noisy SGD"),
        (SHIFTS, a_run(loss=Loss.unknown()), "curvature"),
        (SHIFTS[1:], there_or_not, "record pulls nowhere: see one-sided shift"),
        (SHIFTS[1:], varying, "step sizes or noises vary: see one-sided shift"),
        (SHIFTS[1:], a_run(steps=1), "one step leaves nothing to lag behind"),
    ):
        for shift in shifts:
            with pytest.raises(NotApplicable, match=reason):
                shift(description, DELTA)
