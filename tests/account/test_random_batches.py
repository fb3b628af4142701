"""The analyses of random batches: published numbers, limits, monotonicity, and what they refuse."""

import functools
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FixedSize, Loss, NoisySGD, Poisson
from pabi.account.analyses import RUNS, composition, random_batches
from pabi.account.analyses.shifted_interpolation import binned
from pabi.account.facts.sampled import SampledRun
from pabi.literature import bok
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.tradeoff import PoissonSubsampled
from support.last_iterates import truth

DELTA = 1e-5
AT_NIGHT = pytest.mark.nightly
RTOL = 2e-3  # two readings of ε, each up to 1e-3 above the truth

# Slopes c = 1 - ηλ = 0.9, p = 0.02, and per-record curvature in [0, 1].
LOSS = pabi.Loss.convex(smoothness=1.0, gradient_bound=1.0, glm=True, l2=1.0)


def example(batches, noise, **changes):
    settings = {"n": 5000, "steps": 2000, "step_size": 0.1, "clip_norm": 1.0}
    return pabi.NoisySGD(LOSS, batches=batches, noise_std=noise, **settings | changes)


@functools.cache
def guaranteed(batches, noise, **changes):
    return example(batches, noise, **changes).guarantee(DELTA)


def epsilon_of(run, name, delta=DELTA):
    analysis = next(a for a in RUNS if a.name == name)
    return analysis.apply(run, delta, None).epsilon(delta)


def test_known_numbers():
    run = example(pabi.Poisson(100), 0.02, adjacency="zero_out")  # C/(bς) = 1/2
    assert epsilon_of(run, "composition") == pytest.approx(1.9335, rel=1e-3)
    guarantee = run.guarantee(DELTA)
    assert guarantee.epsilon(DELTA) <= 0.321
    low, high = guarantee.epsilon_bounds(DELTA, rtol=1e-3)
    assert 0.0 < low <= high <= low * (1.0 + 1e-3)
    run = example(pabi.FixedSize(100), 0.02)  # L/(bς) = 1
    assert epsilon_of(run, "composition") == pytest.approx(7.007, rel=1e-3)
    assert guaranteed(run.batches, 0.02).epsilon(DELTA) <= 5.16
    assert epsilon_of(run, "two-sided shift") <= 5.16  # where the printed form gives 9.873


@pytest.mark.parametrize(
    ("batches", "lengths"),
    [
        (pabi.FixedSize(100), (2000, 10**9)),
        pytest.param(pabi.Poisson(100, cap=160), (10**4, 10**6, 10**9), marks=AT_NIGHT),
    ],
)
def test_long_runs_cost_what_their_window_costs(batches, lengths):
    found = [guaranteed(batches, 0.02, steps=t).epsilon(DELTA) for t in lengths]
    assert found == [found[0]] * len(found)
    assert found[0] < epsilon_of(example(batches, 0.02, steps=lengths[0]), "composition")


def test_constrained_convex_runs_converge():
    loss = LOSS.with_l2(0.0)
    given = {"steps": 10**5, "step_size": 0.1, "noise_std": 0.12, "clip_norm": 1.0, "diameter": 0.3}
    base = pabi.NoisySGD(loss, 1000, pabi.FixedSize(50), **given)
    found = [replace(base, steps=t).guarantee(DELTA).epsilon(DELTA) for t in (10**5, 10**7)]
    assert found[0] == found[1]
    assert epsilon_of(replace(base, steps=10**6), "composition") > 3.0 * found[0]


@pytest.mark.parametrize(
    "batches", [pytest.param(pabi.FixedSize(100), marks=AT_NIGHT), pabi.Poisson(100, cap=150)]
)
def test_cooling_down_helps(batches):
    run = example(batches, 0.02, adjacency="zero_out")
    cooled = replace(run, steps=run.steps + 5, cooldown_steps=5)
    assert cooled.guarantee(DELTA).epsilon(DELTA) < run.guarantee(DELTA).epsilon(DELTA)


