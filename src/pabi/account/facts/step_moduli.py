"""The modulus of every step of a run, whatever it is.

Steps come in three kinds: a full batch, the epoch's last batch, which may be short, and the cool-down. With
random batches all steps with data are of one kind, whose modulus is above those of all possible batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property, reduce
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from pabi.account.facts.demand import Demand
from pabi.describe.batches import Fractions
from pabi.describe.moduli import (
    Affine,
    FromFunction,
    Linear,
    Modulus,
    Part,
    Sqrt,
    Unbounded,
    above_both,
    parts_of,
)
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array, fraction_up, root_up

# Moduli of many steps as arrays: ω_k(δ) = min over its pieces of √(slope²δ² + root²) + shift, and 0 at 0.


Function = Callable[[Any], Any]  # ω at a distance, or at an array of distances

_UP = 1.0 + 2e-15  # past the roundings of one evaluation
_STRIDE = 1e-4  # of a difference quotient, relative to the distance


@dataclass(frozen=True, eq=False)
class Shapes:
    """Moduli of t steps: arrays (pieces, t), and the steps whose modulus is known as a function only."""

    slope: Array
    root: Array
    shift: Array
    functions: dict[int, Function] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of steps, t."""
        return int(self.slope.shape[1])

    @property
    def roots_only(self) -> bool:
        """Whether every ω_k is √(κδ² + h)."""
        return self.slope.shape[0] == 1 and not self.shift.any() and not self.functions

    @property
    def jumps(self) -> NDArray[np.bool_]:
        """Whether ω_k(0+) > 0, (t,)."""
        jumps = (self.root + self.shift).min(axis=0) > 0.0
        jumps[list(self.functions)] = True
        return np.asarray(jumps)

    @property
    def slopes(self) -> Array:
        """The least c_k with ω_k(δ) ≤ c_k·δ, NaN where there is none, (t,)."""
        linear = (self.root + self.shift) == 0.0
        least = np.where(linear, self.slope, np.inf).min(axis=0)
        return np.where(np.isfinite(least), least, np.nan)

    @property
    def least_slopes(self) -> Array:
        """The largest c_k with ω_k(δ) ≥ c_k·δ; 0 where only a function is known, (t,)."""
        slopes = np.where(self.shift < np.inf, self.slope, np.inf).min(axis=0)
        slopes[list(self.functions)] = 0.0
        return np.asarray(slopes)

    @property
    def least_shifts(self) -> Array:
        """Numbers b_k ≥ 0 with ω_k(δ) ≥ c_k·δ + b_k for δ > 0 and the c_k of `least_slopes`, (t,)."""
        shifts = self.shift.min(axis=0)
        shifts[list(self.functions)] = 0.0
        return np.asarray(shifts)

    @property
    def bends(self) -> Array:
        """The distance from which on ω_k is less than by its slope in `slopes`, ∞ if it never is; 0 where
        there is no slope, or ω_k is only a function, (t,)."""
        slopes = self.slopes
        with np.errstate(invalid="ignore", divide="ignore"):
            # Where √(κ²δ² + h²) + e = cδ.
            squares = slopes**2 - self.slope**2
            across = squares * (self.shift**2 - self.root**2)
            root = np.sqrt(np.maximum((slopes * self.shift) ** 2 - across, 0.0))
            meet = np.where(
                (squares > 0.0) & (self.shift < np.inf),
                (slopes * self.shift + root) / squares,
                np.inf,
            ).min(axis=0)
        meet[np.isnan(slopes)] = 0.0
        meet[list(self.functions)] = 0.0
        return np.asarray(meet)

    def between(self, first: int, end: int) -> Shapes:
        """The moduli of the steps `first`, …, `end` − 1."""
        functions = {k - first: f for k, f in self.functions.items() if first <= k < end}
        s = slice(first, end)
        return Shapes(self.slope[:, s], self.root[:, s], self.shift[:, s], functions)

    def of(self, which: NDArray[np.intp]) -> Shapes:
        """The moduli of steps of which the k-th has the same as step `which[k]` here; none is a function."""
        return Shapes(self.slope[:, which], self.root[:, which], self.shift[:, which])

    def in_units_of(self, unit: float) -> Shapes:
        """The same moduli, of distances measured in `unit`, a power of two."""
        functions = {k: _in_units(f, unit) for k, f in self.functions.items()}
        return Shapes(self.slope, self.root / unit, self.shift / unit, functions)

    def at(self, distance: Array) -> Array:
        """ω_k at distances (t, m) ≥ 0, to a few roundings."""
        least = np.full(distance.shape, np.inf)
        for slope, root, shift in zip(self.slope, self.root, self.shift, strict=True):
            value = slope[:, None] * distance
            if root.any():
                value = np.hypot(value, root[:, None])
            np.minimum(least, value + shift[:, None], out=least)
        for k, function in self.functions.items():
            least[k] = function(distance[k])
        return np.where(distance > 0.0, least, 0.0)

    def along(self, distance: Array) -> tuple[Array, Array, Array]:
        """(ω_k, ω_k′, ω_k″) at one distance a step (t,), to a few roundings; at 0 those of 0+ where that
        is 0, and else 0."""
        straight = self.slope * distance
        root = np.hypot(straight, self.root)
        piece = np.argmin(root + self.shift, axis=0), np.arange(distance.size)
        slope, straight, root, bend = (
            self.slope[piece],
            straight[piece],
            root[piece],
            self.root[piece],
        )
        value = root + self.shift[piece]
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(bend > 0.0, slope * (straight / root), slope)
            second = np.where(bend > 0.0, (slope * bend / root) ** 2 / root, 0.0)
        stuck = (distance == 0.0) & self.jumps
        value, first, second = (np.where(stuck, 0.0, x) for x in (value, first, second))
        for k, function in self.functions.items():
            value[k] = function(distance[k])
            wide = _STRIDE * distance[k]
            first[k] = (function(distance[k] + wide) - value[k]) / wide if wide > 0.0 else 0.0
            second[k] = 0.0
        return value, first, second

    def evaluators(self) -> list[Callable[[float], float]]:
        """ω_k of one distance, rounded up, for each step."""
        columns = zip(
            self.slope.T.tolist(), self.root.T.tolist(), self.shift.T.tolist(), strict=True
        )
        evaluator = cache(_evaluator)  # of equal steps one
        return [
            _function(self.functions[k])
            if k in self.functions
            else evaluator(*(tuple(constants) for constants in column))
            for k, column in enumerate(columns)
        ]


