"""Checks at the border: exactly what is within the bounds passes, and refusals name field and bound."""

import decimal
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pabi import InvalidInput
from pabi.numbers import validate
from pabi.numbers.gaussian import array, extended, real_line
from pabi.numbers.validate import by_column, centres_and_reaches
from pabi.tradeoff import Gaussian
from support.every_case import Agreeable, every, refused

SIGNS = {"above": (">", operator.gt), "at_least": ("≥", operator.ge), "below": ("<", operator.lt)}
SIGNS |= {"at_most": ("≤", operator.le)}
finite = st.floats(allow_nan=False, allow_infinity=False)


def refusal(check, field, *args, **bounds):
    """What is said of the first argument, the field."""
    message = refused(field, check, field, *args, **bounds)
    assert message.startswith(f"{field}: expected ")
    return message


def accepted(check, *args, **bounds):
    """Whether it passes, and then as what."""
    try:
        return True, check(*args, **bounds)
    except InvalidInput:
        return False, None


@every("bound", SIGNS)
def test_a_bound_is_exact(bound):
    sign, holds = SIGNS[bound]
    for x in (0.5, math.nextafter(0.5, 0.0), math.nextafter(0.5, 1.0)):
        passed, _ = accepted(validate.number, "η", x, **{bound: 0.5})
        assert passed == holds(x, 0.5)
    message = refusal(validate.number, "η", -math.inf, **{bound: 0.5})
    assert message == f"η: expected a finite number {sign} 0.5, got -inf"


@given(finite, st.dictionaries(st.sampled_from(sorted(SIGNS)), finite, max_size=4))
def test_numbers_pass_where_every_bound_holds(x, bounds):
    wanted = all(SIGNS[name][1](x, bound) for name, bound in bounds.items())
    passed, value = accepted(validate.number, "η", x, **bounds)
    assert passed == wanted
    assert value is None or (type(value) is float and value == x)


@every(
    "value",
    [3, np.int32(3), np.float32(0.1), np.float64(-0.0), Fraction(1, 3), True + 2, -5e-324, 2**1023],
)
def test_all_kinds_of_real_numbers_are_taken(value):
    found = validate.number("η", value)
    assert type(found) is float
    assert found == float(value)


@every(
    "value",
    [math.nan, math.inf, -math.inf, 10**400, -(10**400), Fraction(10**400), True, np.True_, "1", None,
     1j, [1.0], np.array(1.0), np.array([1.0]), decimal.Decimal(1)],
)  # fmt: skip
def test_what_is_no_finite_number_is_refused(value):
    assert refusal(validate.number, "η", value).startswith("η: expected a finite number, got ")


@given(st.integers(), st.integers(), st.one_of(st.none(), st.integers()))
def test_integers_pass_within_both_bounds(k, low, high):
    passed, value = accepted(validate.integer, "n", k, at_least=low, at_most=high)
    assert passed == (low <= k and (high is None or k <= high))
    assert value is None or (type(value) is int and value == k)


def test_integers_become_pythons_own_and_nothing_else_is_one():
    for kind in (np.int8, np.uint64, np.int64, int):
        found = validate.integer("n", kind(7), at_least=0)
        assert (type(found), found) == (int, 7)
    for value in (1.0, np.float64(1.0), True, np.True_, "1", None, Fraction(1), math.nan):
        message = refusal(validate.integer, "n", value, at_least=0, at_most=5, of="m − 1 = ")
        assert message == f"n: expected an integer in 0..m − 1 = 5, got {value!r}"
        message = refusal(validate.integer, "n", value, at_least=2)
        assert message.startswith("n: expected an integer ≥ 2, got")


def test_a_choice_is_the_options_own_string():
    options = ("last", "path")
    for value in options:
        found = validate.choice("release", Agreeable(value), options)
        assert (type(found), found) == (str, value)
    for value in ("", "Last", " last", Agreeable("all"), b"last", None, 0, ["last"]):
        message = refusal(validate.choice, "release", value, options)
        assert message == f'release: expected "last" or "path", got {value!r}'


@given(st.lists(finite, min_size=1, max_size=8), st.booleans())
def test_schedules_pass_where_every_entry_does(values, positive):
    holds = [x > 0.0 if positive else x >= 0.0 for x in values]
    passed, found = accepted(validate.schedule, "σ", values, positive=positive)
    assert passed == all(holds)
    if not passed:
        k = holds.index(False)
        sign = ">" if positive else "≥"
        said = f"σ: expected finite numbers {sign} 0, got {values[k]!r} at step {k + 1}"
        assert refusal(validate.schedule, "σ", values, positive=positive) == said
    else:
        assert found.tolist() == values


def test_a_schedule_is_a_copy_that_nobody_changes():
    values = np.array([1.0, 2.0])
    found = validate.schedule("σ", values, positive=True)
    values[0] = -1.0
    assert found.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        found[0] = -1.0


def test_one_number_stays_one():
    for value in (2, 2.0, np.float32(2.0), np.array(2.0), Fraction(2)):
        assert validate.is_scalar(value)
        found = validate.schedule("σ", value, positive=True)
        assert (type(found), found) == (float, 2.0)
    for value in ([2.0], np.array([2.0]), (2.0,), "2", None, 1j):
        assert not validate.is_scalar(value)


OTHERS = [([], "got an array of shape (0,)"), ([[1.0, 2.0]], "got an array of shape (1, 2)")]
OTHERS += [(["a", "b"], "got ['a', 'b']"), ([[1.0], [1.0, 2.0]], "got [[1.0], [1.0, 2.0]]")]
OTHERS += [({"a": 1}, "got {'a': 1}"), (object, "got <class 'object'>")]
OTHERS += [(["x" * 200], "got ['" + "x" * 55 + "...")]
OTHERS += [([10**400, 1], "got [" + str(10**400)[:56] + "..."), ([1.0, 2j], "got [1.0, 2j]")]
OTHERS += [([True, True], "got [True, True]"), (["1", "2"], "got ['1', '2']")]
OTHERS += [(np.ma.masked, "got masked")]


