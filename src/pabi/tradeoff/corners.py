"""What one point (ε', δ') of a trade-off function that is the same in both orders says at smaller ε.

It means f(a) ≥ max{1 - δ' - e^ε'·a, e^-ε'·(1 - δ' - a)}, lines that meet on the diagonal, at
a' = (1 - δ')/(1 + e^ε'). For 0 ≤ ε ≤ ε' the slope -e^ε is between theirs, so that δ(ε), the largest value of
1 - f(a) - e^ε·a, is at most that at the corner, 1 - (1 + e^ε)·a'. Any ε' is sound, and the best one has the
largest a'.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pabi.numbers.margins import EIGHT_ROUNDINGS
from pabi.numbers.rounding import Array


class Corner(NamedTuple):
    """(ε', a'), a' rounded down."""

    epsilon: float
    level: float

    def least(self, epsilon: Array, delta: Array) -> Array:
        """The least of `delta`, bounds at `epsilon` ≥ 0, and of what follows from the corner up to ε'."""
        line = 1.0 - (1.0 + np.exp(np.minimum(epsilon, self.epsilon))) * self.level * (
            1.0 - EIGHT_ROUNDINGS
        )
        line = np.nextafter(line, math.inf)
        return np.where(epsilon <= self.epsilon, np.minimum(delta, line), delta)


def levels(epsilon: Array, delta: Array) -> Array:
    """(1 - δ')/(1 + e^ε') of each point, rounded down."""
    return np.asarray((1.0 - delta) / (1.0 + np.exp(epsilon)) * (1.0 - EIGHT_ROUNDINGS))
