"""Figures as data, drawn: panels of curves, and text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pabi.draw.themes import Palette, palette


@dataclass(frozen=True)
class Curve:
    """Points of a panel. `kind`: "line", or "arrow" from the first point to the second."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int | None = None  # of the palette's cycle, 0 pabi's; None: neutral
    dash: str = "-"
    kind: str = "line"
    marker: str = ""


@dataclass(frozen=True)
class Surface:
    """A function on a grid: `z[i][j]` at (x[j], y[i])."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    z: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log: str = ""  # "x", "y" or "xy"
    equal: bool = False  # the same scale on both axes
    surface: Surface | None = None
    limits: Sequence[float] | None = None  # of x and y: [x0, x1, y0, y1]


@dataclass(frozen=True)
class Figure:
    """A published figure drawn anew. `columns` of panels; `legend`: one for all panels, below them."""

    panels: tuple[Panel, ...]
    remark: str = ""
    columns: int = 2
    legend: bool = False
    size: tuple[float, float] = field(default=(13.0, 5.8))  # inches


def draw(figure: Figure, title: str) -> Any:
    """The matplotlib figure, in the colours of the current style (see `pabi.plotting.style`)."""
    import matplotlib.pyplot as plt

    colours = palette()
    columns = min(figure.columns, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    drawn, axes = plt.subplots(
        rows, columns, figsize=figure.size, layout="constrained", squeeze=False
    )
    drawn.suptitle(title)
    for ax, panel in zip(axes.flat, figure.panels, strict=False):
        _draw_panel(ax, panel, colours, legend=not figure.legend)
    for ax in axes.flat[len(figure.panels) :]:
        ax.remove()
    if figure.legend:
        handles, labels = axes.flat[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3)
    return drawn


def _draw_panel(ax: Any, panel: Panel, colours: Palette, legend: bool) -> None:
    if panel.surface is not None:
        s = panel.surface
        filled = ax.contourf(s.x, s.y, s.z, levels=18, cmap="viridis")
        ax.figure.colorbar(filled, ax=ax, label=s.label)
    for curve in panel.curves:
        _draw_curve(ax, curve, colours)
    ax.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if "x" in panel.log:
        ax.set_xscale("log")
    if "y" in panel.log:
        ax.set_yscale("log")
    if panel.limits is not None:
        ax.axis(list(panel.limits))
    if panel.equal:
        ax.set_aspect("equal")
    if legend and any(curve.label for curve in panel.curves):
        ax.legend(fontsize="small")


def _draw_curve(ax: Any, curve: Curve, colours: Palette) -> None:
    colour = colours.neutral if curve.colour is None else colours.cycle[curve.colour]
    label = curve.label or None
    if curve.kind == "arrow":
        (x0, x1), (y0, y1) = curve.x, curve.y
        head = {"arrowstyle": "-|>", "color": colour, "linewidth": 2.4, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (x1, y1), (x0, y0), arrowprops=head)
        ax.plot([], [], color=colour, label=label)
    else:
        ax.plot(
            curve.x,
            curve.y,
            linestyle=curve.dash,
            color=colour,
            label=label,
            marker=curve.marker or None,
        )


def draw_text(text: str) -> Any:
    """Text as a picture, in one width of letters."""
    import matplotlib.pyplot as plt

    lines = text.splitlines()
    width, height = 0.085 * max(map(len, lines)) + 0.6, 0.185 * len(lines) + 0.5
    drawn = plt.figure(figsize=(width, height))
    drawn.text(0.3 / width, 1.0 - 0.25 / height, text, family="monospace", fontsize=10, va="top")
    return drawn
