"""Edits of JSON: at a place, what stands there ↦ what shall stand there."""

import base64
import copy
import json
import math
import zlib

import numpy as np

from pabi.numbers import encoding

LITTLE = 1e-6


# Places in a file.


def places(value, path=()):
    """Every path to a part of a JSON value, the value itself aside."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


def at(value, path):
    """The part at a path."""
    for key in path:
        value = value[key]
    return value


def put(value, path, part):
    at(value, path[:-1])[path[-1]] = part


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def is_packed(value) -> bool:
    return isinstance(value, dict) and list(value) in (["f8"], ["i8"])


def packed(raw, key="f8"):
    return {key: base64.b64encode(zlib.compress(raw)).decode()}


# Every edit.


def _less(value):
    """The same with all that is no whole number a little less."""
    if isinstance(value, dict):
        return {key: _less(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_less(part) for part in value]
    return value * (1 - LITTLE) if isinstance(value, float) else value


def _numbers(value):
    """Edits of a number."""
    if isinstance(value, int):
        return {"one more": value + 1, "one less": value - 1, "huge": 10**18, "zero": 0}
    return {
        "an ulp up": math.nextafter(value, math.inf),
        "an ulp down": math.nextafter(value, -math.inf),
        "a little more": value * (1 + LITTLE),
        "a little less": value * (1 - LITTLE),
        "a thousandth more": value * 1.001,
        "a thousandth less": value * 0.999,
        "twice": 2 * value,
        "half": value / 2,
        "negative": -value,
        "zero": 0.0,
        "nothing": -0.0,
        "denormal": 5e-324,
        "huge": 1e300,
        "no number": math.nan,
    }


def _arrays(value, entry):
    """Edits of a packed array, at one of its entries."""
    (key,) = value
    kind = "<f8" if key == "f8" else "<i8"
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(value[key])), kind)
    if not numbers.size:
        return {}
    k = entry % numbers.size
    more = {} if key == "i8" else {"not a number": math.nan, "infinite": math.inf}
    edited = {
        "one fewer": np.delete(numbers, k),
        "an entry twice": np.insert(numbers, k, numbers[k]),
    }
    for name, other in {**_numbers(numbers[k].item()), **more}.items():
        changed = numbers.copy()
        changed[k] = other
        edited[name] = changed
    pack = encoding.floats if key == "f8" else encoding.integers
    return {name: pack(array) for name, array in edited.items()}


def _moved(values, entry):
    """What one entry has is at its neighbour, or a part of it; of pairs the probability."""
    j = entry % len(values)
    for name, share in (("all", 1.0), ("half", 0.5), ("a little", LITTLE)):
        moved = copy.deepcopy(values)
        if all(isinstance(pair, list) and is_number(pair[:1] and pair[0]) for pair in values):
            moved[j][0], moved[j - 1][0] = _shifted(values[j][0], values[j - 1][0], share)
        elif all(map(is_number, values)):
            moved[j], moved[j - 1] = _shifted(values[j], values[j - 1], share)
        else:
            return
        yield f"{name} moved", moved


def _shifted(one, other, share):
    return one - share * one, other + share * one


GONE = object()
TWICE_IN_THE_TEXT, BEYOND, RENAMED = "the key twice", "a number beyond doubles", "another name"
EVERYWHERE = "everywhere"
HERE = "the place of the key"
OTHER = {"zero_out": "replace_one", "replace_one": "zero_out"}


def edits(data, path, others, entry):
    """Every edit of what stands at a path, by name. `others`: what stands at such a place in other files."""
    value, parent = at(data, path), at(data, path[:-1])
    edited = {"drop": GONE, "an object": {"value": value}, "a list": [value], "no value": None}
    edited |= {"a text": str(value), "true": True, "long text": "a" * 100_000}
    if is_packed(value):
        edited |= _arrays(value, entry)
    elif is_number(value):
        edited |= _numbers(value)
    elif isinstance(value, list):
        edited |= {"empty": [], "long": (value or [0]) * 1000, "reversed": value[::-1]}
        edited |= {"all a little less": _less(value)} | dict(
            _moved(value, entry) if value[1:] else ()
        )
    elif isinstance(value, dict):
        edited |= {"empty": {}, "unknown key": {**value, "reviewed_by": "an auditor"}}
        edited |= {"all a little less": _less(value)}
    elif isinstance(value, str):
        edited |= {"a letter less": value[:-1], "capitals": value.upper()}
        edited |= {EVERYWHERE: OTHER[value]} if value in OTHER else {}
    if isinstance(parent, list):
        edited |= {"an element twice": parent, "swap with its neighbour": parent}
    else:
        edited |= {TWICE_IN_THE_TEXT: value, RENAMED: value}
    edited[BEYOND] = "1e400"
    for i, other in enumerate(others):
        edited[f"swap {i}"] = other
        if (
            isinstance(value, dict)
            and isinstance(other, dict)
            and (new := other.keys() - value.keys())
        ):
            key = sorted(new)[entry % len(new)]
            edited[f"a part of {i}"] = {**value, key: other[key]}
    return edited


def put_edit(data, path, edit, value):
    """Does it, in place; the text of the whole where no object says it."""
    parent, key = at(data, path[:-1]), path[-1]
    if value is GONE:
        del parent[key]
    elif edit == "an element twice":
        parent.insert(key, copy.deepcopy(parent[key]))
    elif edit == "swap with its neighbour":
        parent[key], parent[key - 1] = parent[key - 1], parent[key]
    elif edit == TWICE_IN_THE_TEXT:
        parent[HERE] = value
        return json.dumps(data).replace(json.dumps(HERE), json.dumps(key))
    elif edit == BEYOND:
        parent[key] = HERE
        return json.dumps(data).replace(json.dumps(HERE), value)
    elif edit == RENAMED:
        parent[f"{key} "] = parent.pop(key)
    elif edit == EVERYWHERE:
        for path in [p for p in places(data) if p[-1] == "adjacency" and str(at(data, p)) in OTHER]:
            put(data, path, value)
    else:
        parent[key] = copy.deepcopy(value)
    return json.dumps(data) if edit == "no number" else None
