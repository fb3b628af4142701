"""Where slopes may be as small as one likes, the cheapest payments are the exact privacy loss of some run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from pabi.account.shifts.start import best_start
from pabi.describe.iteration import Steps
from support.falsification.affine_maps import exact_mu


def worst_slopes(c, s, sigma) -> np.ndarray:
    """The slopes of Theorem 47: as large as allowed, but between two blocks smaller by the ratio of their
    slopes. Blocks are found anew, by scipy's regression."""
    later = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
    v = np.square(sigma * later)
    q = isotonic_regression(later * s / v, weights=v).x
    smaller = np.append(1.0, q[:-1] / np.where(q[1:] > 0.0, q[1:], 1.0))
    return np.where(q > 0.0, c * np.minimum(smaller, 1.0), c)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_payments_are_exact_where_slopes_are_free(count):
    rng = np.random.default_rng(count)
    for _ in range(count):
        t = int(rng.integers(1, 30))
        c = rng.uniform(0.3, 1.6, t) if rng.random() < 0.7 else np.ones(t)
        sigma = np.exp(rng.uniform(-1.0, 1.0, t))
        s = np.where(rng.random(t) < 0.4, np.exp(rng.uniform(-1.0, 1.0, t)), 0.0)
        s[int(rng.integers(t))] = 1.0
        proven = math.sqrt(best_start(Steps(c, s, sigma), math.inf, 0.0).payments.energy)
        slopes = worst_slopes(c, s, sigma)
        assert np.all((slopes >= 0.0) & (slopes <= c))
        assert float(exact_mu(slopes, s, sigma)) == pytest.approx(proven, rel=1e-9)


def test_cyclic_batches_of_the_audits():
    """Ten batches, ten epochs: linear losses reach ε = 2.75, slopes that change with the step 3.97."""
    uses = np.where(np.arange(100) % 10 == 9, 1.0 / 1.5, 0.0)
    ones = np.ones(100)
    linear, worst = (
        float(exact_mu(slopes, uses, ones)) for slopes in (ones, worst_slopes(ones, uses, ones))
    )
    assert linear == pytest.approx(math.sqrt(10 * 4 / 9 / 10), rel=1e-12)
    assert worst == pytest.approx(math.sqrt(4 / 9 * 1.9), rel=1e-12)
