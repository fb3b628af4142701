"""An instance: one number is trained, and one record pulls at it while all others do the same at all times.

The others pull alike. So the iterate is affine in what is drawn, but for the projection on a domain,
and its law on either data set is known.

A loss whose gradients saturate is linear in the limit of a start far out, where a direction that all rows
share a little of decides the residual and nothing else does. There the gradients of two records may be
opposite and both of the largest size. On a bounded domain there is no far out, so that instances are known
for losses alone that may be linear or quadratic themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from pabi.audits.laws import Choice, LawPair, pair_of_sums
from pabi.audits.walks import AffineStep, WalledWalk, pair_between_walls
from pabi.describe.batches import (
    FixedSizes,
    FreshSubsets,
    KnownUses,
    Order,
    RandomSizes,
    SecretOrder,
)
from pabi.describe.prox import ball, box, elastic_net, halfspace, l1, l2, nuclear_norm, simplex
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.numbers.locking import ticking
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown

# The batches that a record may be in, in an order that is drawn.


def by_place(moved: Array, period: int) -> Array:
    """(epochs, period): the steps of every epoch side by side, 0 where the last one ends early."""
    return np.pad(moved, (0, -len(moved) % period)).reshape(-1, period)


def places(order: SecretOrder) -> Array:
    """(period + 1,) the probability of every batch, and that of none."""
    weights = np.full(order.period + 1, float(order.each))
    weights[-2:] = float(order.last), float(order.spare)
    return np.asarray(weights / weights.sum())


# When the record takes part: in which steps, and in batches that are not too large to be summed.


def counted_share(order: Order) -> float:
    """The probability that a batch with the record in it is not above the cap, which makes it empty."""
    match order.sizes:
        case FixedSizes():
            return 1.0
        case RandomSizes(n=n, probability=p, cap=cap):
            return 1.0 if cap is None else float(binom.cdf(cap - 1, n - 1, float(p)))
        case sizes:
            assert_never(sizes)


def in_counted(order: SecretOrder) -> Array:
    """(period + 1,) the probability that the record is in each batch, and that this is summed; what is left
    comes last."""
    counted = counted_share(order)
    chances = counted * places(order)
    chances[-1] += 1.0 - counted
    return np.asarray(chances)


class Membership:
    """Whether the record is in the batch of a step, for many trainings at once."""

    def __init__(
        self, run: NoisySGD, place: int, count: int, generator: np.random.Generator
    ) -> None:
        self._order, self._count, self._generator = run.order, count, generator
        self._place, self._share = place, counted_share(run.order)
        self._places = np.zeros(count, dtype=np.int64)

    def at(self, step: int) -> Array:
        """(trainings,) of 0 and 1."""
        match self._order:
            case KnownUses(period=period):
                return np.full(self._count, float(step % period == self._place))
            case SecretOrder(period=period) as order:
                if step == 0 or (step % period == 0 and not order.once):
                    self._places = self._drawn(order)
                return np.asarray(self._places == step % period, dtype=float)
            case FreshSubsets(probability=p):
                share = self._share * float(p)
                return np.asarray(self._generator.random(self._count) < share, dtype=float)
            case order:
                assert_never(order)

    def _drawn(self, order: SecretOrder) -> NDArray[np.int64]:
        """Batches; none where the record's is too large."""
        drawn = self._generator.choice(order.period + 1, self._count, p=places(order))
        return np.where(self._generator.random(self._count) < self._share, drawn, -1)


# The line that an instance lives on: how a proximal map acts on one number, far from where it bends.


class WalkLine(NamedTuple):
    """`width`: the distance of the walls that iterates are projected between, ∞ without walls. `ridge`: the
    weight of the squared norm that the proximal map shrinks iterates for."""

    width: float
    ridge: float


def line_of(run: NoisySGD) -> WalkLine:
    """What the proximal map of a run does along some line.

    Soft thresholding moves what is far out by a constant, a halfspace nothing that is far inside. Of a box
    the line is along its widest side, of a simplex from one corner to another. Raises NotApplicable for a map
    that pabi does not know.
    """
    width, ridge = _of_prox(run)
    return WalkLine(min(width, math.inf if run.diameter is None else run.diameter), ridge)


def _of_prox(run: NoisySGD) -> WalkLine:
    match run.prox:
        case None | l1() | nuclear_norm() | halfspace():
            return WalkLine(math.inf, 0.0)
        case l2(strength=strength):
            return WalkLine(math.inf, strength)
        case elastic_net(l2=strength):
            return WalkLine(math.inf, strength)
        case ball() | simplex():
            return WalkLine(run.prox.diameter, 0.0)
        case box(lower=lower, upper=upper):
            return WalkLine(float(np.max(np.subtract(upper, lower))), 0.0)
        case _:
            raise NotApplicable("no worst instance is known under a proximal map of your own")


