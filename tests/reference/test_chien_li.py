"""Chien and Li's bound for Hölder gradients: its special cases, feasible shifts, and ours beside it."""

import numpy as np
import pytest
from scipy.optimize import minimize

import pabi
from pabi import Loss, literature
from pabi.literature import chien_li
from pabi.numbers.errors import NotApplicable
from support.every_case import every

GIVEN = {"exponent": 0.9, "constant": 1.0, "step_size": 0.01, "step_sensitivity": 2e-5}
GIVEN |= {"step_noise_std": 1e-3, "diameter": 5e-3, "order": 2.0}


def value(**changes):
    return float(chien_li.theorem_3_1(**{**GIVEN, "steps": 500, **changes}))


@every("steps", [1, 2, 10])
def test_few_steps_are_composed(steps):
    """Order times t·s²/(2σ²): no start later than the first is worth its distance."""
    assert value(steps=steps, diameter=1.0, constant=1e-9) == pytest.approx(
        steps * (2e-5 / 1e-3) ** 2, rel=1e-6
    )


def test_it_converges_and_grows_with_everything_that_reveals_more():
    many = [value(steps=t) for t in (10_000, 20_000, 40_000)]
    assert many[0] == many[1] == many[2] < 0.7 * 10_000 * (2e-5 / 1e-3) ** 2
    steps = {"steps": 10_000}
    for name, larger in (("constant", 1.5), ("diameter", 6e-3), ("step_sensitivity", 3e-5)):
        assert value(**steps | {name: larger}) >= many[0]
    assert value(**steps, step_noise_std=2e-3) == pytest.approx(many[0] / 4, rel=1e-9)


@pytest.mark.parametrize("exponent", [0.6, 0.9, 1.0])
def test_no_shifts_at_all_are_much_better_than_equal_ones(exponent):
    """The minimum over all shifts of a window, found by a general optimiser: at most 10 % lower here."""
    s, sigma, d, steps = 2e-3, 1e-2, 2e-2, 12
    given = {"exponent": exponent, "step_sensitivity": s, "step_noise_std": sigma, "diameter": d}
    found = value(**given, steps=400)

    def cost(free, z=d):
        total = 0.0
        for after in [*np.abs(free), 0.0]:
            shift = max(0.0, z + 0.01 * z**exponent - after)
            total, z = total + (s + shift) ** 2, min(after, z + 0.01 * z**exponent)
        return total / sigma**2

    least = cost([])
    for window in range(2, steps):
        start = np.linspace(d, 0.0, window + 1)[1:-1]
        best = minimize(cost, start, method="Nelder-Mead", options={"maxiter": 4000})
        least = min(least, best.fun)
    assert found <= least * 1.1 + 1e-12 or found <= 400 * (s / sigma) ** 2


def run_of(exponent, batches, n, steps, noise_std, **changes):
    given = {"step_size": 0.01, "clip_norm": 1.0, "noise_std": noise_std, "steps": steps}
    return pabi.NoisySGD(Loss.holder(exponent, 1.0), n, batches, **given, **changes)


@pytest.mark.parametrize("exponent", [0.5, 0.9, 1.0])
def test_ours_is_never_looser(exponent):
    run = run_of(exponent, pabi.FullBatch(), 1000, 8000, 0.1, prox=pabi.prox.ball(0.0025))
    theirs = literature.compare(run, delta=1e-5)["chien_li.theorem_3_1"]
    ours = run.guarantee(1e-5)
    assert theirs.applies
    assert ours.epsilon(1e-5) < theirs.epsilon
    assert ours.rdp(2.0) <= value(exponent=exponent, steps=8000) * (1 + 1e-12)


def test_its_hypotheses():
    with pytest.raises(NotApplicable, match="exponent"):
        value(exponent=0.0)
    rows = literature.compare(run_of(0.5, pabi.Cyclic(10), 100, 50, 1.0), delta=1e-5)
    assert not rows["chien_li.theorem_3_1"].applies
