"""What private transformers have in common: scikit-learn's manner, plans before data, one release."""

import io
import itertools
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
from pabi.execute import statistics
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
from support.every_case import every, refused, refuses

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


@every("name", EVERY)
@every("adjacency", ["replace_one", "zero_out"])
def test_the_target_is_met_and_certified(name, adjacency):
    one = EVERY[name](adjacency=adjacency).fit(table())
    assert EPSILON * (1.0 - 1e-4) <= one.guarantee_.epsilon(DELTA) <= EPSILON
    assert one.guarantee_.adjacency == adjacency
    assert pabi.verify(one.guarantee_).ok
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
        one = MADE[name](ledger=pabi.Ledger(Path(folder) / "b.ledger", 0.01, 1e-6))
        with pytest.raises(InvalidInput if name in FAILING else BudgetExceeded):
            one.fit(table())
        assert not hasattr(one, "releases_")  # nothing was learnt


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


@each
def test_nothing_but_what_is_released_is_kept(name):
    one = MADE[name]().fit(table())
    public = {"releases_", "guarantee_", "n_features_in_", "_turn"}
    learnt = {"ranges_", "mean_", "scale_", "categories_", "statistics_"}
    assert vars(one).keys() - one.get_params().keys() <= public | learnt
    numbers = [getattr(one, name) for name in learnt - {"categories_"} if hasattr(one, name)]
    assert sum(values.size for values in numbers) <= 8
    assert sum(map(len, getattr(one, "categories_", ()))) <= 40


BAD = {
    "ranges": {"quantiles": ((0.5, 0.9), 3), "scaled": (1,), "adjacency": ("add",)},
    "scaler": {"bound": (0.0,), "ranges_share": (1.0,)},
    "categories": {"categories": ("all", [["a"]], [["a", "a"], None])},
    "mean": {"strategy": ("mode",), "fill_value": ("x",), "add_indicator": ("no",)},
}
BAD["ranges"] |= {"strict": (1,), "ledger": (1,), "random_state": ("a",)}
BAD["scaler"]["feature_ranges"] = ("automatic", {"a": (0, 1)})


@each
def test_wrong_arguments_are_named(name):
    bad = {"epsilon": (0.0, math.inf), "delta": (0.0,)} | BAD.get(name, {})
    refuses(lambda **wrong: MADE[name]().set_params(**wrong).fit(table()), bad)
    if name == "ranges":
        refused("feature_ranges", PrivateRanges(bounds=(1.0, 1.0)).fit, table())


@every("name", ["ranges", "scaler", "mean", "median", "whitener"])
def test_errors_show_no_value_of_the_table(name):
    fitted = EVERY[name]().fit(table())
    for bad in ([["8675309", "sekret"]], [[8675309.0, math.inf]], [8675309.0, 1.0]):
        cells = np.array(bad, dtype=object) if isinstance(bad[0], list) else bad
        for use in (EVERY[name]().fit, fitted.transform):
            with pytest.raises(ValueError) as caught:
                use(cells)
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


# Users: of each one row is drawn, so that what a record moves is what a user does, with all rows.


class Chosen(np.random.Generator):
    """No noise, and of each user's rows the one with this number."""

    def __init__(self, draws):
        super().__init__(np.random.PCG64(0))
        self.draws = draws

    def standard_normal(self, size=None):
        return np.zeros(size)

    def integers(self, low):
        return np.minimum(self.draws[: len(low)], np.asarray(low) - 1)


OTHERS = [[-1.0, 0.5], [2.0, 2.0], [0.5, math.nan]]  # rows of users 1, 2 and 2
ROWS = [[], [[3.0, -3.0]], [[-3.0, 3.0], [math.nan, 0.5]], [[2.0, 2.0], [-1.0, 3.0], [2.0, -3.0]]]
EXACT = {name: make for name, make in MADE.items() if name not in ("ranges", "scaler", "mean")}


