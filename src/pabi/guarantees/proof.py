"""What an analysis hands over besides its guarantee: a proof, which knows how to write itself.

The envelope, `pabi.guarantees.certificate`, adds who is protected and what is assumed; the checker reads
it without knowing who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


class Proof(Protocol):
    """What a stranger needs to check a guarantee."""

    @property
    def theorem(self) -> str:
        """The name by which the checker knows what is to be checked."""

    def written(self) -> dict[str, Any]:
        """The body of the certificate, as JSON can hold it; what it takes is solved here if it was not yet.

        Returns
        -------
        dict

        Raises
        ------
        InvalidInput
            For what JSON cannot hold.
        """


@dataclass(frozen=True, eq=False)
class Written:
    """The proof by a theorem whose body a function writes, once somebody asks for it."""

    theorem: str
    written: Callable[[], dict[str, Any]]
