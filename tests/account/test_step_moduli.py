"""The modulus of every step, against closed forms for a loss with bounded subgradients, batch by batch.

For a convex loss of records with gradients of norm at most L, a step x ↦ x − η(λx + f·g(x)) is
(1 − ηλ)(x − e·g(x)) with e = ηf/(1 − ηλ), so that ω(δ)² = ((1 − ηλ)δ)² + (2ηfL)² (Bravo, Flores-Mella,
Guzmán, §2). A cool-down step is x ↦ (1 − ηλ)x.
"""

import contextlib
import itertools
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from pabi import Cyclic, Loss, NoisySGD, NotApplicable, Poisson
from pabi.account.facts.step_moduli import StepModuli
from support.every_case import every

ETA, BOUND, L2 = 0.4, 1.25, 0.5
ROUNDINGS = 1e-13
DISTANCES = [1e-6, 0.01, 0.3, 1.0, 50.0]


def run_of(n, size, data, cooldown, loss=None, **changes):
    given = {"steps": data + cooldown, "cooldown_steps": cooldown, "batches": Cyclic(size)}
    given |= {"n": n, "step_size": ETA, "noise_std": 1.0}
    return NoisySGD(Loss.lipschitz(BOUND, l2=L2) if loss is None else loss, **(given | changes))


def view_of(run):
    return StepModuli(run, run.fractions())


def truth(run, k, count, distance):
    eta = mp.mpf(float(np.broadcast_to(run.step_size, run.steps)[k]))
    kept = 1 - eta * run.loss.l2
    jump = 2 * eta * mp.mpf(count) / run.batch_size * mp.mpf(BOUND)
    return mp.sqrt((kept * distance) ** 2 + jump**2)


@every("step_size", [ETA, np.array([0.4, 0.1, 0.4, 0.4, 0.1, 0.1, 0.8, 0.4, 0.1])])
def test_every_step_has_the_modulus_of_its_batch(step_size):
    run = run_of(5, 2, 7, 2, step_size=step_size)
    counts = [2, 2, 1, 2, 2, 1, 2, 0, 0]
    for first in (0, 4):
        moduli = view_of(run).shapes(first, run.steps).evaluators()
        for k, omega in enumerate(moduli, first):
            for z in DISTANCES:
                exact = truth(run, k, counts[k], z)
                assert exact <= omega(z) <= exact * (1 + ROUNDINGS)


def test_batches_of_random_size_are_all_covered():
    """0 to `cap` records; the cool-down knows that there are none."""
    run = run_of(9, 3, 6, 2, batches=Poisson(3, cap=5))
    view = view_of(run)
    assert run.fractions().full == (0, Fraction(5, 3))
    moduli = view.shapes(0, run.steps).evaluators()
    for k, omega in enumerate(moduli):
        most = 5 if k < 6 else 0
        for z in DISTANCES:
            assert all(truth(run, k, count, z) <= omega(z) for count in range(most + 1))
            assert omega(z) <= truth(run, k, most, z) * (1 + ROUNDINGS)
    assert not view.alike
    assert view_of(run_of(9, 3, 6, 0, batches=Poisson(3, cap=5))).alike


@every("step_size", [ETA, np.full(4, ETA)])
def test_where_nothing_is_known_or_all_is_linear_no_proof_applies(step_size):
    unknown = {"loss": Loss.unknown(), "gradient_sensitivity": 1.0}
    with pytest.raises(NotApplicable, match="nothing is known of how far a unknown loss's steps"):
        view_of(run_of(4, 2, 4, 0, **unknown, step_size=step_size))
    with pytest.raises(NotApplicable, match="every modulus is linear"):
        view_of(run_of(4, 2, 4, 0, Loss.logistic(1.0), step_size=step_size))


LOGISTIC = Loss.logistic(1.0, l2=0.1)


SCHEDULES = [(LOGISTIC, {}, True), (LOGISTIC, {"cooldown_steps": 3}, True)]
SCHEDULES += [(Loss.logistic(2.0, l2=0.1), {"clip_norm": 1.0}, True)]
SCHEDULES += [(Loss.convex(1.0, gradient_bound=1.0), {"longest": 2.0}, True)]
SCHEDULES += [(Loss.convex(1.0, gradient_bound=1.0), {"longest": 2.1}, False)]
SCHEDULES += [(Loss.softmax(3.0), {"clip_norm": 1.0}, False), (Loss.lipschitz(1.0), {}, False)]


@every("loss, changes, linear", SCHEDULES)
def test_a_varying_schedule_of_slopes_is_told(loss, changes, linear):
    """Whether it is one, agrees with the moduli themselves, step by step."""
    steps, changes = 40, dict(changes)
    sizes = np.linspace(0.1, changes.pop("longest", 1.0), steps)
    given = {"total_steps": steps, "step_size": sizes, "noise_std": 1.0, **changes}
    run = NoisySGD(loss, 13, Cyclic(4), **given)
    parts = run.fractions()
    pairs = itertools.product(sizes.tolist(), (*parts.full, *parts.last))
    every = [loss.modulus(eta, run.clip_norm, f) for eta, f in pairs]
    assert linear == all(type(m).__name__ == "Linear" for m in every)
    with pytest.raises(NotApplicable, match="linear") if linear else contextlib.nullcontext():
        StepModuli(run, parts)
