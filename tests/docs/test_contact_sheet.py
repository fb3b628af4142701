"""The sheet with every view of the explorer is small, legible, and shows views that differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
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
