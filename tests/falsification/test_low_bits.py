"""Attacks on the last bits of a noisy sum: which doubles are reached from which sum."""

import math
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import binom

from pabi import FullBatch, Loss, NoisySGD, PrivacyWarning
from pabi.convert import gdp_to_delta
from pabi.execute import engine
from pabi.execute.noise import StepNoise, grid_for, noisy
from pabi.learn import train
from support.every_case import every
from support.execution import RARE


def in_doubles(sums, rng):
    return sums + rng.standard_normal(sums.shape)


def on_the_grid(sums, rng):
    return noisy(sums, 1.0, grid_for(1.0, 1.0), rng)


def of_a_step(sums, rng):
    return StepNoise(1.0, 1.0, 1)(sums, rng)


def not_from_one(released):
    """How many of these a sum of 1 does not reach by adding a double.

    1 + z in (0, ½) has a z whose spacing is 2⁻⁵³, so that 1 + z, which is then exact, is a multiple of it
    (Mironov 2012; Jin, McMurtry, Rubinstein, Ohrimenko 2022).
    """
    near = released[(released > 0.0) & (released < 2.0**-4)]
    return np.count_nonzero(near * 2.0**53 % 1.0)


@every(("mechanism", "works"), [(in_doubles, True), (on_the_grid, False), (of_a_step, False)])
def test_unreachable_doubles_tell_the_sum_unless_noise_is_on_the_grid(mechanism, works):
    """A count of 0 or 1 under noise of 1."""
    rng = np.random.default_rng(0)
    zeros, ones = (not_from_one(mechanism(np.full(100_000, s), rng)) for s in (0.0, 1.0))
    assert ones == 0
    assert (zeros > 1000) == works
    assert works or zeros == 0
    # No double of the grid is reached from one sum alone: the noise is a whole number either way.
    grid = StepNoise(1.0, 1.0, 1).grid if mechanism is of_a_step else grid_for(1.0, 1.0)
    assert works or all(
        np.all(mechanism(np.full(1000, s), rng) / grid % 1.0 == 0.0) for s in (0.0, 1.0)
    )


class InDoubles(StepNoise):
    """What trainings had before."""

    def __call__(self, sums, generator):
        return sums + self.noise_std * generator.standard_normal(sums.shape)


@every(("noise", "works"), [(InDoubles, True), (StepNoise, False)])
@every("release", ["last", "path"])
def test_unreachable_doubles_tell_what_a_step_summed(monkeypatch, noise, works, release):
    """A training of one step, of a record whose gradient is −1 in every coordinate, or left out."""
    monkeypatch.setattr(engine, "StepNoise", noise)
    run = NoisySGD(
        *(Loss.convex(1.0, gradient_bound=400.0), 1, FullBatch()),
        **{"steps": 1, "step_size": 1.0, "noise_std": 1.0, "release": release},
    )
    seen = []
    for pull in (0.0, -1.0):
        gradients = lambda x, rows, pull=pull: np.full((len(rows), *x.shape), pull)  # noqa: E731
        with pytest.warns(PrivacyWarning):
            seen.append(train(run, gradients, np.zeros(100_000), 0).x)
    assert np.median(seen[1]) > 0.5
    zeros, ones = map(not_from_one, seen)
    assert (zeros > 1000) == works
    assert works or zeros == ones == 0


@every("bits", [1, 3])
def test_last_bits_on_the_grid_are_as_likely_from_either_sum(bits):
    """Each pattern is seen as often, but for chance."""
    rng, draws = np.random.default_rng(1), 200_000
    grid = grid_for(1.0, 1.0)
    low, high = binom.ppf([RARE / 32, 1.0 - RARE / 32], draws, 2.0**-bits)
    for s in (0.0, 1.0):
        whole = on_the_grid(np.full(draws, s), rng) / grid
        counts = np.bincount(whole.astype(np.int64) & ((1 << bits) - 1))
        assert np.all((low <= counts) & (counts <= high))


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0, 16.0])
def test_rounded_noise_hides_as_the_real_one_does(ratio):
    """In balls: δ(ε) of the two laws, shifted by whole steps of the grid, is at most that of real Gaussians,
    and on a fine grid nearly so."""
    with ctx.workprec(200):
        reach = range(-int(14 * ratio) - 20, int(14 * ratio) + 21)
        ends = [((arb(k) - 0.5) / (arb(ratio) * arb(2).sqrt())).erfc() / 2 for k in reach]
        law = [one - two for one, two in pairwise(ends)]
        for shift in (1, 3):
            for epsilon in (0.0, 0.5, 2.0):
                excess = (
                    q - arb(epsilon).exp() * p for q, p in zip(law, law[shift:], strict=False)
                )
                delta = float(sum(x.max(arb(0)) for x in excess))
                real = gdp_to_delta(shift / ratio, epsilon)
                assert delta <= real * (1.0 + 1e-12)
                assert delta > 0.98 * real or ratio < 16.0 or real < 1e-6
    assert math.isclose(float(sum(law)), 1.0)
