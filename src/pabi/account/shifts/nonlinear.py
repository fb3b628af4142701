"""Optimal shifts for moduli of any shape.

With distances z_k and payments a_k = ω_k(z_{k−1}) + s_k − z_k, 0 ≤ a_k ≤ ω_k(z_{k−1}) + s_k, from w_0 before
the first step, or from the diameter before any later one, to z_t = 0, the runs are G(μ)-close with
μ² = Σ (a_k/σ_k)² (docs, "Shifts imply GDP"). Whatever distances are found are feasible, so that a rough
optimum is a valid bound; ω(0) = 0 though ω(0+) may be larger, so that staying at 0 is a choice of its own.

If every ω_k is √(κδ² + h) and no step has a sensitivity, there is a closed form. Otherwise several paths are
improved by Newton's method and the best is taken: composition's, the best for slopes c_k ≥ ω_k(δ)/δ where
there are such, or else for those at the distance of one use, and those of dynamic programming.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pabi.account.facts.step_moduli import Shapes
from pabi.account.shifts import start as linear
from pabi.account.shifts.start import Rough, roughly
from pabi.describe.iteration import Steps
from pabi.numbers.locking import tick
from pabi.numbers.rounding import Array, power_of_two_near

MOST_STEPS = 1_000_000  # that are looked at
_ROUNDS = 60  # of Newton's method
_WORTH = 1e4  # distances that many times the largest jump or sensitivity are not on the grid
_NEAR = 3000  # steps of windows of which others with nearly the same start are looked at
_PAID = 1.0 + 1e-15  # payments are rounded up by so much
_SUM = 1.0 + 3e-16  # above the rounding of one sum
_SETTLED = 1.0 - 1e-12  # a step of Newton's method that gains less is the last
_SAFELY = 1.0 - 1e-6  # below the roundings of a bound from below
_WORSE = 1.5  # paths that are so much worse than the best are not improved


class StepPayments(NamedTuple):
    """Steps `first`, …, t − 1 (from 0) pay. z (m + 1,): the distances before the first and after each,
    a (m,): what each pays, `square`: about μ². Payments are rounded up."""

    first: int
    z: Array
    a: Array
    square: float


def solve(shape: Shapes, s: Array, sigma: Array, diameter: float, start: float) -> StepPayments:
    """Payments of least cost found, from the best start.

    `s`, `sigma`: sensitivities and noises, (t,). `diameter`: ∞ if there is none; `start`: w_0.
    Source: docs, "Shifts under any modulus"; Bravo, Flores-Mella, Guzmán, Thm 3.4.
    """
    unit = power_of_two_near(float(sigma.max(initial=0.0)) or 1.0)
    problem = _Problem(shape.in_units_of(unit), s / unit, sigma / unit)
    first, z, a, square = problem.best(diameter / unit, start / unit)
    return StepPayments(first, z * unit, a * unit, square)


def parted(
    omega: Sequence[Callable[[float], float]], s: Array, diameter: float, start: float, slack: float
) -> Array:
    """w_0, …, w_t: how far apart the runs can be before and after each step. `slack`: above the roundings of
    a modulus and a sum."""
    w = [start]
    for modulus, added in zip(omega, s.tolist(), strict=True):
        w.append(min(diameter, (modulus(w[-1]) + added) * slack))
    return np.array(w)


class _Problem:
    """The steps, lengths measured in a unit near the noise."""

    def __init__(self, shape: Shapes, s: Array, sigma: Array) -> None:
        self.shape, self.s, self.sigma = shape, s, sigma
        self.omega = shape.evaluators()
        self.t = shape.steps

    def best(self, diameter: float, start: float) -> StepPayments:
        """The payments of least cost found, from the best start."""
        shape, s, sigma = self.shape, self.s, self.sigma
        tick()
        at_once = self.replay(0, np.zeros(self.t), start)
        if shape.roots_only and not s.any():
            kappa, h = shape.slope[0] ** 2, shape.root[0] ** 2
            first, distance, aims = closed_form(kappa, h, sigma, diameter, start)
            return min(at_once, self.replay(first, aims, distance), key=_cost)
        rough = [Rough(0, at_once.z[1:])]
        slopes = shape.slopes
        apart = parted(self.omega, s, diameter, start, _SUM)[:-1]
        if not np.isnan(slopes).any():
            straight = self._linear(Steps(slopes, s, sigma), diameter, start)
            payments = self.replay(straight.first, straight.aims, float(apart[straight.first]))
            if payments.square <= self._least_beyond():
                return _from_the_diameter(payments, apart, diameter)
            rough.append(straight)
        elif s.any():
            rough.append(self._linear(Steps(self._secants(), s, sigma), diameter, start))
        top = self._top(apart)
        if top > 0.0:
            rough += roughly(shape, self.omega, s, sigma, diameter, apart, top)
        paths = [self.replay(r.first, r.aims, float(apart[r.first])) for r in rough]
        best = at_once
        for payments in sorted(paths, key=_cost):
            if payments.square <= _WORSE * best.square:
                best = min(best, self._polished(payments), key=_cost)
        return _from_the_diameter(self._best_start_near(best, apart), apart, diameter)

    def _least_beyond(self) -> float:
        """A bound from below on the cost of any path that is ever so far apart that a modulus is less than by
        its slope: paths that are not are paid off as those of the slopes.

        Moduli are at least lines through 0. A payment at step i is worth Π c_j of the later ones at the end,
        so that by Cauchy and Schwarz the cost from z before step k is at least (z·Π_{j≥k} c_j)²/Σ_{i≥k}
        (σ_i·Π_{j>i} c_j)².
        """
        shape = self.shape
        bends, least = shape.bends, shape.least_slopes
        with np.errstate(all="ignore"):
            whole = np.cumsum(np.log(least)[::-1])[::-1]  # log Π_{j≥k} c_j
            later = np.append(whole[1:], 0.0)
            room = np.cumsum((self.sigma**2 * np.exp(2.0 * later))[::-1])[::-1]
            costs = np.where(bends < np.inf, np.square(bends * np.exp(whole)) / room, np.inf)
        least_cost = float(np.min(costs, initial=math.inf))
        return least_cost * _SAFELY if least_cost >= 0.0 else 0.0  # of NaN nothing is known

    def _best_start_near(self, best: StepPayments, apart: Array) -> StepPayments:
        """The best of the payments that start a little earlier or later, by whole epochs and then by smaller
        and smaller steps: the grid is not fine enough to tell them apart."""
        window = self.t - best.first
        if best.first == 0 or window > _NEAR:
            return best
        uses = np.flatnonzero(self.s)
        epoch = int(uses[-1] - uses[-2]) if uses.size > 1 else 1
        for unit in sorted({epoch, 1}, reverse=True):
            times = max(1, window // (8 * unit))
            while times:
                better = self._moved(best, times * unit, apart)
                if better is best:
                    times //= 2
                best = better
        return best

    def _moved(self, best: StepPayments, move: int, apart: Array) -> StepPayments:
        """The better of `best` and of those that start `move` steps earlier or later."""
        candidates = [best]
        for first in (best.first - move, best.first + move):
            if 0 <= first < self.t - 1:
                if first > best.first:
                    aims = best.z[1 + move :]
                else:
                    lead = np.linspace(apart[first], best.z[1], move + 2)[1:-1]
                    aims = np.concatenate([lead, best.z[1:]])
                candidates.append(self._polished(self.replay(first, aims, float(apart[first]))))
        return min(candidates, key=_cost)

    def _top(self, apart: Array) -> float:
        """The largest distance worth looking at."""
        jumps = (self.shape.root + self.shape.shift).min(axis=0)
        sizes = np.concatenate([jumps[np.isfinite(jumps)], self.s, apart[:1]])
        return min(float(np.max(apart)), _WORTH * float(np.max(sizes)))

    def replay(self, first: int, aims: Array, start: float) -> StepPayments:
        """The payments that leave at most `aims` (m,) after each step, from `start` before `first`."""
        m = self.t - first
        z, a = np.empty(m + 1), np.empty(m)
        z[0] = now = start
        steps = zip(
            self.omega[first:],
            self.s[first:].tolist(),
            (self.sigma[first:] > 0.0).tolist(),
            aims.tolist(),
            strict=True,
        )
        for i, (omega, s, noisy, aim) in enumerate(steps):
            owed = omega(now)
            if s > 0.0:
                owed = (owed + s) * _SUM
            if not owed >= 0.0:  # undefined: nothing is known
                owed = math.inf
            now = aim if noisy and aim < owed else owed
            a[i] = (owed - now) * _PAID if now < owed else 0.0
            z[i + 1] = now
        if now != 0.0:  # the last step had no noise to pay with, or nothing was wanted of it
            a[-1], z[-1] = (z[-1] + a[-1]) * _PAID, 0.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            terms = np.where(a > 0.0, np.square(a / self.sigma[first:]), 0.0)
            square = float(np.sum(terms, dtype=np.longdouble))
        return StepPayments(first, z, a, math.inf if math.isnan(square) else square)

    def _secants(self) -> Array:
        """ω_k(δ)/δ at the distance that one use of the record brings, where the modulus has no slope."""
        scale = float(self.s.max())
        secants = {omega: min(omega(scale) / scale, 1e300) for omega in dict.fromkeys(self.omega)}
        return np.array([secants[omega] for omega in self.omega])

    def _linear(self, steps: Steps, diameter: float, start: float) -> Rough:
        """The distances of the best payments for linear moduli, to be aimed at."""
        shifts = linear.best_start(steps, diameter, start)
        payments = shifts.payments
        if not math.isfinite(payments.energy):
            return Rough(0, np.zeros(self.t))
        a, begin = np.zeros(self.t), payments.first
        blocks = zip(
            payments.ends.tolist(), payments.q.tolist(), payments.shift.tolist(), strict=True
        )
        for end, q, shift in blocks:
            rate = math.ldexp(q, shift) / shifts.unit if abs(shift) < 1000 else 0.0
            for k in range(end, begin - 1, -1):
                a[k] = rate * steps.sigma[k] ** 2
                rate *= steps.c[k]
            begin = end + 1
        ends = set(payments.ends.tolist())
        aims, z = np.zeros(self.t - shifts.tau), shifts.distance
        for k in range(shifts.tau, self.t):
            z = 0.0 if k in ends else max(0.0, self.omega[k](z) + self.s[k] - a[k])
            aims[k - shifts.tau] = z
        return Rough(shifts.tau, aims)

    def _polished(self, best: StepPayments) -> StepPayments:
        """Newton's method on the distances that are not 0, with Σ (ω(z) + s − z')²/σ² as objective."""
        from scipy.linalg import solve_banded

        first = best.first
        shape = self.shape.between(first, self.t)
        s, sigma = self.s[first:], self.sigma[first:]
        if not best.square < math.inf or (sigma == 0.0).any() or best.z.size <= 2:
            return best
        may_leave = ~shape.jumps[1:]
        if not ((best.z[1:-1] > 0.0) | may_leave).any():
            return best
        weight, damping = 1.0 / (sigma * sigma), 1e-9
        for _ in range(_ROUNDS):
            z = best.z
            with np.errstate(over="ignore", invalid="ignore"):
                value, slope, bend = shape.along(z[:-1])
                gap = value + s - z[1:]
                gradient = gap[1:] * weight[1:] * slope[1:] - gap[:-1] * weight[:-1]
                free = (z[1:-1] > 0.0) | (may_leave & (gradient < 0.0))
                curvature = weight[:-1] + weight[1:] * (
                    slope[1:] ** 2 + np.maximum(gap[1:], 0.0) * bend[1:]
                )
                across = np.where(free[:-1] & free[1:], -weight[1:-1] * slope[1:-1], 0.0)
            middle = np.where(free, curvature * (1.0 + damping), 1.0)
            bands = np.array([np.append(0.0, across), middle, np.append(across, 0.0)])
            if not np.isfinite(bands).all():
                return best
            move = solve_banded((1, 1), bands, np.where(free, -gradient, 0.0), check_finite=False)
            trial = np.where(free, z[1:-1] + move, 0.0)
            # Where ω jumps, 0 is another matter than a little.
            lowest = np.where(free & ~may_leave, 1e-3 * z[1:-1], 0.0)
            moved = self.replay(first, np.append(np.maximum(trial, lowest), 0.0), float(z[0]))
            if moved.square < best.square:
                settled = moved.square > best.square * _SETTLED
                best, damping = moved, max(damping / 10.0, 1e-12)
                if settled:
                    break
            else:
                damping = max(damping * 30.0, 1e-6)
                if damping > 1e9:
                    break
        return best


def _from_the_diameter(best: StepPayments, apart: Array, diameter: float) -> StepPayments:
    """The same payments with the steps before them, in which nothing is paid, since the last time that the
    diameter cut the distance off, or since w_0: from there the distance at their start follows."""
    cut = np.flatnonzero((apart[: best.first + 1] == diameter) & (diameter < math.inf))
    first = int(cut[-1]) if cut.size else 0
    z = np.append(apart[first : best.first], best.z)
    a = np.append(np.zeros(best.first - first), best.a)
    return StepPayments(first, z, a, best.square)


def _cost(payments: StepPayments) -> float:
    return payments.square


# The closed form for moduli √(κδ² + h) and steps without sensitivities, from the best start to the best
# end.
#
# The least cost of paying z off by a given step, from a distance z before step k, is A·z² + B: before a
# step with r² = κz² + h, paying for it and having A·r'² + B to pay afterwards costs r²·G + B at best, G =
# 1/(σ² + 1/A) (Bravo, Flores-Mella, Guzmán, Thm 3.4, by induction from the end). As ω(0) = 0, the runs
# may meet in any step and stay together from then on, so that the least cost is the lower envelope of
# such lines in z², one for every step in which they can meet.


_PRUNED, _GRID = 96, 64  # lines kept before a look at which of them matter, at so many distances


class _Lines:
    """Lines slope·x + offset in x = z², each with the step `end` after which the runs have met."""

    def __init__(self, most: float) -> None:
        self.grid = np.concatenate([[0.0], np.geomspace(1e-9 * most, most, _GRID)])
        self.slope, self.offset, self.end = np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)

    def back(self, k: int, kappa: float, h: float, square: float) -> None:
        """Moves the lines from after step k to before it, where meeting in step k becomes possible."""
        gain = 1.0 / (square + 1.0 / np.append(self.slope, math.inf))
        self.slope = kappa * gain if kappa > 0.0 else np.zeros(gain.size)
        self.offset = np.append(self.offset, 0.0)
        if h > 0.0:
            self.offset += h * gain
        self.end = np.append(self.end, k + 1)
        if self.slope.size > _PRUNED:
            least = np.argmin(np.outer(self.grid, self.slope) + self.offset, axis=1)
            # Line 0 meets in the last step: the published closed form.
            few = np.unique(np.append(least, 0))
            self.slope, self.offset, self.end = self.slope[few], self.offset[few], self.end[few]

    def least(self, x: float) -> tuple[float, int]:
        """(the least cost at x, the end of the line that attains it)."""
        values = self.slope * x + self.offset
        i = int(np.argmin(values))
        return float(values[i]), int(self.end[i])


def closed_form(
    kappa: Array, h: Array, sigma: Array, diameter: float, start: float
) -> tuple[int, float, Array]:
    """(first step that pays, distance before it, distances to aim at after each step from there on).

    `kappa`, `h`, `sigma`: (t,). From distance `start` before the first step, or from `diameter` before any.
    """
    t, squares = kappa.size, sigma * sigma
    apart = max(diameter, start) if diameter < math.inf else start
    lines = _Lines(4.0 * (apart * apart + float(h.max(initial=0.0))) or 1.0)
    best, first, end, distance = math.inf, 0, t, start
    columns = zip(kappa[::-1].tolist(), h[::-1].tolist(), squares[::-1].tolist(), strict=True)
    with np.errstate(all="ignore"):  # no noise, or none of the distance left: ∞ and 0
        for k, (c, b, v) in zip(range(t - 1, -1, -1), columns, strict=True):
            lines.back(k, c, b, v)
            if k and diameter < math.inf:
                cost, at = lines.least(diameter * diameter)
                if cost < best:
                    best, first, end, distance = cost, k, at, diameter
        cost, at = lines.least(start * start)
    if not cost > best:
        first, end, distance = 0, at, start
    aims = np.zeros(t - first)
    share = _shares(kappa[first:end], squares[first:end])
    x = distance * distance
    for i in range(end - first - 1):
        x = (kappa[first + i] * x + h[first + i]) * share[i] ** 2
        aims[i] = math.sqrt(x)
    return first, distance, aims


def _shares(kappa: Array, squares: Array) -> Array:
    """The part of what is owed that is left after each step, if the last one is to leave nothing."""
    share, later = np.zeros(kappa.size), 0.0  # 1/A of what comes after
    for k in range(kappa.size - 1, -1, -1):
        below = squares[k] + later
        if below > 0.0:
            share[k] = later / below if below < math.inf else 1.0
        later = below / kappa[k] if kappa[k] > 0.0 else math.inf
    return share
