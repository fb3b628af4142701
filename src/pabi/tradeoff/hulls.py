"""A pair of finitely many outcomes that reveals no less than upper bounds on δ allow."""

from __future__ import annotations

import numpy as np

from pabi.convert.vectorised import both_signs
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array
from pabi.tradeoff.base import TradeOff, one_order
from pabi.tradeoff.pairs import Discrete

SLACK = 1e-10  # relative: more than rounding moves a point of the hull


def checked_both_orders(base: TradeOff) -> TradeOff:
    """`base`, a function for both orders of the data sets. Raises InvalidInput for one of a single order."""
    curve = TradeOff._table.check(base, "base")
    if one_order(curve.orientation):
        raise InvalidInput("base", f"expected a function for both orders, got {curve!r}")
    return curve


def pair_above(half: Array, delta: Array) -> Discrete:
    """The pair whose δ, as a function of e^ε, is the lower hull of points above the curve.

    `half`: increasing ε from 0 on. `delta`: upper bounds there on a δ that is the same in both orders. The
    true δ is convex in e^ε and 1 at 0, so that it is below the hull. A kink of the hull at e^ε is an outcome
    of loss ε whose probability under Q is by how much the slope rises there.
    """
    epsilon = np.concatenate([-half[:0:-1], half])
    every = both_signs(epsilon, np.concatenate([delta[:0:-1], delta]))
    height = np.minimum(every * (1.0 + SLACK), 1.0)
    x, y = np.concatenate([[0.0], np.exp(epsilon)]), np.concatenate([[1.0], height])
    corners = lower_hull(x, y)
    x, y = x[corners], y[corners]
    slopes = np.append(np.diff(y) / np.diff(x), 0.0)
    rises = np.maximum(np.diff(slopes), 0.0)
    masses, values = rises * x[1:], epsilon[np.array(corners[1:]) - 1]
    possible = masses > 0.0
    return Discrete(values[possible], masses[possible], min(1.0, float(y[-1])))


def lower_hull(x: Array, y: Array) -> list[int]:
    """The corners of the lower convex hull of points with increasing x."""
    corners: list[int] = []
    for i in range(x.size):
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return corners
