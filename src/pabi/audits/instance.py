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
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

import numpy as np

from pabi.audits.counted import Membership, counted_share
from pabi.audits.laws import Choice, LawPair, pair_of_sums
from pabi.audits.line import WalkLine, line_of
from pabi.audits.places import by_place, places
from pabi.audits.walks import AffineStep, WalledWalk, pair_between_walls
from pabi.describe.orders import FixedSizes, FreshSubsets, KnownUses, RandomSizes, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown


@dataclass(frozen=True)
class Instance:
    """Two neighbouring data sets of numbers, for a run that trains a number.

    `record`, `other`: the constant part of the record's gradient on the two data sets. `rest`: that of all
    other records. `curvature`: of the losses in every batch of an epoch, or in all of them alike. `flat`:
    whether the record has none itself. `start`: where the number starts, from the middle between walls.
    """

    run: NoisySGD
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
    def sizes(self) -> Array:
        """(t,) records of the batch of each step; 0 where they are drawn, as they are then at rest."""
        run, counts = self.run, np.zeros(self.run.steps)
        match run.order.sizes:
            case FixedSizes(size=size, last=last):
                counts[: self._data] = size
                counts[self._period - 1 : self._data : self._period] = last
            case RandomSizes():
                pass  # the others are at rest and flat: none is counted
            case sizes:
                assert_never(sizes)
        return counts

    @property
    def slopes(self) -> Array:
        """(t,) what a step multiplies the iterate with."""
        eta, _ = self.run.schedule(0, self.run.steps)
        curvature = np.resize(np.array(self.curvature), self.run.steps)
        curved = self.sizes
        if self.flat and isinstance(self.run.order, KnownUses):
            own = np.arange(self.run.steps) % self._period == self._last_place
            curved = np.maximum(curved - own, 0.0)
        plain = 1.0 - eta * (self.run.loss.l2 + curvature * curved / self.run.batch_size)
        return np.asarray(self.shrink * plain)

    @cached_property
    def line(self) -> WalkLine:
        """What the proximal map does."""
        return line_of(self.run)

    @property
    def shrink(self) -> Array:
        """(t,) what the proximal map multiplies the iterate with."""
        eta, _ = self.run.schedule(0, self.run.steps)
        return np.asarray(1.0 / (1.0 + eta * self.line.ridge))

    def moves(self, gradient: float) -> Array:
        """(t,) what the record adds to the iterate in a step that it is in; it takes another's place."""
        eta, _ = self.run.schedule(0, self.run.steps)
        data = np.arange(self.run.steps) < self.run.steps - self.run.cooldown_steps
        moves = -self.shrink * eta * (gradient - self.rest) / self.run.batch_size
        return np.where(data, moves, 0.0)

    @property
    def drift(self) -> Array:
        """(t,) what all others add, had the record one of them for a neighbour."""
        eta, _ = self.run.schedule(0, self.run.steps)
        return np.asarray(-self.shrink * eta * self.rest * self.sizes / self.run.batch_size)

    @property
    def stds(self) -> Array:
        """(t,) of the noise that a step adds to the iterate."""
        eta, noise = self.run.schedule(0, self.run.steps)
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
            return self._last_place
        moved = self.later * (self.moves(self.record) - self.moves(self.other))
        return int(np.argmax(np.abs(by_place(moved[: self._data], self._period).sum(axis=0))))

    @property
    def _last_place(self) -> int:
        return (self._data - 1) % self._period

    @property
    def _data(self) -> int:
        return self.run.steps - self.run.cooldown_steps

    @property
    def _period(self) -> int:
        return self.run.batches.per_epoch(self.run.n)

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
        data, counted = self._data, counted_share(self.run.order)
        match self.run.order:
            case KnownUses(period=period):
                sums = by_place(moved[:data], period).sum(axis=0)
                return [Choice(np.ones(1), sums[[self.place]])]
            case SecretOrder(period=period) as order:
                epochs = by_place(moved[:data], period)
                chances, moved_by = places(order), [epochs.sum(axis=0)] if order.once else epochs
                if counted == 1.0:
                    return [Choice(chances, sums) for sums in moved_by]
                chances = np.append(counted * chances, 1.0 - counted)
                return [Choice(chances, np.append(sums, 0.0)) for sums in moved_by]
            case FreshSubsets(probability=p):
                share = counted * float(p)
                out_or_in = np.array([1.0 - share, share])
                return [Choice(out_or_in, np.array([0.0, move])) for move in moved[:data]]
            case order:
                assert_never(order)

    def walk(self, moves: Array) -> WalledWalk:
        """The steps, where the record adds `moves` (t,) to the iterate in those that it is in."""
        slopes, drift, stds = self._schedules
        plain, moved = (
            [AffineStep(*map(float, step)) for step in zip(slopes, drift + move, stds, strict=True)]
            for move in (0.0 * moves, moves)
        )
        at = np.arange(self.run.steps) % self._period
        data = (np.arange(self.run.steps) < self._data)[:, None]
        counted, start = counted_share(self.run.order), self.start
        match self.run.order:
            case KnownUses():
                chances = data * (at == self.place)[:, None]
                return WalledWalk(plain, moved, chances.astype(float), np.ones(1), start=start)
            case SecretOrder(once=True) as order:
                chances = data * (at[:, None] == np.arange(order.period))
                never = np.append(chances, 0.0 * data, axis=1).astype(float)
                cases = np.append(counted * places(order), 1.0 - counted)
                used = cases > 0.0
                return WalledWalk(plain, moved, never[:, used], cases[used], start=start)
            case SecretOrder() as order:
                chances = np.asarray(counted * data * places(order)[at][:, None])
                return WalledWalk(plain, moved, chances, np.ones(1), order.period, start)
            case FreshSubsets(probability=p):
                chances = np.where(data, counted * float(p), 0.0)
                return WalledWalk(plain, moved, chances, np.ones(1), start=start)
            case order:
                assert_never(order)

    def membership(self, trainings: int, generator: np.random.Generator) -> Membership:
        """Whether the record is in the batches, for many trainings at once."""
        return Membership(self.run, self.place, trainings, generator)

    @cached_property
    def _schedules(self) -> tuple[Array, Array, Array]:
        return self.slopes, self.drift, self.stds

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) releases, all trained side by side, step by step.

        `gradient`: of the record.
        """
        moves, (slopes, drift, stds) = self.moves(gradient), self._schedules
        half = 0.5 * self.line.width
        x, inside = np.full(trainings, self.start), self.membership(trainings, generator)
        for k in range(self.run.steps):
            x = slopes[k] * x + drift[k] + moves[k] * inside.at(k)
            x += stds[k] * generator.standard_normal(trainings)
            if math.isfinite(half):
                np.clip(x, -half, half, out=x)
        return x
