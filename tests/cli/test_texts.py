"""Numbers as people type them: read, or refused in a sentence, never misread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pabi.cli.explorer.state import number, whole
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import exact
from support.every_case import every


@every(
    ("text", "value"),
    [
        *(("0.5", 0.5), ("0,5", 0.5), (",5", 0.5), ("1e-5", 1e-5), ("1E-5", 1e-5)),
        *(("0,001", 0.001), ("60 000", 60000.0), ("60\u202f000,5", 60000.5), ("1_000", 1000.0)),
        *(("+2", 2.0), ("−3", -3.0), ("1,5e-3", 0.0015), ("12,5", 12.5)),
        *(("1'000", 1000.0), ("1,0000", 1.0)),
    ],
)
def test_numbers(text, value):
    assert number("noise", text) == value


@every(
    "text",
    [
        *("", "x", "1.2.3", "1,2,3", "1.000,5", "1,000.5", "nan", "inf", "-inf", "1e999", "0x10"),
        *("1e", "--1", "½", "١", "1" * 100, "<b>1</b>", "1;2", "1,5,0"),
    ],
)
def test_what_is_no_number(text):
    with pytest.raises(InvalidInput) as problem:
        number("noise", text)
    assert problem.value.field == "noise"
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 250


@every("text", ["1.000", "50.000", "1.000.000"])
def test_thousands_with_points_are_refused(text):
    with pytest.raises(InvalidInput):
        number("epochs", text)
    for other in (text, "1.500", "12.345"):
        with pytest.raises(InvalidInput):
            whole("n", other)


@every("text", ["1,000", "60,000", "1,500,000", "-2,500"])
def test_what_can_be_read_in_two_ways_is_refused(text):
    """A thousand to some, one to others; a guess would be a promise about another run."""
    with pytest.raises(InvalidInput, match=text.replace(",", "").lstrip("-")):
        number("noise", text)
    with pytest.raises(InvalidInput):
        whole("n", text)


@every(
    ("text", "value"), [("60000", 60000), ("60 000", 60000), ("6e4", 60000), ("0", 0), ("12.0", 12)]
)
def test_whole_numbers(text, value):
    found = whole("n", text)
    assert found == value
    assert type(found) is int


@every("text", ["1.5", "1,5", "5,0", "a", "", "1e400", "²"])
def test_what_is_no_whole_number(text):
    with pytest.raises(InvalidInput, match="n: "):
        whole("n", text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_that_is_written_is_read_as_the_same(value):
    assert number("noise", exact(value)) == value


@given(st.floats(min_value=0.0, max_value=1e15, allow_nan=False))
def test_a_comma_is_a_point_or_refused(value):
    """Never anything else."""
    text = exact(value).replace(".", ",")
    try:
        found = number("noise", text)
    except InvalidInput:
        assert len(text.partition(",")[2]) == 3
    else:
        assert found == value
