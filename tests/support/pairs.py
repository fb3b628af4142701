"""Pairs of two lists of cases: enough of them always, all at night."""

from collections.abc import Sequence
from typing import Any

import pytest


def pairs(
    rows: Sequence[Any], columns: Sequence[Any], diagonals: Sequence[int] = (0,)
) -> list[Any]:
    """All pairs, of which those on diagonals that are wound around run always, the others at night.

    So every entry of either list is in a pair that always runs, and only what goes wrong in one pair alone is
    found at night.
    """
    least = min(len(rows), len(columns))
    return [
        pytest.param(
            row,
            column,
            id=f"{_name(row)}-{_name(column)}",
            marks=() if (i - j) % least in diagonals else pytest.mark.nightly,
        )
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
    ]


def _name(case: Any) -> str:
    return str(getattr(case, "kind", case))
