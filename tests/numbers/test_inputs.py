"""Arguments in which infinity is a meaning."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pabi import InvalidInput
from pabi.numbers.gaussian import array, extended, real_line
from pabi.tradeoff import Gaussian
from support.every_case import every, refused


@every("value", [0, 1.5, np.float32(2.0), Fraction(1, 2), math.inf, np.inf])
def test_infinity_is_a_bound_that_says_nothing(value):
    found = extended("mu", value, at_least=0.0)
    assert type(found) is float
    assert found == value
    assert real_line("epsilon", value) == value


def test_only_a_whole_line_has_two_ends_and_bounds_hold_below_infinity():
    assert real_line("epsilon", -math.inf) == -math.inf
    assert real_line("epsilon", -3) == -3.0
    said = refused("mu", extended, "mu", -math.inf)
    assert said.startswith("mu: expected a finite number, got -inf")
    said = refused("mu", extended, "mu", -0.5, at_least=0.0)
    assert said.startswith("mu: expected a finite number ≥ 0, got -0.5")


@every("value", [math.nan, np.nan, "inf", None, True, np.True_, 1j, [1.0]])
def test_what_is_no_number_is_refused(value):
    for check in (extended, real_line):
        assert refused("mu", check, "mu", value).startswith("mu: expected a finite number")


@every(
    "value, shape",
    [(1, ()), ([1, math.inf], (2,)), (np.ones((2, 3), dtype=int), (2, 3)), ([], (0,))],
)
def test_arrays_are_of_doubles_and_keep_their_shape(value, shape):
    found = array("mu", value)
    assert (found.dtype, found.shape) == (np.float64, shape)
    assert np.array_equal(found, value)


@every(
    "value, bounds, said",
    [
        ([1.0, math.nan], {}, "nan"),
        ([1.0, -1.0, -2.0], {"at_least": 0.0}, "-1.0"),
        ([2.0, 1.0], {"above": 1.0}, "1.0"),
        (-math.inf, {"at_least": 0.0}, "-inf"),
        ("abc", {}, "'abc'"),
        ([[1.0], [1.0, 2.0]], {}, "[[1.0], [1.0, 2.0]]"),
        ([10**400], {}, "[" + str(10**400)[:59]),
        ([1.0, 2j], {}, "[1.0, 2j]"),
        (["1", "2"], {}, "['1', '2']"),
        ([True, False], {}, "[True, False]"),
        (True, {}, "True"),
        (np.array([1.0, "2"], dtype=object), {}, "array([1.0, '2'], dtype=object)"),
        (np.ma.masked, {}, "masked"),
        (["x" * 99], {}, "['" + "x" * 58),
    ],
)
def test_one_bad_entry_is_refused_and_named(value, bounds, said):
    kept = "".join({"at_least": " ≥ 0", "above": " > 1"}[name] for name in bounds)
    assert refused("mu", array, "mu", value, **bounds) == f"mu: expected numbers{kept}, got {said}"


def test_a_mask_hides_no_entry():
    values = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(InvalidInput, match="^mu: expected numbers, got "):
        array("mu", values)
    assert array("mu", np.ma.masked_array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert array("mu", [Fraction(1, 2), 10**30]).tolist() == [0.5, 1e30]


def test_readings_of_what_are_no_numbers_are_refused():
    one = Gaussian(1.0)
    for value in ([[0.1], [0.2, 0.3]], [10**400], np.ma.masked):
        assert "expected numbers, got " in refused("epsilon", one.delta, value)
    for value in ([[0.1], [0.2, 0.3]], True):
        assert "expected numbers, got " in refused("alpha", one, value)


def test_entries_at_a_bound():
    assert array("mu", [0.0], at_least=0.0).tolist() == [0.0]
    assert array("mu", [math.nextafter(1.0, 2.0)], above=1.0).size == 1
