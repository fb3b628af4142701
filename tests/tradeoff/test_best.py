"""The best of several bounds on one mechanism."""

from __future__ import annotations

import numpy as np
import pytest

from pabi.tradeoff import Best, BoundedRange, Gaussian, Product

RANGE, GAUSSIAN = BoundedRange(1.0), Gaussian(0.45)
BOTH = Best((RANGE, GAUSSIAN))


def test_every_reading_is_the_best_one():
    for delta in (1e-9, 1e-3, 0.1):
        assert BOTH.epsilon(delta) == min(RANGE.epsilon(delta), GAUSSIAN.epsilon(delta))
        low, high = BOTH.epsilon_bounds(delta)
        assert low <= BOTH.epsilon(delta) <= high * (1.0 + 1e-12)
    grid = np.linspace(-2.0, 2.0, 41)
    assert np.array_equal(BOTH.delta(grid), np.minimum(RANGE.delta(grid), GAUSSIAN.delta(grid)))
    levels = np.linspace(0.0, 1.0, 41)
    assert np.array_equal(BOTH(levels), np.maximum(RANGE(levels), GAUSSIAN(levels)))
    assert BOTH.rdp(2.0) == min(RANGE.rdp(2.0), GAUSSIAN.rdp(2.0))
    assert BOTH.zcdp == min(RANGE.zcdp, GAUSSIAN.zcdp)
    # Neither is the better one everywhere.
    better = RANGE.delta(grid) < GAUSSIAN.delta(grid)
    assert better.any()
    assert not better.all()


def test_composition_pairs_the_parts():
    for one in (Gaussian(0.3), Product(((BoundedRange(0.2), 3),)), BOTH):
        for together in (BOTH.compose(one), one.compose(BOTH)):
            assert isinstance(together, Best)
            parts = one.parts if isinstance(one, Best) else (one,)
            pairs = [mine.compose(theirs) for mine in BOTH.parts for theirs in parts]
            expected = min(pair.epsilon(1e-4) for pair in pairs)
            assert together.epsilon(1e-4) == pytest.approx(expected, rel=1e-6)
    assert BOTH.self_compose(3).epsilon(1e-4) == min(
        RANGE.self_compose(3).epsilon(1e-4), GAUSSIAN.self_compose(3).epsilon(1e-4)
    )


def test_of_many_parts_the_least_are_kept():
    """2¹⁰ products of ten mechanisms' bounds, of which the composition keeps some."""
    mechanisms = [Best((BoundedRange(0.1 + 0.01 * i), Gaussian(0.3 - 0.01 * i))) for i in range(10)]
    together = mechanisms[0]
    for one in mechanisms[1:]:
        together = together.compose(one)
    ranges = Product((m.parts[0], 1) for m in mechanisms)
    gaussians = Product((m.parts[1], 1) for m in mechanisms)
    assert len(together.parts) == 64
    # Ranges reveal less here throughout, so that their product is among those kept.
    assert ranges.zcdp < gaussians.zcdp
    assert together.epsilon(1e-6) <= ranges.epsilon(1e-6)
