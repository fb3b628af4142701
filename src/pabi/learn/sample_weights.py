"""Weights of records: numbers up to a public largest, by which a record's loss is multiplied.

They are divided by the largest that there may be. A record's gradient is then at most as long as without
weights, and its loss at most as curved, so that every proof, and the noise, stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pabi.execute.large_columns import LargeColumn, product
from pabi.features.cells import cells_of, doubles_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array
from pabi.numbers.warning import warn_once

_BEYOND = (
    "some sample weights exceed max_sample_weight and were taken as that: give a larger max_sample_weight, "
    "from public knowledge; this warning depends on the data: keep it to yourself"
)


def sample_weights(stated: Any, most: Any, rows: int, *, stacklevel: int) -> Array | None:
    """(rows,) weights in [0, 1], the stated ones over `most`; None where none are stated.

    Warns, on behalf of a caller so many frames up, where a weight is above `most`. Raises InvalidInput naming
    `sample_weight` or `max_sample_weight`; no message shows data.
    """
    largest = None if most is None else validate.number("max_sample_weight", most, above=0.0)
    if stated is None:
        return None
    if largest is None:
        raise InvalidInput(
            "max_sample_weight",
            "missing: sample_weight needs the largest weight there may be, a public number",
        )
    weights = _numbers(stated, rows)
    if (weights > largest).any():
        warn_once(_BEYOND, UserWarning, stacklevel=stacklevel)
    return np.minimum(np.minimum(weights, largest) / largest, 1.0)


def _numbers(stated: Any, rows: int) -> Array:
    weights = doubles_of("sample_weight", cells_of(stated))
    if weights.shape != (rows,):
        raise InvalidInput("sample_weight", "expected one number a row of X")
    if not np.all((weights >= 0.0) & np.isfinite(weights)):
        raise InvalidInput("sample_weight", "expected finite numbers ≥ 0")
    return weights


def times(one: Any, other: Array | None) -> Any:
    """The product of weights, where there are some."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, LargeColumn):
        return product(one, other)
    return np.asarray(one * other)
