"""Training of described runs on sums of clipped gradients over the partitions that workers hold."""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.budget.ledger import Ledger
from pabi.describe.runs import NoisySGD
from pabi.describe.scalar_losses import LinearLoss
from pabi.describe.vector_losses import LINEAR_LOSSES, executable
from pabi.execute.blocks import Rows, rows_in
from pabi.execute.cells import PLAIN, cells_of, typed, unmasked
from pabi.execute.engine import (
    PerRecordGradients,
    Trained,
    TrainOptions,
    clipped_sum,
    taken,
    train_and_keep,
)
from pabi.execute.hiding import read_only, refuse_unenforceable, returned
from pabi.execute.layouts import in_a_row
from pabi.execute.linear_gradients import LossGradients
from pabi.execute.records import Records, numbers_of
from pabi.execute.sources import CHANGED, frame_rows
from pabi.execute.sums import GradientSum, RemoteGradients, Total, UserRows
from pabi.integrations.dask.blocks import (
    Columns,
    PartitionedTable,
    blocks_of,
    read_at_once,
    refuse_apart,
)
from pabi.integrations.dask.tasks import (
    Hidden,
    Refusal,
    arithmetic,
    check_alike,
    check_client,
    gathered,
    release,
    trusted,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra, require
from pabi.numbers.rounding import Array

# What workers do: they hold partitions of the records, and sum the clipped gradients of some of their
# rows.
#
# Nothing here raises: what raises on a worker is logged there with the arguments, hidden iterates among
# them. A failure is a value that travels like any other, and no value shows in logs what it holds.


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

    `loss`: of a linear model, with so many `classes`; None where `own` computes the gradients.
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
            linear = LossGradients(self.loss, Records(X, **vars(self.declared)), y, self.classes)
            return linear if weights is None else linear.weighted(weights)
        assert self.own is not None
        for name, values in (("X", X), ("y", y)):
            require(
                values.dtype.kind != "f" or np.all(np.isfinite(values)),
                name,
                "expected finite numbers",
            )
        own = self.own
        return lambda x, rows: own(x, X[rows], y[rows])


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Rows that a worker holds. `size`: in bytes."""

    summary: Summary
    size: int
    gradients: PerRecordGradients | None
    run: NoisySGD

    def __sizeof__(self) -> int:
        return self.size  # by which a scheduler knows what it would cost to move


@dataclass(frozen=True)
class Summary:
    """What is known of a partition.

    `check`: a checksum of its rows. `arithmetic`: of the worker that says so. `labels`: those that are not 1,
    where targets are labels. `shapes`: of a row's features and target.
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

    `place`: which sum of which training it is a part of.
    """

    place: Place
    check: int
    count: int
    arithmetic: str
    value: Array


def held(recipe: Recipe, number: int, *cells: Any) -> Partition | Refusal:
    """A partition of these features, targets and weights, or of what functions in their place read."""
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
    return replace(partition.summary, arithmetic=arithmetic())


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
    groups = None if shares is None else _each_its_own(chosen, shares, partition.summary.rows)
    try:
        # A floating-point warning would report on a hidden iterate.
        with np.errstate(all="ignore"):
            total = clipped_sum(partition.run, partition.gradients, groups)
            value = total(read_only(point.value), chosen)
    except Exception as bad:
        return Refusal.of(bad)
    return PartialSum(place, partition.summary.check, rows_in(chosen), arithmetic(), value)


def _each_its_own(rows: Rows, shares: Array, count: int) -> UserRows:
    """Groups of one row each, whose rows have these shares."""
    every = np.zeros(count)
    every[rows] = shares
    return UserRows(count, np.arange(count), np.arange(count + 1), every, placed=True)


def _held(recipe: Recipe, number: int, *cells: Any) -> Partition:
    features, *beside = read_at_once(cells)
    if recipe.columns.names is not None:
        features, *beside = _cells(recipe.columns, features, *beside)
    X, y, *rest = (
        np.ascontiguousarray(unmasked(part)) for part in (features, *beside) if part is not None
    )
    for name, part in zip(("X", "y", "weights"), (X, y, *rest), strict=False):
        require(
            part.ndim != 0 and len(part) == len(X),
            "y" if name == "X" else name,
            "expected as many rows as X has",
        )
        kind = "other objects" if part.dtype.kind == "O" else part.dtype
        require(part.dtype.kind in PLAIN, name, f"expected numbers, got {kind}")
    if recipe.own is not None:
        X = _as_declared("X", X, recipe.columns.dtype)
        y = _as_declared("y", y, recipe.columns.target_dtype)
    signed = recipe.loss is not None and recipe.loss.response == "sign"
    check = 0
    for part in (X, y, *rest):
        check = zlib.crc32(part.reshape(-1).view(np.uint8).data, check)
    return Partition(
        summary=Summary(
            number=number,
            rows=len(X),
            check=check,
            arithmetic="",
            labels=frozenset(np.unique(y).tolist()) - {1} if signed else frozenset(),
            shapes=(X.shape[1:], y.shape[1:]),
        ),
        size=sum(part.nbytes for part in (X, y, *rest)),
        gradients=recipe.gradients(X, y, *rest) if len(X) else None,
        run=recipe.run,
    )


def _as_declared(name: str, cells: NDArray[Any], dtype: np.dtype[Any] | None) -> NDArray[Any]:
    """The cells in the type of their collection: one that a part had by itself would depend on its rows."""
    if dtype is None or cells.dtype == dtype:
        return cells
    require(
        np.can_cast(cells.dtype, dtype, "same_kind"),
        name,
        f"expected {dtype}, as the collection says, got {cells.dtype}",
    )
    with np.errstate(all="ignore"):  # of numbers too large, which are refused
        return cells.astype(dtype)


def _cells(columns: Columns, frame: Any, targets: Any, weights: Any) -> tuple[Any, Any, Any]:
    """The features, targets and weights of a part of a data frame."""
    assert columns.names is not None
    assert columns.dtype is not None
    names = list(columns.names)
    expected = [*names, *(one for one in (columns.target, columns.weight) if one is not None)]
    require(
        sorted(map(str, frame.columns)) == sorted(expected),
        "X",
        f"expected the columns {expected!r} in every partition",
    )
    targets = targets if columns.target is None else frame[columns.target]
    weights = weights if columns.weight is None else frame[columns.weight]
    return frame_rows(frame[names], names, columns.dtype), _plain(targets), _plain(weights)


def _plain(column: Any) -> Any:
    """The cells of a series; anything else as it is."""
    if not hasattr(column, "to_numpy"):
        return column
    cells = typed(cells_of(column))
    # No cell says of what type they are: truth values become any numbers.
    return cells if len(cells) or cells.dtype != object else cells.astype(bool)


TRUSTED = trusted("records, batches and hidden iterates")


class ClusterGradients(RemoteGradients):
    """The gradients of a table whose partitions the workers of `client` hold, until `close`.

    Raises InvalidInput where a partition is not what the recipe or the other partitions say.
    """

    def __init__(self, client: Any, recipe: Recipe, blocks: PartitionedTable) -> None:
        self.assumed = (*blocks.assumed, TRUSTED)
        self._client, self._training = client, uuid.uuid4().hex
        self._partitions = self._held(recipe, blocks)
        try:
            self._summaries = self._summarised()
            blocks.refuse_changed()
            self.ends = np.cumsum([one.rows for one in self._summaries])
            self.n = int(self.ends[-1])
            self.example = self._example(recipe)
        except BaseException:
            self.close()
            raise

    def sum_for(self, run: NoisySGD, groups: UserRows | None) -> GradientSum:
        """The sum of a batch's clipped gradients."""
        return _ClusterSum(self, groups)

    def close(self) -> None:
        """Lets the workers forget the partitions."""
        release(self._partitions)

    def partial_sums(
        self, x: Array, parts: Sequence[tuple[int, Rows, Any]], number: int
    ) -> Iterator[Array]:
        """The sums at `x` over the rows of some partitions, in their order.

        `parts`: (partition, its rows, their shares or None). `number`: of the sum in this training.
        """
        places: list[Place] = [(self._training, number, part) for part, _, _ in parts]
        values = self._answers(
            partial_sum,
            [part for part, _, _ in parts],
            ["-".join(("pabi-sum", *map(str, place))) for place in places],
            places,
            [Hidden((rows, shares)) for _, rows, shares in parts],
            point=Hidden(x),
        )
        for value, place, (_, rows, _) in zip(values, places, parts, strict=True):
            yield self._checked(value, place, rows_in(rows), x)

    def _checked(self, value: PartialSum, place: Place, count: int, x: Array) -> Array:
        """The part of the sum, if it is the one that was asked for."""
        require(
            (value.place, value.count) == (place, count),
            "client",
            "a worker answered another question than it was asked",
        )
        require(
            value.check == self._summaries[place[-1]].check,
            "X",
            f"{CHANGED} (partition {place[-1]})",
        )
        check_alike(self._summaries[0].arithmetic, value.arithmetic)
        return returned("client", value.value, x.shape)

    def _held(self, recipe: Recipe, blocks: PartitionedTable) -> list[Any]:
        """Futures of the partitions, of which the scheduler knows how to make them again."""
        dask = extra("dask", "dask")
        name = f"pabi-{self._training}"
        common = dask.delayed(recipe, name=f"{name}-recipe", traverse=False)
        make = dask.delayed(held, pure=False, traverse=False)
        parts = [
            make(common, i, *cells, dask_key_name=f"{name}-partition-{i}")
            for i, cells in enumerate(blocks.parts)
        ]
        return list(self._client.compute(parts))

    def _summarised(self) -> list[Summary]:
        numbers = range(len(self._partitions))
        keys = [f"pabi-{self._training}-summary-{i}" for i in numbers]
        summaries: list[Summary] = self._answers(summary, numbers, keys)
        for one in summaries:
            check_alike(summaries[0].arithmetic, one.arithmetic)
            require(
                one.shapes == summaries[0].shapes,
                "X",
                f"expected rows of shape {summaries[0].shapes[0]} with targets of shape "
                f"{summaries[0].shapes[1]}, as in the first partition, got {one.shapes[0]} and "
                f"{one.shapes[1]} in partition {one.number}",
            )
        require(sum(one.rows for one in summaries), "X", "expected at least one row, got none")
        require(
            len(frozenset.union(*(one.labels for one in summaries))) <= 1,
            "y",
            "expected labels all in {0, 1} or all in {-1, 1}",
        )
        return summaries

    def _answers(
        self,
        function: Callable[..., Any],
        partitions: Sequence[int],
        keys: list[str],
        *arguments: list[Any],
        **options: Any,
    ) -> list[Any]:
        """What the function returns on the workers, of each of these partitions once, in their order.

        `arguments`: beside the partition, one each. Raises InvalidInput where the cluster fails, or in the
        place of a refusal.
        """
        if not partitions:  # a batch of users without rows
            return []
        held = [self._partitions[number] for number in partitions]
        futures: list[Any] = []
        try:
            futures = self._client.map(function, held, *arguments, key=keys, pure=False, **options)
            values = gathered(self._client, futures)
        except InvalidInput:
            raise
        except Exception as bad:
            lost = [p for p, f in zip(partitions, futures, strict=False) if f.status != "finished"]
            where = f" at partition {lost[0]}" if lost else ""
            raise InvalidInput(
                "client", f"the cluster failed{where}: {type(bad).__name__}"
            ) from None
        finally:
            release(futures)
        for number, value in zip(partitions, values, strict=True):
            if isinstance(value, Refusal):
                raise InvalidInput(value.field, f"{value.message} (partition {number})")
        return values

    def _example(self, recipe: Recipe) -> Any:
        """The gradients of one public row, of zeros."""
        features, target = self._summaries[0].shapes
        if recipe.loss is None:
            return recipe.own
        require(
            len(features) == 1 and 0 not in features,
            "X",
            f"expected shape (n, d), got rows of shape {features}",
        )
        return recipe.gradients(
            np.zeros((1, *features)),
            np.zeros((1, *target), int),
            np.ones(1) if recipe.weighted else None,
        )


class _ClusterSum:
    """The sum of a batch's clipped gradients; its parts are numbered."""

    def __init__(self, gradients: ClusterGradients, groups: UserRows | None) -> None:
        self._gradients, self._groups, self._number = gradients, groups, 0

    def __call__(self, x: Array, rows: Rows) -> Array:
        numbers = numbers_of(rows) if self._groups is None else self._groups.rows(rows)
        self._number += 1
        total = Total(x.shape)
        for part in self._gradients.partial_sums(x, list(self._parts(numbers)), self._number):
            total.add(part)
        return total.value

    def _parts(self, numbers: NDArray[np.intp]) -> Iterator[tuple[int, Rows, Any]]:
        """(partition, rows in it, their shares) of every partition that has some, in order."""
        homes = np.searchsorted(self._gradients.ends, numbers, side="right")
        by_home = np.argsort(homes, kind="stable")
        for part, some in _runs(homes[by_home], by_home):
            own = numbers[some]
            first = int(self._gradients.ends[part - 1]) if part else 0
            shares = None if self._groups is None else self._groups.shares[own]
            yield part, in_a_row(own - first), shares


def _runs(
    values: NDArray[np.intp], beside: NDArray[np.intp]
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """(value, what stands beside its places) of every value of an ascending array, which may be empty."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    ends = np.append(starts, len(values))[1:]  # `np.split` of nothing is one piece
    for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(values[first]), beside[first:end]


def train(
    run: NoisySGD,
    X: Any,
    y: Any,
    *,
    client: Any,
    per_record_gradients: OwnGradients | None = None,
    x0: ArrayLike | None = None,
    feature_norm: float | None = None,
    intercept_scaling: float | None = None,
    ranges: Any = None,
    random_state: int | np.random.Generator | None = None,
    delta: float = 1e-5,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = False,
    ledger: Ledger | None = None,
    groups: ArrayLike | None = None,
    weights: Any = None,
) -> Trained:
    """The last iterate of `run` on the records that a cluster's workers hold, with its guarantee.

    The steps are those of `pabi.learn.train`. This process draws batches and noise and takes the steps; the
    iterate travels to the workers, and sums of clipped gradients come back. A step is taken with the sums of
    all partitions that have rows in its batch, of each once, added in the order of the partitions. On the
    same noise the iterate is that of the same table in memory, but for the rounding of sums.

    Parameters
    ----------
    run : NoisySGD
        What to do. Rows are numbered 0..n − 1, partition after partition.
    X : array or data frame of dask's, path, list of paths, or LargeTable
        The features. A path names Parquet, Feather or Arrow files, each of which is a partition, or an
        .npy file; every worker has to find it under that name.
    y : str, collection of dask's, array-like, or path of an .npy file
        The targets: the name of a column of X; a collection with the partitions of X; or, where X is an
        array, numbers in memory or an .npy file.
    client : distributed.Client
        The cluster. Its workers have the same pabi.
    per_record_gradients : callable, optional
        (x, features, targets) ↦ (m, *x.shape): each record's gradient at x, unclipped and without the
        regulariser, for (m, …) rows, never none. It travels to the workers and must not keep or show what it
        is given. None: those of `run.loss`, of a linear model.
    x0 : array, optional
        The starting point, chosen without looking at the data. None: zeros, for a linear model; of a softmax
        loss, x0 says how many classes there are.
    feature_norm : float, > 0, optional
        To which longer rows are scaled down. None: the norm that the loss states, where there is no
        intercept.
    intercept_scaling : float, > 0, optional
        κ: a last feature of constant κ.
    ranges : (2, d) or (2,) array, optional
        Public ranges that features are clipped to, then mapped onto [−1, 1].
    random_state : None, int or numpy Generator
        None (default): noise, permutations and sampled batches from a ChaCha generator keyed by the operating
        system of this machine. Anything else is for tests: a PrivacyWarning, and a guarantee that says so.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    checkpoint, resume : path, optional
        As of `pabi.learn.train`, on this machine. A run may be resumed on another cluster, from the same
        rows in the same order.
    checkpoint_seconds : float, ≥ 0, in seconds
        The least time between two writings of the checkpoint.
    progress : bool
        Whether to show steps and time on standard error.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before the first step.
    groups : (m,) array-like
        The user of every row, for a run with `unit="user"`, in memory.
    weights : as y, optional
        By what the gradient of each record is multiplied, in [0, 1], as `weighted` of the gradients of
        `pabi.learn` does. A record's weight depends on that record and public numbers alone. Not beside
        `per_record_gradients`, which may do so by itself.

    Returns
    -------
    Trained
        The last iterate, its guarantee, and `run`. The guarantee assumes that the cluster keeps to itself
        what it sees.

    Raises
    ------
    InvalidInput
        The extra `dask` is not installed. `client` is none, or its workers lack pabi, have another version,
        or compute in different ways. Rows are missing, not finite, or not the same in every pass; `y` has not
        as many. The cluster failed. Anything that `pabi.learn.train` refuses. Nothing was released.
    NotApplicable
        No analysis covers the run; nothing was released.
    BudgetExceeded
        Less is left in `ledger`; nothing was released.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    docs, "I have a cluster"; docs, "Theory", 9, for the sums.
    """
    refuse_unenforceable(run)
    check_client(client)
    declared = Declared(feature_norm, intercept_scaling, ranges)
    refuse_apart(groups)
    blocks = blocks_of(X, y, weights)
    if per_record_gradients is None:
        recipe = replace(_of_loss(run, declared, blocks.columns, x0), weighted=weights is not None)
    else:
        recipe = _of_callable(
            run, vars(declared) | {"weights": weights}, blocks.columns, per_record_gradients
        )
    gradients = ClusterGradients(client, recipe, blocks)
    if x0 is None and recipe.loss is not None:
        x0 = np.zeros(gradients.example.shape)
    options = TrainOptions(
        delta=delta,
        random_state=random_state,
        ledger=ledger,
        checkpoint=checkpoint,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
        groups=groups,
        assumed=taken(per_record_gradients),
    )
    try:
        return train_and_keep(None, run, gradients, x0, options)
    finally:
        gradients.close()


def _of_loss(run: NoisySGD, declared: Declared, columns: Columns, x0: ArrayLike | None) -> Recipe:
    """The gradients of the loss that is described. Raises InvalidInput where it is of no linear model."""
    require(
        run.loss.kind in LINEAR_LOSSES,
        "per_record_gradients",
        f"missing: the gradients of a loss of kind {run.loss.kind!r} are not known here",
    )
    parameters = dict(run.loss.parameters)
    loss = executable(run.loss.kind, **parameters)
    require(
        declared.feature_norm is not None or declared.intercept_scaling is None,
        "feature_norm",
        "missing: beside an intercept, the loss does not say how long rows are",
    )
    if declared.feature_norm is None:
        declared = replace(declared, feature_norm=parameters["feature_norm"])
    classes = parameters.get("classes")
    if loss.response == "class" and classes is None:
        if x0 is None or np.ndim(x0) != 2:
            raise InvalidInput("x0", "expected shape (d, K): it says how many classes there are")
        classes = int(np.shape(x0)[1])
    return Recipe(run, columns, declared, loss=loss, classes=classes)


def _of_callable(
    run: NoisySGD, beside: dict[str, Any], columns: Columns, gradients: OwnGradients
) -> Recipe:
    """The gradients that the caller computes. Raises InvalidInput where anything is stated `beside` them."""
    validate.function("per_record_gradients", gradients)
    for name, value in beside.items():
        require(
            value is None, name, "expected None beside per_record_gradients: rows go as they are"
        )
    return Recipe(run, columns, Declared(), own=gradients)
