"""The gallery: short scripts, the same bytes every time, every picture on a page and none left over."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from pabi.show.themes import style
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