@every("value, said", OTHERS)
def test_other_schedules_are_refused(value, said):
    message = refusal(validate.schedule, "σ", value, positive=True)
    assert message == f"σ: expected a number or one number per step, {said}"


@every("value", [0.0, -1.0, math.nan, math.inf, "1", True, None, np.array(0.0)])
def test_one_number_is_checked_as_one(value):
    message = refusal(validate.schedule, "σ", value, positive=True)
    assert message.startswith("σ: expected a finite number > 0, got ")
    assert validate.schedule("σ", 0.0, positive=False) == 0.0


# Arguments in which infinity is a meaning.


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


BAD_ENTRIES = [([1.0, math.nan], {}, "nan"), ([1.0, -1.0, -2.0], {"at_least": 0.0}, "-1.0")]
BAD_ENTRIES += [([2.0, 1.0], {"above": 1.0}, "1.0"), (-math.inf, {"at_least": 0.0}, "-inf")]
BAD_ENTRIES += [("abc", {}, "'abc'"), ([[1.0], [1.0, 2.0]], {}, "[[1.0], [1.0, 2.0]]")]
BAD_ENTRIES += [([10**400], {}, "[" + str(10**400)[:59]), ([1.0, 2j], {}, "[1.0, 2j]")]
BAD_ENTRIES += [(["1", "2"], {}, "['1', '2']"), ([True, False], {}, "[True, False]")]
BAD_ENTRIES += [(True, {}, "True")]
BAD_ENTRIES += [(np.array([1.0, "2"], dtype=object), {}, "array([1.0, '2'], dtype=object)")]
BAD_ENTRIES += [(np.ma.masked, {}, "masked"), (["x" * 99], {}, "['" + "x" * 58)]


@every("value, bounds, said", BAD_ENTRIES)
def test_one_bad_entry_is_refused_and_named(value, bounds, said):
    kept = "".join({"at_least": " ≥ 0", "above": " > 1"}[name] for name in bounds)
    assert refused("mu", array, "mu", value, **bounds) == f"mu: expected numbers{kept}, got {said}"


def test_a_mask_hides_no_entry():
    with pytest.raises(InvalidInput, match="^mu: expected numbers, got masked_array"):
        array("mu", np.ma.masked_array([1.0, 2.0], mask=[False, True]))
    assert array("mu", np.ma.masked_array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert array("mu", [Fraction(1, 2), 10**30]).tolist() == [0.5, 1e30]
    assert array("mu", [0.0], at_least=0.0).tolist() == [0.0]
    assert array("mu", [math.nextafter(1.0, 2.0)], above=1.0).size == 1


def test_readings_of_what_are_no_numbers_are_refused():
    one = Gaussian(1.0)
    for value in ([[0.1], [0.2, 0.3]], [10**400], np.ma.masked):
        assert "expected numbers, got " in refused("epsilon", one.delta, value)
    for value in ([[0.1], [0.2, 0.3]], True):
        assert "expected numbers, got " in refused("alpha", one, value)


# Declared ranges: every form means the same, and what is wrong is named.


def test_every_form_has_the_same_centres_and_half_widths():
    pair, named = (-1.0, 3.0), by_column({"b": (0, 10), "a": (-2, 2)}, ["a", "b"], 2)
    by_name = by_column({"b": pair, "a": pair}, ["a", "b"], 2)
    by_number = by_column({0: pair, 1: pair}, None, 2)
    for ranges in (pair, [[-1.0, -1.0], [3.0, 3.0]], by_name, by_number):
        centre, reach = centres_and_reaches(ranges, 2, sparse=False)
        assert (centre.tolist(), reach.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    centre, reach = centres_and_reaches(named, 2, sparse=False)
    assert (centre.tolist(), reach.tolist()) == ([0.0, 5.0], [2.0, 5.0])
    assert centres_and_reaches(by_column(None, None, 2), 2, sparse=True) == (None, None)
    largest = np.finfo(float).max
    centre, reach = centres_and_reaches((-largest, largest), 1, sparse=True)
    assert (centre[0], reach[0]) == (0.0, largest)


@every(
    "ranges, sparse, message",
    [
        ("text", False, "expected pairs (low, high)"),
        ((0.0, 1.0, 2.0), False, "expected (low, high) or shape (2, 2), got shape (3,)"),
        ((1.0, 1.0), False, "expected finite low < high for every feature"),
        ((0.0, np.inf), False, "expected finite low < high for every feature"),
        ((0.0, 1.0), True, "expected (−h, h) for a sparse X, which keeps its zeros"),
        ({0: (0, 1)}, False, "missing: a range for column 1"),
        ({0: (0, 1), 1: (0, 1), 2: (0, 1)}, False, "there is no column 2"),
        ({0: (0, 1), 1: 5}, False, "expected pairs (low, high)"),
    ],
)
def test_wrong_ranges_are_refused_in_one_line(ranges, sparse, message):
    def read():
        return centres_and_reaches(by_column(ranges, None, 2), 2, sparse=sparse)

    assert refused("feature_ranges", read) == f"feature_ranges: {message}"


def test_a_value_of_several_lines_is_refused_in_one():
    with pytest.raises(InvalidInput, match=r"^x: expected a finite number > 0, got array.*\]\)$"):
        validate.number("x", np.linspace(0.0, 1.0, 90), above=0.0)
