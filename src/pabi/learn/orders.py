"""The order of the records: which rows each batch holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.errors import InvalidInput
from pabi.learn.binomial import Binomial
from pabi.learn.records import Rows
from pabi.runs import NoisySGD

_REDRAWN = {"full_batch": "never", "cyclic": "never", "shuffle_once": "once", "reshuffle": "epoch"}
_SAMPLED = ("fixed_size", "poisson")


class Order:
    """Serves the batches of a run, one a step; secret where they are shuffled or sampled.

    `permutation`: the one in force, None where the rows keep their order or every batch is drawn
    afresh. It is what a checkpoint must hold to go on in the same order. No sampled batch is kept.
    """

    def __init__(
        self, run: NoisySGD, generator: np.random.Generator, permutation: Any = None
    ) -> None:
        kind = run.batches.kind
        if kind not in _REDRAWN and kind not in _SAMPLED:
            kinds = ", ".join((*_REDRAWN, *_SAMPLED))
            raise InvalidInput("batches", f"expected one of {kinds}, got {kind}")
        self._n, self._size, self._per_epoch = run.n, run.batch_size, run.steps_per_epoch
        self._most = run.batches.most_records(run.n)
        self._redrawn = _REDRAWN.get(kind)
        self._sizes = Binomial(self._n, self._size) if kind == "poisson" else None
        self._generator = generator
        self.permutation: NDArray[np.intp] | None = permutation

    def batch(self, step: int) -> Rows | None:
        """The rows of `step` (0-based), None for an empty batch; steps are asked for in order."""
        if self._redrawn is None:
            return self._sampled()
        place = step % self._per_epoch
        due = self._redrawn == "epoch" and place == 0
        if due or (self._redrawn == "once" and self.permutation is None):
            self.permutation = self._generator.permutation(self._n)
        first = place * self._size
        part = slice(first, min(first + self._size, self._n))
        return part if self.permutation is None else self.permutation[part]

    def _sampled(self) -> NDArray[np.intp] | None:
        """A fresh batch: its size, then a uniformly random set of that size, in ascending order.

        With a binomial size every record is in the set with probability size/n, independently of the
        others. A set beyond the cap is never drawn, let alone cut: the batch is empty.
        """
        size = self._size if self._sizes is None else self._sizes.draw(self._generator)
        if size == 0 or size > self._most:
            return None
        # Uniform over sets, though not over their orders: Floyd's algorithm for few among many.
        rows = self._generator.choice(self._n, size, replace=False, shuffle=False)
        return np.sort(rows).astype(np.intp, copy=False)
