"""What a pipeline costs: all that was released of the data, as one guarantee, or a refusal by name."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, OneHotEncoder
from sklearn.utils import all_estimators, check_array

import pabi
from pabi.describe.batches import FullBatch, ShuffleOnce
from pabi.features import RandomFeatures, Scattering
from pabi.learn import (
    PrivateCategories,
    PrivateImputer,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRanges,
    PrivateScaler,
    PrivateWhitener,
    SchemaEncoder,
    guarantee_of,
    model_hash,
    split_epsilon,
)
from pabi.numbers.errors import InvalidInput
from support.estimators import same
from support.every_case import every, refused, refuses

DELTA = 1e-4
QUICK = {"batches": FullBatch(), "epochs": 3, "step_size": 0.5, "l2": 0.01}

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 0.5, (400, 4))
Y = (X[:, 0] > X[:, 1]).astype(int)


def classifier(epsilon=1.0, **changes):
    return PrivateLogisticRegression(epsilon, DELTA, **{**QUICK, "precondition": None, **changes})


def whitener(epsilon=3.0, **changes):
    return PrivateWhitener(epsilon, DELTA, **{"fit_intercept": False, **changes})


def cost(*steps):
    return guarantee_of(make_pipeline(*steps).fit(X, Y))


@every("batches", [FullBatch(), ShuffleOnce(100)])
def test_a_whitener_and_a_model_cost_what_composes(batches):
    model = make_pipeline(whitener(), classifier(batches=batches)).fit(X, Y)
    parts = [step.guarantee_ for step in model]
    whole = guarantee_of(model)
    assert whole.epsilon(DELTA) == pabi.compose(*parts).epsilon(DELTA)
    assert max(part.epsilon(DELTA) for part in parts) < whole.epsilon(DELTA)
    assert whole.epsilon(DELTA) < sum(part.epsilon(DELTA) for part in parts)
    assert pabi.verify(whole).ok
    assert set(whole.assumptions) >= set(parts[0].assumptions) | set(parts[1].assumptions)


def test_one_step_costs_what_it_costs():
    """And so it does behind steps that learn nothing."""
    step = PrivateLinearRegression(1.0, DELTA, target_range=(0, 1), **QUICK).fit(X, Y)
    assert same(guarantee_of(step), step.guarantee_)
    for before in (
        "passthrough",
        None,
        Normalizer(),
        Scattering((2, 2), J=1, groups=3),
        RandomFeatures((0, 1), 20),
        RandomFeatures(dict.fromkeys(range(4), (0, 1)), 20, linear=False),
        ColumnTransformer([("none", "drop", [2])], remainder="passthrough"),
    ):
        model = Pipeline([("step", before), ("model", classifier())]).fit(X, Y)
        assert same(guarantee_of(model), model[-1].guarantee_)
    schema = {"a": {"kind": "numeric", "range": [0, 1]}, "b": {"kind": "boolean"}}
    model = make_pipeline(SchemaEncoder(schema), classifier()).fit({"a": X[:, 0], "b": Y}, Y)
    assert same(guarantee_of(model), model[-1].guarantee_)
    declared = ("levels", PrivateCategories(categories=[["x", "y"]]), ["c"])
    model = model_of_columns(declared, ("rest", "passthrough", ["a"]))
    assert same(guarantee_of(model), model[-1].guarantee_)
    with pytest.raises(InvalidInput, match="^model: expected a fitted step with a guarantee"):
        guarantee_of(make_pipeline(Normalizer(), FunctionTransformer()).fit(X))


FEW, LABELS = X[:30], Y[:30]


def changes_with_the_data(transformer):
    """Whether it maps one table in two ways after two fits."""
    tables = [transformer.fit(data, LABELS).transform(FEW) for data in (FEW, 1.0 - FEW[::-1])]
    one, two = (t.toarray() if hasattr(t, "toarray") else np.asarray(t) for t in tables)
    return one.shape != two.shape or not np.array_equal(one, two)


# Seconds each, as they search for a decomposition anew for every table that is tried.
SLOWLY = ("DictionaryLearning", "RandomTreesEmbedding", "SparsePCA")


def transformers(left_out):
    """All of scikit-learn's that can be fitted to the table without further arguments, but for these."""
    for name, kind in all_estimators(type_filter="transformer"):
        if name in left_out:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                seed = {"random_state": 0} if "random_state" in kind().get_params() else {}
                fitted = kind(**seed).fit(FEW, LABELS)
                fitted.transform(FEW)
            except Exception:  # of whatever kind: this one needs other data or arguments
                continue
        yield name, fitted


