"""Labels and targets as estimators take them: each from its own cell, and from what is declared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from pabi.features.cells import PLAIN, cells_of, columns_of, doubles_of, is_missing, table_of, typed
from pabi.numbers.errors import InvalidInput

_UNDECLARED = "it holds a label that is not among the declared classes"
_MIXED = "expected labels that are all text, or all numbers"


def labels_in(y: Any, *, declared: bool) -> Any:
    """The labels of a table in memory: of one type, or as they are where scikit-learn's checks refuse them.

    `declared`: whether the classes are. Raises InvalidInput naming `y`, and no label.
    """
    if y is None or columns_of(y) is not None or hasattr(y, "tocsr"):
        return y
    cells = cells_of(y)
    return checked_labels(cells, declared=declared) if cells.ndim == 1 and cells.size else cells


def checked_labels(cells: NDArray[Any], *, declared: bool) -> NDArray[Any]:
    """(m,) labels, one in every row, of one type. Raises InvalidInput naming `y`, and no label."""
    labels = typed(cells[:, 0] if cells.ndim == 2 and cells.shape[1] == 1 else cells)
    if labels.ndim != 1:
        raise InvalidInput("y", "expected one label a row")
    if labels.dtype.kind == "c":
        raise InvalidInput("y", f"Complex data not supported: expected labels, got {labels.dtype}")
    missing = labels.dtype.kind == "f" and bool(np.any(np.isnan(labels)))
    if missing or (labels.dtype.kind == "O" and any(map(is_missing, labels.tolist()))):
        raise InvalidInput("y", "Input y contains NaN: expected one label a row, in every row")
    if labels.dtype.kind not in f"{PLAIN}UO" or not (declared or _are_text(labels)):
        raise InvalidInput("y", _MIXED)
    return labels


def _are_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind != "O" or all(isinstance(one, str) for one in labels.tolist())


def codes_among(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """The numbers of the labels' classes. Raises InvalidInput."""
    if labels.dtype.kind == "O":
        places = {label: code for code, label in enumerate(classes.tolist())}
        try:
            listed = [places[label] for label in labels.tolist() if not isinstance(label, complex)]
            return np.array(listed, dtype=np.intp).reshape(labels.shape)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            pass  # raised outside of it: a KeyError shows the label
        raise InvalidInput("y", _UNDECLARED)
    if (classes.dtype.kind in PLAIN) != (labels.dtype.kind in PLAIN):
        raise InvalidInput("y", _UNDECLARED)
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    if not np.all(classes[codes] == labels):
        raise InvalidInput("y", _UNDECLARED)
    return codes


def class_set(classes: Any) -> NDArray[Any]:
    """The distinct declared classes, in order. Raises InvalidInput."""
    try:
        stated = typed(cells_of(classes))
        labels, kind = np.unique(stated), type_of_target(stated)
    except (TypeError, ValueError):
        raise InvalidInput("classes", "expected labels of one kind") from None
    if kind not in ("binary", "multiclass") or len(labels) < 2:
        raise InvalidInput("classes", "expected a one-dimensional array of two labels or more")
    return labels


def numbers_in(y: Any) -> Any:
    """The targets of a table in memory as doubles, NaN where one is missing. Raises InvalidInput."""
    if y is None or hasattr(y, "tocsr"):
        return y
    return doubles_of("y", targets_of(y))


def targets_of(y: Any) -> NDArray[Any]:
    """The cells of targets in memory, (n,) or (n, k), none of them converted. Raises InvalidInput."""
    cells = table_of(y, "y") if columns_of(y) is not None else cells_of(y)
    if cells.dtype == object and cells.ndim == 1 and any(np.ndim(cell) for cell in cells[:1]):
        return table_of(y, "y")
    return cells
