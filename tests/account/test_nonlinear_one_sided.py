"""Random batches and moduli that are not linear: the plan's factors worked out by hand, when it pays, when it
does not apply."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pabi import Cyclic, FixedSize, Loss, NoisyIteration, NoisySGD, NotApplicable, Poisson
from pabi.account.analyses import composition, nonlinear_shifts, shifted_interpolation
from pabi.account.best import outcomes
from support.certificates import granted
from support.pairs import pairs

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

DELTA = 1e-5


def a_run(**changes):
    fields = {"loss": Loss.dissipative(1e-7, 2.0, 2.0, gradient_bound=1.0), "n": 1000}
    fields |= {"batches": FixedSize(20), "steps": 3000, "step_size": 0.2, "noise_std": 0.5}
    return NoisySGD(**{**fields, **changes})


def random_run(rng):
    bound = {"gradient_bound": 1.0}
    losses = [Loss.dissipative(float(10 ** rng.uniform(-6, -2)), 2.0, 2.0, **bound)]
    losses += [Loss.lipschitz(1.0), Loss.saddle(1.0, 2.0), Loss.convex(2.0), Loss.unknown()]
    losses += [Loss.weakly_smooth([(0.4, 2.0)], **bound)]
    size, steps = int(rng.integers(5, 40)), int(rng.integers(1, 80))
    cap = int(rng.integers(size, 3 * size))
    vary = rng.random() < 0.4
    return a_run(
        loss=losses[rng.integers(len(losses))].with_l2(float(rng.choice([0.0, 0.4]))),
        n=int(rng.integers(100, 1000)),
        batches=[FixedSize(size), Poisson(size), Poisson(size, cap=cap)][rng.integers(3)],
        steps=steps,
        step_size=rng.uniform(0.01, 0.4, steps) if vary else float(rng.uniform(0.01, 0.4)),
        noise_std=float(10 ** rng.uniform(-1, 0.5)),
        clip_norm=1.0,
        adjacency=str(rng.choice(["replace_one", "zero_out"])),
        diameter=[None, 0.3][rng.integers(2)],
        cooldown_steps=int(rng.integers(0, min(4, steps))),
    )


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(k, marks=pytest.mark.nightly) for k in range(6, 16))]
)
def test_random_runs_are_granted_and_never_above_composition(all_windows, seed):
    """The checker works all factors out by itself."""
    run = random_run(np.random.default_rng(seed))
    granted(nonlinear_shifts.nonlinear_one_sided, run, DELTA)
    assert run.guarantee(DELTA).epsilon(DELTA) <= composition.apply(run, DELTA).epsilon(DELTA)


@pytest.mark.parametrize(
    "adjacency", [pytest.param("replace_one", marks=pytest.mark.nightly), "zero_out"]
)
def test_contraction_at_large_distances_bounds_what_is_remembered(adjacency):
    """Many steps on a dissipative loss of small offset: composition grows with √t, this does not."""
    run = a_run(adjacency=adjacency)
    found = {o.name: o.guarantee for o in outcomes(run, DELTA) if o.guarantee is not None}
    g = found["nonlinear one-sided shift"]
    assert g.epsilon(DELTA) < 0.7 * found["composition"].epsilon(DELTA)
    best = run.guarantee(DELTA)
    assert best.method == "nonlinear one-sided shift"
    assert best.epsilon(DELTA) == g.epsilon(DELTA)
    assert "Thm 4.10" in best.source
    assert any("dissipative" in sentence for sentence in best.assumptions)
    longer = replace(run, steps=6_000).guarantee(DELTA)
    assert longer.epsilon(DELTA) <= best.epsilon(DELTA) * (1.0 + 2e-3)


def test_reasons():
    varying = {"steps": 200_001, "step_size": np.linspace(0.1, 0.2, 200_001)}
    unknown = {"loss": Loss.unknown(), "gradient_sensitivity": 1.0, "batches": Poisson(20)}
    for run, words in (
        (a_run(batches=Cyclic(20)), "drawn afresh"),
        (a_run(loss=Loss.convex(1.0, gradient_bound=1.0)), "linear"),
        (a_run(release="path"), "path"),
        (a_run(update="other"), "update"),
        (a_run(steps=1_000_001), "diameter"),
        (a_run(**varying), "vary"),
        (a_run(**unknown, adjacency="zero_out"), "nothing is known"),
    ):
        with pytest.raises(NotApplicable, match=words):
            nonlinear_shifts.nonlinear_one_sided(run, DELTA)
    bare = NoisyIteration(0.9, 1.0, 1.0, steps=3)
    (answer,) = outcomes(bare, DELTA, only="nonlinear one-sided shift")
    assert "bare iteration" in answer.reason


LOSSES = {"unknown": Loss.unknown(), "lipschitz": Loss.lipschitz(1.0)}
LOSSES |= {"weakly smooth": Loss.weakly_smooth(pairs=[(0.5, 1.0)], gradient_bound=1.0)}
LOSSES |= {"dissipative": Loss.dissipative(1e-7, 2.0, 2.0, gradient_bound=1.0)}
LOSSES |= {"dissipative, wide": Loss.dissipative(0.5, 1.0, 2.0, gradient_bound=1.0)}
SETTINGS = {"plain": {}, "a diameter": {"diameter": 0.5}, "a cool-down": {"cooldown_steps": 20}}
SETTINGS |= {"falling steps": {"step_size": np.linspace(0.2, 0.01, 300)}}
SETTINGS |= {"varying noise": {"noise_std": np.linspace(0.2, 2.0, 300)}}


@pytest.mark.parametrize(("loss", "setting"), pairs(list(LOSSES), list(SETTINGS)))
def test_what_is_not_solved_would_have_lost(loss, setting, monkeypatch):
    fields = {"loss": LOSSES[loss], "batches": Poisson(20, cap=60), "clip_norm": 1.0, "steps": 300}
    run = a_run(**fields, **SETTINGS[setting])

    def epsilon():
        try:
            return nonlinear_shifts.nonlinear_one_sided(run, DELTA).epsilon(DELTA)
        except NotApplicable:
            return math.inf

    chosen = epsilon()
    monkeypatch.setattr(nonlinear_shifts, "CLEARLY", 1e300)
    monkeypatch.setattr(shifted_interpolation, "_MOST_MU", 1e300)
    solved = epsilon()
    composed = composition.apply(run, DELTA).epsilon(DELTA)
    assert min(chosen, composed) <= min(solved, composed)


def test_nothing_is_solved_where_nothing_is_known(monkeypatch):
    monkeypatch.setattr(nonlinear_shifts, "solve", None)
    run = a_run(loss=Loss.unknown(), batches=Poisson(20), clip_norm=1.0, adjacency="zero_out")
    with pytest.raises(NotApplicable, match="alone costs more than composition"):
        nonlinear_shifts.nonlinear_one_sided(run, DELTA)
