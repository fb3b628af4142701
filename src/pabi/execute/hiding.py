"""What trainers and samplers do so that what was accounted is what runs, and that nothing of it shows."""

from __future__ import annotations

import math
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar, assert_never

import numpy as np
from numpy.typing import ArrayLike

from pabi.budget.ledger import Ledger, reserved
from pabi.describe.accounted import SHOWN
from pabi.describe.batches import FixedSizes, RandomSizes
from pabi.describe.prox import KINDS
from pabi.describe.runs import NoisySGD
from pabi.describe.updates import rule_of
from pabi.execute.checkpoint import Randomness, is_secret, randomness_from
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import MOST_SUMMED, Array, power_of_two_near
from pabi.numbers.showing import plain
from pabi.tradeoff.guarantee import Guarantee

T = TypeVar("T")
GRID = 2.0**-20  # of the last step's noise: the spacing of what is released
_GRIDS = (
    2.0**-900,
    2.0**900,
)  # beyond them a grid or its inverse may over- or underflow, and none is used
# The least bound of gradients: what underflows in a residual, or in a factor of a row, times features of up
# to 2²⁵⁰ is far less than a rounding of it.
_LEAST = 1e-200


def refuse_unenforceable(run: NoisySGD) -> None:
    """Raises InvalidInput for a run whose guarantee assumes what this trainer would not do."""
    validate.exactly("run", run, NoisySGD, "a pabi.NoisySGD")
    rule_of(run.update).refuse_untrained()
    bound = run.record_gradient_bound
    if run.gradient_sensitivity is None and bound is not None:
        field, most = "clip_norm" if run.clip_norm == bound else "loss", run.order.sizes.most
        require(
            bound >= _LEAST,
            field,
            f"expected a gradient bound of at least {_LEAST!r}, got {bound!r}: so near to the least "
            "double, scaling does not keep below a bound",
        )
        # A sum beyond all doubles is infinite, whatever noise is added to it.
        require(
            Fraction(bound) * most <= MOST_SUMMED,
            field,
            f"expected a gradient bound of at most 2^1000 over {most}, the records of the largest batch, got "
            f"{bound!r}: their sum may be no double",
        )
    enforced = getattr(run.prox, "diameter", None)
    if run.diameter is not None and (enforced is None or not enforced <= run.diameter):
        reason = "no prox bounds the iterates"
        if enforced is not None:
            reason = f"the prox keeps only {enforced!r}"
        raise InvalidInput(
            "diameter",
            f"expected a prox that enforces it (as pabi.prox.ball does), got an assumed "
            f"{run.diameter!r}: {reason}",
        )


def on_grid(x: Array, noise_std: float) -> Array:
    """`x` rounded to a power of two of about 2⁻²⁰ of the noise just added.

    Floating-point noise has a pattern in its last bits from which the sum before it can be read
    (Mironov 2012). On a grid far coarser than the doubles and far finer than the noise nothing of it
    is left; everything that follows is post-processing.
    """
    grid = power_of_two_near(noise_std * GRID) if noise_std > 0.0 else 0.0
    return np.asarray(np.rint(x / grid) * grid) if _GRIDS[0] < grid < _GRIDS[1] else x


def mapped(value: Any, shape: tuple[int, ...]) -> Array:
    """The point that a proximal map returned, of this shape. Raises InvalidInput for anything else."""
    x = validate.doubles("prox", value, f"it to return an array of shape {shape}")
    require(x.shape == shape, "prox", f"expected it to keep the shape {shape}, got {x.shape}")
    return x


def unseen(execute: Callable[[], T]) -> T:
    """What `execute` returns; what it raises carries nothing of what it computed.

    Generators, states and iterates belong into the frame of `execute`: the frames below are emptied, the
    caller's own is still running and cannot be.
    """
    handled_outside = sys.exc_info()[1]
    try:
        # A floating-point warning would report on a hidden iterate.
        with np.errstate(all="ignore"):
            return execute()
    except BaseException as error:
        forget_frames(error, handled_outside)
        raise


def released(execute: Callable[[], Array]) -> Array:
    """The array that `execute` returns, read-only; what it raises carries nothing of what it computed."""
    values = unseen(execute)
    values.flags.writeable = False
    return values


def unshown(field: str, call: Callable[[], T]) -> T:
    """What a callable of the user's returns. Raises InvalidInput where that fails.

    It says the error's type alone: its message, and what led to it, may show a record.
    """
    try:
        return call()
    except InvalidInput:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise InvalidInput(
        field, f"fails on records of the data, with a {kind}: try it on rows that you may look at"
    )


