"""Calibration: the result meets the target, and nothing closer to the boundary does."""

import math
import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq

import pabi
from pabi.account.best import Outcome
from support.every_case import every, refused

DELTA = 1e-5
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)


def a_run(batches=None, **changes):
    fields = {"n": 10_000, "epochs": 10, "step_size": 0.5, "noise_std": 0.04}
    loss = changes.pop("loss", LOSS)
    return pabi.NoisySGD(loss, batches=batches or pabi.Cyclic(100), **{**fields, **changes})


def epsilon(run):
    return run.guarantee(DELTA).epsilon(DELTA)


def test_multiplier_and_noise_agree():
    std = pabi.calibrate(a_run(), 1.0, DELTA)
    times = pabi.calibrate(a_run(), 1.0, DELTA, parameter="noise_multiplier")
    assert times.noise_std is None
    # The logistic gradient bound, 1, stands in for clip_norm.
    assert times.noise_multiplier == pytest.approx(std.noise_std * 100, rel=1e-8)
    # A schedule is scaled as a whole.
    shape = np.linspace(1.0, 2.0, 1000)
    scaled = pabi.calibrate(a_run(noise_std=0.01 * shape), 1.0, DELTA).noise_std
    np.testing.assert_allclose(scaled / scaled[0], shape, rtol=1e-12)


def test_a_target_already_met_without_clipping_returns_the_bound_of_the_loss():
    loose = pabi.calibrate(a_run(), 50.0, DELTA, parameter="clip_norm")
    assert loose.clip_norm == LOSS.gradient_bound


def test_any_number_of_epochs():
    """With a strongly convex loss ε converges, so that a target above the limit names no number."""
    run = a_run(pabi.FullBatch())
    limit = epsilon(replace(run, epochs=10**8))
    with pytest.raises(pabi.InvalidInput, match="any number of epochs") as caught:
        pabi.calibrate(run, 1.01 * limit, DELTA, parameter="epochs")
    assert caught.value.field == "epochs"


@every(("cap", "most"), [(400, 400), (20_000, 10_000), (None, 10_000)])
@every("rising", [False, True])
def test_sizes_beyond_the_cap_are_not_tried(monkeypatch, cap, most, rising):
    """On a cost that is monotone in the size; the cap stays what it was."""
    asked = []

    class Cost:
        def __init__(self, size):
            self.size, self.curve = size, self

        def epsilon(self, delta):
            return float(self.size if rising else most + 1 - self.size)

        def _underestimate(self, delta):
            return 0.0

    def priced(run, delta, only=None):
        assert run.batches.cap == cap
        asked.append(run.batches.size)
        return [Outcome("cost", Cost(run.batches.size), None, run)]

    monkeypatch.setattr("pabi.account.calibration.outcomes", priced)
    for module in ("account.targets", "account.analyses.writing"):
        monkeypatch.setattr(f"pabi.{module}.reading", lambda cost, delta: cost.epsilon(delta))
    monkeypatch.setattr("pabi.account.calibration.best_of", lambda answers, _: answers[0].proposal)
    run = a_run(pabi.Poisson(100, cap))
    found = pabi.calibrate(run, 100.5, DELTA, parameter="size")
    assert found.batches == pabi.Poisson(100 if rising else most - 99, cap)
    assert (min(asked), max(asked)) == (1, most)


def test_sizes_of_more_than_is_left_are_not_tried():
    """24 of 40 records left out: no batch has more than 16."""
    kind = pabi.ShuffleOnce
    run = a_run(kind(5, spare=24), n=40, epochs=1, noise_std=0.1)
    least, most = sorted(epsilon(replace(run, batches=kind(size, 24))) for size in (1, 16))
    assert pabi.calibrate(run, most, DELTA, "size").batches.size in (1, 16)
    between = pabi.calibrate(run, 0.5 * (least + most), DELTA, "size")
    assert 1 <= between.batches.size <= 16
    assert between.batches.spare == 24


def test_unreachable_says_what_is_reachable():
    run = a_run()
    for parameter, best in (("epochs", replace(run, epochs=1)), ("size", None)):
        with pytest.raises(pabi.TargetUnreachable, match="best reachable") as caught:
            pabi.calibrate(run, 1e-3, DELTA, parameter=parameter)
        assert caught.value.best > 1e-3
        if best is not None:
            assert caught.value.best == pytest.approx(epsilon(best), rel=1e-11)


