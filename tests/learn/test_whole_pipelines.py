"""Twelve pipelines that leak and twenty that do not, as people write them: alone, and in processes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import cross_validate
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection

from pabi.describe.batches import FullBatch
from pabi.learn import (
    PrivateCategories,
    PrivateImputer,
    PrivateLogisticRegression,
    PrivateRanges,
    PrivateScaler,
    PrivateWhitener,
    SchemaEncoder,
    check_pipeline,
)
from pabi.numbers import warning as warning_module
from pabi.numbers.errors import InvalidInput

DELTA = 1e-4
rng = np.random.default_rng(0)
N = 120
TABLE = pd.DataFrame(
    {
        "age": rng.integers(18, 90, N).astype(float),
        "income": rng.lognormal(10.0, 1.0, N),
        "town": rng.choice(["Aba", "Bly", "Cox"], N),
    }
)
NUMBERS = rng.uniform(0.0, 0.4, (N, 4))
TEXT = np.array(["good film", "bad film", "so so"] * (N // 3), dtype=object)
Y = np.arange(N) % 2
TOWNS = [["Aba", "Bly", "Cox"]]


def model():
    settings = {"batches": FullBatch(), "epochs": 2, "step_size": 0.5, "l2": 0.01}
    return PrivateLogisticRegression(1.0, DELTA, classes=[0, 1], precondition=None, **settings)


class Centred(TransformerMixin, BaseEstimator):
    """A user's own step, which hides what it learns in a closure."""

    def fit(self, X, y=None):
        mean = np.asarray(X, dtype=float).mean(axis=0)
        self.shift = lambda rows: np.asarray(rows, dtype=float) - mean
        return self

    def transform(self, X):
        return self.shift(X)


class Harmless(StandardScaler):
    """A scaler by another name."""


