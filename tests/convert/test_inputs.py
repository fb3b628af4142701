"""Arguments in which infinity is a meaning."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pabi import InvalidInput
from pabi.convert.inputs import array, extended, real_line
from pabi.tradeoff import Gaussian

NO_NUMBERS = [math.nan, np.nan, "inf", None, True, np.True_, 1j, [1.0]]


@pytest.mark.parametrize("value", [0, 1.5, np.float32(2.0), Fraction(1, 2), math.inf, np.inf])
def test_infinity_is_a_bound_that_says_nothing(value):
    found = extended("mu", value, at_least=0.0)
    assert type(found) is float
    assert found == value
    assert real_line("epsilon", value) == value


def test_only_a_whole_line_has_two_ends():
    assert real_line("epsilon", -math.inf) == -math.inf
    assert real_line("epsilon", -3) == -3.0
    with pytest.raises(InvalidInput, match="^mu: expected a finite number, got -inf"):
        extended("mu", -math.inf)


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("check", [extended, real_line])
def test_what_is_no_number_is_refused(check, value):
    with pytest.raises(InvalidInput, match="^mu: expected a finite number") as refused:
        check("mu", value)
    assert refused.value.field == "mu"


def test_bounds_hold_below_infinity():
    with pytest.raises(InvalidInput, match="^mu: expected a finite number ≥ 0, got -0.5"):
        extended("mu", -0.5, at_least=0.0)


@pytest.mark.parametrize(
    ("value", "shape"),
    [(1, ()), ([1, math.inf], (2,)), (np.ones((2, 3), dtype=int), (2, 3)), ([], (0,))],
)
def test_arrays_are_of_doubles_and_keep_their_shape(value, shape):
    found = array("mu", value)
    assert found.dtype == np.float64
    assert found.shape == shape
    assert np.array_equal(found, value)


@pytest.mark.parametrize(
    ("value", "bounds", "said"),
    [
        ([1.0, math.nan], {}, "expected numbers, got nan"),
        ([1.0, -1.0, -2.0], {"at_least": 0.0}, "expected numbers ≥ 0, got -1.0"),
        ([2.0, 1.0], {"above": 1.0}, "expected numbers > 1, got 1.0"),
        (-math.inf, {"at_least": 0.0}, "expected numbers ≥ 0, got -inf"),
        ("abc", {}, "expected numbers, got 'abc'"),
        ([[1.0], [1.0, 2.0]], {}, "expected numbers, got [[1.0], [1.0, 2.0]]"),
        ([10**400], {}, "expected numbers, got [" + str(10**400)[:59]),
        ([1.0, 2j], {}, "expected numbers, got [1.0, 2j]"),
        (["1", "2"], {}, "expected numbers, got ['1', '2']"),
        ([True, False], {}, "expected numbers, got [True, False]"),
        (True, {}, "expected numbers, got True"),
        (
            np.array([1.0, "2"], dtype=object),
            {},
            "expected numbers, got array([1.0, '2'], dtype=object)",
        ),
        (np.ma.masked, {}, "expected numbers, got masked"),
        (["x" * 99], {}, "expected numbers, got ['" + "x" * 58),
    ],
)
def test_one_bad_entry_is_refused_and_named(value, bounds, said):
    with pytest.raises(InvalidInput) as refused:
        array("mu", value, **bounds)
    assert refused.value.field == "mu"
    assert str(refused.value) == f"mu: {said}"


def test_a_mask_hides_no_entry():
    values = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(InvalidInput, match="^mu: expected numbers, got "):
        array("mu", values)
    assert array("mu", np.ma.masked_array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert array("mu", [Fraction(1, 2), 10**30]).tolist() == [0.5, 1e30]


@pytest.mark.parametrize(
    "read",
    [
        lambda: Gaussian(1.0).delta([[0.1], [0.2, 0.3]]),
        lambda: Gaussian(1.0).delta([10**400]),
        lambda: Gaussian(1.0).delta(np.ma.masked),
        lambda: Gaussian(1.0)([[0.1], [0.2, 0.3]]),
        lambda: Gaussian(1.0)(True),
    ],
)
def test_readings_of_what_are_no_numbers_are_refused(read):
    with pytest.raises(InvalidInput, match="^(epsilon|alpha): expected numbers, got "):
        read()


def test_entries_at_a_bound():
    assert array("mu", [0.0], at_least=0.0).tolist() == [0.0]
    assert array("mu", [math.nextafter(1.0, 2.0)], above=1.0).size == 1
