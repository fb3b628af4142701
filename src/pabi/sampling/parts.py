"""Draws that are computed here, or in independent parts on other machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, Self

import numpy as np

from pabi.execute.machines import Machines
from pabi.execute.randomness import Randomness, keyed_generator
from pabi.numbers.rounding import Array


class Work(Protocol):
    """Independent draws, all but their randomness."""

    def __len__(self) -> int:
        """How many there are."""

    def part(self, some: range) -> Self:
        """Those alone."""

    def values(self, generator: np.random.Generator) -> Array:
        """(len(self), …) what is released of them."""


def drawn(work: Work, randomness: Randomness, machines: Machines | None) -> Array:
    """(len(work), …) draws. Every part has a stream of its own; every local here is secret but the result."""
    if machines is None:
        return work.values(randomness.generator())
    parts = _cut(len(work), machines.together)
    keys = randomness.keys(len(parts))
    questions = zip(parts, keys, strict=True)
    return np.concatenate(list(machines.results(_Answer(work), questions)))


@dataclass(frozen=True, eq=False, repr=False)
class _Answer:
    """The draws of a part as a function of its key."""

    work: Work

    def __call__(self, question: tuple[range, bytes]) -> Array:
        some, key = question
        return self.work.part(some).values(keyed_generator(key))


def _cut(count: int, parts: int) -> Sequence[range]:
    """0..count − 1 in at most so many parts, none empty, as equal as can be."""
    parts = max(1, min(parts, count))
    ends = [count * i // parts for i in range(parts + 1)]
    return [range(*ends) for ends in pairwise(ends)]
