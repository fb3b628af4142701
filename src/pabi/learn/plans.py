"""What an estimator would do with a table of some size, and with what settings, before any data."""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pabi.account.calibration import calibrate
from pabi.describe.accounted import Adjacency, Unit, changed, checked_adjacency
from pabi.describe.batches import Batches, FullBatch, ShuffleOnce
from pabi.describe.runs import NoisySGD
from pabi.describe.statistics import NoisySecondMoments
from pabi.execute.hiding import Terms
from pabi.execute.large_records import RowMap
from pabi.execute.records import Records
from pabi.execute.statistics import ReleasedMoments, noisy_moments
from pabi.execute.sums import UserRows
from pabi.guarantees.guarantee import Guarantee, compose
from pabi.numbers.errors import PrivacyWarning
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, plain, shown

# The map that makes features alike in all directions, from noisy second moments.
#
# Noise and step size are the same in all directions, so that features are dear whose second moments
# differ by orders of magnitude. Second moments Σ̃ are released once, with noise; the map is (Σ̃₊ +
# λI)^(−1/2), Σ̃₊ the part of Σ̃ above 0 and λ the size of the noise's own eigenvalues. It sees the
# release and public numbers only, so that it costs nothing more (docs, "Private preconditioning").


SHARE = 0.1  # of the budget's μ², by default: about a third of μ
WIDEST = 4096  # columns of a matrix of second moments; of wider data only the diagonal is released
TOO_NOISY = (
    "epsilon is too small for preconditioning so many columns of so few rows: the model is trained without, "
    "and nothing is spent on it; give precondition=None, or a larger share of the budget"
)
_FLAT = 0.5  # noise over the largest second moment there can be: from it on nothing is seen
_FINEST = 2.0**-40  # of the largest second moment: rows are mapped in single precision
_TYPICAL = 2.0  # R² over the mean square of norms, where rows are not scaled to one norm


def planned(
    n: int,
    width: int,
    *,
    norm: float,
    epsilon: float,
    delta: float,
    adjacency: str,
    share: float = 1.0,
    noise_std: float | None = None,
    unit: Unit = "record",
) -> NoisySecondMoments:
    """The release of second moments that costs a share of the budget's μ², or has this noise.

    `n`, `width`: of the table as the model sees it. `norm`: the largest of a row's.
    """
    blank = NoisySecondMoments(
        n,
        width,
        norm,
        adjacency=checked_adjacency(adjacency),
        diagonal=width > WIDEST,
        unit=unit,
    )
    if noise_std is not None:
        return replace(blank, noise_std=noise_std)
    whole = calibrate(blank, epsilon, delta)
    return (
        whole
        if share == 1.0
        else replace(whole, noise_std=whole.moment_noise_std / math.sqrt(share))
    )


def noise_level(moments: NoisySecondMoments) -> float:
    """About the largest eigenvalue, or entry of the diagonal, of the noise on Σ x·xᵀ/n, over R²."""
    return moments.moment_noise_std / moments.feature_norm**2 * _spread(moments) / moments.n


def _spread(moments: NoisySecondMoments) -> float:
    """The same of noise of standard deviation 1 on the sum itself."""
    d = moments.dimension
    return math.sqrt(2.0 * math.log(2.0 * d)) if moments.diagonal else math.sqrt(2.0 * d)


def resolves(moments: NoisySecondMoments) -> bool:
    """Whether the noise leaves anything to be seen: no second moment is above R²."""
    return noise_level(moments) < _FLAT


def resolving(moments: NoisySecondMoments) -> float:
    """The standard deviation of noise below which `resolves` says yes of such moments."""
    return _FLAT * moments.n * moments.feature_norm**2 / _spread(moments)


