"""Other machines, which compute independent parts of a release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


class Machines(ABC):
    """Machines that compute what they are asked to, as often as it takes.

    What is asked of them is a function of its arguments, keys of random streams among them: a part that is
    computed again, because a machine was lost, comes out as before. So what is released does not depend on
    which machines are lost, nor on when.

    `assumed`: what a guarantee assumes of them. `together`: into how many parts work is best cut.
    """

    assumed: tuple[str, ...]
    together: int

    @abstractmethod
    def results(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[Result]:
        """What the function makes of every part, each once, in their order.

        Parts are taken from the iterable when they are needed. Raises InvalidInput where the function does,
        or a machine fails.
        """
