"""PrivateSearchCV: its total is met and proven, and nothing of what lost is left."""

import gc
import json
import pickle
import warnings
import weakref
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import pabi
from pabi import learn
from pabi.execute.checkpoint import TrialLaw
from pabi.execute.sums import UserRows
from pabi.learn.plans import ONE_FIT
from pabi.learn.search_plans import Tables, labels_of, scored
from pabi.numbers.errors import BudgetExceeded, InvalidInput, PrivacyWarning, TargetUnreachable
from support.every_case import every, refused

DELTA = 1e-5
GRID = {"clip_norm": [0.1, 0.5], "precondition": [None]}


def table(n, seed=0, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] + 0.2 * rng.normal(size=n) > 0.0).astype(int)


def logistic(**fields):
    return learn.PrivateLogisticRegression(adjacency="zero_out", **{"classes": [0, 1]} | fields)


def search(estimator=None, settings=None, **fields):
    stated = {"epsilon": 1.0, "delta": DELTA, "mean_trials": 3.0, "shape": 1.0} | fields
    return learn.PrivateSearchCV(
        logistic() if estimator is None else estimator,
        GRID if settings is None else settings,
        **stated,
    )


def accurate(noise):
    """As much of a plan as scoring by accuracy takes."""
    cost = SimpleNamespace(adjacency="zero_out")
    return SimpleNamespace(scoring_noise=noise, scoring="accuracy", guarantee=cost)


def scoring(labels, groups=None, scored=None):
    """As much of the tables of a search as scoring takes."""
    held = {"X_scoring": np.zeros((len(labels), 1)), "y_scoring": labels}
    return SimpleNamespace(**held, groups_scoring=groups, scored=scored or len(labels))


PUBLIC = dict(zip(("X_public", "y_public"), table(200, 9), strict=True))


@every("groups", [None, [0, 0, 0, 1, 2]])
def test_an_accuracy_has_the_planned_noise_on_a_grid(groups):
    """Of records it is the share of hits, of users the mean of their shares, 0 of one without records."""
    users = None if groups is None else UserRows.of(groups, 4)
    tables = scoring(np.array([1, 0, 0, 1, 0]), users, 5 if users is None else 4)
    own, generator = search(), np.random.default_rng(3)
    own.plan_ = accurate(0.05)
    scores = np.array([own._score(Guesses(np.ones(5)), tables, generator) for _ in range(2000)])
    share = 2.0 / 5.0 if users is None else (1.0 / 3.0 + 1.0) / 4.0
    assert stats.kstest((scores - share) / 0.05, "norm").pvalue > 1e-6
    whole = scores * tables.scored * 2.0**23
    assert np.allclose(whole, np.rint(whole), rtol=0.0, atol=1e-6)


WHITENED = make_pipeline(
    learn.PrivateWhitener(0.3, 1e-6, adjacency="zero_out"), logistic(precondition=None)
)
REGRESSION = learn.PrivateLinearRegression(adjacency="zero_out", target_range=(0, 1))
DRAWN = {"clip_norm": stats.loguniform(0.1, 1.0)}
SEARCHES = {
    "public": lambda: search(),
    "private": lambda: search(validation_share=0.25),
    "distribution": lambda: search(None, DRAWN, candidates=3),
    "pipeline": lambda: search(WHITENED, {"privatelogisticregression__clip_norm": [0.1, 0.5]}),
    "regression": lambda: search(REGRESSION),
}


@pytest.mark.parametrize("how", SEARCHES)
def test_the_total_is_met_and_proven(how):
    X, y = table(2000)
    asked = SEARCHES[how]().fit(X, y, **({} if how == "private" else PUBLIC))
    assert 0.99 <= asked.guarantee_.epsilon(DELTA) <= 1.0
    assert pabi.verify(asked.guarantee_).ok
    assert learn.guarantee_of(asked) is asked.guarantee_
    assert asked.best_params_ in asked.plan_.settings
    assert asked.predict(X[:5]).shape == (5,)
    assert asked.plan_.epsilon < 1.0
    assert how == "regression" or asked.score(*PUBLIC.values()) > 0.6


