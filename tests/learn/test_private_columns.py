"""What private transformers have in common: scikit-learn's manner, plans before data, one release."""

from __future__ import annotations

import io
import math
import pickle
import tempfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io

import pabi
from pabi.learn import (
    PrivateCategories,
    PrivateImputer,
    PrivateRanges,
    PrivateScaler,
    PrivateWhitener,
    guarantee_of,
    parameters_hash,
)
from pabi.numbers.errors import BudgetExceeded, InvalidInput, PrivacyWarning, TargetUnreachable
from support.every_case import every

EPSILON, DELTA = 1.0, 1e-5
N = 20_000
BOUNDED = {"feature_ranges": (-5.0, 5.0)}
MADE = {
    "ranges": lambda **c: PrivateRanges(EPSILON, DELTA, **c),
    "bounded ranges": lambda **c: PrivateRanges(EPSILON, DELTA, bounds=(-9.0, 9.0), **c),
    "scaler": lambda **c: PrivateScaler(EPSILON, DELTA, **c),
    "bounded scaler": lambda **c: PrivateScaler(EPSILON, DELTA, **BOUNDED, **c),
    "categories": lambda **c: PrivateCategories(EPSILON, DELTA, **c),
    "mean": lambda **c: PrivateImputer(EPSILON, DELTA, **c),
    "bounded mean": lambda **c: PrivateImputer(EPSILON, DELTA, **BOUNDED, **c),
    "median": lambda **c: PrivateImputer(EPSILON, DELTA, strategy="median", **c),
    "most frequent": lambda **c: PrivateImputer(EPSILON, DELTA, strategy="most_frequent", **c),
}
FREE = {
    "declared": lambda **c: PrivateCategories(categories=[["a"], ["b", "c"]], **c),
    "constant": lambda **c: PrivateImputer(strategy="constant", **c),
}
FAILING = ("categories", "most frequent")
each = every("name", MADE)


def table(n=N, seed=0):
    """Whole numbers, so that they are levels as well."""
    return np.round(np.random.default_rng(seed).standard_normal((n, 2)) * [1.0, 3.0])


# scikit-learn's own checks, of tables of 20 to 50 rows: their noise has to be small. All of them are passed.


EVERY = MADE | {
    "whitener": lambda **c: PrivateWhitener(EPSILON, DELTA, fit_intercept=False, **c),
    "whitener of a constant": lambda **c: PrivateWhitener(EPSILON, DELTA, **c),
}
# Rows of theirs are longer than 1, and seeds are for testing.
pytestmark = pytest.mark.filterwarnings("ignore:some rows exceed feature_norm")


@every("name", EVERY)
@every("adjacency", ["replace_one", "zero_out"])
def test_the_target_is_met_and_certified(name, adjacency):
    one = EVERY[name](adjacency=adjacency).fit(table())
    assert EPSILON * (1.0 - 1e-4) <= one.guarantee_.epsilon(DELTA) <= EPSILON
    assert one.guarantee_.adjacency == adjacency
    verdict = pabi.verify(one.guarantee_)
    assert verdict.ok, verdict.reason
    assert verdict.scope == "run"
    for sentence in ("preprocessing used no private data", "every release is one fit"):
        assert any(sentence in own for own in one.guarantee_.assumptions)


@every("name", EVERY)
def test_a_seed_is_for_testing(name):
    with pytest.warns(PrivacyWarning, match="testing only") as seen:
        one = EVERY[name](random_state=3).fit(table())
    assert [warning.filename for warning in seen].count(__file__) >= 1
    assert one.guarantee_.certificate is None
    with pytest.warns(PrivacyWarning):
        again = EVERY[name](random_state=3).fit(table())
    assert np.array_equal(one.transform(table(50)), again.transform(table(50)))
    # Levels and what is bisected seldom differ from one noise to another.
    if name in ("ranges", "scaler", "mean", "whitener"):
        X = np.random.default_rng(2).standard_normal((N, 2))
        few = X[:9] if name == "whitener" else np.vstack([X[:9], np.full((1, 2), math.nan)])
        assert len({EVERY[name]().fit(X).transform(few).tobytes() for _ in range(4)}) > 1


