"""Proximal maps applied to every chain's point by itself, (chains, *shape) → (chains, *shape).

A proximal map takes one point. The penalties that act entry by entry take all points at once; the
projections are written here for many points, each within the rounding margins of `pabi.prox`; any other
map is called chain by chain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from pabi.describe import prox
from pabi.execute.hiding import mapped
from pabi.numbers.errors import InvalidInput
from pabi.numbers.margins import HALF_ULP
from pabi.numbers.rounding import Array

EachChain = Callable[[Array, float], Array]


def each_chain(proximal: Any, shape: tuple[int, ...]) -> EachChain:
    """`proximal` (a proximal map or None) as a map of (chains, *shape) arrays and a step size.

    Raises InvalidInput(field="prox") where it is for points of another shape.
    """
    expected = getattr(proximal, "point_shape", None)
    if expected is not None and expected != shape:
        raise InvalidInput("prox", f"expected one for points of shape {shape}, got {expected}")
    return _each(proximal)


@singledispatch
def _each(proximal: Any) -> EachChain:
    def one_by_one(x: Array, step_size: float) -> Array:
        result = np.empty_like(x)
        for i in range(len(x)):
            result[i] = mapped(proximal(x[i].copy(), step_size), x.shape[1:])
        return result

    return one_by_one


@_each.register
def _none(proximal: None) -> EachChain:
    return lambda x, step_size: x


@_each.register(prox.l1)
@_each.register(prox.l2)
@_each.register(prox.elastic_net)
def _entrywise(proximal: prox.ProximalMap) -> EachChain:
    return proximal


@_each.register
def _box(proximal: prox.box) -> EachChain:
    # The bounds broadcast over the leading axis; infinite entries meet the largest doubles, as there.
    return lambda x, step_size: np.clip(prox.within_range(x), proximal.lower, proximal.upper)


@_each.register
def _ball(proximal: prox.ball) -> EachChain:
    def project(x: Array, step_size: float) -> Array:
        points = prox.within_range(x.reshape(len(x), -1))
        d = points.shape[1]
        centre = None if proximal.center is None else np.asarray(proximal.center).reshape(-1)
        offset = points if centre is None else prox.within_range(points - centre)
        peak = np.max(np.abs(offset), axis=1, initial=0.0, keepdims=True)
        unit = offset / np.where(peak > 0.0, peak, 1.0)
        length = np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]
        # As in `pabi.prox.ball`, whose comment says what the slack is for.
        target = proximal.radius / np.maximum(1.0, length)
        slack = (d + 16) * HALF_ULP
        inside = unit * (target * (1.0 - 2.0 * slack))
        moved = inside if centre is None else prox.add_towards(centre, inside)
        return np.where(peak <= target * (1.0 - slack), points, moved).reshape(x.shape)

    return project


@_each.register
def _simplex(proximal: prox.simplex) -> EachChain:
    def project(x: Array, step_size: float) -> Array:
        points = prox.within_range(x.reshape(len(x), -1))
        d = points.shape[1]
        y = np.maximum((points - np.max(points, axis=1, keepdims=True)) / proximal.total, -1.0)
        descending = np.sort(y, axis=1)[:, ::-1]
        thresholds = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, d + 1)
        positive = np.count_nonzero(descending > thresholds, axis=1, keepdims=True)
        threshold = np.take_along_axis(thresholds, np.maximum(positive, 1) - 1, axis=1)
        weights = np.maximum(y - threshold, 0.0)
        share = proximal.total / np.sum(weights, axis=1, keepdims=True)
        share *= 1.0 - (2 * d + 16) * HALF_ULP
        return np.asarray(weights * share).reshape(x.shape)

    return project


@_each.register
def _halfspace(proximal: prox.halfspace) -> EachChain:
    """Points that are clearly inside stay, those clearly outside are moved to just inside the boundary;
    the few for which rounding could decide are left to the exact map."""

    def project(x: Array, step_size: float) -> Array:
        points = prox.within_range(x.reshape(len(x), -1))
        scaled, offset = proximal._scaled
        normal = scaled.reshape(-1)
        excess = points @ normal - offset
        margin = np.abs(points) @ np.abs(normal) + abs(offset)
        margin *= (points.shape[1] + 8) * 4.0 * HALF_ULP
        outside = excess > margin
        result = points
        share = (excess[outside] + margin[outside]) / np.vdot(normal, normal)
        result[outside] -= share[:, None] * normal
        unclear = ~outside & ~(excess < -margin)
        for i in np.flatnonzero(unclear | ~np.all(np.isfinite(result), axis=1)):
            result[i] = proximal(x[i], step_size).reshape(-1)
        return result.reshape(x.shape)

    return project
