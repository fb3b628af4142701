"""Public ranges of targets and features: training sees scaled targets, users see their own units."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import GammaRegressor

import pabi
from pabi.account.calibration import calibrate
from pabi.describe.batches import FullBatch
from pabi.describe.statistics import NoisySecondMoments
from pabi.learn import (
    LargeTable,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivatePoissonRegressor,
)
from pabi.numbers import errors as warning_module
from pabi.numbers.errors import TargetUnreachable
from support.estimators import LOG_LINKS, REGRESSORS, each_linear
from support.every_case import every, refused, refuses

QUICK = {"batches": FullBatch(), "epochs": 3, "step_size": 0.5, "l2": 0.01, "noise_std": 0.3}
SCALED = [(PrivateLinearRegression, "residual_bound"), (PrivateHuberRegressor, "threshold")]
each_scaled = every(("kind", "bound"), SCALED)
PUBLIC = "target_range is public"
LOW, HIGH = -100.0, 300.0


def problem(n=60, seed=0):
    """Rows of norm below 1, and targets some of which are outside of [LOW, HIGH]."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    return X, 100.0 + X @ np.array([400.0, -300.0, 0.0]) + 30.0 * rng.normal(size=n)


def fitted(kind, X, y, **changes):
    return kind(**{"random_state": 0, **QUICK, **changes}).fit(X, y)


@each_scaled
@pytest.mark.parametrize("share", ["auto", 0.2])
def test_little_noise_ends_at_the_optimum_of_the_scaled_problem(kind, bound, share):
    """scipy minimises what the docs state: residuals over half the range, clipped, plus ℓ2."""
    X, y = problem()
    l2, noise, step = 0.05, 1e-7, 0.4
    centre, half = (LOW + HIGH) / 2, (HIGH - LOW) / 2
    default = (HIGH - LOW) / 8  # of so few records
    most = (default if share == "auto" else share * half) / half
    rows = np.column_stack([X, np.ones(len(X))])
    targets = (np.clip(y, LOW, HIGH) - centre) / half
    assert not np.array_equal(np.clip(y, LOW, HIGH), y)

    def objective(theta):
        r = rows @ theta - targets
        small = np.clip(r, -most, most)
        value = np.mean(small * (r - small / 2)) + l2 / 2 * theta @ theta
        return value, rows.T @ small / len(y) + l2 * theta

    truth = minimize(objective, np.zeros(4), jac=True, options={"gtol": 1e-10}).x
    epochs = math.ceil(math.log(1e-9) / math.log1p(-step * l2))
    given = {"target_range": (LOW, HIGH), bound: share if share == "auto" else share * half}
    given |= {"batches": FullBatch(), "l2": l2, "noise_std": noise, "step_size": step}
    model = kind(**given, epochs=epochs).fit(X, y)
    # Ten standard deviations about the optimum, and 1e-10/λ of scipy's, times half the range.
    spread = step * noise / math.sqrt(1.0 - (1.0 - step * l2) ** 2)
    tolerance = half * (10.0 * 2.0 * spread + 1e-8)
    assert np.linalg.norm(model.coef_ - half * truth[:3]) < tolerance
    assert abs(model.intercept_ - centre - half * truth[3]) < tolerance
    assert np.linalg.norm(truth) > 0.1


@pytest.mark.parametrize(
    ("n", "adjacency", "over_half_the_range"),
    [
        (100, "zero_out", 0.25),
        (20_000, "zero_out", None),
        (40_000, "replace_one", None),
        (10**7, "replace_one", 0.6),
    ],
)
def test_residuals_are_bounded_as_widely_as_noise_allows(n, adjacency, over_half_the_range):
    """Between: S·C/(nμ), on a path of 30/M a column, moves the longest row by 0.4 of half the range."""
    model = PrivateLinearRegression(1.0, 1e-5, target_range=(LOW, HIGH), adjacency=adjacency)
    plan = model.plan(n, 200)
    bound = plan.run.loss.gradient_bound / plan.size.norm
    if over_half_the_range is None:
        mu = calibrate(NoisySecondMoments(1, 1, 1.0, adjacency="zero_out"), 1.0, 1e-5)
        moved = {"replace_one": 2, "zero_out": 1}[adjacency]
        path = 30.0 * 201 / plan.run.loss.curvature[1]
        over_half_the_range = 0.4 * n / mu.moment_noise_std
        over_half_the_range /= moved * plan.size.norm**2 * path
        assert 0.25 < over_half_the_range < 0.5
    assert bound == pytest.approx(over_half_the_range, rel=1e-9)


