"""Payments in advance: what a use costs that is known to pull to one side.

A use moves the one run to within u of q·g, g a unit vector. So the difference of the two runs can be kept
within z of −n·g: whoever pays before the use lets n grow, and q − n and u are left to be paid after it.
From (n, z), at first (0, start), before a step of slopes in [low, high] to (n′, z′) after it one pays

    p = (A + B)⁺ + 2·(−A)⁺,   A = n′ − c·n + q,   B = h·z + r·n + u − z′,

c the middle of the slopes, r half of their distance, h the largest size of one, at a cost of (p/σ)² (docs,
"Payments in advance"). The n and z of least cost are a convex quadratic programme, whose normal equations are
banded: an interior-point method takes time proportional to the steps. Whatever n and z are, what they cost is
a bound, and it is computed anew.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.locking import tick
from pabi.numbers.rounding import TINY, Array
from pabi.tradeoff.answers import Memo

_ROUNDS = 60
_CLOSE = 1e-5  # relative: how near to the least cost
_FEASIBLE = 1e-9  # in the largest sensitivity: by how much a solution may miss
_INSIDE = 0.995  # of the way to the nearest bound
_SURE = 16.0 * 2.0**-52  # relative: more than a sum of six terms errs
SLOPE = 8.0 * 2.0**-52  # more than a slope is off by
_CHAIN, _ROOM = 4096, 32  # additions in a chain of a sum at most, and more than those besides
_RIDGE = 1.0 + 1e-14  # of a diagonal, against rounding


class PulledSteps(NamedTuple):
    """Steps whose uses pull to one side, (steps,): the least and the largest slope, where uses move the run
    to and within what distance of it, and the noise. `start`: how far apart the runs are before them."""

    low: Array
    high: Array
    q: Array
    u: Array
    sigma: Array
    start: float = 0.0


class Between(NamedTuple):
    """Where the difference of two runs is after every step but the last: within `z` of −`n` along the pull,
    (steps − 1,); and about Σ (p/σ)² of what that takes."""

    n: Array
    z: Array
    square: float


def solve(chains: list[PulledSteps]) -> list[Between]:
    """The best n and z of each of several runs."""
    units = [max(float(np.maximum(chain.q, chain.u).max()), TINY) for chain in chains]
    # What is best depends on lengths and noises but for one factor each, so that runs with other noise need
    # not be solved again; and what it costs is computed from the numbers themselves.
    rough = [_roughly(chain, unit) for chain, unit in zip(chains, units, strict=True)]
    key = tuple(b"".join(x.tobytes() for x in part[:-1]) for part in rough)
    n, z = _PATHS((key, tuple(part.start for part in rough)), lambda: _Programme(rough).solved())
    ends = np.cumsum([chain.q.size for chain in chains])[:-1]
    several = zip(np.split(n, ends), np.split(z, ends), units, chains, strict=True)
    return [costing(own_n[:-1] * u, own_z[:-1] * u, steps) for own_n, own_z, u, steps in several]


_PATHS: Memo[tuple[tuple[bytes, ...], tuple[float, ...]], tuple[Array, Array]] = Memo(16)


def _roughly(steps: PulledSteps, unit: float) -> PulledSteps:
    """The steps in this unit of length, and that of the largest noise, to a few digits."""
    low, high, q, u, sigma, start = steps
    columns = (low, high, q / unit, u / unit, sigma / sigma.max())
    low, high, q, u, sigma = (x.astype(np.float32).astype(np.float64) for x in columns)
    return PulledSteps(
        low=low, high=high, q=q, u=u, sigma=sigma, start=float(np.float32(start / unit))
    )


def costing(n: Array, z: Array, steps: PulledSteps) -> Between:
    """These n and z, and what they cost."""
    low, high, q, u, sigma, start = steps
    before_n, before_z = np.append(0.0, n), np.append(start, z)
    after_n, after_z = np.append(n, 0.0), np.append(z, 0.0)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    ahead = [after_n, -middle * before_n, q]
    left = [np.maximum(np.abs(low), np.abs(high)) * before_z, half * before_n, u, -after_z]
    a, b = sum(ahead), sum(left)
    size = sum(map(np.abs, [*ahead, *left]))
    paid = np.maximum(a + b, 0.0) + 2.0 * np.maximum(-a, 0.0) + _SURE * size
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.where(paid > 0.0, (paid / sigma) ** 2, 0.0)
    total = math.fsum(squares.tolist())
    return Between(n, z, math.inf if math.isnan(total) else total)


class _Programme:
    """min ½·xᵀQx with A·x = b, x ≥ 0, for the columns ν, ζ, τ, n, z of x, a row a step:

        n = c·n₋ − q + ν + τ,   z = h·z₋ + r·n₋ + u + τ − ζ,   Σ ((ν + ζ)/σ)² least,

    n₋, z₋ those of the step before. All runs stand one after the other."""

    def __init__(self, chains: list[PulledSteps]) -> None:
        *columns, starts = zip(*chains, strict=True)
        low, high, q, u, sigma = map(np.concatenate, columns)
        self.weight = (sigma.max() / sigma) ** 2
        ends = np.cumsum([chain.q.size for chain in chains])
        first, last = np.append(0, ends[:-1]), ends - 1
        self.c, self.r = 0.5 * (low + high), 0.5 * (high - low)
        self.h = np.maximum(np.abs(low), np.abs(high))
        u[first] += self.h[first] * starts
        self.unit = float(np.maximum(q, u).max()) or 1.0
        for column in (self.c, self.r, self.h):
            column[first] = 0.0
        self.free = np.ones((q.size, 5))
        self.free[last, 3:] = 0.0
        self.b = np.stack([-q, u], axis=1) / self.unit

    def solved(self) -> tuple[Array, Array]:
        """(n, z) after every step, by Mehrotra's predictor and corrector."""
        free, shape = self.free, self.free.shape
        x, slack, y = np.ones(shape), np.ones(shape), np.zeros((shape[0], 2))
        x *= free
        for _ in range(_ROUNDS):
            tick()
            gap = float((x * slack * free).sum())
            cost = float(self.weight @ (x[:, 0] + x[:, 1]) ** 2)
            missed = self._a(x) - self.b
            if gap <= _CLOSE * max(cost, 1e-30) and np.abs(missed).max() <= _FEASIBLE:
                break
            residual = self._q(x) - self._at(y) - slack
            try:
                system = _System(self, x, slack, missed=missed, residual=residual)
            except np.linalg.LinAlgError:
                break  # no digits are left: what is found so far counts
            x_step, y_step, s_step = system.step(-x * slack)
            reach = _reach(x, x_step, free), _reach(slack, s_step, free)
            after = (x + reach[0] * x_step) * (slack + reach[1] * s_step) * free
            centre = gap * (float(after.sum()) / gap) ** 3 / free.sum()
            x_step, y_step, s_step = system.step(centre - x * slack - x_step * s_step)
            move = min(_reach(x, x_step, free), _reach(slack, s_step, free))
            x, y, slack = x + move * x_step, y + move * y_step, slack + move * s_step
        n, z = (np.maximum(x[:, i] * free[:, i], 0.0) * self.unit for i in (3, 4))
        return n, z

    def _a(self, x: Array) -> Array:
        nu, zeta, tau, n, z = x.T
        out = np.stack([n - nu - tau, z + zeta - tau], axis=1)
        out[1:, 0] -= self.c[1:] * n[:-1]
        out[1:, 1] -= self.h[1:] * z[:-1] + self.r[1:] * n[:-1]
        return out

    def _at(self, y: Array) -> Array:
        of_n, of_z = y.T
        out = np.stack([-of_n, of_z, -of_n - of_z, of_n, of_z], axis=1)
        out[:-1, 3] -= self.c[1:] * of_n[1:] + self.r[1:] * of_z[1:]
        out[:-1, 4] -= self.h[1:] * of_z[1:]
        return out * self.free

    def _q(self, x: Array) -> Array:
        out = np.zeros_like(x)
        out[:, 0] = out[:, 1] = self.weight * (x[:, 0] + x[:, 1])
        return out


