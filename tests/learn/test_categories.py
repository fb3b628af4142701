"""Private categories: frequent levels, cells of all kinds, and nothing of a record alone."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pabi
from pabi.account.analyses.mechanisms import failure_of
from pabi.learn import PrivateCategories
from pabi.learn.imputer import threshold_of
from support.every_case import every

DELTA = 1e-5


def frame(n=5000):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "text": rng.choice(["red", "green", " blue "], n),
            "whole": rng.integers(0, 3, n),
            "gaps": np.where(rng.random(n) < 0.3, None, "x"),
        }
    )


def fitted(X, epsilon=1.0, **changes):
    return PrivateCategories(epsilon, DELTA, **changes).fit(X)


def test_frequent_levels_are_shown_sorted_as_text_whatever_the_order_of_records():
    one, other = (fitted(X) for X in (frame(), frame()[::-1]))
    expected = [("blue", "green", "red"), ("0", "1", "2"), ("", "x")]
    assert one.categories_ == other.categories_ == expected
    assert list(one.get_feature_names_out()) == [
        *("text=blue", "text=green", "text=red", "text: other"),
        *("whole=0", "whole=1", "whole=2", "whole: other"),
        *("gaps: missing", "gaps=x", "gaps: other"),
    ]


def test_each_column_of_a_row_is_one_feature_which_is_other_where_it_was_never_seen():
    one = fitted(frame())
    out = one.transform(frame())
    assert np.array_equal(out.sum(axis=1), np.full(5000, 3.0))
    assert set(np.unique(out)) == {0.0, 1.0}
    table = pd.get_dummies(frame()["text"].str.strip())
    assert np.array_equal(out[:, :3], table[["blue", "green", "red"]].to_numpy(dtype=float))
    out = one.transform(pd.DataFrame({"text": ["violet"], "whole": [9], "gaps": ["y"]}))
    others = one.get_feature_names_out()[out[0] > 0.0]
    assert others.tolist() == ["text: other", "whole: other", "gaps: other"]


def test_cells_of_all_kinds_are_text_and_declared_levels_are_taken_as_they_are():
    for cell in (None, math.nan, pd.NA, "", "  "):
        assert fitted(np.array([[cell], ["a"]] * 2000, dtype=object)).categories_ == [("", "a")]
    X = np.array([[1], [1.0], ["1"], [True], ["true"], [2.5]] * 1000, dtype=object)
    assert fitted(X).categories_ == [("1", "2.5", "true")]
    rare = np.array([["a"]] * 3000 + [[f"rare {k}"] for k in range(500)], dtype=object)
    assert fitted(rare).categories_ == [("a",)]
    alone = np.array([["mine"]], dtype=object)
    assert fitted(alone, epsilon=0.1).categories_ == [()]
    assert np.array_equal(fitted(alone, epsilon=0.1).transform(alone), [[1.0]])
    one = fitted(frame(), categories={"text": ["red", "blue"], "whole": [2, 1], "gaps": None})
    assert one.categories_ == [("blue", "red"), ("1", "2"), ("", "x")]
    assert one.releases_[0].columns == 1
    free = PrivateCategories(categories=[["red"], [0], ["x"]]).fit(frame())
    assert free.guarantee_ is None
    assert free.categories_ == [("red",), ("0",), ("x",)]


@every("d", [1, 5, 300])
def test_a_lone_level_is_shown_with_at_most_a_fifth_of_delta(d):
    z = threshold_of(DELTA / 5.0, d)
    assert failure_of(z, d) <= DELTA / 5.0
    assert 1.0 - stats.norm.cdf(z) ** d == pytest.approx(DELTA / 5.0, rel=1e-3)


@every("adjacency", ["replace_one", "zero_out"])
def test_its_delta_is_that_of_the_noise_and_of_the_failure(adjacency):
    one = fitted(frame(), adjacency=adjacency)
    (release,) = one.releases_
    assert release.threshold == threshold_of(DELTA / 5.0, 3)
    mu = math.sqrt({"replace_one": 6.0, "zero_out": 3.0}[adjacency]) / release.noise_std
    for epsilon in (0.5, 1.0):
        expected = failure_of(release.threshold, 3) + pabi.tradeoff.Gaussian(mu).delta(epsilon)
        assert one.guarantee_.delta(epsilon) == pytest.approx(expected, rel=1e-6)
