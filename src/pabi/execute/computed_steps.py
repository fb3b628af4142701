"""How far computed steps are from exact ones: what theorems about hidden paths pay for doubles.

A step computes y = x − η(λx + g), rounds it to a grid and adds noise that lies on it; a proximal map may
follow. With u = 2⁻⁵³, iterates of norm up to X, batches of up to B records over b, gradients of norm up to C,
rows of norm up to R and derivatives that change by L a unit of the predictor, y is off by at most

    η(B/b)·[(m + 16)uC + R(L(d + 8)uRX + ℓ) + (K + 32)uC] + 6u(X + η(λX + CB/b)) + γ√d/2,

m the additions in a sum, K the predictors of a record, ℓ what derivatives are off by (`LinearLoss.off`), γ
the grid. What went before, the rounding of x to its grid and the map's own error, counts as far as the step
may carry it. All of it over the step's noise, as the root of the sum of squares, is a run's `rounding`.
Source: docs, "Theory", 9 (Theorem 59).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from pabi.describe.accounted import USUAL_DELTA
from pabi.describe.batches import FixedSizes
from pabi.describe.langevin import LangevinChain
from pabi.describe.losses import CONVEX
from pabi.describe.prox import (
    ball,
    box,
    elastic_net,
    halfspace,
    l1,
    l2,
    nuclear_norm,
    simplex,
)
from pabi.describe.runs import NoisySGD
from pabi.describe.scalar_losses import LinearLoss
from pabi.describe.vector_losses import executable
from pabi.execute.hiding import RARE, Walk, hides, walk_of
from pabi.execute.noise import OF_A_STEP, StepNoise
from pabi.execute.records import MOST_ROWS
from pabi.execute.sums import additions_of_blocks, least_move, noise_factor
from pabi.numbers.rounding import HALF_ULP, Array, thresholds_off
from pabi.tradeoff.guarantee import Guarantee

_UP = 1.0 + 1e-9  # past the roundings of what is computed here, and all terms of order u²
# ε grows by no more than 36 times `rounding`, and falls by more than itself times what noise grows by.
_SHARE, _LEAST, _TRIALS = 40.0, 1e-3, 4
_NEXT_TO_NOTHING = 1e-300  # a distance
_LONGEST = float(MOST_ROWS) + 32.0  # additions in a chain, also of sums on several machines
STATED = 2.0**-40  # what others' gradients and maps may be off by, relative to their size
ACCURATE = (
    "gradients are computed to within 2⁻⁴⁰ of the longest that they may be, a regulariser's included, each "
    "at a point within 2⁻⁴⁰ of the size of iterates from where it is asked for, and the proximal map to "
    "within 2⁻⁴⁰ of the size of iterates"
)
EXACT = "the rounding of steps, which nothing bounds here, carries no two runs apart"


Steps = TypeVar("Steps", bound=NoisySGD | LangevinChain)


def as_computed(run: Steps, shape: Sequence[int], start: float = 0.0, own: bool = True) -> Steps:
    """The run, or the chain, with the `rounding` of pabi's own, if anything bounds it (`rounding_of`)."""
    needed, _ = rounding_of(run, shape, start, own)
    return replace(run, rounding=needed) if run.rounding < needed <= 1.0 else run


def paid_for(
    run: Steps, delta: float, shape: Sequence[int], start: float = 0.0, own: bool = True
) -> tuple[Steps, Guarantee]:
    """(the run as it is computed, with so much more noise that it costs no more at `delta`; its guarantee).

    A run that states a `rounding` that suffices has the noise that it states.
    """
    proven = run.guarantee(delta)
    computed = as_computed(run, shape, start, own) if hides(proven) else run
    if computed.rounding == run.rounding:
        return run, proven
    share = _SHARE * computed.rounding / min(max(proven.epsilon(USUAL_DELTA), _LEAST), 1.0)
    # A power of two: a run that is resumed may be accounted for at another δ, and has the same noise.
    more = math.ldexp(1.0, math.frexp(share)[1])
    for _ in range(_TRIALS):
        louder = as_computed(_louder(computed, more), shape, start, own)
        cost = louder.guarantee(delta)
        no_worse = proven.mu is None or cost.mu is None or cost.mu <= proven.mu
        if no_worse and cost.epsilon(delta) <= proven.epsilon(delta):
            return louder, cost
        more *= 4.0
    return computed, computed.guarantee(delta)


def _louder(run: Steps, more: float) -> Steps:
    """The run with noise that is larger by a share; the chain at a temperature that is."""
    if isinstance(run, LangevinChain):
        changes: dict[str, Any] = {"inverse_temperature": run.inverse_temperature / (1.0 + more)}
    else:
        name = "noise_std" if run.noise_std is not None else "noise_multiplier"
        stated = np.asarray(getattr(run, name), dtype=np.float64) * (1.0 + more)
        changes = {name: stated if stated.ndim else float(stated)}
    return replace(run, **changes)


