"""Axes to draw on, and legends that stay within them and off their curves."""

from __future__ import annotations

from typing import Any

import numpy as np

_SIZES = ("small", 7, 6, 5)  # of a legend's text, until it is as narrow as its panel
_GAP = 0.03  # of the panel's height, between curves and legend
_MOST = 0.8  # of the panel's height, for a legend


def axes_for(ax: Any, *shape: int, figsize: tuple[float, float]) -> Any:
    """`ax`, or where it is None those of a new figure: one pair, or an array of this shape."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(*shape, figsize=figsize, layout="constrained")[1]


def legend_within(ax: Any, **options: Any) -> Any:
    """A legend that leaves no panel and covers no curve; where there is too little room, in smaller type and
    above the curves, which then end lower.

    `options`: of `ax.legend`.
    """
    for size in _SIZES:
        sizes = {"fontsize": size} | ({"title_fontsize": size} if "title" in options else {})
        legend = ax.legend(frameon=False, **(options | sizes))
        if _free(ax, legend):
            return legend
        if _share(ax, legend)[0] <= 1.0:
            break
    legend.set_loc("upper right")
    low, high = ax.get_ylim()
    for _ in range(3):  # a panel of fixed proportions changes with its limits
        room = 1.0 - min(_MOST, _share(ax, legend)[1] + _GAP)
        ax.set_ylim(low, _raised(ax, low, high, room))
        if _free(ax, legend):
            break
    return legend


def keep_within(ax: Any, text: Any) -> None:
    """Turn an annotation that leaves the panel on the right to the left of its point, and below it where
    there is room, as curves of ε fall."""
    _lay_out(ax)
    panel = ax.get_window_extent()
    if text.get_window_extent().x1 <= panel.x1:
        return
    right, up = text.get_position()
    text.set(position=(-right, -up), horizontalalignment="right", verticalalignment="top")
    if text.get_window_extent().y0 < panel.y0 + up:
        text.set(position=(-right, 2 * up), verticalalignment="baseline")


def _lay_out(ax: Any) -> None:
    ax.figure.figure.draw_without_rendering()


def _share(ax: Any, legend: Any) -> tuple[float, float]:
    """Width and height of a legend, as shares of its panel's."""
    _lay_out(ax)
    inner, outer = legend.get_window_extent(), ax.get_window_extent()
    return inner.width / outer.width, inner.height / outer.height


def _free(ax: Any, legend: Any) -> bool:
    _lay_out(ax)
    inner, outer = legend.get_window_extent(), ax.get_window_extent()
    if not (outer.x0 <= inner.x0 and inner.x1 <= outer.x1 and outer.y0 <= inner.y0):
        return False
    paths = (line.get_transform().transform_path(line.get_path()) for line in ax.lines)
    curves = (path.cleaned(remove_nans=True) for path in paths)
    crossed = any(curve.intersects_bbox(inner, filled=False) for curve in curves)
    return not (crossed or any(inner.overlaps(text.get_window_extent()) for text in ax.texts))


def _raised(ax: Any, low: float, high: float, room: float) -> float:
    """An upper limit with which what reaches up to `high` takes `room`, a share of the height."""
    if ax.get_yscale() == "log":
        return float(low * np.exp(np.log(high / low) / room))
    return low + (high - low) / room
