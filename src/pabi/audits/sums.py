"""Instances whose release is a sum: of updates with momentum, and of runs that release their path.

All losses are linear, so that what is released is linear in what every step adds. Of a path that is a sum of
its steps, each with the weight that it deserves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pabi.audits.instance import Instance
from pabi.audits.laws import LawPair, pair_of_sums
from pabi.audits.places import by_place
from pabi.describe.orders import KnownUses
from pabi.describe.updates import Momentum
from pabi.numbers.rounding import Array


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
        return _of_momentum(rule, self.run.loss.l2, *self.run.schedule(0, self.run.steps))

    @property
    def place(self) -> int:
        """The batch of the record where everybody knows who is in which: of a path, the one that shows the
        most in all its steps."""
        if self.run.release != "path":
            return super().place
        costs = by_place(np.square(self._moved / self.stds)[: self._data], self._period)
        return int(np.argmax(costs.sum(axis=0)))

    @property
    def _moved(self) -> Array:
        return np.abs(self.moves(self.record) - self.moves(self.other))

    @property
    def _shown(self) -> Array:
        """(t,) 1 in the steps that may have the record, 0 elsewhere."""
        if not isinstance(self.run.order, KnownUses):
            return np.ones(self.run.steps)
        return np.asarray(np.arange(self.run.steps) % self._period == self.place, dtype=float)

    def pair(self) -> LawPair:
        """The laws of the sum, but for what the other records add."""
        later = self.later
        std = math.sqrt(float(np.square(later) @ np.square(self.stds)))
        one, other = (self.choices(later * self.moves(g)) for g in (self.record, self.other))
        return pair_of_sums(one, other, std)

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) sums, all trained side by side, step by step.

        `gradient`: of the record.
        """
        inside, moves, stds = self.membership(trainings, generator), self.moves(gradient), self.stds
        eta, _ = self.run.schedule(0, self.run.steps)
        later, total = self.later, np.zeros(trainings)
        x, state = np.zeros(trainings), self.run.rule.start(np.zeros(trainings))
        for k in range(self.run.steps):
            added = moves[k] * inside.at(k) + stds[k] * generator.standard_normal(trainings)
            total += later[k] * added
            if self.run.release != "path":
                direction = self.run.loss.l2 * x - added / eta[k]
                x, state = self.run.rule.step(x, direction, float(eta[k]), state, k)
        return total if self.run.release == "path" else x


def _of_momentum(rule: Momentum, l2: float, eta: Array, _: Array) -> Array:
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
