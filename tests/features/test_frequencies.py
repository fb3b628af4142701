"""Frequencies: orthonormal directions, Gaussian each by itself, and a function of their numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pabi.features.frequencies import frequencies
from support.in_turn import in_turn


def by_gram_and_schmidt(draws: np.ndarray) -> np.ndarray:
    """The same orthonormal columns, one at a time and twice over, for the sake of rounding."""
    columns: list[np.ndarray] = []
    for v in draws.T:
        for q in (*columns, *columns):
            v = v - (q @ v) * q
        columns.append(v / np.linalg.norm(v))
    return np.stack(columns, axis=1)


@in_turn(("d", "count"), [(1, 3), (3, 3), (4, 10), (30, 7)])
def test_directions_are_draws_made_orthonormal_block_by_block(d, count):
    drawn = np.random.RandomState(5)
    blocks = [
        by_gram_and_schmidt(drawn.standard_normal((d, min(d, count - first))))
        for first in range(0, count, d)
    ]
    truth = np.concatenate(blocks, axis=1) * np.sqrt(drawn.chisquare(d, size=count))
    np.testing.assert_allclose(frequencies(5, d, count), truth, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("d", "count"), [(1, 1), (5, 5), (5, 12), (40, 3)])
def test_each_frequency_by_itself_is_gaussian(d, count):
    """Entry by entry, over seeds: wrong once in 10⁶ for a fixed entry, if it were left to chance."""
    several = np.stack([frequencies(seed, d, count) for seed in range(1_000)])
    for row, column in ((0, 0), (d - 1, count - 1)):
        assert stats.kstest(several[:, row, column], "norm").pvalue > 1e-6
    lengths = np.square(several).sum(axis=1)[:, -1]
    assert stats.kstest(lengths, stats.chi2(d).cdf).pvalue > 1e-6


def test_nobody_can_change_what_others_get():
    with pytest.raises(ValueError, match="read-only"):
        frequencies(0, 2, 4)[0, 0] = 1.0
