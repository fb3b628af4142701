"""The order of the records: which rows each batch holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.errors import InvalidInput
from pabi.learn.records import Rows
from pabi.runs import NoisySGD

_REDRAWN = {"full_batch": "never", "cyclic": "never", "shuffle_once": "once", "reshuffle": "epoch"}


class Order:
    """Serves the batches of a run, one a step; secret where the batches are shuffled.

    `permutation`: the one in force, None where the rows keep their order. It is what a checkpoint
    must hold to go on in the same order.
    """

    def __init__(
        self, run: NoisySGD, generator: np.random.Generator, permutation: Any = None
    ) -> None:
        if run.batches.kind not in _REDRAWN:
            kinds = ", ".join(_REDRAWN)
            raise InvalidInput("batches", f"expected one of {kinds}, got {run.batches.kind}")
        self._n, self._size, self._per_epoch = run.n, run.batch_size, run.steps_per_epoch
        self._redrawn = _REDRAWN[run.batches.kind]
        self._generator = generator
        self.permutation: NDArray[np.intp] | None = permutation

    def batch(self, step: int) -> Rows:
        """The rows of `step` (0-based); steps are asked for in order."""
        place = step % self._per_epoch
        due = self._redrawn == "epoch" and place == 0
        if due or (self._redrawn == "once" and self.permutation is None):
            self.permutation = self._generator.permutation(self._n)
        first = place * self._size
        part = slice(first, min(first + self._size, self._n))
        return part if self.permutation is None else self.permutation[part]
