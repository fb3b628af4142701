"""Nonconvex losses with Hölder gradients: how far a step stretches, and what is proven of runs."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi import Loss, NoisyIteration
from support.falsification.claims import EPSILONS, guarantees
from support.falsification.random_batches import hockey_stick, random_instance
from support.falsification.rough import (
    Rough,
    cut,
    modulus_above,
    radial,
    random_rough_run,
    rough_base,
    stretched,
    two_steps,
)
from support.falsification.thrown import random_thrown
from support.falsification.walks import Step, Walk, shuffled, violated

EXPONENTS = [0.1, 0.3, 0.5, 0.8, 0.999, 1.0]
DISTANCES = np.geomspace(1e-9, 1e9, 181)
ROUNDING = 1.0 - 1e-13  # of a power and a few products
ERROR = 1e-6  # of quadrature through cusps; what is found of it is allowed for in every comparison

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


# The gradients.


def test_gradients_have_the_constant_that_is_said():
    """No pair has more, and the symmetric pair has it."""
    for exponent, wave, bound in itertools.product(EXPONENTS, [None, 1.3], [0.5, 100.0]):
        rng = np.random.default_rng(int(100 * exponent))
        g = Rough(exponent, 2.0, 0.3, bound, -1.0, wave)
        x = rng.normal(size=20_000) * 10.0 ** rng.uniform(-4, 1, 20_000) + 0.3
        y = x + rng.normal(size=20_000) * 10.0 ** rng.uniform(-5, 1, 20_000)
        assert np.all(np.abs(g(x)) <= bound), (exponent, wave)
        rounding = 1e-15 * 2.0 ** (1 - exponent) * 2.0 * exponent * 20.0 / np.abs(x - y) ** exponent
        ratio = np.abs(g(x) - g(y)) / np.abs(x - y) ** exponent
        assert np.all(ratio <= 2.0 * (1 + 1e-6) + rounding), (exponent, wave)
        d = np.geomspace(1e-7, 1e-5, 50)  # the bound is further off
        attained = np.abs(g(0.3 + d / 2) - g(0.3 - d / 2)) / d**exponent
        assert attained == pytest.approx(2.0, rel=1e-8), (exponent, wave)


def test_radial_gradients_have_the_constant_that_is_said():
    for exponent, d in itertools.product(EXPONENTS, [2, 5]):
        rng = np.random.default_rng(d)
        x, y = rng.normal(size=(2, 20_000, d)) * 10.0 ** rng.uniform(-3, 1, (2, 20_000, 1))
        y[::2] = -x[::2] * rng.uniform(0.5, 1.5, (10_000, 1))
        gap = np.linalg.norm(x - y, axis=1)
        moved = radial(x, np.zeros(d), exponent, 3.0) - radial(y, np.zeros(d), exponent, 3.0)
        assert np.max(np.linalg.norm(moved, axis=1) / gap**exponent) <= 3.0 * (1 + 1e-9)


def test_a_step_from_two_starts_attains_the_stated_modulus():
    """From ±w/2, through the cusp, to Gaussians ω(w) apart: the claim is met, and a constant that is a tenth
    too small is caught."""
    for p, w in ((0.3, 0.02), (0.5, 1.0), (0.8, 3.0)):
        cusp = Rough(p, 1.5, 0.0, 10.0)
        step = Step((lambda x, g=cusp: x - 0.7 * g(x),) * 2, 1.0, cusp.kinks)
        walk = Walk([step], (-w / 2, w / 2))
        mu = float(stretched(p, 1.5, 0.7, 10.0)(w))
        truth = walk.delta(EPSILONS)[0].max(axis=0)
        wanted = [pabi.tradeoff.Gaussian(mu).delta(e) for e in EPSILONS.tolist()]
        assert truth == pytest.approx(np.array(wanted), abs=1e-10)
        for constant, wrong in ((1.5, False), (1.35, True)):
            modulus = modulus_above(p, constant, 0.7, 0.0, 1.0, 10.0)
            one = NoisyIteration(
                moduli=(modulus,), step_sensitivity=0.0, step_noise_std=1.0, start=w
            )
            assert bool(violated(walk, {"modulus": one.guarantee(1e-3)}, EPSILONS)) == wrong


# The stated modulus.


def test_two_steps_nearly_meet_the_stated_modulus():
    for exponent, change in itertools.product([0.3, 0.5, 0.8], [0.05, 1.0]):
        found = two_steps(exponent, change, 1.5, change)
        assert not violated(found.training.walk, {"": stated(found, 1.0)}, EPSILONS)
        truth = found.training.walk.delta(EPSILONS)[0].max(axis=0)
        assert truth[0] > 0.98 * stated(found, 1.0).delta(0.0), (exponent, change)
        assert violated(found.training.walk, {"": stated(found, 0.8)}, EPSILONS), (exponent, change)


def stated(found, part: float):
    """What is proven of the first record from a constant that is so large a part of the true one."""
    moduli = [
        modulus_above(found.exponent, part * found.constant, eta, 0.0, 1.0, found.bound)
        for eta in found.training.eta
    ]
    noise = np.array(found.training.eta) * np.array(found.training.noise)
    used = np.array([found.training.sensitivity, 0.0])
    return NoisyIteration(
        moduli=tuple(moduli), step_sensitivity=used, step_noise_std=noise
    ).guarantee(1e-3)


# The library's modulus.


def random_step(rng) -> tuple:
    """(loss's constants, step size, l2, batch fraction, clip, gradient bound)."""
    p = float(rng.choice([0.0, *EXPONENTS, rng.uniform(0.05, 1.0)]))
    constant, eta = (float(np.exp(rng.uniform(-4.0, 3.0))) for _ in range(2))
    l2 = float(rng.uniform(0.0, 0.99)) / eta if rng.random() < 0.5 else 0.0
    clip, bound = (
        float(np.exp(rng.uniform(-3.0, 3.0))) if rng.random() < 0.5 else None for _ in "ab"
    )
    return p, constant, eta, l2, Fraction(int(rng.integers(1, 12)), 6), clip, bound


def told(p, constant, l2, bound):
    facts = {} if bound is None else {"gradient_bound": bound}
    loss = Loss.holder(exponent=p, constant=constant, **facts)
    return loss.with_l2(l2) if l2 else loss


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.nightly)])
def test_moduli_are_those_of_the_worst_gradients(count):
    """At symmetric pairs about a cusp; and not much is given away."""
    rng = np.random.default_rng(count)
    for _ in range(count):
        p, constant, eta, l2, fraction, clip, bound = random_step(rng)
        modulus = told(p, constant, l2, bound).modulus(eta, clip, fraction)
        most = min((b for b in (clip, bound) if b is not None), default=None)
        kept = 1.0 - eta * l2
        wanted = kept * stretched(p, constant, eta * float(fraction) / kept, most)(DISTANCES)
        found = np.array([modulus(d) for d in DISTANCES.tolist()])
        context = (p, constant, eta, l2, fraction, clip, bound)
        assert np.all(found >= wanted * ROUNDING), context
        # Tangents are at most 2 % of the power too high.
        power = wanted - kept * DISTANCES
        assert np.all(found <= wanted * (1.0 + 1e-9) + 0.02 * power), context
        # A batch of `fraction` times the divisor, all records the same cusp.
        g = Rough(p, constant, 0.0, math.inf if most is None else most)
        x, y = DISTANCES / 2, -DISTANCES / 2
        apart = [v - eta * (float(fraction) * g(v) + l2 * v) for v in (x, y)]
        assert np.all(found >= (apart[0] - apart[1]) * ROUNDING), context


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.nightly)])
def test_no_mean_of_gradients_stretches_further(count):
    """Several records, each with a centre of its own, clipped one by one or not, by norms or by coordinates,
    in the plane and in space; pairs near and far, symmetric about centres or not."""
    rng = np.random.default_rng([count, 1])
    for _ in range(count):
        p, constant, eta, l2, _, clip, _ = random_step(rng)
        d, records, size = (int(rng.integers(1, high)) for high in (4, 4, 4))
        centres = rng.normal(size=(records, d)) * float(rng.choice([0.0, 1.0]))
        how = str(rng.choice(["norm", "coordinates"])) if clip else "norm"

        def step(x, at=centres, bound=clip, how=how, p=p, m=constant, eta=eta, l2=l2, size=size):
            total = np.zeros_like(x)
            for centre in at:
                g = radial(x, centre, p, m)
                if bound is not None:
                    each = bound / math.sqrt(x.shape[1])
                    g = cut(g, bound) if how == "norm" else np.clip(g, -each, each)
                total += g
            return x - eta * (total / size + l2 * x)

        x = rng.normal(size=(4000, d)) * 10.0 ** rng.uniform(-4, 1, (4000, 1))
        y = np.where(rng.random((4000, 1)) < 0.5, 2 * centres[0] - x, rng.normal(size=(4000, d)))
        loss = told(p, constant, l2, None)
        modulus = loss.modulus(eta, clip, Fraction(records, size), how)
        gaps = np.linalg.norm(x - y, axis=1)
        apart = np.linalg.norm(step(x) - step(y), axis=1)
        worst = np.argsort(gaps / np.maximum(apart, 1e-300))[:200]
        worst = np.append(worst, np.argsort((gaps + gaps**p) / np.maximum(apart, 1e-300))[:200])
        x, y, apart = x[worst], y[worst], apart[worst]
        allowed = np.array([modulus(g) for g in gaps[worst].tolist()])
        rounding = 1e-14 * (np.abs(x).max() + np.abs(y).max() + eta * constant * 100.0)
        assert np.all(apart <= allowed * (1.0 + 1e-12) + rounding), (loss, eta, clip, how)


