"""Instances whose other records are bent: at rest together at 0, with a gradient that is not linear there.

The iterate stays about 0, so that every step has the same gradient of theirs, and its law is followed step by
step. Logistic losses bend where half of the records of a batch have either label: there their curvature is
¼ of the squared feature norm, and their pulls cancel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from pabi.audits.instance import Instance
from pabi.audits.laws import LawPair
from pabi.audits.walks import AffineStep, BentStep, pair_between_walls
from pabi.describe.batches import FixedSizes, KnownUses
from pabi.describe.runs import NoisySGD
from pabi.numbers.locking import ticking
from pabi.numbers.rounding import Array

_FAR = 9.0  # standard deviations that a law is followed for
_FEW = 16  # numbers of batches that are tried
_SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1)  # of a batch that bend


@dataclass(frozen=True)
class Margins:
    """The mean gradient of two records of rows ±norm, one of either label, whose margins are about 0."""

    norm: float

    @property
    def knots(self) -> tuple[float, ...]:
        """It has no kinks."""
        return ()

    @property
    def steepest(self) -> float:
        """Its largest curvature; the least one is 0."""
        return 0.25 * self.norm**2

    def __call__(self, points: Array, /) -> Array:
        """At points of any shape."""
        return np.asarray(self.norm * (expit(self.norm * points) - 0.5))


@dataclass(frozen=True)
class Bent(Instance):
    """Two neighbouring data sets: one record of a constant gradient, and others that are at rest at 0.

    `gradient`: of the other records, two by two. `shares`: of these, those that have it, in every batch of an
    epoch; the rest have none.
    """

    gradient: Margins = Margins(1.0)
    shares: tuple[float, ...] = (0.0,)

    @property
    def place(self) -> int:
        """The batch of the record, for which the others are made."""
        return self.last_place

    @property
    def reach(self) -> float:
        """How far from 0 the iterate gets, but for what nine standard deviations leave out.

        It is a Lipschitz function of the noises, of constant v, and its root mean square is at most a.
        """
        moves = np.maximum(*(np.abs(self.moves(g)) for g in (self.record, self.other)))
        a = v = reach = 0.0
        for slope, move, std in zip(self._largest, moves, self.stds, strict=True):
            a, v = math.hypot(slope * a + move, std), math.hypot(slope * v, std)
            reach = max(reach, a + _FAR * v)
        return reach

    @property
    def beyond(self) -> float:
        """The probability that it gets farther, on either data set: concentration of Lipschitz functions."""
        return 2.0 * self.run.steps * math.exp(-0.5 * _FAR**2)

    def pair(self) -> LawPair:
        """The laws between walls that are hardly ever met.

        Raises NotApplicable where these are too far apart.
        """
        walks = (self.walk(self.moves(g)) for g in (self.record, self.other))
        return replace(pair_between_walls(2.0 * self.reach, *walks), beyond=self.beyond)

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) releases, all trained side by side, step by step, with this gradient of the record."""
        plain, moved = self._steps(self.moves(gradient))
        x, inside = np.zeros(trainings), self.membership(trainings, generator)
        for k in ticking(range(self.run.steps)):
            x = np.where(inside.at(k) > 0.0, moved[k].means(x), plain[k].means(x))
            x += self.stds[k] * generator.standard_normal(trainings)
        return x

    def _rates(self, besides: int) -> Array:
        """(t,) what a step multiplies the gradient with, where so many records of its batch lack it."""
        share = np.resize(np.array(self.shares), self.run.steps)
        pairs = np.floor(share * np.maximum(self.sizes - besides, 0.0) / 2.0)
        return np.asarray(self.schedule[0] * 2.0 * pairs / self.run.batch_size)

    @property
    def _largest(self) -> Array:
        """(t,) the largest size of a slope."""
        low = self.slopes - self._rates(0) * self.gradient.steepest
        return np.maximum(np.abs(low), np.abs(self.slopes))

    def _steps(self, moves: Array) -> tuple[Sequence[AffineStep], Sequence[AffineStep]]:
        """Each step without the record, and with it."""
        slopes, stds = self.slopes, self.stds

        def steps(moves: Array, rates: Array) -> list[BentStep]:
            columns = (x.tolist() for x in (slopes, moves, stds, rates))
            return [
                BentStep(slope, move, std, rate, self.gradient)
                for slope, move, std, rate in zip(*columns, strict=True)
            ]

        return steps(0.0 * moves, self._rates(0)), steps(moves, self._rates(1))


def bent(run: NoisySGD, pulls: Sequence[tuple[str, float, float, float]]) -> Iterator[Bent]:
    """That of logistic losses whose batches everybody knows, where it shows more than linear ones.

    Others that bend before the record's batch, or in it, forget noise that came earlier.
    """
    loss, order = run.loss, run.order
    if (
        loss.kind != "logistic"
        or run.clip_norm is not None
        or not isinstance(order, KnownUses)
        or not isinstance(order.sizes, FixedSizes)
        or order.period == 1
        or run.data_steps == 0
    ):
        return
    gradient, period = Margins(float(dict(loss.parameters)["feature_norm"])), order.period
    place = (run.data_steps - 1) % period
    for name, record, other, rest in pulls:
        if rest == 0.0:
            usual = Bent(run, name, record, other, gradient=gradient)
            tried = [usual]
            for count in sorted({round(r) for r in np.geomspace(1, period - 1, _FEW)}):
                for last in (place - 1, place):
                    with_it = {(last - j) % period for j in range(count)}
                    for share in _SHARES:
                        shares = tuple(share * (j in with_it) for j in range(period))
                        tried.append(replace(usual, shares=shares))
            best = max(tried, key=_about)
            if best is not usual:
                yield best


def _about(one: Bent) -> float:
    """About the μ of an instance, as if its gradients were linear."""
    uses = one.steps_in(one.place)
    slopes = one.slopes - one.gradient.steepest * np.where(uses, one._rates(1), one._rates(0))
    later = np.append(np.cumprod(slopes[:0:-1])[::-1], 1.0)
    moved = float((later * one.moves(one.record - one.other)) @ uses)
    return abs(moved) / math.sqrt(float(np.square(later) @ np.square(one.stds)))