@pytest.mark.parametrize(
    "left_out", [SLOWLY, pytest.param((), marks=pytest.mark.nightly)], ids=["quick", "all"]
)
def test_no_transformer_that_depends_on_the_data_passes(left_out):
    """Of scikit-learn's own: what passes transforms alike after fits to two tables."""
    released, passed, refused = classifier().fit(X, Y), [], 0
    for name, fitted in transformers(left_out):
        try:
            guarantee_of(Pipeline([("step", fitted), ("model", released)]))
        except InvalidInput:
            refused += 1
            continue
        passed.append(name)
        assert not changes_with_the_data(fitted), name
    assert {"Normalizer", "FunctionTransformer", "PolynomialFeatures"} <= set(passed)
    assert refused > 30


@pytest.mark.parametrize(
    "model",
    [
        *(classifier, whitener, lambda: make_pipeline(whitener(), classifier())),
        lambda: make_pipeline(whitener(), classifier().fit(X, Y)),
        lambda: make_pipeline(whitener().fit(X), classifier()),
        lambda: ColumnTransformer([("a", PrivateRanges(), ["a"])]),
        lambda: FeatureUnion([("a", PrivateRanges())]),
    ],
)
def test_what_is_not_fitted_is_refused(model):
    with pytest.raises(InvalidInput, match="no guarantee yet|expected a fitted"):
        guarantee_of(model())


@every("model", [None, "model", 3, object(), PCA, X, [classifier()]])
def test_what_is_no_model_is_refused(model):
    assert "expected" in refused("model", guarantee_of, model)


def test_adjacencies_are_not_mixed_and_steps_side_by_side_have_no_order():
    refused("adjacency", cost, whitener(adjacency="zero_out"), classifier())
    same = cost(whitener(adjacency="zero_out"), classifier(adjacency="zero_out"))
    assert same.adjacency == "zero_out"
    columns = FeatureUnion([("b", PrivateScaler(50.0, DELTA)), ("a", PrivateRanges(50.0, DELTA))])
    chain = make_pipeline(columns, Normalizer(), classifier(classes=[0, 1])).fit(X, Y)
    columns.transformer_list[0][1].fit(X)
    chain[-1].fit(chain[:-1].transform(X), Y)
    assert guarantee_of(chain).epsilon(DELTA) > 2.0


