"""Calibration: the result meets the target, and nothing closer to the boundary does."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq

import pabi
from support.every_case import every

DELTA = 1e-5
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)


def a_run(batches=None, **changes):
    fields = {
        "n": 10_000,
        "batches": batches or pabi.Cyclic(100),
        "epochs": 10,
        "step_size": 0.5,
        "noise_std": 0.04,
    }
    return pabi.NoisySGD(LOSS, **{**fields, **changes})


def epsilon(run):
    return run.guarantee(DELTA).epsilon(DELTA)


BATCHES = [pabi.FullBatch(), pabi.Cyclic(100), pabi.ShuffleOnce(130), pabi.Reshuffle(500)]


@pytest.mark.parametrize("batches", BATCHES, ids=lambda b: b.kind)
@pytest.mark.parametrize("target", [0.3, 4.0])
def test_noise_is_the_least_that_meets_the_target(batches, target):
    run = pabi.calibrate(a_run(batches, noise_std=None), target, DELTA)
    assert epsilon(run) <= target
    assert epsilon(replace(run, noise_std=run.noise_std * (1 - 1e-8))) > target


def test_multiplier_and_noise_agree():
    std = pabi.calibrate(a_run(), 1.0, DELTA)
    times = pabi.calibrate(a_run(), 1.0, DELTA, parameter="noise_multiplier")
    assert times.noise_std is None
    # The logistic gradient bound, 1, stands in for clip_norm.
    assert times.noise_multiplier == pytest.approx(std.noise_std * 100, rel=1e-8)


def test_a_schedule_is_scaled_as_a_whole():
    shape = np.linspace(1.0, 2.0, 1000)
    run = pabi.calibrate(a_run(noise_std=0.01 * shape), 1.0, DELTA)
    assert epsilon(run) <= 1.0
    np.testing.assert_allclose(run.noise_std / run.noise_std[0], shape, rtol=1e-12)
    assert epsilon(replace(run, noise_std=run.noise_std * (1 - 1e-8))) > 1.0


@pytest.mark.parametrize("parameter", ["epochs", "steps"])
@pytest.mark.parametrize("batches", BATCHES[1:], ids=lambda b: b.kind)
def test_length_is_the_most_that_meets_the_target(parameter, batches):
    run = replace(a_run(batches), loss=pabi.Loss.logistic(feature_norm=1.0))  # ε grows for ever
    target = 1.02 * epsilon(replace(run, epochs=3))
    found = pabi.calibrate(run, target, DELTA, parameter=parameter)
    assert epsilon(found) <= target
    longer = {"epochs": None, "steps": None, parameter: getattr(found, parameter) + 1}
    assert epsilon(replace(found, **longer)) > target


def test_any_number_of_epochs():
    """With a strongly convex loss ε converges, so that a target above the limit names no number."""
    run = a_run(pabi.FullBatch())
    limit = epsilon(replace(run, epochs=10**8))
    with pytest.raises(pabi.InvalidInput, match="any number of epochs") as caught:
        pabi.calibrate(run, 1.01 * limit, DELTA, parameter="epochs")
    assert caught.value.field == "epochs"


def test_clip_norm_is_the_most_that_meets_the_target():
    run = pabi.calibrate(a_run(), 1.0, DELTA, parameter="clip_norm")
    assert epsilon(run) <= 1.0 < epsilon(replace(run, clip_norm=run.clip_norm * (1 + 1e-8)))
    # A target already met without clipping returns the bound of the loss: clipping changes nothing.
    loose = pabi.calibrate(a_run(), 50.0, DELTA, parameter="clip_norm")
    assert loose.clip_norm == LOSS.gradient_bound


@pytest.mark.parametrize(
    "noise", [{"noise_std": 0.04}, {"noise_std": None, "noise_multiplier": 3.0}]
)
def test_size_moves_towards_the_boundary(noise):
    run = a_run(pabi.Cyclic(100), **noise)
    ends = [epsilon(replace(run, batches=pabi.Cyclic(s))) for s in (1, 10_000)]
    target = float(np.mean(ends))
    found = pabi.calibrate(run, target, DELTA, parameter="size")
    assert epsilon(found) <= target
    step = -1 if ends[1] < ends[0] else 1
    beyond = replace(found, batches=pabi.Cyclic(found.batches.size + step))
    assert epsilon(beyond) > target


@every(("cap", "most"), [(400, 400), (20_000, 10_000), (None, 10_000)])
@every("rising", [False, True])
def test_sizes_beyond_the_cap_are_not_tried(monkeypatch, cap, most, rising):
    """On a cost that is monotone in the size; the cap stays what it was."""
    asked = []

    class Cost:
        curve = None

        def __init__(self, size):
            self.size = size

        def epsilon(self, delta):
            return float(self.size if rising else most + 1 - self.size)

    def priced(run, delta):
        assert run.batches.cap == cap
        asked.append(run.batches.size)
        return Cost(run.batches.size)

    monkeypatch.setattr("pabi.account.calibration.best_guarantee", priced)
    run = a_run(pabi.Poisson(100, cap))
    found = pabi.calibrate(run, 100.5, DELTA, parameter="size")
    assert found.batches == pabi.Poisson(100 if rising else most - 99, cap)
    assert (min(asked), max(asked)) == (1, most)


@pytest.mark.parametrize("kind", [pabi.ShuffleOnce, pabi.Reshuffle])
def test_sizes_of_more_than_is_left_are_not_tried(kind):
    """60 of 100 records left out: no batch has more than 40."""
    run = a_run(kind(5, spare=60), n=100, epochs=2, noise_std=0.1)
    least, most = sorted(epsilon(replace(run, batches=kind(size, 60))) for size in (1, 40))
    assert pabi.calibrate(run, most, DELTA, "size").batches.size in (1, 40)
    between = pabi.calibrate(run, 0.5 * (least + most), DELTA, "size")
    assert 1 <= between.batches.size <= 40
    assert between.batches.spare == 60


def test_unreachable_says_what_is_reachable():
    run = a_run()
    for parameter, best in (("epochs", replace(run, epochs=1)), ("size", None)):
        with pytest.raises(pabi.TargetUnreachable, match="best reachable") as caught:
            pabi.calibrate(run, 1e-3, DELTA, parameter=parameter)
        assert caught.value.best > 1e-3
        if best is not None:
            assert caught.value.best == epsilon(best)


@every(
    ("changes", "arguments", "field"),
    [
        ({}, (0.0, DELTA), "epsilon"),
        ({}, (float("nan"), DELTA), "epsilon"),
        ({}, (1.0, 0.0), "delta"),
        ({}, (1.0, DELTA, "momentum"), "parameter"),
        ({"noise_std": None}, (1.0, DELTA, "epochs"), "noise_std"),
        ({"noise_std": np.full(1000, 0.1)}, (1.0, DELTA, "epochs"), "noise_std"),
        ({"step_size": np.full(1000, 0.1)}, (1.0, DELTA, "size"), "step_size"),
        ({"batches": pabi.FullBatch()}, (1.0, DELTA, "size"), "size"),
        (
            {"noise_std": None, "noise_multiplier": 1.0},
            (1.0, DELTA, "clip_norm"),
            "noise_multiplier",
        ),
        ({"gradient_sensitivity": 1.0}, (1.0, DELTA, "clip_norm"), "gradient_sensitivity"),
        ({"gradient_sensitivity": 1.0}, (1.0, DELTA, "noise_multiplier"), "gradient_sensitivity"),
    ],
)
def test_bad_input_names_the_field(changes, arguments, field):
    with pytest.raises(pabi.InvalidInput) as caught:
        pabi.calibrate(a_run(**changes), *arguments)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_large_delta_warns_once():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pabi.calibrate(a_run(), 1.0, 1e-3)
    assert [w.category for w in seen] == [pabi.PrivacyWarning]


# Samplers and mechanisms.

SAMPLERS = {
    "chain": (
        pabi.LangevinChain(LOSS, 10_000, inverse_temperature=100.0, step_size=1e-3, steps=500),
        ["inverse_temperature", "steps", "chains"],
    ),
    "diffusion": (
        pabi.LangevinDiffusion(LOSS, 10_000, inverse_temperature=3000.0, time=1.0),
        ["inverse_temperature", "time"],
    ),
    "varying": (
        pabi.LangevinDiffusion(LOSS, 10_000, inverse_temperature=[1.0, 2.0], time=1.0),
        ["inverse_temperature"],
    ),
    "mechanism": (
        pabi.ExponentialMechanism(LOSS, 10_000, dimension=3, diameter=2.0, epsilon=1.0),
        ["inverse_temperature", "epsilon"],
    ),
    "rounds": (
        pabi.IteratedExponentialMechanism(
            LOSS, 10_000, dimension=3, diameter=2.0, epsilons=[0.1, 0.2], failure=0.1
        ),
        ["epsilons"],
    ),
}


@every(("name", "parameter"), [(n, p) for n, (_, known) in SAMPLERS.items() for p in known])
def test_samplers_meet_the_target_narrowly(name, parameter):
    described, target = SAMPLERS[name][0], {"steps": 0.05, "time": 0.3}.get(parameter, 0.5)
    found = pabi.calibrate(described, target, DELTA, parameter)
    assert epsilon(found) <= target
    value = getattr(found, parameter)
    more = value + 1 if parameter in ("steps", "chains") else np.multiply(value, 1.0 + 1e-7)
    assert epsilon(replace(found, **{parameter: more})) > target


def test_the_temperature_is_what_is_calibrated_by_default():
    for described, known in SAMPLERS.values():
        found = pabi.calibrate(described, 0.5, DELTA)
        assert found == pabi.calibrate(described, 0.5, DELTA, known[0])


def test_what_cannot_be_calibrated_of_a_sampler():
    chain, diffusion = SAMPLERS["chain"][0], SAMPLERS["diffusion"][0]
    with pytest.raises(pabi.InvalidInput, match="parameter"):
        pabi.calibrate(chain, 1.0, DELTA, "noise_std")
    with pytest.raises(pabi.InvalidInput, match="any time meets"):
        pabi.calibrate(diffusion, 500.0, DELTA, "time")
    function = replace(diffusion, inverse_temperature=lambda t: 1.0)
    with pytest.raises(pabi.InvalidInput, match="function of time"):
        pabi.calibrate(function, 1.0, DELTA)
    with pytest.raises(pabi.InvalidInput, match="run"):
        pabi.calibrate(pabi.NoisyIteration(0.9, 0.1, 0.1, steps=3), 1.0, DELTA)


@pytest.mark.parametrize(
    ("changes", "target", "first", "then"),
    [
        ({"batches": pabi.FixedSize(20)}, 0.5, "one-sided shift", "composition"),
        (
            {
                "loss": pabi.Loss.logistic(1.0, l2=0.01),
                "batches": pabi.Poisson(20),
                "adjacency": "zero_out",
            },
            47.0,
            "composition",
            "one-sided shift",
        ),
    ],
)
def test_the_best_analysis_may_change_on_the_way(changes, target, first, then):
    """A search asks one analysis at a time, and goes on with the one that is best where that one ends."""
    given = {
        "loss": pabi.Loss.logistic(1.0, l2=0.02),
        "n": 1000,
        "steps": 200,
        "step_size": 1.0,
        "noise_multiplier": 1.0,
    }
    run = pabi.NoisySGD(**given | changes)
    assert run.guarantee(1e-5).method == first
    found = pabi.calibrate(run, target, 1e-5, "noise_multiplier")
    assert found.guarantee(1e-5).method == then
    assert found.guarantee(1e-5).epsilon(1e-5) <= target
    less = replace(found, noise_multiplier=0.98 * found.noise_multiplier)
    assert less.guarantee(1e-5).epsilon(1e-5) > target


@every("guess", [0.1, 0.3, 0.7, 1.7, 2.9])
def test_a_guess_on_the_boundary_is_returned_as_it_is(guess):
    """The next double but one, which a logarithm and its inverse lead to, may miss the target."""
    run = a_run(noise_std=None, noise_multiplier=guess)
    target = epsilon(run)
    found = pabi.calibrate(replace(run, noise_multiplier=1.0), target, DELTA, "noise_multiplier")
    again = pabi.calibrate(found, target, DELTA, "noise_multiplier")
    assert epsilon(found) <= target
    assert epsilon(again) <= target


# Second moments, and what shares the budget.

MOMENTS = pabi.NoisySecondMoments(10_000, dimension=20, feature_norm=1.5)
BESIDE = replace(MOMENTS, noise_multiplier=20.0).guarantee(DELTA)
SHUFFLED = a_run(pabi.ShuffleOnce(130), noise_std=0.1).guarantee(DELTA)


def mu_of(target):
    """The μ for which G(μ) has δ(target) = DELTA, from the formula to 40 digits."""

    def excess(m):
        with mpmath.workdps(40):
            near, far = (mpmath.ncdf(x * mpmath.mpf(m) / 2 - target / m) for x in (1, -1))
            return float(near - mpmath.exp(target) * far - DELTA)

    return brentq(excess, 1e-3, 30.0, xtol=1e-13, rtol=1e-13)


def together(besides, run):
    return pabi.compose(*besides, run.guarantee(DELTA)).epsilon(DELTA)


@every("adjacency", ["replace_one", "zero_out"])
@every("target", [0.01, 1.0, 30.0])
def test_noise_on_second_moments_is_the_sensitivity_over_mu(target, adjacency):
    mu = mu_of(target)
    described = replace(MOMENTS, adjacency=adjacency)
    sensitivity = 1.5**2 * (math.sqrt(2.0) if adjacency == "replace_one" else 1.0)
    std = pabi.calibrate(described, target, DELTA)
    assert std.noise_std == pytest.approx(sensitivity / mu, rel=1e-8)
    assert epsilon(std) <= target < epsilon(replace(std, noise_std=std.noise_std * (1 - 1e-8)))
    times = pabi.calibrate(described, target, DELTA, "noise_multiplier")
    assert times.noise_std is None
    assert times.noise_multiplier == pytest.approx(std.noise_std / 1.5**2, rel=1e-8)
    assert epsilon(times) <= target


@every("beside", [0.05, 0.2, 0.25])
def test_gaussians_share_the_budget_by_their_squares(beside):
    """μ² of the target is what is left, plus that of what is spent."""
    mu = mu_of(1.0)
    first = replace(MOMENTS, noise_multiplier=math.sqrt(2.0) / beside).guarantee(DELTA)
    second = replace(MOMENTS, noise_multiplier=math.sqrt(2.0) / 0.05).guarantee(DELTA)
    for besides in ((), (first,), [first, second]):
        found = pabi.calibrate(MOMENTS, 1.0, DELTA, besides=besides)
        left = mu**2 - sum(g.mu**2 for g in besides)
        assert left > 0.0
        assert found.guarantee(DELTA).mu == pytest.approx(math.sqrt(left), rel=1e-8)
        assert together(besides, found) <= 1.0


def test_nothing_beside_is_what_it_was():
    run = a_run(pabi.ShuffleOnce(130), noise_std=None)
    assert pabi.calibrate(run, 2.0, DELTA, besides=()) == pabi.calibrate(run, 2.0, DELTA)


# Of every kind what is changed, and those of its parameters that ε tells apart there.
EVERY = {
    "run": (a_run(pabi.Cyclic(100)), ["noise_std", "noise_multiplier"]),
    "clipped": (a_run(pabi.Cyclic(100), clip_norm=0.5), ["clip_norm"]),
    "forgetting little": (
        replace(a_run(pabi.Cyclic(100)), loss=pabi.Loss.logistic(feature_norm=1.0)),
        ["epochs", "steps"],
    ),
    "shuffled": (a_run(pabi.ShuffleOnce(130)), ["noise_std", "size"]),
    "sampled": (a_run(pabi.Poisson(100), epochs=1), ["noise_std"]),
    "moments": (replace(MOMENTS, noise_std=20.0), ["noise_std", "noise_multiplier"]),
    **SAMPLERS,
    "chain": (
        replace(SAMPLERS["chain"][0], inverse_temperature=500.0, steps=50),
        ["inverse_temperature", "steps"],
    ),
    "diffusion": (replace(SAMPLERS["diffusion"][0], time=0.1), ["inverse_temperature", "time"]),
}


@pytest.mark.parametrize(
    ("name", "parameter"), [(n, p) for n, (_, names) in EVERY.items() for p in names]
)
@pytest.mark.parametrize("besides", [(BESIDE,), (SHUFFLED, BESIDE)], ids=["Gaussian", "mixture"])
def test_everything_can_share_a_budget(name, parameter, besides):
    """What is composed meets the target, and nothing closer to the boundary does."""
    described = EVERY[name][0]
    target = 1.02 * together(besides, described)
    found = pabi.calibrate(described, target, DELTA, parameter, besides=besides)
    assert together(besides, found) <= target
    curve = pabi.compose(*besides, found.guarantee(DELTA)).curve
    closed = len(besides) == 1 and isinstance(curve, pabi.tradeoff.Gaussian | pabi.tradeoff.Mixture)
    more = beyond(
        found, parameter, 1e-7 if closed else 3e-2
    )  # or what numerical composition errs by
    assert together(besides, more) > target


def beyond(found, parameter, little):
    """The same with a little more of what costs privacy."""
    match parameter:
        case "epochs" | "steps":
            numbers = {"epochs": None, "steps": None} if type(found) is pabi.NoisySGD else {}
            return replace(found, **numbers | {parameter: getattr(found, parameter) + 1})
        case "size":
            return replace(found, batches=pabi.ShuffleOnce(found.batches.size - 1))
        case "noise_std" | "noise_multiplier":
            return replace(found, **{parameter: (1.0 - little) * getattr(found, parameter)})
        case _:
            return replace(
                found, **{parameter: np.multiply(getattr(found, parameter), 1.0 + little)}
            )


def test_what_is_spent_already():
    """It is said plainly, before anything is searched."""
    with pytest.raises(pabi.TargetUnreachable, match="besides alone cost") as caught:
        pabi.calibrate(MOMENTS, 0.1, DELTA, besides=(BESIDE, SHUFFLED))
    assert caught.value.best == pabi.compose(BESIDE, SHUFFLED).epsilon(DELTA)
    spent = BESIDE.epsilon(DELTA)
    with pytest.raises(pabi.TargetUnreachable, match="besides included") as caught:
        pabi.calibrate(a_run(), 1.001 * spent, DELTA, "epochs", besides=(BESIDE,))
    assert caught.value.best == together((BESIDE,), a_run(epochs=1))


@every(
    "besides",
    [
        (replace(MOMENTS, noise_std=9.0, adjacency="zero_out").guarantee(DELTA),),
        (BESIDE, replace(BESIDE, unit="user")),
        (BESIDE, BESIDE.curve),
        (replace(MOMENTS, noise_std=9.0),),
        BESIDE,
        None,
        0.5,
        "no",
    ],
)
def test_what_cannot_stand_beside(besides):
    with pytest.raises(pabi.InvalidInput) as caught:
        pabi.calibrate(MOMENTS, 1.0, DELTA, besides=besides)
    assert caught.value.field == "besides"
    assert "\n" not in str(caught.value)
