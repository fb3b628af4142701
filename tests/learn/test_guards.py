"""Steps are safe by a list: what is not on it is named. Fits are counted where they happen."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import Memory
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_extraction import FeatureHasher, text
from sklearn.feature_selection import RFECV, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler, SkewedChi2Sampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    LabelBinarizer,
    LabelEncoder,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.semi_supervised import SelfTrainingClassifier

import pabi
from pabi import learn
from pabi.describe.batches import FullBatch
from pabi.features import RandomFeatures, Scattering
from pabi.learn.guards import _ROW_BY_ROW, public_name
from pabi.learn.plans import AGAIN, ONE_FIT, UNCLEAR, not_covered
from pabi.learn.rows import PrivateStep
from pabi.numbers import errors as warning_module
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from support.estimators import same
from support.every_case import every, refused

DELTA = 1e-4
QUICK = {"batches": FullBatch(), "epochs": 2, "step_size": 0.5, "l2": 0.01, "precondition": None}
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 0.4, (120, 4))
Y = np.arange(120) % 2
GRID = {"l2": [0.1, 0.2]}


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    """Every test is a process of its own as to what was warned of."""
    monkeypatch.setattr(warning_module, "_SHOWN", set())


def model(**changes):
    return learn.PrivateLogisticRegression(1.0, DELTA, **{**QUICK, **changes})


def whitener(**changes):
    return learn.PrivateWhitener(9.0, DELTA, **{"fit_intercept": False, **changes})


def search_of(estimator, grid=None):
    return learn.PrivateSearchCV(estimator, grid or GRID, epsilon=2.0, delta=DELTA, mean_trials=2)


class Renamed(StandardScaler):
    """Nothing in its name says what it does."""


class Own(TransformerMixin, BaseEstimator):
    """It learns no more than that it was fitted."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


class PrivateName(Own):
    def fit(self, X, y=None):
        self._m = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self._m


class Bare:
    """It has no settings and no base, and standardises."""

    def fit(self, X, y=None):
        self.mean = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self.mean


class ScalingRanges(learn.PrivateRanges):
    """A subclass of ours that learns more than it releases."""

    def fit(self, X, y=None):
        self.most_ = np.abs(X).max()
        return super().fit(X / self.most_)


class Over(Own):
    """Makes rows of other rows."""

    def fit_resample(self, X, y):
        return X, y


def batch_mean(X):
    return X - np.mean(X, axis=0)


def closed_over():
    scaler = StandardScaler().fit(X)
    return FunctionTransformer(lambda rows: scaler.transform(rows))


def patched():
    step = Normalizer()
    step.transform = batch_mean
    return step


def columns(*parts, **changes):
    return ColumnTransformer([(f"c{k}", *part) for k, part in enumerate(parts)], **changes)


