"""The picture of the front page says what pabi says, and pictures are shown in the dark in dark colours."""

import hashlib
import re
from pathlib import Path

import pytest

from pabi.showing import shown
from support.scripts import load

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
FIGURES = DOCS / "figures"


FRONT = load(DOCS / "front.py")
DARK = load(DOCS / "_ext" / "dark_pictures.py")
MAKE = load(ROOT / "examples" / "gallery" / "make.py")


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


def drawing(svg: str) -> list[str]:
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