def forget_frames(error: BaseException, handled_outside: BaseException | None) -> None:
    """Empties the frames that `error` came through.

    Debuggers and error trackers show their locals, hidden iterates among them. Exceptions that were being
    handled before, `handled_outside` and what led to it, are left alone.
    """
    pending, seen = [error], set()
    while pending:
        current = pending.pop()
        if current is handled_outside or id(current) in seen:
            continue
        seen.add(id(current))
        traceback.clear_frames(current.__traceback__)
        inner = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        pending += [e for e in (current.__cause__, current.__context__, *inner) if e is not None]


def starting_point(x0: ArrayLike | None) -> Array:
    """`x0` as finite float64, a copy. Raises InvalidInput naming `x0`."""
    require(x0 is not None, "x0", "missing: a path starts somewhere")
    start = np.array(validate.doubles("x0", x0, f"an array of numbers, got a {type(x0).__name__}"))
    require(np.all(np.isfinite(start)), "x0", "expected finite numbers")
    return start


def read_only(x: Array) -> Array:
    """A view of `x` for callables of the user's, through which they cannot change it."""
    view = x.view()
    view.flags.writeable = False
    return view


def returned(
    field: str, value: Any, shape: tuple[int, ...], named: str = "", short: bool = True
) -> Array:
    """What a callable returned as float64, or InvalidInput, which says nothing about its values.

    `named`: the shape in the names of the callable's arguments. `short`: whether numbers of half and of
    single precision will do.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise InvalidInput(field, f"expected an array of shape {shape}") from None
    require(array.dtype.kind in "fiu", field, f"expected real numbers, got dtype {array.dtype}")
    enough = short or array.dtype not in (np.float16, np.float32)
    require(enough, field, f"expected float64, got {array.dtype}")
    require(
        array.shape == shape,
        field,
        f"expected shape {f'{named} = {shape}' if named else shape}, got {array.shape}",
    )
    array = array.astype(np.float64, copy=False)
    require(np.all(np.isfinite(array)), field, "expected finite numbers")
    return array


# Other machines, which compute independent parts of a release.


Part = TypeVar("Part")
Result = TypeVar("Result")


class Machines(ABC):
    """Machines that compute what they are asked to, as often as it takes.

    What is asked of them is a function of its arguments, keys of random streams among them: a part that is
    computed again, because a machine was lost, comes out as before. So what is released does not depend on
    which machines are lost, nor on when.

    `assumed`: what a guarantee assumes of them. `together`: into how many parts work is best cut.
    """

    assumed: tuple[str, ...]
    together: int

    @abstractmethod
    def results(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[Result]:
        """What the function makes of every part, each once, in their order.

        Parts are taken from the iterable when they are needed. Raises InvalidInput where the function does,
        or a machine fails.
        """


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a release.

    `delta`: at which its guarantee is chosen. `ledger`: in which it is reserved, if anywhere. `machines`:
    which compute it, None for this one. `proven`: its guarantee, where it was accounted before.
    """

    delta: float = 1e-5
    random_state: Any = None
    ledger: Ledger | None = None
    machines: Machines | None = None
    proven: Guarantee | None = None

    def guarantee_of(self, description: Any) -> Guarantee:
        """What the release of this description costs, accounted once."""
        return description.guarantee(self.delta) if self.proven is None else self.proven

    def reserved(self, proven: Guarantee) -> AbstractContextManager[Any]:
        """The reservation of what costs this if all noise is secret."""
        return reserved(self.ledger, proven, secret=is_secret(self.random_state))

    def release(
        self, proven: Guarantee, execute: Callable[[Randomness], Array]
    ) -> tuple[Array, Guarantee]:
        """(the array that `execute` returns, read-only; its guarantee), reserved before data are read.

        `proven`: the guarantee as if all noise were secret.
        """
        randomness = randomness_from(self.random_state)
        if self.machines is not None:
            proven = proven.assuming(*self.machines.assumed)
        with self.reserved(proven):
            values = released(lambda: execute(randomness))
        return values, proven if randomness.secret else proven.for_testing()


# Whether doubles are fine enough where the iterates of a run are, from public numbers alone.
#
# Proofs that hide the path couple two runs whose steps do not carry them apart. Rounding a step to
# doubles is no such map: where their spacing is coarse against the noise, two runs stay as far apart as
# they were, or are carried apart, whatever the noise does. (Composition survives: what is rounded was
# released with its noise.) So a size is computed that no iterate exceeds but with probability 2⁻¹⁰⁰, and
# where the spacing of doubles there exceeds 2⁻²⁰ of a step's noise, nothing is trained. Source: docs,
# "Training", Rounding.


