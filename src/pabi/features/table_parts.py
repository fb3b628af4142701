"""Tables that are read in passes, as transformers know them that learn nothing from their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.features.cells import PLAIN, doubles_of
from pabi.numbers.errors import InvalidInput


class PassesTable(ABC):
    """A table that is read in passes."""

    @abstractmethod
    def introduce(self, step: Any, *beside: Any) -> None:
        """Sets what scikit-learn's checks of X set: how many columns there are, and their names.

        `beside`: what stands beside the features; of it, names are those of columns.
        """

    @abstractmethod
    def made_by(self, step: Any, change: Callable[[NDArray[Any]], NDArray[Any]]) -> PassesTable:
        """The table of what `change` makes of some rows, of each by itself, anew in every pass.

        Raises InvalidInput where this table has other columns than the one that was introduced.
        """


def checked_part(
    cells: NDArray[Any],
    *,
    dtype: Any = (),
    ensure_all_finite: bool | str = True,
    sparse: bool = True,
) -> NDArray[Any]:
    """What `checked` returns of some rows of a large table, whose columns are the right ones."""
    if dtype is None:
        return cells
    if cells.dtype.kind not in PLAIN:
        cells = doubles_of("X", cells)
    if cells.dtype.kind == "f" and ensure_all_finite is True and not np.all(np.isfinite(cells)):
        raise InvalidInput("X", "expected finite numbers, got NaN or infinity")
    if cells.dtype.kind == "f" and ensure_all_finite == "allow-nan" and np.any(np.isinf(cells)):
        raise InvalidInput(
            "X", "expected finite numbers, or NaN where one is missing, got infinity"
        )
    return cells if dtype == () else cells.astype(dtype, copy=False)
