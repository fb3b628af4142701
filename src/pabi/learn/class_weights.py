"""Weights of classes: public numbers by which a record's loss is multiplied.

They are brought to a largest of 1. A record's gradient is then at most as long as without weights, and its
loss at most as curved, so that every proof, and the noise, stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import TINY, Array

_EXPECTED = (
    "expected a dict from every class to a number > 0, public and not computed from the labels"
)


def class_weights(stated: Any, classes: NDArray[Any]) -> Array:
    """(K,) weights in (0, 1], the largest 1, of the `classes` in their order.

    Raises InvalidInput naming `class_weight`.
    """
    if not isinstance(stated, Mapping):
        counted = isinstance(stated, str) and stated == "balanced"
        why = ': "balanced" counts the labels, which are private' if counted else ""
        raise InvalidInput("class_weight", f"{_EXPECTED}, got {validate.excerpt(stated)}{why}")
    labels = classes.tolist()
    for label in stated:
        if label not in labels:
            raise InvalidInput("class_weight", f"{_EXPECTED}; there is no class {label!r}")
    for label in labels:
        if label not in stated:
            raise InvalidInput("class_weight", f"{_EXPECTED}; missing: class {label!r}")
    weights = [validate.number("class_weight", stated[label], above=0.0) for label in labels]
    return np.maximum(np.divide(weights, max(weights)), TINY)