@every("name", MADE)
def test_a_ledger_is_charged_once_or_refuses_a_failure(name):
    """A probability of failure, of levels that are not declared, lies above no Gaussian."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = pabi.Ledger(Path(folder) / "a.ledger", 3.0, 1e-4)
        if name in FAILING:
            with pytest.raises(InvalidInput, match="finite"):
                MADE[name](ledger=ledger).fit(table())
        else:
            MADE[name](ledger=ledger).fit(table())
        assert len(ledger.report().entries) == (name not in FAILING)


@every("name", EVERY)
def test_stored_and_read_again(name):
    one = EVERY[name]().fit(table())
    written, joined = skops.io.dumps(one), io.BytesIO()
    joblib.dump(one, joined)
    joined.seek(0)
    wanted = skops.io.get_untrusted_types(data=written)
    assert all(kind.startswith("pabi.") for kind in wanted)
    for again in (
        pickle.loads(pickle.dumps(one)),
        joblib.load(joined),
        skops.io.loads(written, trusted=wanted),
    ):
        assert np.array_equal(again.transform(table(50)), one.transform(table(50)))
        assert pabi.verify(again.guarantee_).ok
        assert again.guarantee_.epsilon(DELTA) == one.guarantee_.epsilon(DELTA)
        for learnt in ("releases_", "moments_"):
            assert getattr(again, learnt, None) == getattr(one, learnt, None)


@every("name", EVERY)
def test_frames_in_and_out(name):
    frame = pd.DataFrame(table(), columns=["a", "b"], index=np.arange(N) + 7)
    one = EVERY[name]().set_output(transform="pandas").fit(frame)
    out = one.transform(frame[:5])
    assert list(out.columns) == list(one.get_feature_names_out())
    assert list(out.index) == [7, 8, 9, 10, 11]
    with pytest.raises(ValueError, match="feature names"):
        one.transform(frame.rename(columns={"a": "z"}))


@each
def test_the_plan_needs_no_data_and_is_what_is_executed(name):
    plan = MADE[name]().plan(N, 2)
    one = MADE[name]().fit(table())
    assert one.releases_ == plan.releases
    assert one.guarantee_.epsilon(DELTA) == plan.guarantee.epsilon(DELTA)
    other = MADE[name]().fit(table(seed=8) * 100.0)
    both = [guarantee.to_dict() for guarantee in (other.guarantee_, one.guarantee_)]
    hashes = [one.pop("notes")["releases"][0]["parameters_sha256"] for one in both]
    assert hashes == [parameters_hash(other), parameters_hash(one)]  # of what was released
    assert both[0] == both[1]
    assert "ε = " in str(plan)


@every("name", FREE)
def test_what_is_declared_costs_nothing(name):
    X = np.array([["a", "b"], ["a", "c"]] * 10, dtype=object)
    one = FREE[name]().fit(X)
    assert one.guarantee_ is None
    assert one.releases_ == ()
    assert str(one.plan(10, 2)) == "nothing is released"
    with pytest.raises(InvalidInput, match="found none"):
        guarantee_of(one)


def test_nothing_is_learnt_where_the_ledger_has_less(tmp_path):
    ledger = pabi.Ledger(tmp_path / "a.ledger", 0.01, 1e-6)
    one = PrivateRanges(EPSILON, DELTA, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        one.fit(table())
    assert not hasattr(one, "ranges_")


@each
def test_nothing_but_what_is_released_is_kept(name):
    one = MADE[name]().fit(table())
    public = {"releases_", "guarantee_", "n_features_in_", "_turn"}
    learnt = {"ranges_", "mean_", "scale_", "categories_", "statistics_"}
    assert vars(one).keys() - one.get_params().keys() <= public | learnt
    numbers = [getattr(one, name) for name in learnt - {"categories_"} if hasattr(one, name)]
    assert sum(values.size for values in numbers) <= 8
    assert sum(map(len, getattr(one, "categories_", ()))) <= 40


@every(
    ("name", "field", "values"),
    [
        *((name, "epsilon", (0.0, math.inf)) for name in MADE),
        *((name, "delta", (0.0,)) for name in MADE),
        ("ranges", "quantiles", ((0.5, 0.9), 3)),
        ("ranges", "bounds", ((1.0, 1.0),)),
        ("ranges", "scaled", (1,)),
        ("ranges", "adjacency", ("add",)),
        ("ranges", "strict", (1,)),
        ("ranges", "ledger", (1,)),
        ("ranges", "random_state", ("a",)),
        ("scaler", "bound", (0.0,)),
        ("scaler", "ranges_share", (1.0,)),
        ("scaler", "feature_ranges", ("automatic", {"a": (0, 1)})),
        ("categories", "categories", ("all", [["a"]], [["a", "a"], None])),
        ("mean", "strategy", ("mode",)),
        ("mean", "fill_value", ("x",)),
        ("mean", "add_indicator", ("no",)),
    ],
)
def test_wrong_arguments_are_named(name, field, values):
    for value in values:
        with pytest.raises(InvalidInput) as caught:
            MADE[name]().set_params(**{field: value}).fit(table())
        assert caught.value.field == ("feature_ranges" if field == "bounds" else field)
        assert "\n" not in str(caught.value)


@every("name", ["ranges", "scaler", "mean", "median"])
def test_errors_show_no_value_of_the_table(name):
    for bad in ([["8675309", "sekret"]], [[8675309.0, math.inf]], [8675309.0, 1.0]):
        with pytest.raises(ValueError) as caught:
            MADE[name]().fit(np.array(bad, dtype=object) if isinstance(bad[0], list) else bad)
        assert "8675309" not in str(caught.value)
        assert "sekret" not in str(caught.value)


@every("name", ["ranges", "scaler", "mean", "median"])
def test_too_few_rows_are_refused_before_data_are_read_and_the_best_would_do(name):
    one = MADE[name]().set_params(feature_ranges="auto") if name == "mean" else MADE[name]()
    with pytest.raises(TargetUnreachable) as caught:
        one.plan(60, 2)
    best = caught.value.best
    assert one.set_params(epsilon=1.001 * best).plan(60, 2).guarantee.epsilon(DELTA) <= 1.001 * best
    with pytest.raises(TargetUnreachable):
        one.set_params(epsilon=0.99 * best).plan(60, 2)
