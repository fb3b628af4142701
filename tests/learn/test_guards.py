"""Steps that learn from the data are found, by what they do; steps that do not are left alone."""

from __future__ import annotations

import threading
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import RFECV, SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    LabelBinarizer,
    LabelEncoder,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

import pabi
from pabi.describe.batches import FullBatch
from pabi.features import RandomFeatures, Scattering
from pabi.learn import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateWhitener,
    SchemaEncoder,
    StepFinding,
    check_pipeline,
    guarantee_of,
)
from pabi.numbers import warning as warning_module
from pabi.numbers.errors import InvalidInput, PrivacyWarning

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
    return PrivateLogisticRegression(1.0, DELTA, **{**QUICK, **changes})


def whitener(**changes):
    return PrivateWhitener(9.0, DELTA, **{"fit_intercept": False, **changes})


# Steps of a user's own.


class Renamed(StandardScaler):
    """Nothing in its name says what it does."""


class Own(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


class PrivateName(Own):
    def fit(self, X, y=None):
        self._m = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self._m


class InClosure(Own):
    def fit(self, X, y=None):
        mean = np.mean(X, axis=0)
        self.map = lambda rows: rows - mean
        return self

    def transform(self, X):
        return self.map(X)


class InSettings(Own):
    """Writes the mean into its own setting, once."""

    def __init__(self, centre=None):
        self.centre = centre

    def fit(self, X, y=None):
        if self.centre is None:
            self.centre = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self.centre


class InClass(Own):
    mean = 0.0

    def fit(self, X, y=None):
        type(self).mean = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self.mean


class WhileFitting(Own):
    """Centres what it is fitted to, and nothing else."""

    def fit_transform(self, X, y=None):
        return X - np.mean(X, axis=0)


class ByBatch(Own):
    def transform(self, X):
        return X / (1.0 + np.abs(X).max())


class OfLargeNumbers(Own):
    """Takes logarithms where the mean is large."""

    def fit(self, X, y=None):
        self.log_ = bool(np.abs(X).mean() > 1e3)
        return self


class Columns(Own):
    """Remembers the names of columns."""

    def fit(self, X, y=None):
        self.names = list(X.columns)
        return self

    def transform(self, X):
        return X[self.names]


class FromLabels(Own):
    def fit(self, X, y):
        self.rate_ = np.mean(y)
        return self


class Row(Own):
    """Learns the first row alone."""

    def fit(self, X, y=None):
        self.row_ = np.array(X[0])
        return self


class Shape(Own):
    """Remembers how many columns there are, under a name of its own."""

    def fit(self, X, y=None):
        self.width = np.shape(X)[1]
        self.weights = np.ones(self.width)
        return self

    def transform(self, X):
        return X * self.weights


class Drawn(Own):
    """A random map from numpy's own generator."""

    def fit(self, X, y=None):
        self.map_ = np.random.standard_normal((np.shape(X)[1], 3))  # noqa: NPY002
        return self

    def transform(self, X):
        return X @ self.map_


class Over(Own):
    """Makes rows of other rows."""

    def fit_resample(self, X, y):
        return X, y


def batch_mean(X):
    return X - np.mean(X, axis=0)


def columns(*parts, **changes):
    return ColumnTransformer([(f"c{k}", *part) for k, part in enumerate(parts)], **changes)


LEAKY = {
    "standard": (StandardScaler, "mean_"),
    "renamed": (Renamed, "mean_"),
    "bins": (lambda: KBinsDiscretizer(3), "bin_edges_"),
    "mean imputer": (SimpleImputer, "statistics_"),
    "neighbours imputer": (KNNImputer, "_fit_X"),
    "indicator": (MissingIndicator, "features_"),
    "constant imputer with indicator": (
        lambda: SimpleImputer(strategy="constant", add_indicator=True),
        "indicator_",
    ),
    "best": (lambda: SelectKBest(k=2), "scores_"),
    "variance": (VarianceThreshold, "variances_"),
    "svd": (lambda: TruncatedSVD(2), "components_"),
    "wide svd": (lambda: TruncatedSVD(100), "components_"),
    "target encoder": (TargetEncoder, "encodings_"),
    "scaled sampler": (lambda: RBFSampler(gamma="scale"), "_gamma"),
    "nystroem": (lambda: Nystroem(n_components=4), "components_"),
    "levels": (OneHotEncoder, "categories_"),
    "ordinal": (OrdinalEncoder, "categories_"),
    "words": (CountVectorizer, "vocabulary_"),
    "inverse frequencies": (lambda: TfidfVectorizer(vocabulary=["good", "bad"]), "_tfidf"),
    "frequencies of counts": (TfidfTransformer, "idf_"),
    "keys": (DictVectorizer, "vocabulary_"),
    "least squares of both": (PLSRegression, "x_weights_"),
    "knots": (SplineTransformer, "bsplines_"),
    "from model": (lambda: SelectFromModel(LogisticRegression()), "estimator_"),
    "a model": (LogisticRegression, "coef_"),
    "private name": (PrivateName, "_m"),
    "closure": (InClosure, "map"),
    "settings": (InSettings, "centre"),
    "class": (InClass, "something that no attribute shows"),
    "while fitting": (WhileFitting, "something that no attribute shows"),
    "batch": (ByBatch, "something that no attribute shows"),
    "function of the batch": (lambda: FunctionTransformer(batch_mean), "no attribute"),
    "labels": (FromLabels, "rate_"),
    "size of numbers": (OfLargeNumbers, "log_"),
    "one row": (Row, "row_"),
    "resampler": (Over, "rows made of other rows"),
}

DECLARED = [["x", "y"], ["u", "v", "w"]]
HONEST = {
    "normalizer": Normalizer,
    "function": lambda: FunctionTransformer(np.tanh),
    "own function": lambda: FunctionTransformer(lambda rows: rows[:, :2] ** 2),
    "identity": FunctionTransformer,
    "polynomial": lambda: PolynomialFeatures(2),
    "threshold": lambda: Binarizer(threshold=0.3),
    "hashed words": HashingVectorizer,
    "hashed keys": FeatureHasher,
    "declared levels": lambda: OneHotEncoder(categories=DECLARED),
    "declared levels or none": lambda: OneHotEncoder(categories=DECLARED, handle_unknown="ignore"),
    "declared numbers": lambda: OrdinalEncoder(categories=[[1, 2, 3], [4, 5]]),
    "schema": lambda: SchemaEncoder({"a": {"kind": "numeric", "range": [0, 1]}}),
    "vocabulary": lambda: CountVectorizer(vocabulary=["good", "bad"]),
    "vocabulary with stop words": lambda: CountVectorizer(
        vocabulary=["good", "bad"], stop_words=["so"]
    ),
    "weighted words": lambda: TfidfVectorizer(vocabulary=["good", "bad"], use_idf=False),
    "constant": lambda: SimpleImputer(strategy="constant"),
    "stated constant": lambda: SimpleImputer(strategy="constant", fill_value=3.0),
    "sampler": lambda: RBFSampler(gamma=1.0, n_components=5),
    "projection": lambda: GaussianRandomProjection(3),
    "automatic projection": GaussianRandomProjection,
    "sparse projection": lambda: SparseRandomProjection(3),
    "sketch": PolynomialCountSketch,
    "chi": AdditiveChi2Sampler,
    "stated knots": lambda: SplineTransformer(knots=np.array([[0.0, 0], [0.5, 0.5], [1, 1]])),
    "random features": lambda: RandomFeatures((0, 1), 20),
    "scattering": lambda: Scattering((8, 8)),
    "whitener": whitener,
    "shape": Shape,
    "names": Columns,
    "drawn": Drawn,
}


@pytest.mark.parametrize("name", LEAKY)
def test_a_step_that_learns_is_found(name):
    make, learns = LEAKY[name]
    (finding,) = check_pipeline(make())
    assert finding.severity == "leak"
    assert learns in ", ".join(finding.learns)
    assert finding.kind == type(make()).__name__


@pytest.mark.parametrize("name", HONEST)
def test_a_step_that_learns_nothing_raises_no_alarm(name):
    assert check_pipeline(HONEST[name]()) == ()


@pytest.mark.parametrize("name", HONEST)
def test_whether_it_is_fitted_does_not_matter_to_a_step_that_learns_nothing(name):
    tables = [X, X * 9 // 1, pd.DataFrame({"a": X[:, 0]}), [{"a": 1.0}] * 9, ["good so"] * 9]
    tables += [np.array([["x", "u"], ["y", "w"]] * 9, object), np.array([[1, 4], [2, 5]] * 9)]
    tables += [np.tile(X, (1, 16))]
    tables += [np.tile(X, (1, 1100))] * (name == "automatic projection")
    fits = 0
    for table in tables:
        try:
            fitted = HONEST[name]().fit(table)
        except (ValueError, AttributeError, TypeError, IndexError):  # not a table for this step
            continue
        fits += 1
        assert check_pipeline(fitted) == (), fitted
    assert fits > 0


@pytest.mark.parametrize(
    "step", [StandardScaler(), InSettings(), InClosure(), PCA(2), TargetEncoder()]
)
def test_whether_it_is_fitted_does_not_matter_to_a_step_that_learns(step):
    (finding,) = check_pipeline(clone(step).fit(X, Y))
    assert finding.severity == "leak"


# Paths.

NESTED = {
    "pipeline": (lambda s: make_pipeline(Normalizer(), s, model()), "{}"),
    "named": (lambda s: Pipeline([("odd", s), ("m", model())]), "odd"),
    "pipelines": (lambda s: Pipeline([("in", Pipeline([("odd", s)])), ("m", model())]), "in.odd"),
    "columns": (lambda s: make_pipeline(columns((s, [0, 1])), model()), "columntransformer.c0"),
    "remainder": (
        lambda s: columns((Normalizer(), [0]), remainder=s),
        "remainder",
    ),
    "columns in a union": (
        lambda s: FeatureUnion([("u", columns((make_pipeline(s), [0, 1]))), ("n", Normalizer())]),
        "u.c0.{}",
    ),
    "union": (lambda s: FeatureUnion([("a", Normalizer()), ("odd", s)]), "odd"),
    "private before": (lambda s: make_pipeline(whitener(), s, model()), "{}"),
}


@pytest.mark.parametrize("place", NESTED)
@pytest.mark.parametrize("step", [StandardScaler(), Renamed(), InClosure(), PCA(2)])
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_the_path_names_the_step(place, step, fitted):
    build, path = NESTED[place]
    whole = build(clone(step))
    if fitted:
        whole.fit(X, Y)
    (finding,) = check_pipeline(whole)
    assert finding.step == path.format(type(step).__name__.lower())
    assert finding.severity == "leak"


@pytest.mark.parametrize("place", NESTED)
def test_nests_of_steps_that_learn_nothing_raise_no_alarm(place):
    assert check_pipeline(NESTED[place][0](PolynomialFeatures())) == ()


def test_columns_by_name_are_tried_with_their_names_and_levels():
    encoder = OneHotEncoder(categories=[["red", "blue"]])
    whole = columns((encoder, ["colour"]), (Normalizer(), ["x", "y"]))
    assert check_pipeline(make_pipeline(whole, model())) == ()
    (finding,) = check_pipeline(make_pipeline(columns((OneHotEncoder(), ["colour"])), model()))
    assert finding.learns == ("categories_",)
    frame = pd.DataFrame({"colour": ["red", "blue"] * 60, "x": X[:, 0], "y": X[:, 1]})
    assert check_pipeline(whole.fit(frame)) == ()


# What is said.


def test_findings_are_printed_in_lines():
    whole = make_pipeline(StandardScaler(), PCA(2), model())
    one, two = check_pipeline(whole)
    assert isinstance(one, StepFinding)
    assert str(check_pipeline(whole)) == f"{one}\n{two}"
    assert str(one) == (
        "standardscaler (StandardScaler): learns mean_, scale_, var_ from the data without privacy"
    )
    assert "no step learns" in str(check_pipeline(model()))


def test_labels_are_another_matter():
    for step in (LabelEncoder(), LabelBinarizer()):
        (finding,) = check_pipeline(step)
        assert finding.severity == "label set"
        assert finding.learns == ("classes_",)
        assert "public" in str(finding)


class Fails(Own):
    def fit(self, X, y=None):
        raise KeyError("a column of its own")


def test_what_cannot_be_tried_is_unknown():
    (finding,) = check_pipeline(make_pipeline(Fails(), model()))
    assert finding.severity == "unknown"
    assert "could not be tried in full" in str(finding)


@pytest.mark.parametrize(
    "step", [FrozenEstimator(PCA(2).fit(X)), FunctionTransformer(PCA(2).fit(X).transform)]
)
def test_what_was_fitted_before_is_unknown(step):
    (finding,) = check_pipeline(step)
    assert finding.severity == "unknown"


class OfManyRows(Own):
    def fit(self, X, y=None):
        if len(X) > 100_000:
            self.mean_ = np.mean(X)
        return self


def test_what_copies_do_not_hold_is_unknown():
    """It would have been learnt from more rows than a trial has."""
    assert check_pipeline(OfManyRows().fit(X)) == ()
    (finding,) = check_pipeline(OfManyRows().fit(np.ones(100_001)))
    assert (finding.severity, finding.learns) == ("unknown", ("mean_",))


def test_strict_refuses_the_first_step_by_name():
    with pytest.raises(InvalidInput, match="learns mean_") as caught:
        check_pipeline(make_pipeline(Normalizer(), StandardScaler(), model()), strict=True)
    assert caught.value.field.startswith("standardscaler")
    assert check_pipeline(make_pipeline(Normalizer(), model()), strict=True) == ()


@pytest.mark.parametrize("wrong", [None, 3, "model", PCA, X, [model()]])
def test_what_is_no_estimator_is_refused(wrong):
    with pytest.raises(InvalidInput, match="^pipeline: expected"):
        check_pipeline(wrong)


def test_a_trial_leaves_the_step_numpy_and_the_filters_of_warnings_alone():
    step = make_pipeline(StandardScaler(), Drawn()).fit(X)
    before, state = step[0].mean_.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    filters = list(warnings.filters)
    check_pipeline(step)
    assert np.array_equal(step[0].mean_, before)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert warnings.filters == filters


class Seen(Own):
    """Remembers every table that anybody of its class was fitted to."""

    tables: ClassVar[list] = []

    def fit(self, X, y=None):
        self.tables.append(X)
        return self


def test_no_record_is_looked_at(monkeypatch):
    monkeypatch.setattr(Seen, "tables", [])
    fitted = make_pipeline(Seen(), model()).fit(X, Y)
    check_pipeline(fitted)
    own, *others = Seen.tables
    assert own is X
    assert others
    rows = {row.tobytes() for row in X}
    dense = [t.toarray() if sparse.issparse(t) else np.asarray(t) for t in others]
    assert not any(row.tobytes() in rows for t in dense if t.ndim == 2 for row in t)


# While something is fitted.


def warned(fit):
    """The PrivacyWarnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        fit()
    return [str(one.message) for one in caught if issubclass(one.category, PrivacyWarning)]


def about(guarantee):
    """What it assumes of what stands around the estimator."""
    return [s for s in guarantee.assumptions if s.startswith(("the step '", "this is one fit of"))]


@pytest.mark.parametrize(
    ("step", "learns"),
    [
        (StandardScaler(), "mean_"),
        (Renamed(), "mean_"),
        (PrivateName(), "_m"),
        (InClosure(), "map"),
        (InSettings(), "centre"),
        (ByBatch(), "no attribute"),
        (SelectKBest(k=2), "scores_"),
        (make_pipeline(Normalizer(), MinMaxScaler()), "data_max_"),
        (columns((StandardScaler(), [0, 1]), (Normalizer(), [2])), "mean_"),
        (FeatureUnion([("a", columns((PCA(1), [0, 1]))), ("b", Normalizer())]), "components_"),
        (columns((StandardScaler(), [0, 1]), (Normalizer(), [2]), n_jobs=2), "mean_"),
        (FeatureUnion([("a", StandardScaler()), ("b", Normalizer())], n_jobs=2), "mean_"),
    ],
)
@pytest.mark.parametrize("last", [model, whitener])
def test_a_fit_behind_a_step_that_learns_warns_once_and_says_so(step, learns, last):
    whole = Pipeline([("odd", clone(step)), ("last", last())])
    (message,) = warned(lambda: whole.fit(X, Y).fit(X, Y))
    assert message.startswith("the step 'odd")
    assert learns in message
    for better in ("feature_ranges", "SchemaEncoder", "PrivateWhitener"):
        assert better in message
    (sentence,) = about(whole[-1].guarantee_)
    assert sentence.startswith("the step 'odd")
    assert "without privacy" in sentence
    assert learns in sentence
    assert pabi.verify(whole[-1].guarantee_).ok


@pytest.mark.parametrize("memory", [False, True])
def test_a_private_transformer_in_the_middle_is_warned_of_what_comes_before_alone(memory, tmp_path):
    where = str(tmp_path) if memory else None
    leaky = Pipeline([("odd", StandardScaler()), ("w", whitener()), ("m", model())], memory=where)
    assert len(warned(lambda: leaky.fit(X, Y))) == 1
    assert about(leaky["w"].guarantee_) == about(leaky["m"].guarantee_) != []
    after = Pipeline([("w", whitener()), ("odd", StandardScaler()), ("m", model())], memory=where)
    for _ in range(2):  # the second time the scaler has been fitted before
        after.fit(X, Y)
        assert about(after["w"].guarantee_) == []
        assert len(about(after["m"].guarantee_)) == 1


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [Normalizer()],
        [FunctionTransformer(np.tanh), PolynomialFeatures(2)],
        [make_pipeline(Normalizer(), whitener())],
        [columns((Normalizer(), [0, 1]), (SimpleImputer(strategy="constant"), [2, 3]))],
        [FeatureUnion([("a", Normalizer()), ("b", RBFSampler(gamma=1.0, n_components=3))])],
        [GaussianRandomProjection(3), Binarizer(threshold=0.1)],
        [columns((Normalizer(), [0, 1]), remainder="passthrough", n_jobs=2)],
        [RandomFeatures((0, 1), 8)],
        ["passthrough"],
        [Shape(), Drawn()],
    ],
)
def test_a_fit_behind_honest_steps_is_silent(steps):
    names = [(f"s{k}", s if isinstance(s, str) else clone(s)) for k, s in enumerate(steps)]
    whole = Pipeline([*names, ("m", model(strict=True))])
    assert warned(lambda: whole.fit(X, Y)) == []
    assert about(whole[-1].guarantee_) == []


def test_levels_of_text_that_are_declared_are_silent():
    words = np.array([["x", "u"], ["y", "w"]] * 60, object)
    whole = make_pipeline(OneHotEncoder(categories=DECLARED), model(strict=True))
    assert warned(lambda: whole.fit(words, Y)) == []
    (message,) = warned(lambda: make_pipeline(OneHotEncoder(), model()).fit(words, Y))
    assert "categories_" in message


@pytest.mark.parametrize("last", [model, whitener])
def test_strict_estimators_refuse(last):
    with pytest.raises(InvalidInput, match="^standardscaler.*learns mean_"):
        make_pipeline(StandardScaler(), last(strict=True)).fit(X, Y)
    assert not hasattr(clone(last(strict=True)), "guarantee_")
    with pytest.raises(InvalidInput, match="^strict: "):
        last(strict="yes").fit(X, Y)


SEARCHES = {
    "grid": (lambda m: GridSearchCV(m, GRID, cv=2), "GridSearchCV"),
    "random": (lambda m: RandomizedSearchCV(m, GRID, n_iter=1, cv=2), "RandomizedSearchCV"),
    "halving": (lambda m: HalvingGridSearchCV(m, GRID, cv=2), "HalvingGridSearchCV"),
    "calibrated": (lambda m: CalibratedClassifierCV(m, cv=2), "CalibratedClassifierCV"),
    "one against the rest": (OneVsRestClassifier, "OneVsRestClassifier"),
    # It weighs records by how often it drew them.
    "bagging": (
        lambda m: BaggingClassifier(m.set_params(max_sample_weight=50.0), n_estimators=2),
        "BaggingClassifier",
    ),
    "elimination": (lambda m: RFECV(m, cv=2), "RFECV"),
    "voting": (lambda m: VotingClassifier([("a", m), ("b", clone(m))]), "VotingClassifier"),
    "stacking": (lambda m: StackingClassifier([("a", m)], model(), cv=2), "StackingClassifier"),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_and_ensembles_multiply_the_cost(name):
    make, kind = SEARCHES[name]
    (finding, *_) = check_pipeline(make(model()))
    assert finding.severity == "multiplies the cost"
    assert finding.kind == kind
    messages = warned(lambda: make(model()).fit(X, Y))
    assert sum(f"within {kind}," in message for message in messages) == 1


@pytest.mark.parametrize("name", SEARCHES)
def test_strict_estimators_refuse_searches(name):
    with pytest.raises(ValueError, match="fits a private estimator more than once"):
        SEARCHES[name][0](model(strict=True)).fit(X, Y)


@pytest.mark.parametrize("search", [cross_val_score, cross_val_predict, learning_curve])
def test_functions_that_fit_many_times_are_seen(search):
    (message,) = warned(lambda: search(model(), X, Y, cv=2))
    assert f"within {search.__name__}," in message


def test_a_search_over_a_pipeline_says_both():
    pipeline = Pipeline([("odd", StandardScaler()), ("m", model())])
    search = GridSearchCV(pipeline, {"m__l2": [0.1, 0.2]}, cv=2)
    assert {(f.step, f.severity) for f in check_pipeline(search)} == {
        ("gridsearchcv", "multiplies the cost"),
        ("estimator.odd", "leak"),
    }
    assert len(warned(lambda: search.fit(X, Y))) == 2
    assert len(about(search.best_estimator_[-1].guarantee_)) == 2


def test_searches_within_worker_processes():
    """The pipeline that is fitted in the worker is on the worker's stack."""
    for before, count in [(StandardScaler(), 2), (Normalizer(), 1), (InClosure(), 2)]:
        whole = make_pipeline(before, model())
        fits = cross_validate(whole, X, Y, cv=2, n_jobs=2, return_estimator=True)["estimator"]
        assert [len(about(one[-1].guarantee_)) for one in fits] == [count, count]
    strict = make_pipeline(StandardScaler(), model(strict=True))
    with pytest.raises(InvalidInput, match="^standardscaler"):
        cross_val_score(strict, X, Y, cv=2, n_jobs=2, error_score="raise")


def test_what_comes_before_a_search_in_worker_processes():
    """Workers do not see it and say so; the last fit is in this process, and sees it."""
    fits = []
    for n_jobs in (1, 2):
        search = GridSearchCV(model(), GRID, cv=2, n_jobs=n_jobs)
        fits.append(make_pipeline(StandardScaler(), search).fit(X, Y)[-1].best_estimator_)
    assert about(fits[0].guarantee_) == about(fits[1].guarantee_)
    assert len(about(fits[0].guarantee_)) == 2
    worker = cross_validate(model(), X, Y, cv=2, n_jobs=2, return_estimator=True)["estimator"][0]
    assert any("worker" in sentence for sentence in worker.guarantee_.assumptions)
    assert not any("worker" in sentence for sentence in fits[1].guarantee_.assumptions)


@pytest.mark.parametrize("wrap", [FixedThresholdClassifier, SelectFromModel])
def test_what_fits_once_raises_no_alarm(wrap):
    assert check_pipeline(wrap(model())) == ()
    assert warned(lambda: wrap(model(strict=True)).fit(X, Y)) == []


class Wrapper(BaseEstimator):
    """Of a user's own; it fits as often as it is told."""

    def __init__(self, inner, times=1):
        self.inner = inner
        self.times = times

    def fit(self, X, y):
        self.fits_ = [clone(self.inner).fit(X, y) for _ in range(self.times)]
        return self


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_users_own_wrapper_counts_by_how_often_it_fits(times):
    assert len(check_pipeline(Wrapper(model(), times))) == (times > 1)
    assert len(warned(lambda: Wrapper(model(), times).fit(X, Y))) == (times > 1)


def regressor(**changes):
    return PrivateLinearRegression(1.0, DELTA, target_range=(-2, 2), **{**QUICK, **changes})


def test_targets_that_are_scaled_by_the_data():
    leaky = TransformedTargetRegressor(regressor(), transformer=StandardScaler())
    (finding,) = check_pipeline(leaky)
    assert finding.step == "transformer"
    (message,) = warned(lambda: leaky.fit(X, X[:, 0]))
    assert "'transformedtargetregressor.transformer_' learns mean_" in message
    honest = TransformedTargetRegressor(
        regressor(strict=True), func=np.log1p, inverse_func=np.expm1, check_inverse=False
    )
    assert check_pipeline(honest) == ()
    assert warned(lambda: honest.fit(X, X[:, 0])) == []


def test_models_that_feed_a_private_one_are_seen():
    stacked = StackingClassifier([("a", LogisticRegression())], model(feature_norm=1.0), cv=2)
    assert "a" in [f.step for f in check_pipeline(stacked) if f.severity == "leak"]
    assert any("'stackingclassifier.estimators_'" in m for m in warned(lambda: stacked.fit(X, Y)))


def test_a_fit_by_itself_is_silent_wherever_it_runs():
    assert warned(lambda: model(strict=True).fit(X, Y)) == []
    fits = []
    thread = threading.Thread(target=lambda: fits.append(model(strict=True).fit(X, Y)))
    thread.start()
    thread.join()
    assert about(fits[0].guarantee_) == []


def test_a_private_model_within_a_transformer_is_not_trained_by_a_trial():
    """A trial fits a step of a user's own, and what that fits within is not looked around."""

    class Inside(Own):
        def fit(self, X, y=None):
            self.inner_ = PrivateWhitener(noise_std=1.0).fit(X)
            return self

    findings = check_pipeline(make_pipeline(Inside(), model()))
    assert [f.step for f in findings] == ["inside"]


# Guarantees of pipelines.


@pytest.mark.parametrize(
    "step", [FunctionTransformer(batch_mean), ByBatch(), WhileFitting(), InClass(), InSettings()]
)
def test_no_guarantee_of_a_pipeline_with_a_step_that_shows_nothing_of_what_it_learns(step):
    whole = Pipeline([("odd", clone(step)), ("m", model())]).fit(X, Y)
    with pytest.raises(InvalidInput, match="^odd: .*learns"):
        guarantee_of(whole)


def test_what_follows_from_settings_is_no_reason_to_refuse():
    words = np.array([["x", "u"], ["y", "w"]] * 60, object)
    whole = make_pipeline(OneHotEncoder(categories=DECLARED), model()).fit(words, Y)
    assert guarantee_of(whole) is whole[-1].guarantee_
    filled = make_pipeline(SimpleImputer(strategy="constant"), model()).fit(X, Y)
    assert guarantee_of(filled) is filled[-1].guarantee_


# Chains.

ROWWISE = [
    Normalizer(),
    FunctionTransformer(np.tanh),
    FunctionTransformer(),
    PolynomialFeatures(1),
    Binarizer(threshold=0.25),
    Shape(),
    GaussianRandomProjection(4),
    SimpleImputer(strategy="constant"),
    RBFSampler(gamma=0.5, n_components=4),
    "passthrough",
]
LEARNING = [
    StandardScaler(),
    Renamed(),
    PrivateName(),
    InClosure(),
    PCA(2),
    ByBatch(),
    FromLabels(),
]


def nested(steps, depths):
    """A chain, each step within so many pipelines."""
    chain = []
    for step, depth in zip(steps, depths, strict=False):
        step = step if isinstance(step, str) else clone(step)
        for _ in range(depth):
            step = Pipeline([("in", step)])
        chain.append(step)
    return chain


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.sampled_from(ROWWISE), max_size=4),
    depths=st.lists(st.integers(0, 2), min_size=5, max_size=5),
    at=st.integers(0, 4),
    leak=st.sampled_from(LEARNING),
)
@pytest.mark.filterwarnings("ignore")
def test_one_step_that_learns_is_found_anywhere_in_a_chain(steps, depths, at, leak):
    honest = make_pipeline(*nested(steps, depths), model(strict=True))
    assert check_pipeline(honest) == ()
    assert about(honest.fit(X, Y)[-1].guarantee_) == []
    at = min(at, len(steps))
    leaky = make_pipeline(*nested([*steps[:at], leak, *steps[at:]], depths), model())
    (finding,) = check_pipeline(leaky)
    assert finding.kind == type(leak).__name__
    assert len(about(leaky.fit(X, Y)[-1].guarantee_)) == 1
