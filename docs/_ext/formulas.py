"""Keeps a formula and the punctuation that touches it on one line: browsers may break lines at pictures."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_BEFORE, _AFTER = re.compile(r"[(\[“]$"), re.compile(r"^[)\].,;:!?”’]+")


def touching(pattern: re.Pattern[str], node: nodes.Node | None) -> str:
    """The punctuation of a piece of text that `pattern` finds; "" where there is none."""
    found = pattern.search(node.astext()) if isinstance(node, nodes.Text) else None
    return found[0] if found else ""


class Unbroken(SphinxPostTransform):
    """Puts a formula and what touches it into a span of class `unbroken`."""

    default_priority = 700
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for formula in list(self.document.findall(nodes.math)):
            parent = formula.parent
            place = parent.index(formula)
            previous = parent[place - 1] if place else None
            following = parent[place + 1] if place + 1 < len(parent) else None
            before, after = touching(_BEFORE, previous), touching(_AFTER, following)
            if not before and not after:
                continue
            together = nodes.inline(classes=["unbroken"])
            together += [nodes.Text(before), formula.deepcopy(), nodes.Text(after)]
            parent[place] = together
            if before:
                parent[place - 1] = nodes.Text(previous.astext()[: -len(before)])
            if after:
                parent[place + 1] = nodes.Text(following.astext()[len(after) :])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(Unbroken)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
