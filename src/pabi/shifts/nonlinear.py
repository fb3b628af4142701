"""Optimal shifts for moduli of any shape.

With distances z_k and payments a_k = ω_k(z_{k−1}) + s_k − z_k, 0 ≤ a_k ≤ ω_k(z_{k−1}) + s_k, from z = w_τ
before step τ + 1 to z_t = 0, the runs are G(μ)-close with μ² = Σ (a_k/σ_k)² (docs, "Shifts imply GDP").
Whatever distances are found are feasible, so that a rough optimum is a valid bound; ω(0) = 0 though
ω(0+) may be larger, so that staying at 0 is a choice of its own.

Two solvers. If every ω_k is √(κδ² + h) and no step has a sensitivity, the least cost of reaching 0 after a
given step, from a distance z, is Az² + B, by induction from that step back (Bravo, Flores-Mella, Guzmán,
Thm 3.4); the best step and the best start are found on the way. Otherwise dynamic programming over
distances on a grid, whose policies are feasible as they are, and Newton's method from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.errors import NotApplicable
from pabi.moduli import Affine, Linear, Minimum, Modulus, Sqrt
from pabi.rounding import Array

_POINTS = 96  # distances on the grid
_ROUNDS = 60  # of Newton's method
_STARTS, _CLOSE = 3, 1.2  # starts of an octave that are looked at closely, if not that much worse
_MOST = 1_000_000  # steps that are looked at


class Payments(NamedTuple):
    """Steps `first`, …, t - 1 (from 0) pay; z (m + 1,) are the distances before the first and after each;
    a (m,) what each pays; `square` is μ²."""

    first: int
    z: Array
    a: Array
    square: float


@dataclass(frozen=True, eq=False)
class Shapes:
    """Moduli ω_k(δ) = min over p of √(slope²δ² + h) + shift; each array is (pieces, steps)."""

    slope: Array
    h: Array
    shift: Array

    @property
    def steps(self) -> int:
        return int(self.slope.shape[1])

    @property
    def single(self) -> bool:
        """Whether every ω_k is √(κδ² + h)."""
        return self.slope.shape[0] == 1 and not self.shift.any()

    def part(self, first: int) -> Shapes:
        """From step `first` on."""
        return Shapes(self.slope[:, first:], self.h[:, first:], self.shift[:, first:])

    def column(self, k: int) -> tuple[Array, Array, Array]:
        """The pieces of ω_k."""
        return self.slope[:, k], self.h[:, k], self.shift[:, k]

    def at(self, k: int, distance: Array) -> Array:
        """ω_k at some distances (m,), 0 at 0."""
        straight = self.slope[:, k, None] * distance
        roots = np.sqrt(straight * straight + self.h[:, k, None]) + self.shift[:, k, None]
        return np.where(distance > 0.0, roots.min(axis=0), 0.0)

    def along(self, distance: Array) -> tuple[Array, Array, Array]:
        """(ω_k, ω_k′, ω_k″) at one distance a step (t,), rounded up; 0 at 0."""
        straight = self.slope * distance
        root = np.sqrt(straight * straight + self.h)
        piece = np.argmin(root + self.shift, axis=0), np.arange(distance.size)
        slope, h, root = self.slope[piece], self.h[piece], root[piece]
        value = (root + self.shift[piece]) * (1.0 + 1e-15)
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(h > 0.0, slope * straight[piece] / root, slope)
            second = np.where(h > 0.0, slope * slope * h / root**3, 0.0)
        # At 0 the value is 0; the slope is that of a continuous modulus there.
        zero, jump = distance == 0.0, (np.sqrt(self.h) + self.shift).min(axis=0) > 0.0
        first = np.where(zero & jump, 0.0, first)
        return np.where(zero, 0.0, value), first, np.where(zero, 0.0, second)

    @property
    def continuous(self) -> NDArray[np.bool_]:
        """Whether ω_k(0+) = 0, (t,)."""
        return np.asarray((np.sqrt(self.h) + self.shift).min(axis=0) == 0.0)


def shapes(moduli: Sequence[Modulus]) -> Shapes:
    """The pieces of these moduli. NotApplicable for those given as functions, or unknown."""
    known: dict[Modulus, list[tuple[float, float, float]]] = {}
    for modulus in moduli:
        if modulus not in known:
            parts = modulus.parts if isinstance(modulus, Minimum) else (modulus,)
            known[modulus] = [_piece(part) for part in parts]
    most = max(map(len, known.values()))
    table = {m: np.array(p + [(0.0, 0.0, math.inf)] * (most - len(p))) for m, p in known.items()}
    columns = np.stack([table[m] for m in moduli], axis=-1)  # (pieces, 3, steps)
    return Shapes(columns[:, 0], columns[:, 1], columns[:, 2])


def _piece(modulus: Modulus) -> tuple[float, float, float]:
    if isinstance(modulus, Linear):
        return modulus.slope, 0.0, 0.0
    if isinstance(modulus, Sqrt):
        root = math.sqrt(modulus.kappa)
        return math.nextafter(root, math.inf) if root else 0.0, modulus.h, 0.0
    if isinstance(modulus, Affine):
        return modulus.slope, 0.0, modulus.shift
    raise NotApplicable("a step's modulus is unknown, or given as a function only")


def solve(shape: Shapes, s: Array, sigma: Array, diameter: float, start: float) -> Payments:
    """Payments of least cost found, from the best start.

    `s`, `sigma`: sensitivities and noises, (t,). `diameter`: ∞ if there is none; `start`: w_0.
    """
    if shape.steps > _MOST:
        raise NotApplicable(f"more than {_MOST} steps, whose moduli are not linear")
    if shape.single and not s.any():
        return _quadratic(shape, sigma, diameter, start)
    return _general(shape, s, sigma, diameter, start)


def replay(shape: Shapes, s: Array, sigma: Array, first: int, z: Array, start: float) -> Payments:
    """The payments that keep at most these distances z (m + 1,), from `start` on."""
    part = shape.part(first)
    kept = np.append(start, z[1:])
    reach = part.along(kept[:-1])[0] + s[first:]
    kept[1:] = np.minimum(kept[1:], reach)
    while True:  # a lower distance lowers what follows
        reach = part.along(kept[:-1])[0] + s[first:]
        lower = np.minimum(kept[1:], reach)
        if np.array_equal(lower, kept[1:]):
            break
        kept[1:] = lower
    a = np.maximum(reach - kept[1:], 0.0) * (1.0 + 4e-15)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(a > 0.0, (a / sigma[first:]) ** 2, 0.0)
    return Payments(first, kept, a, math.fsum(terms.tolist()) * (1.0 + 1e-15))


# No sensitivities: the cost is the least of a few quadratics.


class _Lines:
    """V as the lower envelope of lines A·x + B in x = z², one for every step `end` at which 0 is reached
    (and kept, at no cost): before a step with r² = κx + h they are κG·x + hG + B, G = 1/(σ² + 1/A)."""

    def __init__(self, most: float) -> None:
        self.most = most  # x beyond which a line need not be the least
        self.slope, self.offset, self.end = np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)

    def back(self, k: int, kappa: float, h: float, square: float) -> None:
        """From after step k to before it."""
        slope = np.append(self.slope, math.inf)  # the new line: 0 right after step k
        offset = np.append(self.offset, 0.0)
        with np.errstate(divide="ignore"):
            gain = 1.0 / (square + 1.0 / slope)
        self.slope, self.offset = kappa * gain, offset + h * gain
        self.end = np.append(self.end, k + 1)
        if self.slope.size > 400:
            self._prune()

    def least(self, x: float) -> tuple[float, int]:
        """(V, the end) at one x."""
        values = self.slope * x + self.offset
        i = int(np.argmin(values))
        return float(values[i]), int(self.end[i])

    def _prune(self) -> None:
        """Keeps what is least somewhere on a fine grid of x; whatever is kept is valid."""
        x = np.concatenate([[0.0], np.geomspace(1e-9 * self.most, self.most, 150)])
        kept = np.unique(np.argmin(np.outer(x, self.slope) + self.offset, axis=1))
        self.slope, self.offset, self.end = self.slope[kept], self.offset[kept], self.end[kept]


def _quadratic(shape: Shapes, sigma: Array, diameter: float, start: float) -> Payments:
    t = shape.steps
    kappa, h, squares = shape.slope[0] ** 2, shape.h[0], sigma * sigma
    finite = diameter if diameter < math.inf else start
    lines = _Lines(4.0 * (finite * finite + float(h.max())) or 1.0)
    best, first, end, begin = math.inf, 0, t, start
    for k in range(t - 1, -1, -1):
        lines.back(k, float(kappa[k]), float(h[k]), float(squares[k]))
        if diameter < math.inf:
            cost, at = lines.least(diameter * diameter)
            if cost < best:
                best, first, end, begin = cost, k, at, diameter
    cost, at = lines.least(start * start)
    if start == 0.0:
        first, end, begin = 0, 0, 0.0
    elif cost <= best and start <= diameter:
        first, end, begin = 0, at, start
    z = np.zeros(t - first + 1)
    z[0], inverse, gain = begin, 0.0, np.zeros(t)
    for k in range(end - 1, first - 1, -1):
        below = squares[k] + inverse
        gain[k] = 1.0 / below if below > 0.0 else math.inf
        inverse = below / kappa[k] if kappa[k] > 0.0 else math.inf
    for i, k in enumerate(range(first, end - 1)):
        r = math.sqrt(kappa[k] * z[i] ** 2 + h[k]) if z[i] > 0.0 else 0.0
        z[i + 1] = r * max(0.0, 1.0 - squares[k] * gain[k])
    return replay(shape, np.zeros(t), sigma, first, z, begin)


# Everything else.


def forward(shape: Shapes, s: Array, diameter: float, start: float) -> Array:
    """w_k = min(D, ω_k(w_{k−1}) + s_k), (t + 1,)."""
    w = np.empty(shape.steps + 1)
    w[0] = min(start, diameter)
    for k in range(shape.steps):
        reach = float(shape.at(k, w[k : k + 1])[0]) + s[k]
        w[k + 1] = min(diameter, reach * (1.0 + 4e-16))
    return w


def _general(shape: Shapes, s: Array, sigma: Array, diameter: float, start: float) -> Payments:
    w = forward(shape, s, diameter, start)
    found = []
    for first, z in _by_programming(shape, s, sigma, w):
        rough = replay(shape, s, sigma, first, z, float(w[first]))
        found.append(_polished(shape.part(first), s[first:], sigma[first:], rough))
    return min(found, key=lambda payments: payments.square)


def _by_programming(
    shape: Shapes, s: Array, sigma: Array, w: Array
) -> list[tuple[int, Array]]:
    """(first step that pays, distances from there on) for a few starts, by dynamic programming from the
    end: least costs at distances on a grid, interpolated, paying one of a few parts of what is owed."""
    t, top = shape.steps, float(np.max(w, where=np.isfinite(w), initial=0.0)) or 1.0
    half = _POINTS // 2
    grid = np.union1d(np.geomspace(1e-6 * top, top, half), np.linspace(0.0, top, half)[1:])
    value = _Cost(grid)
    chosen = np.zeros((t, grid.size), dtype=np.uint8)
    starts, towards = np.full(t, math.inf), np.zeros(t, dtype=np.uint8)
    weights = np.divide(1.0, sigma * sigma, out=np.full(t, math.inf), where=sigma > 0.0)
    ways: dict[bytes, _Ways] = {}  # of equal steps, kept
    for k in range(t - 1, -1, -1):
        key = b"".join(x.tobytes() for x in (*shape.column(k), s[k], sigma[k]))
        if key not in ways:
            if len(ways) > 1000:
                ways.clear()
            owed = np.append(shape.at(k, grid), 0.0) + s[k]  # the last one from 0
            ways[key] = value.ways(owed, weights[k])
        own = value.ways(shape.at(k, w[k : k + 1]) + s[k], weights[k])
        cost, part = value.least(own)
        starts[k], towards[k] = cost[0], part[0]
        cost, part = value.least(ways[key])
        value.points, value.zero, chosen[k] = cost[:-1], float(cost[-1]), part[:-1]
    if not np.isfinite(starts).any():
        return [(0, np.append(w[0], np.zeros(t)))]  # noise is missing: whatever is paid, μ = ∞
    # The best start of each octave of window lengths: interpolated costs are not exact.
    octave = np.floor(np.log2(t - np.arange(t))).astype(np.int64)
    few = {int(np.argmin(starts)), 0}
    for each in np.unique(octave):
        inside = np.flatnonzero(octave == each)
        few.update(inside[np.argsort(starts[inside], kind="stable")[:_STARTS]].tolist())
    longest = 4 * (t - int(np.argmin(starts))) + 1000  # others are slow to look at, and seldom better
    found = []
    for begin in sorted(k for k in few if starts[k] <= _CLOSE * starts.min() and t - k <= longest):
        z, at = [float(w[begin])], _PARTS[towards[begin]]
        for k in range(begin, t):
            if k > begin:
                at = 1.0 if z[-1] == 0.0 else float(_PARTS[chosen[k, np.searchsorted(grid, z[-1]) - 1]])
            owed = float(shape.at(k, np.array(z[-1:]))[0]) + s[k]
            z.append(0.0 if k == t - 1 else owed * (1.0 - at))
        found.append((begin, np.array(z)))
    return found


_PARTS = np.concatenate([[0.0], np.geomspace(1e-4, 0.9, 30), [1.0]])  # of what is owed


class _Ways(NamedTuple):
    """For what is owed (m,): what each part costs (m, parts), and where on the grid it leads."""

    paid: Array
    index: NDArray[np.intp]
    share: Array


class _Cost:
    """The least cost from a distance on: at 0 by itself, at grid points, linear between."""

    def __init__(self, grid: Array) -> None:
        self.grid = grid
        self.points, self.zero = np.full(grid.size, math.inf), 0.0

    def ways(self, owed: Array, weight: float) -> _Ways:
        part = owed[:, None] * _PARTS
        with np.errstate(invalid="ignore"):
            paid = np.where(part > 0.0, part * part * weight, 0.0)
        after = np.clip(owed[:, None] - part, self.grid[0], self.grid[-1])
        index = np.minimum(np.searchsorted(self.grid, after, side="right"), self.grid.size - 1)
        low, high = self.grid[index - 1], self.grid[index]
        return _Ways(paid, index, (after - low) / (high - low))

    def least(self, ways: _Ways) -> tuple[Array, NDArray[np.intp]]:
        """(cost, the part that is paid) of each."""
        low, high = self.points[ways.index - 1], self.points[ways.index]
        with np.errstate(invalid="ignore"):
            after = np.where(ways.share == 0.0, low, low + ways.share * (high - low))
        after[:, -1] = self.zero
        total = np.where(np.isnan(after), math.inf, ways.paid + after)
        part = np.argmin(total, axis=1)
        return total[np.arange(part.size), part], part


def _polished(shape: Shapes, s: Array, sigma: Array, rough: Payments) -> Payments:
    """Newton's method on the distances that are not 0, with Σ (ω(z) + s − z')²/σ² as objective."""
    from scipy.linalg import solve_banded

    if not rough.square < math.inf or (sigma == 0.0).any():
        return rough
    may_leave = shape.continuous[1:]
    if rough.z.size <= 2 or not ((rough.z[1:-1] > 0.0) | may_leave).any():
        return rough
    best, weight, damping = rough, 1.0 / (sigma * sigma), 1e-9
    for _ in range(_ROUNDS):
        z = best.z
        value, first, second = shape.along(z[:-1])
        gap = value + s - z[1:]
        slope = -gap[:-1] * weight[:-1] + gap[1:] * weight[1:] * first[1:]
        free = (z[1:-1] > 0.0) | (may_leave & (slope < 0.0))
        bend = weight[:-1] + weight[1:] * (first[1:] ** 2 + np.maximum(gap[1:], 0.0) * second[1:])
        across = -weight[1:-1] * first[1:-1] * np.where(free[:-1] & free[1:], 1.0, 0.0)
        middle = np.where(free, bend * (1.0 + damping), 1.0)
        bands = np.array([np.append(0.0, across), middle, np.append(across, 0.0)])
        move = solve_banded((1, 1), bands, np.where(free, -slope, 0.0))
        trial = z.copy()
        lowest = np.where(free & ~may_leave, 1e-300, 0.0)  # 0 is another matter where ω jumps
        trial[1:-1] = np.maximum(np.where(free, z[1:-1] + move, 0.0), lowest)
        found = replay(shape, s, sigma, 0, trial, float(z[0]))
        if found.square < best.square:
            done = found.square > best.square * (1.0 - 1e-13)
            best, damping = found, max(damping / 10.0, 1e-12)
            if done:
                break
        else:
            damping = max(damping * 30.0, 1e-6)
            if damping > 1e9:
                break
    return Payments(rough.first, best.z, best.a, best.square)
