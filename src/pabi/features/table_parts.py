"""Tables that are read in passes, as transformers know them that learn nothing from their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray


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
