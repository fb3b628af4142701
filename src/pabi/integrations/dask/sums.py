"""Sums of clipped gradients over records that the workers of a cluster hold.

Every sum is asked for by tasks of its own, one for each partition that has rows in it, and is made of their
results alone: of each exactly one, which says what it is a part of. They are added in the order of the
partitions, whichever worker made them and whenever. So a worker that is lost costs time, and what comes
twice, late or from another training has no place to go to.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.runs import NoisySGD
from pabi.execute.dense_blocks import Rows, rows_in
from pabi.execute.groups import UserRows
from pabi.execute.hiding import returned
from pabi.execute.layouts import in_a_row
from pabi.execute.records import numbers_of
from pabi.execute.sums import GradientSum, RemoteGradients, Total
from pabi.integrations.dask.blocks import PartitionedTable
from pabi.integrations.dask.partitions import (
    PartialSum,
    Place,
    Recipe,
    Summary,
    held,
    partial_sum,
    summary,
)
from pabi.integrations.dask.values import Hidden, Refusal
from pabi.integrations.dask.workers import check_alike, gathered, release, trusted
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra
from pabi.numbers.rounding import Array

TRUSTED = trusted("records, batches and hidden iterates")
_CHANGED = (
    "it changed while it was read: expected the same rows in every pass; nothing was released"
)


class ClusterGradients(RemoteGradients):
    """The gradients of a table whose partitions the workers of `client` hold, until `close`.

    Raises InvalidInput where a partition is not what the recipe or the other partitions say.
    """

    assumed = (TRUSTED,)

    def __init__(self, client: Any, recipe: Recipe, blocks: PartitionedTable) -> None:
        self._client, self._training = client, uuid.uuid4().hex
        self._partitions = self._held(recipe, blocks)
        try:
            self._summaries = self._summarised()
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
        if (value.place, value.count) != (place, count):
            raise InvalidInput("client", "a worker answered another question than it was asked")
        if value.check != self._summaries[place[-1]].check:
            raise InvalidInput("X", f"{_CHANGED} (partition {place[-1]})")
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
        numbers = list(range(len(self._partitions)))
        keys = [f"pabi-{self._training}-summary-{i}" for i in numbers]
        summaries: list[Summary] = self._answers(summary, numbers, keys)
        for one in summaries:
            check_alike(summaries[0].arithmetic, one.arithmetic)
            if one.shapes != summaries[0].shapes:
                raise InvalidInput(
                    "X",
                    f"expected rows of shape {summaries[0].shapes[0]} with targets of shape "
                    f"{summaries[0].shapes[1]}, as in the first partition, got {one.shapes[0]} and "
                    f"{one.shapes[1]} in partition {one.number}",
                )
        if not sum(one.rows for one in summaries):
            raise InvalidInput("X", "expected at least one row, got none")
        if len(frozenset.union(*(one.labels for one in summaries))) > 1:
            raise InvalidInput("y", "expected labels all in {0, 1} or all in {-1, 1}")
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

        `arguments`: beside the partition, one each. `options`: the same for all. Raises InvalidInput
        where the cluster fails, or in the place of a refusal.
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
        if len(features) != 1 or 0 in features:
            raise InvalidInput("X", f"expected shape (n, d), got rows of shape {features}")
        weights = np.ones(1) if recipe.weighted else None
        return recipe.gradients(np.zeros((1, *features)), np.zeros((1, *target), int), weights)


class _ClusterSum:
    """The sum of a batch's clipped gradients; its parts are numbered."""

    def __init__(self, gradients: ClusterGradients, groups: UserRows | None) -> None:
        self._gradients, self._groups, self._number = gradients, groups, 0
        self._ends = gradients.ends

    def __call__(self, x: Array, rows: Rows) -> Array:
        numbers = numbers_of(rows) if self._groups is None else self._groups.rows(rows)
        self._number += 1
        total = Total(x.shape)
        for part in self._gradients.partial_sums(x, list(self._parts(numbers)), self._number):
            total.add(part)
        return total.value

    def _parts(self, numbers: NDArray[np.intp]) -> Iterator[tuple[int, Rows, Any]]:
        """(partition, rows in it, their shares) of every partition that has some, in order."""
        homes = np.searchsorted(self._ends, numbers, side="right")
        by_home = np.argsort(homes, kind="stable")
        for part, some in _runs(homes[by_home], by_home):
            own = numbers[some]
            first = int(self._ends[part - 1]) if part else 0
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