@each_scaled
def test_units_and_targets_beyond_the_range_do_not_matter(kind, bound):
    """Targets and everything in their units times 2, shifted: coefficients times 2, predictions shifted."""
    X, y = problem()
    one = fitted(kind, X, y, target_range=(LOW, HIGH), **{bound: 64.0})
    two = fitted(kind, X, 2 * y + 7, target_range=(2 * LOW + 7, 2 * HIGH + 7), **{bound: 128.0})
    assert one.run_ == two.run_
    assert two.coef_ == pytest.approx(2 * one.coef_, rel=1e-12)
    assert two.predict(X) == pytest.approx(2 * one.predict(X) + 7, rel=1e-12)
    assert fitted(kind, X, y).run_ == fitted(kind, X, y, feature_norm=1.0).run_
    models = [
        fitted(kind, X, targets, target_range=(LOW, HIGH))
        for targets in (y, np.clip(y, LOW, HIGH), np.where(y > HIGH, 1e300, y))
    ]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert np.array_equal(models[0].coef_, models[2].coef_)
    model = fitted(kind, X, y, target_range=[LOW, HIGH], **{bound: 50.0})
    assert dict(model.run_.loss.parameters)[bound] == 0.25
    # √(R² + 1) times the bound, of one record; replacing it moves the sum by twice that.
    assert model.run_.sensitivity >= 2.0 * math.sqrt(2.0) * 0.25


def test_counts_are_cut_at_the_range_and_not_scaled():
    X, _ = problem()
    y = np.arange(60) % 30
    ranged = fitted(PrivatePoissonRegressor, X, y, target_range=(0, 20))
    stated = fitted(PrivatePoissonRegressor, X, y, count_bound=20.0, predictor_bound=math.log(20.0))
    assert ranged.run_ == stated.run_
    assert np.array_equal(ranged.coef_, stated.coef_)
    assert np.array_equal(ranged.predict(X), stated.predict(X))
    beyond = fitted(PrivatePoissonRegressor, X, y, target_range=(0, 20), count_bound=25.0)
    assert dict(beyond.run_.loss.parameters)["count_bound"] == 20.0
    with pytest.raises(ValueError, match="≥ 0|[Nn]egative"):
        fitted(PrivatePoissonRegressor, X, y - 1, target_range=(0, 20))
    X, _ = of_two_targets(30)
    with pytest.raises(ValueError, match="y"):
        PrivatePoissonRegressor().fit(X, np.ones((30, 2)))


@every("kind", REGRESSORS)
def test_what_a_range_assumes_is_said(kind):
    X, y = problem()
    for given, said in (((0, 200), True), (None, False)):
        model = fitted(kind, X, np.abs(y), target_range=given, random_state=None)
        written = pabi.Guarantee.from_json(model.guarantee_.to_json())
        for guarantee in (model.guarantee_, written):
            assert (PUBLIC in guarantee.assumptions) is said
    assert clone(kind(target_range=(0, 9))).target_range == (0, 9)


@every("kind", REGRESSORS)
def test_bad_ranges_are_refused_by_name(kind):
    X, y = problem()
    bad = [(1, 0), (1, 1), (0,), (0, math.inf), (0, math.nan), "0..1", 5, [[0, 1]], object()]
    refuses(lambda **wrong: fitted(kind, X, np.abs(y), **wrong), {"target_range": bad})


