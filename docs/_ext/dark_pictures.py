"""Pictures that exist in pabi's light colours only, on pages that are shown dark.

A picture drawn by pabi has the colours of `pabi.plotting.style("light")`. Its dark version is the same
drawing in the colours of `style("dark")`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from pabi.plotting import Palette, style

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")


def _colours(palette: Palette) -> list[str]:
    named = (palette.ink, palette.neutral, palette.shade, palette.paper)
    return [colour.lower() for colour in (*palette.cycle, *named)]


@cache
def _exchanged() -> dict[str, str]:
    """The dark colour for every light one."""
    with style("light") as light, style("dark") as dark:
        return dict(zip(_colours(light), _colours(dark), strict=True))


def darkened(svg: str) -> str:
    """A picture in pabi's light colours, in its dark ones; scales of colours keep theirs."""
    return _COLOUR.sub(lambda found: _exchanged().get(found[0].lower(), found[0]), svg)


class DarkPictures(SphinxPostTransform):
    """Puts the dark version beside every picture that has none."""

    default_priority = 200  # when Sphinx converts pictures
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for light in list(self.document.findall(nodes.image)):
            uri = light["uri"]
            if not uri.endswith(".svg"):
                continue
            source = Path(self.env.srcdir, uri)
            target = Path(self.app.doctreedir, "images", uri).with_suffix(".dark.svg")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(darkened(source.read_text("utf-8")), encoding="utf-8")
            dark = light.deepcopy()
            dark["uri"], dark["candidates"] = str(target), {"*": str(target)}
            light["classes"].append("only-light")
            dark["classes"].append("only-dark")
            light.parent.insert(light.parent.index(light) + 1, dark)
            self.env.images.add_file(self.env.docname, str(target))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(DarkPictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
