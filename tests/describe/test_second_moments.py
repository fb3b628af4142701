"""The sensitivity of second moments against pairs of records, what follows from it, and what is refused."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi.describe.files import from_dict, to_dict
from support.every_case import every_case, refused, refuses

CHANGED = {"replace_one": 2, "zero_out": 1}
both = every_case("adjacency", CHANGED)
forms = every_case("diagonal", [False, True])


def described(**changes):
    return pabi.NoisySecondMoments(**{"n": 100, "dimension": 3, "feature_norm": 1.5} | changes)


def moments_of(x, diagonal):
    """The matrices x·xᵀ of the rows of x, or their diagonals, flattened."""
    return x * x if diagonal else np.einsum("ki,kj->kij", x, x).reshape(len(x), -1)


@both
@forms
@pytest.mark.parametrize("d", [1, 2, 5])
def test_no_pair_of_records_moves_the_sum_farther(adjacency, diagonal, d):
    """Random directions and lengths up to R, and pairs of which one entry is nearly all."""
    rng = np.random.default_rng(1)
    radius = 1.5
    x, y = rng.standard_normal((2, 100_000, d)) * rng.exponential(size=(2, 100_000, d)) ** 3
    for one in (x, y):
        lengths = radius * rng.uniform(0.5, 1.0, (len(one), 1)).clip(max=0.999) / 0.999
        one *= lengths / np.linalg.norm(one, axis=1, keepdims=True)
    if adjacency == "zero_out":
        y[:] = 0.0
    moved = np.linalg.norm(moments_of(x, diagonal) - moments_of(y, diagonal), axis=1)
    bound = described(adjacency=adjacency).sensitivity
    assert np.max(moved) <= bound * (1.0 + 1e-12)
    assert np.max(moved) >= (0.9 if d > 1 or adjacency == "zero_out" else 0.5) * bound


@both
@every_case("radius", [1e-150, 0.1, 1.0, 1.5, math.sqrt(7.0), 1e150])
def test_the_sensitivity_is_the_least_double_above(adjacency, radius):
    found = described(feature_norm=radius, adjacency=adjacency).sensitivity
    truth = CHANGED[adjacency] * Fraction(radius) ** 4
    assert Fraction(math.nextafter(found, 0.0)) ** 2 < truth <= Fraction(found) ** 2


@every_case(("radius", "multiplier"), [(1.5, 3.0), (0.1, 0.7), (math.pi, 1e5)])
def test_a_multiplier_is_in_units_of_the_square_of_the_norm(radius, multiplier):
    noise = described(feature_norm=radius, noise_multiplier=multiplier).moment_noise_std
    truth = Fraction(multiplier) * Fraction(radius) ** 2
    assert Fraction(noise) <= truth < Fraction(math.nextafter(noise, math.inf))
    assert described(noise_std=2.5).moment_noise_std == 2.5


def test_without_noise_there_is_nothing_to_account():
    refused("noise_std", described().guarantee, 1e-3)


def test_bad_input_names_the_field():
    refuses(
        described,
        {
            "n": [0, 2.5],
            "dimension": [0, True],
            "feature_norm": [0.0, math.nan, None, 1e155],
            "noise_std": [0.0, -1.0, np.ones(3)],
            "noise_multiplier": [math.inf],
            "adjacency": ["add_or_remove_one", "swap"],
            "diagonal": [1],
            "unit": ["group"],
        },
    )
    refused("noise_multiplier", described, noise_std=1.0, noise_multiplier=1.0)
    refused("noise_multiplier", described, feature_norm=1e-160, noise_multiplier=1e-10)
    refused("noise_multiplier", described, feature_norm=1e150, noise_multiplier=1e10)


@both
@forms
@every_case("noise", [{}, {"noise_std": 0.1}, {"noise_multiplier": 1 / 3}])
def test_files_hold_the_description(adjacency, diagonal, noise):
    moments = described(adjacency=adjacency, diagonal=diagonal, **noise)
    table = json.loads(json.dumps(to_dict(moments)))
    assert table["kind"] == "noisy_second_moments"
    assert from_dict(table) == moments
    assert from_dict(table | {"n": 101}) != moments


def test_assumptions_say_what_is_released_and_who_is_adjacent():
    told = {
        (adjacency, diagonal): described(adjacency=adjacency, diagonal=diagonal).assumptions
        for adjacency in CHANGED
        for diagonal in (False, True)
    }
    assert len(set(told.values())) == 4
    for (adjacency, diagonal), sentences in told.items():
        assert adjacency in sentences[0]
        assert any("norm at most 1.5" in s for s in sentences)
        assert any("sums of squared features" in s for s in sentences) == diagonal
        assert any("x·xᵀ" in s for s in sentences) != diagonal