NO_COLUMN_DROPPED = {"strategy": "constant", "fill_value": 0.0}
KEPT = {"strategy": "constant", "keep_empty_features": True}
LEAKY = {
    "standard": StandardScaler,
    "mean imputer": SimpleImputer,
    "indicator": MissingIndicator,
    "constant that drops empty columns": lambda: SimpleImputer(**NO_COLUMN_DROPPED),
    "constant of the table's kind": lambda: SimpleImputer(**KEPT),
    "with indicator": lambda: SimpleImputer(**KEPT, fill_value=0.0, add_indicator=True),
    "target encoder": TargetEncoder,
    "scaled sampler": lambda: RBFSampler(gamma="scale"),
    "levels": OneHotEncoder,
    "frequent levels": lambda: OneHotEncoder(categories=DECLARED, min_frequency=3),
    "most levels": lambda: OrdinalEncoder(categories=DECLARED, max_categories=2),
    "ordinal": OrdinalEncoder,
    "words": text.CountVectorizer,
    "inverse frequencies": lambda: text.TfidfVectorizer(vocabulary=["good", "bad"]),
    "frequencies of counts": text.TfidfTransformer,
    "knots": SplineTransformer,
    "from model": lambda: SelectFromModel(LogisticRegression()),
    "a model": LogisticRegression,
    "targets by a model of no privacy": TransformedTargetRegressor,
    "levels learnt, then declared": lambda: (
        OneHotEncoder().fit([["x", "u"], ["z", "w"]]).set_params(categories=DECLARED)
    ),
    "words learnt, then declared": lambda: (
        text.CountVectorizer().fit(["good so"]).set_params(vocabulary=["good", "bad"])
    ),
}
UNKNOWN = {
    "renamed": Renamed,
    "own, which learns nothing": Own,
    "private name": PrivateName,
    "without settings": Bare,
    "subclass of ours": lambda: ScalingRanges(20.0, DELTA),
    "resampler": Over,
    "function of the batch": lambda: FunctionTransformer(batch_mean),
    "closure": closed_over,
    "method of what was fitted": lambda: FunctionTransformer(PCA(2).fit(X).transform),
    "function of a column's type": lambda: FunctionTransformer(np.reciprocal),
    "ufunc of one's own": lambda: FunctionTransformer(np.frompyfunc(abs, 1, 1)),
    "function of numpy's that mixes rows": lambda: FunctionTransformer(np.sort),
    "inverse of one's own": lambda: FunctionTransformer(np.exp, inverse_func=batch_mean),
    "names of one's own": lambda: FunctionTransformer(feature_names_out=lambda s, names: names),
    "words split by one's own": lambda: text.HashingVectorizer(tokenizer=str.split),
    "method put into an instance": patched,
    "fitted before": lambda: FrozenEstimator(PCA(2).fit(X)),
    "columns by a function": lambda: columns((Normalizer(), lambda table: [0])),
}

DECLARED = [["x", "y"], ["u", "v", "w"]]
KNOTS = np.array([[0.0, 0], [0.5, 0.5], [1, 1]])
LEVELS = np.array([["x", "u"], ["y", "w"], ["y", "v"]] * 5, object)
TEXTS = ["good so", "bad bad", "so so good"] * 5
LATER = np.vstack([X[:2], 7.0 * X[2:11] + 1.0])
GAPS = np.where(X > 0.2, np.nan, X)
NUMBERS, HOLED = (X, LATER), (GAPS, np.vstack([GAPS[:2], np.full((3, 4), np.nan)]))
WORDS = (TEXTS, [*TEXTS[:2], "bad"])
ROW_BY_ROW = [
    *((make, *NUMBERS) for make in (Normalizer, FunctionTransformer, PolynomialFeatures)),
    (lambda: FunctionTransformer(np.cbrt), *NUMBERS),
    (lambda: Binarizer(threshold=0.3), *NUMBERS),
    (lambda: text.HashingVectorizer(dtype=np.float32), *WORDS),
    (FeatureHasher, [{"a": 1.0}] * 9, [{"a": 1.0}] * 2 + [{"b": 2.0}]),
    (lambda: OneHotEncoder(categories=DECLARED), LEVELS, LEVELS[[0, 1, 0]]),
    (
        lambda: OrdinalEncoder(categories=[[1.0, 2.0, np.nan], [4.0, 5.0]]),
        np.array([[1.0, 4.0], [2.0, 5.0], [np.nan, 5.0]]),
        np.array([[1.0, 4.0], [2.0, 5.0], [1.0, 4.0]]),
    ),
    (lambda: text.CountVectorizer(vocabulary=["good", "bad"], stop_words=["so"]), *WORDS),
    (lambda: text.TfidfVectorizer(vocabulary={"good": 0, "bad": 1}, use_idf=False), *WORDS),
    (lambda: text.TfidfTransformer(use_idf=False), *NUMBERS),
    (lambda: SimpleImputer(**KEPT, fill_value=3.0), *HOLED),
    (lambda: MissingIndicator(features="all"), *HOLED),
    (lambda: RBFSampler(gamma=1.0, n_components=5, random_state=0), *NUMBERS),
    (lambda: GaussianRandomProjection(3, random_state=0), *NUMBERS),
    (lambda: SparseRandomProjection(3, random_state=0), *NUMBERS),
    (lambda: PolynomialCountSketch(random_state=0), *NUMBERS),
    (lambda: SkewedChi2Sampler(random_state=0), *NUMBERS),
    (lambda: SplineTransformer(knots=KNOTS), X[:, :2], LATER[:, :2]),
]
OURS = (
    *(learn.PrivateRanges, learn.PrivateScaler, learn.PrivateCategories, learn.PrivateImputer),
    *(whitener, model, lambda: search_of(make_pipeline(Normalizer(), model()))),
    *(lambda: RandomFeatures((0, 1), 20), lambda: Scattering((8, 8))),
    lambda: learn.SchemaEncoder({"a": {"kind": "numeric", "range": [0, 1]}}),
)


