"""Executes the Langevin chain that was accounted: the same description, read by a sampler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi import validate
from pabi.errors import InvalidInput
from pabi.langevin import LangevinChain
from pabi.learn.engine import _forget_frames, _on_grid, _refuse_unenforceable
from pabi.learn.orders import Order
from pabi.learn.randomness import generator_from
from pabi.learn.records import Rows
from pabi.rounding import Array
from pabi.sampling.draws import Draws
from pabi.sampling.each_chain import EachChain, each_chain
from pabi.sampling.linear_models import MeanGradient

Gradient = Callable[..., ArrayLike]

TAKEN = (
    "gradient returns that of the mean loss as described, regulariser included and rounding excluded, of "
    "each chain from its own point alone"
)


def langevin(
    chain: LangevinChain,
    gradient: Gradient,
    x0: ArrayLike,
    thin: int = 1,
    random_state: int | np.random.Generator | None = None,
    *,
    delta: float = 1e-5,
) -> Draws:
    """Draws of `chain`, all of its chains at once, with their guarantee.

    Every step is x ← Π(x − h(∇L(x) + ξ)), ξ ~ N(0, ς²I), with h = `chain.gradient_step`, hς = √(2η)
    (rounded as `chain.run` accounts for it), and Π the proximal map `chain.prox`(·, h), on each chain by
    itself. What is released is rounded to a grid of 2⁻²⁰ of the noise, so that low-order bits say
    nothing.

    Parameters
    ----------
    chain : LangevinChain
        What to do. With `release="last"` exactly one draw a chain is kept, its last iterate: nothing else
        that depends on a path is kept, shown or returned, which the guarantee rests on.
    gradient : callable
        (chains, *shape) ↦ (chains, *shape): ∇L of the mean loss, regulariser included, at every chain's
        point. With batches other than `FullBatch()` it is called as gradient(x, rows) and returns
        (1/size)·Σ_{i in rows} ∇ℓ_i(x) + l2·x, whatever the number of rows, an (m,) integer array. It must
        not keep or show what it is given. `mean_gradient` makes one for linear models.
    x0 : array
        Where the chains start, chosen without looking at the data: of the shape of a point, for all of
        them, or, with two axes or more of which the first is as long as there are chains, one for each.
        Not projected.
    thin : int
        With `release="path"`: every `thin`-th iterate is returned, counted back from the last, which is
        among them. The guarantee is that of the whole path.
    random_state : None, int or numpy Generator
        None (default): noise and batches from a ChaCha generator keyed by the operating system. Anything
        else is for tests: a PrivacyWarning, and a guarantee that says so.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.

    Raises
    ------
    InvalidInput
        `diameter` where it is only assumed, `thin`, `x0`, `prox`, `random_state`, or a gradient of the
        wrong shape or not finite.
    NotApplicable
        No analysis covers the chain; nothing has then been computed from the data.

    The law sampled is the chain's own, which is not the Gibbs law ∝ exp(−βL): see docs, "Sampling".
    Source: Bok, Su, Altschuler 2024, §5; Bravo, Flores-Mella, Guzmán, (PLA).
    """
    if not isinstance(chain, LangevinChain):
        raise InvalidInput("chain", f"expected a pabi.LangevinChain, got a {type(chain).__name__}")
    _refuse_unenforceable(chain.run)
    validate.integer("thin", thin, at_least=1, at_most=chain.steps)
    if thin != 1 and chain.release != "path":
        raise InvalidInput("thin", f'expected 1 with release="last", got {thin}')
    if not callable(gradient):
        raise InvalidInput("gradient", f"expected a callable, got a {type(gradient).__name__}")
    if isinstance(gradient, MeanGradient):
        gradient.refuse_other(chain)
    start = starting_points(x0, chain.chains)
    project = each_chain(chain.prox, start.shape[1:])
    guarantee = chain.guarantee(delta)  # before the data is touched: it does not depend on it
    if not (isinstance(gradient, MeanGradient) and gradient.loss == chain.loss):
        guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, TAKEN))
    generator, secret = generator_from(random_state)
    if not secret:
        guarantee = guarantee.for_testing()

    def steps(x: Array) -> Array:
        return _execute(chain, gradient, project, x, thin, generator)

    return Draws(unseen(steps, start), guarantee, chain, chain.release)


def unseen(execute: Callable[[Array], Array], start: Array) -> Array:
    """What `execute` returns, read-only; what it raises carries nothing of what it computed."""
    handled_outside = sys.exc_info()[1]
    try:
        # A floating-point warning would report on a hidden iterate.
        with np.errstate(all="ignore"):
            values = execute(start)
    except BaseException as error:
        _forget_frames(error, handled_outside)
        raise
    values.flags.writeable = False
    return values


def starting_points(x0: ArrayLike, chains: int) -> Array:
    """(chains, *shape) from one starting point or one for each chain, or InvalidInput."""
    try:
        start = np.array(x0, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            "x0", f"expected an array of numbers, got a {type(x0).__name__}"
        ) from None
    if not np.all(np.isfinite(start)):
        raise InvalidInput("x0", "expected finite numbers")
    if start.ndim >= 2 and len(start) == chains:
        return start
    return np.broadcast_to(start, (chains, *start.shape)).copy()


def _execute(
    chain: LangevinChain,
    gradient: Gradient,
    project: EachChain,
    x: Array,
    thin: int,
    generator: np.random.Generator,
) -> Array:
    """The draws. Every local here is secret but the result."""
    run = chain.run
    path = chain.release == "path"
    step_size, noise_std = float(run.step_size), float(run.gradient_noise_std)
    batches = chain.batches.kind != "full_batch"
    order = Order(run, generator)
    kept = np.empty((chain.chains, -(-chain.steps // thin) if path else 1, *x.shape[1:]))
    for k in range(chain.steps):
        if not batches:
            mean = checked("gradient", gradient(_read_only(x)), x.shape)
        else:
            rows = order.batch(k)
            if rows is None:  # an empty batch: the regulariser alone, and nobody is asked
                mean = chain.loss.l2 * x
            else:
                mean = checked("gradient", gradient(_read_only(x), _indices(rows)), x.shape)
        noisy = generator.standard_normal(x.shape)
        noisy *= noise_std
        noisy += mean
        x = x - step_size * noisy
        left = chain.steps - 1 - k
        if path or left == 0:
            x = _on_grid(x, step_size * noise_std)
        x = project(x, step_size)
        if path and left % thin == 0:
            kept[:, -1 - left // thin] = x
    if not path:
        kept[:, 0] = x
    return kept


def checked(field: str, value: Any, shape: tuple[int, ...]) -> Array:
    """What a callable returned as float64, or InvalidInput, which says nothing about its values."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise InvalidInput(field, f"expected an array of shape {shape}") from None
    if array.dtype.kind not in "fiu":
        raise InvalidInput(field, f"expected real numbers, got dtype {array.dtype}")
    if array.shape != shape:
        raise InvalidInput(field, f"expected shape {shape}, got {array.shape}")
    array = array.astype(np.float64, copy=False)
    if not np.all(np.isfinite(array)):
        raise InvalidInput(field, "expected finite numbers")
    return array


def _read_only(x: Array) -> Array:
    view = x.view()
    view.flags.writeable = False
    return view


def _indices(rows: Rows) -> NDArray[np.intp]:
    """The rows of a batch as an array of the callee's own."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows.copy()
