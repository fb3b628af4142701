"""Fresh secret orders where steps expand or sensitivities fall."""

from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import Loss, NoisySGD, Reshuffle, ShuffleOnce
from pabi.account.analyses import composition, secret_order
from pabi.account.best import outcomes
from pabi.numbers.errors import NotApplicable
from support.certificates import granted

DELTA = 1e-5


def a_run(loss=None, **changes):
    given = {"n": 40, "batches": Reshuffle(10), "epochs": 3, "step_size": 0.5, "noise_std": 0.5}
    return NoisySGD(Loss.logistic(1.0, l2=0.05) if loss is None else loss, **given | changes)


FALLING = {"step_size": np.linspace(0.9, 0.05, 12)}
EXPANDING = {"loss": Loss.weakly_convex(0.3, 1.0), "clip_norm": 1.0, "step_size": 0.4}
RUNS = {
    "falling steps": FALLING,
    "falling noise": {"noise_std": np.linspace(1.0, 0.1, 12), **FALLING},
    "expanding": EXPANDING,
    "expanding, short last batch": {**EXPANDING, "n": 37},
    "expanding, a diameter": {**EXPANDING, "diameter": 0.1},
    "up and down": {"step_size": 0.3 + 0.25 * np.sin(np.arange(12.0)), "diameter": 0.3},
    "a part of an epoch": {"epochs": 2.5, "step_size": np.linspace(0.9, 0.05, 10)},
    "cool-down": {"cooldown_steps": 2, "step_size": np.linspace(0.9, 0.05, 14)},
    "too large for the curvature": {"loss": Loss.convex(1.0), "clip_norm": 1.0, "step_size": 2.3},
}


@pytest.mark.parametrize("name", RUNS)
def test_it_is_granted_and_better_than_composition(name):
    run = a_run(**RUNS[name])
    g = granted(secret_order.latest_uses, run, DELTA)
    if name != "too large for the curvature":
        assert g.epsilon(DELTA) < composition.apply(run, DELTA).epsilon(DELTA)
    assert run.guarantee(DELTA).epsilon(DELTA) <= g.epsilon(DELTA)


def test_where_nothing_is_moved_secret_order_says_it():
    for run, reason in (
        (a_run(), "see secret order"),
        (a_run(batches=ShuffleOnce(10), **FALLING), "keeps its place"),
        (a_run(batches=pabi.Cyclic(10), **FALLING), "fixed order"),
        (a_run(update="other", **FALLING), "plain noisy SGD"),
        (a_run(Loss.lipschitz(1.0), **FALLING), "no slope"),
    ):
        with pytest.raises(NotApplicable, match=reason):
            secret_order.latest_uses(run, DELTA)


def test_almost_constant_steps_cost_almost_what_constant_ones_do():
    """Rule (ii) holds for one and not for the other, and nothing jumps."""
    steps = 0.5 - 1e-9 * np.arange(12)
    (row,) = [o for o in outcomes(a_run(), DELTA) if o.name == "secret order"]
    found = secret_order.latest_uses(a_run(step_size=steps), DELTA).epsilon(DELTA)
    assert found == pytest.approx(row.guarantee.epsilon(DELTA), rel=1e-6)


def test_a_schedule_that_falls_no_longer_costs_a_composition():
    given = {"epochs": 20, "step_size": np.linspace(0.5, 0.05, 400), "noise_std": 0.05}
    run = NoisySGD(Loss.logistic(1.0, l2=0.05), 1000, Reshuffle(50), **given)
    g = run.guarantee(DELTA)
    assert g.method != "composition"
    once = replace(run, batches=ShuffleOnce(50)).guarantee(DELTA)
    assert once.epsilon(DELTA) <= g.epsilon(DELTA) <= 1.1 * once.epsilon(DELTA)


LONG = 73  # batches of one record each


def a_long_run(slopes, quiet):
    """Three epochs on a quadratic, which steps of these sizes in the first epoch and tiny ones in the others
    expand or shrink exactly; `quiet`: the steps with little noise."""
    noise = np.full(3 * LONG, 10.0)
    noise[quiet] = 0.01
    given = {"steps": 3 * LONG, "step_size": np.concatenate([slopes, np.full(2 * LONG, 1e-6)])}
    given |= {"noise_std": noise, "gradient_sensitivity": 1.0}
    return NoisySGD(Loss.strongly_convex(1.0, 1.0), LONG, Reshuffle(1), **given)


def exact_mus(run):
    """The distance of the two Gaussian laws of the last iterate over their deviation, for a record used at
    one step only: x ↦ (1 − η)x + η(shift + noise)."""
    eta = np.asarray(run.step_size)
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(1.0 - eta))
    later = np.append(np.cumsum(logs[::-1])[::-1][1:], 0.0)
    variance = np.logaddexp.reduce(2.0 * (np.log(eta * run.noise_std) + later))
    return np.exp(np.log(eta) + later - 0.5 * variance)


@pytest.mark.parametrize(
    ("slopes", "quiet"),
    [
        # 38 slopes of 1e10, then 35 of 1e-10: the product of the latter underflows, that of all is 1e30.
        (np.array([1e10 + 1.0] * 38 + [1.0 - 1e-10] * 35), [0]),
        # After the use 37 slopes of 1e10, whose product overflows; before it a slope of 0, and 0·∞ is NaN.
        (np.array([1e10 + 1.0] * 35 + [1.0] + [1e10 + 1.0] * 37), [35, 36]),
    ],
    ids=["underflow", "overflow times zero"],
)
def test_products_of_slopes_beyond_the_doubles_make_nothing_safer(slopes, quiet):
    """In the first epoch the record is at a quiet step with probability 1/73 each, and moves the last iterate
    by more than 50 deviations there. The event "it moved by half of that" has this probability with the
    record, and next to none without, so that no smaller δ is true at any ε."""
    run = a_long_run(slopes, quiet)
    assert exact_mus(run)[quiet].min() > 50.0
    least = len(quiet) / LONG
    g = run.guarantee(DELTA)
    assert g.delta(1.0) >= 0.99 * least