def test_trials_show_no_progress_and_share_nothing(tmp_path, capsys):
    """A memory would have all trials use the noise that the first one drew."""
    X, y = table(2000)
    chain = make_pipeline(*(step for _, step in WHITENED.steps), memory=str(tmp_path), verbose=True)
    settings = {
        "privatelogisticregression__clip_norm": [0.1, 0.5],
        "verbose": [True],
        "privatelogisticregression__verbose": [True],
    }
    search(clone(chain), settings).fit(X, y, **PUBLIC)
    assert capsys.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def prepared(**fields):
    ranges = learn.PrivateRanges(0.3, 1e-6, adjacency="zero_out", **fields)
    return make_pipeline(ranges, learn.PrivateScaler(0.3, 1e-6, adjacency="zero_out"))


def test_tuning_and_preparing_within_one_epsilon():
    """Prepared once, outside of the search; the target is that of both together."""
    X, y = table(4000)
    before = prepared()
    asked = search(besides=[learn.guarantee_of(before.fit(X))], validation_share=0.25)
    asked.fit(before.transform(X), y)
    whole = learn.guarantee_of(make_pipeline(*(step for _, step in before.steps), asked))
    assert 0.99 <= whole.epsilon(DELTA) <= 1.0
    assert asked.plan_.total.epsilon(DELTA) == pytest.approx(whole.epsilon(DELTA), rel=1e-12)
    assert asked.guarantee_.epsilon(DELTA) < 0.95
    assert pabi.verify(whole).ok


def test_the_best_model_and_its_steps_cost_what_the_search_does():
    """Steps were chosen with the model: alone, or before another model, they cost as much."""
    X, y = table(4000)
    settings = {"privatelogisticregression__clip_norm": [0.3]}
    chain = make_pipeline(*(step for _, step in prepared().steps), logistic(precondition=None))
    fitted = search(chain, settings).fit(X, y, **PUBLIC)
    best = fitted.best_estimator_
    assert learn.guarantee_of(best) is fitted.guarantee_
    again = learn.guarantee_of(pickle.loads(pickle.dumps(best)))
    assert again.curve == fitted.guarantee_.curve
    noted = [one["parameters_sha256"] for one in fitted.guarantee_.notes["releases"]]
    assert noted == list(learn.parameters_hashes(best))
    turns = [vars(step)["_turn"] for _, step in best.steps if hasattr(step, "guarantee_")]
    assert set(turns) == {fitted._turn}, "how many trials there were is not to be seen"
    first, second, _ = (step for _, step in best.steps)
    for steps in ([first], [second], [first, second]):
        assert learn.guarantee_of(make_pipeline(*steps)).curve == fitted.guarantee_.curve
    assert pabi.verify(first.guarantee_).ok
    other = logistic(precondition=None, feature_norm=10.0).fit(
        second.transform(first.transform(X)), y
    )
    both = learn.guarantee_of(make_pipeline(first, second, other))
    one_after_the_other = pabi.compose(fitted.guarantee_, other.guarantee_)
    assert both.epsilon(DELTA) == one_after_the_other.epsilon(DELTA)
    first.fit(X)
    with pytest.raises(InvalidInput, match="was fitted after this one"):
        learn.guarantee_of(best)


@every("of", ["a range", "columns"])
def test_a_search_assumes_what_a_fit_does(of):
    """That it is one fit alone is not true of it."""
    X, y = table(2000)
    plain = {"epochs": 1, "batches": pabi.FullBatch(), "precondition": None, "clip_norm": None}
    if of == "a range":
        one, name = learn.PrivateLinearRegression(target_range=(0, 1), **plain), ""
    else:
        levels = OneHotEncoder(categories=[[0.0, 1.0]], handle_unknown="ignore")
        columns = ColumnTransformer([("levels", levels, [0])], remainder="passthrough")
        one = make_pipeline(columns, PolynomialFeatures(), logistic(**plain))
        name = "privatelogisticregression__"
    fit = learn.guarantee_of(one.fit(X, y)).assumptions
    found = search(one, {f"{name}l2": [0.0]}).fit(X, y, X_public=X[:9], y_public=y[:9])
    assert set(fit) - set(found.guarantee_.assumptions) == {ONE_FIT}
    said = "target_range is public" if of == "a range" else "before the step 'polynomialfeatures'"
    assert any(said in sentence for sentence in fit)


