"""Random batches of losses with kinks, wells, or gradients that clipping bends, in one dimension.

The laws are those of `random_batches`; the descriptions say less than there: nothing about a scalar times
a fixed vector, only Lipschitz, weakly smooth or dissipative.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from pabi import FixedSize, Loss, Poisson
from support.falsification.claims import EPSILONS, exceeding
from support.falsification.random_batches import (
    SAMPLERS,
    ZERO,
    Constant,
    Instance,
    _loguniform,
    hockey_stick,
    long_instance,
    random_instance,
)
from support.falsification.walks import Jumps, Rough, Well

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

NAMES = [f"{sampler}, {adjacency}" for sampler, adjacency in SAMPLERS]


def violated(instance: Instance, claim) -> list:
    """What the exact divergences exceed."""
    both, error = hockey_stick(instance, EPSILONS)
    assert error <= 1e-7
    return exceeding(both.max(axis=0), error, {"": claim})


def unmarked(instance: Instance) -> Instance:
    """The same, without saying that clipping is harmless."""
    kept = tuple((k, v) for k, v in instance.loss.parameters if k != "glm")
    return replace(instance, loss=replace(instance.loss, parameters=kept))


@pytest.mark.parametrize("count", [1, pytest.param(50, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("sampler", "adjacency"), SAMPLERS, ids=NAMES)
def test_clipped_losses_of_no_known_form(sampler, adjacency, count):
    rng = np.random.default_rng([count, SAMPLERS.index((sampler, adjacency))])
    seen = 0
    while seen < count:
        if rng.random() < 0.3:
            instance = long_instance(rng, sampler, adjacency)
        else:
            instance = random_instance(rng, sampler, adjacency, bool(rng.random() < 0.5))
        if instance.clip is None:
            continue
        seen += 1
        told = unmarked(instance)
        claim = told.run.guarantee(float(10 ** rng.uniform(-6, -1)))
        assert not violated(told, claim), told


def other_instance(rng, kind: str, sampler: str, adjacency: str) -> Instance:
    """A few records of a loss of this kind between walls."""
    n = int(rng.integers(2, 6))
    b, t = int(rng.integers(1, n + 1)), int(rng.integers(1, 6))
    eta, bound = _loguniform(rng, 0.1, 1.2), float(rng.choice([0.5, 1.0]))
    noise = 2.0 * bound / (b * _loguniform(rng, 0.2, 4.0))
    diameter = eta * noise * _loguniform(rng, 0.5, 12.0)
    width = diameter / 2

    def at() -> float:
        return float(rng.choice([0.0, rng.uniform(-width, width)]))

    if kind == "lipschitz":
        loss = Loss.lipschitz(bound)

        def draw():
            if rng.random() < 0.4:
                return Constant(float(rng.choice([-bound, bound])))
            return Jumps((at(),), (-bound, bound))

    elif kind == "weakly smooth":
        p, constant = float(rng.choice([0.3, 0.5, 0.8])), bound * _loguniform(rng, 0.5, 3.0)
        loss = Loss.weakly_smooth([(p, constant)], gradient_bound=bound)

        def draw():
            return Rough(p, constant, at(), bound, 1.0)

    else:
        rate, depth = _loguniform(rng, 0.1, 0.8) / eta, bound * _loguniform(rng, 0.2, 1.0)
        slope = rate * _loguniform(rng, 0.5, 4.0)
        kappa, top = rate * float(rng.uniform(0.1, 0.9)), max(rate, slope - rate)
        # Within the walls no gradient is larger; centres lie between them.
        bound = rate * diameter + depth + 0.5
        noise = 2.0 * bound / (b * _loguniform(rng, 0.2, 4.0))
        loss = Loss.dissipative(depth**2 / (rate - kappa), kappa, top, gradient_bound=bound)

        def draw():
            return Well(rate, slope, depth, at(), float(rng.uniform(-0.5, 0.5)))

    record = draw()
    if rng.random() < 0.4:
        loss = loss.with_l2(_loguniform(rng, 0.05, 0.8) / eta)
    cap = None if rng.random() < 0.4 else int(rng.integers(b, n + 1))
    return Instance(
        ((draw(), n - 1),),
        record,
        ZERO if adjacency == "zero_out" else draw(),
        FixedSize(b) if sampler == "fixed_size" else Poisson(b, cap=cap),
        (eta,) * t,
        (noise,) * t,
        loss,
        diameter=diameter,
        start=float(rng.uniform(-width, width)),
        cooldown=int(rng.integers(0, t)) if rng.random() < 0.3 else 0,
    )


@pytest.mark.parametrize("count", [1, pytest.param(50, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("sampler", "adjacency"), SAMPLERS, ids=NAMES)
@pytest.mark.parametrize("kind", ["lipschitz", "weakly smooth", "dissipative"])
def test_losses_that_bend_or_jump(kind, sampler, adjacency, count):
    rng = np.random.default_rng([count, SAMPLERS.index((sampler, adjacency)), len(kind)])
    for _ in range(count):
        instance = other_instance(rng, kind, sampler, adjacency)
        claim = instance.run.guarantee(float(10 ** rng.uniform(-6, -1)))
        assert not violated(instance, claim), instance


def test_half_the_noise_is_caught():
    """Told to the accountant as it is, run with half of it."""
    rng = np.random.default_rng(1)

    def caught():
        instance = other_instance(rng, "lipschitz", "fixed_size", "replace_one")
        louder = replace(instance, noise=tuple(2.0 * x for x in instance.noise))
        return violated(instance, louder.run.guarantee(1e-2))

    assert any(caught() for _ in range(20)), "no instance shows it"


def test_the_gradients_keep_to_their_bounds():
    rng = np.random.default_rng(2)
    for _ in range(50):
        instance = other_instance(rng, "dissipative", "poisson", "replace_one")
        x = np.linspace(-instance.half, instance.half, 101)
        for gradient in (instance.record, instance.other, instance.base[0][0]):
            assert np.abs(gradient(x)).max() <= instance.loss.gradient_bound
            assert gradient.steepest <= dict(instance.loss.parameters)["smoothness"]
        assert math.isfinite(instance.half)
