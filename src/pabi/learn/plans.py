"""What an estimator would do with a table of some size, and what its docstrings and guarantees say."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from pabi.account.calibration import calibrate
from pabi.account.targets import Target, gaussian_of
from pabi.describe.accounted import Adjacency, Unit, changed, checked_adjacency
from pabi.describe.batches import Batches, FullBatch, ShuffleOnce
from pabi.describe.runs import NoisySGD
from pabi.describe.statistics import NoisyColumnStatistics, NoisySecondMoments
from pabi.execute.hiding import Terms
from pabi.execute.large_records import RowMap
from pabi.execute.records import Records
from pabi.execute.statistics import ReleasedMoments, noisy_moments
from pabi.execute.sums import UserRows
from pabi.numbers.errors import PrivacyWarning
from pabi.numbers.rounding import Array
from pabi.numbers.showing import aligned, exact, plain, shown
from pabi.numbers.validate import answering
from pabi.tradeoff.guarantee import Guarantee, compose

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
_FEW = 3.0  # records that say too little of a direction to make it as long as others
_FINEST = 2.0**-40  # of the largest second moment: rows are mapped in single precision
_TOGETHER = 1e-9  # of the largest eigenvalue: eigenvalues that are one
TYPICAL = 2.0  # R² over the mean square of norms, where rows are not scaled to one norm


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
    """The release of second moments that costs a share of the budget's μ², or has this noise."""
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


def fine_enough(moments: NoisySecondMoments) -> NoisySecondMoments:
    """The same with more noise, where it is less than the second moments of a few records."""
    finer = _FEW / moments.n / noise_level(moments)
    return replace(moments, noise_std=moments.moment_noise_std * max(finer, 1.0))


def released_moments(
    terms: Terms, moments: NoisySecondMoments, records: Records, groups: UserRows | None = None
) -> ReleasedMoments:
    """The release itself."""
    with before_training(terms, 1) as own:
        return noisy_moments(own, moments, records, groups)


