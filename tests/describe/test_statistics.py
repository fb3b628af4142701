"""Noisy second moments and statistics of columns: sensitivity and cost against exact laws, and refusals."""

import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import pabi
from pabi.account.analyses.mechanisms import failure_of
from support.every_case import every, refused, refuses

DELTA = 1e-5
CHANGED = {"replace_one": 2, "zero_out": 1}


def moments(**changes):
    return pabi.NoisySecondMoments(**{"n": 100, "dimension": 3, "feature_norm": 1.5} | changes)


def columns(statistic="moments", **changes):
    fields = {"n": 100, "columns": 3, "noise_std": 4.0}
    fields |= {"questions": 7} if statistic == "counts" else {}
    return pabi.NoisyColumnStatistics(statistic=statistic, **{**fields, **changes})


def test_wrong_fields_are_named():
    wrong = {"n": [0, 2.5], "dimension": [0, True], "feature_norm": [0.0, math.nan, None, 1e155]}
    wrong |= {"noise_std": [0.0, -1.0, np.ones(3)], "noise_multiplier": [math.inf]}
    wrong |= {"adjacency": ["add_or_remove_one", "swap"], "diagonal": [1], "unit": ["group"]}
    refuses(moments, wrong)
    refused("noise_multiplier", moments, noise_std=1.0, noise_multiplier=1.0)
    refused("noise_multiplier", moments, feature_norm=1e-160, noise_multiplier=1e-10)
    refused("noise_multiplier", moments, feature_norm=1e150, noise_multiplier=1e10)
    wrong = {"n": [0], "columns": [0, 1.5], "statistic": ["means"], "questions": [0, 2]}
    wrong |= {"noise_std": [0.0, -1.0, math.nan], "threshold": [1.0], "unit": ["group"]}
    refuses(columns, wrong | {"adjacency": ["add_or_remove"]})
    for threshold in (-1.0, 37.5, math.inf):
        refused("threshold", columns, "levels", threshold=threshold)
    for described in (moments(), columns(noise_std=None)):
        refused("noise_std", described.guarantee, 1e-3)


@every("adjacency", CHANGED)
@every("radius", [1e-150, 0.1, 1.0, 1.5, math.sqrt(7.0), 1e150])
def test_the_sensitivity_is_the_least_double_above(adjacency, radius):
    found = moments(feature_norm=radius, adjacency=adjacency).sensitivity
    truth = CHANGED[adjacency] * Fraction(radius) ** 4
    assert Fraction(math.nextafter(found, 0.0)) ** 2 < truth <= Fraction(found) ** 2


@every(("radius", "multiplier"), [(1.5, 3.0), (0.1, 0.7), (math.pi, 1e5)])
def test_a_multiplier_is_in_units_of_the_square_of_the_norm(radius, multiplier):
    noise = moments(feature_norm=radius, noise_multiplier=multiplier).moment_noise_std
    truth = Fraction(multiplier) * Fraction(radius) ** 2
    assert Fraction(noise) <= truth < Fraction(math.nextafter(noise, math.inf))
    assert moments(noise_std=2.5).moment_noise_std == 2.5


@every("noise", [0.3, 4.0, 7e5])
@every("adjacency", CHANGED)
def test_mu_is_what_a_record_moves_over_the_noise(adjacency, noise):
    given = {"adjacency": adjacency, "noise_std": noise}
    squared = CHANGED[adjacency] * Fraction(1.5) ** 4
    found = [(moments(**given, diagonal=diagonal), squared) for diagonal in (False, True)]
    squares = {"counts": (21, 21), "moments": (12, 3), "levels": (6, 3)}
    for statistic, (replaced, zeroed) in squares.items():
        square = replaced if adjacency == "replace_one" else zeroed
        found.append((columns(statistic, **given), Fraction(square)))
    for described, square in found:
        guarantee = described.guarantee(DELTA)
        truth = square / Fraction(noise) ** 2
        assert truth <= Fraction(guarantee.mu) ** 2 <= truth * (1 + Fraction(1, 2**50))
        assert guarantee.epsilon(DELTA) == pabi.tradeoff.Gaussian(guarantee.mu).epsilon(DELTA)


def test_a_multiplier_costs_what_its_noise_costs():
    """σ = 16 R², so that μ = √2/16 whatever R is."""
    for radius in (0.1, 1.5, 3e7):
        found = moments(feature_norm=radius, noise_multiplier=16.0).guarantee(DELTA)
        assert found.mu == pytest.approx(math.sqrt(2.0) / 16.0, rel=1e-15)
    nothing = moments(noise_std=5e-324, feature_norm=1e10).guarantee(DELTA)
    assert nothing.mu == nothing.epsilon(DELTA) == math.inf


@every("adjacency", CHANGED)
def test_assumptions_say_what_is_released_and_who_is_adjacent(adjacency):
    told = [moments(adjacency=adjacency, diagonal=x).assumptions for x in (False, True)]
    assert len(set(told)) == 2
    for sentences, diagonal in zip(told, (False, True), strict=True):
        assert adjacency in sentences[0]
        assert any("norm at most 1.5" in s for s in sentences)
        assert any("sums of squared features" in s for s in sentences) == diagonal
        assert any("x·xᵀ" in s for s in sentences) != diagonal


def test_calibration_meets_its_target_with_a_failure_as_well():
    for statistic, changes in (("moments", {}), ("levels", {"threshold": 5.5})):
        one = pabi.calibrate(columns(statistic, noise_std=None, **changes), 1.0, 1e-3)
        assert 1.0 - 1e-3 <= one.guarantee(1e-3).epsilon(1e-3) <= 1.0


def test_a_certificate_about_records_is_none_about_users():
    proven = columns(unit="user").guarantee(1e-3)
    assert proven.curve == columns().guarantee(1e-3).curve
    for unit, run in (("record", "user"), ("user", "record"), ("record", "record")):
        table = json.loads(proven.to_json())
        assert pabi.verify(table).unit == "user"
        table["unit"] = unit
        table["certificate"]["run"]["unit"] = run
        assert not pabi.verify(table).ok


@every("number", [1, 4, 1000])
@every("z", [0.0, 0.5, 3.0, 6.25, 20.0, 37.0])
def test_the_failure_is_that_of_the_normal_law(z, number):
    with mpmath.workdps(400):
        exact = 1 - (1 - mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2) ** number
    failure = failure_of(z, number)
    assert float(exact) * (1.0 - 1e-15) <= failure <= float(exact) * (1.0 + 1e-14)
    assert mpmath.mpf(failure) >= exact


def test_levels_that_are_not_declared_add_their_failure_to_delta():
    declared = columns("levels").guarantee(DELTA)
    shown = columns("levels", threshold=3.0).guarantee(DELTA)
    failure = float(1 - mpmath.ncdf(3) ** 3)
    for epsilon in (0.0, 0.7, 2.0):
        expected = declared.delta(epsilon) + failure
        assert shown.delta(epsilon) == pytest.approx(expected, rel=1e-6)
        assert shown.delta(epsilon) >= failure + (1.0 - failure) * declared.delta(epsilon)
    assert shown.epsilon(failure * 0.9) == math.inf
