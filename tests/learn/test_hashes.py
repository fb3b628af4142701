"""The hash of a model's parameters is that of what it predicts with, wherever the model was stored."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import pabi
from pabi.guarantees.releases import digest
from pabi.learn import (
    LogisticGradients,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidgeClassifier,
    PrivateSearchCV,
    PrivateWhitener,
    Records,
    parameters_hash,
    second_moments,
    train,
)

CLASSIFIERS = (PrivateLogisticRegression, PrivateLinearSVC, PrivateRidgeClassifier)
REGRESSORS = (PrivateLinearRegression, PrivateHuberRegressor, PrivatePoissonRegressor)
X = np.linspace([-1.0, 1.0, 0.2], [1.0, -0.5, 0.1], 900) / 1.5
LABELS = (X[:, 0] > 0.1).astype(int)
FITTED = {"epsilon": 4.0, "delta": 1e-5, "feature_norm": 1.0}


def fitted(kind, **changes):
    if kind in CLASSIFIERS:
        return kind(classes=[0, 1], **FITTED, **changes).fit(X, LABELS)
    return kind(target_range=(0, 2), **FITTED, **changes).fit(X, LABELS.astype(float))


def stated(guarantee):
    return [one["parameters_sha256"] for one in guarantee.notes["releases"]]


@pytest.mark.parametrize("kind", CLASSIFIERS + REGRESSORS)
@pytest.mark.parametrize("precondition", [None, "auto"])
def test_estimators_note_the_hash_of_their_coefficients(kind, precondition):
    model = fitted(kind, precondition=precondition)
    arrays = {"coef_": model.coef_, "intercept_": model.intercept_}
    if precondition is not None:
        arrays["preconditioner_.matrix"] = model.preconditioner_.matrix
    assert stated(model.guarantee_) == [digest(arrays)] == [parameters_hash(model)]
    assert parameters_hash(pickle.loads(pickle.dumps(model))) == parameters_hash(model)
    model.coef_ = model.coef_ + 1e-9
    assert parameters_hash(model) not in stated(model.guarantee_)


def test_other_releases():
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0, l2=0.1),
        n=len(X),
        batches=pabi.FullBatch(),
        epochs=2,
        step_size=0.1,
        noise_std=1.0,
    )
    result = train(run, LogisticGradients(Records(X, 1.0), 2.0 * LABELS - 1.0), np.zeros(3))
    assert stated(result.guarantee) == [digest({"x": result.x})] == [parameters_hash(result)]
    moments = pabi.NoisySecondMoments(len(X), 3, 1.0, noise_std=9.0)
    released = second_moments(moments, Records(X, 1.0))
    assert stated(released.guarantee) == [parameters_hash(released)]
    whitener = PrivateWhitener(**FITTED).fit(X)
    assert stated(whitener.guarantee_) == [parameters_hash(whitener)]


def test_pipelines_and_searches():
    whitener = PrivateWhitener(2.0, 1e-5, 1.0)
    last = PrivateLogisticRegression(2.0, 1e-5, 1.0, classes=[0, 1])
    pipeline = make_pipeline(whitener, last).fit(X, LABELS)
    assert parameters_hash(pipeline) == parameters_hash(pipeline[-1])
    whole = pabi.learn.guarantee_of(pipeline)
    assert stated(whole) == [parameters_hash(step) for _, step in pipeline.steps]
    search = PrivateSearchCV(
        PrivateLogisticRegression(classes=[0, 1], feature_norm=1.0, epochs=2),
        {"l2": [0.01, 0.1]},
        epsilon=4.0,
        delta=1e-5,
        mean_trials=2.0,
        validation_share=0.2,
    ).fit(X, LABELS)
    assert stated(search.guarantee_) == [parameters_hash(search)]
    assert parameters_hash(search) == parameters_hash(search.best_estimator_)


UNFITTED = (None, 3, object(), PrivateLogisticRegression(), PrivateWhitener())


@pytest.mark.parametrize("other", UNFITTED)
def test_what_is_no_fitted_model(other):
    with pytest.raises(pabi.InvalidInput, match="^model: expected a fitted model"):
        parameters_hash(other)
