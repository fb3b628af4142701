"""Parameters of proximal maps: as arguments, in tables and in a repr."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pabi.numbers import encoding, validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

_SHOWN = 16  # array entries in a repr


def real_numbers(field: str, value: Any) -> Array:
    """The value as a float64 array. Raises InvalidInput, which says nothing of its entries."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise InvalidInput(field, "expected an array of real numbers") from None
    if array.dtype.kind not in "fiu":
        raise InvalidInput(field, f"expected real numbers, got an array of dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def finite_numbers(field: str, value: Any) -> Array:
    """A read-only float64 array of finite numbers. Raises InvalidInput."""
    array = real_numbers(field, value) + 0.0  # no −0, which would compare as another number
    if not np.all(np.isfinite(array)):
        raise InvalidInput(field, "expected finite numbers")
    return _frozen(array)


def number_or_array(field: str, value: Any) -> Any:
    """A float or a read-only array, infinities allowed. Raises InvalidInput."""
    array = real_numbers(field, value) + 0.0
    if np.any(np.isnan(array)):
        raise InvalidInput(field, "expected numbers or infinities, got NaN")
    return float(array) if array.ndim == 0 else _frozen(array)


def _frozen(array: Array) -> Array:
    array = np.asarray(array)
    array.flags.writeable = False
    return array


def read_shape(value: Any) -> tuple[int, ...]:
    """The shape that an integer or a list of them says. Raises InvalidInput."""
    sizes = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return tuple(validate.integer("shape", size, at_least=1, at_most=10**18) for size in sizes)


def written(value: Any) -> Any:
    """A parameter for JSON: numbers in nested lists, packed where there are many."""
    if value is None or isinstance(value, tuple):
        return value if value is None else list(value)
    array = np.asarray(value)
    packed = encoding.floats(array.ravel())
    if isinstance(packed, dict):
        return packed if array.ndim == 1 else {**packed, "shape": list(array.shape)}
    return _spelled(array.tolist())


def _spelled(value: Any) -> Any:
    """Infinities, which JSON lacks, as "inf" and "-inf"."""
    if isinstance(value, list):
        return [_spelled(v) for v in value]
    return value if math.isfinite(value) else str(value)


def read(field: str, value: Any, depth: int = 0) -> Any:
    """What `written` wrote. Arrays have at most 64 dimensions. Raises InvalidInput naming `field`."""
    if isinstance(value, list) and depth < 64:
        return [read(field, v, depth + 1) for v in value]
    if isinstance(value, Mapping):
        packed = {k: v for k, v in value.items() if k != "shape"}
        flat = encoding.read_floats(field, packed)
        shape = read_shape(value["shape"]) if "shape" in value else flat.shape
        if math.prod(shape) != flat.size:
            raise InvalidInput(field, f"expected numbers of shape {shape}, got {flat.size} of them")
        return flat.reshape(shape)
    return float(value) if isinstance(value, str) and value in ("inf", "-inf") else value


def short(value: Any) -> str:
    """A parameter for a repr: large arrays by their shape alone."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return repr(value.tolist()) if value.size <= _SHOWN else f"<array of shape {value.shape}>"
