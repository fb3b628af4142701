"""Numbers in JSON: exact, and compact where there are many.

A float is written as its shortest decimal that reads back the same. An array of more than 64 floats
becomes {"f8": base64(zlib(little-endian doubles))}; increasing integers become {"i8": …} of their
differences.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.errors import InvalidInput
from pabi.rounding import Array

_SHORT = 64


def _pack(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 6)).decode("ascii")


def _unpack(field: str, text: Any) -> bytes:
    try:
        return zlib.decompress(base64.b64decode(text, validate=True))
    except (TypeError, ValueError, binascii.Error, zlib.error):
        raise InvalidInput(field, "expected base64 of zlib-compressed numbers") from None


def floats(values: Any) -> Any:
    """An array of floats as JSON."""
    array = np.ascontiguousarray(values, dtype="<f8")
    return array.tolist() if array.size <= _SHORT else {"f8": _pack(array.tobytes())}


def integers(values: Any) -> Any:
    """An array of increasing integers as JSON."""
    array = np.ascontiguousarray(values, dtype="<i8")
    if array.size <= _SHORT:
        return array.tolist()
    return {"i8": _pack(np.diff(array, prepend=0).astype("<i8").tobytes())}


def read_floats(field: str, value: Any) -> Array:
    """The array that `floats` wrote. Raises InvalidInput."""
    if isinstance(value, dict) and set(value) == {"f8"}:
        raw = _unpack(field, value["f8"])
        if len(raw) % 8:
            raise InvalidInput(field, "expected whole doubles")
        return np.frombuffer(raw, dtype="<f8").astype(np.float64)
    if isinstance(value, list) and all(
        isinstance(x, (int, float)) and not isinstance(x, bool) for x in value
    ):
        try:
            return np.array(value, dtype=np.float64)
        except OverflowError:
            raise InvalidInput(field, "expected numbers within the range of doubles") from None
    raise InvalidInput(field, f"expected a number or a list of numbers, got {_short(value)}")


def read_integers(field: str, value: Any) -> NDArray[np.int64]:
    """The array that `integers` wrote. Raises InvalidInput."""
    if isinstance(value, dict) and set(value) == {"i8"}:
        raw = _unpack(field, value["i8"])
        if len(raw) % 8:
            raise InvalidInput(field, "expected whole 64-bit integers")
        return np.cumsum(np.frombuffer(raw, dtype="<i8").astype(np.int64))
    if isinstance(value, list) and all(
        isinstance(x, int) and not isinstance(x, bool) and abs(x) < 2**62 for x in value
    ):
        return np.array(value, dtype=np.int64)
    raise InvalidInput(field, f"expected a list of integers, got {_short(value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