@every("name", LEAKY)
def test_a_step_of_scikit_learns_that_learns_is_named(name):
    assert {one.severity for one in learn.check_pipeline(LEAKY[name]())} == {"leak"}
    with pytest.raises(InvalidInput, match="learns from the data without privacy"):
        learn.check_pipeline(make_pipeline(LEAKY[name](), model()), strict=True)


@every("name", UNKNOWN)
def test_what_is_not_on_the_list_is_named_whatever_it_does(name):
    (finding,) = learn.check_pipeline(UNKNOWN[name]())
    assert finding.severity == "unknown"
    whole = make_pipeline(Normalizer(), UNKNOWN[name](), model())
    assert [one.severity for one in learn.check_pipeline(whole)] == ["unknown"]
    with pytest.raises(InvalidInput, match="is not known to treat every row by itself"):
        learn.check_pipeline(whole, strict=True)


def dense(table):
    return table.toarray() if hasattr(table, "toarray") else np.asarray(table)


@every(("make", "one", "other"), ROW_BY_ROW)
def test_a_known_step_makes_the_same_of_a_row_whatever_the_other_rows_are(make, one, other):
    assert learn.check_pipeline(make()) == ()
    first, second = make().fit(one), make().fit(other)
    assert learn.check_pipeline(first) == learn.check_pipeline(second) == ()
    expected = dense(first.transform(one))[:2]
    for fitted, table in ((first, other), (second, one), (second, other), (second, other[:2])):
        np.testing.assert_allclose(dense(fitted.transform(table))[:2], expected, rtol=1e-6)
    last = model(random_state=0).fit(X, Y)
    assert same(learn.guarantee_of(Pipeline([("s", second), ("m", last)])), last.guarantee_)


def test_our_own_steps_are_known_and_others_have_a_case():
    """What is on the list by being ours has to be looked at: these three learn nothing."""
    for make in OURS:
        assert learn.check_pipeline(make()) == ()
    public = [getattr(room, name) for room in (pabi.learn, pabi.features) for name in room.__all__]
    steps = {kind for kind in public if isinstance(kind, type) and hasattr(kind, "fit")}
    silent = {kind for kind in steps if not issubclass(kind, PrivateStep)}
    assert silent == {learn.SchemaEncoder, RandomFeatures, Scattering}
    assert {public_name(make()) for make, *_ in ROW_BY_ROW} == set(_ROW_BY_ROW)


NESTED = {
    "pipeline": (lambda s: make_pipeline(Normalizer(), s, model()), "{}"),
    "named": (lambda s: Pipeline([("odd", s), ("m", model())]), "odd"),
    "pipelines": (lambda s: Pipeline([("in", Pipeline([("odd", s)])), ("m", model())]), "in.odd"),
    "columns": (lambda s: make_pipeline(columns((s, [0, 1])), model()), "columntransformer.c0"),
    "remainder": (lambda s: columns((Normalizer(), [0]), remainder=s), "remainder"),
    "columns in a union": (
        lambda s: FeatureUnion([("u", columns((make_pipeline(s), [0, 1]))), ("n", Normalizer())]),
        "u.c0.{}",
    ),
    "union": (lambda s: FeatureUnion([("a", Normalizer()), ("odd", s)]), "odd"),
    "private before": (lambda s: make_pipeline(whitener(), s, model()), "{}"),
    "threshold": (lambda s: FixedThresholdClassifier(make_pipeline(s, model())), "estimator.{}"),
    "private search": (lambda s: search_of(make_pipeline(s, model())), "estimator.{}"),
}