def test_where_a_range_makes_no_sense_it_is_refused_and_costs_nothing(tmp_path):
    X, y = problem()
    for kind, value, told in (
        (PrivateLinearRegression, (0.0, 5e-324), "expected a wider range"),
        (PrivatePoissonRegressor, (1, 9), "expected (0, high)"),
    ):
        assert told in refused("target_range", fitted, kind, X, np.abs(y), target_range=value)
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", 2.0, 1e-5)
    X, y = amounts(PrivateGammaRegressor)
    for kind in LOG_LINKS:
        own = kind(1.0, 1e-6, ledger=ledger, **PRIVATE)
        assert refused("y", own.fit, X, y - 1e9) == "y: expected numbers ≥ 0"
    assert not ledger.report().entries


def warned(words, action):
    """The messages that hold `words`, of three fits in a process where nothing was said before."""

    def messages(build):
        with warnings.catch_warnings(record=True) as seen, pytest.MonkeyPatch.context() as patch:
            patch.setattr(warning_module, "_SHOWN", set())
            warnings.resetwarnings()
            if action != "default":
                warnings.simplefilter(action)
            for _ in range(3):
                build()
        return [(str(w.message), w.filename) for w in seen if words in str(w.message)]

    return messages


@every(("action", "count"), [("default", 1), ("always", 3), ("ignore", 0)])
def test_long_rows_are_warned_of_once(action, count):
    X, y = problem()

    def fit():
        PrivateLinearRegression(**QUICK, residual_bound=1.0).fit(9 * X, y)

    found = warned("scaled down", action)(fit)
    assert len(found) == count
    assert all("feature_ranges or a larger feature_norm" in words for words, _ in found)
    assert all(file == __file__ for _, file in found)


@every("kind", REGRESSORS)
def test_targets_of_which_nothing_is_stated_are_warned_of_once(kind):
    X, y = problem()
    own = {PrivateHuberRegressor: "threshold", PrivatePoissonRegressor: "count_bound"}
    bound = own.get(kind, "residual_bound")

    def messages(**stated):
        return warned("targets", "default")(lambda: kind(**QUICK, **stated).fit(X, np.abs(y)))

    ((words, file),) = messages()
    assert "target_range=(low, high)" in words
    assert bound in words
    assert "\n" not in words
    assert file == __file__
    assert not messages(target_range=(0, 300))
    assert not messages(**{bound: 1.0})


@each_linear
@every("d", [1, 2, 7])
def test_no_row_within_the_ranges_is_scaled(kind, d):
    """All corners of the ranges, which have norm √d, and none of which is warned of."""
    corners = np.array(list(itertools.product([3.0, 5.0], repeat=d)))
    y = np.arange(len(corners)) % 2
    changes = {"step_size": 0.01, "feature_ranges": (3, 5)}
    assert not warned("scaled", "always")(lambda: fitted(kind, corners, y, **changes))
    model = fitted(kind, corners, y, **changes)
    norm = dict(model.run_.loss.parameters).get("feature_norm")
    assert norm is None or math.sqrt(d + 1) <= norm < math.sqrt(d + 1) * (1 + 1e-12)
    exact = fitted(kind, corners, y, feature_norm=2.0 * math.sqrt(d), **changes)
    assert exact.run_.loss != model.run_.loss


# Several targets a record: the vector Huber loss, fitted together and accounted once.

WEIGHTS = np.array([[1.0, -0.5, 0.0], [0.3, 0.2, -0.8]])


def of_two_targets(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 3))
    return X, X @ WEIGHTS.T + np.array([0.5, -0.25]) + 0.05 * rng.normal(size=(n, 2))


