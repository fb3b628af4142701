"""Colours and type of pabi's pictures, and axes to draw on."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from pabi.numbers.errors import must_be
from pabi.numbers.rounding import Array

# Colours and type of pabi's pictures, axes to draw on, and lines through proven numbers.


Theme = Literal["light", "dark"]


_SOLID, _DASHED, _DOTTED = "-", (0, (5, 1.6)), (0, (1.2, 1.4))
_DASH_DOT, _LONG = (0, (5, 1.4, 1.2, 1.4)), (0, (9, 2.2))
_LINES = (_SOLID, _DASHED, _DOTTED, _DASH_DOT, _LONG) * 2


@dataclass(frozen=True)
class Palette:
    """What pabi's pictures are drawn with.

    Every colour has a contrast of 3:1 or more with the paper, the first two of 4.5:1, so that they
    can be used for text.

    Parameters
    ----------
    cycle : tuple of str
        Ten colours of curves, pabi's own first, composition second. Readers who lack one kind of
        cone tell the first five apart in lines.
    ink : str
        Colour of text and axes.
    neutral : str
        Colour of what stands back.
    shade : str
        Colour of areas.
    paper : str
        Colour of the background.
    lines : tuple of line styles of matplotlib
        As many as colours, for whoever sees no colours.
    """

    cycle: tuple[str, ...]
    ink: str
    neutral: str
    shade: str
    paper: str
    lines: tuple[Any, ...] = _LINES

    @property
    def ours(self) -> str:
        """The colour of pabi's own guarantee."""
        return self.cycle[0]

    @property
    def other(self) -> str:
        """The colour of composition, which charges for every iterate."""
        return self.cycle[1]


# The hues of Okabe and Ito. Their lightness differs by as much as lines seen without one kind of cone need.
_PALETTES: dict[Theme, Palette] = {
    "light": Palette(
        cycle=(
            *("#276AA5", "#AE4700", "#009D73", "#B57FC3", "#C07C0C"),
            *("#882255", "#2B8C9E", "#7A7A1F", "#332288", "#6B4226"),
        ),
        ink="#1a1a1a",
        neutral="#6e6e6e",
        shade="#6398C6",
        paper="#ffffff",
    ),
    "dark": Palette(
        cycle=(
            *("#71BCEF", "#FA835C", "#60EBB7", "#D38EAB", "#E6C323"),
            *("#808BEE", "#9AD0F5", "#C9C96A", "#C8A8F5", "#F2B8A0"),
        ),
        ink="#e8e8e8",
        neutral="#9a9a9a",
        shade="#40759B",
        paper="#131416",
    ),
}


def palette_of(theme: Theme) -> Palette:
    """The palette of a theme, whatever matplotlib's background is."""
    must_be(theme in _PALETTES, "theme", "'light' or 'dark'", theme)
    return _PALETTES[theme]


def palette() -> Palette:
    """The palette that suits matplotlib's current background.

    Returns
    -------
    Palette
        That of light or of dark pictures.
    """
    import matplotlib as mpl
    from matplotlib.colors import to_rgb

    face = mpl.rcParams["axes.facecolor"]
    red, green, blue = to_rgb(face if face != "none" else mpl.rcParams["figure.facecolor"])
    bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5
    return _PALETTES["light" if bright else "dark"]


@contextlib.contextmanager
def style(theme: Theme = "light") -> Iterator[Palette]:
    """A context in which pictures have pabi's type and colours.

    Text is large enough to be read when the picture is shown at half its size. For example::

        with pabi.plotting.style("dark"):
            guarantee.plot()

    Parameters
    ----------
    theme : str
        "light" (default) or "dark".

    Yields
    ------
    Palette
        The colours of the theme.

    Raises
    ------
    InvalidInput
        For another theme.
    """
    colours = palette_of(theme)
    import matplotlib as mpl

    with mpl.rc_context(_settings(colours)):
        yield colours


