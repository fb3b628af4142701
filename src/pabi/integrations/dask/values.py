"""Values that travel between this process and workers, which show nothing of what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pabi.numbers.errors import InvalidInput


@dataclass(frozen=True, eq=False, repr=False)
class Hidden:
    """A value that nobody but pabi is to see."""

    value: Any


@dataclass(frozen=True)
class Refusal:
    """Why a worker does not compute something, in one line without data."""

    field: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Self:
        """What an error says: our own its line, any other its kind alone."""
        if isinstance(error, InvalidInput):
            return cls(error.field, str(error).removeprefix(f"{error.field}: "))
        return cls("client", f"a worker failed: {type(error).__name__}")
