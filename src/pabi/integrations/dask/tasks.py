"""Independent parts of a release as tasks of a cluster: each a function of its arguments, and none raises."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from pabi.execute.machines import Machines, Part, Result
from pabi.integrations.dask.values import Hidden, Refusal
from pabi.integrations.dask.workers import (
    arithmetic,
    arithmetic_of,
    check_alike,
    check_client,
    gathered,
    release,
    trusted,
)
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra

_AHEAD = 2  # tasks for each thread of the cluster that are asked for at once
_ANY_SIZE = 1 << 60  # bytes of what travels once for all tasks: Dask would warn of 10 MB


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """What a worker made of a part. `place`: (of which work, the number of the part)."""

    place: tuple[str, int]
    arithmetic: str
    value: Any


def itself(function: Hidden) -> Hidden:
    """What all tasks of a work share, as a task of its own: a worker that is lost loses a copy."""
    return function


def answer(function: Hidden, place: tuple[str, int], part: Hidden) -> Answer | Refusal:
    """What the function makes of the part."""
    try:
        # A floating-point warning would report on a hidden iterate.
        with np.errstate(all="ignore"):
            return Answer(place, arithmetic(), function.value(part.value))
    except Exception as bad:
        return Refusal.of(bad)


class Cluster(Machines):
    """The workers of a client of Dask's.

    `noun`: of a task, in its name. `sight`: what the cluster sees, for the assumption. Raises InvalidInput
    unless there are workers, with this pabi, that compute alike.
    """

    def __init__(self, client: Any, noun: str, sight: str) -> None:
        check_client(client)
        self._client, self._noun = client, noun
        self._arithmetic = arithmetic_of(client)
        self.assumed = (trusted(sight),)
        self.together = max(1, sum(client.nthreads().values()))

    def results(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[Result]:
        """What the function makes of every part, each once, in their order.

        Only a few tasks for each thread are asked for at once. Raises InvalidInput.
        """
        work, questions, count = uuid.uuid4().hex, enumerate(parts), 0
        shared = self._submit(f"{self._noun}s-{work}", itself, Hidden(function))
        futures: deque[Any] = deque()
        try:
            while True:
                for number, part in islice(questions, _AHEAD * self.together - len(futures)):
                    place = (work, number)
                    name = f"{self._noun}-{work}-{number}"
                    futures.append(self._submit(name, answer, shared, place, Hidden(part)))
                if not futures:
                    return
                value = self._value(futures[0], (work, count))
                release([futures.popleft()])
                count += 1
                yield value
        finally:
            release([shared, *futures])

    def _submit(self, name: str, function: Any, *arguments: Any) -> Any:
        config = extra("dask", "dask").config
        try:
            with config.set({"distributed.admin.large-graph-warning-threshold": _ANY_SIZE}):
                return self._client.submit(function, *arguments, key=f"pabi-{name}", pure=False)
        except Exception as bad:
            raise InvalidInput("client", f"cannot send it work: {type(bad).__name__}") from None

    def _value(self, future: Any, place: tuple[str, int]) -> Any:
        try:
            (value,) = gathered(self._client, [future])
        except InvalidInput:
            raise
        except Exception as bad:
            raise InvalidInput("client", f"the cluster failed: {type(bad).__name__}") from None
        if isinstance(value, Refusal):
            raise InvalidInput(value.field, value.message)
        if value.place != place:
            raise InvalidInput("client", "a worker answered another question than it was asked")
        check_alike(self._arithmetic, value.arithmetic)
        return value.value
