"""The two-sided shift against last iterates of known law, the published bound, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from pabi import Cyclic, FixedSize, Loss, NoisyIteration, NoisySGD, Poisson
from pabi.analyses import composition, two_sided_shift
from pabi.literature import bok
from pabi.numbers.encoding import read_floats
from pabi.numbers.errors import NotApplicable
from support.every_case import every_case
from support.last_iterates import truth

DELTA = 1e-5
READINGS = 1.0 + 2.5e-3  # two readings of ε, each up to 1e-3 above what it reads
LOSS = Loss.convex(1.0, gradient_bound=1.0, glm=True, l2=1.0)
PARABOLA = Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0)


def a_run(batches=None, **changes):
    settings = {"n": 20, "steps": 6, "step_size": 0.3, "noise_std": 0.5, "clip_norm": 1.0}
    batches = FixedSize(4) if batches is None else batches
    return NoisySGD(changes.pop("loss", LOSS), batches=batches, **settings | changes)


@pytest.mark.parametrize(
    ("batches", "adjacency"),
    [(FixedSize(4), "replace_one"), (FixedSize(4), "zero_out"), (Poisson(4), "replace_one")],
)
def test_linear_losses_are_never_safer_than_proven(batches, adjacency):
    for changes in ({}, {"noise_std": 0.1, "cooldown_steps": 2}, {"loss": LOSS.with_l2(0.0)}):
        run = a_run(batches, adjacency=adjacency, **changes)
        curve = two_sided_shift.apply(run, DELTA).curve
        for epsilon in (0.0, 0.5, 2.0):
            assert truth(run, epsilon) <= curve.delta(epsilon)


@every_case("steps", [2, 40, 10_000])
def test_steps_that_forget_everything_cost_one(steps):
    """With η = 1 and second derivatives of 1, x is the mean of what the batch says, whatever it was."""
    run = a_run(loss=PARABOLA, clip_norm=None, steps=steps, step_size=1.0)
    once = composition.apply(a_run(steps=1), DELTA).epsilon(DELTA)
    assert two_sided_shift.apply(run, DELTA).epsilon(DELTA) <= once * READINGS


def test_never_above_the_published_bound():
    """Bok, Su, Altschuler 2024, Thm 4.9, at every length of the window."""
    run = a_run(FixedSize(100), n=5000, steps=2000, step_size=0.1, noise_std=0.02)
    ours = two_sided_shift.apply(run, DELTA).epsilon(DELTA)
    for window in (1, 3, 10, 30, 100):
        published = bok.theorem_4_9(
            L=2.0, b=100, n=5000, noise_std=0.02, slope=0.9, steps=2000, start=2000 - window
        )
        assert ours <= published.value.epsilon(DELTA) * READINGS


def test_lagging_pays_at_most_what_the_record_pulls():
    """Payments a ≤ s: on the branch without the record nothing is shifted."""
    run = a_run(FixedSize(100), n=5000, steps=2000, step_size=0.1, noise_std=0.02)
    plan = two_sided_shift.apply(run, DELTA).certificate.payload["plan"]
    payments = read_floats("payments", plan["payments"])
    assert ((payments >= 0.0) & (payments <= 0.1 * 2.0 / 100 * (1.0 + 1e-12))).all()
    assert payments.size + sum(plan["lengths"]) <= run.steps


REFUSED = {
    "bare": (NoisyIteration(0.9, 0.1, 1.0, steps=3), "a bare iteration follows one record"),
    "cyclic": (a_run(Cyclic(4)), "the batches are not drawn afresh at every step"),
    "path": (a_run(release="path"), "the path is released, so nothing is forgotten"),
    "update": (a_run(update="other"), "the update is not plain noisy SGD"),
    "unknown": (a_run(loss=Loss.unknown()), "curvature"),
    "there or not": (
        a_run(Poisson(4), adjacency="zero_out"),
        "the other data set's record pulls nowhere: see one-sided shift",
    ),
    "varying": (
        a_run(step_size=np.linspace(0.3, 0.1, 6)),
        "step sizes or noises vary: see one-sided shift",
    ),
    "one step": (a_run(steps=1), "one step leaves nothing to lag behind"),
}


@every_case("name", REFUSED)
def test_what_is_refused(name):
    description, reason = REFUSED[name]
    with pytest.raises(NotApplicable, match=reason):
        two_sided_shift.apply(description, DELTA)
