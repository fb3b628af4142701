"""Figures that answer: a slider or the pointer chooses a place, and every curve's value there is shown.

    ```{interactive} figures/tradeoff.json
    :alt: what is drawn
    …the pictures for pages without scripts…
    ```

The file holds what `readings()` of a script in examples/gallery returned; make.py writes it. Vega-Lite draws
the curves, from the files that the explorer has. The page asks for nothing: the numbers lie in it, with a
table of them. Colours are variables of the style sheet, so that a figure follows the page's theme.
"""

from __future__ import annotations

import json
import shutil
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pabi.show.themes import palette_of
from pabi.showing import exact

VEGA = Path(__file__).parents[2] / "src" / "pabi" / "cli" / "explorer" / "static" / "vega"
SCRIPTS = ("vega/vega.min.js", "vega/vega-lite.min.js", "interactive.js")
DASHES = ([], [8, 3], [2, 3], [8, 3, 2, 3], [14, 4])  # as pabi's pictures have them
ROWS = 16  # of the table, at least, where the figure has as many places
FONT = 'system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif'


class Interactive(nodes.container):
    """A figure with its pictures for pages without scripts."""


class InteractiveFigure(SphinxDirective):
    """The directive `interactive`."""

    has_content = True
    required_arguments = 1
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        path = self.env.relfn2path(self.arguments[0])[1]
        self.env.note_dependency(path)
        figure = Interactive(
            readings=json.loads(Path(path).read_text("utf-8")), alt=self.options["alt"]
        )
        self.state.nested_parse(self.content, self.content_offset, figure)
        return [figure]


def specification(readings: dict[str, Any]) -> dict[str, Any]:
    """The picture, in Vega-Lite's terms."""
    places, curves = readings["places"], readings["curves"]
    points = [
        {"place": place, "value": value, "curve": curve["name"]}
        for curve in curves
        for place, value in zip(places, curve["values"], strict=True)
    ]
    names = [curve["name"] for curve in curves]
    colours = [f"var(--curve-{curve['look']})" for curve in curves]
    dashes = [DASHES[curve["look"] % len(DASHES)] for curve in curves]
    order = {"domain": names}
    at = {"filter": "datum.place === place"}
    return {
        "width": "container",
        "height": 330,
        "autosize": {"type": "fit", "contains": "padding"},
        "params": [{"name": "place", "value": places[readings["start"]]}],
        "data": {"values": points},
        "encoding": {
            "x": {"field": "place", "type": "quantitative", **_axis(readings["x"])},
            "y": {"field": "value", "type": "quantitative", **_axis(readings["y"])},
            "color": {
                "field": "curve",
                "type": "nominal",
                "scale": {**order, "range": colours},
                "legend": None,
            },
        },
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2.4, "clip": True},
                "encoding": {
                    "strokeDash": {
                        "field": "curve",
                        "scale": {**order, "range": dashes},
                        "legend": None,
                    }
                },
            },
            {
                "transform": [at],
                "mark": {"type": "rule", "strokeWidth": 1},
                "encoding": {"y": None, "color": {"value": "var(--curve-neutral)"}},
            },
            {
                "transform": [at],
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            },
        ],
        "config": {
            "aria": False,  # the element around it has the figure's text
            "background": None,
            "font": FONT,
            "view": {"stroke": None},
            "axis": {
                "labelColor": "var(--curve-ink)",
                "titleColor": "var(--curve-ink)",
                "labelFontSize": 13,
                "titleFontSize": 13,
                "titleFontWeight": "normal",
                "labelOverlap": "greedy",
                "gridColor": "var(--curve-neutral)",
                "gridOpacity": 0.25,
                "domainColor": "var(--curve-neutral)",
                "tickColor": "var(--curve-neutral)",
            },
        },
    }