def _in_units(modulus: Function, unit: float) -> Function:
    """Another modulus, distances measured in a unit that is a power of two."""
    return lambda distance: modulus(np.multiply(distance, unit)) / unit


def _function(modulus: Function) -> Callable[[float], float]:
    return lambda z: float(modulus(z)) * _UP if z < math.inf else math.inf


def _evaluator(
    slopes: tuple[float, ...], roots: tuple[float, ...], shifts: tuple[float, ...]
) -> Callable[[float], float]:
    hypot = math.hypot
    if 0.0 in slopes:  # and z may be ∞
        return _flat_in_part(slopes, roots, shifts)
    if len(slopes) == 1:
        (slope,), (root,), (shift,) = slopes, roots, shifts
        if root == 0.0 and shift == 0.0:
            return lambda z: slope * z * _UP if slope != 1.0 else z
        return lambda z: (hypot(slope * z, root) + shift) * _UP if z > 0.0 else 0.0
    pieces = _essential([p for p in zip(slopes, roots, shifts, strict=True) if p[2] < math.inf])
    if not pieces:
        return lambda z: math.inf if z > 0.0 else 0.0
    if len(pieces) == 1:
        return _evaluator(*((x,) for x in pieces[0]))

    if len(pieces) == 2:
        (c, h, e), (d, i, f) = sorted(pieces, key=lambda piece: piece[1])

        def lesser(z: float) -> float:
            if z == 0.0:
                return 0.0
            one, other = (hypot(c * z, h) if h else c * z) + e, hypot(d * z, i) + f
            return (one if one < other else other) * _UP

        return lesser

    def least(z: float) -> float:
        if z == 0.0:
            return 0.0
        return min([hypot(slope * z, root) + shift for slope, root, shift in pieces]) * _UP

    return least