def _settings(colours: Palette) -> Any:  # matplotlib spells out every key in its types
    from cycler import cycler

    ink = (
        *("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor"),
        *("xtick.color", "ytick.color", "legend.labelcolor"),
    )
    paper = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    return {
        **dict.fromkeys(ink, colours.ink),
        **dict.fromkeys(paper, colours.paper),
        "axes.prop_cycle": cycler(color=list(colours.cycle), linestyle=list(colours.lines)),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titlepad": 12,
        "axes.titlesize": 15,
        "axes.labelsize": 14,
        "figure.constrained_layout.h_pad": 0.08,
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.w_pad": 0.08,
        "figure.figsize": (7.2, 4.5),
        "figure.titlesize": 15,
        "font.size": 13,
        "grid.color": colours.neutral,
        "grid.alpha": 0.25,
        "legend.fontsize": 12,
        "legend.frameon": False,
        "lines.linewidth": 2.4,
        "svg.fonttype": "path",  # the same on every machine, whatever fonts it has
        "svg.hashsalt": "pabi",  # the same bytes every time
    }


# Axes to draw on, and legends that stay within them and off their curves.


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
    above the curves, which then end lower."""
    low, high = ax.get_ylim()
    for size in _SIZES:
        sizes = {"fontsize": size} | ({"title_fontsize": size} if "title" in options else {})
        legend = ax.legend(frameon=False, **(options | sizes))
        if _free(ax, legend):
            break
        if _share(ax, legend)[0] > 1.0:
            continue
        legend.set_loc("upper right")
        for _ in range(3):  # a panel of fixed proportions changes with its limits
            room = 1.0 - min(_MOST, _share(ax, legend)[1] + _GAP)
            ax.set_ylim(low, _raised(ax, low, high, room))
            if _free(ax, legend):
                return legend
        if size != _SIZES[-1]:
            ax.set_ylim(low, high)
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


# Lines through proven numbers that promise nothing more between them. Theory, section 24.
#
# What is computed are numbers at some places; what is drawn is a line. A straight one from number to
# number may lie on the flattering side of the curve, so these lines have other corners.


_ROUNDING = 1e-12  # of a corner, relative: more than a few operations in float64 lose


def above_epsilons(deltas: Array, epsilons: Array) -> tuple[Array, Array]:
    """Corners (δ, ε) of a line from the first to the last of these numbers, nowhere below what is proven.

    δ is to be drawn on a logarithmic axis, ε on one of either kind. Source: theory, Lemma 24.1.
    """
    # What is proven at a δ is proven at every larger one.
    proven = np.minimum.accumulate(epsilons)
    mask = np.isfinite(proven) & (proven > 0.0)
    x, y = deltas[mask], proven[mask]
    if x.size < 2:
        return x, y
    left, right, high, low = x[:-1], x[1:], y[:-1], y[1:]
    # e^ε at most falls in a line from δ to δ. In the logarithms of δ and ε that is a concave curve, and below
    # the lines that touch it at both ends.
    fall = -np.expm1(low - high) / (right - left)
    slope_left = -left * fall / high
    with np.errstate(over="ignore", invalid="ignore"):
        slope_right = -right * fall * np.exp(high - low) / low
    u, v, width = np.log(left), np.log(high), np.log(right / left)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (np.log(low / high) - slope_right * width) / ((slope_left - slope_right) * width)
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
    at = np.exp(u + share * width)
    height = np.exp(v + slope_left * share * width) * (1.0 + _ROUNDING)
    corners_x = np.concatenate(([x[0]], np.column_stack((at, right)).ravel()))
    corners_y = np.concatenate(([y[0]], np.column_stack((height, low)).ravel()))
    line = np.logical_not(_dips(np.log(corners_x), np.log(corners_y)))
    return corners_x[line], corners_y[line]


def _dips(u: Array, v: Array) -> Array:
    """Which corners to leave out: numbers that lie below the line from the corner before to the one behind.

    Between two numbers the lemma leaves nothing better than an arch, so that the line would dip at each of
    them. A line past the dips is above them, and falls as evenly as the numbers do. On an axis of ε that is
    not logarithmic it is above them too, since the exponential is convex.
    """
    dips = np.zeros(u.size, dtype=bool)
    number = np.arange(2, u.size - 1, 2)
    before, behind = number - 1, number + 1
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (u[number] - u[before]) / (u[behind] - u[before])
    dips[number] = v[number] < v[before] + share * (v[behind] - v[before]) - _ROUNDING
    return dips


def below_errors(rates: Array, errors: Array) -> tuple[Array, Array]:
    """Corners of a line that is nowhere above a curve which falls, such as a trade-off function.

    Source: theory, Lemma 24.2.
    """
    return rates, np.append(errors[1:], 0.0)


# Figures as data, drawn: panels of curves, and text.


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
