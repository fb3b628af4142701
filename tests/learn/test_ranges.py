"""Private ranges: near the quantiles of columns of all sizes, and rows within them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest

from pabi.learn import PrivateRanges
from pabi.numbers.errors import PrivacyWarning
from support.in_turn import in_turn

N = 30_000


@pytest.fixture(autouse=True)
def quiet():
    """Seeds, as these tests are of fixed noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        yield


def fitted(X, epsilon=1.0, **changes):
    return PrivateRanges(epsilon, 1e-5, random_state=0, **changes).fit(X)


def columns(n=N):
    rng = np.random.default_rng(0)
    return {
        "normal": rng.normal(size=n),
        "tiny": 1e-9 * rng.normal(size=n),
        "large": 1e12 * rng.normal(size=n),
        "skewed": rng.lognormal(3.0, 1.0, n),
        "years": rng.integers(1994, 2007, n).astype(float),
    }


@pytest.mark.parametrize("name", columns())
def test_ranges_are_near_the_quantiles(name):
    x = columns()[name]
    low, high = fitted(x[:, None]).ranges_[:, 0]
    true_low, true_high = np.quantile(x, [0.01, 0.99])
    width = true_high - true_low
    assert abs(low - true_low) <= 0.25 * width
    assert abs(high - true_high) <= 0.25 * width
    assert np.mean((x >= low) & (x <= high)) > 0.95


def test_a_strong_noise_widens_ranges_as_if_columns_were_normal():
    x = columns()["normal"]
    low, high = fitted(x[:, None], epsilon=0.05).ranges_[:, 0]
    assert -3.0 < low < -1.9
    assert 1.9 < high < 3.0


def test_rows_come_out_in_the_unit_box_and_gaps_stay():
    X = np.stack(list(columns().values()), axis=1)
    X[::9, 0] = math.nan
    one = fitted(X)
    wild = np.vstack([X[:100], np.full((1, 5), 1e300), np.full((1, 5), -1e300)])
    out = one.transform(wild)
    assert np.nanmax(np.abs(out)) == 1.0
    assert np.array_equal(np.isnan(out), np.isnan(wild))
    low, high = one.ranges_
    inside = (2.0 * X[:100] - low - high) / (high - low)
    assert out[:100] == pytest.approx(np.clip(inside, -1.0, 1.0), abs=1e-9, nan_ok=True)


def test_without_scaling_values_are_clipped_only():
    x = columns()["skewed"][:, None]
    one = fitted(x, scaled=False)
    out = one.transform(x)
    assert np.array_equal(out, np.clip(x, *one.ranges_))
    assert np.mean(out == x) > 0.95


def test_declared_bounds_are_never_left():
    X = np.stack([columns()["normal"], columns()["years"]], axis=1)
    one = fitted(X, bounds=[[-0.5, 0.0], [0.5, 3000.0]])
    assert np.all(one.ranges_[0] >= [-0.5, 0.0])
    assert np.all(one.ranges_[1] <= [0.5, 3000.0])
    assert one.releases_[0].questions < fitted(X).releases_[0].questions
    named = pd.DataFrame(X, columns=["a", "b"])
    by_name = fitted(named, bounds={"b": (0.0, 3000.0), "a": (-0.5, 0.5)})
    assert np.array_equal(by_name.ranges_, one.ranges_)


@in_turn("value", [0.0, 7.0, -1e200])
def test_a_constant_column_has_a_range_around_it(value):
    one = fitted(np.full((N, 1), value))
    low, high = one.ranges_[:, 0]
    assert low < high
    assert low <= value <= high
    assert np.all(np.abs(one.transform([[value], [value - 1.0]])) <= 1.0)


@in_turn(("bounds", "expected"), [(None, (-1.0, 1.0)), ((2.0, 3.0), (2.0, 3.0))])
def test_a_column_of_gaps_has_the_range_that_is_public(bounds, expected):
    one = fitted(np.full((N, 2), math.nan), bounds=bounds)
    assert [tuple(column) for column in one.ranges_.T] == [expected] * 2
    assert np.isnan(one.transform(np.full((3, 2), math.nan))).all()


@pytest.mark.filterwarnings("ignore:invalid value")  # of scikit-learn's sum of the table
def test_many_columns_and_values_at_the_ends_of_the_doubles():
    rng = np.random.default_rng(3)
    X = rng.choice([-1.7e308, -5e-324, 0.0, 5e-324, 1.7e308], size=(N, 40))
    one = fitted(X, epsilon=4.0)
    assert np.isfinite(one.ranges_).all()
    assert np.all(one.ranges_[0] < one.ranges_[1])
    assert np.isfinite(one.transform(X)).all()
