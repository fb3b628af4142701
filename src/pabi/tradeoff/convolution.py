"""Sums of many independent privacy losses, around the ε that matters.

Fourier transforms add numbers of all sizes and keep only the digits of the largest. Under the tilted
law p(y)·e^(λy)/M(λ), with λ such that its mean is the ε of interest, the losses near that ε are the
most likely ones, and their digits are kept, however small δ is. Three errors remain and are
accounted for, as masses under the tilted law, of which one that is lost or misplaced changes δ(ε) by
at most e^(K(λ) - λε) times it: what lies outside the window of the transform (Chernoff's bound), what
wraps around into it, and rounding (estimated with a wide margin).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded on first use
from numpy.typing import NDArray

from pabi.numbers.locking import tick, ticking
from pabi.numbers.rounding import MANY_ROUNDINGS, Array, mean
from pabi.tradeoff.answers import Memo
from pabi.tradeoff.grids import Losses, Profile
from pabi.tradeoff.pairs import LARGEST_EXPONENT, Indices

Complex = NDArray[np.complex128]

MOST_POINTS = 1 << 24
OUTSIDE = 1e-13  # tilted mass that may lie outside the window
_ROUNDED = 0.05  # nats: more than K errs where it is only about right
_ULP = 2.0**-53
_SUMMED = 1e-10  # relative: more than running sums of positive numbers err
_ROUNDS, _BEYOND = 60, 0.005  # of a search for a λ; relative, the least that a step goes beyond
_ODD = (1, 3, 5, 9, 15, 25, 27, 45, 75, 81)


@dataclass(frozen=True)
class Term:
    """A loss on the grid, released `count` times independently."""

    losses: Losses
    count: int


@dataclass(frozen=True)
class Sum:
    """The sum of the losses of `terms`, all on grids of this `step`."""

    terms: tuple[Term, ...]
    step: float
    _windows: Memo[float, tuple[float, float]] = field(
        default_factory=Memo, init=False, repr=False, compare=False
    )

    def grid(self, term: Term) -> Array:
        """The losses of one term, shape (points,)."""
        return np.asarray(term.losses.indices * self.step + term.losses.offset)

    @property
    def infinity(self) -> float:
        """The probability that one of the losses is infinite."""
        if any(t.losses.infinity >= 1.0 for t in self.terms):
            return 1.0
        return -math.expm1(math.fsum(t.count * math.log1p(-t.losses.infinity) for t in self.terms))

    def log_moment(self, power: float) -> float:
        """K(λ) = log E e^(λ·sum) over the finite losses."""
        return math.fsum(
            t.count * _log_moment(t.losses.p, self.grid(t), power) for t in ticking(self.terms)
        )

    @cached_property
    def _joined(self) -> _Joined:
        likely = [term.losses.p > 0.0 for term in self.terms]
        grids = [self.grid(term)[here] for term, here in zip(self.terms, likely, strict=True)]
        p = [term.losses.p[here] for term, here in zip(self.terms, likely, strict=True)]
        lengths = np.array([y.size for y in grids])
        counts = np.array([float(term.count) for term in self.terms])
        begins = np.cumsum(lengths) - lengths
        return _Joined(np.concatenate(p), np.concatenate(grids), begins, lengths, counts)

    def tilted(self, power: float) -> tuple[float, float, float]:
        """About (K, mean, variance) of the law tilted by λ."""
        tick()
        return self._joined.tilted(power)

    def saddle(self, epsilon: float, guess: float = 1.0, least: float = 0.0) -> float:
        """The λ ≥ 0 at which the tilted mean is `epsilon`, roughly, or `least` if that is more."""
        if self.tilted(0.0)[1] >= epsilon:
            return least
        low, high, power, beyond = 0.0, math.inf, max(guess, 1e-9), _BEYOND
        for _ in range(_ROUNDS):
            _, mean, variance = self.tilted(power)
            rises = mean < epsilon
            low, high = (power, high) if rises else (low, power)
            if low > 1e12 or high < least:
                return max(low, least)
            if high - low <= 4.0 * _BEYOND * low:
                return max(0.5 * (low + high), least)
            # Newton's step, and a little more, so that the two ends meet; kept from running away.
            step = (epsilon - mean) / variance if variance > 0.0 else math.inf
            step += beyond * power if rises else -beyond * power
            following = min(power + step, 4.0 * power)
            beyond *= 2.0
            if not low < following < high:
                following, beyond = _middle(low, high), _BEYOND
            power = following
        return max(power, least)

    def window(self, power: float) -> tuple[float, float]:
        """(low, high) outside which there is at most half of `OUTSIDE` on either side, tilted."""
        return self._windows(power, lambda: self._window(power))

    def _window(self, power: float) -> tuple[float, float]:
        base, mean, variance = self.tilted(power)
        spread = math.sqrt(variance) + self.step
        room = math.log(2.0 / OUTSIDE) + _ROUNDED
        theta = np.array([0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 10.0]) / spread
        risen, fallen = self._joined.log_moments(power + np.array([theta, -theta]))
        # A λ at which nothing is known says nothing.
        high = float(np.fmin.reduce((risen - base + room) / theta, initial=math.inf))
        low = float(np.fmax.reduce((base - fallen - room) / theta, initial=-math.inf))
        return min(low, mean), max(high, mean)


class _Joined(NamedTuple):
    """The losses of several terms one after the other, each term from its index in `begins` on."""

    p: Array
    y: Array
    begins: Indices
    lengths: Indices
    counts: Array

    def tilted(self, power: float) -> tuple[float, float, float]:
        """About (K, mean, variance) of the sum's law tilted by λ."""
        begins, scaled = self.begins, power * self.y
        top = np.maximum.reduceat(scaled, begins)
        with np.errstate(under="ignore"):
            q = self.p * np.exp(scaled - np.repeat(top, self.lengths))
        total = np.add.reduceat(q, begins)
        mean = np.add.reduceat(q * self.y, begins) / total
        apart = self.y - np.repeat(mean, self.lengths)
        variance = np.add.reduceat(q * (apart * apart), begins) / total
        log_moment = top + np.log(total)
        return tuple(float(self.counts @ x) for x in (log_moment, mean, variance))  # type: ignore[return-value]

    def log_moments(self, powers: Array) -> Array:
        """About K at every λ of an array."""
        scaled = powers[..., None] * self.y
        top = np.maximum.reduceat(scaled, self.begins, axis=-1)
        with np.errstate(under="ignore"):
            q = self.p * np.exp(scaled - np.repeat(top, self.lengths, axis=-1))
        return np.asarray((top + np.log(np.add.reduceat(q, self.begins, axis=-1))) @ self.counts)


