"""Bisections and golden sections against roots and extrema that are known in closed form."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pabi.numbers.rounding import bisected, bisected_arrays, descended, largest, mean, sectioned
from support.every_case import every

POSITIVE = st.floats(1e-300, 1e300)


@given(POSITIVE, st.floats(0.0, 1.0))
def test_a_bracket_shrinks_to_neighbours_around_the_root(high, share):
    root = share * high
    low, above = bisected(lambda x: x >= root, 0.0, high)
    assert low < root <= above or (root == 0.0 and low == 0.0)
    assert above == math.nextafter(low, math.inf)
    if share > 1e-6:  # or until it is close
        found = bisected(lambda x: x >= root, 0.0, high, close=lambda a, b: b <= 1.001 * a)
        assert found[0] < root <= found[1] <= 1.001 * found[0]


def test_rounds_and_middles_of_a_bracket():
    tried = []

    def holds(x):
        tried.append(x)
        return x >= 0.3

    assert bisected(holds, 0.0, 1.0, rounds=2) == (0.25, 0.5)
    assert tried == [0.5, 0.25]
    root = bisected(lambda x: x >= 3.0, 1.0, 16.0, middle=lambda a, b: math.sqrt(a * b), rounds=1)
    assert root == (1.0, 4.0)
    assert bisected(lambda x: True, 1.0, math.inf) == (1.0, math.inf)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5))
def test_arrays_are_bisected_elementwise(roots):
    ends = np.zeros(len(roots)), np.ones(len(roots))
    low, high = bisected_arrays(lambda x: x < np.array(roots), *ends, rounds=20)
    for one, two, root in zip(low.tolist(), high.tolist(), roots, strict=True):
        assert (one, two) == bisected(lambda x, r=root: x >= r, 0.0, 1.0, rounds=20)


@every("top", [-3.0, 0.0, 1.7, 4.0])
def test_the_largest_value_is_found(top):
    value = largest(lambda x: -((x - top) ** 2), -3.0, 4.0, points=65, rounds=70)
    assert -1e-15 <= value <= 0.0


@every("start", [-5.0, 0.0, 2.0])
def test_the_least_value_is_descended_to(start):
    x, value = descended(lambda x: abs(x - 1.0), start, stride=0.4, width=0.1, limit=40.0)
    assert abs(x - 1.0) == value <= 0.1


def test_nan_counts_as_infinite_and_the_limit_holds():
    walk = {"stride": 0.4, "width": 0.1}
    x, value = descended(lambda x: math.nan if x > 3.0 else -x, 0.0, **walk, limit=40.0)
    assert 2.9 <= x <= 3.0
    assert value == -x
    x, _ = descended(lambda x: -x, 0.0, **walk, limit=5.0)
    assert 5.0 <= x <= 20.0


@given(POSITIVE, POSITIVE)
def test_the_mean_is_between(a, b):
    assert min(a, b) <= mean(a, b) <= max(a, b)


@every("root", [0.0, 0.3, math.pi, 7.0, 9.0])
def test_sections_end_at_the_root(root):
    """Every round leaves one section of eight; all are low before the root, which may be at either end."""
    low, high = sectioned(lambda x: x < root, 0.0, 7.0, points=7, rounds=10)
    assert low <= min(root, 7.0) <= high or low == high == 7.0
    assert high - low <= 7.0 / 8**10 * (1.0 + 1e-6)
