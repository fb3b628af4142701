"""The worst instances that are known for a description, sums among them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from pabi.audits.drifts import Drift, LossClass, drifts
from pabi.audits.instance import Instance, by_place, line_of
from pabi.audits.laws import LawPair, pair_of_sums
from pabi.audits.walks import AffineStep, BentStep, pair_between_walls
from pabi.describe.accounted import changed
from pabi.describe.batches import FixedSizes, KnownUses, RandomSizes
from pabi.describe.runs import NoisySGD
from pabi.describe.updates import SGD, Momentum
from pabi.numbers.errors import NotApplicable
from pabi.numbers.locking import ticking
from pabi.numbers.rounding import Array

# Instances whose release is a sum: of updates with momentum, and of runs that release their path.
#
# All losses are linear, so that what is released is linear in what every step adds. Of a path that is a
# sum of its steps, each with the weight that it deserves.


@dataclass(frozen=True)
class SumInstance(Instance):
    """An instance of linear losses, of which a weighted sum of steps is released.

    The other records are at rest or pull alike, which moves the release by a constant.
    """

    @property
    def later(self) -> Array:
        """(t,) what counts of what each step adds."""
        rule = self.run.rule
        if self.run.release == "path":  # whose steps show nothing where they surely lack the record
            shown = self.steps_in(self.place) if self.public else 1.0
            return np.asarray(shown * (self._moved / np.square(self.stds)))
        assert isinstance(rule, Momentum)
        return _of_momentum(rule, self.run.loss.l2, self.schedule[0])

    @property
    def place(self) -> int:
        """The batch of the record where everybody knows who is in which: of a path, the one that shows the
        most in all its steps."""
        if self.run.release != "path":
            return super().place
        moved = np.square(self._moved / self.stds)[: self.run.data_steps]
        costs = by_place(moved, self.run.steps_per_epoch)
        return int(np.argmax(costs.sum(axis=0)))

    @property
    def _moved(self) -> Array:
        return np.abs(self.moves(self.record) - self.moves(self.other))

    def pair(self) -> LawPair:
        """The laws of the sum, but for what the other records add."""
        later = self.later
        std = math.sqrt(float(np.square(later) @ np.square(self.stds)))
        one, other = (self.choices(later * self.moves(g)) for g in (self.record, self.other))
        return pair_of_sums(one, other, std)

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) sums, all trained side by side, step by step, with this gradient of the record."""
        inside, moves, stds = self.membership(trainings, generator), self.moves(gradient), self.stds
        eta, _ = self.schedule
        later, total = self.later, np.zeros(trainings)
        x, state = np.zeros(trainings), self.run.rule.start(np.zeros(trainings))
        for k in ticking(range(self.run.steps)):
            added = moves[k] * inside.at(k) + stds[k] * generator.standard_normal(trainings)
            total += later[k] * added
            if self.run.release != "path":
                direction = self.run.loss.l2 * x - added / eta[k]
                x, state = self.run.rule.step(x, direction, float(eta[k]), state, k)
        return total if self.run.release == "path" else x


def _of_momentum(rule: Momentum, l2: float, eta: Array) -> Array:
    """(t,) what the last iterate moves by where −η times the direction of a step moves by one.

    Followed backwards: `x`, `v` are what the release owes to the iterate and to the velocity after a step.
    """
    later, x, v = np.empty(len(eta)), 1.0, 0.0
    for k in range(len(eta) - 1, -1, -1):
        # v' = βv + d, and x' = x − ηv', or x − η(d + βv') with Nesterov's step; d = λx + …
        ahead = rule.momentum if rule.nesterov else 1.0
        to_velocity = v - eta[k] * ahead * x
        to_direction = to_velocity - (eta[k] * x if rule.nesterov else 0.0)
        later[k] = -to_direction / eta[k]
        x, v = x + l2 * to_direction, rule.momentum * to_velocity
    return later


# Losses that may be linear, where their curvature allows it, and quadratics.
_CLASSES = ("convex", "strongly_convex", "nonconvex", "weakly_convex", "dissipative")
_LINEAR = (*_CLASSES, "weakly_smooth", "lipschitz", "holder", "unknown", "saddle")
# Those of linear models, which far out have gradients of the largest size: linear pieces beside a quadratic
# one, and the other ones.
_SLANTED = ("squared", "huber", "vector_huber", "smoothed_hinge")
_SATURATING = (*_SLANTED, "logistic", "softmax", "one_vs_rest", "poisson", "gamma")
_FAR_TARGETS = ("squared", "huber", "vector_huber")  # whose residual is as large as the target is

Known = Instance | Drift

_STARTS = (0.25, 0.5, 0.75, 1.0)  # in halves of the domain


def instances(run: NoisySGD) -> list[Known]:
    """Those that are known for a run."""
    _refuse_unknown(run)
    summed = not run.rule.plain or run.release != "last"
    sums = (SumInstance(run, *pull) for pull in _pulls(run))
    within: list[Known] = [one for one in (sums if summed else _walks(run)) if _is_within(one)]
    if not summed and run.prox is None and math.isinf(run.range_diameter):
        within += drifts(run, _kind(run))
        within += bent(run, list(_pulls(run)))
    if not within:
        raise NotApplicable(
            "no worst instance is known where a record's loss is curved and its gradient may become zero"
        )
    return within


def nearby(instance: Known) -> list[Instance]:
    """Instances that differ in the start or in the curvatures, where walls make a difference."""
    if not isinstance(instance, Instance):
        return []
    half = 0.5 * instance.line.width
    if instance.reach < half:
        return []
    starts = (sign * share * half for share in _STARTS for sign in (1.0, -1.0))
    moved = [replace(instance, start=start) for start in starts]
    curved = [replace(instance, curvature=table) for table in _curvatures(instance.run)]
    return [one for one in moved + curved if one != instance and _is_within(one)]


