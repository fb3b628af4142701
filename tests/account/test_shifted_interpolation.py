"""Shifted interpolation against last iterates of known law, published numbers, and what is refused."""

import math

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FixedSize, Loss, NoisyIteration, NoisySGD, ShuffleOnce
from pabi.account.analyses import shifted_interpolation
from pabi.numbers.errors import NotApplicable

DELTA = 1e-5
ROUNDINGS = 1e-10  # relative, more than the optimal shifts of short runs err


def a_run(batches=None, **changes):
    settings = {"n": 12, "epochs": 4, "step_size": 0.3, "noise_std": 0.5}
    settings |= {"gradient_sensitivity": 2.0}
    loss = changes.pop("loss", Loss.strongly_convex(0.4, 1.0))
    return NoisySGD(loss, batches=Cyclic(3) if batches is None else batches, **settings | changes)


def mu_of_last(c, s, sigma, start=0.0):
    """μ between N(z, v) and N(0, v): z ← cz + s, v ← c²v + σ²."""
    z, v = start, 0.0
    for slope, pull, noise in np.broadcast(c, s, sigma):
        z, v = slope * z + pull, slope * slope * v + noise * noise
    return z / math.sqrt(v)


def proven(c, s, sigma, **changes):
    return shifted_interpolation.of_iteration(
        NoisyIteration(c, s, sigma, **changes), DELTA
    ).curve.mu


def test_what_is_used_first_alone_is_exact():
    """All later noise hides it, as do the payments in proportion to its share of the variance."""
    c, sigma = np.linspace(1.2, 0.8, 9), np.linspace(0.5, 1.0, 9)
    s = np.where(np.arange(9) == 0, 0.6, 0.0)
    truth = mu_of_last(c, s, sigma)
    assert truth * (1.0 - 1e-13) <= proven(c, s, sigma) <= truth * (1.0 + ROUNDINGS)


def test_starts_that_are_apart_are_exact():
    truth = mu_of_last(np.full(6, 0.9), 0.0, 0.5, start=0.8)
    assert proven(0.9, 0.0, 0.5, steps=6, start=0.8) == pytest.approx(truth, rel=ROUNDINGS)
    # A diameter brings the same distance back before any later step, which is no better than the last.
    nearest = 0.9 * 0.8 / 0.5
    assert truth <= proven(0.9, 0.0, 0.5, steps=6, start=0.8, diameter=0.8) <= nearest


def test_the_worst_record_is_that_of_the_worst_position():
    run = a_run(step_size=np.linspace(0.9, 0.05, 16), noise_std=np.linspace(0.5, 0.2, 16))
    mus = [shifted_interpolation.apply(run, DELTA, position=j).curve.mu for j in range(4)]
    assert shifted_interpolation.apply(run, DELTA).curve.mu == max(mus)
    # Who knows the places under one secret permutation knows no more than under cyclic batches.
    shuffled = a_run(ShuffleOnce(3), step_size=run.step_size, noise_std=run.noise_std)
    assert shifted_interpolation.apply(shuffled, DELTA).curve.mu == max(mus)


CLIPPED = {"gradient_sensitivity": None, "clip_norm": 1.0}
BARE = {"step_sensitivity": 0.1, "step_noise_std": 1.0, "steps": 3}


def test_what_is_refused():
    afresh = "drawn afresh at every step: see the one- and two-sided"
    worst = {"n": 200_000, "epochs": 1, "loss": Loss.nonconvex(1.0), "cooldown_steps": 1}
    for description, reason in (
        (a_run(release="path"), "the path is released, so nothing is forgotten"),
        (a_run(update="other"), "the update is not plain noisy SGD, so no modulus is known"),
        (a_run(FixedSize(3), **CLIPPED), afresh),
        (a_run(pabi.Poisson(3), **CLIPPED), afresh),
        (a_run(pabi.Reshuffle(3)), "a record's place changes every epoch: see secret order"),
        (a_run(pabi.BallsInBins(3), **CLIPPED), "how many records a batch has is random"),
        (a_run(Cyclic(1), **worst), "any of 200000 positions can be the worst: too many to solve"),
    ):
        with pytest.raises(NotApplicable, match=reason):
            shifted_interpolation.apply(description, DELTA)
    bent = NoisyIteration(moduli=pabi.Modulus.affine(1.0, 0.1), **BARE)
    with pytest.raises(NotApplicable, match="modulus is not linear"):
        shifted_interpolation.of_iteration(bent, DELTA)
