"""Random alterations: a changed certificate passes only if fresh accounting proves what it claims."""

from __future__ import annotations

import copy
import functools
import json

import numpy as np
import pytest

import pabi
from pabi import InvalidInput
from pabi.numbers import encoding
from support.certificates import LITTLE_LESS, LITTLE_MORE, guarantee_of, payload_of, too_small

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


FUZZED = [
    "cyclic",
    "short last batch, shuffle once",
    "partial epochs, reshuffle",
    "diameter",
    "diameter, shuffle once",
    "falling, diameter",
    "rising, reshuffle",
    "logistic, clipped",
    "multiplier array",
    "path, shuffle once",
    "bare",
    "bare, start and diameter",
    "bare, diameter, written",
    "bare, start only",
]
ODDITIES = [
    None,
    [],
    {},
    "",
    "x",
    "inf",
    True,
    False,
    0,
    1,
    -1,
    1.5,
    1e300,
    [[]],
    [None],
    {"f8": "x"},
]
FACTORS = [0.0, -1.0, 0.5, 0.9, LITTLE_LESS, LITTLE_MORE, 1.1, 2.0, 10.0, 1e-300]


def nodes(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from nodes(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(len(value)):
            yield from nodes(value[i], (*path, i))


def mutate(payload, rng):
    """Change one node: perturb, replace, delete, double, or swap with a sibling."""
    paths = [p for p in nodes(payload) if p and p[0] not in ("format", "version")]
    path = paths[rng.integers(len(paths))]
    parent = payload
    for key in path[:-1]:
        parent = parent[key]
    key, value = path[-1], parent[path[-1]]
    action = rng.integers(10)
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    if numeric and action < 6:
        if isinstance(value, int):
            parent[key] = int(value + rng.choice([-1, 1, -value, value, 2, -2]))
        else:
            parent[key] = value * float(rng.choice(FACTORS))
    elif isinstance(value, dict) and set(value) == {"f8"} and action < 6:
        numbers = encoding.read_floats("x", value).copy()
        numbers[rng.integers(len(numbers))] *= rng.choice(FACTORS)
        parent[key] = encoding.floats(numbers)
    elif action < 7:
        del parent[key]
    elif action < 8 and isinstance(parent, list) and len(parent) > 1:
        other = int(rng.integers(len(parent)))
        parent[key], parent[other] = parent[other], parent[key]
    elif action < 9 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(value))
    else:
        parent[key] = copy.deepcopy(ODDITIES[rng.integers(len(ODDITIES))])
    return path, value, parent[key] if not isinstance(parent, list) and key in parent else None


@functools.cache
def fuzz(name, count):
    """(accepted changes that claim too little, errors other than InvalidInput, how many were answered)."""
    rng = np.random.default_rng([7, FUZZED.index(name)])
    lies, crashes, answered = [], [], 0
    original = payload_of(name)
    for _ in range(count):
        payload = copy.deepcopy(original)
        changes = [mutate(payload, rng) for _ in range(rng.integers(1, 3))]
        try:
            verdict = pabi.verify(json.loads(json.dumps(payload)))
        except InvalidInput:
            continue
        except Exception as error:
            crashes.append((changes, repr(error)))
            continue
        answered += 1
        problem = too_small(payload, verdict)
        if problem is not None:
            lies.append((changes, problem))
    return lies, crashes, answered


COUNTS = pytest.mark.parametrize("count", [80, pytest.param(220, marks=pytest.mark.nightly)])


@COUNTS
@pytest.mark.parametrize("name", FUZZED)
def test_accepted_only_if_proven(name, count):
    lies, _, answered = fuzz(name, count)
    assert not lies, lies[0]
    assert answered > count / 2


@COUNTS
@pytest.mark.parametrize("name", FUZZED)
def test_never_an_exception(name, count):
    _, crashes, _ = fuzz(name, count)
    assert not crashes, crashes[0]


@COUNTS
@pytest.mark.parametrize("name", ["cyclic", "falling", "bare, written"])
def test_cut_or_garbled_text(name, count):
    text = guarantee_of(name).certificate.to_json()
    rng, answered = np.random.default_rng(3), 0
    for _ in range(count // 2):
        i = int(rng.integers(len(text)))
        replaced = text[:i] + str(rng.choice(list('0123456789.-eE"[]{},:x'))) + text[i + 1 :]
        for garbled in (text[:i], replaced, text[:i] + text[i + 1 :]):
            try:
                payload = json.loads(garbled)
                verdict = pabi.verify(garbled)
            except (InvalidInput, json.JSONDecodeError):
                continue
            answered += 1
            assert too_small(payload, verdict) is None
    assert answered