def _axis(axis: dict[str, Any]) -> dict[str, Any]:
    """`title`; optionally `scale` (log), `domain`, `ticks` and `format`."""
    scale = {"type": axis.get("scale", "linear"), "nice": False}
    if "domain" in axis:
        scale["domain"] = axis["domain"]
    marks = {
        key: axis[name] for key, name in (("values", "ticks"), ("format", "format")) if name in axis
    }
    return {"scale": scale, "axis": {"title": axis["title"], **marks}}


def table(readings: dict[str, Any]) -> str:
    """The numbers, for whoever would rather read them: some of the places where there are many."""
    texts, curves, start = readings["texts"], readings["curves"], readings["start"]
    rows = sorted({*range(0, len(texts), max(1, len(texts) // ROWS)), start, len(texts) - 1})
    head = "".join(
        f'<th scope="col">{escape(name)}</th>'
        for name in (readings["control"], *(curve["name"] for curve in curves))
    )
    body = "".join(
        f'<tr><th scope="row">{escape(texts[row])}</th>'
        + "".join(f"<td>{escape(curve['texts'][row])}</td>" for curve in curves)
        + "</tr>"
        for row in rows
    )
    return (
        f"<details><summary>The numbers as a table</summary>"
        f'<div class="table-wrapper"><table class="docutils"><caption>{escape(readings["reading"])}'
        f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def visit_interactive(writer: Any, node: Interactive) -> None:
    writer.body.append('<figure class="interactive"><div class="interactive-still">')


def depart_interactive(writer: Any, node: Interactive) -> None:
    readings = node["readings"]
    sent = {
        "specification": specification(readings),
        **{key: readings[key] for key in ("control", "reading", "places", "texts", "start")},
        "curves": [
            {
                "name": curve["name"],
                "look": curve["look"],
                "dashes": " ".join(exact(d) for d in DASHES[curve["look"] % len(DASHES)]),
                "texts": curve["texts"],
            }
            for curve in readings["curves"]
        ],
    }
    text = json.dumps(sent, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    writer.body.append(
        f'</div><div class="interactive-live" hidden><div class="interactive-chart" role="img" '
        f'aria-label="{escape(node["alt"])}"></div></div>{table(readings)}'
        f'<script type="application/json">{text}</script></figure>'
    )


def ignore(writer: Any, node: Interactive) -> None:
    """Other builders show the pictures within."""


def style_sheet() -> str:
    """pabi's colours as variables: light; dark where the page is set so, or the reader's system."""

    def variables(theme: Any) -> str:
        palette = palette_of(theme)
        named = {"ink": palette.ink, "neutral": palette.neutral}
        colours = {**{str(k): colour for k, colour in enumerate(palette.cycle)}, **named}
        return " ".join(f"--curve-{name}: {colour};" for name, colour in colours.items())

    dark = f"{{ {variables('dark')} }}"
    return (
        f".interactive {{ {variables('light')} }}\n"
        f'body[data-theme="dark"] .interactive {dark}\n'
        f"@media (prefers-color-scheme: dark) {{\n"
        f'  body:not([data-theme="light"]) .interactive {dark}\n}}\n'
        f"@media print {{ .interactive-live {{ display: none; }} }}\n"
    )


def prepare(app: Sphinx) -> None:
    """Puts Vega's files and the colours where Sphinx copies static files from."""
    assets = Path(app.doctreedir, "interactive")
    shutil.copytree(VEGA, assets / "vega", dirs_exist_ok=True)
    (assets / "interactive-colours.css").write_text(style_sheet(), encoding="utf-8")
    app.config.html_static_path.append(str(assets))


def load(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Only pages with such a figure load what it needs."""
    if tree is None or next(tree.findall(Interactive), None) is None:
        return
    app.add_css_file("interactive-colours.css")
    for script in SCRIPTS:
        app.add_js_file(script, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_node(
        Interactive,
        html=(visit_interactive, depart_interactive),
        latex=(ignore, ignore),
        text=(ignore, ignore),
        man=(ignore, ignore),
        texinfo=(ignore, ignore),
    )
    app.add_directive("interactive", InteractiveFigure)
    app.connect("builder-inited", prepare)
    app.connect("html-page-context", load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