def reachable(thing, seen):
    """Every object that can be reached from attributes and containers."""
    if id(thing) in seen:
        return
    seen[id(thing)] = thing
    inner = getattr(thing, "__dict__", {}).values()
    if isinstance(thing, dict):
        inner = [*inner, *thing.values()]
    elif isinstance(thing, list | tuple | set):
        inner = [*inner, *thing]
    for one in inner:
        reachable(one, seen)


def numbers_within(fitted):
    """The numbers that a fitted search holds, its scorer (which is the test's) left out."""
    delattr(fitted, "scoring")
    things = {}
    reachable(vars(fitted), things)
    assert len(things) > 100
    return [x for x in things.values() if isinstance(x, int | float) and not isinstance(x, bool)]


def test_neither_the_number_of_trials_nor_losers_are_left(monkeypatch):
    """None of 37 scores stands anywhere, and 37, which a setting may be, as often as after one trial."""
    marks = iter(np.linspace(0.123, 0.456, 38).tolist())
    seen_scores, tried = [], []

    def scorer(model, X, y):
        tried.append(weakref.ref(model))
        seen_scores.append(next(marks))
        return seen_scores[-1]

    X, y = table(300)
    monkeypatch.setattr(TrialLaw, "draw", lambda self, generator: 1)
    single = numbers_within(search(scoring=scorer).fit(X, y, **PUBLIC))
    tried.clear()
    monkeypatch.setattr(TrialLaw, "draw", lambda self, generator: 37)
    fitted = search(scoring=scorer).fit(X, y, **PUBLIC)
    assert len(seen_scores) == 1 + 37
    gc.collect()
    assert [kept for model in tried if (kept := model()) is not None] == [fitted.best_estimator_]
    numbers = numbers_within(fitted)
    assert not set(numbers) & set(seen_scores)
    assert numbers.count(37) <= single.count(37)


def test_the_best_trial_is_released_and_ties_go_to_the_first(monkeypatch):
    monkeypatch.setattr(TrialLaw, "draw", lambda self, generator: 5)
    scores, order = iter([0.1, 0.7, 0.7, float("nan"), 0.2]), []

    def scorer(model, X, y):
        order.append(np.array(model.coef_))
        return next(scores)

    X, y = table(300)
    fitted = search(scoring=scorer).fit(X, y, **PUBLIC)
    assert np.array_equal(fitted.best_estimator_.coef_, order[1])


def test_an_error_in_a_trial_shows_no_other_trial(monkeypatch):
    monkeypatch.setattr(TrialLaw, "draw", lambda self, generator: 5)
    calls = []

    def scorer(model, X, y):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("stop")
        return 0.5

    X, y = table(300)
    with pytest.raises(RuntimeError, match="stop") as error:
        search(scoring=scorer).fit(X, y, **PUBLIC)
    frame, local = error.value.__traceback__, []
    while frame is not None:
        local += frame.tb_frame.f_locals
        frame = frame.tb_next
    assert "best" not in local
    assert "generator" not in local


@every("name", ["epsilon", "delta", "adjacency", "noise_std", "random_state"])
def test_settings_of_privacy_are_refused_by_name(name):
    X, y = table(200)
    for setting in (name, f"privatelogisticregression__{name}"):
        with pytest.raises(InvalidInput, match=f"{setting}: expected no setting of privacy"):
            search(settings={setting: [1.0]}).fit(X, y, **PUBLIC)


