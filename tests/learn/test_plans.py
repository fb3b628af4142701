"""Plans say, without data, what a fit then does."""

import math

import numpy as np
import pytest

import pabi
from pabi import learn
from support.estimators import CLASSIFIERS
from support.every_case import every, refused

REGRESSORS = [learn.PrivateLinearRegression, learn.PrivateHuberRegressor]
N, D = 400, 3


def fitted(model, y):
    return model.fit(np.random.default_rng(0).normal(size=(N, D)), y)


def same(plan, model):
    """Both releases of the fit are those of the plan, and cost as much."""
    delta = plan.delta
    assert model.run_ == plan.run
    if plan.moments is None:
        assert model.moments_ is None
    else:
        assert model.moments_.moment_noise_std == plan.moments.moment_noise_std
    assert plan.guarantee.epsilon(delta) == pytest.approx(
        model.guarantee_.epsilon(delta), rel=1e-12
    )
    assert set(plan.guarantee.assumptions) < set(model.guarantee_.assumptions)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "changes",
    [{}, {"epochs": 3, "batches": pabi.ShuffleOnce(50)}, {"fit_intercept": False, "l2": 0.01}],
    ids=str,
)
def test_a_classifier_is_fitted_as_planned(kind, classes, changes):
    model = kind(2.0, 1e-4, **changes)
    plan = model.plan(N, D, classes)
    assert not [name for name in vars(model) if name.endswith("_")]  # nothing is fitted
    same(plan, fitted(model, np.arange(N) % classes))


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("changes", [{}, {"feature_ranges": (-2, 5)}, {"noise_std": 0.5}], ids=str)
def test_a_regressor_is_fitted_as_planned(kind, targets, changes):
    model = kind(2.0, 1e-4, target_range=(0, 10), **changes)
    y = np.arange(N * targets).reshape(N, targets) % 7
    same(model.plan(N, D, targets), fitted(model, y[:, 0] if targets == 1 else y))


def test_counts_are_fitted_as_planned():
    model = learn.PrivatePoissonRegressor(2.0, 1e-4, target_range=(0, 10))
    same(model.plan(N, D), fitted(model, np.arange(N) % 5))


def test_the_declared_classes_are_counted():
    declared = learn.PrivateLogisticRegression(classes=["a", "b", "c"]).plan(1000, 4)
    assert declared.run == learn.PrivateLogisticRegression().plan(1000, 4, 3).run


@every("classes", [2, 5])
def test_the_noise_is_that_of_weights_that_nothing_damps(classes):
    """Of the sum of independent noises of all steps, in units of the predictor of the longest row."""
    plan = learn.PrivateLogisticRegression(1.0, 1e-5, intercept_scaling=2.0).plan(
        20_000, 10, classes
    )
    run = plan.run
    steps = np.broadcast_to(run.step_size, run.steps)
    variance = float(np.sum((steps * run.noise_std) ** 2)) * (1.0 + 4.0)
    assert plan.noise == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_noise_of_a_regression_is_in_units_of_y():
    narrow, wide = (
        learn.PrivateLinearRegression(1.0, 1e-5, target_range=(0, high)).plan(5000, 10)
        for high in (1.0, 1000.0)
    )
    assert wide.run == narrow.run
    assert wide.noise == pytest.approx(1000.0 * narrow.noise, rel=1e-12)
    assert (narrow.signal, wide.signal) == (0.5, 500.0)


def test_a_plan_is_told_in_lines():
    shown = str(learn.PrivateLogisticRegression(1.0, 1e-5).plan(60_000, 784, 10))
    heads = [line.split("  ")[0] for line in shown.splitlines()]
    assert heads == [
        *("table", "privacy", "preconditioning", "batches", "step sizes", "gradients"),
        *("expected", ""),
    ]
    assert "60000 records, 784 features and a constant" in shown
    assert "logits" in shown
    falling = str(learn.PrivateLinearRegression(1.0, 1e-5, target_range=(0, 1)).plan(5000, 10))
    assert " to " in falling
    assert "units of y" in falling


@every("name", ["n", "d", "classes"])
@every("bad", [0, -3, 2.5, True, "10", None])
def test_sizes_are_whole_numbers(name, bad):
    sizes = {"n": 100, "d": 3, "classes": 2, name: bad}
    refused(name, learn.PrivateLogisticRegression().plan, **sizes)


def test_one_class_and_several_counts_are_refused():
    refused("classes", learn.PrivateLinearSVC().plan, 100, 3, 1)
    refused("targets", learn.PrivatePoissonRegressor().plan, 100, 3, 2)
    refused("targets", learn.PrivateLinearRegression().plan, 100, 3, 0)
