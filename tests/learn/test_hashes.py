"""The hash of a model's parameters is that of what it predicts with, wherever the model was stored."""

import hashlib
import json
import pickle
import struct

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

import pabi
from pabi import learn
from pabi.tradeoff.certificate import digest
from support.estimators import ALL, CLASSIFIERS
from support.every_case import every, refused

X = np.linspace([-1.0, 1.0, 0.2], [1.0, -0.5, 0.1], 900) / 1.5
LABELS = (X[:, 0] > 0.1).astype(int)
FITTED = {"epsilon": 4.0, "delta": 1e-5, "feature_norm": 1.0}


def fitted(kind, **changes):
    if kind in CLASSIFIERS:
        return kind(classes=[0, 1], **FITTED, **changes).fit(X, LABELS)
    return kind(target_range=(0, 2), **FITTED, **changes).fit(X, LABELS.astype(float))


def stated(guarantee):
    return [one["parameters_sha256"] for one in guarantee.notes["releases"]]


@pytest.mark.parametrize("kind", ALL)
@every("precondition", [None, "auto"])
def test_estimators_note_the_hash_of_their_coefficients(kind, precondition):
    model = fitted(kind, precondition=precondition)
    arrays = {"coef_": model.coef_, "intercept_": model.intercept_}
    if kind in CLASSIFIERS:
        arrays["classes_"] = model.classes_
    if precondition is not None:
        arrays["preconditioner_.matrix"] = model.preconditioner_.matrix
    assert stated(model.guarantee_) == [digest(arrays)] == [learn.parameters_hash(model)]
    assert learn.parameters_hash(pickle.loads(pickle.dumps(model))) == learn.parameters_hash(model)
    assert learn.guarantee_of(model).curve == model.guarantee_.curve
    model.coef_ = model.coef_ + 1e-9
    assert learn.parameters_hash(model) not in stated(model.guarantee_)
    assert "changed after its fit" in refused("model", learn.guarantee_of, model)


def test_a_step_with_other_values_than_it_released_has_no_guarantee():
    """Such as the mean of the records in place of the private one."""
    scaler = learn.PrivateScaler(8.0, 1e-6, feature_ranges=(-3, 3))
    model = learn.PrivateLogisticRegression(classes=[0, 1], epochs=2)
    whole = make_pipeline(scaler, model).fit(X, LABELS)
    learn.guarantee_of(whole)
    scaler.mean_ = X.mean(axis=0)
    assert "changed after its fit" in refused("privatescaler", learn.guarantee_of, whole)
    scaler.fit(X)
    assert "was fitted after" in refused("privatelogisticregression", learn.guarantee_of, whole)


def test_a_step_that_released_nothing_holds_what_its_settings_say():
    """Such as the fill of an imputer, in whose place nobody puts the mean of the records."""
    fill = learn.PrivateImputer(strategy="constant", fill_value=0.5)
    levels = learn.PrivateCategories(categories=[["1.0", "2"], ["true"], ["x"]])
    model = learn.PrivateLogisticRegression(classes=[0, 1], epochs=2)
    for step, held, learnt in (
        (fill, np.array(["0.5", 0.5, 0.5], object), X.mean(axis=0)),
        (levels, [("1.0", "2"), ("true",), ("x",)], [("1", "2"), ("true",), ("x", "y")]),
    ):
        whole = make_pipeline(step, model).fit(X, LABELS)
        cost = learn.guarantee_of(whole)
        name = "categories_" if step is levels else "statistics_"
        setattr(step, name, held)  # as earlier versions wrote it
        assert learn.guarantee_of(whole).curve == cost.curve
        setattr(step, name, learnt)
        assert "it holds other values" in refused(whole.steps[0][0], learn.guarantee_of, whole)


def test_other_releases_and_searches():
    loss = pabi.Loss.logistic(1.0, l2=0.1)
    run = pabi.NoisySGD(
        loss, n=len(X), batches=pabi.FullBatch(), epochs=2, step_size=0.1, noise_std=1.0
    )
    result = learn.train(
        run, learn.LogisticGradients(learn.Records(X, 1.0), 2.0 * LABELS - 1.0), np.zeros(3)
    )
    assert stated(result.guarantee) == [digest({"x": result.x})] == [learn.parameters_hash(result)]
    moments = pabi.NoisySecondMoments(len(X), 3, 1.0, noise_std=9.0)
    released = learn.second_moments(moments, learn.Records(X, 1.0))
    assert stated(released.guarantee) == [learn.parameters_hash(released)]
    whitener = learn.PrivateWhitener(**FITTED).fit(X)
    assert stated(whitener.guarantee_) == [learn.parameters_hash(whitener)]
    search = learn.PrivateSearchCV(
        learn.PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0, epochs=2),
        {"l2": [0.01, 0.1]},
        epsilon=4.0,
        delta=1e-5,
        mean_trials=2.0,
        validation_share=0.2,
    ).fit(X, LABELS)
    assert stated(search.guarantee_) == [learn.parameters_hash(search)]
    assert learn.parameters_hash(search) == learn.parameters_hash(search.best_estimator_)


