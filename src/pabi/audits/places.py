"""The batches that a record may be in, in an order that is drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pabi.describe.orders import SecretOrder
from pabi.numbers.rounding import Array


def by_place(moved: Array, period: int) -> Array:
    """(epochs, period): the steps of every epoch side by side, 0 where the last one ends early."""
    epochs = -(-len(moved) // period)
    table = np.zeros(epochs * period)
    table[: len(moved)] = moved
    return table.reshape(epochs, period)


def places(order: SecretOrder) -> Array:
    """(period,) the probability of every batch."""
    weights = np.full(order.period, float(order.each))
    weights[-1] = float(order.last)
    return np.asarray(weights / weights.sum())


def drawn_places(
    order: SecretOrder, count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """(count,) batches, drawn independently."""
    return generator.choice(order.period, count, p=places(order))
