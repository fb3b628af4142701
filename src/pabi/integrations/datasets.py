"""Datasets of PyTorch that are put together of others: whether a record is in one several times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.errors import extra

REPEATED = (
    "some records several times, by a Subset or a ConcatDataset: each would count as often as it is there, "
    "and a run counts it once"
)
_LONGEST = 40  # bits of a record's number


def repeats(dataset: Any) -> bool:
    """Whether a record of another dataset is in this one several times.

    Subsets and concatenations are looked through where they are PyTorch's own. No record is looked at.
    """
    data = extra("torch.utils.data", "torch")
    if type(dataset) not in (data.Subset, data.ConcatDataset):
        return False
    places = _places(data, dataset, {})
    return len(np.unique(places)) < len(places)


def _places(data: Any, dataset: Any, bases: dict[int, int]) -> NDArray[np.int64]:
    """A number for every record, the same for the same record of the same dataset.

    `bases`: by the identity of a dataset that is not looked through, the number of its first record.
    """
    if type(dataset) is data.ConcatDataset:
        return np.concatenate([_places(data, each, bases) for each in dataset.datasets])
    if type(dataset) is data.Subset and hasattr(dataset.dataset, "__len__"):
        indices = np.asarray(dataset.indices)
        if indices.ndim == 1 and indices.dtype.kind in "iu":  # −1 is the last record, as of a list
            chosen: NDArray[np.int64] = _places(data, dataset.dataset, bases)[indices]
            return chosen
    first = bases.setdefault(id(dataset), len(bases) << _LONGEST)
    return np.arange(first, first + len(dataset))
