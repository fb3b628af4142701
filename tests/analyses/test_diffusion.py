"""Langevin diffusions against Gaussian processes of known law and Gibbs densities, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pabi import LangevinDiffusion, Loss
from pabi.analyses import diffusion
from pabi.numbers.errors import NotApplicable
from support.every_case import every_case

DELTA = 1e-5
GAP = 0.3  # Δ: the potentials mθ²/2 and mθ²/2 + Δθ have gradients that are so far apart
ROUNDINGS = 1e-12


def described(loss=None, **changes):
    settings = {"n": 100, "inverse_temperature": 2.0, "time": 1.7, "gradient_gap": GAP}
    return LangevinDiffusion(Loss.convex(1.0) if loss is None else loss, **settings | changes)


def parabola(m):
    return Loss.strongly_convex(m, m)


def mu_of_last(m, betas, time):
    """μ of dθ = −β(mθ + Δ)dt + √2 dW against the same without Δ, β one of `betas` for equal parts of
    [0, time]: within one the mean tends to −Δ/m and the variance to 1/(βm), at rates βm and 2βm."""
    mean, variance = 0.0, 0.0
    for beta in betas:
        kept = math.exp(-beta * m * time / len(betas))
        mean = kept * mean + GAP / m * (1.0 - kept)
        variance = kept**2 * variance + (1.0 - kept**2) / (beta * m)
    return mean / math.sqrt(variance)


@every_case("time", [0.1, 1.7, 40.0])
@every_case("m", [0.05, 0.5, 3.0])
def test_the_last_point_of_a_parabola_is_exact(m, time):
    truth = mu_of_last(m, [2.0], time)
    mu = diffusion.last_point(described(parabola(m), time=time), DELTA).mu
    assert truth * (1.0 - 1e-15) <= mu <= truth * (1.0 + ROUNDINGS)


def test_varying_temperature_is_followed_cell_by_cell():
    betas = np.array([6.0, 3.0, 1.0, 0.5])
    truth = mu_of_last(0.5, betas, 1.7)
    mu = diffusion.last_point(described(parabola(0.5), inverse_temperature=betas), DELTA).mu
    # Shifts are paid at a constant rate within each of thousands of cells, which costs next to nothing.
    assert truth * (1.0 - 1e-15) <= mu <= truth * (1.0 + 1e-5)
    # While it cools, what is to be paid comes later than a parabola's shifts would pay it.
    truth = mu_of_last(0.5, betas[::-1], 1.7)
    cooling = described(parabola(0.5), inverse_temperature=betas[::-1].copy())
    assert truth <= diffusion.last_point(cooling, DELTA).mu < diffusion.path(cooling, DELTA).mu


@every_case("loss", [Loss.convex(1.0), Loss.nonconvex(1.0), Loss.unknown()])
def test_the_path_is_that_of_girsanov(loss):
    """Drifts that differ by βΔ throughout: log dP/dQ is Gaussian with variance (β²Δ²/2)·T."""
    truth = 2.0 * GAP * math.sqrt(1.7 / 2.0)
    mu = diffusion.path(described(loss), DELTA).mu
    assert truth * (1.0 - 1e-15) <= mu <= truth * (1.0 + ROUNDINGS)
    betas = np.array([0.5, 1.0, 3.0, 6.0])
    truth = GAP * math.sqrt(float(np.sum(betas**2)) / 4.0 * 1.7 / 2.0)
    mu = diffusion.path(described(loss, inverse_temperature=betas), DELTA).mu
    assert mu == pytest.approx(truth, rel=ROUNDINGS)
    assert mu >= truth


@every_case(("m", "diameter"), [(0.0, 0.5), (0.0, 3.0), (0.4, 0.5), (-0.6, 0.5)])
def test_gibbs_densities_on_an_interval_are_never_safer_than_proven(m, diameter):
    """What a diffusion between walls tends to, of which histograms see no more."""
    loss = Loss.nonconvex(-m) if m < 0.0 else Loss.convex(1.0, l2=m)
    proven = diffusion.last_point(described(loss, time=1e4, diameter=diameter), DELTA)
    assert proven.mu**2 == pytest.approx(2.0 * diameter * (2.0 * GAP - m * diameter), rel=1e-9)
    for middle in (-0.5, 0.0, 0.5):
        x = np.linspace(-0.5, 0.5, 4001) * diameter
        p, q = (
            np.exp(-2.0 * (0.5 * m * (x - middle * diameter) ** 2 + tilt * x))
            for tilt in (0.0, GAP)
        )
        p, q = p / p.sum(), q / q.sum()
        for epsilon in (0.0, 0.1, 0.5):
            truth = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
            assert truth <= proven.delta(epsilon) + 1e-15


def test_a_set_that_is_never_reached_does_not_matter():
    free = diffusion.last_point(described(time=0.1), DELTA).mu
    assert diffusion.last_point(described(time=0.1, diameter=1e6), DELTA).mu == free


@every_case(
    ("description", "reason"),
    [
        (described(release="path"), "the path is released, so nothing is forgotten"),
        (described(Loss.unknown()), "nothing is known of the curvature of a unknown loss"),
    ],
)
def test_the_last_point_needs_a_hidden_path_and_a_curvature(description, reason):
    with pytest.raises(NotApplicable, match=reason):
        diffusion.last_point(description, DELTA)
    assert diffusion.path(description, DELTA).mu > 0.0