@each_scaled
@pytest.mark.parametrize("share", [None, 0.1])
def test_all_targets_are_fitted_in_their_own_units(kind, bound, share):
    X, Y = of_two_targets()
    model = kind(
        4.0, 1e-6, feature_ranges=(-1, 1), target_range=(-3, 3), precondition=share, random_state=0
    ).fit(X, Y)
    assert model.coef_.shape == (2, 3)
    assert model.intercept_.shape == (2,)
    assert model.predict(X[:7]).shape == (7, 2)
    assert model.coef_ == pytest.approx(WEIGHTS, abs=0.15)
    assert model.intercept_ == pytest.approx([0.5, -0.25], abs=0.15)
    assert model.score(X, Y) > 0.9
    assert model.run_.loss.kind == "vector_huber"
    assert model.guarantee_.epsilon(1e-6) <= 4.0


@each_scaled
def test_one_column_of_targets_is_one_target(kind, bound):
    X, Y = of_two_targets(500)
    stated = {"feature_ranges": (-1, 1), "target_range": (-3, 3), "precondition": 0.2}
    flat, own = (kind(1.0, 1e-6, **stated, random_state=0) for _ in range(2))
    with pytest.warns(UserWarning, match="column-vector"):
        assert np.array_equal(own.fit(X, Y[:, :1]).coef_, flat.fit(X, Y[:, 0]).coef_)
    assert flat.coef_.shape == (3,)


# A range that is found privately.

PRIVATE = {"target_range": "private", "adjacency": "zero_out"}
SEEDED = {**PRIVATE, **QUICK, "noise_std": None, "random_state": 0}
FOUND = 4000  # records, of which quantiles are found at ε = 2


