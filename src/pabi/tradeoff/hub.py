"""The last batch of a shuffle without a spare place: δ at one ε, from few sums of what the labels add."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.rounding import TINY, Array
from pabi.tradeoff.labels import (
    PLACE,
    RARE,
    SPREADS,
    Gain,
    Labels,
    Query,
    place_of,
    rest_of,
    spreads_of,
    upper_bounds,
)
from pabi.tradeoff.pairs import SQRT_2PI, normal_mass

# Given ζ that is L_a(ζ) times another such sum, E(A - r·B - t)⁺ with r = e^(-2aζ). For a fixed number m it is
# E(A - r·(B - m) - t')⁺ with t' = t + r·m, and convex in r for fixed t': so between a few r it lies below its
# chords, which hardly differ from it if m is about the mean of B, as B is a sum of many. All t' of one r are
# read from one transform.
#
# In s = e^(-aζ) it is the mean of positive parts of α/s + β + γs with α ≥ 0, so that it is convex, and it
# falls. Between very many ζ it lies below its chords in s, whose means have a closed form.

_SCANNED, _FIRST, _LAST = 73, -8.0, 10.0  # ζ that are tried, from where, and up to where beyond a
_SPARSE = 12.0  # nats below the most that there is of the integrand
_RARELY = 0.2  # of the most nodes
_POWERS = 0.03, 100.0, 24  # λ over the spread
_SEEN, _WIDTH = np.linspace(-8.0, 8.0, 121, retstep=True)  # a label's z
_MASSES = np.exp(-0.5 * _SEEN * _SEEN) * (_WIDTH / SQRT_2PI)
_GREATEST_LOG = 700.0  # of a bound
_PART = 1e-9  # more than a part of a chord errs
_FINER = 48  # ζ between two transforms


@dataclass(frozen=True)
class Hub:
    """E(Σ w_j·(Y_j⁺·L_a(ζ) - Y_j⁻·L_-a(ζ)) + w_0·D(ζ))⁺ at `epsilon` ≥ 0, D what a hub of the `size` a
    adds."""

    gain: Gain
    labels: Sequence[Labels]
    epsilon: float
    size: float

    def excess(self, tolerance: float, count: int) -> float:
        """An upper bound, from so many transforms."""
        labels, a = self.labels, self.size
        z = self._nodes(count)
        z = np.interp(np.arange((count - 1) * _FINER + 1) / _FINER, np.arange(count), z)
        values = self._values(z, tolerance)
        value = np.minimum.accumulate(values[::-1])[::-1]
        s = np.exp(-a * z)
        p = normal_mass(z[:-1], z[1:])
        mean = math.exp(0.5 * a * a) * normal_mass(z[:-1] + a, z[1:] + a)
        right = np.clip((s[:-1] * p - mean + PLACE * s[:-1] * p) / -np.diff(s), 0.0, p)
        total = right @ value[1:] + (p - right) @ value[:-1]
        # Above the last ζ all that is above 0 counts, below the first one as much as there.
        total += scipy.special.ndtr(z[0]) * value[0]
        total += (rest_of(labels) + PLACE) * scipy.special.ndtr(self.gain.hub.x * a - z[-1])
        total += self._above * scipy.special.ndtr(a - z[-1])
        return float(total) * (1.0 + PLACE) if total < math.inf else math.inf

    def _values(self, z: Array, tolerance: float) -> Array:
        """Upper bounds given ζ, at all `z`."""
        queries, m, above = self._queries(z), self._below, self._above
        scale = np.exp(self.size * z - 0.5 * self.size**2) * (1.0 + PLACE)
        ratio, at = np.array([one.ratio for one in queries]), np.array([one.at for one in queries])
        total = np.zeros(z.size)
        for k in range(0, z.size, _FINER):
            near = np.arange(max(k - _FINER, 0), min(k + _FINER + 1, z.size))
            near = np.concatenate([[k], near[near != k]])
            moved = at[near] + (ratio[near] - ratio[k]) * m
            moved -= PLACE * (ratio[near] + ratio[k]) * m
            bound = upper_bounds(queries[k], tolerance, moved)
            # Where t is far below all values, transforms have no digits.
            bound = np.minimum(bound, above + np.maximum(-moved, 0.0))
            for i, other in ((near < k, k - _FINER), (near > k, k + _FINER)):
                if i.any():
                    part = (ratio[near[i]] - ratio[other]) / (ratio[k] - ratio[other])
                    total[near[i]] += np.minimum(part + _PART, 1.0) * bound[i]
            total[k] += bound[0]
        return total * scale

    @property
    def _above(self) -> float:
        """The mean of A, or a little more."""
        x, y = self.gain.above
        outward, total = 1.0 if x > y else -1.0, 0.0
        for one in self.labels:
            root = float(place_of(self.gain.above, one.size, self.epsilon, 0.0))
            first, second = scipy.special.ndtr(outward * (np.array([x, y]) * one.size - root))
            second *= math.exp(self.epsilon)
            positive = max(0.0, first - second) + PLACE * (first + second)
            total += one.weight * one.count * float(positive)
        return total * (1.0 + PLACE)

    @property
    def _below(self) -> float:
        """About the mean of B."""
        total = 0.0
        for one in self.labels:
            below = np.minimum(self.gain.below.at(_SEEN, one.size, self.epsilon), 0.0)
            total -= one.weight * one.count * float(_MASSES @ below)
        return total

    def _queries(self, z: Array) -> list[Query]:
        """What is to be bounded for these ζ, over L_a(ζ)."""
        gain, a, epsilon = self.gain, self.size, self.epsilon
        scale, ratio = np.exp(a * z - 0.5 * a * a), np.exp(-2.0 * a * z)
        at = -rest_of(self.labels) * gain.hub.at(z, a, epsilon)
        at -= (
            gain.hub.doubt(z, a, epsilon) + gain.hub.doubt(z, 0.0, epsilon) * (1.0 + ratio) * scale
        )
        pairs = zip((ratio * (1.0 - PLACE)).tolist(), (at / scale).tolist(), strict=True)
        return [Query(gain, self.labels, epsilon, r, t) for r, t in pairs]

    def _nodes(self, count: int) -> Array:
        """ζ that are the closer the more there is of the integrand, by Chernoff's bound."""
        z = np.linspace(_FIRST, _LAST + self.size, _SCANNED)
        log = _chernoff(self._queries(z))
        most = math.log(self._above + rest_of(self.labels) + PLACE)
        log = np.minimum(log, most) + self.size * z - 0.5 * z * z
        least = log.max() - _SPARSE
        # What counts beyond the last one may be far more than what there is.
        beyond = most + scipy.special.log_ndtr(self.size - z)
        first = max(int(np.flatnonzero(log >= least)[0]) - 1, 0)
        last = min(int(np.flatnonzero(np.maximum(log, beyond) >= least)[-1]) + 2, z.size)
        z, log = z[first:last], log[first:last]
        weight = np.maximum(np.exp((log - log.max()) / 3.0), _RARELY)
        total = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]))])
        return np.asarray(np.interp(np.linspace(0.0, total[-1], count), total, z))


def _chernoff(queries: Sequence[Query]) -> Array:
    """About the logarithms of the bounds of queries that differ in their ratios and places alone."""
    query = queries[0]
    ratio, at, room = np.array([(one.ratio, one.at, one.room) for one in queries]).T
    with np.errstate(all="ignore"):
        spread = np.maximum(spreads_of(query, ratio, RARE), TINY)
        power = np.geomspace(*_POWERS) / spread[:, None]  # (queries, λ)
        log = -power * at[:, None] - 1.0 - np.log(power)
        for one in query.labels:
            above = np.maximum(query.gain.above.at(_SEEN, one.size, query.epsilon), 0.0)
            below = np.minimum(query.gain.below.at(_SEEN, one.size, query.epsilon), 0.0)
            above = np.minimum(one.weight * above, (room + SPREADS * spread)[:, None])
            below = one.weight * ratio[:, None] * below
            moment = np.expm1(power[:, :, None] * above[:, None]) @ _MASSES
            moment += np.exp(power[:, :, None] * below[:, None]) @ _MASSES
            log += one.count * np.log(moment)
        return np.asarray(log.min(axis=1, where=np.isfinite(log), initial=_GREATEST_LOG))
