"""The private imputer: near the true statistics of the values there are, and free where nothing is learnt."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import pabi
from pabi.learn import PrivateImputer
from pabi.numbers.errors import PrivacyWarning
from support.in_turn import in_turn

N = 20_000


@pytest.fixture(autouse=True)
def quiet():
    """Seeds, as these tests are of fixed noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        yield


def fitted(X, strategy="mean", epsilon=1.0, **changes):
    return PrivateImputer(epsilon, 1e-5, strategy=strategy, random_state=0, **changes).fit(X)


def numbers(n=N):
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(5.0, 1.0, n), rng.lognormal(2.0, 1.0, n)], axis=1)
    X[rng.random((n, 2)) < [0.4, 0.1]] = math.nan
    return X


@in_turn("feature_ranges", ["auto", (0.0, 60.0)])
def test_means_of_the_values_there_are(feature_ranges):
    X = numbers()
    one = fitted(X, feature_ranges=feature_ranges)
    low, high = (0.0, 60.0) if feature_ranges != "auto" else np.nanquantile(X, [0.005, 0.995], 0)
    expected = np.nanmean(np.clip(X, low, high), axis=0)
    assert one.statistics_ == pytest.approx(expected, rel=0.1)


@in_turn("feature_ranges", ["auto", (0.0, 60.0)])
def test_medians_of_the_values_there_are(feature_ranges):
    X = numbers()
    one = fitted(X, "median", feature_ranges=feature_ranges)
    below = np.nanmean(np.where(np.isnan(X), math.nan, one.statistics_ >= X), axis=0)
    assert below == pytest.approx([0.5, 0.5], abs=0.06)


def test_only_gaps_are_filled():
    X = numbers()
    one = fitted(X)
    out = one.transform(X)
    gaps = np.isnan(X)
    assert np.array_equal(out[~gaps], X[~gaps])
    assert np.array_equal(out[gaps], np.broadcast_to(one.statistics_, X.shape)[gaps])


def test_indicators_of_all_columns_whatever_has_gaps():
    X = numbers()
    whole = np.ones((N, 2))
    one = fitted(whole, "constant", add_indicator=True)
    out = one.transform(X)
    assert out.shape == (N, 4)
    assert np.array_equal(out[:, 2:], np.isnan(X))
    assert list(one.get_feature_names_out(["a", "b"])) == ["a", "b", "a: missing", "b: missing"]


def test_the_most_frequent_level():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "a": rng.choice(["x", "y"], N, p=[0.7, 0.3]),
            "b": np.where(rng.random(N) < 0.6, None, rng.choice([3, 4], N, p=[0.2, 0.8])),
        }
    )
    one = fitted(X, "most_frequent")
    assert list(one.statistics_) == ["x", "4"]
    out = one.transform(pd.DataFrame({"a": [None, "y"], "b": [None, 3]}))
    assert out.tolist() == [["x", "4"], ["y", 3]]
    digits = np.array([[2.0], [2.0], [5.0], [math.nan]] * 1000)
    assert fitted(digits, "most_frequent").transform([[math.nan], [7.0]]).tolist() == [["2"], [7.0]]
    assert pabi.verify(PrivateImputer(strategy="most_frequent").fit(X).guarantee_).ok


@in_turn("odd", [None, "x", True, 1, "1.0", 2**60, np.float32(1.0)])
@in_turn("changes", [{}, {"fill_value": "none"}, {"add_indicator": True}])
def test_a_cell_changes_no_other_row(odd, changes):
    """Whatever type numpy and pandas give a table for it."""
    rows = [[1.0, math.nan], [math.nan, 2.0], [3.0, 1.0]] * 3
    others = [[odd, math.nan], *rows[1:]]
    for strategy in ("constant", "most_frequent"):
        one = fitted(rows, strategy, **changes)
        for make in (list, np.array, pd.DataFrame, lambda table: np.array(table, dtype=object)):
            was, made = ([*map(list, one.transform(make(table)))] for table in (rows, others))
            kinds = [[list(map(type, row)) for row in table[1:]] for table in (was, made)]
            if make is not np.array:  # which makes text of all cells beside one
                assert was[1:] == made[1:]
                assert kinds[0] == kinds[1]


@in_turn("strategy", ["mean", "median", "most_frequent"])
def test_a_column_of_gaps_is_filled_with_the_stated_value(strategy):
    X = np.full((N, 2), math.nan)
    for fill, expected in ((None, 0.0), (7.5, 7.5)):
        if strategy == "mean":
            one = fitted(X, strategy, feature_ranges=(-4.0, 6.0), fill_value=fill)
            assert one.transform(X[:1]).tolist() == [[1.0, 1.0]]  # the middle of the public range
        else:
            one = fitted(X, strategy, fill_value=fill)
            assert one.transform(X[:1]).tolist() == [[expected, expected]]


def test_a_constant_is_free_and_says_nothing_of_the_table():
    texts = np.array([["a", None], [None, "b"]], dtype=object)
    one, other = fitted(texts, "constant"), fitted(np.ones((5, 2)), "constant")
    assert one.statistics_.tolist() == other.statistics_.tolist() == [0.0, 0.0]
    assert one.transform(texts).tolist() == [["a", 0.0], [0.0, "b"]]
    assert other.transform([[math.nan, 2.0]]).tolist() == [[0.0, 2.0]]
    assert fitted(texts, "constant", fill_value="?").transform(texts).tolist() == [
        ["a", "?"],
        ["?", "b"],
    ]