FRAME = {"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0.25, "x", "y")}


def frame(times=20):
    return pytest.importorskip("pandas").DataFrame({k: np.tile(v, times) for k, v in FRAME.items()})


def model_of_columns(*parts, **changes):
    table = frame()
    steps = ColumnTransformer(list(parts), **changes), classifier(feature_norm=2.0)
    return make_pipeline(*steps).fit(table, (table["a"] > table["b"]).astype(int))


def test_private_columns_compose():
    ranges = PrivateRanges(2.0, DELTA)
    model = model_of_columns(
        (
            "numbers",
            make_pipeline(PrivateImputer(2.0, DELTA), PrivateScaler(2.0, DELTA)),
            ["a", "b"],
        ),
        ("both", make_pipeline(FeatureUnion([("r", ranges), ("n", Normalizer())])), ["a"]),
        ("levels", PrivateCategories(1.0, DELTA), ["c"]),
    )
    columns = model[0].named_transformers_
    union = columns["both"][0].transformer_list
    parts = [*columns["numbers"], union[0][1], columns["levels"], model[-1]]
    each = pabi.compose(*(step.guarantee_ for step in parts))
    whole = guarantee_of(model)
    assert whole.epsilon(DELTA) == pytest.approx(each.epsilon(DELTA), rel=1e-6)
    assert whole.epsilon(DELTA) > max(step.guarantee_.epsilon(DELTA) for step in parts)
    assert pabi.verify(whole).ok
    assert set(whole.assumptions) >= {s for step in parts for s in step.guarantee_.assumptions}


def test_what_follows_from_a_table_is_assumed_to_be_public_or_refused():
    levels = ("levels", OneHotEncoder(categories=[["x", "y"]]), ["c"])
    model = model_of_columns(levels, ("numbers", PrivateRanges(2.0, DELTA), ["a"]))
    assert any("density" in sentence for sentence in guarantee_of(model).assumptions)
    dense = model_of_columns(levels, sparse_threshold=0.0)
    assert not any("density" in sentence for sentence in guarantee_of(dense).assumptions)
    numbers = PrivateRanges(2.0, DELTA), make_column_selector(dtype_include=float)
    model = model_of_columns(("numbers", *numbers))
    assert any("types of columns" in sentence for sentence in guarantee_of(model).assumptions)
    model = model_of_columns(("numbers", PrivateRanges(2.0, DELTA), widest))
    with pytest.raises(InvalidInput, match=r"^columntransformer\.numbers: .*function"):
        guarantee_of(model)


def widest(table):
    """Columns that the data choose."""
    return [max(["a", "b"], key=lambda name: table[name].var())]


def test_the_type_of_a_table_is_assumed_to_be_public_before_steps_that_compute_in_it():
    """One cell in double precision makes doubles of all that are in single precision."""
    rows = list(np.float32(X))
    other = [np.float64(rows[0]), *rows[1:]]
    step = Binarizer(threshold=float(rows[1][0]) + 1e-9)
    assert check_array(rows).dtype != check_array(other).dtype
    assumed = guarantee_of(make_pipeline(step, classifier()).fit(rows, Y)).assumptions
    assert sum("before the step 'binarizer' is public" in sentence for sentence in assumed) == 1
    plain = guarantee_of(make_pipeline(FunctionTransformer(), classifier()).fit(X, Y))
    assert not any("before the step" in sentence for sentence in plain.assumptions)


@every("between", [copy.deepcopy, lambda chain: pickle.loads(pickle.dumps(chain)), lambda c: c])
def test_a_step_of_a_later_fit_than_the_one_behind_it_is_refused(between):
    """The last step fails after its scaler was fitted anew: the two do not belong together."""
    steps = [("scaler", PrivateScaler(50.0, DELTA)), ("n", Normalizer())]
    chain = Pipeline([*steps, ("model", classifier(classes=[0, 1]))]).fit(X, Y)
    assert guarantee_of(chain).epsilon(DELTA) > 1.0
    chain = between(chain)
    model_hash(chain)
    with pytest.raises(InvalidInput, match="declared classes"):
        chain.fit(X, np.where(np.arange(400) < 5, 7, Y))
    for asked, whole in ((guarantee_of, make_pipeline(Normalizer(), chain)), (model_hash, chain)):
        assert " 'scaler' was fitted after this one" in refused("model", asked, whole)
    assert guarantee_of(chain.fit(X, Y)).epsilon(DELTA) > 1.0


# Budgets that steps share: together they cost what was to be shared.


@every("shares", [(1.0,), (0.15, 0.85), (0.05, 0.05, 0.9), (0.2, 0.3)])
@every(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-8), (20.0, 0.01)])
def test_gaussian_steps_cost_the_whole_together(epsilon, delta, shares):
    each = split_epsilon(epsilon, delta, shares)
    plans = [
        PrivateScaler(one, delta, feature_ranges=(0, 1)).plan(10**6, 3).guarantee for one in each
    ]
    whole = pabi.compose(*plans)
    assert whole.epsilon(delta) <= epsilon
    if math.fsum(shares) == 1.0:
        assert whole.epsilon(delta) >= epsilon * (1.0 - 1e-6)


def test_levels_that_may_fail_are_within_the_budget_and_wrong_arguments_are_named():
    first, second = split_epsilon(1.0, 1e-5, failure=2e-6)
    levels = PrivateCategories(first, 1e-5).plan(10**5, 4).guarantee
    rest = PrivateScaler(second, 1e-5, feature_ranges=(0, 1)).plan(10**5, 3).guarantee
    assert 0.99 <= pabi.compose(levels, rest).epsilon(1e-5) <= 1.0
    table = {"epsilon": [0.0], "delta": [1.0], "failure": [1e-5]}
    table["shares"] = [(), (0.6, 0.6), (0.0, 1.0), 0.5]
    refuses(lambda **changes: split_epsilon(**{"epsilon": 1.0, "delta": 1e-5} | changes), table)
