"""Private ranges, scalers and imputers: near the true statistics of columns, and sound at the edges."""

import math

import numpy as np
import pandas as pd
import pytest

from pabi.learn import PrivateImputer, PrivateRanges, PrivateScaler
from pabi.learn.scaler import RankSearch, margin_of, questions_of, thresholds
from support.every_case import every

N = 30_000


def ranged(X, epsilon=1.0, **changes):
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
    low, high = ranged(x[:, None]).ranges_[:, 0]
    true_low, true_high = np.quantile(x, [0.01, 0.99])
    width = true_high - true_low
    assert abs(low - true_low) <= 0.25 * width
    assert abs(high - true_high) <= 0.25 * width
    assert np.mean((x >= low) & (x <= high)) > 0.95


def test_a_strong_noise_widens_ranges_as_if_columns_were_normal():
    low, high = ranged(columns()["normal"][:, None], epsilon=0.05).ranges_[:, 0]
    assert -3.0 < low < -1.9
    assert 1.9 < high < 3.0


def test_rows_come_out_in_the_unit_box_and_gaps_stay():
    X = np.stack(list(columns().values()), axis=1)
    X[::9, 0] = math.nan
    one = ranged(X)
    wild = np.vstack([X[:100], np.full((1, 5), 1e300), np.full((1, 5), -1e300)])
    out = one.transform(wild)
    assert np.nanmax(np.abs(out)) == 1.0
    assert np.array_equal(np.isnan(out), np.isnan(wild))
    low, high = one.ranges_
    inside = (2.0 * X[:100] - low - high) / (high - low)
    assert out[:100] == pytest.approx(np.clip(inside, -1.0, 1.0), abs=1e-9, nan_ok=True)


def test_declared_bounds_are_never_left():
    X = np.stack([columns()["normal"], columns()["years"]], axis=1)
    one = ranged(X, bounds=[[-0.5, 0.0], [0.5, 3000.0]], scaled=False)
    assert np.all(one.ranges_[0] >= [-0.5, 0.0])
    assert np.all(one.ranges_[1] <= [0.5, 3000.0])
    assert np.array_equal(one.transform(X), np.clip(X, *one.ranges_))
    assert one.releases_[0].questions < ranged(X).releases_[0].questions
    named = pd.DataFrame(X, columns=["a", "b"])
    by_name = ranged(named, bounds={"b": (0.0, 3000.0), "a": (-0.5, 0.5)})
    assert np.array_equal(by_name.ranges_, one.ranges_)


@every("value", [0.0, 7.0, -1e200])
def test_a_constant_column_has_a_range_around_it(value):
    one = ranged(np.full((N, 1), value))
    low, high = one.ranges_[:, 0]
    assert low <= value <= high > low
    assert np.all(np.abs(one.transform([[value], [value - 1.0]])) <= 1.0)


@every(("bounds", "expected"), [(None, (-1.0, 1.0)), ((2.0, 3.0), (2.0, 3.0))])
def test_a_column_of_gaps_has_the_range_that_is_public(bounds, expected):
    one = ranged(np.full((N, 2), math.nan), bounds=bounds)
    assert [tuple(column) for column in one.ranges_.T] == [expected] * 2
    assert np.isnan(one.transform(np.full((3, 2), math.nan))).all()


@pytest.mark.filterwarnings("ignore:invalid value")  # of scikit-learn's sum of the table
def test_many_columns_and_values_at_the_ends_of_the_doubles():
    rng = np.random.default_rng(3)
    X = rng.choice([-1.7e308, -5e-324, 0.0, 5e-324, 1.7e308], size=(N, 40))
    one = ranged(X, epsilon=4.0)
    assert np.isfinite(one.ranges_).all()
    assert np.all(one.ranges_[0] < one.ranges_[1])
    assert np.isfinite(one.transform(X)).all()


def scaled(X, epsilon=1.0, **changes):
    return PrivateScaler(epsilon, 1e-5, random_state=0, **changes).fit(X)


