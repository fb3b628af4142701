"""Executes the run that was accounted: the same description, read by a trainer.

Only the last iterate leaves this file. Nothing else that depends on an iterate or on the order of
the batches is printed, logged, returned, stored, or left behind in an exception.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.errors import InvalidInput
from pabi.learn.clipping import clip_norms
from pabi.learn.randomness import generator_from
from pabi.rounding import Array
from pabi.runs import NoisySGD

if TYPE_CHECKING:
    from pabi.guarantee import Guarantee

Rows = NDArray[np.intp]
PerRecordGradients = Callable[[Array, Rows], ArrayLike]

_GRADIENTS = "per_record_gradients"


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training run releases.

    `x`: the last iterate, float64, read-only, of the shape of the starting point. `guarantee`: what
    its release costs. `run`: the description that was both accounted and executed.
    """

    x: Array
    guarantee: Guarantee
    run: NoisySGD


def train(
    run: NoisySGD,
    per_record_gradients: PerRecordGradients,
    x0: ArrayLike,
    random_state: int | np.random.Generator | None = None,
    *,
    delta: float = 1e-5,
) -> Trained:
    """The last iterate of `run` on your data, with its guarantee.

    Every step is x ← prox(x − η(G/b + λx + ξ), η): G the float64 sum of the batch's clipped
    gradients, b = `run.batch_size` whatever the batch's own length, λ the loss's `l2`, applied
    exactly, and ξ ~ N(0, ς²I) with ς = `run.gradient_noise_std`. A cool-down step has G = 0. Each
    record's gradient is clipped to `run.record_gradient_bound`, so that the sensitivity is
    enforced even where the loss already promises it; only a run that states its
    `gradient_sensitivity` is taken at its word. The guarantee is one of exact arithmetic; the
    clipping is rounded so as never to exceed the bound.

    Parameters
    ----------
    run : NoisySGD
        What to do. Batch j of an epoch holds rows jb..(j+1)b − 1 of 0..n − 1, permuted once
        (`ShuffleOnce`) or afresh every epoch (`Reshuffle`).
    per_record_gradients : callable
        (x, rows) ↦ (len(rows), *x.shape): each record's gradient at x, unclipped and without the
        regulariser, for the (m,) integer array `rows`. It must not keep or show what it is given,
        and must return finite numbers for every conceivable record: an error is seen by everyone.
    x0 : array
        The starting point, chosen without looking at the data.
    random_state : None, int or numpy Generator
        None (default): noise and permutations from a ChaCha generator keyed by the operating
        system. Anything else is for tests: a PrivacyWarning, and a guarantee that says so.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.

    Raises
    ------
    InvalidInput
        `diameter` where it is only assumed, `update` other than "sgd", `x0`, `random_state`, or
        gradients of the wrong shape or not finite (`per_record_gradients`).
    NotApplicable
        No analysis covers the run; nothing has then been computed from the data.

    Source: the iteration of Bok, Su, Altschuler 2024, §4 (their `noisy SGD`).
    """
    _refuse_unenforceable(run)
    start = _starting_point(x0)
    guarantee = run.guarantee(delta)  # before the data is touched: it does not depend on it
    generator, secret = generator_from(random_state)
    if not secret:
        guarantee = guarantee.for_testing()
    handled_outside = sys.exc_info()[1]
    try:
        with np.errstate(all="ignore"):  # a floating-point warning would report on a hidden iterate
            x = _execute(run, per_record_gradients, start, generator)
    except BaseException as error:
        _forget_frames(error, handled_outside)
        raise
    return Trained(x, guarantee, run)


def _refuse_unenforceable(run: NoisySGD) -> None:
    """InvalidInput for what a guarantee may assume and this trainer would not do."""
    if not isinstance(run, NoisySGD):
        raise InvalidInput("run", f"expected a pabi.NoisySGD, got a {type(run).__name__}")
    if run.update != "sgd":
        raise InvalidInput(
            "update", f'expected "sgd", the only update trained here, got {run.update!r}'
        )
    if run.batches.kind not in _ORDERS:
        kinds = ", ".join(_ORDERS)
        raise InvalidInput("batches", f"expected one of {kinds}, got {run.batches.kind}")
    enforced = getattr(run.prox, "diameter", None)
    if run.diameter is not None and (enforced is None or not enforced <= run.diameter):
        kept = (
            "no prox bounds the iterates"
            if enforced is None
            else f"the prox keeps only {enforced!r}"
        )
        raise InvalidInput(
            "diameter",
            f"expected a prox that enforces it (as pabi.prox.ball does), got an assumed "
            f"{run.diameter!r}: {kept}",
        )


