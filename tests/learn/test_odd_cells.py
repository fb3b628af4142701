"""Cells that are no numbers, no labels and no ids are refused in one line, wherever they are taken."""

import datetime
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from pabi import learn
from pabi.learn.columns import Boolean
from pabi.learn.scattering import Scattering
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused

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
CELLS = ODD | MISSING
GIVEN = {"noise_std": 1.0, "max_sample_weight": 2.0}
CLASSIFIER = learn.PrivateLogisticRegression(**GIVEN, classes=[0, 1])
UNDECLARED = learn.PrivateLogisticRegression(noise_std=1.0)
REGRESSOR = learn.PrivateLinearRegression(**GIVEN, target_range=(0, 1))
NUMERIC = [
    learn.PrivateScaler(feature_ranges=(-1, 1)),
    learn.PrivateRanges(1000.0, 0.1),
    learn.PrivateImputer(feature_ranges=(-1, 1)),
    learn.PrivateWhitener(feature_norm=1.0),
]


def objects(cells):
    table = np.empty((len(cells), *np.shape(cells[0])), dtype=object)
    for i, cell in enumerate(cells):
        if table.ndim == 1:
            table[i] = cell
        else:
            for j, one in enumerate(cell):
                table[i, j] = one
    return table


FORMS = {
    "list": lambda cells: cells,
    "objects": objects,
    "pandas": lambda cells: (pd.DataFrame if np.ndim(cells[0]) else pd.Series)(objects(cells)),
}
each_form = pytest.mark.parametrize("form", FORMS)
each_cell = pytest.mark.parametrize("odd", CELLS)


def beside(base, odd, form):
    cells = base.tolist()
    (cells[3] if base.ndim == 2 else cells)[1] = CELLS[odd]
    return FORMS[form](cells)


@each_form
@each_cell
def test_tables(form, odd):
    table = beside(X, odd, form)
    for estimator in (CLASSIFIER, REGRESSOR):
        refused("X", clone(estimator).fit, table, Y)
        refused("X", clone(estimator).fit(X, Y).predict, table)
    refused("X", learn.Records, table, 1.0)
    for transformer in NUMERIC:
        if odd in MISSING and not isinstance(transformer, learn.PrivateWhitener):
            continue  # what is missing has a place there
        refused("X", clone(transformer).fit, table)
        refused("X", clone(transformer).fit(X).transform, table)


@each_form
@each_cell
def test_targets_and_weights(form, odd):
    column, records = beside(Y, odd, form), learn.Records(X, 1.0)
    for estimator in (CLASSIFIER, UNDECLARED, REGRESSOR):
        assert "regression" not in refused("y", clone(estimator).fit, X, column)
    refused("y", learn.LogisticGradients, records, column)
    refused("y", learn.SquaredGradients, records, column, 1.0)
    refused("weights", learn.LogisticGradients(records, Y).weighted, column)
    refused("sample_weight", clone(CLASSIFIER).fit, X, Y, sample_weight=column)


@every("form", FORMS)
@every("odd", ["dict", "list", *MISSING])
def test_users(form, odd):
    ids = beside(np.arange(N), odd, form)
    for estimator in (CLASSIFIER, REGRESSOR):
        refused("groups", clone(estimator).fit, X, Y, groups=ids)


def test_masked_cells_are_missing():
    table, column = np.ma.array(X, mask=X[3, 1] == X), np.ma.array(Y, mask=np.arange(N) == 3)
    for estimator in (CLASSIFIER, REGRESSOR):
        refused("X", clone(estimator).fit, table, Y)
        refused("y", clone(estimator).fit, X, column)
        refused("groups", clone(estimator).fit, X, Y, groups=column)
        refused("X", clone(estimator).fit(X, Y).predict, table)
    refused("X", clone(CLASSIFIER).fit, learn.LargeTable(table), Y)
    refused("sample_weight", clone(CLASSIFIER).fit, X, Y, sample_weight=column)
    for transformer in (NUMERIC[0], NUMERIC[2]):
        one = clone(transformer).fit(table)
        gaps = np.where(table.mask, np.nan, X)
        assert np.array_equal(one.transform(table), one.transform(gaps), equal_nan=True)


def test_refusals_keep_no_cell():
    """A debugger or an error tracker shows what was being handled, and its message shows a cell."""
    named = clone(CLASSIFIER).set_params(classes=["a", "b"])
    names = np.array(["a", "b"])[Y].astype(object)
    names[3] = "SECRET-1"
    boolean = learn.SchemaEncoder({"x": Boolean()})
    for call, *given in (
        (clone(CLASSIFIER).fit, [["SECRET-1"]] * N, Y),
        (clone(CLASSIFIER).fit, [["SECRET-1"], [1.0, 2.0]], Y),
        *((clone(model).fit, X, names) for model in (named, REGRESSOR)),
        (Scattering((2, 1)).transform, [["SECRET-1", "1"]]),
        (boolean.fit_transform, pd.DataFrame({"x": ["SECRET-1"]})),
    ):
        with pytest.raises(InvalidInput) as no:
            call(*given)
        assert no.value.__context__ is None


@every("kind", ["c16", "M8[s]", "m8[s]"])
@every("frame", [False, True])
def test_whole_columns_of_other_types(kind, frame):
    table, column = X.astype("i8").astype(kind), Y.astype("i8").astype(kind)
    if frame:
        table, column = pd.DataFrame(table), pd.Series(column)
    for estimator in (CLASSIFIER, UNDECLARED, REGRESSOR):
        refused("X", clone(estimator).fit, table, Y)
        refused("y", clone(estimator).fit, X, column)
    for transformer in NUMERIC:
        refused("X", clone(transformer).fit, table)
    refused("X", learn.Records, table, 1.0)
    refused("y", learn.SquaredGradients, learn.Records(X, 1.0), column, 1.0)
    refused("sample_weight", clone(CLASSIFIER).fit, X, Y, sample_weight=column)


def test_labels_are_those_of_each_row():
    """Whatever the types, a label is the class that Python finds equal to it."""

    def fitted(labels, **declared):
        return clone(CLASSIFIER).set_params(random_state=0, **declared).fit(X, labels).coef_

    truth, words, rest = fitted(Y), np.array(["no", "yes"])[Y], Y[1:].tolist()
    mixed = [float(label) if i % 3 else bool(label) for i, label in enumerate(Y.tolist())]
    of_objects = pd.Series(mixed, dtype=object)
    for labels in (mixed, objects(mixed), of_objects, Y.astype(bool), Y.tolist()):
        assert np.array_equal(fitted(labels), truth)
    for labels in (["0", *rest], [2, *rest], [0.5, *rest], Y.astype(str)):
        assert "not among the declared classes" in refused("y", fitted, labels)
    for labels in (words, words.tolist(), words.astype(object)):
        assert np.array_equal(fitted(labels, classes=["no", "yes"]), truth)
    for odd in (1, None, "no\0", "other"):
        refused("y", fitted, [odd, *words[1:].tolist()], classes=["no", "yes"])
