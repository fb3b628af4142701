"""Axes to draw on."""

from __future__ import annotations

from typing import Any


def axes_for(ax: Any, *shape: int, figsize: tuple[float, float]) -> Any:
    """`ax`, or where it is None those of a new figure: one pair, or an array of this shape."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(*shape, figsize=figsize, layout="constrained")[1]