class _System:
    """The linear system of one round: steps in x and y, of which the normal equations are banded, as the
    equations of a step have unknowns of this step and the one before."""

    def __init__(
        self, of: _Programme, x: Array, slack: Array, *, missed: Array, residual: Array
    ) -> None:
        self.of, self.slack, self.missed = of, slack, missed
        self.residual = residual * of.free
        self.x = np.where(of.free > 0.0, x, 1.0)
        scale, w = slack / self.x, of.weight
        nu, zeta = scale[:, 0], scale[:, 1]
        determinant = w * (nu + zeta) + nu * zeta
        self.pair = (w + zeta) / determinant, -w / determinant, (w + nu) / determinant
        self.rest = of.free[:, 2:] / scale[:, 2:]
        tau, n, z = self.rest.T
        c, r, h = of.c[1:], of.r[1:], of.h[1:]
        band = np.zeros((4, 2 * n.size))
        diagonal = np.stack([self.pair[0] + tau + n, self.pair[2] + tau + z], axis=1)
        diagonal[1:, 0] += c * c * n[:-1]
        diagonal[1:, 1] += h * h * z[:-1] + r * r * n[:-1]
        across = tau - self.pair[1]
        across[1:] += c * r * n[:-1]
        band[3] = diagonal.ravel() * _RIDGE
        band[2, 1::2] = across
        band[1, 2::2], band[1, 3::2], band[0, 3::2] = -c * n[:-1], -h * z[:-1], -r * n[:-1]
        self.factor = scipy.linalg.cholesky_banded(band, check_finite=False)

    def step(self, target: Array) -> tuple[Array, Array, Array]:
        """The changes of x, y and the slacks that bring x·slack to where `target` says."""
        pull = target / self.x - self.residual
        right = (-self.missed - self.of._a(self._inverse(pull))).ravel()
        y = scipy.linalg.cho_solve_banded((self.factor, False), right, check_finite=False)
        y = y.reshape(-1, 2)
        x = self._inverse(pull + self.of._at(y))
        return x, y, (target - self.slack * x) / self.x * self.of.free

    def _inverse(self, v: Array) -> Array:
        one, both, other = self.pair
        out = np.empty_like(v)
        out[:, 0] = one * v[:, 0] + both * v[:, 1]
        out[:, 1] = both * v[:, 0] + other * v[:, 1]
        out[:, 2:] = self.rest * v[:, 2:]
        return out


def _reach(value: Array, change: Array, free: Array) -> float:
    """How far one may go along a change, at most 1."""
    falling = (change < 0.0) & (free > 0.0)
    nearest = float((-value[falling] / change[falling]).min(initial=math.inf))
    return min(1.0, _INSIDE * nearest)


def ball(cone: Fraction, most: int) -> tuple[float, float]:
    """(where on its axis, how large) a ball around the part of the cone within distance 1 is, rounded up.
    Sums that are computed differ by a little more, to any side (docs, "Payments in advance")."""
    cosine = math.sqrt(cone)
    centre = 0.5 / cosine if 2 * cone >= 1 else cosine
    radius = max(centre, math.sqrt(max(0.0, 1.0 - 2.0 * centre * cosine + centre * centre)))
    return centre, radius * (1.0 + SLOPE + 8.0 * most * (min(most, _CHAIN) + _ROOM) * 2.0**-53)