def test_moduli_at_the_ends():
    """Distances near the ends of doubles, exponents near those of theirs, empty batches, steps beyond 1/λ."""
    for p in (1e-3, 0.5, 1.0 - 1e-9, 1.0):
        modulus = Loss.holder(exponent=p, constant=2.0).modulus(0.5)
        assert modulus(0.0) == 0.0
        for d in (5e-324, 1e-300, 1e-30, 1e30, 1e290):
            assert modulus(d) >= (d + d**p) * ROUNDING
    rough = Loss.holder(exponent=0.5, constant=2.0)
    assert rough.modulus(0.5).linear is None
    assert Loss.holder(exponent=0.5, constant=2.0, gradient_bound=1.0).modulus(0.5).linear is None
    smooth = Loss.holder(exponent=1.0, constant=2.0).with_l2(0.5).modulus(0.5)
    assert smooth.linear == pytest.approx(0.75 + 1.0, rel=1e-12)
    assert rough.with_l2(0.5).modulus(0.5, None, 0.0).linear == pytest.approx(0.75)
    for l2 in (2.0, 3.0, 100.0):  # ηλ = 1, 1.5, 50: |1 − ηλ|·δ + ηM·δ^p, or nothing is said
        beyond = rough.with_l2(l2).modulus(0.5)
        for d in (1e-6, 1.0, 1e6):
            assert beyond(d) >= (abs(1.0 - 0.5 * l2) * d + math.sqrt(d)) * ROUNDING


