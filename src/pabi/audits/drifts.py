"""Instances in which the iterate is pulled along, so that every step has the slope that shows the most.

Where all records but one pull the iterate by far more than noise moves it, its position tells the step. Their
losses may then be linear where one step takes place and curved where another one does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from pabi.audits.instance import by_place, drawn_places, places
from pabi.audits.laws import Choice, LawPair, SumCase, pair_of_mixtures
from pabi.audits.walks import GradientRange, Strips, Visit, strips
from pabi.describe.orders import FixedSizes, FreshSubsets, KnownUses, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown

# The slopes of steps that show the most of a record, where every step may have a slope of its own.
#
# What step k adds to the iterate counts W_k in the release, the product of the slopes after it. With
# slopes in [low_k, high_k] the weights obey low_k·W_k ≤ W_(k−1) ≤ high_k·W_k. Where the record adds s_k
# and the noise has the standard deviation σ_k, a release that is Gaussian has μ = ΣW_k s_k /
# √(ΣW_k²σ_k²). The weights with the largest μ are, but for their scale, those that minimise Σ(W_kσ_k)²/2
# − W_k s_k: the projection on a cone.


@dataclass(frozen=True)
class _Derivative:
    """A piecewise linear function that rises: values at points of [0, ∞), and the slope after the last."""

    points: Array
    values: Array
    end: float

    @property
    def root(self) -> float:
        """Where it vanishes; 0 where it is nowhere negative."""
        if self.values[0] >= 0.0:
            return 0.0
        if self.values[-1] < 0.0:
            return float(self.points[-1] - self.values[-1] / self.end)
        after = int(np.searchsorted(self.values, 0.0))
        (x, y), (u, v) = self.points[after - 1 : after + 1], self.values[after - 1 : after + 1]
        return float(x + (y - x) * -u / (v - u))

    def after(self, low: float, high: float) -> _Derivative:
        """That of W ↦ the least value over [low·W, high·W]."""
        root = self.root
        left, right = self.points < root, self.points > root
        points = np.append(self.points[left] / high, root / high)
        values = np.append(high * self.values[left], 0.0)
        if low > 0.0:
            with np.errstate(over="ignore"):
                further = np.append(root / low, self.points[right] / low)
            near = np.isfinite(further)  # no weight is as large as the others
            points = np.append(points, further[near])
            values = np.append(values, np.append(0.0, low * self.values[right])[near])
        return _Derivative(points, values, self.end * low**2)

    def plus(self, variance: float, move: float) -> _Derivative:
        """With the derivative of (Wσ)²/2 − W·s added."""
        return _Derivative(
            self.points, self.values + variance * self.points - move, self.end + variance
        )


def best_weights(moves: Array, stds: Array, *, low: Array, high: Array) -> Array:
    """(t,) what every step should count in the release, 1 the last step of which any counts.

    `moves`: (t,) what the record adds, ≥ 0 and somewhere positive. `stds`: (t,) of the noise, > 0. `low`,
    `high`: (t,) the ends of the slopes, 0 ≤ low ≤ high and high > 0; those of the first step do not matter.
    """
    start = _Derivative(np.zeros(1), np.zeros(1), 0.0)
    derivative, roots = start.plus(float(stds[0] ** 2), float(moves[0])), []
    for k in range(1, len(moves)):
        roots.append(derivative.root)
        derivative = derivative.after(float(low[k]), float(high[k]))
        derivative = derivative.plus(float(stds[k] ** 2), float(moves[k]))
    weights = [derivative.root]
    for k in range(len(moves) - 1, 0, -1):
        weights.append(float(np.clip(roots[k - 1], low[k] * weights[-1], high[k] * weights[-1])))
    return np.array(weights[::-1]) / weights[0]


_REACHES = (9.0, 8.0, 7.5, 7.0, 6.5, 6.0, 5.5, 5.0)  # standard deviations that a stretch is wide
_MOST_STEPS = 3_000
_FURTHER = 4.0  # times further out, at every try
_TRIES = 12
_LATE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # steps before the last place of an epoch
_SHARES = (1.0, 0.7, 0.5, 0.35, 0.2)  # of the largest curvature
_EQUAL = 1e-9


@dataclass(frozen=True)
class LossClass:
    """What the losses may be.

    `low`, `high`: the ends of their curvature. `bound`: the longest gradient, ∞ where none is stated.
    `change`: the most by which the gradients of the special record differ. `flat`: whether it may be linear,
    and is. `width`: of every stretch that is curved, 0 where that may be as narrow as it has to be. `top`:
    the largest gradient that others may have.
    """

    low: float
    high: float
    bound: float
    change: float
    flat: bool
    width: float = 0.0
    top: float = math.inf


@dataclass(frozen=True, eq=False)
class Drift:
    """Two neighbouring data sets of numbers, for a run that is pulled along.

    `record`, `other`: the constant part of the record's gradient on the two data sets. `curvature`: (t,) of
    the other records' losses where a step finds the iterate. `others`: their gradients.
    """

    run: NoisySGD
    name: str
    record: float
    other: float
    kind: LossClass
    curvature: Array
    others: Strips

    @property
    def sentence(self) -> str:
        """The instance in a few words."""
        pulls = f"a gradient of {shown(self.record, 3)} or {shown(self.other, 3)}"
        most = shown(float(np.max(np.abs(self.curvature))), 3)
        return f"one record with {pulls}, {self.name}, curvatures to {most} in some steps"

    def pair(self) -> LawPair:
        """The laws of how far what is released is from the way without noise, on the two data sets."""
        one, other = (list(self._cases(g)) for g in (self.record, self.other))
        return replace(pair_of_mixtures(one, other), beyond=self.others.beyond)

    def _cases(self, gradient: float) -> Iterator[SumCase]:
        match self.run.order:
            case KnownUses() as order:
                yield self._case(1.0, gradient, self._uses([last_place(self.run)] * self._epochs))
            case SecretOrder(once=True) as order:
                for place, chance in enumerate(places(order)):
                    yield self._case(float(chance), gradient, self._uses([place] * self._epochs))
            case SecretOrder() as order:
                # Only the last epoch is curved, so that the slopes depend on the place in it alone.
                for place, chance in enumerate(places(order)):
                    uses = self._uses([-1] * (self._epochs - 1) + [place])
                    yield self._case(float(chance), gradient, uses, order)
            case FreshSubsets():
                raise AssertionError("fresh subsets are not followed in strips")
            case order:
                assert_never(order)

    def _case(
        self, chance: float, gradient: float, uses: Array, order: SecretOrder | None = None
    ) -> SumCase:
        """`uses`: (t,) 1 in steps that surely have the record; `order`: that of the other epochs."""
        slopes = slopes_of(self.run, self.kind, self.curvature, uses)
        later = np.append(np.cumprod(slopes[:0:-1])[::-1], 1.0)
        eta, noise = self.run.schedule(0, self.run.steps)
        moved, data = later * self._moves(gradient), data_steps(self.run)
        choices = [Choice(np.ones(1), np.array([float(moved @ uses)]))]
        if order is not None:
            epochs = by_place(moved[:data], order.period)[:-1]
            choices += [Choice(places(order), epoch) for epoch in epochs]
        return SumCase(chance, choices, math.sqrt(float(np.square(later) @ np.square(eta * noise))))

    def _moves(self, gradient: float) -> Array:
        """(t,) what the record adds where it is; in a secret order another one would have been there."""
        eta, _ = self.run.schedule(0, self.run.steps)
        rest = (
            0.0
            if isinstance(self.run.order, KnownUses) or not self.kind.flat
            else self.others.pulls
        )
        return np.asarray(-eta * (gradient - rest) / self.run.batch_size)

    def _uses(self, of_epochs: list[int]) -> Array:
        """(t,) 1 in the steps of these places, one for each epoch; −1 for none."""
        data, period = data_steps(self.run), self.run.batches.per_epoch(self.run.n)
        steps = np.arange(self.run.steps)
        own = np.array(of_epochs)[np.minimum(steps // period, len(of_epochs) - 1)]
        return np.asarray((steps % period == own) & (steps < data), dtype=float)

    @property
    def _epochs(self) -> int:
        return -(-data_steps(self.run) // self.run.batches.per_epoch(self.run.n))

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) how far releases are from the way without noise, all trained side by side.

        `gradient`: of the record. The losses are those of the strips, wherever an iterate goes.
        """
        run, b = self.run, self.run.batch_size
        eta, noise = run.schedule(0, run.steps)
        period, data = run.batches.per_epoch(run.n), data_steps(run)
        x, own = np.full(trainings, self.others.path[0]), np.zeros(trainings, dtype=np.int64)
        for k in range(run.steps):
            if k % period == 0:
                own = self._drawn(k, own, generator)
            pull = run.loss.l2 * x
            if k < data:
                inside = (own == k % period).astype(float)
                usual = self.others.gradient(owner_of(run, k), x) + floor_of(self.kind) * x
                count = batch_sizes(run)[k]
                theirs = (count - inside * self.kind.flat) * usual
                pull = pull + (theirs + inside * gradient) / b
            x = x - eta[k] * (pull + noise[k] * generator.standard_normal(trainings))
        return np.asarray(x - self.others.path[-1])

    def _drawn(
        self, step: int, before: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        match self.run.order:
            case KnownUses():
                return np.full_like(before, last_place(self.run))
            case SecretOrder() as order:
                return (
                    drawn_places(order, len(before), generator)
                    if step == 0 or not order.once
                    else before
                )
            case FreshSubsets():
                raise AssertionError("fresh subsets are not followed in strips")
            case order:
                assert_never(order)


# What steps are.


def data_steps(run: NoisySGD) -> int:
    """The steps before those of the cool-down."""
    return run.steps - run.cooldown_steps


def last_place(run: NoisySGD) -> int:
    """The batch of the last step with data."""
    return (data_steps(run) - 1) % run.batches.per_epoch(run.n)


def owner_of(run: NoisySGD, step: int) -> int:
    """The number of the gradient in a step: every batch has its own where everybody knows who is in it."""
    return step % run.batches.per_epoch(run.n) if isinstance(run.order, KnownUses) else 0


def floor_of(kind: LossClass) -> float:
    """The curvature that all losses have everywhere."""
    return max(kind.low, 0.0)


def batch_sizes(run: NoisySGD) -> Array:
    """(t,) records of the batch of each step, 0 in the cool-down."""
    sizes, data = run.order.sizes, data_steps(run)
    assert isinstance(sizes, FixedSizes)
    counts, period = np.zeros(run.steps), run.batches.per_epoch(run.n)
    counts[:data] = sizes.size
    counts[period - 1 : data : period] = sizes.last
    return counts


def slopes_of(run: NoisySGD, kind: LossClass, curvature: Array, uses: Array) -> Array:
    """(t,) what steps multiply the iterate with, where the record is in those with `uses` 1."""
    eta, _ = run.schedule(0, run.steps)
    curved = np.maximum(batch_sizes(run) - kind.flat * uses, 0.0) / run.batch_size
    return np.asarray(1.0 - eta * (run.loss.l2 + (floor_of(kind) + curvature) * curved))


# Which there are.


def drifts(run: NoisySGD, kind: LossClass) -> Iterator[Drift]:
    """Those that a run has room for, for losses of a kind."""
    order, data = run.order, data_steps(run)
    if (
        isinstance(order, FreshSubsets)
        or not isinstance(order.sizes, FixedSizes)
        or run.steps > _MOST_STEPS
        or kind.low >= kind.high
        or (not kind.flat and (math.isfinite(kind.bound) or run.adjacency != "replace_one"))
        or data == 0
    ):
        return
    tried: list[Array] = []
    for curvature in _curvatures(run, kind):
        if not np.any(curvature) or any(np.array_equal(curvature, one) for one in tried):
            continue
        tried.append(curvature)
        others = _others(run, kind, curvature)
        if others is not None:
            for name, record, other in _pulls(run, kind):
                yield Drift(run, name, record, other, kind, curvature, others)


def _pulls(run: NoisySGD, kind: LossClass) -> Iterator[tuple[str, float, float]]:
    if not kind.flat:
        yield "others pulling along", 0.5 * kind.change, -0.5 * kind.change
        return
    other = kind.change - kind.bound
    yield "others pulling along", -kind.bound, other
    if isinstance(run.order, SecretOrder) and run.adjacency == "zero_out":
        yield "others pulling the other way", kind.bound, other


def _curvatures(run: NoisySGD, kind: LossClass) -> Iterator[Array]:
    """(t,) curvatures, beside the floor, that show the most of a record in some place."""
    period, data = run.batches.per_epoch(run.n), data_steps(run)
    public, steps = isinstance(run.order, KnownUses), np.arange(run.steps)
    first_of_last = (data - 1) // period * period
    spans = [steps >= first_of_last + period - 1 - q for q in _LATE if q < period]
    spans.append(steps >= first_of_last)
    if public:
        spans += [span | (steps < period) for span in spans[-3:]]
    if public or (isinstance(run.order, SecretOrder) and run.order.once):
        spans.append(steps >= 0)
    ends = {last_place(run)} if public else {last_place(run) - q for q in (0, 1, 2, 4, 8)}
    for place in sorted(end for end in ends if end >= 0):
        for span in spans:
            # Where there is no room for stretches that are all curved, there may be for half of it.
            for share in _SHARES if public and not kind.width else (1.0,):
                yield _curvature(run, _less_curved(kind, share), place, span & (steps < data))


def _less_curved(kind: LossClass, share: float) -> LossClass:
    return replace(kind, high=floor_of(kind) + share * (kind.high - floor_of(kind)))


def _curvature(run: NoisySGD, kind: LossClass, place: int, span: NDArray[np.bool_]) -> Array:
    """(t,) that with the best slopes for a record in `place`, in steps of the `span` alone."""
    eta, noise = run.schedule(0, run.steps)
    period, data = run.batches.per_epoch(run.n), data_steps(run)
    steps = np.arange(run.steps)
    uses = ((steps % period == place) & (steps < data)).astype(float)
    own = uses if isinstance(run.order, KnownUses) else 0.0 * uses
    fraction = np.maximum(batch_sizes(run) - kind.flat * own, 0.0) / run.batch_size
    floor = floor_of(kind)
    usual = 1.0 - eta * (run.loss.l2 + floor * fraction)
    low = np.where(span, usual - eta * fraction * (kind.high - floor), usual)
    high = np.where(span, usual - eta * fraction * min(kind.low - floor, 0.0), usual)
    low = np.maximum(low, 0.0)
    if np.any(high <= 0.0):
        return np.zeros(run.steps)
    weights = best_weights(eta / run.batch_size * uses, eta * noise, low=low, high=high)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.where(weights[1:] > 0.0, weights[:-1] / weights[1:], low[1:])
    slopes = np.append(usual[0], np.clip(slopes, low[1:], high[1:]))
    curvature = np.where(
        fraction > 0.0, (usual - slopes) / (eta * np.maximum(fraction, 1e-300)), 0.0
    )
    if not isinstance(run.order, KnownUses):
        # One gradient for all batches: strips next to each other have one curvature.
        curvature = np.where(curvature > 0.5 * (kind.high - floor), kind.high - floor, 0.0)
    least, most = min(kind.low - floor, 0.0), kind.high - floor
    curvature = np.clip(curvature, least, most)
    if kind.width:  # as many of the other records have all of it, and the rest none
        count = np.maximum(fraction * run.batch_size, 1.0)
        curvature = most * np.floor(curvature / most * count + _EQUAL) / count
    return np.where(np.abs(curvature) < _EQUAL * most, 0.0, curvature)


def _others(run: NoisySGD, kind: LossClass, curvature: Array) -> Strips | None:
    """Gradients with these curvatures, over the widest stretches that there is room for."""
    bound = kind.bound
    limits = GradientRange(least=-bound, most=min(bound, kind.top), start=-bound, width=kind.width)
    if math.isinf(bound):
        limits = GradientRange(least=-bound, most=bound, start=0.0, floor=floor_of(kind))
    for reach in _REACHES:
        for begin in _starts(run, kind):
            others = strips(_visits(run, kind, curvature), limits, begin, reach)
            if others is not None:
                return others
    return None


def _starts(run: NoisySGD, kind: LossClass) -> Iterator[float]:
    """Where the iterate may start: further and further out, where the regulariser pulls it back."""
    yield 0.0
    if run.loss.l2 + floor_of(kind) > 0.0:
        eta, noise = run.schedule(0, run.steps)
        unit = 10.0 * float(np.max(eta * noise)) * math.sqrt(run.steps)
        unit /= float(np.min(eta)) * (run.loss.l2 + floor_of(kind))
        for power in range(_TRIES):
            yield -unit * _FURTHER**power


def _visits(run: NoisySGD, kind: LossClass, curvature: Array) -> list[Visit]:
    eta, noise = run.schedule(0, run.steps)
    period, data = run.batches.per_epoch(run.n), data_steps(run)
    public = isinstance(run.order, KnownUses)
    steps = np.arange(run.steps)
    own = ((steps % period == last_place(run)) & (steps < data)).astype(float)
    sure = own if public else 0.0 * own
    fraction = np.maximum(batch_sizes(run) - kind.flat * sure, 0.0) / run.batch_size
    slopes = np.maximum(
        slopes_of(run, kind, curvature, sure), slopes_of(run, kind, curvature, np.ones(run.steps))
    )
    # The record adds −η(g − r)/b with |g| and |r| at most the bound, and r only in a secret order.
    most = kind.bound * (1.0 if public else 2.0) if kind.flat else 0.5 * kind.change
    moves = eta * most / run.batch_size * (own if public else (steps < data))
    return [
        Visit(
            owner=owner_of(run, k) if k < data else period,
            rate=float(eta[k] * fraction[k]),
            decay=float(1.0 - eta[k] * run.loss.l2),
            curvature=float(curvature[k]),
            std=float(eta[k] * noise[k]),
            slope=float(slopes[k]),
            least=-float(moves[k]),
            most=float(moves[k]),
            opens=k % period == 0,
        )
        for k in range(run.steps)
    ]
