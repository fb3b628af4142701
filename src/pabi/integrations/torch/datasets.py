"""Records out of PyTorch's datasets: pairs (input, target), by their numbers, in order or a few at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pabi.execute.hiding import unshown
from pabi.integrations.torch.library import torch
from pabi.numbers.errors import InvalidInput

_PAIRS = "expected a map-style dataset of pairs (input tensor, target)"


@dataclass(frozen=True, eq=False)
class Pairs:
    """A dataset of pairs (input tensor, target).

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
        collate = torch().utils.data.default_collate
        return _pair(unshown("dataset", lambda: collate([self.dataset[int(i)] for i in rows])))

    def in_order(self, size: int) -> Iterator[tuple[Any, Any]]:
        """(inputs, targets) of all rows, `size` at a time."""
        if self.tensors is not None:
            inputs, targets = self.tensors
            for first in range(0, len(self), size):
                yield inputs[first : first + size], targets[first : first + size]
            return
        loader = torch().utils.data.DataLoader(self.dataset, size, num_workers=self.workers)
        batches = unshown("dataset", lambda: iter(loader))
        while (batch := unshown("dataset", lambda: next(batches, None))) is not None:
            yield _pair(batch)


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
