"""The private scaler: near the true means and spreads, within its bound, and sound at the edges."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import pabi
from pabi.learn import PrivateScaler
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
    return PrivateScaler(epsilon, 1e-5, random_state=0, **changes).fit(X)


def normal(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 1e-6] + [0.5, 100.0, 0.0]
    return np.clip(X, [-4.0, 0.0, -4e-6], [5.0, 200.0, 4e-6])


RANGES = np.array([[-4.0, 0.0, -4e-6], [5.0, 200.0, 4e-6]])


def test_means_and_spreads_in_declared_ranges_are_as_near_as_the_noise_says():
    X = normal()
    one = fitted(X, feature_ranges=RANGES)
    (moments,) = one.releases_
    reach = (RANGES[1] - RANGES[0]) / 2.0
    error = 4.0 * moments.noise_std / N  # of a mean in [−1, 1]
    assert np.all(np.abs(one.mean_ - X.mean(axis=0)) <= error * reach)
    assert one.scale_ == pytest.approx(X.std(axis=0), rel=0.02)
    assert np.array_equal(one.ranges_, RANGES)


def test_ranges_that_are_bought_lead_to_about_the_same():
    X = normal()
    one = fitted(X)
    assert [release.statistic for release in one.releases_] == ["counts", "moments"]
    assert one.mean_ == pytest.approx(X.mean(axis=0), abs=0.1 * X.std(axis=0).max(), rel=0.05)
    assert one.scale_ == pytest.approx(X.std(axis=0), rel=0.1)
    out = one.transform(X)
    assert np.all(np.abs(out.mean(axis=0)) < 0.1)
    assert out.std(axis=0) == pytest.approx(np.ones(3), abs=0.1)


@in_turn("share", [0.2, 0.8])
def test_the_share_of_ranges_is_that_of_mu_squared(share):
    counts, moments = PrivateScaler(ranges_share=share).plan(N, 3).releases
    squares = [release.guarantee(1e-5).mu ** 2 for release in (counts, moments)]
    assert squares[0] / sum(squares) == pytest.approx(share, rel=1e-9)
    whole = PrivateScaler(feature_ranges=(0, 1)).plan(N, 3).guarantee.mu ** 2
    assert sum(squares) == pytest.approx(whole, rel=1e-9)


def test_the_noise_of_the_moments_is_that_of_the_sums_alone():
    """√d and 2√d over μ, as for sums of x in [−1, 1]."""
    for adjacency, move in (("zero_out", 1.0), ("replace_one", 2.0)):
        plan = PrivateScaler(feature_ranges=(0, 1), adjacency=adjacency).plan(N, 9)
        expected = move * 3.0 / plan.guarantee.mu
        assert plan.releases[0].noise_std == pytest.approx(expected, rel=1e-12)


def test_no_value_leaves_the_bound():
    one = fitted(normal(), bound=2.0)
    out = one.transform([[1e300, -1e300, math.nan], [0.0, 0.0, 1.0]])
    assert np.isnan(out[0, 2])
    assert np.nanmax(np.abs(out)) == 2.0


@in_turn("value", [0.0, 3.0, -1e9])
def test_a_constant_column_has_a_spread_above_zero(value):
    one = fitted(np.full((N, 2), value))
    assert np.all(one.scale_ > 0.0)
    assert np.isfinite(one.transform(np.full((3, 2), value))).all()
    ends = fitted(np.full((N, 2), value), feature_ranges=(value, value + 1.0))
    assert np.all(ends.scale_ > 0.0)
    assert ends.mean_ == pytest.approx(np.full(2, value), abs=0.05)


def test_gaps_are_left_out():
    X = normal()
    X[::2, 0] = math.nan
    one = fitted(X, feature_ranges=RANGES)
    assert one.mean_[0] == pytest.approx(np.nanmean(X[:, 0]), abs=0.05)
    assert one.scale_[0] == pytest.approx(np.nanstd(X[:, 0]), rel=0.05)


def test_a_column_of_gaps_is_mapped_by_public_numbers():
    X = normal()
    X[:, 1] = math.nan
    one = fitted(X, feature_ranges=RANGES)
    assert one.mean_[1] == 100.0
    assert one.scale_[1] == pytest.approx(100.0, rel=1e-9)


def test_noise_that_hides_everything_leaves_finite_numbers():
    one = fitted(normal(40), epsilon=0.01, feature_ranges=RANGES)
    assert np.isfinite(one.mean_).all()
    assert np.all(one.scale_ > 0.0)
    assert np.all((one.mean_ >= RANGES[0]) & (one.mean_ <= RANGES[1]))
    assert np.all(one.scale_ <= (RANGES[1] - RANGES[0]) / 2.0 * (1.0 + 1e-12))


def test_one_row():
    one = PrivateScaler(1.0, 1e-5, feature_ranges=(0.0, 1.0)).fit([[0.5]])
    assert pabi.verify(one.guarantee_).ok
    assert np.isfinite(one.transform([[0.7]])).all()