def of_three_sizes(n=N):
    X = np.random.default_rng(0).normal(size=(n, 3)) * [1.0, 20.0, 1e-6] + [0.5, 100.0, 0.0]
    return np.clip(X, [-4.0, 0.0, -4e-6], [5.0, 200.0, 4e-6])


ENDS = np.array([[-4.0, 0.0, -4e-6], [5.0, 200.0, 4e-6]])


def test_means_and_spreads_are_as_near_as_the_noise_says():
    X = of_three_sizes()
    one = scaled(X, feature_ranges=ENDS)
    (moments,) = one.releases_
    reach = (ENDS[1] - ENDS[0]) / 2.0
    error = 4.0 * moments.noise_std / N  # of a mean in [−1, 1]
    assert np.all(np.abs(one.mean_ - X.mean(axis=0)) <= error * reach)
    assert one.scale_ == pytest.approx(X.std(axis=0), rel=0.02)
    assert np.array_equal(one.ranges_, ENDS)
    X = of_three_sizes()
    one = scaled(X)
    assert [release.statistic for release in one.releases_] == ["counts", "moments"]
    assert one.mean_ == pytest.approx(X.mean(axis=0), abs=0.1 * X.std(axis=0).max(), rel=0.05)
    assert one.scale_ == pytest.approx(X.std(axis=0), rel=0.1)
    out = one.transform(X)
    assert np.all(np.abs(out.mean(axis=0)) < 0.1)
    assert out.std(axis=0) == pytest.approx(np.ones(3), abs=0.1)


@every("share", [0.2, 0.8])
def test_the_share_of_ranges_is_that_of_mu_squared(share):
    counts, moments = PrivateScaler(ranges_share=share).plan(N, 3).releases
    squares = [release.guarantee(1e-5).mu ** 2 for release in (counts, moments)]
    assert squares[0] / sum(squares) == pytest.approx(share, rel=1e-9)
    whole = PrivateScaler(feature_ranges=(0, 1)).plan(N, 3).guarantee.mu ** 2
    assert sum(squares) == pytest.approx(whole, rel=1e-9)


@every("value", [0.0, 3.0, -1e9])
def test_a_constant_column_has_a_spread_above_zero(value):
    one = scaled(np.full((N, 2), value))
    assert np.all(one.scale_ > 0.0)
    assert np.isfinite(one.transform(np.full((3, 2), value))).all()
    ends = scaled(np.full((N, 2), value), feature_ranges=(value, value + 1.0))
    assert np.all(ends.scale_ > 0.0)
    assert ends.mean_ == pytest.approx(np.full(2, value), abs=0.05)


def test_gaps_are_left_out_and_a_column_of_them_is_mapped_by_public_numbers():
    X = of_three_sizes()
    X[::2, 0] = X[:, 1] = math.nan
    one = scaled(X, feature_ranges=ENDS, bound=2.0)
    assert one.mean_[0] == pytest.approx(np.nanmean(X[:, 0]), abs=0.05)
    assert one.scale_[0] == pytest.approx(np.nanstd(X[:, 0]), rel=0.05)
    assert one.mean_[1] == 100.0
    assert one.scale_[1] == pytest.approx(100.0, rel=1e-9)
    out = one.transform([[1e300, -1e300, math.nan], [0.0, 0.0, 1.0]])
    assert np.isnan(out[0, 2])
    assert np.nanmax(np.abs(out)) == 2.0


