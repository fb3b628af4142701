"""Every honest file with one edit: at every place of its JSON, of every kind that is a line long.

What a checker must notice, place by place; several edits at once and those of the text are in
`altered_files`, whose oracle judges what is accepted.
"""

from __future__ import annotations

import copy
import json
import math
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import pabi
from pabi.numbers import encoding
from support.certificates import RUNS, guarantee_of
from support.falsification.altered_files import FIELDS, at, is_number, packed, places, put
from support.falsification.altered_oracle import wrong_with
from support.falsification.honest_files import certificate_in, honest_files
from support.proofs import proofs

MARK = "a key that is in no file"
Edit = Callable[[Any, tuple[Any, ...]], Any]


@cache
def files() -> dict[str, str]:
    """Honest files by name: of every theorem, scheme and version."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = {f"run {name}": guarantee_of(name).to_json() for name in RUNS}
        small = {f"proof {name}": guarantee.to_json() for name, guarantee in proofs().items()}
    return honest_files() | runs | small


def of_theorem(theorem: str) -> list[str]:
    """The names of the files whose certificate is by a theorem."""
    return [
        n for n, text in files().items() if certificate_in(json.loads(text))["theorem"] == theorem
    ]


# The edits: (a file's data, a path in it) -> None, or the text in place of the data. An edit that does not
# apply raises one of these.
DOES_NOT_APPLY = (TypeError, IndexError, KeyError, ValueError, OverflowError)


def drop(data, path):
    del at(data, path[:-1])[path[-1]]


def times(factor: float, away: float) -> Edit:
    """A number, or one of an array, times a factor, or one ulp away; a whole number one away."""

    def edit(data, path):
        value = at(data, path)
        if path[-1] == "f8":
            values = encoding.read_floats("f8", at(data, path[:-1])).copy()
            k = len(value) % values.size
            values[k] = changed(float(values[k]))
            put(data, path, packed(values.astype("<f8").tobytes())["f8"])
        elif is_number(value):
            put(data, path, changed(value))
        else:
            raise TypeError

    def changed(value):
        if isinstance(value, int):
            return value + (1 if away > 0.0 else -1)
        return math.nextafter(value, away) if factor == 1.0 else value * factor

    return edit


def swap(data, path):
    """With the next value beside it."""
    inner = at(data, path[:-1])
    keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
    other = keys[(keys.index(path[-1]) + 1) % len(keys)]
    if inner[path[-1]] == inner[other]:
        raise ValueError
    inner[path[-1]], inner[other] = inner[other], inner[path[-1]]


def wrong_type(data, path):
    value = at(data, path)
    others = {str: [value], bool: str(value), list: {"0": value}, dict: [value], type(None): True}
    put(data, path, others.get(type(value), str(value)))


def absent(data, path):
    if at(data, path) is None:
        raise ValueError
    put(data, path, None)


def duplicate(data, path):
    """An entry of a list twice, or a key twice in the text."""
    if isinstance(path[-1], int):
        at(data, path[:-1]).insert(path[-1], copy.deepcopy(at(data, path)))
        return None
    at(data, path[:-1])[MARK] = at(data, path)
    return json.dumps(data).replace(json.dumps(MARK), json.dumps(path[-1]))


def beside(data, path):
    """Another key in an object."""
    at(data, path)[MARK] = 0.0


def huge(data, path):
    value = at(data, path)
    if isinstance(value, (list, dict)):
        put(data, path, [value] * 10_000)
    elif isinstance(value, bool) or value is None:
        raise TypeError
    else:
        put(data, path, "9" * 100_000 if isinstance(value, str) else type(value)(10**18))


EDITS: dict[str, Edit] = {
    "drop": drop,
    "one ulp up": times(1.0, math.inf),
    "one ulp down": times(1.0, -math.inf),
    "a little more": times(1.0 + 1e-6, math.inf),
    "a little less": times(1.0 - 1e-6, -math.inf),
    "none": times(0.0, -math.inf),
    "swap": swap,
    "wrong type": wrong_type,
    "absent": absent,
    "duplicate": duplicate,
    "beside": beside,
    "huge": huge,
}
# Refused wherever they are: what nobody reads would be accepted.
ALWAYS_REFUSED = {"wrong type", "beside"}


def edits(name: str) -> Iterator[tuple[tuple[Any, ...], str]]:
    """(path, kind) of every edit of a file."""
    data = json.loads(files()[name])
    for path in places(data):
        if path[0] not in ("notes", "format", "version"):
            for kind in EDITS:
                yield path, kind


def problem(name: str, path: tuple[Any, ...], kind: str) -> str | None:
    """What is wrong with the answer to an edited file, or None."""
    honest = json.loads(files()[name])
    data = copy.deepcopy(honest)
    try:
        text = EDITS[kind](data, path)
        text = json.dumps(data) if text is None else text
    except DOES_NOT_APPLY:
        return None
    try:
        verdict = pabi.verify(text)
    except pabi.InvalidInput as bad:
        return None if bad.field in FIELDS else f"raised {bad!r}"
    except Exception as error:
        return f"raised {error!r}"
    if not verdict.ok:
        return None if verdict.reason and verdict.mu is None else f"refused oddly: {verdict}"
    if kind in ALWAYS_REFUSED or (kind == "duplicate" and isinstance(path[-1], str)):
        return "accepted"
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return wrong_with(json.loads(text), honest, verdict)
        except Exception as error:
            return f"accepted, although nobody can say what it is: {error!r}"