def _middle(low: float, high: float) -> float:
    """The middle of a bracket of λ, on a scale of logarithms where it is long and does not begin at 0."""
    return mean(low, high) if low == 0.0 or high < 4.0 * low else math.sqrt(low * high)


class Tilted(NamedTuple):
    """Masses of a sum under its tilted law, on the points (begin + i)·step + offset of its grid, and a bound
    on the error of each."""

    begin: int
    offset: float
    mass: Array
    error: float


def transformed(total: Sum, power: float) -> Tilted:
    """The tilted masses within the window. Raises MemoryError for more than `MOST_POINTS`."""
    tick()
    step = total.step
    low, high = total.window(power)
    size = _fast_length(max(16, math.ceil((high - low) / step) + 2))
    if size > MOST_POINTS:
        raise MemoryError(f"{size} points")
    spectra: list[tuple[Complex, int]] = []
    shift, offset = 0, 0.0
    amplification, log_size = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)
    for term in ticking(total.terms):
        y = total.grid(term)
        q = _tilt(term.losses.p, y, power)
        # What stands still needs no transform, and adds nothing to its rounding: the bulk, if there is one.
        bulk = int(q.argmax())
        centre = round(float((y[bulk] if q[bulk] > 0.5 else q @ y) - term.losses.offset) / step)
        shift += term.count * centre
        offset += term.count * term.losses.offset
        ring = np.bincount((term.losses.indices - centre) % size, q, size)
        still, ring[0] = float(ring[0]), 0.0
        spectrum = scipy.fft.rfft(ring) + still
        magnitude = np.abs(spectrum)
        noise = 32.0 * _ULP * math.log2(size) * max(_norm(ring), 1.0 / math.sqrt(size))
        above = np.maximum(magnitude, noise)
        amplification += term.count * (noise / above + 16.0 * _ULP)
        log_size += term.count * np.log(above)
        spectra.append((spectrum, term.count))
    transform = _product(spectra, log_size)
    # Each coefficient may err by its own amplified noise; the sum of all bounds every point.
    with np.errstate(under="ignore"):
        size_of = np.exp(log_size)
    error = 1e-30 + 2.0 / size * float((size_of * np.expm1(np.minimum(amplification, 30.0))).sum())
    error += 32.0 * _ULP * math.log2(size) * _norm(size_of) * math.sqrt(2.0) / size
    mass = scipy.fft.irfft(transform, size)
    begin = math.floor((low - offset) / step)
    mass = np.roll(mass, -((begin - shift) % size))
    return Tilted(begin, offset, np.maximum(mass, 0.0), error)


