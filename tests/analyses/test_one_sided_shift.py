"""The one-sided shift against last iterates of known law, the published bound, and what is refused."""

from __future__ import annotations

import math

import pytest

from pabi import Cyclic, FixedSize, Loss, NoisyIteration, NoisySGD, Poisson
from pabi.analyses import composition, one_sided_shift
from pabi.literature import bok
from pabi.numbers.encoding import read_floats
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import Gaussian
from support.every_case import every_case
from support.last_iterates import truth

DELTA = 1e-5
READINGS = 1.0 + 2.5e-3  # two readings of ε, each up to 1e-3 above what it reads
LOSS = Loss.convex(1.0, gradient_bound=1.0, glm=True, l2=1.0)
PARABOLA = Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0)


def a_run(batches, **changes):
    settings = {"n": 20, "steps": 6, "step_size": 0.3, "noise_std": 0.5, "clip_norm": 1.0}
    return NoisySGD(changes.pop("loss", LOSS), batches=batches, **settings | changes)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("batches", [FixedSize(4), Poisson(4), Poisson(4, cap=12)])
def test_linear_losses_are_never_safer_than_proven(batches, adjacency):
    for changes in ({}, {"noise_std": 0.1, "cooldown_steps": 2}, {"loss": LOSS.with_l2(0.0)}):
        run = a_run(batches, adjacency=adjacency, **changes)
        curve = one_sided_shift.apply(run, DELTA).curve
        for epsilon in (0.0, 0.5, 2.0):
            assert truth(run, epsilon) <= curve.delta(epsilon)


def test_one_step_of_poisson_batches_is_exact():
    """The record is there or not, and all noise hides it."""
    run = a_run(Poisson(4), steps=1, adjacency="zero_out", noise_std=0.3)
    curve = one_sided_shift.apply(run, DELTA).curve
    for epsilon in (0.0, 0.2, 0.5):
        exact = truth(run, epsilon)
        assert exact <= curve.delta(epsilon) <= exact * (1.0 + 1e-2) + DELTA


@every_case("adjacency", ["replace_one", "zero_out"])
def test_a_long_cool_down_hides_a_full_batch_by_its_own_noise(adjacency):
    """A record in every batch: the last iterate is Gaussian, and little of its variance is not the
    cool-down's."""
    loss = LOSS.with_l2(0.0)
    run = a_run(FixedSize(20), loss=loss, steps=69, cooldown_steps=64, adjacency=adjacency)
    curve = one_sided_shift.apply(run, DELTA).curve
    apart = 5.0 * (2.0 if adjacency == "replace_one" else 1.0) / (20.0 * 0.5)
    exact, cool_down = Gaussian(apart / math.sqrt(69.0)), Gaussian(apart / math.sqrt(64.0))
    for epsilon in (0.0, 0.1, 0.2):
        assert exact.delta(epsilon) <= curve.delta(epsilon)
        assert curve.delta(epsilon) <= cool_down.delta(epsilon) * 1.01 + DELTA


@every_case("steps", [2, 40, 10_000])
def test_steps_that_forget_everything_cost_one(steps):
    """With η = 1 and second derivatives of 1, x is the mean of what the batch says, whatever it was."""
    run = a_run(FixedSize(4), loss=PARABOLA, clip_norm=None, steps=steps, step_size=1.0)
    once = composition.apply(a_run(FixedSize(4), steps=1), DELTA).epsilon(DELTA)
    assert one_sided_shift.apply(run, DELTA).epsilon(DELTA) <= once * READINGS


def test_never_above_the_published_bound():
    """Bok, Su, Altschuler 2024, Thm 4.10, at every length of the window."""
    run = a_run(
        FixedSize(50),
        loss=LOSS.with_l2(0.0),
        n=1000,
        steps=100_000,
        step_size=0.1,
        noise_std=0.12,
        diameter=0.3,
    )
    ours = one_sided_shift.apply(run, DELTA).epsilon(DELTA)
    for window in (30, 100, 300, 1000):
        published = bok.theorem_4_10(
            L=2.0,
            b=50,
            n=1000,
            noise_std=0.12,
            step_size=0.1,
            diameter=0.3,
            steps=run.steps,
            start=run.steps - window,
        )
        assert ours <= published.value.epsilon(DELTA) * READINGS


def test_the_certificate_says_how_the_distance_is_paid_off():
    """Every step of the window has a factor of its own, and a part of its noise hides the shift."""
    run = a_run(Poisson(4), adjacency="zero_out", steps=400, noise_std=0.2)
    guarantee = one_sided_shift.apply(run, DELTA)
    plan = guarantee.certificate.payload["plan"]
    lengths, shares = plan["lengths"], read_floats("shares", plan["shares"])
    assert len(lengths) == len(shares)
    assert ((shares >= 0.0) & (shares < 1.0)).all()
    assert 0 < sum(lengths) < run.steps
    assert sum(
        k for factor, k in guarantee.curve.factors if not isinstance(factor, Gaussian)
    ) >= sum(lengths)


REFUSED = {
    "bare": (NoisyIteration(0.9, 0.1, 1.0, steps=3), "a bare iteration follows one record"),
    "cyclic": (a_run(Cyclic(4)), "the batches are not drawn afresh at every step"),
    "path": (a_run(FixedSize(4), release="path"), "the path is released, so nothing is forgotten"),
    "update": (a_run(FixedSize(4), update="other"), "the update is not plain noisy SGD"),
    "unknown": (a_run(FixedSize(4), loss=Loss.unknown()), "curvature"),
}


@every_case("name", REFUSED)
def test_what_is_refused(name):
    description, reason = REFUSED[name]
    with pytest.raises(NotApplicable, match=reason):
        one_sided_shift.apply(description, DELTA)
