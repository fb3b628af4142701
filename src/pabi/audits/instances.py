"""The worst instances that are known for a description: one number is trained, and one record pulls at it.

All other records pull alike. So the iterate is affine in what is drawn, but for the projection on a domain,
and its law on either data set is known.

A loss whose gradients saturate is linear in the limit of a start far out, where a direction that all rows
share a little of decides the residual and nothing else does. There the gradients of two records may be
opposite and both of the largest size. On a bounded domain there is no far out, so that instances are known
for losses alone that may be linear or quadratic themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from pabi.audits.drifts import Drift, Kind, drifts
from pabi.audits.laws import Choice, LawPair, pair_of_sums
from pabi.audits.places import by_place, drawn_places, places
from pabi.audits.walks import AffineStep, WalledWalk, pair_between_walls
from pabi.describe.neighbours import changed
from pabi.describe.orders import FixedSizes, FreshSubsets, KnownUses, RandomSizes, SecretOrder
from pabi.describe.prox import ball
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown

# Losses that may be linear, where their curvature allows it, and quadratics; those of linear models, which
# far out have gradients of the largest size.
_SLANTED = ("squared", "huber", "vector_huber", "smoothed_hinge")
_CLASSES = ("convex", "strongly_convex", "nonconvex", "weakly_convex")
_SATURATING = ("logistic", "squared", "huber", "smoothed_hinge", "softmax")
_LINEAR = (*_CLASSES, "weakly_smooth", "lipschitz", "holder", "unknown", "saddle")


@dataclass(frozen=True)
class Instance:
    """Two neighbouring data sets of numbers, for a run that trains a number from 0.

    `record`, `other`: the constant part of the record's gradient on the two data sets. `rest`: that of all
    other records. `curvature`: of the losses in every batch of an epoch, or in all of them alike. `flat`:
    whether the record has none itself.
    """

    run: NoisySGD
    name: str
    record: float
    other: float
    rest: float = 0.0
    curvature: tuple[float, ...] = (0.0,)
    flat: bool = True

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
        return 1.0 - eta * (self.run.loss.l2 + curvature * curved / self.run.batch_size)

    def moves(self, gradient: float) -> Array:
        """(t,) what the record adds to the iterate in a step that it is in; it takes another's place."""
        eta, _ = self.run.schedule(0, self.run.steps)
        data = np.arange(self.run.steps) < self.run.steps - self.run.cooldown_steps
        return np.where(data, -eta * (gradient - self.rest) / self.run.batch_size, 0.0)

    @property
    def drift(self) -> Array:
        """(t,) what all others add, had the record one of them for a neighbour."""
        eta, _ = self.run.schedule(0, self.run.steps)
        return -eta * self.rest * self.sizes / self.run.batch_size

    @property
    def stds(self) -> Array:
        """(t,) of the noise that a step adds to the iterate."""
        eta, noise = self.run.schedule(0, self.run.steps)
        return eta * noise

    @property
    def later(self) -> Array:
        """(t,) what the steps after each one multiply what it adds with."""
        return np.append(np.cumprod(self.slopes[:0:-1])[::-1], 1.0)

    @property
    def reach(self) -> float:
        """How far from 0 the walk gets without walls, but for what nine standard deviations leave out."""
        most = np.maximum(*(np.abs(self.moves(g)) for g in (self.record, self.other)))
        x = variance = reach = 0.0
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
        if self.reach < 0.5 * self.run.range_diameter:
            drift = Choice(np.ones(1), np.array([float(self.later @ self.drift)]))
            one, other = ([drift, *self.choices(self.later * self.moves(g))] for g in gradients)
            return pair_of_sums(one, other, std)
        return pair_between_walls(
            self.run.range_diameter, *(self.walk(self.moves(g)) for g in gradients)
        )

    def choices(self, moved: Array) -> list[Choice]:
        """What is drawn, where the record moves the release by `moved` (t,) in the steps that it is in."""
        data = self._data
        match self.run.order:
            case KnownUses(period=period):
                sums = by_place(moved[:data], period).sum(axis=0)
                return [Choice(np.ones(1), sums[[self.place]])]
            case SecretOrder(period=period) as order:
                epochs = by_place(moved[:data], period)
                if order.once:
                    return [Choice(places(order), epochs.sum(axis=0))]
                return [Choice(places(order), epoch) for epoch in epochs]
            case FreshSubsets(probability=p):
                out_or_in = np.array([1.0 - float(p), float(p)])
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
        match self.run.order:
            case KnownUses():
                chances = data * (at == self.place)[:, None]
                return WalledWalk(plain, moved, chances.astype(float), np.ones(1))
            case SecretOrder(once=True) as order:
                chances = data * (at[:, None] == np.arange(order.period))
                return WalledWalk(plain, moved, chances.astype(float), places(order))
            case SecretOrder() as order:
                chances = np.asarray(data * places(order)[at][:, None])
                return WalledWalk(plain, moved, chances, np.ones(1), order.period)
            case FreshSubsets(probability=p):
                return WalledWalk(plain, moved, np.where(data, float(p), 0.0), np.ones(1))
            case order:
                assert_never(order)

    @cached_property
    def _schedules(self) -> tuple[Array, Array, Array]:
        return self.slopes, self.drift, self.stds

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) releases, all trained side by side, step by step.

        `gradient`: of the record.
        """
        moves, (slopes, drift, stds) = self.moves(gradient), self._schedules
        half = 0.5 * self.run.range_diameter
        x, inside = np.zeros(trainings), _Membership(self, trainings, generator)
        for k in range(self.run.steps):
            x = slopes[k] * x + drift[k] + moves[k] * inside.at(k)
            x += stds[k] * generator.standard_normal(trainings)
            if math.isfinite(half):
                np.clip(x, -half, half, out=x)
        return x


class _Membership:
    """Whether the record is in the batch of a step, for many trainings at once."""

    def __init__(self, instance: Instance, trainings: int, generator: np.random.Generator) -> None:
        self._order, self._count, self._generator = instance.run.order, trainings, generator
        self._place = instance.place
        self._places = np.zeros(trainings, dtype=np.int64)

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
                return np.asarray(self._generator.random(self._count) < float(p), dtype=float)
            case order:
                assert_never(order)

    def _drawn(self, order: SecretOrder) -> NDArray[np.int64]:
        return drawn_places(order, self._count, self._generator)


# Which instances there are.


def instances(run: NoisySGD) -> list[Instance | Drift]:
    """Those that are known for a run.

    Raises NotApplicable where there are none.
    """
    _refuse_unknown(run)
    candidates = [
        Instance(run, name, record, other, rest, curvature, _is_flat(run))
        for name, record, other, rest in _pulls(run)
        for curvature in _curvatures(run)
    ]
    within: list[Instance | Drift] = [one for one in candidates if _is_within(one)]
    if math.isinf(run.range_diameter):
        within += drifts(run, _kind(run))
    if not within:
        raise NotApplicable(
            "no worst instance is known where a record's loss is curved and its gradient may become zero"
        )
    return within


def _refuse_unknown(run: NoisySGD) -> None:
    """Raises NotApplicable for runs of which no instance is a walk on a line."""
    sizes, kind = run.order.sizes, run.loss.kind
    walled = math.isfinite(run.range_diameter)
    reasons = {
        "for another update than plain descent": not run.rule.plain,
        "where the whole path is released": run.release != "last",
        "under a proximal map other than the projection on a ball": not (
            run.prox is None or isinstance(run.prox, ball)
        ),
        "where batches have a cap": isinstance(sizes, RandomSizes) and sizes.cap is not None,
        f"of the {kind} loss on a bounded domain, where it need not saturate": walled
        and kind not in _LINEAR,
        f"of the {kind} loss": kind not in (*_LINEAR, *_SATURATING),
        f"of the {kind} loss without a bound on its gradient": kind in _SATURATING
        and run.record_gradient_bound is None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise NotApplicable(f"no worst instance is known {reason}")


def _pulls(run: NoisySGD) -> Iterator[tuple[str, float, float, float]]:
    """(name, gradient of the record, that of its neighbour, that of all others)."""
    bound = _bound(run)
    other = -bound if changed(run.adjacency) == 2 else 0.0
    yield "others at rest", bound, other, 0.0
    if isinstance(run.order.sizes, FixedSizes) and not isinstance(run.order, KnownUses):
        yield "others against it", bound, other, -bound
        yield "others with it", bound, other, bound
    if math.isfinite(run.range_diameter) and isinstance(run.order, KnownUses):
        yield "at a wall", bound, other, bound


def _bound(run: NoisySGD) -> float:
    """The longest gradient of a record, or half of what the change of one may be."""
    return run.sensitivity / (2.0 if run.order.displaces else changed(run.adjacency))


def _curvature(run: NoisySGD) -> tuple[float, float]:
    """The ends of what the losses of an instance may have: flat ones where they are not quadratics."""
    if run.loss.kind not in _CLASSES:
        return 0.0, 0.0
    ends = run.loss.effective_curvature(run.clip_norm, run.clipping)
    return (0.0, 0.0) if ends is None else ends


def _kind(run: NoisySGD) -> Kind:
    """What the losses may be of an instance that is pulled along: linear where curvatures do not say all."""
    loss, bound = run.loss, _bound(run)
    low, high = loss.curvature or (0.0, 0.0)
    unbounded = run.clip_norm is None and loss.gradient_bound is None
    if loss.kind in _SLANTED:
        top = bound if loss.kind != "smoothed_hinge" else 0.0
        return Kind(0.0, high, bound, run.sensitivity, True, (bound + top) / high, top)
    if loss.kind not in _CLASSES:
        return Kind(0.0, 0.0, bound, run.sensitivity, True)
    if unbounded and low > 0.0:
        return Kind(low, high, math.inf, run.sensitivity, False)
    return Kind(min(low, 0.0), high, bound, run.sensitivity, True)


def _is_flat(run: NoisySGD) -> bool:
    """Whether the record may be without curvature while others have some: where everybody knows the batches
    its steps are known as well, and not otherwise."""
    return isinstance(run.order, KnownUses) and _curvature(run)[0] <= 0.0


def _curvatures(run: NoisySGD) -> Iterator[tuple[float, ...]]:
    """What the other records may have beside their pulls: in every batch alike, or where everybody knows the
    batches, the most in some batches before the one with the record, the last, and the least elsewhere.

    They forget noise before the record comes, and keep what it adds afterwards.
    """
    low, high = _curvature(run)
    yield from dict.fromkeys((h,) for h in (0.0, low, high) if low <= h <= high)
    if isinstance(run.order, KnownUses) and low < high:
        period = run.order.period
        counts = {round(r) for r in np.geomspace(1, max(1, period - 1), 24)}
        place = (run.steps - run.cooldown_steps - 1) % period
        for count in sorted(counts - {0, period}):
            before = [(place - 1 - j) % period for j in range(count)]
            yield tuple(high if j in before else max(low, 0.0) for j in range(period))


def _is_within(instance: Instance) -> bool:
    """Whether the instance is of the described kind: no gradient of a record is too long.

    Records of random number are at rest. A curved record keeps its curvature in the other data set, so that
    it is not zeroed, and its gradient has no bound.
    """
    run, most = instance.run, max(map(abs, instance.curvature))
    if most == 0.0:
        return True
    if isinstance(run.order.sizes, RandomSizes):
        return False
    unbounded = run.clip_norm is None and run.loss.gradient_bound is None
    if not instance.flat:
        return unbounded and run.adjacency == "replace_one"
    farthest = min(instance.reach, 0.5 * run.range_diameter)
    return unbounded or abs(instance.rest) + most * farthest <= _bound(run)
