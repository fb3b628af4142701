"""The worst instances that are known for a description, sums among them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pabi.audits.bends import bent
from pabi.audits.drifts import Drift, LossClass, drifts
from pabi.audits.instance import Instance, by_place, line_of
from pabi.audits.laws import LawPair, pair_of_sums
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
        if self.run.release == "path":
            return np.asarray(self._shown * (self._moved / np.square(self.stds)))
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

    @property
    def _shown(self) -> Array:
        """(t,) 1 in the steps that may have the record, 0 elsewhere."""
        if not self.public:
            return np.ones(self.run.steps)
        return np.asarray(self.steps_in(self.place), dtype=float)

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
    within: list[Known] = [
        one for one in (_sums(run) if summed else _walks(run)) if _is_within(one)
    ]
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
    if not isinstance(instance, Instance) or not _meets_walls(instance):
        return []
    half = 0.5 * instance.line.width
    starts = (sign * share * half for share in _STARTS for sign in (1.0, -1.0))
    moved = [replace(instance, start=start) for start in starts]
    curved = [replace(instance, curvature=table) for table in _curvatures(instance.run)]
    return [one for one in moved + curved if one != instance and _is_within(one)]


def _walks(run: NoisySGD) -> Iterator[Instance]:
    """All curvatures without walls; with walls alike ones, which `nearby` begins with."""
    width = line_of(run).width
    starts = (0.0,) if math.isinf(width) else (0.0, 0.5 * width, -0.5 * width)
    for name, record, other, rest in _pulls(run):
        pulled = Instance(run, name, record, other, rest, flat=_is_flat(run))
        for start in starts:
            for curvature in _curvatures(run):
                if math.isinf(width) or len(curvature) == 1:
                    yield replace(pulled, curvature=curvature, start=start)


def _meets_walls(instance: Instance) -> bool:
    return instance.reach >= 0.5 * instance.line.width


def _sums(run: NoisySGD) -> Iterator[Instance]:
    for name, record, other, rest in _pulls(run):
        yield SumInstance(run, name, record, other, rest)


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


def _is_flat(run: NoisySGD) -> bool:
    """Whether the record may be without curvature while others have some: where everybody knows the batches
    its steps are known as well, and not otherwise."""
    return isinstance(run.order, KnownUses) and _curvature(run)[0] <= 0.0


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