def rests_on(
    run: NoisySGD | LangevinChain, shape: Sequence[int], start: float = 0.0, own: bool = True
) -> tuple[str, ...]:
    """The sentences under which what hides its path is computed as it says."""
    needed, stated = rounding_of(run, shape, start, own)
    if needed > run.rounding:
        return (EXACT,)
    return (ACCURATE,) if stated else ()


def settled(
    run: NoisySGD,
    find: Callable[[NoisySGD], tuple[NoisySGD, Guarantee]],
    shape: Sequence[int],
    start: float = 0.0,
    own: bool = True,
) -> tuple[NoisySGD, Guarantee]:
    """What `find` makes of a run: its noise, and what it then costs, with a `rounding` that suffices where
    the path is hidden."""
    answer, cost = find(run)
    while (
        hides(cost)
        and (needed := as_computed(answer, shape, start, own).rounding) > answer.rounding
    ):
        answer, cost = find(replace(run, rounding=min(1.0, 2.0 * needed)))
    return answer, cost


@np.errstate(over="ignore")  # of noise that is enormous: a size of ∞ is one
def rounding_of(
    steps: NoisySGD | LangevinChain, shape: Sequence[int], start: float = 0.0, own: bool = True
) -> tuple[float, bool]:
    """(the `rounding` of a run, or of every chain, of iterates of this shape, whether it rests on
    `ACCURATE`); ∞ where nothing bounds it.

    `start`: the norm of the starting point, the largest one of chains. `own`: whether gradients are those of
    pabi's losses.
    """
    run, paths = (steps, 1) if isinstance(steps, NoisySGD) else (steps.run, steps.chains)
    # Up to a power of 16: a start of about the same size is not taken for that of another run.
    begin = math.ldexp(1.0, max(1, -(-math.frexp(start)[1] // 4)) * 4) if start else 0.0
    each_entry = begin / math.sqrt(math.prod(shape) or 1)
    walk, bounded = walk_of(run, np.broadcast_to(each_entry, (paths, *shape)))
    clip, step = run.record_gradient_bound, np.asarray(run.step_size, dtype=np.float64)
    if not bounded or clip is None:
        return math.inf, False
    mean = float(np.max(np.asarray(walk.pull) / step))  # of a batch's gradients, at most
    louder = replace(
        walk, noise_std=walk.noise_std * _raised(run, walk.dimension)
    )  # as noise is drawn
    size = min(louder.size, _reach(run, louder, shape)) if own else louder.size
    off = _of_a_gradient(run, size, shape, clip) if own else math.inf
    off_by_map = _of_the_map(run.prox, step, size, shape)
    stated, elsewhere = math.isinf(off) or math.isinf(float(np.max(off_by_map))), 0.0
    if math.isinf(off):
        off, elsewhere = STATED * (clip + run.loss.l2 * size), STATED * size
    if math.isinf(float(np.max(off_by_map))):
        off_by_map = STATED * size
    most = run.order.sizes.most
    additions = min(most, _LONGEST) if run is steps else additions_of_blocks(most)
    sums = (additions + 16.0) * HALF_ULP * clip
    reached = size + step * (run.loss.l2 * size + mean)
    computed = step * mean / clip * (sums + off) + 6.0 * HALF_ULP * reached
    grid = 0.5 * math.sqrt(walk.dimension) * OF_A_STEP
    # The noise before a short step may be larger than its own, and so may its grid; doubles may be coarser.
    noises = np.broadcast_to(np.asarray(walk.noise_std), run.steps)
    coarser = np.max(noises[:-1] / noises[1:], initial=1.0)
    apart = elsewhere + off_by_map + HALF_ULP * size + grid * coarser * np.asarray(walk.noise_std)
    carried = _carried(run, mean / clip, apart, reached)
    each = (computed + carried) / np.asarray(walk.noise_std) + grid
    squares = np.sum(np.broadcast_to(each * each, run.steps))
    return float(np.sqrt(squares)) * _UP, stated


def _raised(run: NoisySGD, dimension: int) -> float:
    """What noise is multiplied by at most where it is drawn: most where it is largest, and on iterates the
    grid may be twice as coarse as on gradients."""
    factor = noise_factor(run)
    loudest = float(np.max(run.gradient_noise_std)) * factor
    return factor * (2.0 * StepNoise(loudest, least_move(run), dimension).raised - 1.0)


def _carried(run: NoisySGD, most: float, apart: Array, reached: Array) -> Any:
    """How far from its exact step one takes us that begins, or asks for gradients, up to `apart` from where
    it should, its batch up to `most` times the stated size; ∞ where nothing is known.

    `reached`: what no step exceeds. Where gradients jump, proofs know of steps that they carry points of
    distance δ apart to √(δ² + J²) or δ + J at most, and the computed step over 1 + t, t = 2·apart/J, does no
    more: it is off by t·reached (docs, "Theory", 9, Proposition 59d).
    """
    step, l2 = np.asarray(run.step_size, dtype=np.float64), run.loss.l2
    curvature = run.loss.effective_curvature(run.clip_norm, run.clipping)
    if curvature is not None:
        ends = [0.0, *(most * end for end in curvature)]
        return max(float(np.max(np.abs(1.0 - step * (l2 + end)))) for end in ends) * _UP * apart
    smooth = [c * apart**p for p, c in run.loss.continuity if p > 0.0]
    if smooth:
        moved = step * most * np.min(smooth, axis=0)
    elif np.all(step * l2 < 1.0):
        sizes = run.order.sizes
        fewest = min(sizes.size, sizes.last) if isinstance(sizes, FixedSizes) else 1
        share = Fraction(fewest, run.batch_size)
        modulus = run.loss.modulus(float(np.min(step)), run.clip_norm, share, run.clipping)
        moved = 2.0 * apart / modulus(_NEXT_TO_NOTHING) * reached
    else:
        return math.inf
    return (np.abs(1.0 - step * l2) * apart + moved) * _UP


def _reach(run: NoisySGD, walk: Walk, shape: Sequence[int]) -> float:
    """What no iterate exceeds but with probability 2⁻¹⁰⁰, where losses fall on the way; ∞ where they may not.

    Of batches that are convex, M-smooth, with gradients up to G and at 0 up to f above their least value,
    ‖x − η∇F(x)‖² ≤ ‖x‖² + 2ηf + η²G²(1 − 1/(ηM))⁺. With A the sum of what is added and v that of all σ²,
    ‖x‖² exceeds 2(‖x_0‖² + A) + 4v(log(1/p) + d/2·log 2) with probability p (docs, "Theory", 9).
    """
    loss, curvature = loss_of(run), run.loss.effective_curvature(run.clip_norm, run.clipping)
    clip, l2 = run.record_gradient_bound, run.loss.l2
    if loss is None or curvature is None or clip is None or walk.origin > 0.0:
        return math.inf
    step = np.asarray(run.step_size, dtype=np.float64)
    mean = float(np.max(np.asarray(walk.pull) / step))
    smooth = curvature[1] * mean / clip + l2
    longer = np.maximum(0.0, 1.0 - 1.0 / (step * smooth))
    if l2 > 0.0 and np.any(longer > 0.0):
        return math.inf
    noise = np.asarray(walk.noise_std)
    added = 2.0 * step * mean / clip * loss.gap(math.prod(shape[1:])) + (step * mean) ** 2 * longer
    total, squares = (
        float(np.sum(np.broadcast_to(x, run.steps))) for x in (added, noise * noise * _UP)
    )
    rare = RARE + math.log(run.steps * walk.paths) + 0.5 * walk.dimension * math.log(2.0)
    return math.sqrt(2.0 * (walk.start**2 + total) + 4.0 * squares * rare) * _UP


def loss_of(run: NoisySGD) -> LinearLoss | None:
    """The loss, if it is one of pabi's own linear models and its rows are bounded."""
    parameters = dict(run.loss.parameters)
    return executable(run.loss.kind, **parameters) if "feature_norm" in parameters else None


def _of_a_gradient(run: NoisySGD, size: float, shape: Sequence[int], clip: float) -> float:
    """What a clipped gradient of one of pabi's losses is off by at most, where iterates are up to `size`."""
    loss = loss_of(run)
    if loss is None:
        return math.inf
    norm = float(dict(run.loss.parameters)["feature_norm"])
    outputs = math.prod(shape[1:])
    clipped = run.clipping in CONVEX
    off = (loss.in_ball() if run.clipping == "ball" else loss).off(outputs, clipped, norm * size)
    steepness = float(loss.steepness) * _UP
    predictor = (shape[0] + 8.0) * HALF_ULP * norm * size
    return norm * (steepness * predictor + off) + (outputs + 32.0) * HALF_ULP * clip


def _of_the_map(prox: Any, step: Array, size: float, shape: Sequence[int]) -> Any:
    """What a computed proximal map is off by at most, at points of norm up to `size`."""
    u, dimension = HALF_ULP, math.prod(shape)
    match prox:
        case None | box():
            return 0.0
        case l1(strength=strength):
            return 3.0 * u * (size + step * strength * math.sqrt(dimension))
        case l2():
            return 4.0 * u * size
        case elastic_net(l1=strength):
            return 6.0 * u * (size + step * strength * math.sqrt(dimension))
        case ball(radius=radius, center=center):
            aside = 0.0 if center is None else 4.0 * (size + float(np.linalg.norm(center)))
            return u * (4.0 * (dimension + 16.0) * radius + aside)
        case halfspace(normal=normal, offset=offset):
            # How far the boundary is from 0; a normal is scaled so that its squares do not underflow.
            longest = float(np.max(np.abs(normal)))
            boundary = abs(offset) / longest / float(np.linalg.norm(normal / longest))
            return 4.0 * (dimension + 8.0) * u * (size + boundary)
        case nuclear_norm() if len(shape) == 2:
            return thresholds_off(*shape) * size
        case simplex(total=total):
            return 2.0 * (dimension * (dimension + 8.0) + 32.0) * u * total
        case _:
            return math.inf
