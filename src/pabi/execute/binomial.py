"""Binomial numbers without the small errors of floating-point samplers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate

import numpy as np

_ONE = 1 << 192


class Binomial:
    """Draws how many of `n` records are taken if each is with the same `probability`, in (0, 1].

    Probabilities are ratios of integers, off by about 2⁻¹⁹² of the
    largest. numpy's `binomial` takes numbers far from the mean a thousandth too often (n = 10⁶, 100
    expected); whether a record is taken would then depend on how many others are.
    """

    def __init__(self, n: int, probability: Fraction) -> None:
        taken = probability.numerator
        left = probability.denominator - taken  # the odds of one record
        mode = (n + 1) * taken // (taken + left) if left else n
        below = _until_nothing(
            (k * left, (n - k + 1) * taken)  # P(k − 1)/P(k)
            for k in range(mode, 0, -1)
        )
        above = _until_nothing(
            ((n - k) * taken, (k + 1) * left)  # P(k + 1)/P(k)
            for k in range(mode, n)
        )
        self._first = mode - len(below)
        self._cumulative = list(accumulate([*reversed(below), _ONE, *above]))

    def draw(self, generator: np.random.Generator) -> int:
        """One draw, a number in 0..n."""
        total = self._cumulative[-1]
        count = (total.bit_length() + 7) // 8
        excess = 8 * count - total.bit_length()
        while True:
            value = int.from_bytes(generator.bytes(count), "little") >> excess
            if value < total:
                return self._first + bisect_right(self._cumulative, value)


def _until_nothing(ratios: Iterable[tuple[int, int]]) -> list[int]:
    """Products of 2¹⁹² and the ratios so far, rounded down, while they are positive."""
    weight, weights = _ONE, []
    for numerator, denominator in ratios:
        weight = weight * numerator // denominator
        if weight == 0:
            break
        weights.append(weight)
    return weights