def test_a_constant_schedule_may_be_written_out():
    run = example(pabi.Poisson(100, cap=150), 0.02, adjacency="zero_out", steps=300)
    written = replace(run, step_size=np.full(300, 0.1), noise_std=np.full(300, 0.02))
    for name in ("composition", "one-sided shift"):
        assert epsilon_of(written, name) == pytest.approx(epsilon_of(run, name), rel=0.01)


def test_a_step_without_noise_to_spare_costs_more():
    noise = np.full(300, 0.02)
    noise[-5:] *= 0.7
    run = example(pabi.Poisson(100, cap=150), 0.02, adjacency="zero_out", steps=300)
    varied = replace(run, noise_std=noise)
    assert epsilon_of(varied, "one-sided shift") > epsilon_of(run, "one-sided shift")
    curve = RUNS[0].apply(varied, DELTA, None).curve
    by_hand = PoissonSubsampled(0.5, 0.02).self_compose(295)
    by_hand = by_hand.compose(PoissonSubsampled(0.5 / 0.7, 0.02).self_compose(5))
    assert curve.epsilon(DELTA) == pytest.approx(by_hand.epsilon(DELTA), rel=RTOL)


def test_fixed_size_displaces_a_record_under_either_adjacency():
    replaced = example(pabi.FixedSize(100), 0.02)
    zeroed = replace(replaced, adjacency="zero_out")
    assert zeroed.sensitivity == replaced.sensitivity == 2.0
    # Zeroing changes one of the two gradients, though, and the other still tells something.
    poisson = replace(zeroed, batches=pabi.Poisson(100))
    worse = epsilon_of(replaced, "composition")
    assert epsilon_of(poisson, "composition") < epsilon_of(zeroed, "composition") < 0.8 * worse
    plain = guaranteed(replaced.batches, 0.02)
    assert zeroed.guarantee(DELTA).epsilon(DELTA) < plain.epsilon(DELTA)


def test_a_batch_without_cap_may_fail():
    capped = example(pabi.Poisson(100, cap=160), 0.02)
    open_ended = example(pabi.Poisson(100), 0.02)
    view = SampledRun(open_ended, DELTA)
    assert 0.0 < view.covered.failure <= 1e-3 * DELTA
    assert 100 < view.covered.cap < 300
    curve = random_batches.apply(open_ended, DELTA).curve
    assert curve.failure == view.covered.failure
    assert curve.rdp(2.0) == np.inf
    assert random_batches.apply(capped, DELTA).curve.rdp(2.0) < np.inf


def test_bins_round_up_and_keep_the_count():
    rng = np.random.default_rng(0)
    mus, counts = rng.uniform(0.1, 2.0, 3000), rng.integers(1, 5, 3000).astype(float)
    sizes = np.stack([mus, 2.0 / mus], axis=1)
    found = binned(sizes, counts)
    assert len(found) <= 48
    assert sum(k for _, k in found) == counts.sum()
    for level in np.linspace(0.1, 2.0, 50):
        for other in (1.2, 2.0, 9.0):
            large = (mus >= level) & (sizes[:, 1] >= other)
            offered = sum(k for (mu, size), k in found if mu >= level and size >= other)
            assert offered >= counts[large].sum()


def test_what_an_adjacent_pair_differ_by_is_not_enough():
    settings = {"n": 100, "steps": 5, "step_size": 0.1, "noise_std": 1.0}
    settings |= {"loss": pabi.Loss.convex(smoothness=1.0), "gradient_sensitivity": 1.0}
    fixed, poisson = pabi.FixedSize(10), pabi.Poisson(10)
    for batches, adjacency in (
        (fixed, "replace_one"),
        (fixed, "zero_out"),
        (poisson, "replace_one"),
    ):
        with pytest.raises(InvalidInput, match="gradient_sensitivity"):
            pabi.NoisySGD(batches=batches, adjacency=adjacency, **settings)
    run = pabi.NoisySGD(batches=poisson, adjacency="zero_out", **settings)
    assert run.guarantee(DELTA).epsilon(DELTA) > 0.0