class Years(TransformerMixin, BaseEstimator):
    """A user's own step, which works row by row."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X, dtype=float) / 100.0


def standardised(X):
    """A function that looks at its whole batch."""
    X = np.asarray(X, dtype=float)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def dated(X):
    return np.asarray(X, dtype=float) / [100.0, 1e5]


def columns(numbers, levels):
    return ColumnTransformer([("n", numbers, ["age", "income"]), ("l", levels, ["town"])])


LEVELS = OneHotEncoder(categories=TOWNS)
LEAKY = {
    "scaler": (make_pipeline(StandardScaler()), NUMBERS),
    "scaler by another name": (make_pipeline(Harmless()), NUMBERS),
    "own step": (make_pipeline(Normalizer(), Centred()), NUMBERS),
    "function of the batch": (make_pipeline(FunctionTransformer(standardised)), NUMBERS),
    "columns with a scaler": (columns(StandardScaler(), LEVELS), TABLE),
    "columns with levels": (columns(FunctionTransformer(dated), OneHotEncoder()), TABLE),
    "imputer within a branch": (
        columns(make_pipeline(SimpleImputer(), FunctionTransformer(dated)), LEVELS),
        TABLE,
    ),
    "union of components": (
        FeatureUnion([("p", PCA(2)), ("n", Normalizer())]),
        NUMBERS,
    ),
    "three deep": (
        make_pipeline(make_pipeline(make_union(Pipeline([("in", MinMaxScaler())])))),
        NUMBERS,
    ),
    "best columns": (make_pipeline(Normalizer(), SelectKBest(k=2)), NUMBERS),
    "words and their frequencies": (make_pipeline(TfidfVectorizer()), TEXT),
    "targets": (columns(QuantileTransformer(n_quantiles=9), TargetEncoder()), TABLE),
}
HONEST = {
    "nothing": ("passthrough", NUMBERS),
    "rows": (make_pipeline(Normalizer()), NUMBERS),
    "function": (make_pipeline(FunctionTransformer(np.tanh)), NUMBERS),
    "own step": (make_pipeline(Years()), NUMBERS),
    "polynomial": (make_pipeline(Normalizer(), PolynomialFeatures(2)), NUMBERS),
    "thresholds": (make_pipeline(Binarizer(threshold=0.2)), NUMBERS),
    "random features": (make_pipeline(RBFSampler(gamma=1.0, n_components=5)), NUMBERS),
    "projection": (make_pipeline(GaussianRandomProjection(3)), NUMBERS),
    "hashed words": (make_pipeline(HashingVectorizer(n_features=16)), TEXT),
    "declared words": (
        make_pipeline(TfidfVectorizer(vocabulary=["good", "bad"], use_idf=False)),
        TEXT,
    ),
    "declared levels": (columns(FunctionTransformer(dated), LEVELS), TABLE),
    "declared order": (columns(Years(), OrdinalEncoder(categories=TOWNS)), TABLE),
    "constant": (make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0)), NUMBERS),
    "union of rows": (make_union(Normalizer(), FunctionTransformer(np.square)), NUMBERS),
    "columns left over": (
        make_column_transformer((Normalizer(), [0, 1]), remainder="passthrough"),
        NUMBERS,
    ),
    "three deep": (make_pipeline(make_pipeline(make_union(Pipeline([("in", Years())])))), NUMBERS),
    "schema": (
        SchemaEncoder(
            {
                "age": {"kind": "numeric", "range": [18, 90]},
                "income": {"kind": "numeric", "range": [0, 1e6]},
                "town": {"kind": "categorical", "levels": TOWNS[0]},
            }
        ),
        TABLE,
    ),
    "private columns": (
        columns(
            make_pipeline(PrivateImputer(20.0, DELTA), PrivateScaler(20.0, DELTA)),
            PrivateCategories(20.0, DELTA),
        ),
        TABLE,
    ),
    "private ranges": (make_pipeline(PrivateRanges(20.0, DELTA)), NUMBERS),
    "private whitening": (make_pipeline(Normalizer(), PrivateWhitener(9.0, DELTA)), NUMBERS),
}


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    """Every test is a process of its own as to what was warned of."""
    monkeypatch.setattr(warning_module, "_SHOWN", set())


def before(name, table):
    steps, X = table[name]
    steps = steps if isinstance(steps, str) else clone(steps)
    return Pipeline([("before", steps), ("model", model())]), X


def about_steps(guarantee):
    return [s for s in guarantee.assumptions if s.startswith("the step '")]


def test_there_are_twelve_and_twenty():
    assert (len(LEAKY), len(HONEST)) == (12, 20)


@pytest.mark.parametrize("name", LEAKY)
def test_a_leak_is_found_warned_of_said_and_refused(name):
    whole, X = before(name, LEAKY)
    assert any(one.severity == "leak" for one in check_pipeline(whole))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole.fit(X, Y)
    assert any("without privacy" in str(one.message) for one in caught)
    assert about_steps(whole[-1].guarantee_)
    with pytest.raises(InvalidInput, match="learns"):
        clone(whole).set_params(model__strict=True).fit(X, Y)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_pipeline_raises_no_alarm(name):
    whole, X = before(name, HONEST)
    assert check_pipeline(whole) == ()
    whole.set_params(model__strict=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole.fit(X, Y)
    assert not [one for one in caught if "learns" in str(one.message)]
    assert about_steps(whole[-1].guarantee_) == []


@pytest.mark.parametrize(
    "names",
    [
        [("leak", "own step"), ("honest", "private columns")],
        pytest.param(
            [*(("leak", name) for name in LEAKY), *(("honest", name) for name in HONEST)],
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["some", "all"],
)
def test_in_worker_processes_as_well(names):
    for kind, name in names:
        whole, X = before(name, LEAKY if kind == "leak" else HONEST)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits = cross_validate(whole, X, Y, cv=2, n_jobs=2, return_estimator=True)
        for one in fits["estimator"]:
            assert bool(about_steps(one[-1].guarantee_)) == (kind == "leak"), name
