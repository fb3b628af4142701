"""ε against the length of the run, for every published bound that applies."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pabi.describe.iteration import Column, NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.draw.themes import axes_for, legend_within, palette
from pabi.literature.comparison import OURS, Comparison, Description, Row, compare
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.showing import exact

if TYPE_CHECKING:
    from pabi.numbers.rounding import Array

# Lines of one status are told apart by these, besides their colours.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_POINTS = ("*", "p", "h", "8", "d")
_EQUAL = 1e-9  # relative: curves that no picture shows apart
_STYLES: dict[str, Any] = {
    "sound": "-",
    "refuted": (0, (5, 2)),
    "unverified": (0, (1, 1.5)),
    "stated": (0, (5, 1.5, 1, 1.5)),
}


def draw(comparison: Comparison, ax: Any = None) -> Any:
    """Draw the picture on `ax` (None for a new figure) and return the axes.

    Sound bounds are solid, refuted ones dashed, unverified ones dotted, stated ones both, pabi's thick and
    without markers. Bounds that coincide everywhere share a line. What is known at one length only is a
    marker.
    """
    run, delta = comparison.description, comparison.delta
    own = ax is None
    ax = axes_for(ax, figsize=(10, 5.4))
    lengths, unit = _lengths(run)
    functions = comparison.functions
    columns = [compare(_shortened(run, length), delta, also=functions).rows for length in lengths]
    names = {row.name for column in columns for row in column if row.applies}
    labels = {row.name: _label(row) for row in comparison.rows}
    curves = {
        name: np.array([_epsilon(column, name) for column in columns]) for name in sorted(names)
    }
    status = {row.name: row.status for row in comparison.rows}
    x = np.array(lengths, dtype=np.float64)
    order = sorted((n for n in names if n != OURS), key=lambda n: _last(curves[n]))
    colours, top = palette(), _top(curves)
    for k, group in enumerate(_merged(order, curves, status)):
        first = group[0]
        beyond = "" if np.any(curves[first] <= top) else "\n(beyond the top)"
        ax.plot(
            x,
            curves[first],
            linestyle=_STYLES[status[first]],
            color=colours.cycle[1 + k % (len(colours.cycle) - 1)],
            label="\n= ".join(labels[name] for name in group) + beyond,
            linewidth=1.8,
            marker=_MARKERS[k % len(_MARKERS)],
            markersize=5.5,
            markevery=_marked(curves[first], k) or None,
        )
    if OURS in curves:
        thick = {"color": colours.ours, "label": labels[OURS], "linewidth": 3.6, "zorder": 0.9}
        ax.plot(x, curves[OURS], "-", **thick)
    points = {
        row.name: row
        for row in comparison.rows
        if row.name in comparison.also and row.name not in functions
    }
    for k, row in enumerate(points.values()):
        mark = _POINTS[k % len(_POINTS)]
        colour = colours.cycle[1 + (len(order) + k) % (len(colours.cycle) - 1)]
        place = ([x[-1]], [row.epsilon])
        ax.plot(
            *place, mark, color=colour, label=_label(row), markersize=9, clip_on=False, zorder=3
        )
    shown = curves | {name: np.array([_epsilon(comparison.rows, name)]) for name in points}
    _dress(ax, shown, x, unit, delta, own=own)
    return ax


def _lengths(run: Description) -> tuple[list[Any], str]:
    """Lengths from 1 to the run's own, evenly on a logarithmic scale, and their unit."""
    if isinstance(run, ExponentialMechanism):
        raise InvalidInput("ax", "one draw has no length to draw bounds against")
    if isinstance(run, Unlearning):
        raise InvalidInput("ax", "forgetting has no picture: plan it for other numbers of epochs")
    if isinstance(run, LangevinDiffusion):
        require(run.constant, "ax", "a diffusion of varying temperature has no picture")
        return np.geomspace(1e-3 * run.time, run.time, 41).tolist(), "time"
    if isinstance(run, LangevinChain):
        return _lengths(run.run)
    if isinstance(run, NoisyIteration):
        assert run.steps is not None
        total, unit, points = run.steps, "steps", 25
    else:
        require(run.constant, "ax", "a run of varying steps has no picture: its length is fixed")
        sampled = run.order.fresh
        in_steps = sampled or run.steps_per_epoch == 1
        total = run.data_steps if in_steps else run.data_steps // run.steps_per_epoch
        unit = "steps" if in_steps else "epochs"
        points = 9 if sampled else 25
    grid = np.geomspace(1, max(total, 1), points)
    return sorted({round(float(k)) for k in grid} | {max(total, 1)}), unit


