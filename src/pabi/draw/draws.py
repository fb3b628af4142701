"""Pictures of draws: posteriors, and traces where a path is released."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pabi.draw.themes import palette
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

_MOST_COORDINATES = 6
_MOST_CHAINS = 4  # traces told apart in one picture
_MOST_POINTS = 2_000  # of a trace
_FEW = 30  # draws, shown one by one rather than counted


def plot_path(values: Array, ax: Any, discard: int, names: Any) -> Any:
    """Posterior and trace of each coordinate, (coordinates, 2) axes."""
    flat, labels = _coordinates(values, names)
    axes = _axes(ax, (len(labels), 2), (9.0, 2.1 * len(labels) + 0.5), [2, 3])
    for i, label in enumerate(labels):
        _posterior(axes[i, 0], flat[:, discard:, i].ravel(), label)
        _trace(axes[i, 1], flat[:, :, i], discard, label)
    axes[0, 0].set_title(_posterior_title(flat[:, discard:, 0].size))
    axes[0, 1].set_title(_trace_title(len(flat)))
    axes[-1, 1].set_xlabel("draw")
    return axes


def plot_posterior(values: Array, ax: Any, names: Any) -> Any:
    """The posterior of each coordinate, across chains and draws, (coordinates,) axes."""
    flat, labels = _coordinates(values, names)
    columns = min(3, len(labels))
    rows = math.ceil(len(labels) / columns)
    if ax is None:
        height = 1.3 if flat[:, :, 0].size < _FEW else 2.5
        size = (3.4 * columns + 0.3, height * rows + 0.5)
        grid = _axes(None, (rows, columns), size, None).ravel()
        for spare in grid[len(labels) :]:
            spare.set_visible(False)
        axes = grid[: len(labels)]
        grid[0].figure.suptitle(_posterior_title(flat[:, :, 0].size))
    else:
        axes = _axes(ax, (len(labels),), None, None)
    for i, label in enumerate(labels):
        _posterior(axes[i], flat[:, :, i].ravel(), label)
    return axes


def _coordinates(values: Array, names: Any) -> tuple[Array, list[str]]:
    """(chains, draws, coordinates) and their names."""
    shape = values.shape[2:]
    flat = values.reshape(*values.shape[:2], -1)
    if names is None:
        names = [f"x[{', '.join(map(str, i))}]" if i else "x" for i in np.ndindex(*shape)]
    labels = [str(name) for name in names]
    if len(labels) != flat.shape[2]:
        raise InvalidInput(
            "names", f"expected {flat.shape[2]}, one a coordinate, got {len(labels)}"
        )
    return flat[:, :, :_MOST_COORDINATES], labels[:_MOST_COORDINATES]


def _axes(ax: Any, shape: tuple[int, ...], size: Any, widths: Any) -> Any:
    if ax is None:
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots(
            *shape, figsize=size, squeeze=False, layout="constrained", width_ratios=widths
        )
        engine: Any = figure.get_layout_engine()
        engine.set(wspace=0.06, hspace=0.04)
    axes = np.asarray(ax, dtype=object)
    if axes.size != math.prod(shape):
        raise InvalidInput("ax", f"expected axes of shape {shape}, got {axes.shape}")
    return axes.reshape(shape)


def _posterior(ax: Any, draws: Array, label: str) -> None:
    """A histogram with its mean and central 90 %; few draws as ticks."""
    colours = palette()
    if draws.size < _FEW:
        ax.vlines(draws, 0.0, 0.7, color=colours.ours, linewidth=1.8)
        ax.set_ylim(0.0, 1.0)
    else:
        bins = min(60, max(10, round(2.0 * draws.size ** (1 / 3))))
        ax.hist(draws, bins=bins, density=True, color=colours.shade, linewidth=0)
        low, mean, high = np.quantile(draws, 0.05), np.mean(draws), np.quantile(draws, 0.95)
        ax.axvline(mean, color=colours.other, linewidth=1.8)
        ax.plot(
            [low, high],
            [0.0, 0.0],
            color=colours.other,
            linewidth=5,
            solid_capstyle="butt",
            clip_on=False,
        )
    ax.set_xlabel(label)
    ax.locator_params(axis="x", nbins=5)
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)


def _trace(ax: Any, draws: Array, discard: int, label: str) -> None:
    length = draws.shape[1]
    every = -(-length // _MOST_POINTS)
    at = np.arange(0, length, every)
    for path, colour in zip(draws[:_MOST_CHAINS], palette().cycle, strict=False):
        ax.plot(at, path[at], "-", color=colour, linewidth=0.7)
    if discard:
        ax.axvspan(0, discard, color=palette().neutral, alpha=0.18, linewidth=0)
        # The way to the posterior may be much longer than the posterior is wide.
        low, high = float(np.min(draws[:, discard:])), float(np.max(draws[:, discard:]))
        room = 0.25 * (high - low)
        if room > 0.0:
            ax.set_ylim(low - room, high + room)
    ax.set_xlim(0, max(length - 1, 1))
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)


def _posterior_title(draws: int) -> str:
    return "draws" if draws < _FEW else "posterior: mean and central 90 %"


def _trace_title(chains: int) -> str:
    if chains == 1:
        return "trace"
    return (
        f"trace, {chains} chains"
        if chains <= _MOST_CHAINS
        else f"trace, {_MOST_CHAINS} of {chains} chains"
    )
