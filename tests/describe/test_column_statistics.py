"""Descriptions of noisy statistics of columns: fields, sensitivities, files."""

from __future__ import annotations

import math

import pytest

import pabi
from pabi.describe.files import from_dict, to_dict
from pabi.numbers.errors import InvalidInput
from support.every_case import every_case, refused, refuses

FIELDS = {"n": 100, "columns": 3, "statistic": "moments", "noise_std": 4.0}


def described(**changes):
    return pabi.NoisyColumnStatistics(**{**FIELDS, **changes})


def test_wrong_fields_are_named():
    refuses(
        described,
        {
            "n": [0],
            "columns": [0, 1.5],
            "statistic": ["means"],
            "questions": [0, 2],
            "noise_std": [0.0, -1.0, math.nan],
            "threshold": [1.0],
            "adjacency": ["add_or_remove"],
            "unit": ["user"],
        },
    )
    for threshold in (-1.0, 37.5, math.inf):
        refused("threshold", described, statistic="levels", threshold=threshold)


def test_without_noise_there_is_no_guarantee():
    with pytest.raises(InvalidInput, match="noise_std"):
        described(noise_std=None).guarantee(1e-3)


@every_case(
    "changes",
    [{}, {"statistic": "counts", "questions": 9}, {"statistic": "levels", "threshold": 4.5}],
)
def test_a_table_holds_all_of_it(changes):
    one = described(**changes, adjacency="zero_out")
    assert from_dict(to_dict(one)) == one


def test_calibration_meets_its_target_with_a_failure_as_well():
    for changes in ({}, {"statistic": "levels", "threshold": 5.5}):
        one = pabi.calibrate(described(noise_std=None, **changes), 1.0, 1e-3)
        epsilon = one.guarantee(1e-3).epsilon(1e-3)
        assert 1.0 - 1e-3 <= epsilon <= 1.0
