"""Declared ranges: every form means the same, and what is wrong is named."""

from __future__ import annotations

import numpy as np

from pabi.numbers.validate import by_column, centres_and_reaches
from support.every_case import every, refused


def test_every_form_has_the_same_centres_and_half_widths():
    pair = (-1.0, 3.0)
    for ranges in (
        pair,
        [[-1.0, -1.0], [3.0, 3.0]],
        by_column({"b": pair, "a": pair}, ["a", "b"], 2),
        by_column({0: pair, 1: pair}, None, 2),
    ):
        centre, reach = centres_and_reaches(ranges, 2, sparse=False)
        assert centre.tolist() == [1.0, 1.0]
        assert reach.tolist() == [2.0, 2.0]
    assert centres_and_reaches(by_column(None, None, 2), 2, sparse=True) == (None, None)


def test_columns_keep_their_own_ranges_whatever_their_order():
    ranges = by_column({"b": (0, 10), "a": (-2, 2)}, ["a", "b"], 2)
    centre, reach = centres_and_reaches(ranges, 2, sparse=False)
    assert (centre.tolist(), reach.tolist()) == ([0.0, 5.0], [2.0, 5.0])


def test_the_largest_ranges_have_finite_half_widths():
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
