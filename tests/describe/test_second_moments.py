"""Noisy second moments: their sensitivity and cost against pairs of records and laws, and what is refused."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi.describe.files import from_dict, to_dict
from support.every_case import every, refused, refuses

CHANGED = {"replace_one": 2, "zero_out": 1}
both = every("adjacency", CHANGED)
forms = every("diagonal", [False, True])


def described(**changes):
    return pabi.NoisySecondMoments(**{"n": 100, "dimension": 3, "feature_norm": 1.5} | changes)


def noisy(**changes):
    return described(**{"noise_std": 4.0} | changes)


@both
@every("radius", [1e-150, 0.1, 1.0, 1.5, math.sqrt(7.0), 1e150])
def test_the_sensitivity_is_the_least_double_above(adjacency, radius):
    found = described(feature_norm=radius, adjacency=adjacency).sensitivity
    truth = CHANGED[adjacency] * Fraction(radius) ** 4
    assert Fraction(math.nextafter(found, 0.0)) ** 2 < truth <= Fraction(found) ** 2


@every(("radius", "multiplier"), [(1.5, 3.0), (0.1, 0.7), (math.pi, 1e5)])
def test_a_multiplier_is_in_units_of_the_square_of_the_norm(radius, multiplier):
    noise = described(feature_norm=radius, noise_multiplier=multiplier).moment_noise_std
    truth = Fraction(multiplier) * Fraction(radius) ** 2
    assert Fraction(noise) <= truth < Fraction(math.nextafter(noise, math.inf))
    assert described(noise_std=2.5).moment_noise_std == 2.5


def test_bad_input_names_the_field():
    wrong = {"n": [0, 2.5], "dimension": [0, True], "feature_norm": [0.0, math.nan, None, 1e155]}
    wrong |= {"noise_std": [0.0, -1.0, np.ones(3)], "noise_multiplier": [math.inf]}
    wrong |= {"adjacency": ["add_or_remove_one", "swap"], "diagonal": [1], "unit": ["group"]}
    refuses(described, wrong)
    refused("noise_multiplier", described, noise_std=1.0, noise_multiplier=1.0)
    refused("noise_multiplier", described, feature_norm=1e-160, noise_multiplier=1e-10)
    refused("noise_multiplier", described, feature_norm=1e150, noise_multiplier=1e10)
    refused("noise_std", described().guarantee, 1e-3)


@both
@forms
@every("noise", [{}, {"noise_std": 0.1}, {"noise_multiplier": 1 / 3}])
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


DELTA = 1e-5


@every("diagonal", [False, True])
@every("noise", [0.3, 4.0, 40.0])
@every(("adjacency", "changed"), [("replace_one", 2), ("zero_out", 1)])
def test_mu_is_what_a_record_moves_over_the_noise(adjacency, changed, noise, diagonal):
    moments = noisy(noise_std=noise, adjacency=adjacency, diagonal=diagonal)
    guarantee = moments.guarantee(DELTA)
    truth = changed * Fraction(1.5) ** 4 / Fraction(noise) ** 2
    assert truth <= Fraction(guarantee.mu) ** 2 <= truth * (1 + Fraction(1, 2**50))
    assert guarantee.epsilon(DELTA) == pabi.tradeoff.Gaussian(guarantee.mu).epsilon(DELTA)


@every("diagonal", [False, True])
def test_the_noise_as_stated_costs_as_much_in_every_direction(diagonal):
    """The change of the sum over the noise of every entry, summed over the entries that are drawn."""
    rng = np.random.default_rng(2)
    moments = noisy(diagonal=diagonal)
    drawn = np.eye(3) if diagonal else np.triu(np.ones((3, 3)))
    stds = 4.0 * np.where(np.eye(3) > 0, 1.0, math.sqrt(0.5))
    for _ in range(200):
        x, y = rng.standard_normal((2, 3))
        x, y = 1.5 * x / np.linalg.norm(x), 1.5 * y / np.linalg.norm(y)
        change = (np.outer(x, x) - np.outer(y, y)) * drawn / stds
        assert np.linalg.norm(change) <= moments.guarantee(DELTA).mu * (1.0 + 1e-12)
        if not diagonal:  # the same in every direction of the Frobenius norm
            frobenius = np.linalg.norm(np.outer(x, x) - np.outer(y, y))
            assert np.linalg.norm(change) == pytest.approx(frobenius / 4.0, rel=1e-12)


def test_a_multiplier_costs_what_its_noise_costs():
    """σ = 16 R², so that μ = √2/16 whatever R is."""
    for radius in (0.1, 1.5, 3e7):
        moments = noisy(feature_norm=radius, noise_std=None, noise_multiplier=16.0)
        assert moments.guarantee(DELTA).mu == pytest.approx(math.sqrt(2.0) / 16.0, rel=1e-15)
    nothing = noisy(noise_std=5e-324, feature_norm=1e10).guarantee(DELTA)
    assert nothing.mu == nothing.epsilon(DELTA) == math.inf
