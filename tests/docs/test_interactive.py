"""Figures that answer: their numbers are those of the library, and they are complete without scripts."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

import pabi
from pabi.show.themes import palette_of
from support.scripts import load

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
NAMES = sorted(path.stem for path in FIGURES.glob("*.json"))


MAKE = load(ROOT / "examples" / "gallery" / "make.py")
EXTENSION = load(ROOT / "docs" / "_ext" / "interactive.py")
RUN = load(ROOT / "docs" / "front.py").RUN


def readings(name):
    return json.loads((FIGURES / f"{name}.json").read_text("utf-8"))


def test_every_file_is_of_a_script_and_on_a_page():
    pages = "".join(path.read_text("utf-8") for path in ROOT.glob("docs/**/*.md"))
    assert len(NAMES) >= 3
    for name in NAMES:
        assert hasattr(MAKE.load(name), "readings"), name
        assert f"{{interactive}} figures/{name}.json\n:alt: " in pages, name
    assert {name for name in MAKE.SCRIPTS if hasattr(MAKE.load(name), "readings")} == set(NAMES)


def runs():
    """(run, name of its curve) for the orders that take no time to account."""
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.02)
    return replace(RUN, loss=loss, adjacency="zero_out"), {
        "fixed order (Cyclic)": pabi.Cyclic(size=1_500),
        "shuffled once (ShuffleOnce)": pabi.ShuffleOnce(size=1_500),
        "shuffled every epoch (Reshuffle)": pabi.Reshuffle(size=1_500),
        "as many, at random (FixedSize)": pabi.FixedSize(size=1_500),
        "every record by a coin (Poisson)": pabi.Poisson(size=1_500, cap=2_000),
    }


def check_epochs(kinds, places):
    drawn = readings("batches-by-epochs")
    base, batches = runs()
    curves = {curve["name"]: curve for curve in drawn["curves"]}
    assert set(curves) == {*batches, "fixed order, every iterate released"}
    for kind in kinds:
        for place in places:
            k = drawn["places"].index(place)
            guarantee = replace(base, batches=batches[kind], epochs=place).guarantee(1e-5)
            told = float(curves[kind]["texts"][k])
            assert 0 <= told - guarantee.epsilon(1e-5) < 0.01
            assert 0 <= curves[kind]["values"][k] - guarantee.epsilon(1e-5) < 1e-4
            if kind.startswith("fixed"):
                every = float(curves["fixed order, every iterate released"]["texts"][k])
                assert 0 <= every - guarantee.composition.epsilon(1e-5) < 0.01


def test_epsilon_by_epochs_is_no_lower_than_the_guarantees():
    check_epochs(
        [name for name in runs()[1] if "order" in name or "shuffled" in name], (1, 50, 200)
    )
    check_epochs(["every record by a coin (Poisson)"], (50,))


@pytest.mark.nightly
def test_epsilon_by_epochs_is_no_lower_than_the_guarantees_anywhere():
    check_epochs(list(runs()[1]), readings("batches-by-epochs")["places"])


def test_epsilon_by_delta_is_no_lower_than_the_guarantee():
    drawn = readings("epsilon-by-delta")
    guarantee = replace(RUN, batches=pabi.ShuffleOnce(size=1_500)).guarantee(1e-5)
    last, every = drawn["curves"]
    for delta, text, a, b in zip(
        drawn["places"], drawn["texts"], last["texts"], every["texts"], strict=True
    ):
        assert float(text) == delta
        assert 0 <= float(a) - guarantee.epsilon(delta) < 0.01
        assert 0 <= float(b) - guarantee.composition.epsilon(delta) < 0.01


def test_an_attacker_misses_no_less_than_the_trade_off_says():
    drawn = readings("tradeoff")
    guarantee = RUN.guarantee(1e-5)
    # Chords of a convex curve are above it: by less than a line is wide.
    assert len(drawn["places"]) > 150
    for curve, f in zip(drawn["curves"], (guarantee.tradeoff, guarantee.composition), strict=True):
        for alarms, text in zip(drawn["places"], curve["texts"], strict=True):
            assert 0 <= float(f(alarms)) - float(text.removesuffix("%")) / 100 < 1e-4 + 1e-12


def test_places_are_in_order_and_colours_those_of_the_pictures():
    for name in NAMES:
        drawn = readings(name)
        assert drawn["places"] == sorted(set(drawn["places"]))
        for curve in drawn["curves"]:
            assert len(curve["values"]) == len(curve["texts"]) == len(drawn["places"])
        assert len(set(drawn["texts"])) == len(drawn["texts"])
        assert 0 <= drawn["start"] < len(drawn["places"])
    sheet = EXTENSION.style_sheet()
    light, dark = (palette_of(theme) for theme in ("light", "dark"))
    for colour in (*light.cycle, light.ink, *dark.cycle, dark.ink):
        assert colour in sheet
    assert sheet.count(dark.ours) == 2  # chosen on the page, and the reader's system's


def test_the_table_has_the_numbers_of_the_file():
    for name in NAMES:
        drawn = readings(name)
        lines = re.findall(r"<tr.*?</tr>", unescape(EXTENSION.table(drawn)), re.DOTALL)
        head, *rows = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line) for line in lines)
        assert head == [drawn["control"], *(curve["name"] for curve in drawn["curves"])]
        assert len(rows) >= min(EXTENSION.ROWS, len(drawn["places"]))
        for place, *values in rows:
            k = drawn["texts"].index(place)
            assert values == [curve["texts"][k] for curve in drawn["curves"]]
        assert drawn["texts"][drawn["start"]] in [place for place, *_ in rows]
