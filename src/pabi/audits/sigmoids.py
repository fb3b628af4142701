"""Instances of losses whose gradients are sigmoids, in an order that everybody knows.

A regulariser brings an iterate in from as far out as it started. So every step finds it far from where it was
in all others, and the losses of the batch may have their sigmoid there, or be saturated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pabi.audits.drifts import batch_sizes, data_steps, last_place
from pabi.audits.laws import LawPair
from pabi.audits.walks import Step, WalledWalk, pair_between_walls
from pabi.describe.orders import KnownUses
from pabi.describe.runs import NoisySGD
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown

_WIDTH = 9.5  # standard deviations on either side that the law is followed for
_MOST = 12  # steps that are curved
_KEPT = 3  # of the numbers of steps that seem best


@dataclass(frozen=True)
class Sigmoid:
    """Gradients −size·σ(−rate·x): of norm up to `size`, and of curvature up to size·rate/4."""

    size: float
    rate: float


def sigmoid_of(run: NoisySGD) -> Sigmoid | None:
    """That of the loss of a run along the line where it is steepest; None for other losses."""
    if run.clip_norm is not None:
        return None
    parameters = dict(run.loss.parameters)
    norm = float(parameters.get("feature_norm", 0.0))
    if run.loss.kind == "logistic":
        return Sigmoid(norm, norm)
    if run.loss.kind == "softmax" and "residual_cap" not in parameters:
        return Sigmoid(
            math.sqrt(2.0) * norm, math.sqrt(2.0) * norm
        )  # two classes against each other
    if run.loss.kind == "one_vs_rest" and "smoothing" not in parameters:
        root = math.sqrt(parameters["classes"])
        return Sigmoid(root * norm, norm / root)  # all classes alike
    return None


@dataclass(frozen=True)
class SigmoidDrift:
    """One record with a gradient of either size, and others that are curved in the steps before its last one.

    `record`, `other`: its gradients on the two data sets. `curved`: how many steps.
    """

    run: NoisySGD
    sigmoid: Sigmoid
    record: float
    other: float
    curved: int

    @property
    def sentence(self) -> str:
        """The instance in a few words."""
        pulls = f"a gradient of {shown(self.record, 3)} or {shown(self.other, 3)}"
        return (
            f"one record with {pulls}, others coming in from far out, curved in {self.curved} steps"
        )

    @property
    def _first(self) -> int:
        """The first step that is curved."""
        return data_steps(self.run) - 1 - self.curved

    def moves(self, gradient: float) -> Array:
        """(t,) what the record adds."""
        eta, _ = self.run.schedule(0, self.run.steps)
        steps, data = np.arange(self.run.steps), data_steps(self.run)
        own = steps % self.run.batches.per_epoch(self.run.n) == last_place(self.run)
        return np.where(own & (steps < data), -eta * gradient / self.run.batch_size, 0.0)

    def lead(self, gradient: float) -> tuple[float, float]:
        """(mean, standard deviation) of how far the iterate is from its way before the first curved step."""
        eta, noise = self.run.schedule(0, self._first)
        later = np.append(np.cumprod((1.0 - eta * self.run.loss.l2)[:0:-1])[::-1], 1.0)[: len(eta)]
        mean = float(later @ self.moves(gradient)[: self._first])
        return mean, math.sqrt(float(np.square(later) @ np.square(eta * noise)))

    def steps(self, gradient: float) -> list[Step]:
        """All that happens, the steps before the curved ones taken together."""
        run, moves = self.run, self.moves(gradient)
        eta, noise = run.schedule(0, run.steps)
        mean, std = self.lead(gradient)
        taken = [Step(0.0, mean, std)] if self._first > 0 else []
        centre = 0.5 * (self.lead(self.record)[0] + self.lead(self.other)[0])
        fractions = batch_sizes(run) / run.batch_size
        for k in range(self._first, run.steps):
            slope, depth = 1.0 - eta[k] * run.loss.l2, 0.0
            if k < data_steps(run) - 1:
                depth = 0.5 * eta[k] * fractions[k] * self.sigmoid.size
            step = Step(
                float(slope),
                float(moves[k]),
                float(eta[k] * noise[k]),
                float(depth),
                0.5 * self.sigmoid.rate,
                centre if depth else 0.0,
            )
            taken.append(step)
            centre = float(step.means(np.array([centre]))[0])
        return taken

    @property
    def width(self) -> float:
        """Of an interval about the way that nothing leaves."""
        far = std = 0.0
        for one, other in zip(self.steps(self.record), self.steps(self.other), strict=True):
            far = max(
                abs(float(s.means(np.array([x]))[0])) for s in (one, other) for x in (-far, far)
            )
            std = math.hypot(one.slope * std, one.std)
        spread = max(std, self.lead(self.record)[1])
        reach = max(far, *(abs(self.lead(g)[0]) for g in (self.record, self.other)))
        return 2.0 * (reach + _WIDTH * spread)

    def pair(self) -> LawPair:
        """The laws of how far what is released is from the way without noise.

        Raises NotApplicable where the law is too wide to be followed.
        """
        walks = []
        for gradient in (self.record, self.other):
            steps = self.steps(gradient)
            walks.append(WalledWalk(steps, steps, np.zeros((len(steps), 1)), np.ones(1)))
        return pair_between_walls(self.width, walks[0], walks[1])

    def trained(self, gradient: float, trainings: int, generator: np.random.Generator) -> Array:
        """(trainings,) how far releases are from the way, in the limit of a start far out."""
        x = np.zeros(trainings)
        for step in self.steps(gradient):
            x = step.means(x) + step.std * generator.standard_normal(trainings)
        return x


def sigmoid_drifts(run: NoisySGD, pulls: tuple[float, float]) -> Iterator[SigmoidDrift]:
    """Those of a run with a record of two gradients: with the numbers of curved steps that seem best."""
    sigmoid, period = sigmoid_of(run), run.batches.per_epoch(run.n)
    if sigmoid is None or not isinstance(run.order, KnownUses) or run.loss.l2 <= 0.0 or period < 2:
        return
    eta, _ = run.schedule(0, run.steps)
    steepest = run.loss.l2 + 0.25 * sigmoid.size * sigmoid.rate
    if float(np.max(eta)) * steepest > 1.0:
        return  # such a step turns the line around, so that its ends say little of what is between
    most = min(period - 1, data_steps(run) - 1, _MOST)
    tried = [SigmoidDrift(run, sigmoid, *pulls, curved) for curved in range(1, most + 1)]
    yield from sorted(tried, key=_seems, reverse=True)[:_KEPT]


def _seems(drift: SigmoidDrift) -> float:
    """About the μ of the instance, were the sigmoids straight."""
    apart, variance = 0.0, 0.0
    for one, other in zip(drift.steps(drift.record), drift.steps(drift.other), strict=True):
        slope = one.slope - one.depth * one.rate
        apart = slope * apart + one.shift - other.shift
        variance = slope**2 * variance + one.std**2
    return abs(apart) / math.sqrt(variance)