def _essential(pieces: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """The pieces √((cδ)² + h²) + e, as (c, h, e), less those that another one is never above: it is at most
    cδ + h + e."""
    least: list[tuple[float, float, float]] = []
    for c, h, e in sorted(set(pieces), key=lambda piece: (piece[0], sum(piece[1:]), -piece[1])):
        lower = [(i, f) for d, i, f in least if d <= c]
        straight = h == 0.0 and any(i + f <= e for i, f in lower)
        if not straight and not any(i <= h and f <= e for i, f in lower):
            least.append((c, h, e))
    return least


def _flat_in_part(
    slopes: tuple[float, ...], roots: tuple[float, ...], shifts: tuple[float, ...]
) -> Callable[[float], float]:
    pieces = zip(slopes, roots, shifts, strict=True)
    flat = min(root + shift for slope, root, shift in pieces if slope == 0.0) * _UP
    steep = [p for p in zip(slopes, roots, shifts, strict=True) if p[0] > 0.0]
    if not steep:
        return lambda z: flat if z > 0.0 else 0.0
    others = _evaluator(*zip(*steep, strict=True))
    if flat == math.inf:
        return others
    return lambda z: min(flat, others(z)) if z > 0.0 else 0.0


def shapes(moduli: Sequence[Modulus]) -> Shapes:
    """The pieces of these moduli, one per step. Raises InvalidInput for one that is not pabi's own."""
    rows: dict[Modulus, Array] = {}
    for modulus in {id(modulus): modulus for modulus in moduli}.values():
        pieces = [_piece(part) for part in parts_of(modulus)]
        if None not in pieces:
            rows.setdefault(modulus, np.array(pieces))
    most = max((len(pieces) for pieces in rows.values()), default=1)
    filler = np.array([(0.0, 0.0, math.inf)] * most)
    table = {m: np.concatenate([p, filler])[:most] for m, p in rows.items()}
    columns = np.stack([table.get(m, filler) for m in moduli], axis=-1)  # (pieces, 3, steps)
    functions: dict[int, Function] = {k: m for k, m in enumerate(moduli) if m not in rows}
    return Shapes(columns[:, 0], columns[:, 1], columns[:, 2], functions)


def _piece(part: Part) -> tuple[float, float, float] | None:
    """(slope, root, shift), rounded up; None of a function, which has no such piece."""
    match part:
        case Linear():
            return part.slope, 0.0, 0.0
        case Sqrt():
            return root_up(part.kappa), root_up(part.h), 0.0
        case Affine():
            return part.slope, 0.0, part.shift
        case Unbounded():
            return 0.0, 0.0, math.inf
        case FromFunction():
            return None
        case _:
            assert_never(part)


_MOST_VARYING = 200_000  # steps of a schedule that varies

_FULL, _LAST, _COOL = 0, 1, 2
_LINEAR = "every modulus is linear: see the other shifts"


class StepModuli:
    """The moduli of a run, whose batches are such parts of their divisor as `sizes` says.

    Raises NotApplicable where a step's modulus is unknown, and where all are linear.
    """

    def __init__(self, description: NoisySGD | Unlearning, sizes: Fractions) -> None:
        demand = Demand.of(description)
        self.run, self.idle, withdrawn = demand.run, demand.idle(sizes), demand.stages[-1].withdrawn
        run = self.run
        self.full, self.last = (demand.left(x, withdrawn) for x in (sizes.full, sizes.last))
        self._alike = self.full == self.last
        if not run.constant and run.steps > _MOST_VARYING:
            raise NotApplicable(
                f"more than {_MOST_VARYING} steps that vary, with moduli not linear"
            )
        if not run.constant and self._have_least_slopes():
            raise NotApplicable(_LINEAR)
        moduli = [self.table[kind] for kind in self._kinds_taken] if run.constant else self.table
        if any(isinstance(m, Unbounded) for m in moduli):
            raise NotApplicable(
                f"nothing is known of how far a {run.loss.kind} loss's steps stretch"
            )
        # Dissipativity may leave a slope that curvature alone does not give.
        if all(isinstance(m, Linear) for m in moduli) and run.loss.slopes_say_all:
            raise NotApplicable(_LINEAR)

    def _have_least_slopes(self) -> bool:
        """Whether every step of a schedule that varies has a slope of at most 1 − ηλ, and all else that is
        known of it is no less: its modulus is linear then, and need not be written down."""
        run = self.run
        parts = [f for f in (*self.full, *self.last, *self.idle) if f]
        sizes = np.unique(run.step_size)
        for some in (sizes[-1:], sizes):  # the longest step tells most of those that have none
            least = [fraction_up(1 - Fraction(x) * Fraction(run.loss.l2)) for x in some.tolist()]
            try:
                slopes = [run.loss.slopes(some, run.clip_norm, f, run.clipping) for f in parts]
            except NotApplicable:
                return False
            if not all((own <= least).all() for own in slopes):
                return False
        return run.loss.slopes_say_all

    @property
    def _kinds_taken(self) -> list[int]:
        run = self.run
        period = run.steps_per_epoch
        kinds = [_FULL] if period > 1 or self._alike else []
        kinds += [_LAST] if not self._alike and run.data_steps >= period else []
        return kinds + ([_COOL] if run.cooldown_steps else [])

    @property
    def alike(self) -> bool:
        """Whether the schedule is constant and all steps have one modulus."""
        return self.run.constant and len({self.table[kind] for kind in self._kinds_taken}) == 1

    @cached_property
    def above_data_steps(self) -> Modulus:
        """For a constant schedule: a modulus above those of all steps with data."""
        kinds = (kind for kind in self._kinds_taken if kind != _COOL)
        return reduce(above_both, (self.table[kind] for kind in kinds))

    def _modulus(self, step: float, kind: int) -> Modulus:
        run = self.run
        fractions = {_FULL: self.full, _LAST: self.last, _COOL: self.idle}[kind]
        moduli = (run.loss.modulus(step, run.clip_norm, f, run.clipping) for f in fractions)
        return reduce(above_both, moduli)

    @cached_property
    def table(self) -> list[Modulus]:
        """The moduli of a full batch, a last one and the cool-down; all there are if the schedule varies."""
        if self.run.constant:
            return [self._modulus(self.run.step_size, kind) for kind in (_FULL, _LAST, _COOL)]
        return self._written[0]

    @cached_property
    def _written(self) -> tuple[list[Modulus], NDArray[np.intp]]:
        """(distinct moduli, which of them each step has) of a schedule that varies."""
        steps = self.run.steps
        sizes = np.broadcast_to(np.asarray(self.run.step_size, dtype=np.float64), steps).tolist()
        every = list(zip(sizes, self._kind(0, steps).tolist(), strict=True))
        places = {distinct: i for i, distinct in enumerate(dict.fromkeys(every))}
        which = np.array([places[one] for one in every], dtype=np.intp)
        return [self._modulus(step, kind) for step, kind in places], which

    def _kind(self, first: int, end: int) -> NDArray[np.intp]:
        k = np.arange(first, end)
        kind = np.full(k.size, _FULL, dtype=np.intp)
        if not self._alike:
            period = self.run.steps_per_epoch
            kind[k % period == period - 1] = _LAST
        kind[k >= self.run.data_steps] = _COOL
        return kind

    @cached_property
    def _columns(self) -> Shapes:
        return shapes(self.table)

    def shapes(self, first: int, end: int) -> Shapes:
        """The moduli of the steps `first`, …, `end` − 1, counted from 0."""
        which = self._kind(first, end) if self.run.constant else self._written[1][first:end]
        return self._columns.of(which)