@every(
    ("field", "fields", "scoring"),
    [
        ("validation_share", {}, {}),
        ("validation_share", {"validation_share": 0.2}, PUBLIC),
        ("validation_share", {"validation_share": 1e-9}, {}),
        ("y_public", {}, {"X_public": PUBLIC["X_public"]}),
        ("scoring", {"validation_share": 0.2, "scoring": "f1"}, {}),
        *((name, {name: 0}, PUBLIC) for name in ("epsilon", "candidates", "slot_seconds")),
        ("shape", {"shape": -0.7}, PUBLIC),
        ("clip_norm", {"settings": {"clip_norm": 0.5}}, PUBLIC),
        ("param_distributions", {"settings": []}, PUBLIC),
        ("standardscaler", {"estimator": StandardScaler()}, PUBLIC),
        ("noise_std", {"estimator": logistic(noise_std=0.1)}, PUBLIC),
        ("random_state", {"estimator": logistic(random_state=1)}, PUBLIC),
    ],
)
def test_bad_input(field, fields, scoring):
    refused(field, search(**fields).fit, *table(200), **scoring)


def test_ledgers_of_steps_and_of_gaussians_are_refused(tmp_path):
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", 4.0, 1e-5)
    first = learn.PrivateWhitener(0.1, 1e-6, adjacency="zero_out", ledger=ledger)
    grid, share = {"privatelogisticregression__clip_norm": [0.5]}, {"validation_share": 0.3}
    for asked, field, told in (
        (search(ledger=ledger, **share), "guarantee", "selected curve"),
        (search(logistic(ledger=ledger), **share), "ledger", "the search"),
        (search(make_pipeline(first, logistic()), grid, **share), "ledger", "the search"),
    ):
        assert told in refused(field, asked.fit, *table(300))
    assert ledger.path.read_bytes().count(b"\n") == 1


def test_labels_of_another_shape_and_levels_that_are_learnt_are_refused():
    """(m, 1) beside (m,) made m·m hits, of which one record moved 2m."""
    X, y = table(200)
    for labels in (y[:, None], y[None], y[:, None].tolist()):
        with pytest.raises(
            InvalidInput, match=r"y: expected (shape \(n,\), one label|as many rows)"
        ):
            search(validation_share=0.3).fit(X, labels)
    assert "got (3, 1)" in refused("y", labels_of, [[0], [1], [0]])
    levels = learn.PrivateCategories(0.1, 1e-6, adjacency="zero_out")
    grid = {"privatelogisticregression__clip_norm": [0.5]}
    with pytest.raises(InvalidInput, match="estimator: expected declared levels"):
        search(make_pipeline(levels, logistic()), grid).fit(X.astype(str), y, **PUBLIC)
    assert not hasattr(levels, "guarantee_")


def test_reproducible_searches_are_for_testing_only():
    X, y = table(500)
    with pytest.warns(PrivacyWarning, match="random_state was given"):
        one, other = (search(random_state=3).fit(X, y, **PUBLIC) for _ in range(2))
    assert np.array_equal(one.best_estimator_.coef_, other.best_estimator_.coef_)
    assert one.guarantee_.certificate is None
    assert any("testing only" in a for a in one.guarantee_.assumptions)


def test_steps_that_cost_too_much_leave_no_budget():
    dear = make_pipeline(learn.PrivateWhitener(3.0, 1e-6, adjacency="zero_out"), logistic())
    asked = search(dear, {"privatelogisticregression__precondition": [None]})
    with pytest.raises(TargetUnreachable, match="epsilon = 1 at delta = 1e-05 cannot be met"):
        asked.fit(*table(300), **PUBLIC)


def test_a_plan_needs_no_data():
    plan = search(mean_trials=10.0, shape=0.0).plan(2000, 4)
    assert plan.guarantee.epsilon(DELTA) <= 1.0
    assert plan.expected_trials == 10.0
    assert plan.most_trials == 81  # of the logarithmic law, as scipy has it too
    assert stats.logser(1.0 - plan.gamma).ppf(0.99) == 81
    assert "10 in the mean, at most 81 in 99% of searches" in str(plan)
    assert search(validation_share=0.5).plan(2000, 4).scoring_noise > 0.0


