"""The packing problem: its values, its minimiser, and the bound without convexity on it."""

import math

import numpy as np
import pytest

import pabi
from pabi.erm import packing_centres, packing_loss
from support.every_case import every, refused


def bits(n, s, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((n, s)) < rng.uniform(0.1, 0.9, s)).astype(float)


def test_least_value_is_at_the_most_frequent_attribute():
    loss = packing_loss(bits(200, 9), dimension=2, lipschitz=3.0)
    assert loss.minimum == loss.value(loss.minimiser[None])[0]
    assert loss.minimum == -3.0 * loss.well_radius * loss.frequencies.max()
    rng = np.random.default_rng(1)
    points = rng.uniform(-1.0, 1.0, (20_000, 2))
    near = loss.centres[rng.integers(9, size=20_000)] + rng.normal(0.0, 0.1, (20_000, 2))
    assert loss.value(points).min() >= loss.minimum
    assert loss.value(near).min() >= loss.minimum


def test_every_record_is_lipschitz_and_the_mean_is_theirs():
    loss = packing_loss(bits(40, 7, 3), dimension=3, lipschitz=0.5)
    rng = np.random.default_rng(2)
    x = rng.uniform(-1.0, 1.0, (3000, 3))
    y = x + rng.normal(0.0, 0.05, x.shape)
    change = np.abs(loss.per_record(x) - loss.per_record(y)).max(axis=1)
    assert (change <= 0.5 * np.linalg.norm(x - y, axis=1) * (1.0 + 1e-12)).all()
    assert change.max() > 0.4 * np.linalg.norm(x - y, axis=1)[change.argmax()]
    assert np.allclose(loss.per_record(x).mean(axis=1), loss.value(x), atol=1e-15)


def test_wells_that_overlap_are_refused_and_would_move_the_minimiser():
    centres = np.array([[math.cos(a), math.sin(a)] for a in (0.0, 2.1, 4.2)]) * 0.5
    data = np.eye(3)  # every attribute has frequency 1/3
    refused("well_radius", packing_loss, data, centres, well_radius=0.7)
    # All three wells reach 0 when as wide as the separation: deeper there than at any centre.
    width = float(np.linalg.norm(centres[0] - centres[1]))
    at_zero = -np.mean(width - np.linalg.norm(centres, axis=1))
    assert at_zero < -width / 3.0


@every(("count", "p"), [(1, 1), (3, 1), (9, 2), (40, 3), (5, 20), (100, 30), (300, 20)])
def test_centres_are_apart_and_in_the_ball(count, p):
    centres = packing_centres(count, p)
    assert centres.shape == (count, p)
    assert (np.linalg.norm(centres, axis=1) <= 1.0 + 1e-12).all()
    loss = packing_loss(np.ones((1, count)), centres)
    assert loss.well_radius is not None
    assert loss.well_radius > 0.0
    assert (loss.dimension, loss.n) == (p, 1)


def test_quadrature_of_the_wells_is_right():
    # Against a plain grid where the density is smooth, and a cone's exact mean where it is steep.
    loss = packing_loss(bits(60, 9, 4), dimension=2)
    grid = (np.arange(1500) + 0.5) / 750 - 1.0
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    points = points[np.linalg.norm(points, axis=1) <= 1.0]
    excess = np.concatenate([loss.value(q) for q in np.array_split(points, 40)]) - loss.minimum
    mass = np.exp(-5.0 * excess)
    assert loss.mean_excess(5.0) == pytest.approx(excess @ mass / mass.sum(), rel=1e-3)
    one = packing_loss(np.ones((1, 1)), np.zeros((1, 2)))
    assert one.mean_excess(400.0) == pytest.approx(2.0 / 400.0, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 20.0])
def test_bound_without_convexity_holds_on_it(epsilon):
    loss = packing_loss(bits(60, 9, 4), dimension=2)
    plan = pabi.erm.plan(
        "erm", "nonconvex", n=60, dimension=2, lipschitz=1.0, diameter=2.0, epsilon=epsilon
    )
    truth = loss.mean_excess(plan.run.kappa)
    assert truth <= plan.risk_bound
    assert truth >= 0.02 * plan.risk_bound


@every(
    ("field", "bits", "arguments"),
    [
        ("bits", [[2.0, 0.0]], {"dimension": 1}),
        ("bits", [1.0, 0.0], {"dimension": 1}),
        ("bits", [[1.0]], {"centres": [[0.0], [1.0]]}),
        ("bits", [["a"]], {"dimension": 1}),
        ("centres", [[1.0]], {}),
        ("centres", [[1.0]], {"centres": [[0.0]], "dimension": 1}),
        ("centres", [[1.0]], {"centres": [[math.nan]]}),
        ("well_radius", [[1.0, 1.0]], {"centres": [[0.0], [0.0]]}),
        ("lipschitz", [[1.0]], {"dimension": 1, "lipschitz": -1.0}),
        ("dimension", [[1.0]], {"dimension": 0}),
    ],
)
def test_bad_input_is_named(field, bits, arguments):
    refused(field, packing_loss, bits, **arguments)
