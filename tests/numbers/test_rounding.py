"""Directed rounding against exact rationals: on the right side, and no further than need be."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pabi.numbers.rounding import (
    TINY,
    down,
    fraction_down,
    fraction_up,
    one_minus_product,
    times_down,
    times_up,
    up,
)

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
