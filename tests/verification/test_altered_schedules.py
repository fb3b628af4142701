"""Altered schedules: steps that are a little better than the description implies, or no steps at all."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pabi
from pabi.numbers import encoding
from support.certificates import (
    LITTLE_LESS,
    LITTLE_MORE,
    POSITIVE,
    RUNS,
    all_stretches,
    changed_column,
    payload_of,
    refused,
    too_small,
)

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


ENTRIES = [(1, LITTLE_LESS), (2, LITTLE_LESS), (3, LITTLE_MORE)]  # of slope, sensitivity and noise


def stretches_of_first_cases(name):
    """(case, stretch, its entries) of the blocks of the first three cases."""
    for i, case in enumerate(payload_of(name)["cases"][:3]):
        for j, stretch in enumerate(all_stretches(case) if "blocks" in case else []):
            yield i, j, stretch


ITERATIONS = [n for n in POSITIVE if n.startswith("bare")]
RUNS_WITH_BLOCKS = [
    pytest.param(name, entry, factor, id=f"{name}-{entry}")
    for name in POSITIVE
    if name not in ITERATIONS
    for entry, factor in ENTRIES
    if any(stretch[entry] for _, _, stretch in stretches_of_first_cases(name))
]
RUNS_WRITTEN_OUT = [
    n for n in POSITIVE if n not in ITERATIONS and payload_of(n).get("steps") is not None
]
STATED_GROUPS = [
    pytest.param(name, entry, factor, id=f"{name}-{entry}")
    for name in ITERATIONS
    for entry, factor in [(2, LITTLE_MORE), (3, LITTLE_LESS)]
    for groups in [payload_of(name).get("groups", [])]
    if any(stretch[entry] for _, stretches in groups for stretch in stretches)
]
STATED_COLUMNS = [n for n in ITERATIONS if "steps" in payload_of(n)]


@pytest.mark.parametrize(("name", "entry", "factor"), RUNS_WITH_BLOCKS)
@pytest.mark.one_in(3)
def test_blocks_of_a_run(name, entry, factor):
    """Slope and sensitivity too small, noise too large."""
    for i, j, stretch in stretches_of_first_cases(name):
        if stretch[entry]:
            payload = payload_of(name)
            all_stretches(payload["cases"][i])[j][entry] *= factor
            refused(payload, "step")


@pytest.mark.parametrize("name", RUNS_WRITTEN_OUT)
@pytest.mark.parametrize(
    ("column", "factor"), [("c", LITTLE_LESS), ("s", LITTLE_LESS), ("sigma", LITTLE_MORE)]
)
@pytest.mark.one_in(3)
def test_written_steps_of_a_run(name, column, factor):
    data = RUNS[name].data_steps
    values = encoding.read_floats("x", payload_of(name)["steps"][column])
    places = [k for k in (0, data // 2, data - 1) if values[k]]
    assert places
    for k in places:
        payload = payload_of(name)
        payload["steps"][column] = changed_column(payload["steps"][column], k, factor)
        refused(payload, f"step {k + 1}:")


@pytest.mark.parametrize(("name", "entry", "factor"), STATED_GROUPS)
def test_stated_groups(name, entry, factor):
    """A bare iteration that is worse than the one whose payments are shown."""
    worse = payload_of(name)
    for _, stretches in worse["groups"]:
        for stretch in stretches:
            stretch[entry] *= factor
    refused(worse)
    for case in worse["cases"]:
        for stretch in all_stretches(case):
            stretch[entry] *= factor
    refused(worse)


@pytest.mark.parametrize("name", STATED_COLUMNS)
@pytest.mark.parametrize(("column", "factor"), [("s", LITTLE_MORE), ("sigma", LITTLE_LESS)])
def test_stated_columns(name, column, factor):
    """Likewise, where every step is written out."""
    payload = payload_of(name)
    steps = len(encoding.read_floats("s", payload["steps"]["s"]))
    values = encoding.read_floats(column, payload["steps"][column])
    tau = payload["cases"][0]["tau"] if payload["cases"] else 0
    places = [k for k in {tau, (tau + steps) // 2, steps - 1} if values[k]]
    assert places
    for k in places:
        worse = payload_of(name)
        worse["steps"][column] = changed_column(payload["steps"][column], k, factor)
        verdict = pabi.verify(worse)
        # A step whose noise pays for nothing may lose some of it.
        assert too_small(worse, verdict) is None
        assert not verdict.ok or column == "sigma"
    worse = payload_of(name)
    worse["steps"][column] = encoding.floats(values * factor)
    refused(worse)


@pytest.mark.parametrize("name", ["bare, written", "bare, start, written"])
@pytest.mark.parametrize("column", ["c", "s", "sigma"])
def test_columns_of_different_lengths(name, column):
    for length in (0, 1, 29, 31):
        payload = payload_of(name)
        values = encoding.read_floats(column, payload["steps"][column])
        payload["steps"][column] = encoding.floats(np.resize(values, length))
        refused(payload)


def test_slopes_for_one_step_only():
    """Thirty demands, but a slope for one step: the rest would go unpaid."""
    payload = payload_of("bare, written")
    payload["steps"]["c"] = [0.9]
    payload["cases"][0].update(tau=0, distance=0.0, first=0, ends=[0], q=[0.2500001])
    payload["claim"]["mu"] = 0.500001
    refused(payload)


def test_negative_and_infinite_entries():
    for value in (-1.0, math.inf, -math.inf, math.nan, "inf", None, True, 10**400):
        for entry in (1, 2, 3):
            payload = payload_of("bare")
            payload["groups"][0][1][0][entry] = value
            for case in payload["cases"]:
                for stretch in all_stretches(case):
                    stretch[entry] = value
            refused(payload)
        payload = payload_of("falling")
        payload["cases"][0]["q"][0] = value
        refused(payload)
        for key in ("distance", "tau", "first"):
            payload = payload_of("falling")
            payload["cases"][0][key] = value
            refused(payload)
