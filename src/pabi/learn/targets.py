"""Labels, targets and weights as estimators take them: each from its own cell, and from what is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from pabi.execute.sources import Parts
from pabi.features.cells import PLAIN, cells_of, columns_of, doubles_of, is_missing, table_of, typed
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, warn_once
from pabi.numbers.rounding import TINY, Array

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


# Weights of classes: public numbers by which a record's loss is multiplied.
#
# They are brought to a largest of 1. A record's gradient is then at most as long as without weights, and
# its loss at most as curved, so that every proof, and the noise, stay as they are.


_EXPECTED = (
    "expected a dict from every class to a number > 0, public and not computed from the labels"
)


def class_weights(stated: Any, classes: NDArray[Any]) -> Array:
    """(K,) weights in (0, 1], the largest 1, of the `classes` in their order.

    Raises InvalidInput naming `class_weight`.
    """
    if not isinstance(stated, Mapping):
        counted = isinstance(stated, str) and stated == "balanced"
        why = ': "balanced" counts the labels, which are private' if counted else ""
        raise InvalidInput("class_weight", f"{_EXPECTED}, got {validate.excerpt(stated)}{why}")
    labels = classes.tolist()
    for label in stated:
        if label not in labels:
            raise InvalidInput("class_weight", f"{_EXPECTED}; there is no class {label!r}")
    for label in labels:
        if label not in stated:
            raise InvalidInput("class_weight", f"{_EXPECTED}; missing: class {label!r}")
    weights = [validate.number("class_weight", stated[label], above=0.0) for label in labels]
    return np.maximum(np.divide(weights, max(weights)), TINY)


# Weights of records: numbers up to a public largest, by which a record's loss is multiplied.
#
# They are divided by the largest that there may be. A record's gradient is then at most as long as
# without weights, and its loss at most as curved, so that every proof, and the noise, stay as they are.


_BEYOND = (
    "some sample weights exceed max_sample_weight and were taken as that: give a larger max_sample_weight, "
    "from public knowledge; this warning depends on the data: keep it to yourself"
)


def sample_weights(stated: Any, most: Any, rows: int) -> Parts | None:
    """(rows,) weights in [0, 1], the stated ones over `most`; None where none are stated.

    Warns where a weight is above `most`. Raises InvalidInput naming
    `sample_weight` or `max_sample_weight`; no message shows data.
    """
    largest = None if most is None else validate.number("max_sample_weight", most, above=0.0)
    if stated is None:
        return None
    if largest is None:
        raise InvalidInput(
            "max_sample_weight",
            "missing: sample_weight needs the largest weight there may be, a public number",
        )
    weights = _numbers(stated, rows)
    if (weights > largest).any():
        warn_once(_BEYOND, UserWarning)
    within = np.minimum(np.minimum(weights, largest) / largest, 1.0)
    return Parts.of(within, "sample_weight")


def _numbers(stated: Any, rows: int) -> Array:
    weights = doubles_of("sample_weight", cells_of(stated))
    if weights.shape != (rows,):
        raise InvalidInput("sample_weight", "expected one number a row of X")
    if not np.all((weights >= 0.0) & np.isfinite(weights)):
        raise InvalidInput("sample_weight", "expected finite numbers ≥ 0")
    return weights


def times(one: Parts | None, other: Parts | None) -> Parts | None:
    """The product of weights, where there are some."""
    if one is None or other is None:
        return other if one is None else one
    return one.times(other)