def amounts(kind, n=FOUND, seed=1):
    """Skewed targets in units that nothing is known of, of rows within 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    return X, np.round(3e4 * np.exp(X[:, 0]) * rng.gamma(2.0, 0.5, size=n))


@every("kind", REGRESSORS)
def test_a_private_range_is_found_within_the_budget(kind):
    X, y = amounts(kind)
    model = kind(2.0, 1e-5, feature_ranges=(-0.5, 0.5), **PRIVATE).fit(X, y)
    plan = model.plan(FOUND, 3)
    low, high = model.target_range_
    assert np.mean(y < low) < 0.2
    assert np.mean(y > high) < 0.1
    assert high < 4.0 * np.quantile(y, 0.99)
    assert 1.99 <= model.guarantee_.epsilon(1e-5) <= 2.0
    assert model.guarantee_.curve == plan.guarantee.curve
    assert [type(one).__name__ for one in (plan.counts, plan.moments, plan.run)] == [
        "NoisyColumnStatistics", "NoisySecondMoments", "NoisySGD",
    ]  # fmt: skip
    own = plan.costs[0].mu ** 2 / plan.costs[1].mu ** 2
    assert own == pytest.approx(0.03 / 0.1, rel=1e-3)
    assert pabi.verify(model.guarantee_.to_json()).ok
    assert PUBLIC not in model.guarantee_.assumptions
    assert "31 noisy counts" in str(plan)
    best = np.mean((y - np.mean(y)) ** 2)
    assert np.mean((y - model.predict(X)) ** 2) < best  # .14 of it is explained without privacy
    assert np.mean(model.predict(X)) == pytest.approx(np.mean(y), rel=0.2)


@every("kind", REGRESSORS)
def test_units_and_single_targets_do_not_matter_to_a_private_range(kind):
    """Twice the targets are twice the range, to the last bit; one of 1e308 leaves everything finite."""
    X, y = amounts(kind)
    far = np.where(np.arange(FOUND) == 7, 1e308, y)
    one, two, odd = (kind(2.0, 1e-5, **SEEDED).fit(X, some) for some in (y, 2.0 * y, far))
    assert odd.run_ == two.run_ == one.run_
    assert np.array_equal(two.target_range_, 2.0 * one.target_range_)
    assert two.predict(X[:9]) == pytest.approx(2.0 * one.predict(X[:9]), rel=1e-12)
    assert odd.target_range_ == pytest.approx(one.target_range_, rel=0.2)
    assert np.all(np.isfinite(odd.predict(X)))


def test_a_large_table_finds_the_same_range():
    X, y = amounts(PrivateGammaRegressor)
    memory, large = (
        PrivateGammaRegressor(2.0, 1e-5, **SEEDED).fit(table, y) for table in (X, LargeTable(X))
    )
    assert np.array_equal(large.target_range_, memory.target_range_)
    weighted = PrivateGammaRegressor(2.0, 1e-5, max_sample_weight=2.0, **SEEDED)
    weighted.fit(X, y, sample_weight=np.full(FOUND, 2.0))
    assert weighted.coef_ == pytest.approx(memory.coef_, rel=1e-12)


def test_users_several_targets_and_few_records_of_a_private_range():
    """Somebody with as many rows as all others together, and other targets, hardly moves it."""
    X, y = amounts(PrivateLinearRegression)
    person = np.r_[np.arange(FOUND), np.full(FOUND, FOUND)]
    model = PrivateLinearRegression(3.0, 1e-5, **PRIVATE)
    model.fit(np.vstack([X, X]), np.r_[y, y + 1e9], groups=person)
    assert np.max(np.abs(model.target_range_)) < 1e7
    assert model.guarantee_.unit == pabi.verify(model.guarantee_.to_json()).unit == "user"
    rows = PrivateLinearRegression(3.0, 1e-5, **PRIVATE).fit(np.vstack([X, X]), np.r_[y, y + 1e9])
    assert rows.target_range_[1] > 5e8
    # Several targets have one range.
    model = PrivateLinearRegression(3.0, 1e-5, **PRIVATE).fit(X, np.column_stack([y, 10.0 * y]))
    assert model.plan(FOUND, 3, targets=2).counts.columns == 2
    assert model.target_range_[1] > 5.0 * np.quantile(y, 0.9)
    assert model.coef_.shape == (2, 3)
    # Whoever has too few records is told what would do.
    model = PrivateLinearRegression(0.3, 1e-5, **PRIVATE)
    with pytest.raises(TargetUnreachable, match="noise hides the quantiles") as refusal:
        model.plan(800, 3)
    assert model.set_params(epsilon=1.01 * refusal.value.best).plan(800, 3).counts is not None


@every(
    ("kind", "field", "value"),
    [
        (PrivateLinearRegression, "target_range", "privat"),
        (PrivateLinearRegression, "residual_bound", 2.0),
        (PrivateHuberRegressor, "threshold", 2.0),
        (PrivatePoissonRegressor, "predictor_bound", 2.0),
        (PrivateGammaRegressor, "target_range", (-1.0, 2.0)),
        (PrivateGammaRegressor, "residual_bound", 0.0),
    ],
)
def test_what_does_not_go_with_a_private_range_is_refused(kind, field, value, tmp_path):
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", 2.0, 1e-5)
    own = kind(1.0, 1e-6, ledger=ledger, **PRIVATE)
    refused("keep_state", own.fit, *amounts(kind), keep_state="a file")
    refused(field, own.set_params(**{field: value}).fit, *amounts(kind))
    assert not ledger.report().entries


@every("high", [6e4, 1e6])
def test_a_gamma_regression_hardly_asks_how_wide_the_range_is(high):
    """Little noise: its means are those that scikit-learn's finds, by another way."""
    X, y = amounts(PrivateGammaRegressor, 500)
    y = np.minimum(y, 6e4) + 1.0
    theirs = GammaRegressor(alpha=0.0, tol=1e-10, max_iter=10_000).fit(X, y)
    ours = PrivateGammaRegressor(
        1e4, 1e-5, target_range=(0.0, high), precondition=None, residual_bound=50.0
    )
    ours.set_params(noise_std=1e-7, batches=FullBatch(), epochs=4000, step_size=0.03).fit(X, y)
    assert ours.predict(X) == pytest.approx(theirs.predict(X), rel=1e-3)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-4)
