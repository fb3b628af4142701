"""The pictures of a guarantee and of an audit, on axes of their own or within a page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from pabi.draw.themes import (
    Palette,
    above_epsilons,
    axes_for,
    below_errors,
    keep_within,
    legend_within,
    palette,
    palette_of,
    style,
)
from pabi.numbers.errors import require
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown
from pabi.tradeoff import Product

if TYPE_CHECKING:
    from pabi.audits.audit import Audit
    from pabi.audits.laws import LawPair
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
    require(axes.size == 2, "ax", f"expected a pair of axes, got {axes.size}")
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
    about = {"ylabel": "false-negative rate (at least)", "title": "What an attacker must accept"}
    _finish_errors(ax, **about, yticks=np.linspace(0.0, 1.0, 6))


def _finish_errors(ax: Any, **about: Any) -> None:
    """The line of perfect privacy, axes of error rates, and a legend."""
    ax.plot([0, 1], [1, 0], ":", color=palette().neutral, label="perfect privacy")
    ax.set(xlabel="attacker's false-positive rate", xlim=(0, 1), ylim=(0, 1.02), **about)
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


# The picture of a guarantee within a page: SVG whose colours are variables of the page's style.


_COLOURS = ("ours", "other", "ink", "neutral", "paper")
_SIZE = (11.0, 4.8)
# What no page needs, and what would name another place: comments, metadata and namespaces.
_BESIDE = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|\sxmlns(:\w+)?=\"[^\"]*\"", re.DOTALL)


def variables() -> str:
    """The style that sets the colours of pictures and page, for light and dark screens; prints are light."""
    light, dark = (_set(palette_of(theme)) for theme in ("light", "dark"))
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def inline_picture(guarantee: Guarantee) -> str:
    """What `guarantee.plot()` draws, as an element of HTML."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    file = io.StringIO()
    with style("light") as colours:
        figure = Figure(figsize=_SIZE, layout="constrained")
        FigureCanvasSVG(figure)
        plot_guarantee(guarantee, figure.subplots(1, 2))
        figure.savefig(file, format="svg")
    return _themed(file.getvalue(), colours)


def _themed(svg: str, colours: Palette) -> str:
    """The element alone, with variables in place of the colours of a palette."""
    element = _BESIDE.sub("", svg[svg.index("<svg") :]).replace("xlink:href=", "href=")
    for name in _COLOURS:
        element = re.sub(re.escape(getattr(colours, name)), f"var(--{name})", element, flags=re.I)
    label = 'role="img" aria-label="The trade-off curve, and ε against δ"'
    return element.strip().replace("<svg", f"<svg {label}", 1)


def _set(colours: Palette) -> str:
    values = {name: getattr(colours, name) for name in _COLOURS}
    faint = f"color-mix(in srgb, {colours.neutral} 22%, transparent)"
    return " ".join(f"--{name}: {value};" for name, value in (values | {"line": faint}).items())


# The picture of an audit: what is promised, what the worst instance costs, and what trainings refute.


def plot_audit(audit: Audit, ax: Any = None) -> Any:
    """Draw the trade-off curves of the guarantee and of the instance, and the points of the trainings.

    Parameters
    ----------
    audit : Audit
        What to draw.
    ax : matplotlib axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib axes
        Those that were drawn on.

    Raises
    ------
    Nothing.
    """
    ax = axes_for(ax, 1, 1, figsize=(5.6, 5.2))
    colours = palette()
    fpr = np.concatenate(([0.0], np.logspace(-6, -2, 60), np.linspace(0.011, 1.0, 280)))
    promised = below_errors(fpr, np.asarray(audit.guarantee.curve(fpr)))
    ax.plot(*promised, color=colours.ours, linewidth=2, label="guarantee")
    if audit.law is not None:
        ax.plot(*exact_curve(audit.law), "--", color=colours.other, label="exact instance")
    label = f"{audit.trainings} trainings"
    ax.plot(*audit.curve.T, "o", color=colours.other, markersize=5, label=label)
    _finish_errors(ax, ylabel="false-negative rate", title="What an attacker got")
    return ax


def exact_curve(law: LawPair) -> tuple[Array, Array]:
    """(false-positive rates, false-negative rates) of the likelihood-ratio tests of an instance, hundreds.

    Tests that are not drawn are between two that are, on or below their chord.
    """
    _, fpr, fnr = law.rates
    some = np.searchsorted(fpr, np.linspace(0.0, fpr[-1], 400))
    some = np.unique(np.append(some, np.searchsorted(-fnr, -np.linspace(0.0, fnr[0], 400))))
    some = some[some < len(fpr)]
    return np.append(0.0, fpr[some]), np.append(1.0, fnr[some])
