"""Pictures of the gallery and the front page: short scripts, the same bytes every time, in both themes."""

import hashlib
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from pabi.show.themes import style
from pabi.showing import shown
from support.scripts import load

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "examples" / "gallery"
FIGURES = ROOT / "docs" / "figures"
# Those that take no time; all of them are drawn by examples/gallery/make.py.
QUICK = ("front", "two-densities", "epsilon-delta", "tradeoff", "shifts")


MAKE = load(GALLERY / "make.py")


@pytest.mark.parametrize("name", QUICK)
def test_pictures_are_the_same_every_time(name, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        MAKE.save(name, folder)
    drawn = (first / f"{name}.svg").read_bytes()
    assert drawn == (second / f"{name}.svg").read_bytes()
    assert b"<dc:date>" not in drawn
    assert len(drawn) < 150_000


def test_nothing_sticks_out():
    """Titles, labels and annotations lie within the figure; ticks beyond its limits are not drawn."""
    for name in QUICK:
        with style("light"):
            figure = MAKE.load(name).draw()
            figure.canvas.draw()
            width, height = figure.canvas.get_width_height()
            axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
            ticks = {label for axis in axes for label in axis.get_ticklabels(which="both")}
            for text in set(figure.findobj(Text)) - ticks:
                if text.get_visible() and text.get_text().strip():
                    box = text.get_window_extent()
                    inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width and box.y1 <= height
                    assert inside, (name, text.get_text())
            plt.close(figure)


def test_scripts_are_short_and_pictures_have_alternative_texts():
    for path in MAKE.SCRIPTS.values():
        lines = path.read_text().splitlines()
        assert len(lines) <= 80, path.name
        assert "def draw() -> Figure:" in lines, path.name
        for line in lines:
            assert not re.match(r"\s*(from|import) pabi\S*\._|.*\bpabi\S*\._", line), (
                path.name,
                line,
            )
    for path in ROOT.glob("docs/**/*.md"):
        for block in re.findall(r"```\{image\} .*?```", path.read_text(), re.DOTALL):
            assert re.search(r"^:alt: \S.{10,}$", block, re.MULTILINE), block


def test_every_picture_is_on_a_page():
    pages = {path: path.read_text() for path in ROOT.glob("docs/**/*.md")}
    pages[ROOT / "README.md"] = (ROOT / "README.md").read_text()
    shown = {name for text in pages.values() for name in re.findall(r"figures/([\w-]+\.svg)", text)}
    there = {path.name for path in FIGURES.glob("*.svg")}
    assert shown == there
    for name in there:
        assert (FIGURES / name).stat().st_size < 150_000, name
    gallery = pages[ROOT / "docs" / "gallery.md"]
    for name, path in MAKE.SCRIPTS.items():
        if path.parent != GALLERY:
            continue  # the front page shows its own
        assert f"```{{image}} figures/{name}.svg\n" in gallery
        assert f"../examples/gallery/{path.name}" in gallery


# The sheet with every view of the explorer.


SHEETS = [ROOT / "docs" / "figures" / f"explorer-{theme}.webp" for theme in ("light", "dark")]
LARGEST = 1_500_000  # bytes, both together
LEAST_WIDTH = 1_400  # pixels


def test_sheets_are_small_and_on_a_page():
    assert sum(path.stat().st_size for path in SHEETS) <= LARGEST
    page = (ROOT / "docs" / "howto" / "explore.md").read_text("utf-8")
    assert all(path.name in page for path in SHEETS)


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.stem)
def test_sheets_are_of_one_shape_and_of_their_theme(path):
    with Image.open(path) as picture:
        assert picture.width >= LEAST_WIDTH
        middle = float(np.median(np.asarray(picture.convert("L"))))
    assert (middle > 150) == ("light" in path.stem)


# The front page, and pictures in the dark.


DOCS = ROOT / "docs"


FRONT = load(DOCS / "front.py")
DARK = load(DOCS / "_ext" / "dark_pictures.py")


def test_the_front_picture_shows_the_numbers_of_today():
    picture = (FIGURES / "front.svg").read_text("utf-8")
    assert f"<dc:description>{FRONT.description()}</dc:description>" in picture


def test_the_front_page_states_the_run():
    text = (DOCS / "index.md").read_text("utf-8").replace("\n", " ")
    (alt,) = re.findall(r"front\.svg :alt: (.*?) ```", text)
    for epochs in (50, 100):
        for value in FRONT.costs()[epochs]:
            assert shown(value, decimals=2) in alt
    caption = re.search(r"```\{rst-class\} picture-caption ``` (.*?\(`replace_one`\)\.)", text)[1]
    run = FRONT.RUN
    assert run.adjacency == "replace_one"
    assert run.clip_norm is None
    assert "nothing is clipped" in caption
    for stated in (
        *(f"`l2 = {run.loss.l2}`", f"n = {run.n:,} records"),
        f"batches of {run.batches.size:,} records in a fixed order",
        *(f"step size {run.step_size}", f"standard deviation {run.noise_std}", "δ = 10⁻⁵"),
    ):
        assert stated.replace(",", "\u00a0") in caption, stated
    assert FRONT.DELTA == 1e-5


def drawing(svg):
    """The lines of a picture without the names of its parts, which depend on the colours."""
    unnamed = re.sub(r'((?:id|xlink:href)="#?|url\(#)[mpC]\w+', r"\1", svg)
    return sorted(line for line in unnamed.splitlines() if "<g id" not in line)


@pytest.mark.parametrize("name", ["front", "tradeoff", "two-densities"])
def test_a_darkened_picture_is_the_dark_one(name, tmp_path):
    MAKE.save(name, tmp_path, "dark")
    light = (FIGURES / f"{name}.svg").read_text("utf-8")
    dark = (tmp_path / f"{name}.svg").read_text("utf-8")
    assert drawing(light) != drawing(dark)
    assert drawing(DARK.darkened(light)) == drawing(dark)
    # A scale of colours is left.
    assert DARK.darkened("fill: #460b5e; stroke: #ffffff") == "fill: #460b5e; stroke: #131416"


def test_mathjax_is_the_file_that_third_party_names():
    """A change of the vendored file has to be a change of its entry."""
    found = hashlib.sha256((DOCS / "_static" / "mathjax" / "tex-svg.js").read_bytes()).hexdigest()
    assert found in (ROOT / "THIRD-PARTY.md").read_text("utf-8")