def test_releases_beside_it_that_leave_nothing_or_are_none():
    spent = pabi.NoisyAccuracy(100, 1e-3, adjacency="zero_out").guarantee(DELTA)
    with pytest.raises(TargetUnreachable):
        search(besides=[spent]).plan(1000, 4)
    for besides, told in (
        (0.5, "a list of guarantees"),
        ([0.5], "pabi.Guarantee objects"),
        ([spent.for_testing()], "one that protects somebody"),
    ):
        with pytest.raises(InvalidInput, match=f"^besides: .*{told}"):
            search(besides=besides).plan(1000, 4)


def test_a_guarantee_says_what_the_noise_on_a_score_is_and_what_it_assumes():
    X, y = table(2000)
    fitted = search(validation_share=0.25).fit(X, y)
    noise = fitted.plan_.scoring_noise
    guarantee = scored(noise, fitted._target(500), fitted.plan_.trials[0])
    assert guarantee.mu == pytest.approx(1.0 / (500 * noise), rel=1e-12)
    [cases] = json.loads(fitted.guarantee_.to_json())["tradeoff"]["base"]["factors"]
    assert min(cases.get("mus", [cases.get("mu")])) >= guarantee.mu * (1.0 - 1e-9)
    X, y = table(300)
    said = search(validation_share=0.3).fit(X, y).guarantee_.assumptions
    assert any("depends on that record and on the trial's model alone" in one for one in said)
    assert not any(
        "trial's model alone" in one for one in search().fit(X, y, **PUBLIC).guarantee_.assumptions
    )


class Guesses:
    """A model that predicts what it was told to."""

    def __init__(self, guesses):
        self.guesses = guesses

    def predict(self, X):
        return self.guesses


class Odd:
    """A label that answers comparisons with something else than yes or no."""

    def __init__(self, answer):
        self.answer = answer

    def __eq__(self, other):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    __hash__ = None


def score_of(guesses, labels, m=40):
    """The score of guesses, almost without noise."""
    asked = search(validation_share=0.5)
    asked.plan_ = accurate(1e-12)
    cells = np.empty(m, dtype=object)
    cells[:] = labels
    return asked._score(Guesses(guesses), scoring(cells), np.random.default_rng(0))


@every(
    ("label", "adds"),
    [
        *((Odd(1000), 1), (Odd(np.array([True, True])), 0), (Odd(TypeError()), 0), (Odd(""), 0)),
        *((None, 0), (float("nan"), 0), (pd.NA, 0), (pd.NaT, 0), ("1", 0), (b"1", 0), ([1, 1], 0)),
        *((1.0, 1), (True, 1), (np.int64(1), 1), (1 + 0j, 1), (0, 0), (2**70, 0)),
    ],
)
def test_a_record_adds_nothing_or_one_hit(label, adds):
    """Counted: 39 hits of the others, and 0 or 1 of this one, whatever its cell holds."""
    found = score_of(np.ones(40, int), [label, *[1] * 39])
    assert found == pytest.approx((39 + adds) / 40, abs=1e-9)


@every("shape", [(40, 1), (1, 40), (39,), (41,), (), (40, 40), (1,)])
def test_predictions_of_another_shape_are_refused(shape):
    with pytest.raises(InvalidInput, match=r"estimator: expected predictions of shape \(40,\)"):
        score_of(np.ones(shape), [1] * 40)


def test_one_record_moves_a_score_by_one_part_of_all():
    """The label of one scoring record becomes a text: the labels of all others stay what they are."""
    X, y = table(60)
    assert 7 in np.random.default_rng(2).permutation(60)[:30]  # it scores
    scores = []
    for label in (int(y[7]), 1 - int(y[7]), "other", None):
        changed = y.tolist()
        changed[7] = label
        asked = search(validation_share=0.5)
        tables = asked._parted(X, changed, np.random.default_rng(2), None)
        asked.plan_ = accurate(1e-12)
        guesses = Guesses(np.ones(tables.scored, int))
        scores.append(asked._score(guesses, tables, np.random.default_rng(0)))
        assert np.asarray(tables.y).dtype.kind == "i"
    assert max(scores) - min(scores) <= 1 / 30 + 1e-9


