"""No step may push two points further apart than its modulus says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pabi import Loss
from support.falsification.adversary import Knob, log_ratio, search
from support.falsification.fields import (
    PAIR,
    ROWS,
    SLACK,
    Case,
    Field,
    climb,
    clipped,
    hill,
    pair,
    planar,
    power,
    quadratic,
    random_case,
    random_pairs,
)


@pytest.mark.parametrize("count", [6, pytest.param(400, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("clips", [False, True], ids=["whole", "clipped"])
def test_random_pairs_stay_within_the_modulus(clips, count):
    for row in ROWS:
        rng = np.random.default_rng([count, clips, ROWS.index(row)])
        for _ in range(count):
            case = random_case(rng, row, clips)
            x, y = random_pairs(rng, case, 3000)
            excess = case.excess(x, y)
            worst = int(np.argmax(excess))
            assert excess[worst] <= SLACK, (excess[worst], case, x[worst], y[worst])
            # The worst pair again, followed uphill.
            moved = climb(rng, case, x[worst], y[worst])
            assert moved <= SLACK, (moved, case)


# Rows that are attained: the search comes up to them, and a wrong row does not stand.


_LEAN = {"lean": Knob(0.0, math.pi), "low": Knob(0.0, 1.0), "pull": Knob(1.0, 2.0)}


def leaning(point, low: float) -> Field:
    """Curvature 1 along (1, 0), `low` across; at 0 a gradient of size `pull` that leans by `lean`."""
    pull = point["pull"] * np.array([math.cos(point["lean"]), math.sin(point["lean"])])
    return quadratic(np.diag([1.0, low]), pull)


ORIGIN = np.zeros(2)
ACROSS = PAIR | {"u": Knob(-1e-6, 1e-6), "v": Knob(-1e-6, 1e-6)}  # pairs about the origin
ATTAINED = {
    "lipschitz": (lambda p: planar(Loss.lipschitz(1.0), power(0.0, 2.0, ORIGIN), p), ACROSS),
    "unknown": (lambda p: planar(Loss.unknown(), hill(1.0, ORIGIN), p, 1.0), ACROSS),
    "curvature": (
        lambda p: planar(Loss.weakly_convex(0.3, 1.0), quadratic(np.diag([1.0, -0.3]), ORIGIN), p),
        PAIR,
    ),
    "clipped convex": (
        lambda p: planar(Loss.convex(1.0), leaning(p, 0.0), p, 1.0),
        PAIR | _LEAN | {"u": Knob(-0.5, 0.5), "v": Knob(-1e-9, 1e-9), "step": Knob(0.3, 1.5)},
    ),
    "clipped weakly convex": (
        lambda p: planar(Loss.weakly_convex(0.1, 1.0), leaning(p, -0.1), p, 1.0),
        PAIR | _LEAN | {"u": Knob(-0.5, 0.5), "v": Knob(-1e-9, 1e-9), "step": Knob(0.3, 1.5)},
    ),
}


@pytest.mark.parametrize("row", ATTAINED)
def test_attained_rows_are_met_and_not_exceeded(row):
    make, knobs = ATTAINED[row]
    found = search(
        lambda point: float(make(point).excess(*pair(point))[0]), knobs, seed=1, instances=1200
    )
    assert -5e-3 < found.score <= SLACK, found


def _slope_one(case: Case, x, y) -> float:
    """Against c = 1: "clipping a convex loss does not make its steps expand"."""
    after = np.linalg.norm(case.image(x) - case.image(y))
    return log_ratio(float(after), float(np.linalg.norm(x - y)))


def _half_gap(case: Case, x, y) -> float:
    """Against √(δ² + (ηL)²) and δ + ηC, of which only one end of the subgradients is counted."""
    after, apart = np.linalg.norm(case.image(x) - case.image(y)), np.linalg.norm(x - y)
    return log_ratio(float(after), float(np.hypot(apart, case.step)))


@pytest.mark.parametrize(
    ("row", "wrong", "least"),
    [
        ("clipped convex", _slope_one, math.log(1.06)),
        ("lipschitz", _half_gap, math.log(1.9)),
        ("unknown", _half_gap, math.log(1.9)),
    ],
)
def test_wrong_moduli_are_found_out(row, wrong, least):
    make, knobs = ATTAINED[row]
    found = search(
        lambda point: wrong(make(point), *pair(point)), knobs, seed=2, instances=3000, enough=least
    )
    assert found.score > least, found


def softmax(x: np.ndarray, norm: float = 8.0) -> np.ndarray:
    """Of −log softmax(norm·x)[0]: three classes, one feature."""
    logits = norm * x
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return norm * (p - np.array([1.0, 0.0, 0.0]))


def test_clipped_softmax_expands_and_stays_within_its_modulus():
    """‖x‖ = 8 clipped at 5: the clipped field goes down by 0.23 along some direction, a convex loss's
    never does."""
    case = Case(Loss.softmax(8.0), (softmax,), 5.0, 1.0, 1e-3)
    knobs = {f"x {i}": Knob(-1.0, 1.0) for i in (1, 2)}
    knobs |= {f"to {i}": Knob(-1.0, 1.0) for i in range(3)}

    def points(point):
        middle = np.array([[0.0, point["x 1"], point["x 2"]]])
        to = np.array([[point[f"to {i}"] for i in range(3)]])
        return middle, 1e-6 * to / np.linalg.norm(to)

    def falls(point) -> float:
        middle, to = points(point)
        change = clipped(softmax, 5.0)(middle + to) - clipped(softmax, 5.0)(middle - to)
        return -float((change * to).sum() / (2.0 * (to * to).sum()))

    found = search(falls, knobs, seed=3, instances=4000, enough=0.2)
    assert found.score > 0.2
    middle, to = points(found.point)
    after = np.linalg.norm(case.image(middle + to) - case.image(middle - to))
    assert after > 2.0 * np.linalg.norm(to) * (1.0 + 1e-4)
    assert float(case.excess(middle + to, middle - to)[0]) <= SLACK
