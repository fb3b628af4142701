"""Points of curves, finer with every event, until a second is over.

A point's number is rounded as the page shows it, so that what is drawn is what stands in the table. Where a
line is drawn it has corners of its own (`pabi.draw.lines`): between two points it promises nothing that is
not proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from pabi.draw.lines import above_epsilons, below_errors
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, plain, shown, shown_down
from pabi.tradeoff import TradeOff

Event = tuple[str, dict[str, Any]]
OURS, EVERY = "the guarantee", "every model released"
Point = dict[str, float | str | None]

_SECONDS = 0.6  # on a processor, that refining one curve may take
_DELTAS = (-12.0, -2.0)  # powers of ten
_COARSE, _REFINEMENTS = 11, 3
_READ = slice(None, None, 4)  # of the rates of false alarms: those that stand in the table


def point(x: float, y: float, y_text: str, x_text: str | None = None) -> Point:
    """A point and its texts; y is None where it is not finite."""
    drawn = float(y_text) if math.isfinite(y) else None
    return {"x": x, "y": drawn, "xText": plain(x) if x_text is None else x_text, "yText": y_text}


def refined(
    value: Callable[[float], Point], xs: Callable[[int], list[float]]
) -> Iterator[list[Point]]:
    """Points at the grids `xs(0)`, `xs(1)`, …, each of which contains the one before, while there is time."""
    begin, points = process_time(), dict[float, Point]()
    for level in range(_REFINEMENTS):
        grid = xs(level)
        for x in grid:
            if x not in points:
                points[x] = value(x)
                if level and process_time() - begin > _SECONDS:
                    yield [points[x] for x in sorted(points)]
                    return
        yield [points[x] for x in grid]


def named_curves(guarantee: Guarantee) -> list[tuple[str, TradeOff]]:
    """The curves of one picture: that of the guarantee, and composition where it is another one."""
    curves = [(OURS, guarantee.curve)]
    if guarantee.composition is not None and guarantee.method != "composition":
        curves.append((EVERY, guarantee.composition))
    return curves


def first_curves(guarantee: Guarantee) -> Iterator[Event]:
    """Both pictures of a guarantee that a better one may replace, with few points."""
    yield from tradeoff_curves(guarantee)
    for name, curve in named_curves(guarantee):
        yield _epsilons(name, [_epsilon(curve, delta) for delta in _deltas(0)])


def epsilon_curves(guarantee: Guarantee) -> Iterator[Event]:
    """ε against δ."""
    for name, curve in named_curves(guarantee):
        for points in refined(partial(_epsilon, curve), _deltas):
            yield _epsilons(name, points)


def _epsilons(name: str, points: list[Point]) -> Event:
    deltas, epsilons = (_column(points, axis) for axis in ("x", "y"))
    line = _corners(*above_epsilons(deltas, epsilons))
    return "curve", {"chart": "epsilon", "series": name, "points": points, "line": line}


def _column(points: list[Point], axis: str) -> Array:
    return np.array([math.inf if p[axis] is None else p[axis] for p in points], dtype=np.float64)


def _corners(x: Array, y: Array) -> list[list[float]]:
    return [[float(a), float(b)] for a, b in zip(x, y, strict=True)]


def _deltas(level: int) -> list[float]:
    number = (_COARSE - 1) * 2**level + 1
    return [float(plain(10.0**power, 3)) for power in np.linspace(*_DELTAS, number)]


def _epsilon(curve: TradeOff, delta: float) -> Point:
    epsilon = curve.epsilon(delta)
    return point(delta, epsilon, shown(epsilon), exact(delta))


def tradeoff_curves(guarantee: Guarantee) -> Iterator[Event]:
    """The least rate of false negatives against that of false positives."""
    # Few digits each, so that a rate is what its text says.
    small = [float(plain(rate, 3)) for rate in np.geomspace(1e-6, 1e-2, 60)]
    rates = np.array([0.0, *small, *(k / 400 for k in range(5, 401))])
    for name, curve in named_curves(guarantee):
        errors = np.asarray(curve(rates))
        points = [
            point(float(a), float(b), shown_down(b), plain(a))
            for a, b in zip(rates[_READ], errors[_READ], strict=True)
        ]
        line = _corners(*below_errors(rates, errors))
        yield "curve", {"chart": "tradeoff", "series": name, "points": points, "line": line}
