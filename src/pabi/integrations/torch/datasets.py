"""Records out of PyTorch's datasets: pairs (input, target), by their numbers, in order or a few at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from pabi.execute.hiding import unshown
from pabi.integrations.torch.library import torch
from pabi.numbers.errors import InvalidInput

_PAIRS = "expected a map-style dataset of pairs (input tensor, target)"


@dataclass(frozen=True, eq=False)
class Pairs:
    """A dataset of pairs (input tensor, target), all of the dtypes and shapes of the first.

    PyTorch stacks numbers of several dtypes as those of one, by which a record would change what the others
    are. Here each is put by itself into a batch whose dtypes and shapes are fixed.

    `workers`: processes that fetch records where all of them are read in order.
    """

    dataset: Any
    workers: int = 0

    def __post_init__(self) -> None:
        if not (hasattr(self.dataset, "__len__") and hasattr(self.dataset, "__getitem__")):
            kind = type(self.dataset).__name__
            raise InvalidInput("dataset", f"{_PAIRS}, which has a length, got a {kind}")
        if not len(self.dataset):
            raise InvalidInput("dataset", f"{_PAIRS}, got none")
        self.some([0])

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def tensors(self) -> tuple[Any, Any] | None:
        """All inputs and all targets, where the dataset is nothing but these two tensors."""
        data = torch().utils.data
        if type(self.dataset) is data.TensorDataset and len(self.dataset.tensors) == 2:
            return self.dataset.tensors  # type: ignore[no-any-return]
        return None

    def some(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """(inputs, targets) of these rows, stacked."""
        if self.tensors is not None:
            inputs, targets = self.tensors
            chosen = torch().as_tensor(rows)
            return _pair((inputs[chosen], targets[chosen]))
        records = self.dataset
        return unshown("dataset", lambda: _stacked(self._like, [records[int(i)] for i in rows]))

    @cached_property
    def _like(self) -> tuple[Any, Any]:
        """The first record, of whose pair only dtypes and shapes are used."""
        return unshown("dataset", lambda: _converted(self.dataset[0]))

    def in_order(self, size: int) -> Iterator[tuple[Any, Any]]:
        """(inputs, targets) of all rows, `size` at a time."""
        if self.tensors is not None:
            inputs, targets = self.tensors
            for first in range(0, len(self), size):
                yield inputs[first : first + size], targets[first : first + size]
            return
        together = partial(_stacked, self._like)
        loader = torch().utils.data.DataLoader(
            self.dataset, size, num_workers=self.workers, collate_fn=together
        )
        batches = unshown("dataset", lambda: iter(loader))
        while (batch := unshown("dataset", lambda: next(batches, None))) is not None:
            yield batch


def _stacked(like: tuple[Any, Any], records: list[Any]) -> tuple[Any, Any]:
    """(inputs, targets) in memory whose layout, by which kernels are chosen, no record has a say in."""
    pytorch = torch()
    inputs, targets = (
        pytorch.empty((len(records), *part.shape), dtype=part.dtype) for part in like
    )
    for row, record in enumerate(records):
        for part, value in zip((inputs, targets), _converted(record), strict=True):
            if (value.dtype, value.shape) != (part.dtype, part.shape[1:]):
                raise InvalidInput(
                    "dataset", f"{_PAIRS}, all of the dtypes and shapes of the first, got others"
                )
            part[row] = value.detach()
    return inputs, targets


def _converted(record: Any) -> tuple[Any, Any]:
    """The pair that a record is, as tensors, whatever other records are."""
    return _pair([_tensor(part) for part in record] if isinstance(record, tuple | list) else record)


def _tensor(part: Any) -> Any:
    if isinstance(part, int | float | np.ndarray | np.generic):
        doubles = torch().float64 if type(part) is float else None
        return torch().as_tensor(part, dtype=doubles)
    return part


def _pair(batch: Any) -> tuple[Any, Any]:
    pytorch = torch()
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise InvalidInput("dataset", f"{_PAIRS}, got a {type(batch).__name__}")
    if not all(isinstance(part, pytorch.Tensor) for part in batch):
        kinds = " and ".join(type(part).__name__ for part in batch)
        raise InvalidInput("dataset", f"{_PAIRS}, got {kinds}")
    if any(part.is_complex() for part in batch):
        raise InvalidInput("dataset", f"{_PAIRS}, both of real numbers, got complex ones")
    return batch[0], batch[1]


def made_up(like: Any, count: int, seed: int) -> Any:
    """`count` rows of the shape and type of the rows of `like`, which no record has a say in.

    Numbers are normal; integers, which may be those of words or classes, are 0 or 1.
    """
    pytorch = torch()
    generator = pytorch.Generator().manual_seed(seed)
    shape = (count, *like.shape[1:])
    if like.is_floating_point() or like.is_complex():
        return pytorch.randn(shape, generator=generator, dtype=pytorch.float64).to(like.dtype)
    return pytorch.randint(0, 2, shape, generator=generator).to(like.dtype)
