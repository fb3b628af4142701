"""Declared ranges of columns: every form that users may write them in, as centres and half widths."""

from __future__ import annotations

from typing import Any

import numpy as np

from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array


def by_column(ranges: Any, names: Any, d: int) -> Any:
    """Ranges given by column name, or number where `names` is None, as (2, d); other forms as they are."""
    if not isinstance(ranges, dict):
        return ranges
    columns = list(range(d)) if names is None else [str(name) for name in names]
    for name in ranges:
        if name not in columns:
            raise InvalidInput("feature_ranges", f"there is no column {name!r}")
    for name in columns:
        if name not in ranges:
            raise InvalidInput("feature_ranges", f"missing: a range for column {name!r}")
    try:
        return np.array([ranges[name] for name in columns], dtype=np.float64).reshape(d, 2).T
    except (TypeError, ValueError):
        raise InvalidInput("feature_ranges", "expected pairs (low, high)") from None


def centres_and_reaches(ranges: Any, d: int, *, sparse: bool) -> tuple[Array | None, Array | None]:
    """(centres, half widths) of d columns from (low, high) or a (2, d) array; (None, None) without ranges."""
    if ranges is None:
        return None, None
    try:
        bounds = np.asarray(ranges, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("feature_ranges", "expected pairs (low, high)") from None
    if bounds.shape not in ((2,), (2, d)):
        raise InvalidInput(
            "feature_ranges", f"expected (low, high) or shape (2, {d}), got shape {bounds.shape}"
        )
    low, high = (np.broadcast_to(side, (d,)) for side in bounds)
    if not np.all(np.isfinite(bounds)) or not np.all(low < high):
        raise InvalidInput("feature_ranges", "expected finite low < high for every feature")
    if sparse and not np.all(low == -high):
        raise InvalidInput(
            "feature_ranges", "expected (−h, h) for a sparse X, which keeps its zeros"
        )
    centre, reach = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
    return np.ascontiguousarray(centre), np.ascontiguousarray(reach)