def _shortened(run: Description, length: Any) -> Description:
    if isinstance(run, LangevinDiffusion):
        return replace(run, time=length)
    if isinstance(run, LangevinChain):
        return replace(run, steps=cast("NoisySGD", _shortened(run.run, length)).steps)
    if isinstance(run, NoisyIteration):
        return _first_steps(run, length)
    assert isinstance(run, NoisySGD)
    if not (run.order.fresh or run.steps_per_epoch == 1):
        length = length * run.steps_per_epoch
    return replace(run, epochs=None, total_steps=length + run.cooldown_steps)


def _first_steps(it: NoisyIteration, length: int) -> NoisyIteration:
    def cut(value: Any) -> Any:
        if isinstance(value, Column):
            value = np.asarray(value)
        return value[:length] if isinstance(value, np.ndarray | tuple) else value

    columns = ("contraction", "step_sensitivity", "step_noise_std", "moduli")
    return replace(it, steps=length, **{name: cut(getattr(it, name)) for name in columns})


def _epsilon(rows: tuple[Row, ...], name: str) -> float:
    epsilon = next(row.epsilon for row in rows if row.name == name)
    return math.nan if epsilon is None or not epsilon > 0.0 else epsilon


def _last(values: Array) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else math.inf


def _merged(names: list[str], curves: dict[str, Array], status: dict[str, Any]) -> list[list[str]]:
    """The names by groups of equal curves and status."""
    groups: list[list[str]] = []
    for name in names:
        for group in groups:
            same = np.allclose(curves[name], curves[group[0]], rtol=_EQUAL, equal_nan=True)
            if same and status[name] == status[group[0]]:
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _marked(values: Array, k: int) -> list[int]:
    """Three or four points of a curve, other ones for every `k`, so that markers do not hide one another."""
    there = np.flatnonzero(np.isfinite(values))
    every = max(1, len(there) // 3)
    return [int(i) for i in there[(2 * k) % every :: every]]


def _label(row: Row) -> str:
    if row.name == OURS:
        return row.source
    doubt = "" if row.status == "sound" else f", {row.status}"
    authors, _, theorem = re.sub(r" \([A-Za-z].*", "", row.source).rpartition(", ")
    names = re.sub(r" \d{4}$", "", authors).split(", ")
    short = f"{names[0]} et al." if len(names) > 2 else " & ".join(names)
    theorem = theorem.replace("Theorem", "Thm").replace("Corollary", "Cor.")
    return f"{short}, {theorem}{doubt}" if authors else f"{row.source}{doubt}"


def _top(curves: dict[str, Array]) -> float:
    """The largest ε that is shown: within 300 times pabi's."""
    most = math.inf
    own = curves.get(OURS)
    if own is not None and np.isfinite(own).any():
        most = 300.0 * float(np.nanmax(own[np.isfinite(own)]))
    shown = [c[np.isfinite(c) & (c <= most)] for c in curves.values()]
    return float(np.max(np.concatenate(shown), initial=0.0))


def _dress(
    ax: Any, curves: dict[str, Array], x: Array, unit: str, delta: float, *, own: bool
) -> None:
    """Axes, title and legend; `own`: whether the figure is ours, with room beside the axes."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    top = _top(curves)
    low = min(float(np.nanmin(c[np.isfinite(c)], initial=math.inf)) for c in curves.values())
    ax.set(
        xlabel=unit,
        ylabel=f"ε at δ = {exact(delta)}",
        title=("What is known of this run, " if own else "What is known of this run,\n")
        + "of which only the last iterate is released",
        xlim=(float(x[0]), float(x[-1])) if x[-1] > x[0] else None,
        ylim=(0.8 * low, 1.4 * top),
    )
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.grid(alpha=0.25, which="major")
    about: dict[str, Any] = {
        "title": "solid: sound; dashed: refuted;\ndotted: unverified; dash-dotted: stated",
        "alignment": "left",
        "title_fontsize": "small",
        "labelspacing": 0.8,
    }
    if own:
        beside = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "fontsize": "small"}
        ax.legend(frameon=False, **beside, **about)
    else:
        legend_within(ax, loc="best", **about)
    bottom, top = ax.get_ylim()
    ax.yaxis.set_minor_formatter("{x:g}" if top < 175.0 * bottom else "")
