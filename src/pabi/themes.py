"""Colours and type of pabi's pictures, on light and on dark backgrounds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pabi.errors import InvalidInput

Theme = Literal["light", "dark"]


@dataclass(frozen=True)
class Palette:
    """What pabi's pictures are drawn with: colours told apart by colour-blind readers.

    `cycle`: of curves, pabi's own first, composition second. `ink` for text and axes, `neutral` for what
    stands back, `shade` for areas, `paper` the background.
    """

    cycle: tuple[str, ...]
    ink: str
    neutral: str
    shade: str
    paper: str

    @property
    def ours(self) -> str:
        return self.cycle[0]

    @property
    def other(self) -> str:
        return self.cycle[1]


# Okabe–Ito, then Tol's muted set; on dark paper their light members first and the dark ones lightened.
_PALETTES: dict[Theme, Palette] = {
    "light": Palette(
        cycle=(
            *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"),
            *("#56B4E9", "#882255", "#999933", "#332288", "#44AA99"),
        ),
        ink="#1a1a1a",
        neutral="#7f7f7f",
        shade="#9ecae1",
        paper="#ffffff",
    ),
    "dark": Palette(
        cycle=(
            *("#56B4E9", "#FF9351", "#33C49A", "#E39BC3", "#E6C229"),
            *("#9AD0F5", "#D98BB0", "#C9C96A", "#A99CF0", "#7ED6C8"),
        ),
        ink="#e8e8e8",
        neutral="#9a9a9a",
        shade="#2f5d7c",
        paper="#131416",
    ),
}


def palette() -> Palette:
    """The palette that suits matplotlib's current background."""
    import matplotlib as mpl
    from matplotlib.colors import to_rgb

    face = mpl.rcParams["axes.facecolor"]
    red, green, blue = to_rgb(face if face != "none" else mpl.rcParams["figure.facecolor"])
    bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5
    return _PALETTES["light" if bright else "dark"]


@contextlib.contextmanager
def style(theme: Theme = "light") -> Iterator[Palette]:
    """A context in which pictures have pabi's type and the colours of `theme`, "light" or "dark".

    Text is large enough to be read when the picture is shown at half its size. Raises InvalidInput for
    another theme.

        with pabi.plotting.style("dark"):
            guarantee.plot()
    """
    if theme not in _PALETTES:
        raise InvalidInput("theme", f"expected 'light' or 'dark', got {theme!r}")
    import matplotlib as mpl

    with mpl.rc_context(_settings(_PALETTES[theme])):
        yield _PALETTES[theme]


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
        "axes.prop_cycle": cycler(color=list(colours.cycle)),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 15,
        "axes.labelsize": 14,
        "font.size": 13,
        "grid.color": colours.neutral,
        "grid.alpha": 0.25,
        "legend.fontsize": 12,
        "legend.frameon": False,
        "lines.linewidth": 2.4,
        "svg.fonttype": "path",  # the same on every machine, whatever fonts it has
        "svg.hashsalt": "pabi",  # the same bytes every time
    }
