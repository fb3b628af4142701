"""How many trials a private selection makes: exact draws from the truncated negative binomial law."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb, ctx

from pabi.convert.trials import checked_shape
from pabi.numbers.validate import number

_BITS = 64  # of a uniform number that are revealed at a time


class TrialLaw:
    """P(K = k) ∝ (1 − γ)^k·Π_{l<k} (l + η)/(l + 1) for k ≥ 1; η the `shape` in (−1, 10], γ `gamma` in (0, 1).

    Draws are exact: a uniform number is revealed bit by bit until balls around the distribution function
    leave no doubt between which two of its values the number lies. With the shape near −1 a draw may be
    astronomically large, and then takes as long.
    """

    def __init__(self, gamma: float, shape: float) -> None:
        self.gamma = number("gamma", gamma, above=0.0, below=1.0)
        self.shape = checked_shape(shape)

    def draw(self, generator: np.random.Generator) -> int:
        """One draw, an integer ≥ 1, from the bits of `generator`."""
        revealed = bits = 0
        while True:
            revealed = revealed << _BITS | int.from_bytes(generator.bytes(_BITS // 8), "little")
            bits += _BITS
            drawn = self._between(revealed, bits)
            if drawn is not None:
                return drawn

    def quantile(self, share: float) -> int:
        """The least k with P(K ≤ k) ≥ `share` in (0, 1), to the rounding of doubles: for plans only."""
        weight = float(self._first())
        total, k = weight, 1
        while total < share:
            weight *= (1.0 - self.gamma) * (k + self.shape) / (k + 1)
            total, k = total + weight, k + 1
        return k

    def _between(self, revealed: int, bits: int) -> int | None:
        """The k whose range of the distribution function holds [u, u + 2^−bits] for sure; None in doubt."""
        with ctx.workprec(2 * bits + 64):
            unit = arb(2) ** -bits
            low, high = arb(revealed) * unit, arb(revealed + 1) * unit
            rest, eta = 1 - arb(self.gamma), arb(self.shape)
            weight, total, k = self._first(), arb(0), 1
            while True:
                above = total + weight
                if high <= above:
                    return k if low >= total else None
                if not low >= above:
                    return None
                weight = weight * rest * (k + eta) / (k + 1)
                total, k = above, k + 1

    def _first(self) -> Any:
        """A ball of P(K = 1) = η(1 − γ)/(γ^−η − 1), for η = 0 of (1 − γ)/log(1/γ)."""
        g, eta = arb(self.gamma), arb(self.shape)
        if self.shape == 0.0:
            return (1 - g) / -g.log()
        return eta * (1 - g) / (-eta * g.log()).expm1()
