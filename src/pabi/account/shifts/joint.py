"""Joint payments: what is paid for a record in one of several places, of which nobody knows which.

A part of every use is paid at once, at a step that no other place uses; the rest little by little, as the
best payments for that place alone would do (`isotonic`). So there are two numbers for every step with data:
`now`, what is paid in it of its own use, and `rate`: until the next use of the same place step k is paid
rate·σ_k²·c_(k+1)⋯c_m, m the last of these steps. With b_jk, what place j pays in step k over its noise,
places i and j have Σ_k b_ik·b_jk in common, at most α_i·α_j, and place j has a spread of β_j of its own
besides (docs, "Joint payments"). The smaller all of these are, the better; which is best is tried out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.locking import tick
from pabi.numbers.rounding import TINY, Array, bisected

_OVERPAID = 1.0 + 1e-9  # more than the roundings of whoever replays the distances
_SUMMED = 1.0 + 1e-9  # relative: more than K errs, and than it differs for others
_GREATEST = 1e150  # of the product of all slopes
_SEEN = 32  # places that a plan is tried with
_KINDS = 4  # of places, there
_POINTS, _PLACES, _FAR = 1024, 201, 7.5  # of a law, and of a label
_SEEN_FROM = 20.0  # noises by which a place moves the model: from there on it is seen
_RARE, _FAR_OUT = 180, 60.0  # up to which value of a label is looked at; of exponents
_NODES = np.arange(-1.5, 7.6, 0.6)
_DENSITY = 0.6 * np.exp(-0.5 * _NODES**2) / math.sqrt(2.0 * math.pi)
_LEAST = 1e-6  # relative, of α
_APART = 0.8  # how far the α_j may be: for more it takes long to compute what they reveal
# Plans to begin with, and by how much they are changed at first.
_STARTS = (
    (1.0, 1.0, 1.0, 1.0, 0.0),
    (0.8, 0.85, 0.95, 1.0, 0.5),
    (0.4, 0.1, 1.0, 0.5, 0.5),
    (0.15, 0.3, 1.0, 1.0, 0.7),
    (0.05, 0.1, 1.0, 3.0, 0.1),
)
_ASIDE = (0.1, 0.15, -0.1, 0.4, 0.2)
_TRIES = 25  # more bring a thousandth
_CLOSE = 2e-3


class Payments(NamedTuple):
    """What is paid for the use in every step with data, (data steps,): at once, and at which rate."""

    now: Array
    rate: Array


class Noises(NamedTuple):
    """Of some places and every step the noise there, times the slopes until the next use, and the use that
    is paid with it, (places, steps); and (the places, the steps) of all their uses."""

    noise: Array
    owner: Any
    used: tuple[Any, Any]


@dataclass(frozen=True)
class Bins:
    """A run of `period` places, each used in every step k with k mod period its own.

    `c`, `s`, `sigma`: slopes, sensitivities to one record and noises, (steps,); `data`: steps that use
    records.
    """

    c: Array
    s: Array
    sigma: Array
    data: int
    period: int

    @property
    def solvable(self) -> bool:
        """Whether every step has noise, and distances neither overflow nor grow beyond bounds."""
        return bool(np.all(self.sigma > 0.0) and np.all(self.later < _GREATEST))

    @cached_property
    def later(self) -> Array:
        """The product of the slopes after every step."""
        with np.errstate(over="ignore", under="ignore"):
            return np.append(np.cumprod(self.c[:0:-1])[::-1], 1.0)

    @cached_property
    def _room(self) -> Array:
        """For every step with data the sum of (σ·W)² up to its end; no sum is a difference of two."""
        squares = (self.sigma * self.later) ** 2
        blocks = -(-squares.size // self.period) + 1
        padded = np.append(squares, np.zeros(blocks * self.period - squares.size))
        rows = padded.reshape(blocks, self.period)
        first = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1].ravel()[: self.data]
        before = np.cumsum(rows, axis=1)[:, :-1]
        then = np.pad(before, ((0, 0), (1, 0))).ravel()[self.period :][: self.data]
        whole = np.cumsum(squares[::-1])[::-1][: self.data]
        room = np.where(self.ends == self.c.size, whole, first + then)
        return np.where(room > TINY, room, 0.0)

    @cached_property
    def ends(self) -> Any:
        """For every step with data the one before which the next use of its place comes, or the last one."""
        k = np.arange(self.data)
        return np.where(k + self.period < self.data, k + self.period, self.c.size)

    def common(self, rows: Noises, payments: Payments) -> Array:
        """K of these places, (places, places), rounded up."""
        # What they pay in every step over its noise: before its first use a place has none to pay with.
        b = rows.noise * payments.rate[rows.owner]
        row, k = rows.used
        b[row, k] += payments.now[k] / self.sigma[k]
        return np.asarray(b @ b.T * _SUMMED)

    def noises(self, places: Sequence[int]) -> Noises:
        """What these places can be paid with."""
        noise = np.zeros((len(places), self.c.size))
        owner = np.zeros(noise.shape, dtype=np.intp)
        uses = [range(place, self.data, self.period) for place in places]
        for ks, at, own in zip(uses, noise, owner, strict=True):
            for k in ks:
                end = self.ends[k]
                later = np.append(np.cumprod(self.c[end - 1 : k : -1])[::-1], 1.0)
                at[k:end], own[k:end] = self.sigma[k:end] * later, k
        used = [(row, k) for row, ks in enumerate(uses) for k in ks]
        rows, steps = np.array(used, dtype=np.intp).reshape(-1, 2).T
        return Noises(noise, owner, (rows, steps))

    def paid(self, plan: Array) -> Payments:
        """The payments of a plan (θ, first, last, power, part): of the uses but the last of each place the
        share θ at once, and `part` of the rest until the next use; of the last ones what rises from `first`
        to `last` at once; all else by isotonic regression."""
        theta, first, last, power, part = plan
        k, final = np.arange(self.data), self.ends == self.c.size
        # Bins in the order of their last uses.
        order = (k - (self.data - self.period) + 1) / self.period
        ramp = first + (last - first) * np.maximum(order, 0.0) ** abs(power)
        at_once = np.clip(np.where(final, ramp, theta), 0.0, 1.0)
        until = np.where(final, 0.0, (1.0 - at_once) * np.clip(part, 0.0, 1.0))
        with np.errstate(all="ignore"):
            demand = self.s[: self.data] * self.later[: self.data]
            room = self._room
            q = np.where(room > 0.0, until * demand / room, 0.0)
            left = np.where(room > 0.0, 1.0 - at_once - until, 1.0 - at_once) * demand
            for place in range(min(self.period, self.data)):
                own = slice(place, None, self.period)
                weights = np.maximum(room[own], TINY)
                q[own] += scipy.optimize.isotonic_regression(left[own] / weights, weights=weights).x
            rate = np.nan_to_num(q * self.later[self.ends - 1])
        return Payments(at_once * self.s[: self.data] * _OVERPAID, rate * _OVERPAID)


def spread(common: Array, alike: bool) -> tuple[Array, Array]:
    """(α_j, β_j) that bound this K, (places,) each. `alike`: with one α for all places."""
    apart = common - np.diag(np.diag(common))
    if alike or not apart.any():
        alpha = np.full(len(apart), math.sqrt(max(0.0, float(apart.max(initial=0.0)))))
    else:
        # Of about the right shape first; then each as small as the others allow.
        alpha = np.maximum(np.abs(np.linalg.eigh(apart)[1][:, -1]), _LEAST)
        alpha *= math.sqrt(float(np.max(apart / np.outer(alpha, alpha))))
        for i in (*range(alpha.size), *range(alpha.size)):
            alpha[i] = np.max(apart[i] / alpha)
            alpha[i] = max(alpha[i], _LEAST * alpha.max())
    alpha = np.maximum(alpha, alpha.max() - _APART) * _SUMMED
    beta = np.sqrt(np.maximum(np.diag(common) - alpha * alpha, 0.0)) * _SUMMED
    return alpha, beta


def grouped(alpha: Array, beta: Array, most: int) -> list[tuple[float, float, int]]:
    """(α, β, how many places) of at most so many groups of places, each at its largest."""
    order = np.lexsort((alpha, beta))
    parts = np.array_split(order, min(most, order.size))
    return [(float(alpha[part].max()), float(beta[part].max()), part.size) for part in parts]


def best(places: Bins, delta: float, alike: bool) -> Payments:
    """The payments whose ε at `delta` is about the least. `alike`: with one α for all places."""
    count = min(places.period, _SEEN)
    some = np.unique(np.linspace(0, places.period - 1, count).round().astype(int)).tolist()
    rows = places.noises(some)

    def law(plan: Array) -> _Law:
        alpha, beta = spread(places.common(rows, places.paid(plan)), alike)
        return _Law.of(grouped(alpha, beta, _KINDS), places.period / len(some))

    plans = [np.array(start) for start in _STARTS]
    near = min(law(plan).epsilon(delta) for plan in plans)
    plan = min(plans, key=lambda plan: law(plan).log_delta(near))
    return places.paid(_searched(law, plan, law(plan).epsilon(delta)))


def _searched(law: Callable[[Array], _Law], start: Array, epsilon: float) -> Array:
    """A plan around this one of about the least δ at `epsilon`."""
    options = {"maxfev": _TRIES, "xatol": _CLOSE, "fatol": _CLOSE}
    simplex = np.where(start + _ASIDE > 1.0, -1.0, 1.0) * np.diag(_ASIDE)
    answer: Any = scipy.optimize.minimize(
        lambda plan: law(plan).log_delta(epsilon),
        start,
        method="Nelder-Mead",
        options={**options, "initial_simplex": start + np.vstack([0.0 * start, simplex])},
    )
    return np.asarray(answer.x)


class _Law(NamedTuple):
    """About the laws of Λ = Σ w·L_α(ξ)·L_β(ζ) at some ξ, each as masses of the multiples of a step."""

    step: Array
    p: Array

    @classmethod
    def of(cls, groups: Sequence[tuple[float, float, int]], each: float) -> _Law:
        """That of groups of places, every one of which stands for `each` in all."""
        tick()
        z, weight = np.linspace(-_FAR, _FAR, _PLACES), 1.0 / (each * sum(n for *_, n in groups))
        p, ndtr = np.diff(scipy.special.ndtr(z)), scipy.special.ndtr
        alpha, beta, n = (np.array(column) for column in zip(*groups, strict=True))
        alpha, beta, n = np.minimum(alpha, _SEEN_FROM), np.minimum(beta, _SEEN_FROM), n * each
        edges = np.exp(np.minimum(beta[:, None] * z - 0.5 * beta[:, None] ** 2, _FAR_OUT))
        moved = ndtr(z - beta[:, None])
        means = np.clip(np.diff(moved) / p, edges[:, :-1], edges[:, 1:])
        # (ξ, groups) and (ξ, groups, values)
        grown = weight * np.exp(np.outer(_NODES, alpha) - 0.5 * alpha**2)
        far = (grown * means[:, _RARE]).max(axis=1)
        second = (grown * grown) @ (n * np.expm1(np.minimum(beta * beta, _FAR_OUT)))
        step = (grown @ n + far + 8.0 * np.sqrt(second)) / _POINTS
        place = np.minimum((grown / step[:, None])[..., None] * means, _POINTS - 2.0)
        index = place.astype(np.intp)
        part = p * (place - index)
        index += _POINTS * np.arange(grown.size).reshape(*grown.shape, 1)
        shape, size = (*grown.shape, _POINTS), grown.size * _POINTS
        mass = np.bincount(index.ravel(), (p - part).ravel(), size)
        mass += np.bincount(index.ravel() + 1, part.ravel(), size)
        with np.errstate(divide="ignore"):
            logs = np.log(scipy.fft.rfft(mass.reshape(shape)))
        transform = np.exp(np.einsum("xgf,g->xf", logs, n))
        return cls(step, np.maximum(scipy.fft.irfft(transform, _POINTS), 0.0))

    def log_delta(self, epsilon: float) -> float:
        """About log δ if the first data set holds the record, as a rule the worse order."""
        gain = np.maximum(np.outer(self.step, np.arange(_POINTS)) - math.exp(epsilon), 0.0)
        return math.log(max(float(_DENSITY @ np.sum(self.p * gain, axis=1)), TINY))

    def epsilon(self, delta: float) -> float:
        """About ε, or what is too large to matter."""
        low, high, target = 0.0, 1.0, math.log(delta)
        while self.log_delta(high) > target and high < 64.0:
            low, high = high, 2.0 * high
        return bisected(lambda e: not self.log_delta(e) > target, low, high, rounds=12)[1]
