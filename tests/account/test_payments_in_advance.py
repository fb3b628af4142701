"""Payments in advance: exact cases, the known figures, the other solvers, and what is not covered."""

import math

import numpy as np
import pytest

import pabi
from pabi import Loss
from pabi.account.analyses import advance, secret_order, shifted_interpolation
from pabi.account.shifts.advance import PulledSteps, costing, solve
from pabi.account.shifts.start import best_start
from pabi.describe.iteration import Steps
from pabi.numbers.errors import NotApplicable
from support.advance import best, one_sided
from support.certificates import granted
from support.every_case import every

DELTA = 1e-5


def steps(low, high, q, u, sigma=1.0, start=0.0):
    """Columns of numbers or arrays."""
    size = np.size(q)
    return PulledSteps(
        *(np.broadcast_to(x, size).astype(float) for x in (low, high, q, u, sigma)), start
    )


def one_use(t, i, s=1.0):
    """Flat steps, of which the i-th, counted from 1, uses a half-line."""
    pull = np.zeros(t)
    pull[i - 1] = 0.5 * s
    return steps(1.0, 1.0, pull, pull)


@every("t", [2, 5, 12, 60])
def test_an_early_use_of_flat_steps_costs_what_a_linear_loss_shows(t):
    """A linear loss has a pull of s and nothing else: its last iterate is N(s, t) beside N(0, t)."""
    for i in range(1, t // 2 + 2):
        (found,) = solve([one_use(t, i)])
        assert 1.0 / math.sqrt(t) <= math.sqrt(found.square) <= (1.0 + 1e-5) / math.sqrt(t)


@every("t", [3, 12, 60])
def test_a_late_use_costs_half_before_and_half_after(t):
    for i in range(t // 2 + 2, t + 1):
        (found,) = solve([one_use(t, i)])
        most = 0.25 * (1.0 / (i - 1) + 1.0 / (t - i + 1))
        assert 1.0 / t <= found.square <= most * (1.0 + 1e-5)


@every("seed", range(12))
def test_pulls_to_any_side_cost_what_other_shifts_do(seed):
    """With q = 0 the theorem is Theorem 1 for slopes, for which there is another solver."""
    rng = np.random.default_rng(seed)
    t = int(rng.integers(1, 40))
    high = rng.uniform(0.7, 1.1, t)
    s = np.where(rng.random(t) < 0.4, rng.uniform(0.1, 2.0, t), 0.0)
    s[rng.integers(t)] = 1.0
    sigma = rng.uniform(0.5, 2.0, t)
    (found,) = solve([steps(high - rng.uniform(0.0, 0.3, t), high, np.zeros(t), s, sigma)])
    other = best_start(Steps(high, s, sigma), math.inf, 0.0).payments.energy
    assert found.square == pytest.approx(other, rel=1e-4)


@every("seed", range(8))
def test_nothing_near_is_better(seed):
    rng = np.random.default_rng(seed)
    t = 30
    q = np.where(np.arange(t) % 7 == 3, 0.5, 0.0)
    chain = steps(0.9, 0.99, q, q, rng.uniform(0.8, 1.2, t), start=0.3)
    (found,) = solve([chain])
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(30):
            n, z = (np.maximum(x + size * rng.normal(size=t - 1), 0.0) for x in (found.n, found.z))
            assert costing(n, z, chain).square >= found.square * (1.0 - 1e-4)


def test_several_runs_are_solved_as_each_alone():
    chains = [one_use(5, 4), one_use(9, 9), steps(0.9, 0.95, [0.5, 0.0], [0.5, 0.0], start=0.2)]
    together = solve(chains)
    for chain, found in zip(chains, together, strict=True):
        (alone,) = solve([chain])
        assert found.square == pytest.approx(alone.square, rel=1e-4)


def run(batches, epochs, n=500, loss=None, **changes):
    given = {"step_size": 0.5, "noise_multiplier": 1.5, "clip_norm": 1.0, "adjacency": "zero_out"}
    return pabi.NoisySGD(
        loss or Loss.logistic(1.0, l2=0.01), n, batches, epochs=epochs, **given | changes
    )


def test_known_figures():
    """Batches of 50 of 500 records, where Theorem 1 has 2.90, 3.91, 2.49, 3.40 and 2.46."""
    known = {pabi.Cyclic: (1.87, 3.17), pabi.ShuffleOnce: (1.60, 2.88), pabi.Reshuffle: (1.54,)}
    for batches, figures in ((scheme(50), figures) for scheme, figures in known.items()):
        for epochs, epsilon in zip((2, 10), figures, strict=False):
            found = advance.apply(run(batches, epochs), DELTA)
            assert found.epsilon(DELTA) == pytest.approx(epsilon, rel=0.01)
    # Of both records that are in the data twice as much is known.
    one, two = (run(pabi.Cyclic(50), 3, adjacency=a) for a in ("zero_out", "replace_one"))
    ratio = advance.apply(two, DELTA).curve.mu / advance.apply(one, DELTA).curve.mu
    assert ratio == pytest.approx(2.0, rel=1e-4)


def residual(loss):
    return run(pabi.Cyclic(50), 3, loss=loss, clipping="residual", step_size=0.1)


HINGE = Loss.smoothed_hinge(1.0, 0.2)
RUNS = {
    "known": run(pabi.Cyclic(50), 3),
    "full": run(pabi.FullBatch(), 20),
    "hardly contracting, long": run(pabi.Cyclic(50), 1000, loss=Loss.logistic(1.0, l2=1e-4)),
    "contracting, long": run(pabi.Cyclic(50), 1000, loss=Loss.logistic(1.0, l2=0.3)),
    "many batches": run(pabi.Cyclic(5), 3),
    "cool-down": run(pabi.Cyclic(50), 3, cooldown_steps=7),
    "steep": run(pabi.Cyclic(50), 3, loss=HINGE),
    "expanding": run(pabi.Cyclic(50), 3, loss=HINGE, step_size=0.6),
    "several classes": residual(Loss.softmax(1.0)),
    "one against the others": residual(Loss.one_vs_rest(1.0, 4)),
    "falling": run(pabi.Cyclic(49), 3, step_size=np.linspace(0.5, 0.1, 33)),
    "falling, many batches": run(pabi.Cyclic(20), 2, step_size=np.linspace(0.5, 0.05, 50)),
    "rising": run(pabi.Cyclic(49), 3, step_size=np.linspace(0.1, 0.5, 33)),
    "replaced": run(pabi.Cyclic(50), 3, adjacency="replace_one"),
}


@pytest.mark.parametrize("name", RUNS)
def test_no_place_is_above_payments_afterwards(name):
    other = shifted_interpolation.apply(RUNS[name], DELTA)
    found = advance.apply(RUNS[name], DELTA)
    assert found.curve.mu <= other.curve.mu * (1.0 + 1e-8)
    for position in (0, RUNS[name].steps_per_epoch - 1):
        one = advance.apply(RUNS[name], DELTA, position)
        assert one.curve.mu <= found.curve.mu * (1.0 + 1e-4)


def test_runs_that_drift_beyond_all_doubles_have_a_bound():
    """Slopes above 1 whose powers overflow: what is paid in advance is then of late uses alone."""
    loss, batches = Loss.smoothed_hinge(16.9, 0.0646, l2=0.1), pabi.BallsInBins(199, cap=403)
    steep = pabi.NoisySGD(loss, 17708, batches, steps=7434, step_size=68.0, noise_std=20.7)
    assert 0.0 < granted(advance.apply, steep, DELTA).epsilon(DELTA) < math.inf


@pytest.mark.parametrize("scheme", [pabi.ShuffleOnce, pabi.Reshuffle])
def test_a_secret_place_costs_no_more_than_a_known_one(scheme):
    for epochs in (1, 2.5):
        secret = advance.apply(run(scheme(50), epochs), DELTA)
        known = advance.apply(run(pabi.Cyclic(50), epochs), DELTA)
        if scheme is pabi.ShuffleOnce or epochs == 1:  # one that changes may be used twice in a row
            assert secret.epsilon(DELTA) <= known.epsilon(DELTA)
        other = secret_order.apply(run(scheme(50), epochs), DELTA)
        assert secret.epsilon(DELTA) <= other.epsilon(DELTA)


def test_a_place_that_changes_costs_about_what_one_that_stays_does():
    """Over one epoch they are the same."""
    schemes = pabi.ShuffleOnce, pabi.Reshuffle
    for step_size in (0.5, np.linspace(0.5, 0.1, 10)):
        once, anew = (advance.apply(run(x(50), 1, step_size=step_size), DELTA) for x in schemes)
        assert anew.epsilon(DELTA) == pytest.approx(once.epsilon(DELTA), rel=1e-4)
    for step_size, most in ((0.5, 1.4), (np.linspace(0.5, 0.1, 30), 1.5)):
        once, anew = (advance.apply(run(x(50), 3, step_size=step_size), DELTA) for x in schemes)
        assert once.epsilon(DELTA) < anew.epsilon(DELTA) < most * once.epsilon(DELTA)
    other = secret_order.latest_uses(run(pabi.Reshuffle(50), 3, step_size=step_size), DELTA)
    assert anew.epsilon(DELTA) < 0.9 * other.epsilon(DELTA)


def test_where_steps_fall_every_place_is_paid_for_in_advance():
    """The worst one costs what a plan made apart from the library does."""
    eta = np.linspace(0.5, 0.1, 20)
    s, sigma, low, high = eta / 25, 1.5 * eta / 25, 1.0 - eta * 0.26, 1.0 - eta * 0.01
    described = run(pabi.Cyclic(25), 1, step_size=eta)
    found = advance.apply(described, DELTA).curve.mu
    uses = [np.where(np.arange(20) == j, s, 0.0) for j in range(20)]
    planned = [best(one_sided(low, high, sigma, own)) for own in uses]
    assert found == pytest.approx(max(planned), rel=1e-3)
    assert found < 0.75 * shifted_interpolation.apply(described, DELTA).curve.mu


STATED = {
    "clip_norm": None,
    "noise_multiplier": None,
    "noise_std": 1.0,
    "gradient_sensitivity": 1.0,
}
ELSEWHERE = {
    "any direction": {"loss": Loss.squared(1.0, 1.0)},
    "proximal map": {"prox": pabi.prox.ball(3.0)},
    "within a diameter": {"diameter": 3.0},
    "in several directions": {"unit": "user"},
    "stated sensitivity": STATED,
    "clip the loss": {"loss": Loss.softmax(1.0)},
    "be those of a loss": {"clipping": "coordinates"},
    "drawn afresh": {"batches": pabi.Poisson(50)},
    "later one": {"batches": pabi.Reshuffle(50), "step_size": 9.0},
    "path is released": {"release": "path"},
}


def test_what_is_not_covered_says_why():
    for reason, changes in ELSEWHERE.items():
        with pytest.raises(NotApplicable, match=reason):
            advance.apply(run(**{"batches": pabi.Cyclic(50), "epochs": 2, **changes}), DELTA)