def exact_numbers(name, rows, draw, monkeypatch, users=3):
    """(the release, its numbers without noise) of a table in which user 0 has these rows; by name."""
    seen = []

    def exact(sums, *rest):
        seen.append(np.atleast_1d(sums).copy())
        return sums

    monkeypatch.setattr(statistics, "noisy", exact)
    shown = statistics._shown

    def counted(release, counter, *rest):
        seen.append(dict(counter))
        return shown(release, counter, *rest)

    monkeypatch.setattr(statistics, "_shown", counted)
    ids = [0] * len(rows) + ([1, 2, 2] if users == 3 else [0, 1, 1])
    draws = np.array([draw, 0, 1] if rows and users == 3 else [0, 1])
    step = EXACT[name](users=users, random_state=Chosen(draws)).set_params(epsilon=1e4)
    step.fit(np.array([*rows, *OTHERS]), groups=ids)
    monkeypatch.undo()
    (release,) = step.releases_
    assert (release.n, release.unit) == (users, "user")
    levels = release.statistic == "levels"
    return release, [one for one in seen if isinstance(one, dict) == levels]


def moved(release, one, other):
    """The square of how far two lists of numbers are apart."""
    if release.statistic == "levels":
        pairs = list(zip(one, other, strict=True))
        assert all(len(a.keys() - b.keys()) <= 1 for a, b in pairs)  # what one user alone shows
        return sum((a.get(k, 0) - b.get(k, 0)) ** 2 for a, b in pairs for k in {**a, **b})
    if release.statistic == "moments":
        return float(sum(np.sum((a - b) ** 2) for a, b in zip(one, other, strict=True)))
    # Later thresholds follow from answers: each answer moves by 1 at most as long as these agree.
    same = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return float((one[same] - other[same])[0] ** 2) * release.columns * release.questions


@every("name", EXACT)
def test_all_rows_of_a_user_move_no_more_than_is_charged(name, monkeypatch):
    """Every way to replace the rows of a user by others, or by none, whichever rows are drawn."""
    drawn = [(rows, draw) for rows in ROWS for draw in range(max(1, len(rows)))]
    made = [exact_numbers(name, *one, monkeypatch) for one in drawn]
    release = made[0][0]
    every_pair = [moved(release, a, b) for (_, a), (_, b) in itertools.product(made, repeat=2)]
    assert 0.0 < max(every_pair) <= release.sensitivity**2 * (1.0 + 1e-12)
    if release.statistic == "levels":
        assert max(every_pair) == 2 * release.columns
    _, without = exact_numbers(name, [], 0, monkeypatch, users=2)  # zero_out: no contribution
    least = pabi.NoisyColumnStatistics(
        2, 2, release.statistic, questions=release.questions, adjacency="zero_out"
    )
    zeroed = [moved(release, numbers, without) for _, numbers in made]
    assert max(zeroed) <= least.sensitivity**2 * (1.0 + 1e-12)


@every("name", EVERY)
def test_users_cost_what_records_do_and_the_unit_is_certified(name):
    ids = np.arange(3 * N) % N
    one = EVERY[name](users=N).fit(np.tile(table(), (3, 1)), groups=ids)
    other = EVERY[name]().fit(table())
    assert one.guarantee_.epsilon(DELTA) == other.guarantee_.epsilon(DELTA)
    assert (one.guarantee_.unit, other.guarantee_.unit) == ("user", "record")
    verdict = pabi.verify(one.guarantee_)
    assert (verdict.ok, verdict.unit) == (True, "user")
    refused("unit", pabi.compose, one.guarantee_, other.guarantee_)
    if name in MADE:
        assert one.releases_ == EVERY[name]().plan(N, 2, unit="user").releases
        assert one.releases_ == EVERY[name](users=5).plan(N, 2).releases
    for wrong in ({}, {"groups": ids[1:]}):
        refused("groups", EVERY[name](users=N).fit, np.tile(table(), (3, 1)), **wrong)


def test_one_row_of_every_user_is_drawn_uniformly():
    """Of 6000 users with the rows −1, 0 and 1 each: a third of the values is each, but for noise."""
    X = np.tile([[-1.0], [0.0], [1.0]], (6000, 1))
    scaler = PrivateScaler(1e4, DELTA, feature_ranges=(-1.0, 1.0))
    scaler.fit(X, groups=np.repeat(np.arange(6000), 3))
    deviations = 5.0 / math.sqrt(6000.0)
    assert scaler.mean_[0] == pytest.approx(0.0, abs=deviations)
    assert scaler.scale_[0] ** 2 == pytest.approx(2.0 / 3.0, abs=deviations)
