"""Numbers as people type them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from pabi.numbers.errors import InvalidInput

_SPACES = re.compile(r"[\s_\u00a0\u2009\u202f']")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(\.000)+")  # a thousand to some; nobody writes one so
_LONGEST = 60


def text_of(state: Mapping[str, Any], name: str, default: str) -> str:
    """What a control holds. Raises InvalidInput for what is no text."""
    value = state.get(name, default)
    if not isinstance(value, str):
        raise InvalidInput(name, "expected a text")
    return value.strip()


def number(name: str, text: str) -> float:
    """The number that somebody typed, with a decimal point or comma. Raises InvalidInput."""
    plain = _SPACES.sub("", text).replace("−", "-")
    if _THOUSANDS.fullmatch(plain):
        other = plain.replace(",", ".", 1) if plain.count(",") == 1 else "a decimal point"
        raise InvalidInput(
            name, f"{text!r} can be read in two ways: write {plain.replace(',', '')} or {other}0"
            if plain.count(",") == 1
            else f"expected a number without separators, such as {plain.replace(',', '')}"
        )  # fmt: skip
    if _GROUPS.fullmatch(plain):
        raise InvalidInput(
            name, f"{text!r} can be read in two ways: write {plain.replace('.', '')} or "
            f"{plain.partition('.')[0]}"
        )  # fmt: skip
    if len(plain) > _LONGEST or not _NUMBER.fullmatch(plain):
        raise InvalidInput(name, f"expected a number such as 0.5 or 0,5, got {_short(text)}")
    value = float(plain.replace(",", "."))
    if not math.isfinite(value):
        raise InvalidInput(name, f"expected a finite number, got {_short(text)}")
    return value


def whole(name: str, text: str) -> int:
    """The whole number that somebody typed. Raises InvalidInput."""
    plain = _SPACES.sub("", text)
    if plain.isascii() and plain.isdigit() and len(plain) <= _LONGEST:
        return int(plain)
    if _THOUSANDS.fullmatch(plain.replace(".", ",")) and "." in plain:
        raise InvalidInput(name, f"expected a whole number without separators, got {_short(text)}")
    value = number(name, text)
    if "," in plain or value != int(value):
        raise InvalidInput(name, f"expected a whole number such as 60000, got {_short(text)}")
    return int(value)


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