FINE = 2.0**-20  # of a step's noise: what the spacing of doubles may be at most
# −log of half of 2⁻¹⁰⁰: that any noise is longer than is counted on, or any batch larger.
RARE = 101.0 * math.log(2.0)
_A_STEP = 1.0 + 2.0**-48  # above the roundings of the few operations a step takes here
_MARGIN = 1.0 + 1e-6  # above those of the closed form of equal steps, and of norms
_FADED = 0.01  # of the largest step's noise: a schedule that falls so far ends in steps too short
# Below it doubles lose digits; sizes are taken to be at least as large.
_SMALLEST = 1e-280


class Overstep(NamedTuple):
    """A step at which doubles are too coarse: the size that can be reached, their spacing, the noise."""

    size: float
    spacing: float
    noise_std: float


@dataclass(frozen=True)
class Walk:
    """The public numbers of x ← Π(x − ηλx − ηg + Z), Z ~ N(0, σ²I).

    `start`: ‖x_0‖. `factor`: |1 − ηλ|, and `pull`: the largest ‖ηg‖, each a number or one per step.
    `noise_std`: σ, likewise. `origin`: ‖Π(0)‖ at most. `diameter`: of the range of Π, ∞ if unbounded. Norms
    are Euclidean, in units of x.
    """

    steps: int
    start: float
    factor: float | Array
    pull: float | Array
    noise_std: float | Array
    origin: float
    diameter: float
    dimension: int
    paths: int = 1

    @property
    def noises(self) -> float | Array:
        """The bound that ‖Z‖ exceeds at some step with probability 2⁻¹⁰¹ at most; a number or one per step.

        P(‖Z‖ > σ(√d + q)) ≤ e^(−q²/2), by Gaussian concentration.
        """
        q = math.sqrt(2.0 * (RARE + math.log(self.steps * self.paths)))
        return self.noise_std * (math.sqrt(self.dimension) + q)

    @property
    def size(self) -> float:
        """What no iterate exceeds, nor what is added up for it, but with probability 2⁻¹⁰⁰."""
        return max(size for size, _ in self._sizes())

    def overstep(self) -> Overstep | None:
        """A step at which the spacing of doubles exceeds 2⁻²⁰ of the noise; None if there is none.

        A point of the range of Π is within `diameter` of Π(0), and no farther from it than what Π is applied
        to is from 0. What a step adds up is no larger than ‖x‖ + ηλ‖x‖ + ‖ηg‖ + ‖Z‖.
        """
        every = (_coarse(size, noise_std) for size, noise_std in self._sizes())
        return next((overstep for overstep in every if overstep is not None), None)

    def _sizes(self) -> Iterator[tuple[float, float]]:
        """(what a step adds up at most, its noise) for every step, or once for equal ones."""
        if all(np.ndim(x) == 0 for x in (self.factor, self.pull, self.noise_std)):
            factor, move = float(self.factor), float(self.pull) + float(self.noises)
            size = max(self.start, self._largest(factor, move))
            yield _added_up(size, factor, move), float(self.noise_std)
            return
        columns = [
            np.broadcast_to(np.asarray(x, dtype=np.float64), self.steps).tolist()
            for x in (self.factor, self.pull, self.noises, self.noise_std)
        ]
        size = self.start
        for factor, pull, noise, noise_std in zip(*columns, strict=True):
            yield _added_up(size, factor, pull + noise), noise_std
            size = self._after(size, factor, pull + noise)

    def _largest(self, factor: float, move: float) -> float:
        """A bound on all iterates but the first, of equal steps."""
        within, move = self.origin + self.diameter, move + self.origin
        if factor < 1.0:  # below the fixed point, if the start is
            fixed = max(self.start, move / (1.0 - factor))
            return min(within, fixed, self.start + self.steps * move) * _MARGIN
        with np.errstate(over="ignore"):
            growth = float(np.power(factor, self.steps))
        grown = self.steps if factor == 1.0 else (growth - 1.0) / (factor - 1.0)
        return min(within, growth * self.start + grown * move) * _MARGIN

    def _after(self, size: float, factor: float, move: float) -> float:
        return (self.origin + min(self.diameter, factor * size + move)) * _A_STEP


def _added_up(size: float, factor: float, move: float) -> float:
    """No intermediate result of a step is larger: ηλ is at most 1 + |1 − ηλ|."""
    return ((2.0 + factor) * size + move) * _A_STEP


def _coarse(size: float, noise_std: float) -> Overstep | None:
    spacing = float(np.spacing(max(size, _SMALLEST))) if math.isfinite(size) else math.inf
    return None if spacing <= FINE * noise_std else Overstep(size, spacing, noise_std)


