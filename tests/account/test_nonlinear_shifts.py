"""Runs whose moduli are not linear: against linear ones, against brute force over positions, at the limits,
and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FullBatch, Loss, NoisyIteration, NoisySGD, ShuffleOnce
from pabi.account.analyses import composition, nonlinear_shifts
from pabi.account.best import outcomes
from pabi.account.facts.positions import OrderedView
from pabi.account.facts.step_moduli import shapes
from pabi.account.shifts.nonlinear import solve

DELTA = 1e-5
# A setting in which hiding the path pays: many epochs, small batches, and noise of the size of a gradient.
BASE = {"loss": Loss.lipschitz(1.0), "n": 20, "batches": Cyclic(2), "epochs": 300}
BASE |= {"step_size": 0.01, "noise_std": 2.0, "diameter": 0.3}


def a_run(**changes):
    return NoisySGD(**{**BASE, **changes})


def of(run, method):
    found = {o.name: o for o in outcomes(run, DELTA)}[method]
    assert found.guarantee is not None, found.reason
    return found.guarantee


def by_hand(run, used, moduli):
    """μ of a record used at these steps, from the description alone."""
    step = np.broadcast_to(run.step_size, run.steps)
    s = np.zeros(run.steps)
    s[used] = step[used] * run.sensitivity / run.batch_size
    sigma = step * np.broadcast_to(run.gradient_noise_std, run.steps)
    return math.sqrt(solve(shapes(moduli), s, sigma, run.range_diameter, 0.0).square)


def test_nonsmooth_losses_on_a_bounded_domain():
    run = a_run()
    g = run.guarantee(DELTA)
    assert g.method == "nonlinear shifts"
    assert g.mu < 0.5 * of(run, "composition").mu
    # A longer run costs no more: what the last iterate remembers is bounded.
    longer = replace(run, epochs=30_000).guarantee(DELTA)
    assert longer.mu <= g.mu * 1.001


@pytest.mark.parametrize("epochs", [5.3, pytest.param(33.3, marks=pytest.mark.nightly)])
def test_the_record_used_last_is_the_worst(epochs):
    """If all steps are alike; every other position is solved by itself."""
    for loss in (Loss.lipschitz(1.0), Loss.dissipative(1e-3, 3.0, 4.0, gradient_bound=1.0)):
        run = a_run(loss=loss, epochs=epochs)
        worst = of(run, "nonlinear shifts").mu
        mus = []
        for j in range(10):
            mus.append(run.guarantee(DELTA, position=j).mu)
            moduli = [loss.modulus(0.01)] * run.steps
            used = np.arange(j, run.data_steps, 10)
            assert mus[-1] <= by_hand(run, used, moduli) * (1 + 1e-9)
        assert max(mus) <= mus[OrderedView(run).last_position] * (1 + 1e-9)
        assert worst == pytest.approx(max(mus), rel=1e-9)


@pytest.mark.parametrize("epochs", [6, pytest.param(60, marks=pytest.mark.nightly)])
def test_short_last_batches_and_cool_downs(epochs):
    run = a_run(n=19, cooldown_steps=3, epochs=epochs)
    every = max(run.guarantee(DELTA, position=j).mu for j in range(10))
    assert of(run, "nonlinear shifts").mu == pytest.approx(every, rel=1e-9)
    # Too many positions to solve one by one: steps are taken to be alike, the cool-down is left out.
    many = a_run(n=3_999, epochs=2, cooldown_steps=3)
    bound = of(many, "nonlinear shifts")
    for j in (0, 700, 1999):
        assert many.guarantee(DELTA, position=j).mu <= bound.mu * (1 + 1e-9)


@pytest.mark.parametrize("epochs", [40, pytest.param(300, marks=pytest.mark.nightly)])
def test_secret_permutations_are_averaged(epochs):
    cyclic = a_run(epochs=epochs)
    run = replace(cyclic, batches=ShuffleOnce(2))
    g = of(run, "nonlinear shifts")
    worst = of(cyclic, "nonlinear shifts")
    assert g.epsilon(DELTA) < worst.epsilon(DELTA)
    mus = [cyclic.guarantee(DELTA, position=j).mu for j in range(10)]
    mean = np.mean([pabi.tradeoff.Gaussian(mu).delta(1.0) for mu in mus])
    assert g.delta(1.0) == pytest.approx(mean, rel=1e-9)


def test_schedules_that_vary():
    step = np.linspace(0.02, 0.005, 40)
    run = a_run(epochs=None, steps=40, step_size=step, noise_std=np.linspace(0.8, 1.2, 40))
    g = of(run, "nonlinear shifts")
    moduli = [run.loss.modulus(float(eta)) for eta in step]
    mus = [by_hand(run, np.arange(j, 40, 10), moduli) for j in range(10)]
    assert g.mu == pytest.approx(max(mus), rel=1e-9)


@pytest.mark.parametrize("count", [12, pytest.param(40, marks=pytest.mark.nightly)])
def test_never_above_composition(count):
    rng = np.random.default_rng(0)
    losses = [Loss.lipschitz(1.0), Loss.weakly_smooth([(0.5, 2.0)], gradient_bound=1.0)]
    losses += [Loss.weakly_smooth([(0.2, 1.0), (0.8, 5.0)]), Loss.dissipative(0.01, 1.0, 2.0)]
    losses += [Loss.saddle(1.0, 3.0), Loss.nonconvex(2.0), Loss.weakly_convex(0.1, 2.0)]
    losses += [Loss.unknown()]
    for _ in range(count):
        loss = losses[rng.integers(len(losses))].with_l2(float(rng.choice([0.0, 0.3])))
        given = {"loss": loss, "n": int(rng.integers(20, 60))}
        given |= {"batches": [FullBatch(), Cyclic(7), ShuffleOnce(9)][rng.integers(3)]}
        given |= {"epochs": float(rng.uniform(1, 9)), "step_size": float(10 ** rng.uniform(-3, 0))}
        given |= {"noise_std": float(10 ** rng.uniform(-1, 0.5)), "clip_norm": 1.0}
        given |= {"diameter": [None, 0.5][rng.integers(2)], "cooldown_steps": int(rng.integers(3))}
        run = a_run(**given)
        proven = {o.name: o.guarantee for o in outcomes(run, DELTA) if o.guarantee is not None}
        composed = proven["composition"].epsilon(DELTA)
        assert proven["nonlinear shifts"].epsilon(DELTA) <= composed * (1 + 1e-12)


SMOOTH = Loss.convex(4.0, gradient_bound=1.0)
BOUNDED = {"gradient_bound": 1.0}
LIMITS = {
    "weak convexity": (
        [Loss.weakly_convex(m, 4.0, **BOUNDED) for m in (1.0, 1e-2, 1e-5, 1e-9)],
        *(SMOOTH, None, 1e-6),
    ),
    "exponents": (
        [Loss.weakly_smooth([(p, 4.0)], **BOUNDED) for p in (0.5, 0.8, 0.999)],
        *(SMOOTH, None, 1e-6),
    ),
    "offsets": (
        [Loss.dissipative(x, 3.0, 4.0, **BOUNDED) for x in (1e-4, 1e-8, 1e-12)],
        *(Loss.dissipative(0.0, 3.0, 4.0, **BOUNDED), None, 1e-4),
    ),
    "curvature, clipped": (
        [Loss.convex(m) for m in (10.0, 1.0, 1e-2, 1e-6)],
        *(Loss.convex(1e-9, glm=True), 1.0, 1e-5),
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_what_vanishes_leaves_the_smooth_bound(name):
    losses, limit, clip, near = LIMITS[name]
    *found, last = (
        a_run(loss=loss, clip_norm=clip).guarantee(DELTA).mu for loss in (*losses, limit)
    )
    assert all(a >= b * (1 - 1e-9) for a, b in zip(found, [*found[1:], last], strict=True))
    assert found[-1] == pytest.approx(last, rel=near)


def test_gaps_that_vanish_leave_the_linear_bound():
    s = np.where(np.arange(60) % 6 == 5, 0.2, 0.0)
    given = {"step_sensitivity": s, "step_noise_std": 1.0, "diameter": 3.0}

    def at(modulus):
        return NoisyIteration(moduli=modulus, **given).guarantee(DELTA).mu

    linear = at(pabi.Modulus.linear(0.97))
    for gap in (
        lambda x: pabi.Modulus.sqrt(0.97**2, x * x),
        lambda x: pabi.Modulus.affine(0.97, x),
    ):
        found = [at(gap(x)) for x in (1.0, 1e-1, 1e-2, 1e-4, 1e-8)]
        assert all(a >= b * (1 - 1e-9) for a, b in zip(found, [*found[1:], linear], strict=True))
        assert found[-1] == pytest.approx(linear, rel=1e-5)
    # A dissipative loss without an offset: ⟨Δ, x − y⟩ ≥ κ‖x − y‖² and ‖Δ‖ ≤ β‖x − y‖.
    exact = a_run(loss=Loss.dissipative(0.0, 3.0, 4.0, gradient_bound=1.0))
    slope = math.sqrt(1.0 - 2 * 0.01 * 3.0 + (0.01 * 4.0) ** 2)
    s = np.where(np.arange(exact.steps) % 10 == 9, 0.01, 0.0)
    it = NoisyIteration(slope, s, np.full(exact.steps, 0.02), diameter=0.3)
    assert exact.guarantee(DELTA).mu == pytest.approx(it.guarantee(DELTA).mu, rel=1e-9)


def test_reasons():
    step = np.linspace(0.01, 0.02, 200_001)
    for run, words in (
        (a_run(batches=pabi.Reshuffle(2)), "changes every epoch"),
        (a_run(release="path"), "path"),
        (a_run(loss=Loss.convex(1.0, gradient_bound=1.0)), "linear"),
        (a_run(step_size=step, epochs=None, steps=200_001), "vary"),
        (a_run(epochs=200_000, diameter=None), "diameter"),
    ):
        with pytest.raises(pabi.NotApplicable, match=words):
            nonlinear_shifts.apply(run, DELTA)


def test_a_step_too_large_for_one_row_leaves_the_others():
    """A smooth convex loss beyond η = 2/M has a slope above one; its gradients are bounded all the same."""
    loss = Loss.convex(100.0, gradient_bound=1.0)
    modulus = loss.modulus(0.05)
    assert modulus.linear == pytest.approx(4.0, rel=1e-15)
    assert modulus(10.0) == pytest.approx(math.sqrt(100.0 + 0.01), rel=1e-12)
    run = a_run(loss=loss, step_size=0.05, diameter=1.0)
    assert of(run, "nonlinear shifts").mu < of(run, "shifted interpolation").mu


@pytest.mark.parametrize("epochs", [1, 3.5])
@pytest.mark.parametrize("batches", [FullBatch(), Cyclic(3), ShuffleOnce(7)], ids=lambda b: b.kind)
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_where_nothing_is_known_no_payments_beat_composition(
    epochs, batches, adjacency, monkeypatch
):
    loss, run = Loss.unknown(), {"clip_norm": 1.0, "noise_std": 0.3, "diameter": None}
    run = a_run(loss=loss, batches=batches, epochs=epochs, adjacency=adjacency, n=20, **run)
    composed = composition.apply(run, DELTA).epsilon(DELTA)
    try:
        chosen = nonlinear_shifts.apply(run, DELTA).epsilon(DELTA)
    except pabi.NotApplicable:
        chosen = math.inf
    monkeypatch.setattr(nonlinear_shifts.BentSteps, "require_gain", lambda steps: None)
    solved = nonlinear_shifts.apply(run, DELTA).epsilon(DELTA)
    assert min(chosen, composed) <= solved * (1.0 + 1e-12)


@pytest.mark.parametrize("name", ["diameter", "noise_std", "cooldown_steps"])
def test_what_may_win_is_solved(name):
    changes = {"diameter": 0.3, "noise_std": np.linspace(1.0, 2.0, 3000), "cooldown_steps": 5}
    run = a_run(loss=Loss.unknown(), clip_norm=1.0, **{"diameter": None, name: changes[name]})
    assert nonlinear_shifts.apply(run, DELTA).epsilon(DELTA) < math.inf