# What the library says of runs.


@pytest.mark.parametrize("count", [6, pytest.param(800, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("walls", [False, True], ids=["free", "walls"])
def test_runs_are_never_safer_than_guaranteed(walls, count):
    rng = np.random.default_rng([count, walls, 1])
    for _ in range(count):
        found, delta = random_rough_run(rng, walls), float(10 ** rng.uniform(-5, -1))
        run = found.told().run
        claims = guarantees(run, delta)
        if len(found.training.batches) > 1:
            claims["its position"] = run.guarantee(delta, position=found.training.position)
        violations = violated(found.training.walk, claims, EPSILONS, ERROR)
        assert not violations, (violations, found)


@pytest.mark.parametrize("count", [4, pytest.param(250, marks=pytest.mark.nightly)])
def test_secret_orders_are_never_safer_than_guaranteed(count):
    rng = np.random.default_rng([count, 2])
    for _ in range(count):
        found = random_rough_run(rng, bool(rng.random() < 0.5), alike=True)
        average, run = shuffled(found.told())
        violations = violated(average, guarantees(run, 1e-3), EPSILONS, ERROR)
        assert not violations, (violations, found)


def test_two_steps_nearly_meet_the_guarantee():
    for exponent in [0.3, 0.8]:
        found = two_steps(exponent, 1.0, 1.5, 1.0)
        run = replace(found, training=replace(found.training, clip=None)).told().run
        claim = run.guarantee(1e-3, position=0)
        assert not violated(found.training.walk, {"": claim}, EPSILONS), exponent
        assert found.training.walk.delta(EPSILONS)[0].max(axis=0)[0] > 0.98 * claim.delta(0.0)
        less = replace(run, loss=Loss.holder(exponent=exponent, constant=0.8 * found.constant))
        assert violated(found.training.walk, {"": less.guarantee(1e-3, position=0)}, EPSILONS)


def rough_batches(rng, sampler: str):
    """An instance of random batches with rough gradients."""
    found = random_instance(
        rng, sampler, "zero_out" if rng.random() < 0.5 else "replace_one", False
    )
    while found.n > 4 or len(found.eta) > 4:
        found = random_instance(rng, sampler, str(rng.choice(["zero_out", "replace_one"])), False)
    exponent, constant = float(rng.choice([0.3, 0.5, 0.8])), float(np.exp(rng.uniform(-1.5, 1.0)))
    l2 = found.loss.l2
    found = rough_base(rng, found, exponent, constant)
    return replace(found, loss=Loss.unknown().with_l2(l2)), exponent, constant


@pytest.mark.parametrize("count", [3, pytest.param(150, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("sampler", ["poisson", "fixed_size"])
def test_random_batches_are_never_safer_than_guaranteed(sampler, count):
    """With the loss told where there is one, and else from the clip alone."""
    rng = np.random.default_rng([count, len(sampler)])
    for _ in range(count):
        found, exponent, constant = rough_batches(rng, sampler)
        truth, error = hockey_stick(found, EPSILONS)
        assert error <= ERROR
        for loss in (found.loss, told(exponent, constant, found.loss.l2, None)):
            for name, claim in guarantees(replace(found, loss=loss).run, 1e-3).items():
                said = np.array([claim.delta(e) for e in EPSILONS.tolist()])
                assert np.all(truth.max(axis=0) - error <= said), (name, loss, found)


@pytest.mark.parametrize("count", [3, pytest.param(300, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_bins_are_never_safer_than_guaranteed(adjacency, count):
    rng = np.random.default_rng([count, len(adjacency)])
    for _ in range(count):
        found = random_thrown(rng, adjacency, bool(rng.random() < 0.5), most_records=3)
        p, constant = float(rng.choice([0.3, 0.5, 0.8])), float(np.exp(rng.uniform(-1.5, 1.0)))
        found = rough_base(rng, found, p, constant)
        found = replace(found, loss=told(p, constant, found.loss.l2, None))
        run = found.run(pabi.BallsInBins(found.size, found.cap))
        violations = violated(found.average, guarantees(run, 1e-3), EPSILONS, ERROR)
        assert not violations, (violations, found)
