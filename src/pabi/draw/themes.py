"""Colours and type of pabi's pictures, on light and on dark backgrounds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pabi.numbers.errors import InvalidInput

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
    """The palette of a theme, whatever matplotlib's background is.

    Parameters
    ----------
    theme : str
        "light" or "dark".

    Returns
    -------
    Palette

    Raises
    ------
    InvalidInput
        For another theme.
    """
    if theme not in _PALETTES:
        raise InvalidInput("theme", f"expected 'light' or 'dark', got {theme!r}")
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
