"""Settings chosen without a look at the data: as long a path as noise allows.

Where nothing contracts, the noise in released weights is about S·C/(n·μ) in every coordinate, twice that
under "replace_one": S the sum of all step sizes, C the bound of a record's gradient, μ the budget. It hardly
depends on batches and epochs (docs, "How the defaults are chosen"). What is learnt grows with S as well. So
the rule takes the path on which noise moves the predictor of a row of norm R by a stated part of what
predictors are. All it knows are n, ε, δ, the adjacency, and bounds of rows, gradients and curvature.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from pabi.account.calibration import calibrate
from pabi.describe.batches import Batches, FullBatch, ShuffleOnce
from pabi.describe.neighbours import Adjacency, changed
from pabi.describe.second_moments import NoisySecondMoments

# The part of predictors that noise may be, where there is one, and where those of K classes are compared.
# Set on the problems for setting of benchmarks/proving_ground, as everything here was.
PART_OF_ONE, PART_OF_CLASSES = 0.2, 0.4
# The same where step sizes fall: noise is then damped in more directions than it is left in (docs, the same).
PART_WHERE_FALLING = 0.4
# Regression is done once S is so many times 1/M for every column: with features alike in all directions the
# curvature of a column is about M over their number. Classes want ever larger predictors.
ENOUGH = 30.0
EPOCHS = 20.0
COOLDOWN, COOLDOWN_OF_FALLING = 0.5, 1.0  # epochs
STEEP, STEEPEST = 1.0, 1.9  # step size times curvature: what is aimed at; beyond 2 steps expand
PIECES = 40  # of step sizes that fall: constant on each, which leaves little to account for
LONGEST_FALL = 1_000_000  # steps; whoever states more of them gets constant step sizes
FEWEST_STEPS = 80  # losses are not quadratic: a few large steps do worse
MOST_STEPS = 20_000  # a step costs time however small its batch is
SMALLEST = 16  # records of a batch


@dataclass(frozen=True)
class Task:
    """The public facts that the rule chooses by.

    `gradient`: C, the bound of one record's gradient, and `curvature`: M, of its loss, both as clipped.
    `feature_norm`: R as the model sees it. `drift`: by how much noise may move the predictor of such a row.
    `left`: the share of the budget's μ² that is left for training. `longest`: the path beyond which there is
    nothing to learn. `falling`: whether step sizes fall to 0 in a straight line, twice as steep at first.
    """

    n: int
    gradient: float
    curvature: float
    feature_norm: float
    drift: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    left: float = 1.0
    longest: float = math.inf
    falling: bool = False

    @property
    def steepest(self) -> float:
        """The largest mean step size with which no step expands."""
        return STEEPEST / self.curvature / (2.0 if self.falling else 1.0)

    @property
    def path(self) -> float:
        """S, the sum of step sizes at which noise moves a predictor by `drift`, at most `longest`."""
        mu = budget(self.epsilon, self.delta) * math.sqrt(self.left)
        moved = changed(self.adjacency) * self.gradient * self.feature_norm
        return min(self.drift * self.n * mu / moved, self.longest)


@dataclass(frozen=True)
class Fixed:
    """The settings that the user has decided; None leaves one to the rule."""

    batches: Batches | None = None
    epochs: float | None = None
    step_size: float | None = None
    cooldown_epochs: float | None = None


@dataclass(frozen=True)
class Schedule:
    """The schedule that the rule chooses."""

    batches: Batches
    epochs: float
    step_size: float | Falling
    cooldown_steps: int


@dataclass(frozen=True)
class Falling:
    """k ↦ η_k: step sizes of this mean that fall to 0 in a straight line over so many steps, in 40 pieces."""

    mean: float
    steps: int

    def __call__(self, k: int) -> float:
        piece = min(k * PIECES // self.steps, PIECES - 1)
        return self.mean * (2 * (PIECES - piece) - 1) / PIECES


def settings(task: Task, fixed: Fixed = Fixed()) -> Schedule:
    """The schedule that respects `fixed`: step sizes near 1/M, and batches of the size that this leaves."""
    n, epochs = task.n, EPOCHS if fixed.epochs is None else fixed.epochs
    batches = fixed.batches or _batches(task, epochs, fixed.step_size)
    per_epoch = -(-n // batches.batch_size(n))
    waiting = fixed.cooldown_epochs
    if waiting is None:  # with one batch every record is in every step: waiting helps nobody
        waiting = 0.0
        if per_epoch > 1:
            waiting = COOLDOWN_OF_FALLING if task.falling else COOLDOWN
    steps, cooldown = math.ceil(epochs * per_epoch), math.ceil(waiting * per_epoch)
    if fixed.step_size is not None:
        return Schedule(batches, epochs, fixed.step_size, cooldown)
    step = min(task.path / steps, task.steepest)
    falling = task.falling and steps + cooldown <= LONGEST_FALL
    sizes = Falling(step, steps + cooldown) if falling else step
    return Schedule(batches, epochs, sizes, cooldown)


def _batches(task: Task, epochs: float, step_size: float | None) -> Batches:
    """One secret shuffle, into batches that make for the right number of steps."""
    aimed = min(STEEP / task.curvature, task.steepest) if step_size is None else step_size
    steps = min(max(task.path / aimed, FEWEST_STEPS), MOST_STEPS)
    size = min(max(math.ceil(epochs * task.n / steps), SMALLEST), task.n)
    return FullBatch() if size == task.n else ShuffleOnce(size)


@functools.lru_cache(maxsize=256)
def budget(epsilon: float, delta: float) -> float:
    """The μ of a Gaussian release that costs ε at δ."""
    release = calibrate(NoisySecondMoments(1, 1, 1.0, adjacency="zero_out"), epsilon, delta)
    return 1.0 / release.moment_noise_std
