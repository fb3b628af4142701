"""The pictures of a guarantee: its trade-off curve and ε(δ)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pabi.draw.axes import axes_for, keep_within, legend_within
from pabi.draw.lines import above_epsilons, below_errors
from pabi.draw.themes import palette
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import shown
from pabi.tradeoff import Product

if TYPE_CHECKING:
    from pabi.guarantees.guarantee import Guarantee


def plot_guarantee(guarantee: Guarantee, ax: Any = None) -> Any:
    """Draw (left) the trade-off curve and (right) ε against δ, each beside composition.

    Parameters
    ----------
    guarantee : Guarantee
        What to draw.
    ax : pair of matplotlib axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    array of matplotlib axes, (2,)
        Those that were drawn on.

    Raises
    ------
    InvalidInput
        For other than two axes.
    """
    ax = axes_for(ax, 1, 2, figsize=(11, 4.8))
    axes = np.ravel(np.asarray(ax, dtype=object))
    if axes.size != 2:
        raise InvalidInput("ax", f"expected a pair of axes, got {axes.size}")
    _draw_tradeoff(guarantee, axes[0])
    _draw_epsilon(guarantee, axes[1])
    return axes


def _curves(guarantee: Guarantee) -> list[tuple[Any, str, str, str]]:
    colours = palette()
    # A draw that has no path has nothing to compose.
    released = "last iterate" if guarantee.composition is not None else "release"
    method = guarantee.method.replace("$", r"\$")  # between two of them matplotlib reads formulas
    curves = [(guarantee.curve, f"{released} ({method})", colours.ours, "-")]
    if guarantee.composition is not None and guarantee.method != "composition":
        curves.append((guarantee.composition, "every iterate (composition)", colours.other, "--"))
    return curves


def _draw_tradeoff(guarantee: Guarantee, ax: Any) -> None:
    # So fine that the line is below the curve by less than it is wide.
    fpr = np.concatenate(([0.0], np.logspace(-6, -2, 120), np.linspace(0.011, 1.0, 560)))
    for curve, label, colour, dashes in _curves(guarantee):
        corners = below_errors(fpr, np.asarray(curve(fpr)))
        ax.plot(*corners, dashes, color=colour, label=label, linewidth=2)
    ax.plot([0, 1], [1, 0], ":", color=palette().neutral, label="perfect privacy")
    ax.set(
        xlabel="attacker's false-positive rate",
        ylabel="false-negative rate (at least)",
        title="What an attacker must accept",
        xlim=(0, 1),
        ylim=(0, 1.02),
        yticks=np.linspace(0.0, 1.0, 6),
    )
    ax.set_aspect("equal")
    legend_within(ax, loc="upper right")


def _draw_epsilon(guarantee: Guarantee, ax: Any) -> None:
    top, marks = 0.0, []
    for curve, label, colour, dashes in _curves(guarantee):
        # A product is composed anew for every δ; its curve is smooth.
        deltas = np.logspace(-12, -2, 31 if isinstance(curve, Product) else 161)
        epsilons = np.array([curve.epsilon(float(d)) for d in deltas])
        top = max(top, float(np.max(epsilons[np.isfinite(epsilons)], initial=0.0)))
        corners = above_epsilons(deltas, epsilons)
        ax.plot(*corners, dashes, color=colour, label=label, linewidth=2)
        marks.append(_mark(guarantee, curve, colour, ax))
    ax.set_xscale("log")
    ax.set(
        xlabel="δ", ylabel="ε (at most)", title="The (ε, δ) guarantee", ylim=(0, top * 1.08 or 1)
    )
    ax.grid(alpha=0.25)
    for mark in marks:
        if mark is not None:
            keep_within(ax, mark)
    legend_within(ax, loc="best")


def _mark(guarantee: Guarantee, curve: Any, colour: str, ax: Any) -> Any:
    """The reading at the δ the guarantee was tuned at; None if there is none to show."""
    delta = guarantee.tuned_at
    if not delta or not 1e-12 <= delta <= 1e-2:
        return None
    epsilon = curve.epsilon(delta)
    if np.isfinite(epsilon):
        ax.plot([delta], [epsilon], "o", color=colour)
        return ax.annotate(
            f"ε = {shown(epsilon, 4)}",
            (delta, epsilon),
            textcoords="offset points",
            xytext=(8, 8),
            color=colour,
        )
    return None
