"""When the record takes part: in which steps, and in batches that are not too large to be summed."""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from pabi.audits.places import drawn_places
from pabi.describe.orders import (
    FixedSizes,
    FreshSubsets,
    KnownUses,
    Order,
    RandomSizes,
    SecretOrder,
)
from pabi.describe.runs import NoisySGD
from pabi.numbers.rounding import Array


def counted_share(order: Order) -> float:
    """The probability that a batch with the record in it is not above the cap, which makes it empty."""
    match order.sizes:
        case FixedSizes():
            return 1.0
        case RandomSizes(n=n, probability=p, cap=cap):
            return 1.0 if cap is None else float(binom.cdf(cap - 1, n - 1, float(p)))
        case sizes:
            assert_never(sizes)


class Membership:
    """Whether the record is in the batch of a step, for many trainings at once."""

    def __init__(
        self, run: NoisySGD, place: int, count: int, generator: np.random.Generator
    ) -> None:
        self._order, self._count, self._generator = run.order, count, generator
        self._place, self._share = place, counted_share(run.order)
        self._places = np.zeros(count, dtype=np.int64)

    def at(self, step: int) -> Array:
        """(trainings,) of 0 and 1."""
        match self._order:
            case KnownUses(period=period):
                return np.full(self._count, float(step % period == self._place))
            case SecretOrder(period=period) as order:
                if step == 0 or (step % period == 0 and not order.once):
                    self._places = self._drawn(order)
                return np.asarray(self._places == step % period, dtype=float)
            case FreshSubsets(probability=p):
                share = self._share * float(p)
                return np.asarray(self._generator.random(self._count) < share, dtype=float)
            case order:
                assert_never(order)

    def _drawn(self, order: SecretOrder) -> NDArray[np.int64]:
        """Batches; none where the record's is too large."""
        drawn = drawn_places(order, self._count, self._generator)
        return np.where(self._generator.random(self._count) < self._share, drawn, -1)