def _starting_point(x0: ArrayLike) -> Array:
    try:
        start = np.array(x0, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            "x0", f"expected an array of numbers, got a {type(x0).__name__}"
        ) from None
    if not np.all(np.isfinite(start)):
        raise InvalidInput("x0", "expected finite numbers")
    return start


# The order of the records, epoch by epoch.


def _in_order(n: int, generator: np.random.Generator) -> Iterator[Rows]:
    rows = np.arange(n)
    while True:
        yield rows


def _shuffled_once(n: int, generator: np.random.Generator) -> Iterator[Rows]:
    rows = generator.permutation(n)
    while True:
        yield rows


def _reshuffled(n: int, generator: np.random.Generator) -> Iterator[Rows]:
    while True:
        yield generator.permutation(n)


_ORDERS: dict[str, Callable[[int, np.random.Generator], Iterator[Rows]]] = {
    "full_batch": _in_order,
    "cyclic": _in_order,
    "shuffle_once": _shuffled_once,
    "reshuffle": _reshuffled,
}


def _batches(run: NoisySGD, generator: np.random.Generator) -> Iterator[Rows]:
    """The rows of one batch after another, without end."""
    for order in _ORDERS[run.batches.kind](run.n, generator):
        for first in range(0, run.n, run.batch_size):
            yield order[first : first + run.batch_size].copy()  # the callee may do as it likes


def _execute(
    run: NoisySGD,
    per_record_gradients: PerRecordGradients,
    x: Array,
    generator: np.random.Generator,
) -> Array:
    """The last iterate. Every local here is secret but the result."""
    bound = None if run.gradient_sensitivity is not None else run.record_gradient_bound
    step_sizes = np.broadcast_to(np.asarray(run.step_size, dtype=np.float64), run.steps)
    noise_stds = np.broadcast_to(np.asarray(run.gradient_noise_std, dtype=np.float64), run.steps)
    batches = _batches(run, generator)
    for k in range(run.steps):
        step_size = float(step_sizes[k])
        direction = run.loss.l2 * x
        if k < run.data_steps:
            rows = next(batches)
            gradients = _checked(per_record_gradients(_read_only(x), rows), (len(rows), *x.shape))
            if bound is not None:
                gradients = clip_norms(gradients, bound)
            direction = direction + np.sum(gradients, axis=0) / run.batch_size
        noise = float(noise_stds[k]) * generator.standard_normal(x.shape)
        x = np.asarray(x - step_size * (direction + noise))
        if run.prox is not None:
            x = _mapped(run.prox(x, step_size), x.shape)
    last = np.array(x, dtype=np.float64)  # its own memory, not a view of something hidden
    last.flags.writeable = False
    return last


def _read_only(x: Array) -> Array:
    view = x.view()
    view.flags.writeable = False
    return view


def _checked(value: Any, shape: tuple[int, ...]) -> Array:
    """Gradients as float64, or InvalidInput, which says nothing about their values."""
    try:
        gradients = np.asarray(value)
    except (TypeError, ValueError):
        raise InvalidInput(_GRADIENTS, f"expected an array of shape {shape}") from None
    if gradients.dtype.kind not in "fiu":
        raise InvalidInput(_GRADIENTS, f"expected real numbers, got dtype {gradients.dtype}")
    if gradients.shape != shape:
        raise InvalidInput(
            _GRADIENTS, f"expected shape (len(rows), *x.shape) = {shape}, got {gradients.shape}"
        )
    gradients = gradients.astype(np.float64, copy=False)
    if not np.all(np.isfinite(gradients)):
        raise InvalidInput(_GRADIENTS, "expected finite numbers for every record")
    return gradients


def _mapped(value: Any, shape: tuple[int, ...]) -> Array:
    """What the proximal map returned, or InvalidInput."""
    try:
        x = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("prox", f"expected it to return an array of shape {shape}") from None
    if x.shape != shape:
        raise InvalidInput("prox", f"expected it to keep the shape {shape}, got {x.shape}")
    return x


def _forget_frames(error: BaseException, handled_outside: BaseException | None) -> None:
    """Empties the frames that `error` came through: debuggers and error trackers show their locals,
    hidden iterates among them. Exceptions that were being handled before are left alone."""
    pending, seen = [error], set()
    while pending:
        current = pending.pop()
        if current is handled_outside or id(current) in seen:
            continue
        seen.add(id(current))
        traceback.clear_frames(current.__traceback__)
        pending += [e for e in (current.__cause__, current.__context__) if e is not None]
