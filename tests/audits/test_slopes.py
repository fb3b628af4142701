"""The best slopes against a general solver, closed forms and what the guarantee allows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from pabi.audits.drifts import best_weights
from support.every_case import every


def mu(weights, moves, stds):
    return weights @ moves / np.linalg.norm(weights * stds)


@every("seed", range(8))
def test_no_other_weights_show_more(seed):
    """Against weights at random, and against a general solver of the same programme."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    moves, stds = rng.uniform(size=count) * (rng.random(count) < 0.6), rng.uniform(0.5, 2.0, count)
    moves[-1] = 1.0
    low = rng.uniform(0.0, 0.7, count) * (rng.random(count) < 0.8)
    high = low + rng.uniform(0.05, 0.8, count)
    best = best_weights(moves, stds, low=low, high=high)
    assert (low[1:] * best[1:] <= best[:-1] * (1 + 1e-12)).all()
    assert (best[:-1] <= high[1:] * best[1:] * (1 + 1e-12)).all()
    for _ in range(2_000):
        slopes = rng.uniform(low, high)
        weights = np.append(np.cumprod(slopes[:0:-1])[::-1], 1.0)
        assert mu(weights, moves, stds) <= mu(best, moves, stds) * (1 + 1e-12)
    rows = [(k, s, b) for k in range(count - 1) for s, b in ((1, low), (-1, high))]
    table = np.zeros((len(rows), count))
    for row, (k, sign, ends) in zip(table, rows, strict=True):
        row[k], row[k + 1] = sign, -sign * ends[k + 1]
    found = minimize(
        lambda w: 0.5 * np.sum((w * stds) ** 2) - w @ moves,
        np.ones(count),
        constraints=LinearConstraint(table, 0.0, np.inf),
        bounds=[(0.0, None)] * count,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1_000},
    )
    assert mu(found.x, moves, stds) == pytest.approx(mu(best, moves, stds), rel=1e-6)


def test_slopes_that_may_vanish_reach_what_is_proven():
    """Ten epochs of ten steps: 1 + 9/10 of a step's cost, against 1 of linear losses."""
    moves = np.zeros(100)
    moves[9::10] = 1.0
    best = best_weights(moves, np.ones(100), low=np.zeros(100), high=np.ones(100))
    assert mu(best, moves, np.ones(100)) ** 2 == pytest.approx(1.9)
    assert mu(np.ones(100), moves, np.ones(100)) ** 2 == pytest.approx(1.0)