def test_bad_input_names_the_field():
    times = {"noise_std": None, "noise_multiplier": 1.0}
    for changes, arguments, field in (
        ({}, (0.0, DELTA), "epsilon"),
        ({}, (math.nan, DELTA), "epsilon"),
        ({}, (1.0, 0.0), "delta"),
        ({}, (1.0, DELTA, "momentum"), "parameter"),
        ({"noise_std": None}, (1.0, DELTA, "epochs"), "noise_std"),
        ({"noise_std": np.full(1000, 0.1)}, (1.0, DELTA, "epochs"), "noise_std"),
        ({"step_size": np.full(1000, 0.1)}, (1.0, DELTA, "size"), "step_size"),
        ({"batches": pabi.FullBatch()}, (1.0, DELTA, "size"), "size"),
        (times, (1.0, DELTA, "clip_norm"), "noise_multiplier"),
        ({"gradient_sensitivity": 1.0}, (1.0, DELTA, "clip_norm"), "gradient_sensitivity"),
        ({"gradient_sensitivity": 1.0}, (1.0, DELTA, "noise_multiplier"), "gradient_sensitivity"),
    ):
        refused(field, pabi.calibrate, a_run(**changes), *arguments)


def test_large_delta_warns_once():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pabi.calibrate(a_run(), 1.0, 1e-3)
    assert [w.category for w in seen] == [pabi.PrivacyWarning]


# What is calibrated of every sampler, the first by default.
MECHANISM = {"n": 10_000, "dimension": 3, "diameter": 2.0}
SAMPLERS = {
    "chain": (
        pabi.LangevinChain(LOSS, 10_000, inverse_temperature=500.0, step_size=1e-3, steps=50),
        ["inverse_temperature", "steps", "chains"],
    ),
    "diffusion": (
        pabi.LangevinDiffusion(LOSS, 10_000, inverse_temperature=3000.0, time=0.1),
        ["inverse_temperature", "time"],
    ),
    "varying": (
        pabi.LangevinDiffusion(LOSS, 10_000, inverse_temperature=[1.0, 2.0], time=1.0),
        ["inverse_temperature"],
    ),
    "mechanism": (
        pabi.ExponentialMechanism(LOSS, **MECHANISM, epsilon=1.0),
        ["inverse_temperature", "epsilon"],
    ),
    "rounds": (
        pabi.IteratedExponentialMechanism(LOSS, **MECHANISM, epsilons=[0.1, 0.2], failure=0.1),
        ["epsilons"],
    ),
}


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


@pytest.mark.parametrize("first", ["one-sided shift", "composition"])
def test_the_best_analysis_may_change_on_the_way(first):
    """A search asks one analysis at a time, and goes on with the one that is best where that one ends."""
    l2, batches, adjacency, target, then = {
        "one-sided shift": (0.02, pabi.FixedSize(20), "replace_one", 0.5, "composition"),
        "composition": (0.01, pabi.Poisson(20), "zero_out", 47.0, "one-sided shift"),
    }[first]
    given = {"n": 1000, "steps": 200, "step_size": 1.0, "noise_multiplier": 1.0}
    loss = pabi.Loss.logistic(1.0, l2=l2)
    run = pabi.NoisySGD(loss, batches=batches, adjacency=adjacency, **given)
    assert run.guarantee(1e-5).method == first
    found = pabi.calibrate(run, target, 1e-5, "noise_multiplier")
    assert found.guarantee(1e-5).method == then
    assert epsilon(found) <= target
    assert epsilon(replace(found, noise_multiplier=0.98 * found.noise_multiplier)) > target


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


def test_what_protects_nobody_or_some_alone_is_not_composed_with():
    """The run that comes of it would not say so."""
    for besides in (BESIDE.for_testing(), a_run().guarantee(DELTA, position=0)):
        assert "expected one that protects" in refused(
            "besides", pabi.calibrate, a_run(), 9.0, DELTA, besides=[BESIDE, besides]
        )


def test_a_file_that_states_less_than_its_certificate_proves_is_not_composed_with():
    honest = pabi.compose(replace(MOMENTS, noise_std=20.0).guarantee(DELTA), BESIDE)
    read = pabi.Guarantee.from_json(honest.to_json())
    assert pabi.calibrate(MOMENTS, 9.0, DELTA, besides=[read]).noise_std > 0.0
    less = replace(read, curve=pabi.tradeoff.Gaussian(1e-3), tuned_at=None)
    for edited in (pabi.Guarantee.from_json(less.to_json()), pabi.compose(less, BESIDE)):
        assert "expected a certificate that verifies" in refused(
            "besides", pabi.calibrate, MOMENTS, 9.0, DELTA, besides=[edited]
        )


