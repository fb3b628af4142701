"""Numbers in JSON: exact, and compact where there are many.

A float is written as its shortest decimal that reads back the same. An array of more than 64 floats
becomes {"f8": base64(zlib(little-endian doubles))}; increasing integers become {"i8": …} of their
differences.

JSON is read strictly: whatever two readers could take for different things is an error.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections import Counter
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.locking import holding
from pabi.numbers.rounding import Array
from pabi.numbers.validate import excerpt

_SHORT = 64
_LONG = 1 << 20  # bytes above which packing well takes longer than it saves


def _pack(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 6 if len(raw) < _LONG else 1)).decode("ascii")


_MOST = 1 << 30  # bytes that one array unpacks to, unless less is allowed
# What is left of what may be unpacked in this context: [bytes], or None without a limit of its own.
_room: ContextVar[list[int] | None] = ContextVar("_room", default=None)


def unpacking_at_most(size: int) -> AbstractContextManager[None]:
    """Within it arrays unpack to at most `size` bytes, all of them together; InvalidInput beyond that.

    (A megabyte of zeros packs into a kilobyte.)
    """
    return holding(_room, [size])


def _unpack(field: str, text: Any, words: str) -> bytes:
    """The bytes of whole `words` of eight bytes each."""
    room = _room.get() or [_MOST]
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(base64.b64decode(text, validate=True), room[0] + 1)
    except (TypeError, ValueError, binascii.Error, zlib.error):
        raise InvalidInput(field, "expected base64 of zlib-compressed numbers") from None
    require(len(raw) <= room[0], field, "unpacks to more numbers than are read here (unpacked)")
    if not unpacker.eof or unpacker.unused_data:
        raise InvalidInput(field, "expected base64 of zlib-compressed numbers")
    room[0] -= len(raw)
    require(not len(raw) % 8, field, f"expected whole {words}")
    return raw


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


def _are(values: list[Any], *kinds: type) -> bool:
    """Whether all values are of these kinds, none a bool."""
    own = set(map(type, values))
    return bool not in own and all(issubclass(kind, kinds) for kind in own)


def read_floats(field: str, value: Any) -> Array:
    """The array that `floats` wrote. Raises InvalidInput."""
    if isinstance(value, dict) and set(value) == {"f8"}:
        raw = _unpack(field, value["f8"], "doubles")
        return np.frombuffer(raw, dtype="<f8").astype(np.float64)
    if isinstance(value, list) and _are(value, int, float):
        try:
            return np.array(value, dtype=np.float64)
        except OverflowError:
            raise InvalidInput(field, "expected numbers within the range of doubles") from None
    raise InvalidInput(field, f"expected a number or a list of numbers, got {excerpt(value)}")


def read_integers(field: str, value: Any) -> NDArray[np.int64]:
    """The array that `integers` wrote. Raises InvalidInput."""
    if isinstance(value, dict) and set(value) == {"i8"}:
        raw = _unpack(field, value["i8"], "64-bit integers")
        return np.cumsum(np.frombuffer(raw, dtype="<i8").astype(np.int64))
    if isinstance(value, list) and _are(value, int) and all(-(2**62) < x < 2**62 for x in value):
        return np.array(value, dtype=np.int64)
    raise InvalidInput(field, f"expected a list of integers, got {excerpt(value)}")


def parse_json(text: str) -> Any:
    """The JSON value in `text`. Raises InvalidInput, with line and column where it is malformed.

    A key that comes twice, a number beyond the doubles or so near to 0 that it would read as 0, and NaN are
    errors: other programs, and people, read them otherwise.
    """
    try:
        return json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_number,
            object_pairs_hook=_once_each,
        )
    except json.JSONDecodeError as bad:
        raise InvalidInput("json", f"line {bad.lineno}, column {bad.colno}: {bad.msg}") from None
    except RecursionError:
        raise InvalidInput("json", "nested too deeply") from None
    except ValueError as bad:  # an integer of more digits than Python reads
        if isinstance(bad, InvalidInput):
            raise
        raise InvalidInput("json", f"a number that cannot be read: {bad}") from None


# One character or two at a time, so that no text takes longer than its length says.
_NESTING = re.compile(r'\\.|["\[{\]}]', re.DOTALL)


def nesting(text: str, deep: int, many: int) -> tuple[int, int]:
    """How deeply brackets are nested in JSON, and how many are opened; no further than to where it is more
    than `deep` or `many`."""
    deepest = here = opened = 0
    inside = False
    for match in _NESTING.finditer(text):
        first = match.group()
        if first == '"':
            inside = not inside
        elif inside or first[0] == "\\":
            continue
        elif first in "[{":
            here, opened = here + 1, opened + 1
            deepest = max(deepest, here)
            if deepest > deep or opened > many:
                break
        else:
            here -= 1
    return deepest, opened


def _no_constant(name: str) -> float:
    raise InvalidInput("json", f"{name} is not a number that JSON knows")


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value) or (value == 0.0 and text.lower().partition("e")[0].strip("-0.")):
        raise InvalidInput("json", f"{excerpt(text)} is beyond the range of doubles")
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise InvalidInput("json", f"the key {excerpt(twice)} comes twice")
    return table