def test_positions_and_normal_form_are_refused():
    run = example(pabi.FixedSize(100), 0.02)
    with pytest.raises(InvalidInput, match="position"):
        run.guarantee(DELTA, position=0)
    with pytest.raises(InvalidInput, match="batches"):
        run.iteration()


READINGS = 1.0 + 2.5e-3  # two readings of ε, each up to 1e-3 above what it reads
PARABOLA = Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0)
SHIFTS = random_batches.apply, random_batches.two_sided_shift


def short_run(batches=None, **changes):
    settings = {"n": 20, "steps": 6, "step_size": 0.3, "noise_std": 0.5, "clip_norm": 1.0}
    batches = FixedSize(4) if batches is None else batches
    return NoisySGD(changes.pop("loss", LOSS), batches=batches, **settings | changes)


def test_one_step_of_poisson_batches_is_exact():
    """The record is there or not, and all noise hides it."""
    run = short_run(Poisson(4), steps=1, adjacency="zero_out", noise_std=0.3)
    curve = random_batches.apply(run, DELTA).curve
    for epsilon in (0.0, 0.2, 0.5):
        exact = truth(run, epsilon)
        assert exact <= curve.delta(epsilon) <= exact * (1.0 + 1e-2) + DELTA


@pytest.mark.parametrize("steps", [2, 40, 10_000])
def test_steps_that_forget_everything_cost_one(steps):
    """With η = 1 and second derivatives of 1, x is the mean of what the batch says, whatever it was."""
    run = short_run(loss=PARABOLA, clip_norm=None, steps=steps, step_size=1.0)
    once = composition.apply(short_run(steps=1), DELTA).epsilon(DELTA)
    for shift in SHIFTS:
        assert shift(run, DELTA).epsilon(DELTA) <= once * READINGS


def test_never_above_the_published_bounds():
    """Bok, Su, Altschuler 2024, Thms 4.10 and 4.9, at every length of the window."""
    given = {"n": 1000, "noise_std": 0.12, "step_size": 0.1, "diameter": 0.3, "steps": 100_000}
    run = short_run(FixedSize(50), loss=LOSS.with_l2(0.0), **given)
    ours = random_batches.apply(run, DELTA).epsilon(DELTA)
    for window in (30, 100, 300, 1000):
        published = bok.theorem_4_10(L=2.0, b=50, start=100_000 - window, **given)
        assert ours <= published.value.epsilon(DELTA) * READINGS
    given = {"n": 5000, "steps": 2000, "noise_std": 0.02}
    ours = random_batches.two_sided_shift(short_run(FixedSize(100), step_size=0.1, **given), DELTA)
    for window in (1, 3, 10, 30, 100):
        published = bok.theorem_4_9(L=2.0, b=100, slope=0.9, start=2000 - window, **given)
        assert ours.epsilon(DELTA) <= published.value.epsilon(DELTA) * READINGS


def test_what_is_refused():
    there_or_not = short_run(Poisson(4), adjacency="zero_out")
    varying = short_run(step_size=np.linspace(0.3, 0.1, 6))
    for shifts, description, reason in (
        (SHIFTS, short_run(Cyclic(4)), "the batches are not drawn afresh at every step"),
        (SHIFTS, short_run(release="path"), "the path is released, so nothing is forgotten"),
        (SHIFTS, short_run(update="other"), "the update is not plain noisy SGD"),
        (SHIFTS, short_run(loss=Loss.unknown()), "curvature"),
        (SHIFTS, short_run(step_size=5e-324, noise_std=0.1), "the noise on an iterate underflows"),
        (SHIFTS[1:], there_or_not, "record pulls nowhere: see one-sided shift"),
        (SHIFTS[1:], varying, "step sizes or noises vary: see one-sided shift"),
        (SHIFTS[1:], short_run(steps=1), "one step leaves nothing to lag behind"),
    ):
        for shift in shifts:
            with pytest.raises(NotApplicable, match=reason):
                shift(description, DELTA)