# Of every kind what is changed, and those of its parameters that ε tells apart there.
FORGETTING_LITTLE = a_run(loss=pabi.Loss.logistic(feature_norm=1.0))  # ε grows for ever
EVERY = {
    "run": (a_run(), ["noise_std", "noise_multiplier"]),
    "clipped": (a_run(clip_norm=0.5), ["clip_norm"]),
    "forgetting little": (FORGETTING_LITTLE, ["epochs", "steps"]),
    "reshuffled": (
        replace(FORGETTING_LITTLE, batches=pabi.Reshuffle(500)),
        ["epochs", "noise_std"],
    ),
    "full": (a_run(pabi.FullBatch()), ["noise_std"]),
    "a schedule": (a_run(noise_std=np.linspace(0.04, 0.08, 1000)), ["noise_std"]),
    "shuffled": (a_run(pabi.ShuffleOnce(130)), ["noise_std", "size"]),
    "multiplied": (a_run(noise_std=None, noise_multiplier=3.0), ["size"]),
    "sampled": (a_run(pabi.Poisson(100), epochs=1), ["noise_std"]),
    "moments": (replace(MOMENTS, noise_std=20.0), ["noise_std", "noise_multiplier"]),
    **SAMPLERS,
}


BESIDES = {"alone": (), "Gaussian": (BESIDE,), "mixture": (SHUFFLED, BESIDE)}
ALONE = [(name, parameter) for name, (_, parameters) in EVERY.items() for parameter in parameters]
# One of every way to search, beside others.
TOGETHER = [("run", "noise_std"), ("clipped", "clip_norm"), ("forgetting little", "epochs")]
TOGETHER += [("shuffled", "size"), ("chain", "steps"), ("mechanism", "epsilon")]
CASES = [
    pytest.param(besides, *case, id=f"{name}-{'-'.join(case)}")
    for name, besides in BESIDES.items()
    for case in (TOGETHER if besides else ALONE)
]


@pytest.mark.parametrize(("besides", "name", "parameter"), CASES)
def test_the_target_is_met_and_nothing_closer_to_the_boundary_meets_it(besides, name, parameter):
    described = EVERY[name][0]
    target = 1.02 * together(besides, described)
    found = pabi.calibrate(described, target, DELTA, parameter, besides=besides)
    assert together(besides, found) <= target
    curve = pabi.compose(*besides, found.guarantee(DELTA)).curve
    closed = len(besides) < 2 and isinstance(curve, pabi.tradeoff.Gaussian | pabi.tradeoff.Mixture)
    # Or what numerical composition errs by.
    more = beyond(found, parameter, 1e-7 if closed or (name in SAMPLERS and not besides) else 3e-2)
    assert together(besides, more) > target


def beyond(found, parameter, little):
    """The same with a little more of what costs privacy."""
    value = getattr(found, parameter, None)
    match parameter:
        case "epochs" | "steps" | "chains":
            numbers = {"epochs": None, "steps": None} if type(found) is pabi.NoisySGD else {}
            return replace(found, **numbers | {parameter: value + 1})
        case "size":
            more = 1 if found.noise_std is None else -1
            return replace(found, batches=replace(found.batches, size=found.batches.size + more))
        case "noise_std" | "noise_multiplier":
            return replace(found, **{parameter: (1.0 - little) * value})
        case _:
            return replace(found, **{parameter: np.multiply(value, 1.0 + little)})


def test_what_is_spent_already():
    """It is said plainly, before anything is searched."""
    with pytest.raises(pabi.TargetUnreachable, match="besides alone cost") as caught:
        pabi.calibrate(MOMENTS, 0.1, DELTA, besides=(BESIDE, SHUFFLED))
    assert caught.value.best == pabi.compose(BESIDE, SHUFFLED).epsilon(DELTA)
    spent = BESIDE.epsilon(DELTA)
    with pytest.raises(pabi.TargetUnreachable, match="besides included") as caught:
        pabi.calibrate(a_run(), 1.001 * spent, DELTA, "epochs", besides=(BESIDE,))
    least = together((BESIDE,), a_run(epochs=1))
    assert caught.value.best == pytest.approx(least, rel=1e-11)


def test_what_cannot_stand_beside():
    other = replace(MOMENTS, noise_std=9.0)
    mixed = [(replace(other, adjacency="zero_out").guarantee(DELTA),)]
    mixed += [(BESIDE, replace(BESIDE, unit="user")), (BESIDE, BESIDE.curve), (other,)]
    for besides in (*mixed, BESIDE, None, 0.5, "no"):
        refused("besides", pabi.calibrate, MOMENTS, 1.0, DELTA, besides=besides)
