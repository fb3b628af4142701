"""What trainers and samplers do so that what was accounted is what runs, and that nothing of a path shows."""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from pabi.describe.runs import NoisySGD
from pabi.describe.updates import rule_of
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import LEAST_SCALED, Array

T = TypeVar("T")
GRID = 2.0**-20  # of the last step's noise: the spacing of what is released
_GRIDS = (
    2.0**-900,
    2.0**900,
)  # beyond them a grid or its inverse may over- or underflow, and none is used


def refuse_unenforceable(run: NoisySGD) -> None:
    """Raises InvalidInput for a run whose guarantee assumes what this trainer would not do."""
    if type(run) is not NoisySGD:
        raise InvalidInput("run", f"expected a pabi.NoisySGD, got a {type(run).__name__}")
    rule_of(run.update).refuse_untrained()
    bound = run.record_gradient_bound
    if run.gradient_sensitivity is None and bound is not None and bound < LEAST_SCALED:
        raise InvalidInput(
            "clip_norm" if run.clip_norm == bound else "loss",
            f"expected a gradient bound of at least {LEAST_SCALED!r}, got {bound!r}: so near to the least "
            "double, scaling does not keep below a bound",
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
    grid = grid_of(noise_std)
    if grid is None:
        return x
    rounded: Array = np.asarray(np.rint(x / grid) * grid)
    return rounded


def grid_of(noise_std: float) -> float | None:
    """The power of two to whose multiples what has such noise is rounded, None where there is none."""
    grid = math.ldexp(1.0, math.frexp(noise_std * GRID)[1]) if noise_std > 0.0 else 0.0
    return grid if _GRIDS[0] < grid < _GRIDS[1] else None


def mapped(value: Any, shape: tuple[int, ...]) -> Array:
    """The point that a proximal map returned, of this shape. Raises InvalidInput for anything else."""
    try:
        x = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("prox", f"expected it to return an array of shape {shape}") from None
    if x.shape != shape:
        raise InvalidInput("prox", f"expected it to keep the shape {shape}, got {x.shape}")
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
    if x0 is None:
        raise InvalidInput("x0", "missing: a path starts somewhere")
    try:
        start = np.array(x0, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            "x0", f"expected an array of numbers, got a {type(x0).__name__}"
        ) from None
    if not np.all(np.isfinite(start)):
        raise InvalidInput("x0", "expected finite numbers")
    return start


def read_only(x: Array) -> Array:
    """A view of `x` for callables of the user's, through which they cannot change it."""
    view = x.view()
    view.flags.writeable = False
    return view


def returned(field: str, value: Any, shape: tuple[int, ...], named: str = "") -> Array:
    """What a callable returned as float64, or InvalidInput, which says nothing about its values.

    `named`: the shape in the names of the callable's arguments.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise InvalidInput(field, f"expected an array of shape {shape}") from None
    if array.dtype.kind not in "fiu":
        raise InvalidInput(field, f"expected real numbers, got dtype {array.dtype}")
    if array.shape != shape:
        expected = f"{named} = {shape}" if named else f"{shape}"
        raise InvalidInput(field, f"expected shape {expected}, got {array.shape}")
    array = array.astype(np.float64, copy=False)
    if not np.all(np.isfinite(array)):
        raise InvalidInput(field, "expected finite numbers")
    return array
