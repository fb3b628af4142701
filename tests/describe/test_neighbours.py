"""Whom a guarantee protects; what runs make of it is tested with them."""

from __future__ import annotations

import itertools

import pytest

from pabi import InvalidInput
from pabi.describe.accounted import UNITS, changed, checked_adjacency, checked_unit, record_only
from support.every_case import every


class Agreeable(str):
    """Says that it is equal to everything."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return True


@every(("adjacency", "others"), [("replace_one", [-1.0, 0.0, 1.0]), ("zero_out", [0.0])])
def test_so_many_contributions_of_norm_one_lie_between_neighbours(adjacency, others):
    """Of all sums of three contributions in {−1, 0, 1}, one of them replaced or zeroed."""
    sums = [
        abs(sum(own) - sum((other, *own[1:])))
        for own in itertools.product([-1.0, 0.0, 1.0], repeat=3)
        for other in others
    ]
    assert changed(adjacency) == max(sums)


def test_there_are_two_units_and_samplers_have_one():
    assert UNITS == ("record", "user")
    assert [checked_unit(unit) for unit in UNITS] == ["record", "user"]
    assert record_only("record") == "record"
    with pytest.raises(
        InvalidInput, match="the only unit of samplers and mechanisms, got 'user'"
    ) as refused:
        record_only("user")
    assert refused.value.field == "unit"


@every("check", [checked_unit, record_only])
@every("value", ["Record", "users", "", None, 1, b"record", Agreeable("all")])
def test_other_units_are_refused(check, value):
    with pytest.raises(InvalidInput, match='^unit: expected "record" or "user", got') as refused:
        check(value)
    assert refused.value.field == "unit"
    assert "\n" not in str(refused.value)


def test_a_name_that_agrees_with_everything_is_no_adjacency():
    with pytest.raises(InvalidInput, match="^adjacency: "):
        checked_adjacency(Agreeable("add_or_remove_one"))


@every("value", [[], {}, object(), type("R", (), {"name": 3})()])
def test_what_is_no_name_is_no_adjacency(value):
    with pytest.raises(InvalidInput, match='^adjacency: expected "replace_one" or "zero_out"'):
        checked_adjacency(value)


@every("name", ["add_or_remove", "add_remove", "ADD_OR_REMOVE_ONE"])
def test_adding_a_record_is_answered_with_the_nearest_that_there_is(name):
    with pytest.raises(InvalidInput, match="changes n and with it the batches") as caught:
        checked_adjacency(name)
    assert caught.value.field == "adjacency"
