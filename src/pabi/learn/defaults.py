"""Settings chosen without a look at the data, by what they are predicted to achieve.

The excess risk of a linear model after noisy gradient steps is predicted on a model problem: a
quadratic whose curvatures fall like 1/j, from the trace that rows of norm R allow, and whose optimum
has coordinates of one size (about the size that predictors of real problems have). There the
remaining error of a run is exact: what the steps have not yet removed, what the privacy noise adds
(for the noise that the accountant demands of this very schedule when nothing contracts), and what
sampling batches adds. The least prediction over a grid of schedules wins. All it knows is n, the
dimension, ε, δ, the adjacency and the loss; docs, "Training", derives every term.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from pabi.describe.batches import Batches, FullBatch, ShuffleOnce
from pabi.describe.neighbours import Adjacency, changed
from pabi.numbers.rounding import Array
from pabi.numbers.search import bisected

# The model problem. The first two were set once on public benchmarks; results depend on them weakly.
TRACE = 0.5  # average curvature over its bound: p(1 − p) against 1/4
CLIPPING = 0.0002  # excess risk charged for half the gradient bound; nine times for a quarter
RESIDUAL = 0.1  # variance of a residual over its bound squared
MOST_EPOCHS = 20
FEWEST_STEPS = 10  # losses are not quadratic: a few large steps do worse than on the model problem
FREE = 200_000  # gradients: on small data more epochs cost nothing
_EPOCHS = (1, 2, 5, 10, 20, 50, 100)
_STEPS = 2.0 ** np.arange(-10.0, 4.5)  # step sizes, over 1/M
_L2 = 4.0 ** np.arange(0.0, 6.0)  # over 1/n
_COOLDOWNS = (0.0, 0.5)  # over an epoch
_CLIPS = (1.0, 0.5, 0.25)  # gradient bounds, over the loss's own
_CHEAPER = 0.995  # a dearer schedule must be predicted to do better than this times a cheaper one
_MUS = 1e-9, 1e3  # that any target is between
_PRECISION = 1e-3  # relative, of noise: far finer than the grid of schedules
_FADE = 1e-9  # so small an x is that of tanh x / x = 1
_UNIT_RATIO = 1e-12  # so near to 1 a geometric series is taken as that of ratio 1


@dataclass(frozen=True)
class Task:
    """The public facts that the rule chooses by.

    `curvature`: M, the largest of one record; `gradient`: its bound; `signal`: the size of predictors, in
    their unit; `feature_norm`: R as the model sees it; `clippable`: whether a lower gradient bound leaves the
    loss what it is.
    """

    n: int
    width: int
    outputs: int
    curvature: float
    gradient: float
    feature_norm: float
    signal: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    clippable: bool = False


@dataclass(frozen=True)
class Schedule:
    """The schedule that the rule chooses.

    `predicted`: its excess risk on the model problem. `clip`: the gradient bound over the loss's own.
    """

    batches: Batches
    epochs: float
    step_size: float
    cooldown_steps: int
    clip: float
    l2: float
    predicted: float


@dataclass(frozen=True)
class Fixed:
    """The settings that the user has decided; None leaves one to the rule."""

    batches: Batches | None = None
    epochs: float | None = None
    step_size: float | None = None
    cooldown_epochs: float | None = None
    clip: float | None = None
    l2: float | None = None


@functools.lru_cache(maxsize=256)
def settings(problem: Task, fixed: Fixed = Fixed()) -> Schedule:
    """The schedule of least predicted error among those that respect `fixed`.

    Of two whose predictions agree to 0.5 % the cheaper counts: fewer epochs, larger batches.
    """
    spectrum = _Spectrum.of(problem)
    steps = _STEPS / problem.curvature if fixed.step_size is None else np.array([fixed.step_size])
    l2 = _L2 / problem.n if fixed.l2 is None else np.array([fixed.l2])
    best: Schedule | None = None
    for plan in _plans(problem, fixed):
        with np.errstate(over="ignore", invalid="ignore"):
            predicted = spectrum.predict(problem, plan, steps[:, None], l2[None, :])
        i, j = np.unravel_index(np.argmin(predicted), predicted.shape)
        least = float(predicted[i, j])
        if best is None or least < best.predicted * _CHEAPER:
            best = Schedule(
                fixed.batches
                or (FullBatch() if plan.size == problem.n else ShuffleOnce(plan.size)),
                epochs=plan.epochs,
                step_size=float(steps[i]),
                cooldown_steps=plan.cooldown,
                clip=plan.clip,
                l2=float(l2[j]),
                predicted=least,
            )
    assert best is not None
    return best


@dataclass(frozen=True)
class _Plan:
    """A schedule but for step size and ℓ2: batch size, epochs, cool-down steps, clipping."""

    size: int
    epochs: float
    cooldown: int
    clip: float


def _plans(problem: Task, fixed: Fixed) -> Iterator[_Plan]:
    n = problem.n
    if fixed.batches is not None:
        sizes = [fixed.batches.batch_size(n)]
    else:
        sizes = sorted({max(min(n, 16), n >> k) for k in range(10)}, reverse=True)
    clips: tuple[float, ...] = _CLIPS if fixed.clip is None else (fixed.clip,)
    if problem.clippable and fixed.clip is None:
        clips = tuple(c for c in clips if c >= 0.5)  # below, probabilities near one half are lost
    affordable = [e for e in _EPOCHS if e <= MOST_EPOCHS or e * n <= FREE]
    for epochs in affordable if fixed.epochs is None else [fixed.epochs]:
        for size in sizes:
            per_epoch = -(-n // size)
            if fixed.epochs is None and epochs * per_epoch < FEWEST_STEPS:
                continue
            shares = _COOLDOWNS if fixed.cooldown_epochs is None else (fixed.cooldown_epochs,)
            if size == n and fixed.cooldown_epochs is None:
                shares = (0.0,)  # every record is in every step: waiting helps nobody
            for cooldown in sorted({math.ceil(share * per_epoch) for share in shares}):
                for clip in clips:
                    # Full batches lose nothing by composition, which needs no smoothness.
                    if clip in (1.0, fixed.clip) or problem.clippable or size == n:
                        yield _Plan(size, epochs, cooldown, clip)


@dataclass(frozen=True)
class _Spectrum:
    """Curvatures of the model problem, each standing for `count` directions."""

    curvature: Array
    count: Array

    @classmethod
    def of(cls, problem: Task) -> _Spectrum:
        edges = np.unique(np.geomspace(1, problem.width + 1, 100).astype(int))
        count = np.diff(edges).astype(float)
        weight = 1.0 / np.sqrt(edges[:-1] * (edges[1:] - 1.0))
        share = weight / np.sum(weight * count)
        return cls(TRACE * problem.curvature * share, count)

    def predict(self, problem: Task, plan: _Plan, step: Array, l2: Array) -> Array:
        """Excess risk, of the shape of `step` and `l2` broadcast.

        It is what is left of the start and the regulariser's bias, plus privacy noise, plus sampling noise.
        """
        steps = math.ceil(plan.epochs * -(-problem.n // plan.size))
        # A lower gradient bound flattens the loss where it acts, and less around the optimum.
        h = self.curvature * math.sqrt(plan.clip)
        step, l2 = step[..., None], l2[..., None]
        factor = np.abs(1.0 - step * (h + l2))  # of a step, on what there is
        left = factor**steps
        spread = _geometric(factor**2, steps)  # Σ of the squared factors that noise of a step meets
        size = problem.signal / problem.feature_norm
        bias = size * (left * h + l2) / (h + l2)
        noise_std = noise_needed(problem, plan.size, steps, plan.cooldown, plan.clip)
        # With the regulariser older uses fade: the factor of full batches (Bok, Su, Altschuler 2024,
        # Thm 4.2), for long runs √(tanh x / x), x = λ·(total step size)/2.
        fade = np.maximum(0.5 * l2 * step * steps, _FADE)
        noise = (step * noise_std) ** 2 * np.tanh(fade) / fade * (spread + plan.cooldown)
        sampled: Array | float = 0.0
        if plan.size < problem.n:
            variance = RESIDUAL * (plan.clip * problem.gradient) ** 2 / plan.size
            sampled = step**2 * variance * h / np.sum(h * self.count) * spread
        risk = 0.5 * self.curvature * self.count * (bias**2 + noise + sampled)
        changed = CLIPPING * max(0.0, 1.0 / plan.clip - 1.0) ** 2
        total = problem.outputs * np.sum(risk, axis=-1) + changed
        # Beyond this a step expands along the steepest direction, and shifts lose their worth.
        stable = step * (problem.curvature + 2.0 * l2) <= 2.0
        if plan.size == problem.n:
            stable = step * (h[0] + l2) <= 1.0
        return np.where(stable[..., 0] & np.isfinite(total), total, np.inf)


def _geometric(ratio: Array, terms: int) -> Array:
    """1 + ratio + … + ratio^(terms − 1)."""
    near = np.abs(1.0 - ratio) < _UNIT_RATIO
    safe = np.where(near, 0.5, ratio)
    with np.errstate(over="ignore"):
        return np.where(near, float(terms), (1.0 - safe**terms) / (1.0 - safe))


@functools.lru_cache(maxsize=64)
def _mu(epsilon: float, delta: float) -> float:
    """The μ at which δ_{G(μ)}(ε) = δ, to a relative 10⁻³."""
    from pabi.convert import gaussian_delta

    return _bracket(lambda mu: not gaussian_delta(mu, epsilon) <= delta, *_MUS)[0]


@functools.lru_cache(maxsize=4096)
def _noise(
    *, per_epoch: int, epochs: int, rest: int, cooldown: int, epsilon: float, delta: float
) -> float:
    """ς·b over the gradient sensitivity, as (ε, δ) needs it without contraction.

    δ is the mean over positions, each of which pays evenly over the steps that follow its uses.
    """
    from pabi.convert import gaussian_delta

    # A last use that `waiting` steps follow, 1..per_epoch: one position each, `rest` of which have
    # been used once more. The last few carry the mean; before, each block counts as its worst.
    edges = np.unique(np.append(np.geomspace(1, per_epoch + 1, 64).astype(int), rest + 1))
    first, weight = edges[:-1], np.diff(edges) / per_epoch
    uses, waiting = epochs + (first <= rest), first + cooldown
    earlier = (uses - 1) * per_epoch
    # A last use that waits longer than the others is paid for together with them.
    mu_squared = np.minimum(
        earlier / per_epoch**2 + 1.0 / waiting,
        np.where(waiting > per_epoch, uses**2 / (earlier + waiting), np.inf),
    )
    rate = np.sqrt(mu_squared)
    low, high = (float(edge) / _mu(epsilon, delta) for edge in (np.min(rate), np.max(rate)))

    def enough(noise: float) -> bool:
        return float(weight @ gaussian_delta(rate / noise, epsilon)) <= delta

    return _bracket(enough, low, high)[1]


_bracket = partial(  # in [low, high], both > 0, ends a relative 10⁻³ apart
    bisected,
    close=lambda low, high: high <= low * (1.0 + _PRECISION),
    middle=lambda low, high: math.sqrt(low * high),
)


def noise_needed(problem: Task, size: int, steps: int, cooldown: int, clip: float) -> float:
    """The ς that the problem's (ε, δ) is predicted to need, for steps that neither contract nor expand."""
    per_epoch = -(-problem.n // size)
    whole, rest = divmod(steps, per_epoch)
    if rest == 0:
        whole, rest = whole - 1, per_epoch
    sensitivity = clip * problem.gradient * changed(problem.adjacency)
    unit = _noise(
        per_epoch=per_epoch,
        epochs=whole,
        rest=rest,
        cooldown=cooldown,
        epsilon=problem.epsilon,
        delta=problem.delta,
    )
    return unit * sensitivity / size
