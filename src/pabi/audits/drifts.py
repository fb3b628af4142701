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

from pabi.audits.instance import LineRun, by_place, places
from pabi.audits.laws import Choice, LawPair, SumCase, pair_of_mixtures
from pabi.audits.walks import GradientRange, Strips, Visit, strips
from pabi.describe.batches import FixedSizes, FreshSubsets, KnownUses, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.numbers.locking import tick, ticking
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
class Pulled(LineRun):
    """A run that is pulled along, with losses of a kind: what its steps are, and its instances."""

    kind: LossClass

    @property
    def floor(self) -> float:
        """The curvature that all losses have everywhere."""
        return max(self.kind.low, 0.0)

    @property
    def own(self) -> Array:
        """(t,) 1 in the steps that surely have the record of the last batch."""
        return np.asarray(self.steps_in(self.last_place) * float(self.public), dtype=np.float64)

    def owner_of(self, step: int) -> int:
        """The number of the gradient in a step: a public batch has one of its own."""
        return step % self.run.steps_per_epoch if self.public else 0

    def curved(self, uses: Array) -> Array:
        """(t,) the records of a batch that may have curvature, over its size, the record being in steps with
        `uses` 1."""
        return np.asarray(np.maximum(self.sizes - self.kind.flat * uses, 0.0) / self.run.batch_size)

    def slopes(self, curvature: Array, uses: Array) -> Array:
        """(t,) what steps multiply the iterate with, where the record is in those with `uses` 1."""
        bent = self.run.loss.l2 + (self.floor + curvature) * self.curved(uses)
        return np.asarray(1.0 - self.schedule[0] * bent)

    # Which there are.

    def pulls(self) -> Iterator[tuple[str, float, float]]:
        """(name, gradient of the record, that of its neighbour)."""
        kind = self.kind
        if not kind.flat:
            yield "others pulling along", 0.5 * kind.change, -0.5 * kind.change
            return
        other = kind.change - kind.bound
        yield "others pulling along", -kind.bound, other
        if isinstance(self.run.order, SecretOrder) and self.run.adjacency == "zero_out":
            yield "others pulling the other way", kind.bound, other

    def curvatures(self) -> Iterator[Array]:
        """(t,) curvatures, beside the floor, that show the most of a record in some place."""
        period, data = self.run.steps_per_epoch, self.run.data_steps
        steps = np.arange(self.run.steps)
        first_of_last = (data - 1) // period * period
        spans = [steps >= first_of_last + period - 1 - q for q in _LATE if q < period]
        spans.append(steps >= first_of_last)
        if self.public:
            spans += [span | (steps < period) for span in spans[-3:]]
        if self.public or (isinstance(self.run.order, SecretOrder) and self.run.order.once):
            spans.append(steps >= 0)
        last = self.last_place
        ends = {last} if self.public else {last - q for q in (0, 1, 2, 4, 8)}
        for place in sorted(end for end in ends if end >= 0):
            for span in spans:
                # Where there is no room for stretches that are all curved, there may be for half of it.
                for share in _SHARES if self.public and not self.kind.width else (1.0,):
                    high = self.floor + share * (self.kind.high - self.floor)
                    less = replace(self, kind=replace(self.kind, high=high))
                    yield less.curvature_in(place, span & (steps < data))

    def curvature_in(self, place: int, span: NDArray[np.bool_]) -> Array:
        """(t,) that with the best slopes for a record in `place`, in steps of the `span` alone."""
        (eta, noise), uses = self.schedule, self.steps_in(place).astype(float)
        fraction = self.curved(uses * self.public)
        least, most = min(self.kind.low - self.floor, 0.0), self.kind.high - self.floor
        usual = 1.0 - eta * (self.run.loss.l2 + self.floor * fraction)
        low = np.maximum(np.where(span, usual - eta * fraction * most, usual), 0.0)
        high = np.where(span, usual - eta * fraction * least, usual)
        if np.any(high <= 0.0):
            return np.zeros(self.run.steps)
        weights = best_weights(eta / self.run.batch_size * uses, eta * noise, low=low, high=high)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(weights[1:] > 0.0, weights[:-1] / weights[1:], low[1:])
        slopes = np.append(usual[0], np.clip(slopes, low[1:], high[1:]))
        curvature = np.where(
            fraction > 0.0, (usual - slopes) / (eta * np.maximum(fraction, 1e-300)), 0.0
        )
        if not self.public:
            # One gradient for all batches: strips next to each other have one curvature.
            curvature = np.where(curvature > 0.5 * most, most, 0.0)
        curvature = np.clip(curvature, least, most)
        if self.kind.width:  # as many of the other records have all of it, and the rest none
            count = np.maximum(fraction * self.run.batch_size, 1.0)
            curvature = most * np.floor(curvature / most * count + _EQUAL) / count
        return np.where(np.abs(curvature) < _EQUAL * most, 0.0, curvature)

    def others_with(self, curvature: Array) -> Strips | None:
        """Gradients with these curvatures, over the widest stretches that there is room for."""
        kind, bound = self.kind, self.kind.bound
        limits = GradientRange(
            least=-bound, most=min(bound, kind.top), start=-bound, width=kind.width
        )
        if math.isinf(bound):
            limits = GradientRange(least=-bound, most=bound, start=0.0, floor=self.floor)
        for reach in _REACHES:
            for begin in ticking(self._starts()):
                others = strips(self._visits(curvature), limits, begin, reach)
                if others is not None:
                    return others
        return None

    def _starts(self) -> Iterator[float]:
        """Where the iterate may start: further and further out, where the regulariser pulls it back."""
        yield 0.0
        pulling = self.run.loss.l2 + self.floor
        if pulling > 0.0:
            eta, noise = self.schedule
            unit = 10.0 * float(np.max(eta * noise)) * math.sqrt(self.run.steps)
            unit /= float(np.min(eta)) * pulling
            for power in range(_TRIES):
                yield -unit * _FURTHER**power

    def _visits(self, curvature: Array) -> list[Visit]:
        run, kind, (eta, noise) = self.run, self.kind, self.schedule
        period, data = run.steps_per_epoch, run.data_steps
        fraction = self.curved(self.own)
        slopes = np.maximum(
            self.slopes(curvature, self.own), self.slopes(curvature, np.ones(run.steps))
        )
        # The record adds −η(g − r)/b with |g| and |r| at most the bound, and r only in a secret order.
        most = kind.bound * (1.0 if self.public else 2.0) if kind.flat else 0.5 * kind.change
        with_data = np.arange(run.steps) < data
        moves = eta * most / run.batch_size * (self.own if self.public else with_data)
        return [
            Visit(
                owner=self.owner_of(k) if k < data else period,
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


@dataclass(frozen=True, eq=False)
class Drift(Pulled):
    """Two neighbouring data sets of numbers, for a run that is pulled along.

    `record`, `other`: the constant part of the record's gradient on the two data sets. `curvature`: (t,) of
    the other records' losses where a step finds the iterate. `others`: their gradients.
    """

    name: str
    record: float
    other: float
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
            case KnownUses():
                yield self._case(1.0, gradient, self.steps_in(self.last_place))
            case SecretOrder(once=True) as order:
                for place, chance in _possible(order):
                    yield self._case(chance, gradient, self.steps_in(place))
            case SecretOrder() as order:
                # Only the last epoch is curved, so that the slopes depend on the place in it alone.
                first = (self.run.data_steps - 1) // order.period * order.period
                in_last = np.arange(self.run.steps) >= first
                for place, chance in _possible(order):
                    uses = self.steps_in(place) & in_last
                    yield self._case(chance, gradient, uses, order)
            case FreshSubsets():
                raise AssertionError("fresh subsets are not followed in strips")
            case order:
                assert_never(order)

    def _case(
        self,
        chance: float,
        gradient: float,
        surely: NDArray[np.bool_],
        order: SecretOrder | None = None,
    ) -> SumCase:
        """`surely`: (t,) the steps that have the record; `order`: that of the other epochs."""
        uses, (eta, noise) = surely.astype(float), self.schedule
        slopes = self.slopes(self.curvature, uses)
        later = np.append(np.cumprod(slopes[:0:-1])[::-1], 1.0)
        # In a secret order another record would have been where this one is.
        rest = 0.0 if self.public or not self.kind.flat else self.others.pulls
        moved = later * (-eta * (gradient - rest) / self.run.batch_size)
        choices = [Choice(np.ones(1), np.array([float(moved @ uses)]))]
        if order is not None:
            epochs = by_place(moved[: self.run.data_steps], order.period)[:-1]
            choices += [Choice(places(order), np.append(epoch, 0.0)) for epoch in epochs]
        return SumCase(chance, choices, math.sqrt(float(np.square(later) @ np.square(eta * noise))))

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) how far releases are from the way without noise, all trained side by side.

        The losses are those of the strips, wherever an iterate goes.
        """
        run, (eta, noise) = self.run, self.schedule
        x, member = np.full(trainings, self.others.path[0]), self.membership(trainings, generator)
        for k in ticking(range(run.steps)):
            inside = member.at(k)
            pull = run.loss.l2 * x
            if k < run.data_steps:
                usual = self.others.gradient(self.owner_of(k), x) + self.floor * x
                theirs = (self.sizes[k] - inside * self.kind.flat) * usual
                pull = pull + (theirs + inside * gradient) / run.batch_size
            x = x - eta[k] * (pull + noise[k] * generator.standard_normal(trainings))
        return np.asarray(x - self.others.path[-1])


def _possible(order: SecretOrder) -> Iterator[tuple[int, float]]:
    """(place, probability) of the batches that a record may be in; the period stands for none."""
    for place, chance in enumerate(places(order).tolist()):
        if chance > 0.0:
            tick()
            yield place, chance


def drifts(run: NoisySGD, kind: LossClass) -> Iterator[Drift]:
    """Those that a run has room for, for losses of a kind."""
    order, pulled = run.order, Pulled(run, kind)
    if (
        isinstance(order, FreshSubsets)
        or not isinstance(order.sizes, FixedSizes)
        or run.steps > _MOST_STEPS
        or kind.low >= kind.high
        or (not kind.flat and (math.isfinite(kind.bound) or run.adjacency != "replace_one"))
        or run.data_steps == 0
    ):
        return
    tried: list[Array] = []
    for curvature in pulled.curvatures():
        if not np.any(curvature) or any(np.array_equal(curvature, one) for one in tried):
            continue
        tried.append(curvature)
        others = pulled.others_with(curvature)
        if others is not None:
            for name, record, other in pulled.pulls():
                yield Drift(run, kind, name, record, other, curvature, others)