@dataclass(frozen=True)
class LineRun:
    """A run that trains a number, and what its steps are before anything is known of the losses."""

    run: NoisySGD

    @cached_property
    def schedule(self) -> tuple[Array, Array]:
        """((t,) step sizes, (t,) noise on the gradients)."""
        return self.run.schedule(0, self.run.steps)

    @cached_property
    def sizes(self) -> Array:
        """(t,) records of the batch of each step; 0 where they are drawn, as they are then at rest."""
        data, period = self.run.data_steps, self.run.steps_per_epoch
        counts = np.zeros(self.run.steps)
        match self.run.order.sizes:
            case FixedSizes(size=size, last=last):
                counts[:data] = size
                counts[period - 1 : data : period] = last
            case RandomSizes():
                pass  # the others are at rest and flat: none is counted
            case sizes:
                assert_never(sizes)
        return counts

    @property
    def public(self) -> bool:
        """Whether everybody knows who is in which batch."""
        return isinstance(self.run.order, KnownUses)

    @property
    def last_place(self) -> int:
        """The batch of the last step with data."""
        return (self.run.data_steps - 1) % self.run.steps_per_epoch

    @property
    def place(self) -> int:
        """The batch of the record where everybody knows who is in which."""
        return self.last_place

    def membership(self, trainings: int, generator: np.random.Generator) -> Membership:
        """Whether the record is in the batches, for many trainings at once."""
        return Membership(self.run, self.place, trainings, generator)

    def steps_in(self, place: int) -> NDArray[np.bool_]:
        """(t,) whether a step uses data and takes the batch in this place."""
        steps = np.arange(self.run.steps)
        return np.asarray(
            (steps % self.run.steps_per_epoch == place) & (steps < self.run.data_steps)
        )