def test_noise_that_hides_everything_leaves_finite_numbers():
    one = scaled(of_three_sizes(40), epsilon=0.01, feature_ranges=ENDS)
    assert np.isfinite(one.mean_).all()
    assert np.all(one.scale_ > 0.0)
    assert np.all((one.mean_ >= ENDS[0]) & (one.mean_ <= ENDS[1]))
    assert np.all(one.scale_ <= (ENDS[1] - ENDS[0]) / 2.0 * (1.0 + 1e-12))
    # √d and 2√d over μ, as for sums of x in [−1, 1].
    for adjacency, move in (("zero_out", 1.0), ("replace_one", 2.0)):
        plan = PrivateScaler(feature_ranges=(0, 1), adjacency=adjacency).plan(N, 9)
        expected = move * 3.0 / plan.guarantee.mu
        assert plan.releases[0].noise_std == pytest.approx(expected, rel=1e-12)
    alone = PrivateScaler(1.0, 1e-5, feature_ranges=(0.0, 1.0)).fit([[0.5]])
    assert np.isfinite(alone.transform([[0.7]])).all()


def imputed(X, strategy="mean", epsilon=1.0, **changes):
    return PrivateImputer(epsilon, 1e-5, strategy=strategy, random_state=0, **changes).fit(X)


def with_gaps(n=N):
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(5.0, 1.0, n), rng.lognormal(2.0, 1.0, n)], axis=1)
    X[rng.random((n, 2)) < [0.4, 0.1]] = math.nan
    return X


@every("feature_ranges", ["auto", (0.0, 60.0)])
def test_means_and_medians_of_the_values_there_are(feature_ranges):
    X = with_gaps()
    one = imputed(X, feature_ranges=feature_ranges)
    low, high = (0.0, 60.0) if feature_ranges != "auto" else np.nanquantile(X, [0.005, 0.995], 0)
    expected = np.nanmean(np.clip(X, low, high), axis=0)
    assert one.statistics_ == pytest.approx(expected, rel=0.1)
    X = with_gaps()
    one = imputed(X, "median", feature_ranges=feature_ranges)
    below = np.nanmean(np.where(np.isnan(X), math.nan, one.statistics_ >= X), axis=0)
    assert below == pytest.approx([0.5, 0.5], abs=0.06)


def test_only_gaps_are_filled_and_indicators_are_of_all_columns():
    X = with_gaps()
    one = imputed(X)
    out = one.transform(X)
    gaps = np.isnan(X)
    assert np.array_equal(out[~gaps], X[~gaps])
    assert np.array_equal(out[gaps], np.broadcast_to(one.statistics_, X.shape)[gaps])
    X = with_gaps()
    one = imputed(np.ones((N, 2)), "constant", add_indicator=True)
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
    one = imputed(X, "most_frequent")
    assert list(one.statistics_) == ["x", "4"]
    out = one.transform(pd.DataFrame({"a": [None, "y"], "b": [None, 3]}))
    assert out.tolist() == [["x", "4"], ["y", 3]]
    digits = np.array([[2.0], [2.0], [5.0], [math.nan]] * 1000)
    assert imputed(digits, "most_frequent").transform([[math.nan], [7.0]]).tolist() == [
        ["2"],
        [7.0],
    ]


@every("odd", [None, "x", True, 1, "1.0", 2**60, np.float32(1.0)])
@every("changes", [{}, {"fill_value": "none"}, {"add_indicator": True}])
def test_a_cell_changes_no_other_row(odd, changes):
    """Whatever type numpy and pandas give a table for it; an array makes text of all cells beside one."""
    rows = [[1.0, math.nan], [math.nan, 2.0], [3.0, 1.0]] * 3
    others = [[odd, math.nan], *rows[1:]]
    for strategy in ("constant", "most_frequent"):
        one = imputed(rows, strategy, **changes)
        for make in (list, pd.DataFrame, lambda table: np.array(table, dtype=object)):
            was, now = ([*map(list, one.transform(make(table)))] for table in (rows, others))
            assert was[1:] == now[1:]
            assert [[*map(type, row)] for row in was[1:]] == [[*map(type, row)] for row in now[1:]]
        one.transform(np.array(others))


@every("strategy", ["mean", "median", "most_frequent"])
def test_a_column_of_gaps_is_filled_with_the_stated_value(strategy):
    X = np.full((N, 2), math.nan)
    for fill, expected in ((None, 0.0), (7.5, 7.5)):
        if strategy == "mean":
            one = imputed(X, strategy, feature_ranges=(-4.0, 6.0), fill_value=fill)
            assert one.transform(X[:1]).tolist() == [[1.0, 1.0]]  # the middle of the public range
        else:
            one = imputed(X, strategy, fill_value=fill)
            assert one.transform(X[:1]).tolist() == [[expected, expected]]