def profile(total: Sum, power: float, reach: float = math.inf) -> Profile:
    """δ around the tilted mean at λ = `power`, up to `reach` standard deviations from it. Raises
    MemoryError for more than `MOST_POINTS`."""
    begin, offset, mass, error = transformed(total, power)
    step, first, last = total.step, 0, mass.size
    if reach < math.inf:
        _, mean, variance = total.tilted(power)
        middle, near = (mean - offset) / step - begin, reach * (math.sqrt(variance) / step + 1.0)
        first = min(max(first, math.floor(middle - near)), mass.size - 1)
        last = max(min(last, math.ceil(middle + near)), first + 1)
    epsilon = (begin + np.arange(first, last, dtype=np.float64)) * step + offset
    return _read(
        epsilon,
        mass[first:],
        error=error,
        power=power,
        log_moment=total.log_moment(power),
        infinity=total.infinity,
        step=step,
    )


def mean_excess(total: Sum, power: float, at: Array) -> tuple[Array, Array]:
    """Upper bounds on E(sum - t)⁺ over the finite values for every t of `at`, sharp near the one to which
    `power` > 0 tilts the mean, and how much of each stands for what the transform may have lost. Raises
    MemoryError for more than `MOST_POINTS`."""
    begin, offset, mass, error = transformed(total, power)
    base, step = total.log_moment(power), total.step
    y = (begin + np.arange(mass.size, dtype=np.float64)) * step + offset
    low, last = float(y[0]), float(y[-1])
    first = min(int(np.searchsorted(y, at.min(), side="right")), y.size - 1)
    y, mass = y[first:], mass[first:]
    n = np.searchsorted(y, at, side="right")
    here = np.minimum(n, y.size - 1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        beyond = np.maximum(y[here] - at, 0.0)
        # Σ m·x·e^(-λx) over the points above t, from sums at the first of them.
        places, which = np.unique(here, return_inverse=True)
        plain, times = _decaying_sums(mass, power, step, places)
        gain = np.exp(-power * beyond) * (times[which] + beyond * plain[which])
        gain = np.where(n < y.size, gain, 0.0)
        # x·e^(-λx) is largest at 1/λ, and what lies above the window counts by less than its end, if that is
        # farther. What lies below it does not count, if the window reaches down to t.
        end = np.maximum(np.where(low <= at, last - at, 0.0), 1.0 / power)
        # The same error at every point adds up to less than the sum of all gains.
        sums = (y.size - n) * np.minimum(np.maximum(last - at, 0.0), 1.0 / (math.e * power))
        rest = -math.expm1(-power * step)
        series = np.exp(-power * beyond) * (beyond + step * (1.0 - rest) / rest) / rest
        doubt = OUTSIDE * end * np.exp(-power * end) + error * np.minimum(sums, series)
        log_scale = base - power * at
        scale = np.exp(log_scale) * (1.0 + 64.0 * _ULP * (8.0 + abs(base) + power * np.abs(at)))
        scale *= 1.0 + _SUMMED
        usable = log_scale < LARGEST_EXPONENT
        value = np.where(usable, (gain + doubt) * scale, math.inf)
        return value, np.where(usable, doubt * scale, math.inf)


def _norm(x: NDArray[Any]) -> float:
    """Not by a product of long vectors, which waits for threads where processors are busy."""
    return math.sqrt(float((x * x).sum()))


def _fast_length(least: int) -> int:
    """The least m·2^k ≥ `least` with a small odd m, for which transforms are quickest."""
    return min(m << max(0, -(-least // m) - 1).bit_length() for m in _ODD)


def _read(
    epsilon: Array,
    mass: Array,
    *,
    error: float,
    power: float,
    log_moment: float,
    infinity: float,
    step: float,
) -> Profile:
    """δ(ε) = Σ_{y > ε} p(y)(1 - e^(ε-y)) from the tilted masses, by running sums from the right; at
    `epsilon`, the losses of the first of them."""
    decay = math.exp(-power * step)
    # With A = Σ_{j>k} m_j e^(-λ(y_j - y_k)) and B the same for λ + 1, δ_k = e^(K - λy_k)(A - B), and
    # A_(k-1) = e^-λs(A_k + m_k); the difference G = A - B obeys G_(k-1) = e^-(λ+1)s(G_k + (e^s -
    # 1)(A_k + m_k)), without cancellation.
    later = _decaying_sum(mass, decay)
    gap = _decaying_sum(math.expm1(step) * (later + mass), decay * math.exp(-step))[: epsilon.size]
    # The same error at every point adds up to a geometric series, or to all points there are.
    remaining = mass.size - np.arange(float(epsilon.size))
    series = _inverse_expm1(power * step) - _inverse_expm1((power + 1.0) * step)
    spread = np.minimum(remaining, series)
    lost = OUTSIDE * _largest_gain(power) + error * spread
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scale = np.exp(log_moment - power * epsilon)
        rounding = 1.0 + 64.0 * _ULP * (8.0 + abs(log_moment) + power * np.abs(epsilon))
        upper = scale * (gap + lost) * rounding + infinity * (1.0 + MANY_ROUNDINGS)
        lower = scale * np.maximum(gap - lost, 0.0) / rounding + infinity * (1.0 - MANY_ROUNDINGS)
    upper = np.where(np.isnan(upper), 1.0, np.minimum(upper, 1.0))
    return Profile(epsilon, np.where(np.isnan(lower), 0.0, np.minimum(lower, upper)), upper)


def _inverse_expm1(x: float) -> float:
    """1/(e^x - 1) for x ≥ 0."""
    return math.inf if x == 0.0 else 1.0 / math.expm1(x) if x < LARGEST_EXPONENT else 0.0


def _decaying_sum(values: Array, decay: float) -> Array:
    """S_k = Σ_{j > k} values_j·decay^(j - k), which solves S_k - decay·S_(k+1) = decay·values_(k+1)."""
    due = np.append(decay * values[1:], 0.0)
    bands = np.full((2, values.size), -decay)  # those of the diagonal are taken to be 1
    return np.asarray(scipy.linalg.blas.dtbsv(1, bands, due, diag=1, overwrite_x=1))


def _decaying_sums(
    values: Array, power: float, step: float, places: Indices
) -> tuple[Array, Array]:
    """Σ_{j ≥ k} values_j·e^(-λx_j) and Σ_{j ≥ k} values_j·x_j·e^(-λx_j), x_j the distance from k to j, for
    every k of `places`, which rise."""
    gap = step * np.diff(places, append=values.size)
    x = step * (
        np.arange(places[0], values.size) - np.repeat(places, np.diff(places, append=values.size))
    )
    decayed = values[places[0] :] * np.exp(-power * x)
    plain, times = (np.add.reduceat(y, places - places[0]) for y in (decayed, decayed * x))
    decay = np.exp(-power * gap)
    for k in range(places.size - 2, -1, -1):
        times[k] += decay[k] * (times[k + 1] + gap[k] * plain[k + 1])
        plain[k] += decay[k] * plain[k + 1]
    return plain, times


def _largest_gain(power: float) -> float:
    """sup over x ≥ 0 of e^(-λx)(1 - e^-x) = λ^λ/(1 + λ)^(1 + λ)."""
    if power == 0.0:
        return 1.0
    return math.exp(-power * math.log1p(1.0 / power) - math.log1p(power))


def _product(spectra: list[tuple[Complex, int]], log_size: Array) -> Complex:
    """The product of the powers of spectra, where it is not below 1e-30 of its sum."""
    large = np.flatnonzero(log_size > -85.0)
    log, angle = np.zeros(large.size), np.zeros(large.size)
    with np.errstate(divide="ignore"):
        for spectrum, count in spectra:
            part = spectrum[large]
            log += count * np.log(np.abs(part))
            angle += np.remainder(count * np.angle(part), 2.0 * math.pi)
    result = np.zeros(log_size.size, dtype=np.complex128)
    result[large] = np.exp(log) * (np.cos(angle) + 1j * np.sin(angle))
    return result


def _log_moment(p: Array, y: Array, power: float) -> float:
    """log of Σ p·e^(λy)."""
    scaled, top = _exponents(p, y, power)
    with np.errstate(under="ignore", over="ignore"):
        if abs(top) < 1.0:
            change = float(p @ np.expm1(np.minimum(scaled, 1.0))) + (float(p.sum()) - 1.0)
            if change > -0.5:  # otherwise digits are lost
                return math.log1p(change)
        return top + math.log(float(p @ np.exp(np.minimum(scaled - top, 0.0))))


def _exponents(p: Array, y: Array, power: float) -> tuple[Array, float]:
    """(λy, the largest of these where p > 0)."""
    scaled = power * y
    return scaled, float(scaled.max(where=p > 0.0, initial=-math.inf))


def _tilt(p: Array, y: Array, power: float) -> Array:
    """p·e^(λy), normalised."""
    scaled, top = _exponents(p, y, power)
    with np.errstate(under="ignore", over="ignore"):
        q = p * np.exp(np.minimum(scaled - top, 0.0))
    return np.asarray(q / q.sum())