@dataclass(frozen=True)
class Instance(LineRun):
    """Two neighbouring data sets of numbers, for a run that trains a number.

    `record`, `other`: the constant part of the record's gradient on the two data sets. `rest`: that of all
    other records. `curvature`: of the losses in every batch of an epoch, or in all of them alike. `flat`:
    whether the record has none itself. `start`: where the number starts, from the middle between walls.
    """

    name: str
    record: float
    other: float
    rest: float = 0.0
    curvature: tuple[float, ...] = (0.0,)
    flat: bool = True
    start: float = 0.0

    @property
    def sentence(self) -> str:
        """The instance in a few words."""
        curved = (
            "" if not any(self.curvature) else f", curvatures to {shown(max(self.curvature), 3)}"
        )
        pulls = f"a gradient of {shown(self.record, 3)} or {shown(self.other, 3)}"
        return f"one record with {pulls}, {self.name}{curved}"

    @property
    def slopes(self) -> Array:
        """(t,) what a step multiplies the iterate with."""
        curvature = np.resize(np.array(self.curvature), self.run.steps)
        curved = self.sizes
        if self.flat and self.public:
            curved = np.maximum(curved - self.steps_in(self.last_place), 0.0)
        plain = 1.0 - self.schedule[0] * (
            self.run.loss.l2 + curvature * curved / self.run.batch_size
        )
        return np.asarray(self.shrink * plain)

    @cached_property
    def line(self) -> WalkLine:
        """What the proximal map does."""
        return line_of(self.run)

    @property
    def shrink(self) -> Array:
        """(t,) what the proximal map multiplies the iterate with."""
        return np.asarray(1.0 / (1.0 + self.schedule[0] * self.line.ridge))

    def moves(self, gradient: float) -> Array:
        """(t,) what the record adds to the iterate in a step that it is in; it takes another's place."""
        moves = -self.shrink * self.schedule[0] * (gradient - self.rest) / self.run.batch_size
        return np.where(np.arange(self.run.steps) < self.run.data_steps, moves, 0.0)

    @property
    def drift(self) -> Array:
        """(t,) what all others add, had the record one of them for a neighbour."""
        pulls = self.schedule[0] * self.rest * self.sizes
        return np.asarray(-self.shrink * pulls / self.run.batch_size)

    @property
    def stds(self) -> Array:
        """(t,) of the noise that a step adds to the iterate."""
        eta, noise = self.schedule
        return np.asarray(self.shrink * eta * noise)

    @property
    def later(self) -> Array:
        """(t,) what the steps after each one multiply what it adds with."""
        return np.append(np.cumprod(self.slopes[:0:-1])[::-1], 1.0)

    @property
    def reach(self) -> float:
        """How far from 0 the walk gets without walls, but for what nine standard deviations leave out."""
        most = np.maximum(*(np.abs(self.moves(g)) for g in (self.record, self.other)))
        x = reach = abs(self.start)
        variance = 0.0
        for slope, drift, move, std in zip(self.slopes, self.drift, most, self.stds, strict=True):
            x = abs(slope) * x + abs(drift) + move
            variance = slope**2 * variance + std**2
            reach = max(reach, x + 9.0 * math.sqrt(variance))
        return float(reach)

    @property
    def place(self) -> int:
        """The batch of the record where everybody knows who is in which: the one that moves the release the
        most, or the one that the curvatures are made for."""
        if any(self.curvature):
            return super().place
        moved = self.later * (self.moves(self.record) - self.moves(self.other))
        epochs = by_place(moved[: self.run.data_steps], self.run.steps_per_epoch)
        return int(np.argmax(np.abs(epochs.sum(axis=0))))

    def pair(self) -> LawPair:
        """The laws of what is released on the data set and on its neighbour.

        Raises NotApplicable where a domain is too wide to follow them between its walls.
        """
        std = math.sqrt(float(np.square(self.later) @ np.square(self.stds)))
        gradients = (self.record, self.other)
        if self.reach < 0.5 * self.line.width:
            way = float(np.prod(self.slopes)) * self.start + float(self.later @ self.drift)
            drift = Choice(np.ones(1), np.array([way]))
            one, other = ([drift, *self.choices(self.later * self.moves(g))] for g in gradients)
            return pair_of_sums(one, other, std)
        walks = (self.walk(self.moves(g)) for g in gradients)
        return pair_between_walls(self.line.width, *walks)

    def choices(self, moved: Array) -> list[Choice]:
        """What is drawn, where the record moves the release by `moved` (t,) in the steps that it is in."""
        data, counted = self.run.data_steps, counted_share(self.run.order)
        match self.run.order:
            case KnownUses(period=period):
                sums = by_place(moved[:data], period).sum(axis=0)
                return [Choice(np.ones(1), sums[[self.place]])]
            case SecretOrder(period=period) as order:
                epochs = by_place(moved[:data], period)
                chances, moved_by = (
                    in_counted(order),
                    [epochs.sum(axis=0)] if order.once else epochs,
                )
                used = chances > 0.0
                return [Choice(chances[used], np.append(sums, 0.0)[used]) for sums in moved_by]
            case FreshSubsets(probability=p):
                share = counted * float(p)
                out_or_in = np.array([1.0 - share, share])
                return [Choice(out_or_in, np.array([0.0, move])) for move in moved[:data]]
            case order:
                assert_never(order)

    def walk(self, moves: Array) -> WalledWalk:
        """The steps, where the record adds `moves` (t,) to the iterate in those that it is in."""
        plain, moved = self._steps(moves)
        at = np.arange(self.run.steps) % self.run.steps_per_epoch
        data = (np.arange(self.run.steps) < self.run.data_steps)[:, None]
        counted, start = counted_share(self.run.order), self.start
        match self.run.order:
            case KnownUses():
                chances = self.steps_in(self.place)[:, None].astype(float)
                return WalledWalk(plain, moved, chances, np.ones(1), start=start)
            case SecretOrder(once=True) as order:
                chances = data * (at[:, None] == np.arange(order.period))
                never = np.append(chances, 0.0 * data, axis=1).astype(float)
                cases = in_counted(order)
                used = cases > 0.0
                return WalledWalk(plain, moved, never[:, used], cases[used], start=start)
            case SecretOrder() as order:
                chances = np.asarray(data * in_counted(order)[at][:, None])
                return WalledWalk(plain, moved, chances, np.ones(1), order.period, start)
            case FreshSubsets(probability=p):
                chances = np.where(data, counted * float(p), 0.0)
                return WalledWalk(plain, moved, chances, np.ones(1), start=start)
            case order:
                assert_never(order)

    def _steps(self, moves: Array) -> tuple[Sequence[AffineStep], Sequence[AffineStep]]:
        """Each step without the record, and with it."""
        slopes, drift, stds = self._schedules
        plain, moved = (
            [AffineStep(*map(float, step)) for step in zip(slopes, drift + move, stds, strict=True)]
            for move in (0.0 * moves, moves)
        )
        return plain, moved

    @cached_property
    def _schedules(self) -> tuple[Array, Array, Array]:
        return self.slopes, self.drift, self.stds

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) releases, all trained side by side, step by step, with this gradient of the record."""
        moves, (slopes, drift, stds) = self.moves(gradient), self._schedules
        half = 0.5 * self.line.width
        x, inside = np.full(trainings, self.start), self.membership(trainings, generator)
        for k in ticking(range(self.run.steps)):
            x = slopes[k] * x + drift[k] + moves[k] * inside.at(k)
            x += stds[k] * generator.standard_normal(trainings)
            if math.isfinite(half):
                np.clip(x, -half, half, out=x)
        return x