def refuse_coarse(walk: Walk) -> None:
    """Raises InvalidInput, naming what to change, where doubles are too coarse for `walk`."""
    overstep = walk.overstep()
    if overstep is None:
        return
    size, spacing, noise_std = overstep
    field, remedy = "noise_std", "take fewer or shorter steps or more noise"
    if noise_std < _FADED * float(np.max(walk.noise_std)):
        field, remedy = "step_size", "let the schedule end at longer steps, whose noise is larger"
    if _coarse(walk.start, noise_std) is not None:
        field = "x0"
    elif _coarse(walk.origin, noise_std) is not None:
        field = "prox"
    raise InvalidInput(
        field,
        f"iterates can reach {plain(size, 3)}, where doubles are {plain(spacing, 3)} apart, more "
        f"than 2⁻²⁰ of a step's noise, {plain(noise_std, 3)}: rounding would undo what hides the path. "
        f"Begin nearer to 0, bound the iterates by a prox nearer to 0, {remedy}, or account for all iterates "
        '(release="path"), which rounding does not harm',
    )


def small_enough(noise_std: float | Array) -> str:
    """The sentence that stands in for the check where nothing bounds a gradient."""
    most = math.ldexp(1.0, math.frexp(float(np.min(noise_std)))[1] - 1 + 52 - 20)
    return (
        f"hidden iterates and the steps between them have norms below {most!r}, where the spacing of doubles "
        "is below 2⁻²⁰ of the noise"
    )


def hides(guarantee: Guarantee) -> bool:
    """Whether it needs the path to stay hidden, so that the rounding of steps matters; it does not harm what
    holds of all iterates."""
    return SHOWN not in guarantee.assumptions


def checked(guarantee: Guarantee, walk: Walk, bounded: bool) -> Guarantee:
    """`guarantee` of a run that takes this walk, where its proof survives doubles.

    `bounded`: whether `walk.pull` is known. If not, an assumption says what is needed.
    """
    if not hides(guarantee):
        return guarantee
    refuse_coarse(walk)
    return guarantee if bounded else guarantee.assuming(small_enough(walk.noise_std))


def too_little_noise(guarantee: Guarantee, run: NoisySGD, starts: Array) -> bool:
    """Whether `checked` would refuse the run, which comes of an ε that is very large."""
    return hides(guarantee) and walk_of(run, starts)[0].overstep() is not None


def walk_of(run: NoisySGD, starts: Array) -> tuple[Walk, bool]:
    """The walks that `run` takes from `starts` (paths, *shape), and whether its gradients are bounded."""
    step_size = np.asarray(run.step_size, dtype=np.float64)
    bound = run.record_gradient_bound if run.gradient_sensitivity is None else None
    most = _records(run, math.log(run.steps * len(starts))) / run.batch_size
    points = starts.reshape(len(starts), -1)
    origin, diameter = _range(run.prox, starts.shape[1:], step_size)
    walk = Walk(
        run.steps,
        _norm(points),
        factor=_scalar(np.abs(1.0 - step_size * run.loss.l2)),
        pull=_scalar(step_size * (most * (bound or 0.0))),
        noise_std=_scalar(step_size * np.asarray(run.gradient_noise_std)),
        origin=origin,
        diameter=diameter,
        dimension=points.shape[1],
        paths=len(starts),
    )
    return walk, bound is not None


def _norm(points: Array) -> float:
    """The largest Euclidean norm of the rows of (k, d) `points`, or not much more."""
    with np.errstate(over="ignore"):
        return float(np.max(np.linalg.norm(points, axis=1), initial=0.0)) * _MARGIN


def _range(prox: Any, shape: tuple[int, ...], step_sizes: Array) -> tuple[float, float]:
    """(the largest ‖Π(0)‖, the diameter of its range): neither depends on the data."""
    if prox is None:
        return 0.0, math.inf
    sizes = np.unique(step_sizes).tolist()
    if type(prox) in KINDS.values():  # of which none moves 0 by the step size
        sizes = sizes[:1]
    origins = [mapped(prox(np.zeros(shape), size), shape) for size in sizes]
    diameter = getattr(prox, "diameter", None)
    return _norm(np.reshape(origins, (len(sizes), -1))), math.inf if diameter is None else diameter


def _scalar(x: Any) -> float | Array:
    return float(x) if np.ndim(x) == 0 else x


def _records(run: NoisySGD, log_steps: float) -> float:
    """More records than this are in no batch, but with probability 2⁻¹⁰¹ (Bernstein's inequality)."""
    sizes = run.order.sizes
    most = float(sizes.most)
    match sizes:
        case FixedSizes():
            return most
        case RandomSizes():
            rare, expected = RARE + log_steps, float(sizes.n * sizes.probability)
        case _:
            assert_never(sizes)
    return min(most, expected + rare / 3.0 + math.sqrt(rare**2 / 9.0 + 2.0 * expected * rare))
