"""Cells that are no numbers, no labels and no ids are refused in one line, wherever they are taken."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from pabi import learn
from pabi.learn.columns import Boolean
from pabi.learn.scattering import Scattering
from pabi.numbers.errors import InvalidInput
from support.every_case import every

pytestmark = pytest.mark.filterwarnings("ignore", "error::numpy.exceptions.ComplexWarning")
N = 40
X = np.random.default_rng(0).normal(size=(N, 2))
Y = (X[:, 0] > 0.0).astype(int)
ODD = {
    "huge": 10**400,
    "dict": {"a": 1},
    "list": [1],
    "complex": 1j,
    "numpy's complex": np.complex128(1.0),
    "date": datetime.date(2020, 1, 1),
    "timestamp": pd.Timestamp("2020-01-01"),
    "datetime64": np.datetime64("2020-01-01"),
    "timedelta64": np.timedelta64(5, "s"),
    "text": "word",
    "bytes": b"5",
}
MISSING = {"None": None, "NaN": math.nan, "NA": pd.NA, "NaT": pd.NaT}
FORMS: dict[str, Any] = {
    "list": lambda cells: cells,
    "objects": lambda cells: _objects(cells),
    "pandas": lambda cells: (pd.DataFrame if np.ndim(cells[0]) else pd.Series)(_objects(cells)),
}
CLASSIFIER = learn.PrivateLogisticRegression(noise_std=1.0, classes=[0, 1], max_sample_weight=2.0)
UNDECLARED = learn.PrivateLogisticRegression(noise_std=1.0)
REGRESSOR = learn.PrivateLinearRegression(noise_std=1.0, target_range=(0, 1), max_sample_weight=2.0)
NUMERIC = [
    learn.PrivateScaler(feature_ranges=(-1, 1)),
    learn.PrivateRanges(1000.0, 0.1),
    learn.PrivateImputer(feature_ranges=(-1, 1)),
    learn.PrivateWhitener(feature_norm=1.0),
]


def _objects(cells: list[Any]) -> np.ndarray:
    table = np.empty((len(cells), *np.shape(cells[0])), dtype=object)
    for i, cell in enumerate(cells):
        if table.ndim == 1:
            table[i] = cell
        else:
            for j, one in enumerate(cell):
                table[i, j] = one
    return table


def beside(base: np.ndarray, odd: Any, form: str) -> Any:
    cells = base.tolist()
    if base.ndim == 2:
        cells[3][1] = odd
    else:
        cells[3] = odd
    return FORMS[form](cells)


def refused(field: str, call: Any) -> str:
    with pytest.raises(InvalidInput) as no:
        call()
    assert no.value.field == field
    assert "\n" not in str(no.value)
    return str(no.value)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("odd", [*ODD, *MISSING])
def test_tables(form: str, odd: str) -> None:
    table = beside(X, (ODD | MISSING)[odd], form)
    for estimator in (CLASSIFIER, REGRESSOR):
        fitted = clone(estimator).fit(X, Y)
        refused("X", lambda one=estimator: clone(one).fit(table, Y))
        refused("X", lambda one=fitted: one.predict(table))
    refused("X", lambda: learn.Records(table, 1.0))
    for transformer in NUMERIC:
        if odd in MISSING and not isinstance(transformer, learn.PrivateWhitener):
            continue  # what is missing has a place there
        refused("X", lambda one=transformer: clone(one).fit(table))
        fitted = clone(transformer).fit(X)
        refused("X", lambda one=fitted: one.transform(table))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("odd", [*ODD, *MISSING])
def test_targets_and_weights(form: str, odd: str) -> None:
    column = beside(Y, (ODD | MISSING)[odd], form)
    for estimator in (CLASSIFIER, UNDECLARED, REGRESSOR):
        said = refused("y", lambda one=estimator: clone(one).fit(X, column))
        assert "regression" not in said
    records = learn.Records(X, 1.0)
    refused("y", lambda: learn.LogisticGradients(records, column))
    refused("y", lambda: learn.SquaredGradients(records, column, 1.0))
    refused("weights", lambda: learn.LogisticGradients(records, Y).weighted(column))
    refused("sample_weight", lambda: clone(CLASSIFIER).fit(X, Y, sample_weight=column))


@every("form", FORMS)
@every("odd", ["dict", "list", *MISSING])
def test_users(form: str, odd: str) -> None:
    ids = beside(np.arange(N), (ODD | MISSING)[odd], form)
    for estimator in (CLASSIFIER, REGRESSOR):
        refused("groups", lambda one=estimator: clone(one).fit(X, Y, groups=ids))


def test_masked_cells_are_missing() -> None:
    table, column = np.ma.array(X, mask=X[3, 1] == X), np.ma.array(Y, mask=np.arange(N) == 3)
    for estimator in (CLASSIFIER, REGRESSOR):
        refused("X", lambda one=estimator: clone(one).fit(table, Y))
        refused("y", lambda one=estimator: clone(one).fit(X, column))
        refused("groups", lambda one=estimator: clone(one).fit(X, Y, groups=column))
        fitted = clone(estimator).fit(X, Y)
        refused("X", lambda one=fitted: one.predict(table))
    refused("X", lambda: clone(CLASSIFIER).fit(learn.LargeTable(table), Y))
    refused("sample_weight", lambda: clone(CLASSIFIER).fit(X, Y, sample_weight=column))
    for transformer in (NUMERIC[0], NUMERIC[2]):
        one = clone(transformer).fit(table)
        gaps = np.where(table.mask, np.nan, X)
        assert np.array_equal(one.transform(table), one.transform(gaps), equal_nan=True)


def test_refusals_keep_no_cell() -> None:
    """A debugger or an error tracker shows what was being handled, and its message shows a cell."""
    named = clone(CLASSIFIER).set_params(classes=["a", "b"])
    names = np.array(["a", "b"])[Y].astype(object)
    names[3] = "SECRET-1"
    for call in (
        lambda: clone(CLASSIFIER).fit([["SECRET-1"]] * N, Y),
        lambda: clone(CLASSIFIER).fit([["SECRET-1"], [1.0, 2.0]], Y),
        lambda: clone(named).fit(X, names),
        lambda: clone(REGRESSOR).fit(X, names),
        lambda: Scattering((2, 1)).transform([["SECRET-1", "1"]]),
        lambda: learn.SchemaEncoder({"x": Boolean()}).fit_transform(
            pd.DataFrame({"x": ["SECRET-1"]})
        ),
    ):
        with pytest.raises(InvalidInput) as no:
            call()
        assert no.value.__context__ is None


@every("kind", ["c16", "M8[s]", "m8[s]"])
@every("frame", [False, True])
def test_whole_columns_of_other_types(kind: str, frame: bool) -> None:
    table, column = X.astype("i8").astype(kind), Y.astype("i8").astype(kind)
    own = pd.DataFrame(table) if frame else table
    beside_it = pd.Series(column) if frame else column
    for estimator in (CLASSIFIER, UNDECLARED, REGRESSOR):
        refused("X", lambda one=estimator: clone(one).fit(own, Y))
        refused("y", lambda one=estimator: clone(one).fit(X, beside_it))
    for transformer in NUMERIC:
        refused("X", lambda one=transformer: clone(one).fit(own))
    refused("X", lambda: learn.Records(own, 1.0))
    refused("y", lambda: learn.SquaredGradients(learn.Records(X, 1.0), beside_it, 1.0))
    refused("sample_weight", lambda: clone(CLASSIFIER).fit(X, Y, sample_weight=beside_it))


def test_labels_are_those_of_each_row() -> None:
    """Whatever the types, a label is the class that Python finds equal to it."""
    truth = clone(CLASSIFIER).set_params(random_state=0).fit(X, Y).coef_
    mixed = [float(label) if i % 3 else bool(label) for i, label in enumerate(Y.tolist())]
    for labels in (
        mixed,
        _objects(mixed),
        pd.Series(mixed, dtype=object),
        Y.astype(bool),
        Y.tolist(),
    ):
        got = clone(CLASSIFIER).set_params(random_state=0).fit(X, labels).coef_
        assert np.array_equal(got, truth)
    for labels in (
        ["0", *Y[1:].tolist()],
        [2, *Y[1:].tolist()],
        [0.5, *Y[1:].tolist()],
        Y.astype(str),
    ):
        said = refused("y", lambda one=labels: clone(CLASSIFIER).fit(X, one))
        assert "not among the declared classes" in said
    words = np.array(["no", "yes"])[Y]
    named = clone(CLASSIFIER).set_params(classes=["no", "yes"], random_state=0)
    for labels in (words, words.tolist(), words.astype(object)):
        assert np.array_equal(clone(named).fit(X, labels).coef_, truth)
    for odd in (1, None, "no\0", "other"):
        refused("y", lambda one=odd: clone(named).fit(X, [one, *words[1:].tolist()]))
