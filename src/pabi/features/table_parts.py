"""Tables that are read in passes, as what takes them part by part knows them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray


class TablePart(NamedTuple):
    """Some rows of a large table, of whose columns it is known that they are the right ones.

    `cells`: (m, d).
    """

    cells: NDArray[Any]


class PassesTable(ABC):
    """A table that is read in passes, as transformers know it that learn nothing from its rows."""

    @abstractmethod
    def introduce(self, transformer: Any, *beside: Any) -> None:
        """Sets what scikit-learn's checks of X set: how many columns there are, and their names.

        `beside`: what stands beside the features; of it, names are those of columns.
        """

    @abstractmethod
    def made_by(self, transformer: Any, change: Callable[[TablePart], NDArray[Any]]) -> PassesTable:
        """The table of what `change` makes of some rows, of each by itself, anew in every pass.

        Raises InvalidInput where this table has other columns than the one that was introduced.
        """
