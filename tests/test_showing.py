"""Numbers as text: the formatters against exact decimals."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pabi
from pabi.showing import accuracy, as_printed, exact, plain, shown, shown_down

FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e3, 1e3),
    st.floats(-1e-300, 1e-300),
    st.integers(-(10**30), 10**30),
)
DIGITS = st.integers(1, 17)
DECIMALS = st.integers(0, 8)


def unit(text: str) -> Decimal:
    """Of the last digit that is shown."""
    mantissa, _, exponent = text.partition("e")
    return Decimal(10) ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


# The formatters.


@given(FINITE, DIGITS)
@example(5e-324, 2)
@example(1.7976931348623157e308, 1)
@example(999999.5, 6)
@example(-0.0, 1)
def test_significant_digits_are_rounded_to_the_right_side(x, digits):
    above, below = Decimal(shown(x, digits)), Decimal(shown_down(x, digits))
    nearest, true = Decimal(plain(x, digits)), Decimal(x)
    assert below <= true <= above
    assert nearest in (below, above)
    assert abs(nearest - true) == min(above - true, true - below)
    # A unit of the last of so many digits, of either end: 9.9 to 10 is a step of the smaller.
    step = Decimal(10) ** (true.adjusted() - digits + 1) if true else Decimal(0)
    assert above - true < step or above == true
    assert true - below < step or below == true
    for value in (above, below, nearest):
        assert len(value.normalize().as_tuple().digits) <= digits


@given(FINITE, DECIMALS, st.booleans())
def test_decimals_are_rounded_to_the_right_side(x, decimals, percent):
    above = shown(x, decimals=decimals, percent=percent)
    below = shown_down(x, decimals=decimals, percent=percent)
    nearest = plain(x, decimals=decimals, percent=percent)
    true = Decimal(x).scaleb(2 if percent else 0, pabi.showing._EXACT)
    for text in (above, below, nearest):
        assert text.endswith("%") == percent
        assert len(text.removesuffix("%").partition(".")[2]) == decimals
    a, b, c = (Decimal(text.removesuffix("%")) for text in (above, below, nearest))
    assert b <= true <= a
    assert c in (a, b)
    assert a - b <= unit(above.removesuffix("%"))
    if not percent:
        assert as_printed(x, decimals) == nearest
        assert Decimal(as_printed(x, decimals, sign=True)) == c


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_given_reads_as_the_same_double(x):
    assert float(exact(x)) == x
    assert not exact(x).endswith(".0")


@given(st.floats(0.0, 1.0), st.floats(1e-6, 1.0))
def test_an_accuracy_is_never_more_than_was_measured(share, width):
    text = accuracy(share, width)
    value, last = Decimal(text.removesuffix("%")), unit(text.removesuffix("%"))
    assert value <= Decimal(share).scaleb(2, pabi.showing._EXACT) < value + last
    # Not a digit below the first that is uncertain, and that one.
    assert last == 1 or last <= 100 * Decimal(width) < 10 * last


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (shown(3.4826, 3), "3.49"),
        (shown(30.5063, 3), "30.6"),
        (shown(0.1), "0.100001"),  # the double is above 0.1
        (shown(1e-300, 2), "1.1e-300"),
        (shown(5e-324, 2), "5e-324"),
        (shown(1234567), "1.23457e+06"),
        (shown(0), "0"),
        (shown(-0.0, decimals=2), "0.00"),
        (shown(-0.001, decimals=2), "0.00"),
        (shown(-1e9, 3), "-1e+09"),
        (shown(math.inf), "inf"),
        (shown(-math.inf), "-inf"),
        (shown(math.nan), "inf"),  # nothing is promised
        (shown(math.nan, decimals=2), "inf"),
        (shown_down(math.nan), "-inf"),
        (plain(math.nan), "nan"),
        (exact(math.nan), "nan"),
        (shown(np.float32(0.1), 4), "0.1001"),
        (shown(np.int64(2**62 + 1), 30), str(2**62 + 1)),
        (shown(np.array(2.5)), "2.5"),
        (shown_down(0.8675, decimals=0, percent=True), "86%"),
        (exact(1e-5), "1e-05"),
        (exact(1.0), "1"),
        (exact(np.float64(0.1)), "0.1"),
        (exact(np.int64(3)), "3"),
        (plain(2.675, decimals=2), "2.67"),
        (plain(12.5, decimals=0), "12"),
        (as_printed(4.3392, 2), "4.34"),
        (as_printed(0.0037, 3, sign=True), "+0.004"),
        (as_printed(-0.0037, 3, sign=True), "-0.004"),
        (accuracy(0.8837, 0.016), "88%"),
        (accuracy(0.9199, 0.0028), "91.9%"),
    ],
)
def test_examples(text, wanted):
    assert text == wanted
