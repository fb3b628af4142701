"""How many rows of each kind the batches of many trainings have, which are drawn side by side."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from pabi.describe.orders import (
    FixedSizes,
    FreshSubsets,
    KnownUses,
    RandomSizes,
    SecretOrder,
)
from pabi.describe.runs import NoisySGD
from pabi.numbers.rounding import Array

Counts = NDArray[np.int64]


class BatchCounts:
    """The rows of each kind that are in the batch of a step, for many trainings at once.

    `kinds`: (n,) the kind of every row, 0 to `rest`; rows of the kind `rest` are not asked for.
    """

    def __init__(
        self,
        run: NoisySGD,
        kinds: NDArray[np.int64],
        rest: int,
        trainings: int,
        generator: np.random.Generator,
    ) -> None:
        self._run, self._order = run, run.order
        self._kinds, self._trainings, self._generator = kinds, trainings, generator
        self._totals = np.bincount(kinds, minlength=rest + 1)
        self._drawn: dict[int, Counts] = {}  # of an order that comes back, by place
        self._left = np.zeros((len(self._totals), trainings), dtype=np.int64)

    def at(self, step: int) -> Counts:
        """(kinds, trainings) or (kinds, 1); steps are asked for in turn."""
        match self._order:
            case KnownUses(period=period):
                size = self._run.batch_size
                rows = self._kinds[step % period * size :][:size]
                return np.bincount(rows, minlength=len(self._totals))[:, None]
            case SecretOrder() as order:
                return self._in_secret_order(order, step)
            case FreshSubsets(probability=p, sizes=sizes):
                return self._fresh(sizes, float(p))
            case order:
                assert_never(order)

    def _in_secret_order(self, order: SecretOrder, step: int) -> Counts:
        place = step % order.period
        if order.once and step >= order.period:
            return self._drawn[place]
        if place == 0:
            self._left[:] = self._totals[:, None]
        counts = self._taken(order, place)
        self._left -= counts
        match order.sizes:
            case FixedSizes():
                pass
            case RandomSizes(cap=cap):
                counts = _capped(counts, cap)
            case sizes:
                assert_never(sizes)
        if order.once:
            self._drawn[place] = counts.astype(np.int32)
        return counts

    def _taken(self, order: SecretOrder, place: int) -> Counts:
        """What the batch in this place takes of the rows that are left."""
        if place == order.period - 1:
            return self._left.copy()
        match order.sizes:
            case FixedSizes(size=size):
                return self._without_replacement(self._left, size)
            case RandomSizes():
                share = 1.0 / (order.period - place)
                return self._generator.binomial(self._left, share)
            case sizes:
                assert_never(sizes)

    def _fresh(self, sizes: FixedSizes | RandomSizes, probability: float) -> Counts:
        shape = len(self._totals), self._trainings
        match sizes:
            case FixedSizes(size=size):
                every = np.broadcast_to(self._totals[:, None], shape)
                return self._without_replacement(every, size)
            case RandomSizes(cap=cap):
                counts = np.zeros(shape, dtype=np.int64)
                kinds = len(self._totals) if cap is not None else len(self._totals) - 1
                for kind in range(kinds):
                    first, sums = _binomial(int(self._totals[kind]), probability)
                    drawn = self._generator.random(self._trainings)
                    counts[kind] = first + np.searchsorted(sums, drawn, side="right")
                return _capped(counts, cap)
            case _:
                assert_never(sizes)

    def _without_replacement(self, left: Counts, size: int) -> Counts:
        """`size` of the rows that are left, at random."""
        counts = np.zeros_like(left)
        rest, rest_of_batch = left.sum(axis=0), np.full(self._trainings, size)
        for kind in range(len(left) - 1):
            rest = rest - left[kind]
            counts[kind] = self._generator.hypergeometric(left[kind], rest, rest_of_batch)
            rest_of_batch = rest_of_batch - counts[kind]
        counts[-1] = rest_of_batch
        return counts


@lru_cache(maxsize=64)
def _binomial(total: int, probability: float) -> tuple[int, Array]:
    """(the least value, what the sums of probabilities up to each value but the last are), but for what 12
    standard deviations leave out: one lookup is far quicker than a draw."""
    mean = total * probability
    span = 12.0 * math.sqrt(mean * (1.0 - probability)) + 40.0
    low, high = max(0, int(mean - span)), min(total, int(mean + span) + 1)
    return low, np.asarray(binom.cdf(np.arange(low, high), total, probability))


def _capped(counts: Counts, cap: int | None) -> Counts:
    """Batches of more rows than the cap are empty."""
    return counts if cap is None else np.where(counts.sum(axis=0) > cap, 0, counts)
