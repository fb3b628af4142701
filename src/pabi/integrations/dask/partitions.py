"""What workers do: they hold partitions of the records, and sum the clipped gradients of some of their rows.

Nothing here raises: what raises on a worker is logged there with the arguments, hidden iterates among them.
A failure is a value that travels like any other, and no value shows in logs what it holds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.linear_loss import LinearLoss
from pabi.describe.runs import NoisySGD
from pabi.execute.dense_blocks import Rows, rows_in
from pabi.execute.engine import PerRecordGradients, clipped_sum
from pabi.execute.groups import UserRows
from pabi.execute.hiding import read_only
from pabi.execute.linear_gradients import LossGradients
from pabi.execute.records import Records
from pabi.execute.sources import frame_rows
from pabi.features.cells import PLAIN, cells_of, typed
from pabi.integrations.dask.blocks import Columns, Reader
from pabi.integrations.dask.values import Hidden, Refusal
from pabi.integrations.dask.workers import arithmetic
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

OwnGradients = Callable[[Array, NDArray[Any], NDArray[Any]], Any]  # (x, features, targets)
Place = tuple[str, int, int]  # (training, number of the sum, partition)


@dataclass(frozen=True)
class Declared:
    """What is public about rows; see `Records`."""

    feature_norm: float | None = None
    intercept_scaling: float | None = None
    ranges: Any = None


@dataclass(frozen=True, eq=False)
class Recipe:
    """How gradients follow from the rows of a partition.

    `loss`: of a linear model, with so many `classes`; None where `own` computes the gradients. `weighted`:
    whether records have weights.
    """

    run: NoisySGD
    columns: Columns
    declared: Declared
    loss: LinearLoss | None = None
    classes: int | None = None
    own: OwnGradients | None = None
    weighted: bool = False

    def gradients(
        self, X: NDArray[Any], y: NDArray[Any], weights: NDArray[Any] | None = None
    ) -> PerRecordGradients:
        """Those of some rows, with weights if there are some. Raises InvalidInput."""
        if self.loss is not None:
            records = Records(X, **vars(self.declared))
            linear = LossGradients(self.loss, records, y, self.classes)
            return linear if weights is None else linear.weighted(weights)
        assert self.own is not None
        for name, values in (("X", X), ("y", y)):
            if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
                raise InvalidInput(name, "expected finite numbers")
        own = self.own
        return lambda x, rows: own(x, X[rows], y[rows])


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Rows that a worker holds. `check`: a checksum of them. `size`: in bytes."""

    number: int
    rows: int
    check: int
    size: int
    labels: frozenset[float]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    gradients: PerRecordGradients | None
    run: NoisySGD

    def __sizeof__(self) -> int:
        return self.size  # by which a scheduler knows what it would cost to move


@dataclass(frozen=True)
class Summary:
    """What is known of a partition.

    `labels`: those that are not 1, where targets are labels. `shapes`: of a row's features and target.
    """

    number: int
    rows: int
    check: int
    arithmetic: str
    labels: frozenset[float] = field(repr=False)
    shapes: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False, repr=False)
class PartialSum:
    """The sum of the clipped gradients of some rows of a partition.

    `place`: which sum of which training it is a part of. `count`: of the rows.
    """

    place: Place
    check: int
    count: int
    arithmetic: str
    value: Array


def held(recipe: Recipe, number: int, *cells: Any) -> Partition | Refusal:
    """A partition of these features, targets and weights, or of what `Reader`s read."""
    try:
        return _held(recipe, number, *cells)
    except InvalidInput as no:
        return Refusal.of(no)
    except Exception as bad:
        return Refusal("X", f"cannot be read: {type(bad).__name__}")


def summary(partition: Partition | Refusal) -> Summary | Refusal:
    """What is known of a partition."""
    if isinstance(partition, Refusal):
        return partition
    return Summary(
        partition.number,
        partition.rows,
        partition.check,
        arithmetic(),
        partition.labels,
        partition.shapes,
    )


def partial_sum(
    partition: Partition | Refusal, place: Place, rows: Hidden, point: Hidden
) -> PartialSum | Refusal:
    """The sum at a point over some rows of the partition.

    `rows`: holds their numbers, and the shares that they have of their users' gradients or None.
    """
    if isinstance(partition, Refusal):
        return partition
    assert partition.gradients is not None
    chosen, shares = rows.value
    groups = None if shares is None else _each_its_own(chosen, shares, partition.rows)
    try:
        # A floating-point warning would report on a hidden iterate.
        with np.errstate(all="ignore"):
            total = clipped_sum(partition.run, partition.gradients, groups)
            value = total(read_only(point.value), chosen)
    except Exception as bad:
        return Refusal.of(bad)
    return PartialSum(place, partition.check, rows_in(chosen), arithmetic(), value)


def _each_its_own(rows: Rows, shares: Array, count: int) -> UserRows:
    """Groups of one row each, whose rows have these shares."""
    every = np.zeros(count)
    every[rows] = shares
    return UserRows(count, np.arange(count), np.arange(count + 1), every, placed=True)


def _held(recipe: Recipe, number: int, *cells: Any) -> Partition:
    features, *beside = (part.read() if isinstance(part, Reader) else part for part in cells)
    if recipe.columns.names is not None:
        features, *beside = _cells(recipe.columns, features, *beside)
    X, y, *rest = (np.ascontiguousarray(part) for part in (features, *beside) if part is not None)
    for name, part in zip(("X", "y", "weights"), (X, y, *rest), strict=False):
        if part.ndim == 0 or len(part) != len(X):
            raise InvalidInput("y" if name == "X" else name, "expected as many rows as X has")
        if part.dtype.kind not in PLAIN:
            raise InvalidInput(name, f"expected numbers, got {_kind(part)}")
    signed = recipe.loss is not None and recipe.loss.response == "sign"
    check = 0
    for part in (X, y, *rest):
        check = zlib.crc32(_bytes(part), check)
    return Partition(
        number=number,
        rows=len(X),
        check=check,
        size=sum(part.nbytes for part in (X, y, *rest)),
        labels=frozenset(np.unique(y).tolist()) - {1} if signed else frozenset(),
        shapes=(X.shape[1:], y.shape[1:]),
        gradients=recipe.gradients(X, y, *rest) if len(X) else None,
        run=recipe.run,
    )


def _cells(columns: Columns, frame: Any, targets: Any, weights: Any) -> tuple[Any, Any, Any]:
    """The features, targets and weights of a part of a data frame."""
    assert columns.names is not None
    assert columns.dtype is not None
    names = list(columns.names)
    expected = [*names, *(one for one in (columns.target, columns.weight) if one is not None)]
    if sorted(map(str, frame.columns)) != sorted(expected):
        raise InvalidInput("X", f"expected the columns {expected!r} in every partition")
    targets = targets if columns.target is None else frame[columns.target]
    weights = weights if columns.weight is None else frame[columns.weight]
    return frame_rows(frame[names], names, columns.dtype), _plain(targets), _plain(weights)


def _plain(column: Any) -> Any:
    """The cells of a series; anything else as it is."""
    return typed(cells_of(column)) if hasattr(column, "to_numpy") else column


def _kind(cells: NDArray[Any]) -> str:
    return "other objects" if cells.dtype.kind == "O" else str(cells.dtype)


def _bytes(values: NDArray[Any]) -> Any:
    return values.reshape(-1).view(np.uint8)
