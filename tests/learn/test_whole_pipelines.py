"""Twelve pipelines that leak and twenty that do not, as people write them."""

from __future__ import annotations

import copy
import pickle

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
    guarantee_of,
    model_hash,
)
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
    "function": (make_pipeline(FunctionTransformer()), NUMBERS),
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
    "constant": (
        make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)),
        NUMBERS,
    ),
    "union of rows": (make_union(Normalizer(), Binarizer()), NUMBERS),
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


def before(name, table):
    steps, X = table[name]
    steps = steps if isinstance(steps, str) else clone(steps)
    return Pipeline([("before", steps), ("model", model())]), X


# Functions and classes of one's own, which are on no list.
OWN = {"own step": Years, "declared levels": FunctionTransformer}
OWN |= {"declared order": Years, "three deep": Years}


def test_there_are_twelve_and_twenty():
    assert (len(LEAKY), len(HONEST)) == (12, 20)


@pytest.mark.parametrize("name", LEAKY)
@pytest.mark.filterwarnings("ignore")
def test_a_leak_is_found_before_and_refused_afterwards(name):
    whole, X = before(name, LEAKY)
    findings = check_pipeline(whole)
    assert findings
    with pytest.raises(InvalidInput, match="expected a step that treats every row by itself"):
        check_pipeline(whole, strict=True)
    whole.fit(X, Y)
    assert [f.step for f in check_pipeline(whole)] == [f.step for f in findings]
    with pytest.raises(InvalidInput, match="expected a step that treats every row by itself"):
        guarantee_of(whole)


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.filterwarnings("ignore")
def test_an_honest_pipeline_is_known_but_for_steps_of_ones_own(name):
    whole, X = before(name, HONEST)
    kinds = [finding.kind for finding in check_pipeline(whole)]
    assert kinds == ([OWN[name].__name__] if name in OWN else [])
    whole.fit(X, Y)
    guarantee = guarantee_of(whole, strict=name not in OWN)
    assert (" learnt nothing" in str(guarantee.assumptions)) == (name in OWN)


# Steps of several fits.


def stored(chain):
    return pickle.loads(pickle.dumps(chain))


@pytest.mark.parametrize("between", [copy.deepcopy, stored, lambda chain: chain])
def test_a_step_of_a_later_fit_than_the_one_behind_it_is_refused(between):
    """The last step fails after its scaler was fitted anew: the two do not belong together."""
    chain = Pipeline(
        [("scaler", PrivateScaler(50.0, DELTA)), ("n", Normalizer()), ("model", model())]
    )
    chain.fit(NUMBERS, Y)
    assert guarantee_of(chain).epsilon(DELTA) > 1.0
    chain = between(chain)
    model_hash(chain)
    with pytest.raises(InvalidInput, match="declared classes"):
        chain.fit(NUMBERS, np.where(np.arange(N) < 5, 7, Y))
    for asked in (guarantee_of, model_hash):
        with pytest.raises(InvalidInput, match="^model: .* 'scaler' was fitted after this one"):
            asked(make_pipeline(Normalizer(), chain) if asked is guarantee_of else chain)
    chain.fit(NUMBERS, Y)
    assert guarantee_of(chain).epsilon(DELTA) > 1.0


def test_steps_side_by_side_have_no_order():
    columns = FeatureUnion([("b", PrivateScaler(50.0, DELTA)), ("a", PrivateRanges(50.0, DELTA))])
    chain = make_pipeline(columns, Normalizer(), model()).fit(NUMBERS, Y)
    columns.transformer_list[0][1].fit(NUMBERS)
    chain[-1].fit(chain[:-1].transform(NUMBERS), Y)
    assert guarantee_of(chain).epsilon(DELTA) > 2.0