@every("place", NESTED)
@every("step", [StandardScaler(), PrivateName()])
@every("fitted", [False, True])
def test_the_path_names_the_step(place, step, fitted):
    build, path = NESTED[place]
    assert learn.check_pipeline(build(PolynomialFeatures())) == ()
    whole = build(clone(step))
    if fitted and place != "private search":
        whole.fit(X, Y)
    (finding,) = learn.check_pipeline(whole)
    assert finding.step == path.format(type(step).__name__.lower())
    assert finding.kind == type(step).__name__
    if fitted and isinstance(step, StandardScaler) and place != "private search":
        refused(finding.step, learn.guarantee_of, whole)


class OwnPipeline(Pipeline):
    """It may do more than a pipeline: it is named, and looked through."""


def test_findings_are_printed_in_lines():
    own = learn.check_pipeline(OwnPipeline([("odd", StandardScaler()), ("m", model())]))
    told = [("ownpipeline", "multiplies the cost"), ("odd", "leak")]
    assert [(one.step, one.severity) for one in own] == told
    one, two = learn.check_pipeline(whole := make_pipeline(StandardScaler(), PCA(2), model()))
    assert isinstance(one, learn.StepFinding)
    assert str(learn.check_pipeline(whole)) == f"{one}\n{two}"
    assert str(one) == "standardscaler (StandardScaler): learns from the data without privacy"
    fitted = learn.check_pipeline(StandardScaler().fit(X))
    assert str(fitted).endswith("without privacy (mean_, n_samples_seen_, scale_, var_)")
    assert "no step learns" in str(learn.check_pipeline(model()))
    for step, attribute in ((PrivateName(), "_m"), (Bare(), "mean")):
        with pytest.raises(InvalidInput, match=f"^{type(step).__name__.lower()}: .*{attribute}"):
            learn.guarantee_of(step.fit(X))
    for step in (LabelEncoder(), LabelBinarizer()):
        (finding,) = learn.check_pipeline(step)
        assert finding.severity == "label set"
        assert "public" in str(finding)


class Rude(Own):
    """It answers nothing that estimators answer."""

    def get_params(self, deep=True):
        raise RuntimeError("no settings")

    def fit(self, X, y=None):
        raise KeyError("never to be called")


def test_nothing_is_fitted_and_no_answer_is_needed_but_that_it_is_an_estimator():
    (finding,) = learn.check_pipeline(make_pipeline(Rude(), model()))
    assert (finding.step, finding.severity) == ("rude", "unknown")
    for wrong in (None, 3, "model", PCA, X, [model()]):
        refused("pipeline", learn.check_pipeline, wrong)


SEARCHES = {
    "grid": lambda m: GridSearchCV(m, GRID, cv=2),
    "random": lambda m: RandomizedSearchCV(m, GRID, n_iter=1, cv=2),
    "calibrated": lambda m: CalibratedClassifierCV(m, cv=2),
    "calibrated, frozen": lambda m: CalibratedClassifierCV(FrozenEstimator(m)),
    "threshold": lambda m: TunedThresholdClassifierCV(m, cv=2),
    "one against the rest": OneVsRestClassifier,
    "elimination": lambda m: RFECV(m, cv=2),
    "selection": SelectFromModel,
    "self-training": SelfTrainingClassifier,
    "bagging": lambda m: BaggingClassifier(m, n_estimators=2),
    "voting": lambda m: VotingClassifier([("a", m), ("b", clone(m))]),
    "stacking": lambda m: StackingClassifier([("a", m)], model(), cv=2),
}


@every("name", SEARCHES)
def test_what_is_not_known_to_fit_a_private_estimator_once_is_named(name):
    holder = SEARCHES[name](model().fit(X, Y))
    (finding, *others) = learn.check_pipeline(holder)
    assert finding.severity == "multiplies the cost"
    assert finding.kind == type(holder).__name__
    assert others == []
    told = "every fit costs" + ".*a FixedThresholdClassifier" * (name == "threshold")
    with pytest.raises(InvalidInput, match=told):
        learn.guarantee_of(make_pipeline(Normalizer(), holder), strict=False)


