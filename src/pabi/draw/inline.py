"""The picture of a guarantee within a page: SVG whose colours are variables of the page's style."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from pabi.draw.guarantee import plot_guarantee
from pabi.draw.themes import Palette, palette_of, style

if TYPE_CHECKING:
    from pabi.guarantees.guarantee import Guarantee

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