def _walks(run: NoisySGD) -> Iterator[Instance]:
    """All curvatures without walls; with walls alike ones, which `nearby` begins with."""
    width = line_of(run).width
    starts = (0.0,) if math.isinf(width) else (0.0, 0.5 * width, -0.5 * width)
    # The record may lack the curvature of others where everybody knows the batches, and so its steps.
    flat = isinstance(run.order, KnownUses) and _curvature(run)[0] <= 0.0
    for name, record, other, rest in _pulls(run):
        pulled = Instance(run, name, record, other, rest, flat=flat)
        for start in starts:
            for curvature in _curvatures(run):
                if math.isinf(width) or len(curvature) == 1:
                    yield replace(pulled, curvature=curvature, start=start)


def _refuse_unknown(run: NoisySGD) -> None:
    """Raises NotApplicable for runs of which no instance is a walk on a line."""
    kind, walled = run.loss.kind, math.isfinite(line_of(run).width)
    summed = not run.rule.plain or run.release != "last"
    reasons = {
        "for an update whose steps are not linear in the gradients": not isinstance(
            run.rule, SGD | Momentum
        ),
        "for momentum, or of a path, under a proximal map": summed
        and (run.prox is not None or walled),
        "for momentum, or of a path, where no loss is linear": summed and _curvature(run)[0] > 0.0,
        f"of the {kind} loss on a bounded domain, where it need not saturate": walled
        and kind not in (*_LINEAR, *_FAR_TARGETS),
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
    if math.isfinite(line_of(run).width) and isinstance(run.order, KnownUses):
        yield "at a wall", bound, other, bound


def _bound(run: NoisySGD) -> float:
    """The longest gradient of a record, or half of what the change of one may be."""
    return run.sensitivity / (2.0 if run.order.displaces else changed(run.adjacency))


def _curvature(run: NoisySGD) -> tuple[float, float]:
    """The ends of what the losses of an instance may have: flat ones where they are not quadratics."""
    loss = run.loss
    if loss.kind not in _CLASSES or loss.curvature is None:
        return 0.0, 0.0
    low, high = loss.curvature
    if loss.kind == "dissipative":
        # Quadratics whose curvature is the rate; where steps go no further than the offset allows, any.
        rate, offset = (float(dict(loss.parameters)[name]) for name in ("rate", "offset"))
        low = low if rate * line_of(run).width ** 2 <= offset else rate
    return (low if _is_unbounded(run) else min(low, 0.0)), high


def _is_unbounded(run: NoisySGD) -> bool:
    """Whether a record's gradient may be of any size. Where it is cut off, far out, any loss is linear."""
    return run.clip_norm is None and run.loss.gradient_bound is None


def _kind(run: NoisySGD) -> LossClass:
    """What the losses may be of an instance that is pulled along: linear where curvatures do not say all."""
    loss, bound = run.loss, _bound(run)
    # Where a kink is, targets say. Margins have none: an intercept far out says, which a regulariser moves.
    still = loss.kind in _FAR_TARGETS or loss.l2 == 0.0
    if loss.kind in _SLANTED and loss.curvature is not None and still:
        high, top = loss.curvature[1], 0.0 if loss.kind == "smoothed_hinge" else bound
        return LossClass(
            low=0.0,
            high=high,
            bound=bound,
            change=run.sensitivity,
            flat=True,
            width=(bound + top) / high,
            top=top,
        )
    low, high = _curvature(run)
    if low > 0.0:
        return LossClass(low=low, high=high, bound=math.inf, change=run.sensitivity, flat=False)
    return LossClass(low=low, high=high, bound=bound, change=run.sensitivity, flat=True)


def _curvatures(run: NoisySGD) -> Iterator[tuple[float, ...]]:
    """What the other records may have beside their pulls: in every batch alike, or where everybody knows the
    batches, the most in some batches before that of the record, the last, and the least in some after it.

    They forget noise before the record comes, and keep or enlarge what it adds afterwards.
    """
    low, high = _curvature(run)
    yield from dict.fromkeys((h,) for h in (0.0, low, high) if low <= h <= high)
    if isinstance(run.order, KnownUses) and low < high:
        period = run.order.period
        place = (run.data_steps - 1) % period
        for count in _counts(period, 8):
            for least in _counts(period - count, 4) if low < 0.0 else [0]:
                table = [max(low, 0.0)] * period
                for j in range(least):
                    table[(place + 1 + j) % period] = low
                for j in range(count):
                    table[(place - 1 - j) % period] = high
                yield tuple(table)


def _counts(period: int, most: int) -> list[int]:
    """Numbers of batches of a period, but for one: 0, and some up to all, at most so many."""
    if period <= 1:
        return [0]
    return sorted({0} | {round(r) for r in np.geomspace(1, period - 1, most)})


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
    if not instance.flat:
        return _is_unbounded(run) and run.adjacency == "replace_one"
    farthest = min(instance.reach, 0.5 * instance.line.width)
    return _is_unbounded(run) or abs(instance.rest) + most * farthest <= _bound(run)


# Instances whose other records are bent: at rest together at 0, with a gradient that is not linear there.
#
# The iterate stays about 0, so that every step has the same gradient of theirs, and its law is followed step
# by step. Logistic losses bend where half of the records of a batch have either label: there their curvature
# is ¼ of the squared feature norm, and their pulls cancel.


_FAR = 9.0  # standard deviations that a law is followed for
_FEW = 16  # numbers of batches that are tried
_SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1)  # of a batch that bend


@dataclass(frozen=True)
class Margins:
    """The mean gradient of two records of rows ±norm, one of either label, whose margins are about 0."""

    norm: float

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