def regressor(**changes):
    return learn.PrivateLinearRegression(1.0, DELTA, target_range=(-2, 2), **{**QUICK, **changes})


def test_what_fits_once_costs_what_it_holds():
    wrapped = FixedThresholdClassifier(model(), threshold=0.3).fit(X, Y)
    assert same(learn.guarantee_of(wrapped), wrapped.estimator_.guarantee_)
    frozen = FrozenEstimator(model().fit(X, Y))
    assert same(learn.guarantee_of(make_pipeline(Normalizer(), frozen)), frozen.guarantee_)
    targets = TransformedTargetRegressor(regressor())
    assert learn.check_pipeline(targets) == ()
    assert same(learn.guarantee_of(targets.fit(X, X[:, 0])), targets.regressor_.guarantee_)
    targets.set_params(func=np.log1p, inverse_func=np.expm1).fit(X, np.abs(X[:, 0]))
    assert learn.check_pipeline(targets, strict=True) == ()
    assumed = " ".join(learn.guarantee_of(targets).assumptions)
    assert "before the step 'transformer'" in assumed


@every(
    "changes", [{"transformer": StandardScaler()}, {"func": batch_mean, "inverse_func": batch_mean}]
)
def test_targets_that_are_changed_by_what_is_not_known(changes):
    targets = TransformedTargetRegressor(regressor(), check_inverse=False, **changes)
    for one in (targets, clone(targets).fit(X, X[:, 0])):
        (finding,) = learn.check_pipeline(one)
        assert finding.step == "transformer"
    refused("transformer", learn.guarantee_of, one)


STATED = KEPT | {"fill_value": 0.0}


@every(
    ("step", "now"),
    [
        (SimpleImputer(strategy="mean"), STATED),
        (SplineTransformer(knots="quantile"), {"knots": np.tile([[0.0], [1.0], [2.0]], 4)}),
        (RBFSampler(gamma="scale"), {"gamma": 1.0}),
    ],
)
def test_settings_that_changed_say_nothing_of_what_was_learnt(step, now):
    one = clone(step).set_params(**now)
    assert learn.check_pipeline(one) == learn.check_pipeline(one.fit(X)) == ()
    assert len(learn.check_pipeline(clone(step).fit(X).set_params(**now))) == 1


# The others take no such table, or stand in no such pipeline.
@pytest.mark.parametrize("name", sorted(UNKNOWN.keys() - {"resampler", "words split by one's own"}))
def test_no_guarantee_of_a_pipeline_speaks_silently_of_what_is_not_known(name):
    whole = Pipeline([("odd", UNKNOWN[name]()), ("m", model(feature_norm=9.0))]).fit(X, Y)
    with pytest.raises(InvalidInput, match="^odd.*strict=False"):
        learn.guarantee_of(whole)
    with pytest.warns(PrivacyWarning, match="^the step 'odd") as caught:
        guarantee = learn.guarantee_of(whole, strict=False)
    assert len([one for one in caught if "the step" in str(one.message)]) == 1
    (sentence,) = (s for s in guarantee.assumptions if s.startswith("the step 'odd"))
    assert sentence in not_covered(guarantee.assumptions)


def test_a_guarantee_assumes_that_a_step_makes_one_row_of_one():
    """Who makes two rows of one learns nothing, and counts every record twice."""
    twice = FunctionTransformer(lambda rows: np.repeat(rows, 2, axis=0))
    scaler = learn.PrivateScaler(9.0, 1e-3, feature_ranges=(-1, 1))
    whole = Pipeline([("odd", twice), ("scaler", scaler)]).fit(X)
    with pytest.warns(PrivacyWarning, match="made of a row more than one"):
        guarantee = learn.guarantee_of(whole, strict=False)
    (sentence,) = not_covered(guarantee.assumptions)
    assert "treats every row by itself, and keeps their number" in sentence
    earlier = "the step 'odd' learnt nothing from the same data: that could not be found out"
    assert not_covered([earlier]) == (earlier,)