CELLS = np.array([[None, "a"], ["x", "b"]] * 400 + [["x", "b"]] * 100, dtype=object)
TRANSFORMERS = (
    (learn.PrivateRanges(2.0, 1e-5), X, "ranges_"),
    (learn.PrivateScaler(2.0, 1e-5), X, "mean_"),
    (learn.PrivateScaler(2.0, 1e-5), X, "scale_"),
    (learn.PrivateScaler(2.0, 1e-5), X, "ranges_"),
    (learn.PrivateImputer(2.0, 1e-5), X, "statistics_"),
    (learn.PrivateImputer(2.0, 1e-5, strategy="most_frequent"), CELLS, "statistics_"),
    (learn.PrivateCategories(2.0, 1e-5), CELLS, "categories_"),
)


@every(("step", "table", "name"), TRANSFORMERS)
def test_transformers_note_the_hash_of_what_they_learn(step, table, name):
    step = clone(step).fit(table)
    assert stated(step.guarantee_) == [learn.parameters_hash(step)]
    assert learn.parameters_hash(pickle.loads(pickle.dumps(step))) == learn.parameters_hash(step)
    values = getattr(step, name)
    reversed_values = values[::-1] if isinstance(values, list) else values[..., ::-1]
    assert str(reversed_values) != str(values)
    setattr(step, name, reversed_values)
    assert learn.parameters_hash(step) not in stated(step.guarantee_)


@every("labels", [[0.0, 1.0], ["no", "yes"], [False, True]])
def test_labels_in_another_order_have_another_hash(labels):
    model = learn.PrivateLogisticRegression(classes=labels, **FITTED)
    model.fit(X, np.array(labels)[LABELS])
    assert stated(model.guarantee_) == [learn.parameters_hash(model)]
    model.classes_ = model.classes_[::-1]
    assert learn.parameters_hash(model) not in stated(model.guarantee_)


def test_the_hash_is_that_of_the_bytes_that_the_docs_describe():
    labels = json.dumps(["no", "yé"]).encode()
    text = b"a json %d\n" % len(labels) + labels + b"b <f8 2\n" + struct.pack("<2d", 1.5, -2.0)
    values = {"b": np.array([1.5, -2.0]), "a": np.array(["no", "yé"], dtype=object)}
    assert digest(values) == hashlib.sha256(text).hexdigest()
    assert digest({"a": [("x", ""), ("y",)]}) != digest({"a": [("x",), ("", "y")]})
    assert digest({"a": np.array([np.int64(1), "b"], dtype=object)}) == digest({"a": [1, "b"]})


def test_every_step_of_a_pipeline_has_a_hash():
    table = np.hstack([X.astype(object), CELLS])
    columns = ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(learn.PrivateScaler(2.0, 1e-5), learn.PrivateRanges(2.0, 1e-5)),
                [0, 1],
            ),
            ("levels", learn.PrivateCategories(2.0, 1e-5), [3, 4]),
            ("declared", learn.PrivateCategories(categories=[["a", "b"]]), [4]),
        ]
    )
    last = learn.PrivateLogisticRegression(2.0, 1e-5, classes=[0, 1])
    pipeline = make_pipeline(columns, last).fit(table, LABELS)
    hashes = learn.parameters_hashes(pipeline)
    assert len(set(hashes)) == 4
    assert list(hashes) == stated(pabi.learn.guarantee_of(pipeline))
    assert learn.parameters_hashes(pipeline[-1]) == hashes[-1:]
    assert learn.parameters_hash(pipeline) == hashes[-1]
    with pytest.raises(pabi.InvalidInput, match="^model: expected a fitted model"):
        learn.parameters_hashes(learn.PrivateLogisticRegression())


UNFITTED = (None, 3, object(), learn.PrivateLogisticRegression(), learn.PrivateWhitener())


@every("other", UNFITTED)
def test_what_is_no_fitted_model(other):
    assert "expected a fitted model" in refused("model", learn.parameters_hash, other)