@contextmanager
def before_training(terms: Terms, place: int) -> Iterator[Terms]:
    """Terms with which what draws after it from the same `random_state` has other noise.

    Whoever trains afterwards warns of a state that is not secret, once for all releases.
    """
    if isinstance(terms.random_state, int | np.integer):
        seed = [place, int(terms.random_state)]
        terms = replace(terms, random_state=np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        yield terms


def together(*guarantees: Guarantee) -> Guarantee:
    """What the releases cost in all."""
    return guarantees[0] if len(guarantees) == 1 else compose(*guarantees)


def floor_of(moments: NoisySecondMoments) -> float:
    """λ, which is added to second moments over R² before they are inverted."""
    return max(noise_level(moments), _FINEST)


def whitening(
    values: Array, moments: NoisySecondMoments, *, norm: float, equal: bool, unbiased: bool = False
) -> RowMap:
    """The map from the released `values`, to rows of norm `norm`, all of them (`equal`) or at most.

    Where rows keep their proportions, it is scaled such that the mean square of their norms is about half of
    `norm`², so that few are longer than that. `unbiased`: about half in the mean over the noise; otherwise
    noise makes rows look longer than they are, and they become shorter.
    """
    mean = values / (moments.n * moments.feature_norm**2)
    noise, unit = floor_of(moments), moments.feature_norm
    if moments.diagonal:
        eigenvalues, square = mean, np.maximum(mean, 0.0)
        matrix = 1.0 / np.sqrt(square + noise)
    else:
        eigenvalues, vectors = np.linalg.eigh(mean)
        square = np.maximum(eigenvalues, 0.0)
        matrix = (vectors / np.sqrt(square + noise)) @ vectors.T
    if not equal and unbiased:
        unit *= math.sqrt(TYPICAL * max(_mean_square(eigenvalues, moments), 1.0))
    elif not equal:
        mapped = float(np.sum(square / (square + noise)))  # mean square of norms
        matrix = matrix / math.sqrt(TYPICAL * max(mapped, 1.0))
    return RowMap(matrix, unit, norm, equal)


def _mean_square(eigenvalues: Array, moments: NoisySecondMoments) -> float:
    """The mean of ‖P·x/U‖² over the rows, of which noise in the moments makes no more in the mean.

    tr(P²·Σ̃) would be too large, since P follows the noise. By Stein's identity that is σ² times the
    divergence of Σ̃ ↦ P² (for a symmetric matrix one of derivatives and difference quotients of its
    eigenvalues), which the eigenvalues tell.
    """
    inverse = 1.0 / (np.maximum(eigenvalues, 0.0) + floor_of(moments))
    slopes = np.where(eigenvalues > 0.0, -np.square(inverse), 0.0)
    divergence = float(np.sum(slopes))
    for i in range(0 if moments.diagonal else len(eigenvalues) - 1):
        gaps = eigenvalues[i + 1 :] - eigenvalues[i]  # ascending
        apart = gaps > _TOGETHER * abs(eigenvalues[-1])
        quotients = (inverse[i + 1 :] - inverse[i]) / np.where(apart, gaps, 1.0)
        divergence += float(np.sum(np.where(apart, quotients, slopes[i])))
    noise = moments.moment_noise_std / (moments.n * moments.feature_norm**2)
    return float(inverse @ eigenvalues) - noise**2 * divergence


def square_of_scale(row_map: RowMap, moments: NoisySecondMoments) -> float:
    """c², where P = c·(Σ̃₊ + λI)^(−1/2)."""
    if row_map.equal or row_map.unit != moments.feature_norm:
        return 1.0
    width, total = len(row_map.matrix), float(np.sum(np.square(row_map.matrix)))
    # The mean square of norms is m = w − λ·tr(P²)/c², and 1/c² is 2m, or 2 where m is below 1.
    return 1.0 / (TYPICAL * max(width / (1.0 + TYPICAL * floor_of(moments) * total), 1.0))


@dataclass(frozen=True)
class Size:
    """The public numbers of a table as the model sees it.

    `n`: records, or users. `width`: columns, the constant included. `outputs`: predictors. `norm`: the
    longest row's. `unit`: "record" or "user". `constant`: whether there is a constant column.
    """

    n: int
    width: int
    outputs: int
    norm: float
    unit: Unit = "record"
    constant: bool = False


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
    linear : bool
        Whether coefficients are all that predicts (`linear_predictor`).
    counts : NoisyColumnStatistics or None
        The release for the range of targets, before all others; None where there is none.

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
    linear: bool = False
    counts: NoisyColumnStatistics | None = None

    @cached_property
    def guarantee(self) -> Guarantee:
        """What all releases cost together; `fit` adds what it assumes of the data."""
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
        columns = f"{size.width - size.constant} features{' and a constant' * size.constant}"
        rows = (
            ("table", f"{size.n} {size.unit}s, {columns}, rows of norm {plain(size.norm)}"),
            (
                "privacy",
                f"ε = {shown(self.guarantee.epsilon(self.delta))}, δ = {exact(self.delta)}",
            ),
            ("target range", "" if self.counts is None else _counted(self.counts, self.delta)),
            ("preconditioning", "none" if moments is None else _spent(moments, self.delta)),
            ("batches", f"{run.batches!r}, {run.steps} steps, {run.cooldown_steps} to cool down"),
            ("step sizes", " to ".join(plain(step) for step in dict.fromkeys(steps[[0, -1]]))),
            ("gradients", f"{_bounded(run)}, noise {plain(run.gradient_noise_std)} on their mean"),
            ("regulariser", f"{exact(run.loss.l2)}·‖θ‖²/2" if run.loss.l2 else ""),
            ("expected", f"predictors of about {plain(self.signal)} {self.unit}"),
            ("", f"moved by noise of at most {shown(self.noise)}"),
        )
        return "\n".join(aligned([row for row in rows if row[1]]))


def _spent(moments: NoisySecondMoments, delta: float) -> str:
    what = "the diagonal of second moments" if moments.diagonal else "second moments"
    return f"{what}, by itself ε = {shown(moments.guarantee(delta).epsilon(delta))}"


def _counted(counts: NoisyColumnStatistics, delta: float) -> str:
    own = shown(counts.guarantee(delta).epsilon(delta))
    return f"{counts.questions} noisy counts, by themselves ε = {own}"


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
# curvature of a column is about M over their number. Where noise lets classifiers go as far as FAR it is no
# longer what limits them: first their gradients are clipped less, then the path grows to FARTHEST, since
# classes want larger predictors and rare ones curve less.
ENOUGH, FAR, FARTHEST = 30.0, 50.0, 100.0
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
    per_epoch = batches.per_epoch(n)
    waiting = fixed.cooldown_epochs
    if waiting is None:  # with one batch every record is in every step: waiting helps nobody
        usual = COOLDOWN_OF_FALLING if task.falling else COOLDOWN
        waiting = usual if per_epoch > 1 else 0.0
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


def budget(epsilon: float, delta: float) -> float:
    """About the μ of a Gaussian release that costs ε at δ."""
    return gaussian_of(Target(epsilon=epsilon, delta=delta), epsilon)


# What the estimators say: docstrings they have in common, sentences of their guarantees, names of others.


# What guarantees of estimators and transformers assume beside what follows from a description.


PREPROCESSING = (
    "preprocessing used no private data, or through releases that are counted here alone"
)
ONE_FIT = "every release is one fit; what other searches and refits cost has to be added"
LABELS = "the label set is public"
WEIGHTS = "class_weight is public"
MOST_WEIGHT = "max_sample_weight is public, and a record's weight depends on that record alone"
ENROLLED = "every enrolled user has a record; their number is public"
AGAIN = "this estimator, or a clone of it, was fitted before: what those fits cost is counted apart"
UNCLEAR = (
    "the step {step!r} treats every row by itself, and keeps their number; it learnt nothing from the same "
    "data: that could not be found out"
)
SELECTED = "the types of columns, by which they are selected, are public"
TYPES = "whether cells are text, or numbers of one precision or another, before the step {step!r} is public"
DENSITY = (
    "whether the output of columns side by side is sparse, which its density decides, is public"
)

# Of files of before.
LEARNT_NOTHING = "the step {step!r} learnt nothing from the same data: that could not be found out"
REPEATED = "this is one fit of several within {holder}: what the others cost has to be added"
LEARNT = "the step {step!r} learnt {learns} from the same data without privacy: what it shows is not covered"
WORKER = "steps before this fit, which a worker did, learnt nothing from the same data: they were not seen"

# What the rest of a program did with the same data, or may have done.
_ELSEWHERE = (AGAIN, REPEATED, LEARNT, LEARNT_NOTHING, UNCLEAR, WORKER)


def not_covered(assumptions: Iterable[str]) -> tuple[str, ...]:
    """Those that tell of other uses of the data, for which the guarantee does not pay, or may not."""
    return tuple(s for s in assumptions if any(_says(pattern, s) for pattern in _ELSEWHERE))


def _says(pattern: str, sentence: str) -> bool:
    """Whether a sentence has the words of a pattern before its first field and after its last."""
    return sentence.startswith(pattern.partition("{")[0]) and sentence.endswith(
        pattern.rpartition("}")[2]
    )


# What other libraries call the arguments of estimators, with what they are called here.


_PLAIN = (
    "estimators take plain steps: train a pabi.NoisySGD with update=pabi.updates.Momentum(…) by "
    "pabi.learn.train, which charges every iterate (composition)"
)
OTHER_KEYWORDS = {
    "momentum": _PLAIN,
    "nesterov": _PLAIN,
    "dampening": _PLAIN,
    "weight_decay": "write l2={}",
    "C": "write l2, which is 1/(C·n) for n records",
    "alpha": "write l2, the λ of λ‖θ‖²/2 on the mean loss",
    "lr": "write step_size={}",
    "learning_rate": "write step_size={}",
    "batch_size": "write batches=pabi.ShuffleOnce({}), or another scheme",
    "max_iter": "write epochs, passes over the data; every pass is charged",
    "data_norm": "write feature_norm={}",
    "max_grad_norm": "write clip_norm={}",
    "target_range": "labels have no range: classes is the public label set",
}

T = TypeVar("T", bound=type)

# By the word that stands for it in a docstring, on a line of its own.
SHARED = {
    "$TARGET": """\
epsilon, delta : float, > 0, delta below 1
    The target. Noise is calibrated to meet it exactly, or is what rounding can be hidden in where that is
    more: `guarantee_` then says a smaller ε. With `noise_std` given, ε is read from
    `guarantee_` instead and `epsilon` only guides the choice of settings. In place of an ε, `epsilon` takes a
    `pabi.Target` of mu, advantage or tpr; `delta` is then where the guarantee is chosen.
feature_norm : float, > 0, in units of the features, or "auto"
    R, public. Rows of X longer than R are scaled down to it, in fitting and in predicting. "auto" is √d for
    d columns with `feature_ranges`, so that no row is too long, and 1 without.""",
    "$KERNEL": """\
n_components : int, ≥ 0, or "auto"
    How many random features stand beside the columns. "auto" follows from n, ε, δ and the adjacency: a tenth
    of n at most, fewer where ε is small, 500 at most, and none where they would be few. `plan` counts them.
length : float or "auto"
    The length scale of the kernel, in units of the mapped columns. "auto" is 0.3·R, R the norm that
    `feature_norm` says.
seed : int
    From which frequencies are drawn, in 0..2³² − 1. Public.""",
    "$TARGET_RANGE": """\
target_range : (low, high), in units of y, "private", or None
    Public bounds of every target. Targets are clipped to them and mapped onto [−1, 1] for training;
    `coef_`, `intercept_` and predictions are in units of y all the same. The loss of `run_`, and
    `noise_std`, are in units of half the range. The guarantee assumes that the range is public.
    "private": nothing is known. 3 % of the budget's μ² find a low and a high quantile of the targets
    (`target_range_`), as `PrivateRanges` does. The loss is in units of .85 times their distance, and the
    bound of residuals stays "auto".""",
    "$SETTINGS": """\
l2 : float, ≥ 0, or "auto"
    λ of the regulariser λ‖θ‖²/2 on the mean loss, intercept included. It is 1/(C·n) in scikit-learn's
    terms. "auto" is 0.
epochs, batches, step_size, cooldown_epochs : number, of `batches` a `Batches`, or "auto"
    The schedule. `step_size` may be a function of the step k, as of `NoisySGD`; the others are then chosen
    for its value at k = 0. "auto" takes as long a path as noise allows, by a rule of `pabi.learn.plans`
    that knows n, ε, δ and the declared bounds. It never looks at the data; `plan` shows what it chooses. Step
    sizes of regressors then fall to 0 in a straight line.
clip_norm : float, > 0, None or "auto"
    C: bounds the norm of each record's gradient. None: only by the loss's own bound. "auto" is half the norm
    of the usual row as the model sees it for `PrivateLogisticRegression`, and None for the other estimators.
clipping : str
    How. "residual": the loss is clipped convexly, by the record's residual, which leaves every proof for
    convex losses as it is. "ball": the same, but for softmax models by the norm of all K residuals: better at
    small ε, and several times the work of a step. "norm": the gradient is scaled down. With one predictor
    that is the same; with a predictor for each class it leaves composition alone, which costs nothing on full
    batches. "auto": "ball" where n·K is at most 200 000, else "residual".
precondition : float in (0, 1), None or "auto"
    The share of the budget's μ² that is spent on second moments of the rows, with which rows are made alike
    in all directions before training (docs, "Private preconditioning"). Both releases are one guarantee.
    None: no such release. "auto" is 0.1 where n, d and ε let the noise leave something to see and no
    `noise_std` is stated, and None otherwise. Of more than 4096 columns the second moments of each column
    alone are released.
linear_predictor : bool or "auto"
    Whether X @ coef_.T + intercept_ is all that predicts: coefficients that one can publish (docs,
    "Coefficients"). Preconditioning then lets rows keep their proportions, and the link of clipped logistic
    losses is folded into the coefficients. False: classifiers scale preconditioned rows to one norm. "auto"
    is True for two classes where n, d and ε let the path be as long as is worth taking (docs, "How the
    defaults are chosen"), and False otherwise; `linear_predictor_` says which.
adjacency : str
    "replace_one" or "zero_out".
noise_std : float, > 0, optional
    ς of the noise on the mean gradient, in place of `epsilon`.
$ROWS
verbose : bool
    Whether to show a progress bar (steps and time).
users : int or (n,) array-like, optional
    The enrolled users, where `fit` gets `groups`: how many there are, or the ids of all of them. Who has no
    row contributes nothing. None: those who have rows, and the guarantee assumes that everybody enrolled has
    one.
max_sample_weight : float, > 0, optional
    The largest weight that a row may have, public, where `fit` gets `sample_weight`. Weights are divided by
    it; a noise that is that of records of this weight hides them all.""",
    "$ROWS": """\
fit_intercept : bool
    Whether to add a feature of constant `intercept_scaling`.
intercept_scaling : float, > 0, in units of the features
    The public constant of that feature. Vectors of norm √(feature_norm² + intercept_scaling²) are then seen.
random_state : None, int or numpy Generator
    None: noise from the operating system's entropy. Anything else makes the fit reproducible, for tests
    only: the noise can then be subtracted, and the guarantee says so.
feature_ranges : (low, high), (2, d) array or dict from columns to (low, high), optional
    Public ranges. Features are clipped to them and mapped onto [−1, 1] before the norm is bounded; give
    `feature_norm` in those units.
ledger : pabi.Ledger, optional
    The budget that every fit is reserved in, before data are read. Where less is left, `fit` raises
    BudgetExceeded. Clones and worker processes share it.
strict : bool
    Whether `fit` raises an error, and does not only warn, where the estimator or a clone of it was fitted
    before. What stands before it in a pipeline `fit` cannot see: `check_pipeline` does.""",
    "$BUDGET": """\
epsilon, delta : float, > 0, delta below 1
    What `fit` may cost. Noise is calibrated to meet it; `guarantee_of` composes the steps of a pipeline, and
    `split_epsilon` shares a budget among them.""",
    "$RELEASE": """\
adjacency : str
    "replace_one" or "zero_out".
random_state : None, int or numpy Generator
    None: noise from the operating system's entropy. Anything else makes the fit reproducible, for tests
    only: the noise can then be subtracted, and the guarantee says so.
ledger : pabi.Ledger, optional
    The budget that every fit is reserved in, once, before anything is computed from the data.
strict : bool
    Whether `fit` raises an error, and does not only warn, where the transformer or a clone of it was fitted
    before. What stands before it in a pipeline `fit` cannot see: `check_pipeline` does.
users : int or (n,) array-like, optional
    The enrolled users, where `fit` gets `groups`, as of the estimators.""",
    "$COLUMN_RANGES": """\
feature_ranges : "auto", (low, high), (2, d) array or dict from columns to (low, high)
    Ranges that are public, to which values are clipped. "auto": they are learnt first.
ranges_share : float in (0, 1)
    The share of μ² that learning the ranges takes, with "auto".""",
    "$COLUMN_RANGES_OF_IMPUTER": """\
feature_ranges : "auto", (low, high), (2, d) array or dict from columns to (low, high)
    Ranges that are public: means are those of values clipped to them, and medians are sought within. "auto":
    for means they are learnt first, and medians are sought anywhere.
ranges_share : float in (0, 1)
    The share of μ² that learning the ranges takes, for means with "auto".""",
    "$RELEASED_COLUMNS": """\
guarantee_ : Guarantee or None
    What the fit costs one record, or one user where it got `groups`; None where nothing was released.
releases_ : tuple of NoisyColumnStatistics
    The releases that were accounted and executed.
n_features_in_ : int
    d, the columns of X.
feature_names_in_ : (d,) array
    Their names, where X has names.""",
    "$CLASSES": """\
classes : array-like, optional
    The public label set. None: the labels seen, and the guarantee assumes that they are public.
class_weight : dict from every class to a number > 0, optional
    Public weights of the losses of a class's records, divided by the largest. Noise is that of records of
    weight 1, so that light classes are learnt the more slowly. Probabilities are those of a world in which
    classes are as frequent as weights make them. "balanced" would count private labels and is refused.""",
    "$COEFFICIENTS_OF_CLASSES": """\
coef_ : (1, d) or (K, d) array
    The weights, in the units of X: one row for two classes, K rows for K > 2 classes.
    With `linear_predictor=True` X @ coef_.T + intercept_ is all that predicts, for every row within
    `feature_ranges` and no longer than `feature_norm`; others count as cut to these bounds. With ranges and
    the default norm no row is too long. With False these are not all of the model: preconditioned rows are
    scaled as well, and clipped losses have a link of their own.
intercept_ : (1,) or (K,) array
    The constant of each row of `coef_`.
coef_std_, intercept_std_ : arrays of their shapes
    How far noise moves them (`summary`).
classes_ : (K,) array
    The labels, ascending.""",
    "$COEFFICIENTS": """\
coef_ : (d,) or (K, d) array
    The weights, in the units of X; a row for each target, where there are several. `predict` is
    X @ coef_.T + intercept_ (its exponential for counts), for every row within `feature_ranges` and no longer
    than `feature_norm`; others count as cut to these bounds. With `linear_predictor=False` rows that
    preconditioning makes too long are shortened as well.
intercept_ : float or (K,) array
    The constant.
coef_std_, intercept_std_ : of their shapes
    How far noise moves them (`summary`).""",
    "$RELEASED": """\
guarantee_ : Guarantee
    What the release of this model costs one record, or one user where `fit` got `groups`; its notes have the
    version, the date and the hash of the parameters.
run_ : NoisySGD
    The run that was accounted and executed.
moments_ : NoisySecondMoments or None
    The release before it, for preconditioning.
preconditioner_ : RowMap or None
    The map that followed from it. `coef_` and `intercept_` are weights of rows that are not mapped. Where it
    is `equal`, predictors are their values times `preconditioner_.scales`, a positive number for each row.
linear_predictor_ : bool
    Whether coefficients are all that predicts.
n_iter_ : int
    Steps.
n_features_in_ : int
    d, the columns of X.
feature_names_in_ : (d,) array
    Their names, where X has names.""",
    "$WEIGHTS": """\
Weights of rows go to `fit` as `sample_weight`, with `max_sample_weight` declared: a weight multiplies
what a record contributes, so that noise is that of the largest. They must not be computed from other
records: such weights would leak.

`fit` checks the arguments. The constructor only stores them, as scikit-learn asks.""",
}


def documented(cls: T) -> T:
    """`cls` with the shared parts in its docstring, so that `help` shows all parameters and attributes.

    Its constructor answers the keywords of other libraries.
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    for _ in range(2):  # a shared part may hold another
        text = "\n".join(SHARED.get(line, line) for line in text.split("\n"))
    cls.__doc__ = text
    cls.__init__ = answering(OTHER_KEYWORDS)(cls.__init__)  # type: ignore[misc]
    return cls
