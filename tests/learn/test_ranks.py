"""Bisection by counts: public thresholds for every double, and as many questions as were planned."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pabi.learn.scaler import RankSearch, margin_of, questions_of, thresholds
from support.every_case import every

GRID = thresholds()


def searched(values, shares=(0.1, 0.9), *, margin=1.0, bounds=None, noise=lambda: 0.0):
    """(what it concludes, the number of questions), each answered with `noise`."""
    asking = RankSearch(shares, margin, bounds).asking()
    ordered, count = np.sort(values), 0
    threshold = next(asking).threshold
    while True:
        count += 1
        answer = float(np.searchsorted(ordered, threshold, side="right")) + noise()
        try:
            threshold = asking.send(answer).threshold
        except StopIteration as end:
            return end.value, count


def test_thresholds_cover_all_doubles_with_an_eighth_of_an_octave_nearby():
    assert GRID[0] < -1e307
    assert GRID[-1] > 1e307
    assert 0.0 in GRID
    assert np.all(np.diff(GRID) > 0.0)
    near = GRID[(GRID >= 2.0**-40) & (GRID <= 2.0**56)]
    assert np.max(near[1:] / near[:-1]) <= 1.125
    assert np.array_equal(GRID, -GRID[::-1])


@every("scale", [1e-300, 1e-20, 1e-6, 1.0, 1e7, 1e30, 1e300])
@every("bounded", [False, True])
def test_the_quantiles_lie_where_they_are_said_to_lie(scale, bounded):
    """Bisection takes one question less where a bracket halves unevenly."""
    values = np.random.default_rng(0).standard_normal(1000) * scale
    bounds = (-8.0 * scale, 8.0 * scale) if bounded else None
    ends, asked = searched(values, bounds=bounds)
    assert questions_of(2, bounded=bounded) - asked in (0, 1, 2)
    for share, low, high in ((0.1, *ends[:2]), (0.9, *ends[2:])):
        assert np.mean(values <= low) < share <= np.mean(values <= high)


@every("value", [0.0, -7.0, 1e-310, 1997.0, -1e300])
def test_a_constant_column_is_within_and_too_few_values_show_nothing(value):
    ends, _ = searched(np.full(100, value))
    assert ends[0] < value <= ends[1]
    assert ends[2] < value <= ends[3]
    for count in (0, 1, 2):
        assert searched(np.ones(count)) == ((), 1)


def test_noise_misleads_beyond_the_values_as_seldom_as_the_margin_says():
    rng = np.random.default_rng(1)
    values, wrong = rng.uniform(3.0, 4.0, 5000), 0
    stated = {"margin": margin_of(20.0, questions_of(2, bounded=False))}
    for _ in range(400):
        ends, _ = searched(values, (0.0, 1.0), **stated, noise=lambda: float(rng.normal(0.0, 20.0)))
        wrong += min(ends) < 2.7 or max(ends) > 4.6
    assert wrong <= 12  # 1 in 100, and three of its standard deviations
    z = margin_of(1.0, 62)
    assert 62 * math.erfc(z / math.sqrt(2.0)) / 2.0 == pytest.approx(0.01, rel=1e-9)