def released_moments(
    terms: Terms, moments: NoisySecondMoments, records: Records, groups: UserRows | None = None
) -> ReleasedMoments:
    """The release itself; what draws after it from the same `random_state` has other noise.

    Whoever trains afterwards warns of a state that is not secret, once for both.
    """
    if isinstance(terms.random_state, int | np.integer):
        terms = replace(terms, random_state=np.random.default_rng([1, int(terms.random_state)]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return noisy_moments(terms, moments, records, groups)


def together(*guarantees: Guarantee) -> Guarantee:
    """What the releases cost in all."""
    return guarantees[0] if len(guarantees) == 1 else compose(*guarantees)


def whitening(values: Array, moments: NoisySecondMoments, *, norm: float, equal: bool) -> RowMap:
    """The map from the released `values`, to rows of norm `norm`, all of them (`equal`) or at most.

    Where rows keep their proportions, it is scaled such that the mean square of their norms is about half of
    `norm`², so that few are longer than that.
    """
    mean = values / (moments.n * moments.feature_norm**2)
    noise = max(noise_level(moments), _FINEST)
    if moments.diagonal:
        square = np.maximum(mean, 0.0)
        matrix = 1.0 / np.sqrt(square + noise)
    else:
        eigenvalues, vectors = np.linalg.eigh(mean)
        square = np.maximum(eigenvalues, 0.0)
        matrix = (vectors / np.sqrt(square + noise)) @ vectors.T
    if not equal:
        mapped = float(np.sum(square / (square + noise)))  # mean square of norms
        matrix = matrix / math.sqrt(_TYPICAL * max(mapped, 1.0))
    return RowMap(matrix, moments.feature_norm, norm, equal)


@dataclass(frozen=True)
class Size:
    """The public numbers of a table as the model sees it.

    `n`: records, or users. `width`: columns, the constant included. `outputs`: predictors. `norm`: the
    longest row's. `unit`: "record" or "user".
    """

    n: int
    width: int
    outputs: int
    norm: float
    unit: Unit = "record"


@dataclass(frozen=True)
class TrainingPlan:
    """What `fit` would do with a table of this size, and what the rule expects of it.

    All of it follows from public numbers. An estimator's method `plan` makes one; `fit` executes the same.

    Attributes
    ----------
    run : NoisySGD
        The training, noise included.
    moments : NoisySecondMoments or None
        The release for preconditioning before it, None where there is none.
    delta : float
        δ of the target.
    size : Size
        Records, columns, predictors and the norm of rows.
    signal : float, > 0
        The size that the rule takes predictors to have, in `unit`.
    unit : str
        "logits", "margins", "probabilities", "units of y" or "logarithms of rates".
    scale : float, > 0
        One unit of the predictor that is trained, in `unit`.
    costs : tuple of Guarantee
        What the releases cost, one by one in their order.

    References
    ----------
    docs, "How the defaults are chosen".
    """

    run: NoisySGD
    moments: NoisySecondMoments | None
    delta: float
    size: Size
    signal: float
    unit: str
    scale: float
    costs: tuple[Guarantee, ...]

    @cached_property
    def guarantee(self) -> Guarantee:
        """What both releases cost together; `fit` adds what it assumes of the data."""
        return together(*self.costs)

    @property
    def noise(self) -> float:
        """By how much noise moves the predictor of a row of the largest norm, in `unit`: at most.

        It is a standard deviation before the loss's curvature damps it, which it does the more the longer
        the path is.
        """
        steps = np.broadcast_to(np.asarray(self.run.step_size, dtype=np.float64), self.run.steps)
        noise = np.broadcast_to(np.asarray(self.run.gradient_noise_std), self.run.steps)
        return float(np.linalg.norm(steps * noise)) * self.size.norm * self.scale

    def __str__(self) -> str:
        run, moments, size = self.run, self.moments, self.size
        steps = np.atleast_1d(run.step_size)
        rows = (
            (
                "table",
                f"{size.n} {size.unit}s, {size.width} columns, rows of norm {plain(size.norm)}",
            ),
            (
                "privacy",
                f"ε = {shown(self.guarantee.epsilon(self.delta))}, δ = {exact(self.delta)}",
            ),
            ("preconditioning", "none" if moments is None else _spent(moments, self.delta)),
            ("batches", f"{run.batches!r}, {run.steps} steps, {run.cooldown_steps} to cool down"),
            ("step sizes", " to ".join(plain(step) for step in dict.fromkeys(steps[[0, -1]]))),
            ("gradients", f"{_bounded(run)}, noise {plain(run.gradient_noise_std)} on their mean"),
            ("regulariser", f"{exact(run.loss.l2)}·‖θ‖²/2" if run.loss.l2 else ""),
            ("expected", f"predictors of about {plain(self.signal)} {self.unit}"),
            ("", f"moved by noise of at most {shown(self.noise)}"),
        )
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows if value)


def _spent(moments: NoisySecondMoments, delta: float) -> str:
    what = "the diagonal of second moments" if moments.diagonal else "second moments"
    return f"{what}, by itself ε = {shown(moments.guarantee(delta).epsilon(delta))}"


def _bounded(run: NoisySGD) -> str:
    if run.clip_norm is None:
        return f"bounded by {shown(run.loss.gradient_bound or math.inf)}"
    return f"clipped to {shown(run.clip_norm)} ({run.clipping})"


# Settings chosen without a look at the data: as long a path as noise allows.
#
# Where nothing contracts, the noise in released weights is about S·C/(n·μ) in every coordinate, twice
# that under "replace_one": S the sum of all step sizes, C the bound of a record's gradient, μ the budget.
# It hardly depends on batches and epochs (docs, "How the defaults are chosen"). What is learnt grows with
# S as well. So the rule takes the path on which noise moves the predictor of a row of norm R by a stated
# part of what predictors are. All it knows are n, ε, δ, the adjacency, and bounds of rows, gradients and
# curvature.


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