def test_users_are_trained_on_or_scored_and_never_both():
    """In the first column stands whose row it is."""
    X, y = table(400)
    X[:, 0] = ids = np.random.default_rng(5).integers(0, 60, 400)
    users = UserRows.of(ids, 70)
    tables = search(validation_share=0.4)._parted(X, y, np.random.default_rng(2), users)
    own, other = ({*part[:, 0]} for part in (tables.X, tables.X_scoring))
    assert own.isdisjoint(other)
    assert len(tables.X) + len(tables.X_scoring) == 400
    assert (tables.groups.users, tables.groups_scoring.users) == (42, 28)


def test_it_waits_for_the_end_of_a_slot(monkeypatch):
    """Of a fit that took 5.5 seconds."""
    clock, slept = iter([100.0, 105.5]), []
    stopped = SimpleNamespace(monotonic=lambda: next(clock), sleep=slept.append)
    monkeypatch.setattr("pabi.learn.search.time", stopped)
    search(slot_seconds=2.0).fit(*table(200), **PUBLIC)
    assert slept == [0.5]


def test_it_is_an_estimator_of_scikit_learn_that_warns_of_nothing():
    """Warnings would say how many there were, and of which setting."""
    X, y = table(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search().fit(3.0 * X, y, **PUBLIC)
    asked = search()
    again = clone(asked)
    assert again.get_params()["estimator__adjacency"] == "zero_out"
    assert again.get_params()["mean_trials"] == 3.0
    assert is_classifier(asked)
    X, y = table(500)
    fitted = asked.fit(X, y, **PUBLIC)
    assert fitted.predict_proba(X[:3]).shape == (3, 2)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.n_features_in_ == 4
    assert not hasattr(search(learn.PrivateLinearRegression()), "predict_proba")


def test_trials_take_no_turns():
    """Or the number of the next fit would tell how many there were."""
    first, second = (search().fit(*table(200), **PUBLIC) for _ in range(2))
    assert second._turn == first._turn + 1


def test_a_ledger_has_one_entry_of_a_search(tmp_path):
    """Entries of single trials would tell their number, and cost far more than the search."""
    X, y = table(300)
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", 4.0, 1e-5, order=6.0)
    found_out = search(ledger=ledger, epsilon=0.5, validation_share=0.3).fit(X, y)
    assert ledger.path.read_bytes().count(b"\n") == 3  # the budget, the search, its commit
    assert found_out.best_estimator_.ledger is None
    left = ledger.remaining()
    with pytest.raises(BudgetExceeded):
        search(ledger=ledger, epsilon=8.0, validation_share=0.3).fit(X, y)
    assert ledger.remaining() == left


@every(
    ("y", "kind"),
    [
        ([0, 1] * 20 + ["x"], list),
        ([2**60 + 1] * 8 + [0.5], list),
        ([2**60 + 1] * 8 + [None], pa.array),
        ([2**60 + 1] * 8 + [None], lambda y: pd.Series(y, dtype="Int64")),
        (["a", "b"] * 8 + ["a\0"], list),
    ],
)
def test_one_label_changes_no_other(y, kind):
    labels, X = labels_of(kind(y)), np.zeros((len(y), 1))
    assert labels.tolist()[:-1] == y[:-1]
    tables = Tables(X=X, y=kind(y), X_scoring=None, y_scoring=None, rows=len(y))
    assert tables.cells.array.tolist()[:-1] == y[:-1]
    assert set(map(type, labels.tolist()[:-1])) == {type(y[0])}


@every("share", [None, 0.3])
def test_an_undeclared_label_of_another_kind_is_refused_in_one_line(share):
    X, _ = table(400)
    asked = search(logistic(classes=None), validation_share=share)
    scoring = {} if share else PUBLIC
    with pytest.raises(InvalidInput, match="^y: expected labels of one kind$"):
        asked.fit(X, [0, 1] * 199 + [0, "x"], **scoring)
