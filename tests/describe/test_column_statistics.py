"""Noisy statistics of columns: fields, files, and cost against exact laws and adjacent records."""

import json
import math
from fractions import Fraction

import mpmath
import pytest

import pabi
from pabi.account.analyses.mechanisms import failure_of
from pabi.describe.files import from_dict, to_dict
from support.every_case import every, refused, refuses


def test_wrong_fields_are_named():
    wrong = {"n": [0], "columns": [0, 1.5], "statistic": ["means"], "questions": [0, 2]}
    wrong |= {"noise_std": [0.0, -1.0, math.nan], "threshold": [1.0], "unit": ["group"]}
    refuses(noisy, wrong | {"adjacency": ["add_or_remove"]})
    for threshold in (-1.0, 37.5, math.inf):
        refused("threshold", noisy, "levels", threshold=threshold)
    refused("noise_std", noisy(noise_std=None).guarantee, 1e-3)


def test_a_table_holds_all_of_it():
    for statistic, changes in (("moments", {}), ("counts", {}), ("levels", {"threshold": 4.5})):
        one = noisy(statistic, **changes, adjacency="zero_out")
        assert from_dict(to_dict(one)) == one


def test_calibration_meets_its_target_with_a_failure_as_well():
    for statistic, changes in (("moments", {}), ("levels", {"threshold": 5.5})):
        one = pabi.calibrate(noisy(statistic, noise_std=None, **changes), 1.0, 1e-3)
        assert 1.0 - 1e-3 <= one.guarantee(1e-3).epsilon(1e-3) <= 1.0


def test_a_certificate_about_records_is_none_about_users():
    proven = noisy(unit="user").guarantee(1e-3)
    assert proven.curve == noisy().guarantee(1e-3).curve
    for unit, run in (("record", "user"), ("user", "record"), ("record", "record")):
        table = json.loads(proven.to_json())
        assert pabi.verify(table).unit == "user"
        table["unit"] = unit
        table["certificate"]["run"]["unit"] = run
        assert not pabi.verify(table).ok


DELTA = 1e-5


def noisy(statistic="moments", **changes):
    fields = {"n": 100, "columns": 3, "noise_std": 4.0}
    fields |= {"questions": 7} if statistic == "counts" else {}
    return pabi.NoisyColumnStatistics(statistic=statistic, **{**fields, **changes})


def tail(z):
    """Q(z), to 40 digits."""
    with mpmath.workdps(40):
        return mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2


@every("noise", [0.3, 4.0, 7e5])
def test_mu_is_what_a_record_moves_over_the_noise(noise):
    squares = {"counts": (21, 21), "moments": (12, 3), "levels": (6, 3)}
    for statistic, of_each in squares.items():
        for adjacency, square in zip(("replace_one", "zero_out"), of_each, strict=True):
            guarantee = noisy(statistic, adjacency=adjacency, noise_std=noise).guarantee(DELTA)
            truth = Fraction(square) / Fraction(noise) ** 2
            assert truth <= Fraction(guarantee.mu) ** 2 <= truth * (1 + Fraction(1, 2**50))
            assert pabi.verify(guarantee).ok


@every("columns", [1, 4, 1000])
@every("z", [0.0, 0.5, 3.0, 6.25, 20.0, 37.0])
def test_the_failure_is_that_of_the_normal_law(z, columns):
    with mpmath.workdps(400):
        exact = 1 - (1 - mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2) ** columns
    failure = failure_of(z, columns)
    assert float(exact) * (1.0 - 1e-15) <= failure <= float(exact) * (1.0 + 1e-14)
    assert mpmath.mpf(failure) >= exact


def test_levels_that_are_not_declared_add_their_failure_to_delta():
    declared = noisy("levels").guarantee(DELTA)
    shown = noisy("levels", threshold=3.0).guarantee(DELTA)
    failure = float(1 - (1 - tail(3.0)) ** 3)
    for epsilon in (0.0, 0.7, 2.0):
        expected = declared.delta(epsilon) + failure
        assert shown.delta(epsilon) == pytest.approx(expected, rel=1e-6)
        assert shown.delta(epsilon) >= failure + (1.0 - failure) * declared.delta(epsilon)
    assert shown.epsilon(failure * 0.9) == math.inf
