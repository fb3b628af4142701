"""What is read from a curve does not depend on what was read from it before."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pabi.tradeoff import ApproxDP, BoundedRange, Gaussian, Mixture, PoissonSubsampled, Product
from pabi.tradeoff.memo import Memo

CURVES: dict[str, Callable[[], Product]] = {
    "Poisson batches": lambda: Product(((PoissonSubsampled(1.0, 0.01), 100),)),
    "one order": lambda: Product(((PoissonSubsampled(1.0, 0.05, "remove"), 40),)),
    "may fail": lambda: Product(((PoissonSubsampled(1.0, 0.02), 50),), 1e-7),
    "infinite losses": lambda: Product(((ApproxDP(0.1, 1e-7), 20), (Gaussian(0.5), 1))),
    "labels": lambda: Product(
        ((Mixture([Gaussian(0.5), Gaussian(2.0)], [0.9, 0.1]), 4), (BoundedRange(1.0), 2))
    ),
}

READINGS: dict[str, Callable[[Product], Any]] = {
    "epsilon": lambda curve: curve.epsilon(1e-5),
    "epsilon at a smaller delta": lambda curve: curve.epsilon(1e-9),
    "epsilon_bounds": lambda curve: curve.epsilon_bounds(1e-5),
    "epsilon_bounds, coarse": lambda curve: curve.epsilon_bounds(1e-5, 1e-2),
    "delta": lambda curve: curve.delta(1.0),
    "delta_bounds": lambda curve: curve.delta_bounds(1.0),
    "many deltas": lambda curve: curve.delta([0.1, 0.5, 1.0]).tolist(),
    "type II errors": lambda curve: curve([0.1, 0.5]).tolist(),
    "rdp": lambda curve: curve.rdp(3.0),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_used_object_reads_like_a_fresh_one(name):
    build = CURVES[name]
    fresh = {reading: read(build()) for reading, read in READINGS.items()}
    orders = [
        ["epsilon_bounds", "epsilon"],  # the second once gave what the first had refined
        ["delta", "epsilon", "many deltas", "epsilon"],
        random.Random(name).sample(sorted(READINGS), len(READINGS)),
    ]
    for order in orders:
        used = build()
        for reading in order:
            assert READINGS[reading](used) == fresh[reading], (reading, order)


def test_a_memo_computes_each_key_once():
    computed: list[str] = []
    memo: Memo[str, None] = Memo()
    for key in ("a", "b", "a", "b", "a"):
        memo(key, partial(computed.append, key))
    assert computed == ["a", "b"]


def test_a_bounded_memo_keeps_the_latest():
    computed: list[str] = []
    memo: Memo[str, None] = Memo(2)
    for key in ("a", "b", "c", "b", "a"):
        memo(key, partial(computed.append, key))
    assert computed == ["a", "b", "c", "a"]


def test_a_memo_keeps_no_failure():
    memo: Memo[int, int] = Memo()

    def fails():
        raise MemoryError

    with pytest.raises(MemoryError):
        memo(1, fails)
    assert memo(1, lambda: 3) == 3
