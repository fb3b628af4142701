"""Descent–ascent on saddles, and gradients clipped by coordinates: no step beyond its modulus."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pabi import Loss
from support.falsification.adversary import Knob, search
from support.falsification.fields import (
    PAIR,
    SLACK,
    Case,
    Field,
    pair,
    quadratic,
    random_pairs,
    symmetric,
)


def monotone(rng, d: int, smoothness: float) -> np.ndarray:
    """A matrix of norm `smoothness` whose symmetric part is positive semidefinite."""
    a = rng.normal(size=(d, d))
    skew, root = a - a.T, rng.normal(size=(d, d)) * float(rng.choice([0.0, 0.3, 1.0]))
    a = skew + root @ root.T
    return a * smoothness / np.linalg.norm(a, 2)


@pytest.mark.parametrize("count", [30, pytest.param(2000, marks=pytest.mark.nightly)])
def test_monotone_fields_stay_within_the_modulus(count):
    for clips in [False, True]:
        rng = np.random.default_rng([count, clips])
        for _ in range(count):
            d, step = int(rng.integers(2, 4)), float(np.exp(rng.uniform(-3.0, 1.0)))
            smoothness, radius = (
                float(np.exp(rng.uniform(-2.0, 1.3))) / step,
                float(rng.uniform(0.3, 3)),
            )
            bound = smoothness * radius  # of the field where the pairs are
            loss = Loss.saddle(bound, smoothness)
            if rng.random() < 0.4:
                loss = loss.with_l2(float(rng.uniform(0.0, 0.95)) / step)
            fields = tuple(
                quadratic(monotone(rng, d, smoothness).T, np.zeros(d))
                for _ in range(rng.integers(1, 4))
            )
            clip = bound * float(rng.uniform(0.1, 0.9)) if clips else None
            case = Case(loss, fields, clip, float(rng.choice([1.0, 0.25])), step, d)
            x, y = (
                radius * p / np.maximum(1.0, np.linalg.norm(p, axis=1, keepdims=True))
                for p in random_pairs(rng, case, 2000)
            )
            assert case.excess(x, y).max() <= SLACK, case


def test_a_rotation_attains_the_slope_of_descent_ascent():
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    case = Case(Loss.saddle(10.0, 1.0), (quadratic(turn, np.zeros(2)),), None, 1.0, 0.5)
    x = np.array([[1e-3, 0.0]])
    assert float(case.excess(x, -x)[0]) == pytest.approx(0.0, abs=1e-9)
    # And fields that jump: opposite values of norm L at points that meet.
    assert Loss.saddle(1.0).modulus(0.2)(1e-9) == pytest.approx(0.4, rel=1e-9)


def separable(rng, d: int, lo: float, hi: float, bound: float) -> Field:
    a = np.where(rng.random(d) < 0.7, rng.choice([lo, hi], d), rng.uniform(lo, hi, d))
    pull = bound / math.sqrt(d) * rng.uniform(-1.2, 1.2, d)
    return lambda x: a * x + pull


@pytest.mark.parametrize("count", [30, pytest.param(2000, marks=pytest.mark.nightly)])
def test_clipped_coordinates_stay_within_the_modulus(count):
    for apart in [True, False]:
        rng = np.random.default_rng([count, apart])
        for _ in range(count):
            d, step = int(rng.integers(2, 4)), float(np.exp(rng.uniform(-3.0, 1.0)))
            top, bound = float(np.exp(rng.uniform(-2.0, 1.3))) / step, float(rng.uniform(0.3, 3.0))
            low = float(rng.choice([0.0, -top, -top / 3]))
            loss = {
                0.0: Loss.convex(top, separable=apart),
                -top: Loss.nonconvex(top, separable=apart),
                -top / 3: Loss.weakly_convex(top / 3, top, separable=apart),
            }[low]
            if rng.random() < 0.4:
                loss = loss.with_l2(float(rng.uniform(0.0, 0.95)) / step)
            fields = tuple(
                separable(rng, d, low, top, bound)
                if apart
                else quadratic(
                    symmetric(rng, d, low, top), rng.normal(size=d) * bound / math.sqrt(d)
                )
                for _ in range(rng.integers(1, 4))
            )
            case = Case(loss, fields, bound, float(rng.choice([1.0, 0.25])), step, d, "coordinates")
            x, y = random_pairs(rng, case, 2000)
            assert case.excess(x, y).max() <= SLACK, case


def test_a_loss_wrongly_called_separable_is_found_out():
    def score(point) -> float:
        told = Loss.convex(1.0, separable=True)
        v = np.array([math.cos(point["lean"]), math.sin(point["lean"])])
        field = quadratic(np.outer(v, v), np.array([2.0, 0.0]))  # its first coordinate is clipped
        case = Case(told, (field,), 1.0, 1.0, point["step"], 2, "coordinates")
        return float(case.excess(*pair(point))[0])

    knobs = PAIR | {"lean": Knob(0.0, math.pi), "step": Knob(0.3, 1.0)}
    found = search(score, knobs, seed=5, instances=3000, enough=math.log(1.05))
    assert found.score > math.log(1.05)