def test_a_constant_is_free_and_says_nothing_of_the_table():
    texts = np.array([["a", None], [None, "b"]], dtype=object)
    one, other = imputed(texts, "constant"), imputed(np.ones((5, 2)), "constant")
    assert one.statistics_.tolist() == other.statistics_.tolist() == [0.0, 0.0]
    assert one.transform(texts).tolist() == [["a", 0.0], [0.0, "b"]]
    assert other.transform([[math.nan, 2.0]]).tolist() == [[0.0, 2.0]]
    assert imputed(texts, "constant", fill_value="?").transform(texts).tolist() == [
        ["a", "?"],
        ["?", "b"],
    ]


# Bisection by counts: public thresholds for every double, and as many questions as were planned.


GRID = thresholds()


def searched(values, shares=(0.1, 0.9), *, margin=1.0, bounds=None, noise=lambda: 0.0):
    """(what it concludes, the number of questions), each answered with `noise`."""
    asking = RankSearch(shares, margin, bounds).asking()
    ordered, count = np.sort(values), 0
    threshold = next(asking).threshold
    while True:
        count += 1
        answer = float(np.searchsorted(ordered, threshold, side="right")) + noise()
        try:
            threshold = asking.send(answer).threshold
        except StopIteration as end:
            return end.value, count


def test_thresholds_cover_all_doubles_with_an_eighth_of_an_octave_nearby():
    assert GRID[0] < -1e307
    assert GRID[-1] > 1e307
    assert 0.0 in GRID
    assert np.all(np.diff(GRID) > 0.0)
    near = GRID[(GRID >= 2.0**-40) & (GRID <= 2.0**56)]
    assert np.max(near[1:] / near[:-1]) <= 1.125
    assert np.array_equal(GRID, -GRID[::-1])


@every("scale", [1e-300, 1e-20, 1e-6, 1.0, 1e7, 1e30, 1e300])
@every("bounded", [False, True])
def test_the_quantiles_lie_where_they_are_said_to_lie(scale, bounded):
    """Bisection takes one question less where a bracket halves unevenly."""
    values = np.random.default_rng(0).standard_normal(1000) * scale
    bounds = (-8.0 * scale, 8.0 * scale) if bounded else None
    ends, asked = searched(values, bounds=bounds)
    assert questions_of(2, bounded=bounded) - asked in (0, 1, 2)
    for share, low, high in ((0.1, *ends[:2]), (0.9, *ends[2:])):
        assert np.mean(values <= low) < share <= np.mean(values <= high)


@every("value", [0.0, -7.0, 1e-310, 1997.0, -1e300])
def test_a_constant_column_is_within_and_too_few_values_show_nothing(value):
    ends, _ = searched(np.full(100, value))
    assert ends[0] < value <= ends[1]
    assert ends[2] < value <= ends[3]
    for count in (0, 1, 2):
        assert searched(np.ones(count)) == ((), 1)


def test_noise_misleads_beyond_the_values_as_seldom_as_the_margin_says():
    rng = np.random.default_rng(1)
    values, wrong = rng.uniform(3.0, 4.0, 5000), 0
    stated = {"margin": margin_of(20.0, questions_of(2, bounded=False))}
    for _ in range(400):
        ends, _ = searched(values, (0.0, 1.0), **stated, noise=lambda: float(rng.normal(0.0, 20.0)))
        wrong += min(ends) < 2.7 or max(ends) > 4.6
    assert wrong <= 12  # 1 in 100, and three of its standard deviations
    z = margin_of(1.0, 62)
    assert 62 * math.erfc(z / math.sqrt(2.0)) / 2.0 == pytest.approx(0.01, rel=1e-9)
