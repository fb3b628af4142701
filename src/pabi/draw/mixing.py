"""The bound on total variation against steps, beside an estimate from chains that begin far apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pabi.account.mixing import total_variation_bound
from pabi.describe.losses import Loss
from pabi.draw.axes import axes_for
from pabi.draw.themes import palette
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array


class Estimate(NamedTuple):
    """How far apart the laws of two samples are, measured by a test.

    The test is chosen on one half of each sample and read on the other half.

    Parameters
    ----------
    advantage : float, in [0, 1]
        The difference of the shares of both samples that pass the test.
    lower : float, in [0, 1]
        A lower confidence bound on the total variation of the laws.
    """

    advantage: float
    lower: float


def total_variation_estimate(
    first: ArrayLike, second: ArrayLike, confidence: float = 0.99
) -> Estimate:
    """How far apart the laws of two samples surely are: no larger than their total variation.

    The test is a threshold along the direction of the difference of the means, chosen on the even
    draws and read on the odd ones.

    Parameters
    ----------
    first : array, (k, d), k ≥ 4
        Independent draws of one law.
    second : array, (k, d), k ≥ 4
        Independent draws of the other law.
    confidence : float, in (0, 1)
        The probability with which `lower` holds, by Hoeffding's inequality.

    Returns
    -------
    Estimate
        The advantage of the test, and a lower bound on the total variation.

    Raises
    ------
    InvalidInput
        For another confidence, and for samples of other shapes or values.

    References
    ----------
    docs, "Mixing".
    """
    level = validate.number("confidence", confidence, above=0.0, below=1.0)
    samples = []
    for name, draws in (("first", first), ("second", second)):
        values = np.asarray(draws, dtype=np.float64)
        if values.ndim != 2 or len(values) < 4 or not np.isfinite(values).all():
            raise InvalidInput(name, f"expected finite (k, d) draws, k ≥ 4, got {values.shape}")
        samples.append(values)
    if samples[0].shape[1] != samples[1].shape[1]:
        raise InvalidInput("second", f"expected points of length {samples[0].shape[1]}")
    direction = samples[0][::2].mean(axis=0) - samples[1][::2].mean(axis=0)
    if not direction.any():
        direction = np.ones_like(direction)
    seen, fresh = ([x[k::2] @ direction for x in samples] for k in (0, 1))
    threshold = _best_threshold(*seen)
    shares = [float(np.mean(x > threshold)) for x in fresh]
    advantage = shares[0] - shares[1]
    # Each share is a mean of m numbers in [0, 1]; their difference is off by √(ln(1/α)/m) at most.
    m = min(len(x) for x in fresh)
    lower = advantage - math.sqrt(-math.log1p(-level) / m)
    return Estimate(max(0.0, advantage), max(0.0, lower))


def _best_threshold(first: Array, second: Array) -> float:
    """Where the empirical distribution functions differ most."""
    points = np.sort(np.concatenate([first, second]))
    below = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (first, second)]
    return float(points[np.argmax(below[1] - below[0])])


def plot(
    loss: Loss,
    diameter: float,
    step_size: float,
    steps: int,
    inverse_temperature: float = 1.0,
    *,
    gradient: Callable[[Array], ArrayLike] | None = None,
    prox: Any = None,
    starts: tuple[ArrayLike, ArrayLike] | None = None,
    chains: int = 4000,
    random_state: int | None = None,
    ax: Any = None,
) -> Any:
    """Draw the bound on the distance to the stationary law against the number of steps.

    With a gradient also what is measured is drawn: chains run from each of two starts. They are run
    for the picture alone, which shows what no guarantee speaks of: use public or made-up data.

    Parameters
    ----------
    loss : Loss
        As for `pabi.mixing_time`.
    diameter : float, above 0
        D, the diameter of the set.
    step_size : float, above 0
        η, the size of a step of the chain.
    steps : int, at least 1
        The largest number of steps that is drawn.
    inverse_temperature : float, above 0
        β, what the mean loss is multiplied by.
    gradient : callable, (chains, *shape) ↦ (chains, *shape), optional
        The gradient of the mean loss, regulariser included.
    prox : proximal map, optional
        The proximal map onto the set.
    starts : pair of arrays of the shape of a point, optional
        Two points, as far apart as the set allows; needed with a gradient.
    chains : int, at least 4
        How many chains are run from each start.
    random_state : int, optional
        Seed of the chains.
    ax : matplotlib axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib axes
        Those that were drawn on.

    Raises
    ------
    InvalidInput
        Naming the field that is wrong, and for a gradient without starts.

    References
    ----------
    docs, "Mixing"; compare Bravo, Flores-Mella, Guzmán, Theorem 4.2.
    """
    validate.integer("steps", steps, at_least=1)
    ax = axes_for(ax, figsize=(6.4, 4.2))
    counts = np.unique(np.geomspace(1, steps, 60).round().astype(np.int64))
    bounds = total_variation_bound(loss, diameter, step_size, counts, inverse_temperature)
    ax.plot(counts, bounds, "-", color=palette().ours, linewidth=2.2, label="proven: at most")
    if gradient is not None:
        if starts is None:
            raise InvalidInput("starts", "missing: two points, as far apart as the set allows")
        measured = _measured(
            gradient,
            prox,
            starts,
            counts[::4],
            chains=chains,
            random_state=random_state,
            step_size=step_size,
            inverse_temperature=inverse_temperature,
        )
        low = [one.advantage - one.lower for one in measured]
        ax.errorbar(
            counts[::4],
            [one.advantage for one in measured],
            yerr=[low, np.zeros(len(low))],
            fmt="o",
            color=palette().other,
            markersize=4,
            capsize=2,
            label=f"measured between two starts, {chains} chains each\n(bars: surely at least, 99 %)",
        )
    ax.set(
        xscale="log",
        xlabel="steps",
        ylabel="total variation",
        ylim=(0.0, 1.02),
        title="How soon the chain forgets where it began",
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(alpha=0.25)
    ax.legend(frameon=False, fontsize="small")
    return ax


def _measured(
    gradient: Callable[[Array], ArrayLike],
    prox: Any,
    starts: tuple[ArrayLike, ArrayLike],
    counts: Any,
    *,
    chains: int,
    random_state: int | None,
    step_size: float,
    inverse_temperature: float,
) -> list[Estimate]:
    """The estimates after each of `counts` steps."""
    from pabi.sampling.each_chain import each_chain

    generator = np.random.default_rng(random_state)
    points = [np.asarray(start, dtype=np.float64) for start in starts]
    project = each_chain(prox, points[0].shape)
    clouds = [np.repeat(point[None], chains, axis=0) for point in points]
    h, sigma = step_size * inverse_temperature, math.sqrt(2.0 * step_size)
    estimates = []
    for k in range(1, int(counts[-1]) + 1):
        for i, x in enumerate(clouds):
            moved = x - h * np.asarray(gradient(x)) + sigma * generator.standard_normal(x.shape)
            clouds[i] = project(moved, h)
        if k in counts:
            one, other = (x.reshape(chains, -1) for x in clouds)
            estimates.append(total_variation_estimate(one, other))
    return estimates