def test_a_private_search_says_what_it_does_not_know_of_its_steps():
    grid = {"privatelogisticregression__l2": [0.1]}
    search = search_of(make_pipeline(Own(), model()), grid)
    with pytest.warns(PrivacyWarning, match="'own'"):
        search.fit(X, Y, X_public=X, y_public=Y)
    assert UNCLEAR.format(step="own") in search.guarantee_.assumptions
    leaky = clone(search).set_params(estimator=make_pipeline(StandardScaler(), model()))
    refused("standardscaler", leaky.fit, X, Y, X_public=X, y_public=Y)


def warned(fit):
    """The PrivacyWarnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        fit()
    return [str(one.message) for one in caught if issubclass(one.category, PrivacyWarning)]


def again(one):
    return AGAIN in one.guarantee_.assumptions


@pytest.mark.parametrize(
    "make", [model, whitener, lambda **changes: learn.PrivateScaler(20.0, DELTA, **changes)]
)
def test_a_second_fit_of_an_estimator_or_a_clone_says_so(make):
    one = make()
    assert warned(lambda: one.fit(X, Y)) == []
    assert not again(one)
    other = clone(one)
    (message,) = warned(lambda: clone(other).fit(X, Y) and other.fit(X, Y))
    assert "was fitted before" in message
    assert again(other)
    assert AGAIN in not_covered(other.guarantee_.assumptions)
    assert "expected one fit" in refused("strict", one.set_params(strict=True).fit, X, Y)
    assert warned(lambda: make(strict=True).fit(X, Y)) == []
    refused("strict", make(strict="yes").fit, X, Y)
    # Another process counts for itself: every guarantee says that it is one fit anyway.
    moved = pickle.loads(pickle.dumps(make().fit(X, Y)))
    assert warned(lambda: moved.fit(X, Y)) == []
    assert ONE_FIT in moved.guarantee_.assumptions


def test_searches_are_counted_and_strict_estimators_refuse_them():
    assert again(GridSearchCV(model(), GRID, cv=2).fit(X, Y).best_estimator_)
    with pytest.raises(InvalidInput, match="^strict: expected one fit"):
        GridSearchCV(model(strict=True), GRID, cv=2, error_score="raise").fit(X, Y)
    (message,) = warned(lambda: cross_val_predict(model(), X, Y, cv=2))
    assert "PrivateLogisticRegression, or a clone of it" in message


def test_a_private_search_counts_once_and_tells_nothing_of_its_trials():
    search = search_of(estimator := model())
    assert warned(lambda: search.fit(X, Y, X_public=X, y_public=Y)) == []
    assert not again(search)
    assert not again(search.best_estimator_)
    assert warned(lambda: estimator.fit(X, Y)) == []
    (message,) = warned(lambda: search.fit(X, Y, X_public=X, y_public=Y))
    assert "PrivateSearchCV, or a clone of it" in message
    assert again(search)


def test_a_fit_that_is_refused_is_not_counted_and_a_ledger_needs_no_warning(tmp_path):
    one = model(l2=-1.0)
    for _ in range(2):
        refused("l2", one.fit, X, Y)
    assert warned(lambda: one.set_params(l2=0.1).fit(X, Y)) == []
    assert not again(one)
    one.set_params(ledger=pabi.Ledger(tmp_path / "book", epsilon=5.0, delta=DELTA))
    assert warned(lambda: one.fit(X, Y)) == []
    assert again(one)


def mixed(**changes):
    return make_pipeline(learn.PrivateScaler(20.0, DELTA), model(**changes))


def test_a_step_that_counts_records_before_a_model_of_users_is_found_before_any_fit():
    declared, asked = mixed(users=40), mixed()
    fitted = make_pipeline(learn.PrivateRanges(), model().fit(X, Y, groups=np.arange(120) % 40))
    for whole, groups, step in (
        (declared, None, "privatescaler"),
        (declared, True, "privatescaler"),
        (make_pipeline(whitener(), model(users=40)), None, "privatewhitener"),
        (fitted, None, "privateranges"),
    ):
        (finding,) = learn.check_pipeline(whole, groups=groups)
        assert (finding.step, finding.severity) == (step, "units")
    one, other = learn.check_pipeline(asked, groups=True)  # whoever names one forgets the other
    assert one.severity == other.severity == "units"
    assert "enable_metadata_routing=True" in str(one)
    assert learn.check_pipeline(asked) == learn.check_pipeline(asked, groups=False) == ()
    assert "counts records" in refused("privatescaler", learn.check_pipeline, declared, strict=True)
    both = make_pipeline(whitener(users=40), model(users=40))
    assert learn.check_pipeline(both) == learn.check_pipeline(both, groups=True) == ()
    refused("groups", learn.check_pipeline, asked, groups="yes")


def test_groups_that_reach_every_step_are_no_finding():
    side_by_side = make_pipeline(columns((learn.PrivateScaler(), [0]), ("drop", [1])), model())
    declared = make_pipeline(columns((learn.PrivateScaler(users=9), [0])), model(users=9))
    assert learn.check_pipeline(make_pipeline(Normalizer(), model()), groups=True) == ()
    for whole in (side_by_side, declared):
        found = learn.check_pipeline(whole, groups=True)
        assert found[0].step == "columntransformer.c0"
        assert len(found) == 1 + (whole is side_by_side)
        assert learn.check_pipeline(search_of(whole), groups=True) == ()  # it hands them on itself
        with config_context(enable_metadata_routing=True):
            assert learn.check_pipeline(whole, groups=True) == ()
            refusing = clone(whole)
            refusing[-1].set_fit_request(groups=False)
            (finding,) = learn.check_pipeline(refusing, groups=True)
            assert finding.step == "privatelogisticregression"


FRAME = pd.DataFrame({"patient_id": np.arange(120) % 9, "a": X[:, 0], "b": X[:, 1]})


ASKED = {"patient_id": (0, 9)}


@every(
    "first",
    [
        columns((Normalizer(), ["a", "b"]), ("drop", ["patient_id"])),
        columns((Normalizer(), ["a", "patient_id"])),
        columns(("passthrough", "patient_id")),
        learn.SchemaEncoder({"patient_id": {"kind": "numeric", "range": [0, 9]}}),
        learn.PrivateScaler(feature_ranges=ASKED),
        Normalizer().fit(FRAME),
    ],
)
def test_a_column_that_looks_like_an_id_is_a_question_and_no_refusal(first):
    whole = make_pipeline(first, model())
    (finding,) = learn.check_pipeline(whole, strict=True)
    assert (finding.severity, finding.learns) == ("question", ("patient_id",))
    assert "patient_id" in str(finding)
    assert learn.check_pipeline(whole, groups=False) == ()
    assert {f.severity for f in learn.check_pipeline(whole, groups=True)} <= {"units"}
    assert learn.check_pipeline(whole[:-1]) == () or isinstance(first, learn.PrivateScaler)


@every(
    ("holder", "leak"),
    [
        (ColumnTransformer([("a", Normalizer(), [0, 1])]), {"a": StandardScaler()}),
        (TransformedTargetRegressor(regressor()), {"transformer": StandardScaler()}),
        (FixedThresholdClassifier(model(), threshold=0.3), {"estimator": CalibratedClassifierCV()}),
    ],
)
def test_what_a_fitted_holder_states_anew_is_looked_at(holder, leak):
    """The next fit learns with it, whatever the last one left."""
    fitted = clone(holder).fit(X, Y)
    assert learn.check_pipeline(fitted) == ()
    with pytest.raises(InvalidInput, match="^(a|transformer|estimator|fixed)"):
        learn.check_pipeline(fitted.set_params(**leak), strict=True)


class Centring:
    """Looks like a memory of joblib's, and computes with all rows."""

    def cache(self, function, **settings):
        def cached(*given, **named):
            out, fitted = function(*given, **named)
            return out - np.asarray(out).mean(0), fitted

        return cached


def test_a_memory_of_ones_own_computes_in_place_of_the_steps(tmp_path):
    def remembering(memory):
        return Pipeline([("n", Normalizer()), ("m", model())], memory=memory)

    for memory in (None, str(tmp_path), Memory(tmp_path, verbose=0)):
        assert learn.check_pipeline(remembering(memory)) == ()
    with pytest.raises(InvalidInput, match="is not known to treat every row by itself .memory."):
        learn.check_pipeline(remembering(Centring()), strict=True)
