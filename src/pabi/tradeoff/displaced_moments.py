"""Moments of the privacy losses of records that displace others, of many pairs at once.

Beyond 1 a moment E e^(λY) is an integral over each half, of Q·(x^(λ+1) - 1 - (λ+1)(x - 1)) and of
Q·(x^-λ - 1 + λ(x - 1)), x = P/Q: what they add to E e^(λY) cancels, as both halves have the same δ(0). The
nodes of all halves stand in one array, one half after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pabi.numbers.rounding import Array
from pabi.tradeoff.displaced_halves import Half, Halves
from pabi.tradeoff.pairs import SQRT_2PI, Indices, convex_part

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEAST_PANELS, _MOST_PANELS = 6, 40_000
_TOGETHER = 30_000  # panels in one array, about
_MATTERS = 50.0  # nats below the largest value of an integrand that are left out
_LARGE = 30.0  # log of a power that its series does not reach
_LEAST_POWER = 2.0**-26  # from which on 1 + λ tells λ to eight digits, and exactly there
_MOST_SIZE = 2000.0  # of (λ + 1) times a size: beyond it a moment is that of a Gaussian but for 1 %
_CLOSE, _FAR = np.linspace(0.0, 40.0, 80), np.linspace(0.0, 1.0, 160)
# Around a mode, which is no wider than that of a normal density.
_WINDOW = np.linspace(-12.0, 12.0, 49)


class Nodes(NamedTuple):
    """Losses, logs of Q's density, and weights, at nodes that cover where the integrands of some halves
    matter: `first` is where those of each half begin, and `each` how many they are."""

    loss: Array
    log_q: Array
    weight: Array
    first: Indices
    each: Indices


def log_moments(uppers: Sequence[Half], lowers: Sequence[Half], power: float) -> Array:
    """log E e^(λY) of every pair of halves, λ = `power` > 0."""
    sizes = np.array(
        [max(a.norm, b.norm, a.apart) for a, b in zip(uppers, lowers, strict=True)], dtype=float
    )
    moments = 0.5 * power * (power + 1.0) * sizes * sizes
    # Farther out a moment is taken for that of the Gaussian, which is never less.
    near = np.flatnonzero((power + 1.0) * sizes <= _MOST_SIZE)
    panels = ((power + 1.0) * sizes[near] + 30.0) * (1.0 + sizes[near])
    least = max(power, _LEAST_POWER)  # K is convex and 0 at 0
    for part in _split(near, np.cumsum(panels) // _TOGETHER):
        above = _log_integrals(tuple(uppers[i] for i in part), least + 1.0)
        below = _log_integrals(tuple(lowers[i] for i in part), -least)
        moments[part] = power / least * np.logaddexp(0.0, np.logaddexp(above, below))
    return np.asarray(moments)


def _split(indices: Indices, groups: Array) -> list[Indices]:
    """The indices of each group."""
    return np.split(indices, np.flatnonzero(np.diff(groups)) + 1) if indices.size else []


def _log_integrals(halves: tuple[Half, ...], order: float) -> Array:
    """log of the integral over P > Q of Q·(x^s - 1 - s(x - 1)), x = P/Q, s = `order` > 1 or < 0."""
    nodes = _nodes(halves, math.ceil(math.log2(order)) if order > 1.0 else 0)
    y, power = nodes.loss, order - 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        if order > 1.0:
            rest = power * np.exp(-power * y) * np.expm1(-y) - np.expm1(-power * y)
            exponent = order * y + np.log(np.maximum(rest, 0.0))
        else:
            rest = order * np.expm1(-y) + np.exp(-y) * np.expm1(order * y)
            exponent = y + np.log(np.maximum(rest, 0.0))
        near = np.flatnonzero(y < min(1.0, _LARGE / abs(order)))
        small = y[near]
        exponent[near] = np.log(np.maximum(convex_part(np.expm1(small), small, order), 0.0))
        exponent += nodes.log_q
        top = np.maximum.reduceat(exponent, nodes.first)
        level = np.where(
            top > -np.inf, top, 0.0
        )  # where it is, all terms are below the least double
        terms = nodes.weight * np.exp(exponent - np.repeat(level, nodes.each))
        return np.asarray(level + np.log(np.add.reduceat(terms, nodes.first)))


def _centres(rows: Halves, order: float) -> list[Array]:
    """Where Q·x^order may have a mode: x grows as e^(at), e^(mt) or not at all, and changes from one to the
    next where e^(at) or e^(bt) is κ."""
    a, b, k = rows.norm, rows.other, rows.log_kappa
    positive = b > 0.0
    return [
        order * a - rows.origin,
        order * rows.apart + b - rows.origin,
        k / a,
        np.where(positive, k / np.where(positive, b, 1.0), 0.0),
    ]


@lru_cache(maxsize=32)
def _nodes(halves: tuple[Half, ...], level: int) -> Nodes:
    """Panels for all orders s from 2^(`level` - 1) to 2^`level`, or of level 0 for those below 1."""
    rows = Halves.rows(halves)
    size = np.maximum(rows.norm, np.abs(rows.other))
    orders = (2.0 ** (level - 1), 2.0**level) if level else (1.0,)
    far = (1.0 + 2.0 * (orders[-1] - 1.0)) * size + 40.0
    with np.errstate(over="ignore"):
        centres = [np.minimum(c, far) + _WINDOW for s in orders for c in _centres(rows, s)]
    scan = np.concatenate([_CLOSE + 0.0 * far, _FAR * far, *centres], axis=1)
    scan = np.sort(np.maximum(scan, 0.0), axis=1)
    y, log_q = rows.loss(scan), rows.log_density(scan, rows.other)
    exponents = [order * y + log_q for order in orders]
    near = np.any([e >= e.max(axis=1, keepdims=True) - _MATTERS for e in exponents], axis=0)
    every, last = np.arange(len(halves)), scan.shape[1] - 1
    begin = scan[every, np.maximum(near.argmax(axis=1) - 1, 0)]
    end = scan[every, np.minimum(last - near[:, ::-1].argmax(axis=1) + 1, last)]
    number = 0.5 * (end - begin) * np.maximum(1.0, rows.norm + size)[:, 0]
    panels = np.clip(np.ceil(number), _LEAST_PANELS, _MOST_PANELS).astype(np.intp)
    width = 0.5 * (end - begin) / panels
    # The panels of all halves, and which each is of its half.
    which = np.arange(panels.sum()) - np.repeat(np.cumsum(panels) - panels, panels)
    middle = np.repeat(begin, panels) + np.repeat(width, panels) * (2.0 * which + 1.0)
    half_width = np.repeat(width, panels)[:, None]
    t, every = middle[:, None] + half_width * _NODES, np.repeat(every, panels)
    rows = rows.at(every)
    count = panels * _NODES.size
    return Nodes(
        rows.loss(t).ravel(),
        rows.log_density(t, rows.other).ravel(),
        (half_width * _WEIGHTS).ravel() / SQRT_2PI,
        np.cumsum(count) - count,
        count,
    )
