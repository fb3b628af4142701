"""A fit that fails, at whatever place, leaves what was fitted as it was; what was charged stays charged."""

import numpy as np
import pytest
from sklearn.base import clone

import pabi
from pabi import learn
from pabi.learn import estimators as estimators_module
from pabi.learn import forgetting as forgetting_module
from pabi.learn import private_columns as columns_module
from pabi.numbers.errors import BudgetExceeded, InvalidInput
from support.every_case import every

X = np.linspace([-1.0, 1.0, 0.2], [1.0, -0.5, 0.1], 900) / 1.5
LABELS = (X[:, 0] > 0.1).astype(int)
CELLS = np.array([["x", "b"], ["y", "a"]] * 450, dtype=object)
BUDGET = {"epsilon": 4.0, "delta": 1e-5}
ROWS = {"feature_norm": 1.0, "epochs": 2}
LINEAR = BUDGET | ROWS


def searching():
    model = learn.PrivateLogisticRegression(classes=[0, 1], **ROWS)
    stated = {**BUDGET, "mean_trials": 1.5, "validation_share": 0.3}
    return learn.PrivateSearchCV(model, {"l2": [0.01, 0.1]}, **stated), X, LABELS


FITS = {
    "logistic": lambda: (learn.PrivateLogisticRegression(classes=[0, 1], **LINEAR), X, LABELS),
    "linear": lambda: (learn.PrivateLinearRegression(target_range=(0, 2), **LINEAR), X, X[:, 0]),
    "whitener": lambda: (learn.PrivateWhitener(**BUDGET, feature_norm=1.0), X, None),
    "ranges": lambda: (learn.PrivateRanges(**BUDGET), X, None),
    "scaler": lambda: (learn.PrivateScaler(**BUDGET), X, None),
    "imputer": lambda: (learn.PrivateImputer(**BUDGET), X, None),
    "categories": lambda: (learn.PrivateCategories(**BUDGET), CELLS, None),
    "search": searching,
}


class Stop(BaseException):
    """As Ctrl-C is: no Exception."""


def raising(error):
    def instead(*args, **kwargs):
        raise error

    return instead


# Where a fit is made to fail: before anything, after the moments, after the training, at its very end.
def at_the_table(patch, error):
    return np.zeros(3)  # of one dimension


def after_the_moments(patch, error):
    patch.setattr(estimators_module, "train_and_keep", raising(error))
    patch.setattr(learn.scaler, "whitening", raising(error))
    patch.setattr(learn.search, "reserved", raising(error))
    patch.setattr(columns_module, "unseen", raising(error))


def at_the_end(patch, error):
    for module in (forgetting_module, learn.scaler, columns_module):
        patch.setattr(module, "notes_of", raising(error))
    patch.setattr(learn.search, "keep_whole", raising(error))


PLACES = {"table": at_the_table, "moments": after_the_moments, "end": at_the_end}
ERRORS = (KeyboardInterrupt(), Stop(), MemoryError(), InvalidInput("X", "no"))


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("place", PLACES)
def test_it_is_left_as_it_was(monkeypatch, name, place):
    model, table, y = FITS[name]()
    for error in (ERRORS[0], *ERRORS):  # once before anything is fitted
        before = dict(vars(model))
        with monkeypatch.context() as patch:
            other = PLACES[place](patch, error)
            with pytest.raises((type(error), ValueError)):
                model.fit(table if other is None else other, y)
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[key] is value for key, value in before.items())
        if not hasattr(model, "guarantee_"):
            model.fit(table, y)
    stated = [one["parameters_sha256"] for one in model.guarantee_.notes["releases"]]
    assert stated == [learn.parameters_hash(model)]


def test_what_was_charged_stays_charged_and_a_budget_that_is_exceeded_loses_no_model(
    monkeypatch, tmp_path
):
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", 8.0, 1e-5)
    model = clone(FITS["logistic"]()[0]).set_params(ledger=ledger)
    model.fit(X, LABELS)
    left, before = ledger.remaining(), dict(vars(model))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        at_the_end(patch, KeyboardInterrupt())
        model.fit(X, LABELS)
    assert 0.0 < ledger.remaining() < left
    with pytest.raises(BudgetExceeded):
        model.fit(X, LABELS)
    assert all(vars(model)[key] is value for key, value in before.items())


@every(("rows", "labels"), [(X[:, 0], LABELS), (X, LABELS[1:]), (X[1:], LABELS)])
def test_a_search_takes_a_row_and_a_label_a_record(rows, labels):
    with pytest.raises(InvalidInput, match="^(X|y): expected"):
        searching()[0].fit(rows, labels)


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("logistic", {"step_size": lambda k: 0.5 * 0.5**k}),
        ("logistic", {"l2": 1e300}),
        ("logistic", {"noise_std": 1e300}),
        ("logistic", {"intercept_scaling": None}),
        ("linear", {"intercept_scaling": "1"}),
        ("linear", {"feature_ranges": 10**400}),
        ("imputer", {"fill_value": "nothing"}),
    ],
)
def test_what_public_numbers_refuse_costs_nothing(tmp_path, name, stated):
    ledger = pabi.Ledger(tmp_path / "a.ledger", 20.0, 1e-5)
    model, table, y = FITS[name]()
    with pytest.raises(InvalidInput):
        model.set_params(ledger=ledger, **stated).fit(table, y)
    assert ledger.report().entries == ()
