"""Directed rounding against exact rationals, and searches against roots that are known."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pabi.numbers.rounding import (
    TINY,
    bisected,
    descended,
    down,
    fraction_down,
    fraction_up,
    largest,
    one_minus_product,
    sectioned,
    times_down,
    times_up,
    up,
)
from support.every_case import every

FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=5e-324, allow_infinity=False)
ORDINARY = st.floats(1e-12, 1e12)


# Shrinking large rationals takes minutes and tells nothing.
FAST = (Phase.explicit, Phase.reuse, Phase.generate)


def one(x):
    return np.array([x])


@given(FINITE)
def test_up_and_down_move_one_double(x):
    if x == 0.0:
        assert up(x) == down(x) == 0.0
    else:
        assert up(x) > x > down(x)
        assert down(up(x)) == x or math.isinf(up(x)) or up(x) == 0.0
        assert up(down(x)) == x or math.isinf(down(x)) or down(x) == 0.0


def test_up_never_returns_a_number_that_is_no_bound():
    """The largest double is finite, its successor is ∞; a tiny one never becomes nothing."""
    assert up(math.inf) == down(math.inf) == math.inf
    assert up(-math.inf) == down(-math.inf) == -math.inf
    assert up(float(np.finfo(float).max)) == math.inf
    assert up(5e-324) == 1e-323
    assert TINY == 2.0**-1022


@given(st.one_of(st.fractions(), FINITE.map(Fraction)), st.integers(-1200, 1200))
@example(Fraction(10) ** 400, 0)
@example(Fraction(-1, 10**400), 0)
@example(Fraction(5e-324), 0)
def test_fractions_round_to_the_nearest_double_on_the_right_side(x, exponent):
    x *= Fraction(2) ** exponent
    above, below = fraction_up(x), fraction_down(x)
    if math.isfinite(above):
        assert Fraction(above) >= x
        before = math.nextafter(above, -math.inf)
        assert before == -math.inf or Fraction(before) < x
    else:
        assert above == math.inf
        assert x > Fraction(float(np.finfo(float).max))
    if math.isfinite(below):
        assert Fraction(below) <= x
        after = math.nextafter(below, math.inf)
        assert after == math.inf or Fraction(after) > x
    else:
        assert below == -math.inf


def check_one_minus_product(a, b):
    with np.errstate(all="ignore"):
        below, above = (float(x[0]) for x in one_minus_product(one(a), b))
    truth = 1 - Fraction(a) * Fraction(b)
    if math.isfinite(below):
        assert Fraction(below) <= truth
    else:
        assert below == -math.inf
    if math.isfinite(above):
        assert Fraction(above) >= truth
    else:
        assert above == math.inf
    return truth, below, above


@settings(phases=FAST)
@given(POSITIVE, FINITE)
@example(1e-305, 3e300)
@example(1.1e-271, -4.1e307)
def test_one_minus_product_brackets_the_truth_at_every_magnitude(a, b):
    check_one_minus_product(a, b)


@settings(phases=FAST)
@given(ORDINARY, st.one_of(ORDINARY, ORDINARY.map(lambda x: -x)))
@example(1.2141180446115973, 1.2109375)  # 1 − ab is rounded twice, the second time in larger units
def test_one_minus_product_is_within_two_doubles(a, b):
    truth, below, above = check_one_minus_product(a, b)
    assert above <= math.nextafter(math.nextafter(below, math.inf), math.inf)
    if Fraction(float(truth)) == truth:
        assert below == above == float(truth)


@settings(phases=FAST)
@given(st.floats(0.01, 100.0), st.integers(-4, 4))
@example(3.0, 0)
def test_one_minus_product_where_it_nearly_vanishes(a, off):
    """η·λ ≈ 1: the result has far fewer digits than its terms."""
    b = 1.0 / a
    for _ in range(abs(off)):
        b = math.nextafter(b, math.inf if off > 0 else 0.0)
    truth, below, above = check_one_minus_product(a, b)
    assert abs(float(truth)) < 1e-14
    assert above <= math.nextafter(math.nextafter(below, math.inf), math.inf)


def test_one_minus_product_is_exact_where_it_can_be():
    for a, b, value in ((0.5, 1.0, 0.5), (0.25, -2.0, 1.5), (2.0, 3.0, -5.0), (0.5, 2.0, 0.0)):
        below, above = one_minus_product(one(a), b)
        assert below[0] == above[0] == value
    below, above = one_minus_product(np.array([1e-320, 0.1, 1e300]), 0.0)
    assert np.all(below == 1.0)
    assert np.all(above == 1.0)


@settings(phases=FAST)
@given(st.floats(0.0, allow_infinity=False), st.floats(0.0, allow_infinity=False))
def test_products_err_on_the_stated_side(a, b):
    with np.errstate(over="ignore"):
        above, below = float(times_up(one(a), b)[0]), float(times_down(one(a), b)[0])
    truth = Fraction(a) * Fraction(b)
    assert above == math.inf or Fraction(above) >= truth
    assert Fraction(below) <= truth
    if truth == 0:
        assert above == below == 0.0
    else:
        assert above > 0.0  # a little is never taken for nothing
    if Fraction(10) ** -300 < truth < Fraction(10) ** 300:
        assert above <= math.nextafter(math.nextafter(float(truth), math.inf), math.inf)
        assert below >= math.nextafter(math.nextafter(float(truth), 0.0), 0.0)


# Searches.


@given(st.floats(1e-300, 1e300), st.floats(0.0, 1.0))
def test_a_bracket_shrinks_to_neighbours_around_the_root(high, share):
    root = share * high
    low, above = bisected(lambda x: x >= root, 0.0, high)
    assert low < root <= above or (root == 0.0 and low == 0.0)
    assert above == math.nextafter(low, math.inf)
    if share > 1e-6:  # or until it is close
        found = bisected(lambda x: x >= root, 0.0, high, close=lambda a, b: b <= 1.001 * a)
        assert found[0] < root <= found[1] <= 1.001 * found[0]


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


@every("root", [0.0, 0.3, math.pi, 7.0, 9.0])
def test_sections_end_at_the_root(root):
    """Every round leaves one section of eight; all are low before the root, which may be at either end."""
    low, high = sectioned(lambda x: x < root, 0.0, 7.0, points=7, rounds=10)
    assert low <= min(root, 7.0) <= high or low == high == 7.0
    assert high - low <= 7.0 / 8**10 * (1.0 + 1e-6)
