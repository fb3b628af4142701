"""A noisy accuracy: its cost in exact arithmetic, attained, certified, and refused when altered."""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import pabi

DELTA = 1e-3
both = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def described(**changes):
    return pabi.NoisyAccuracy(**{"n": 300, "noise_std": 0.01} | changes)


def altered(guarantee, change):
    payload = copy.deepcopy(guarantee.certificate.payload)
    change(payload)
    return pabi.verify(json.dumps(payload))


@both
@pytest.mark.parametrize("unit", ["record", "user"])
def test_mu_is_what_one_hit_moves_over_the_noise(adjacency, unit):
    """One hit more or less moves the mean by 1/n; rounding is against us, by a few units of the last."""
    rng = np.random.default_rng(5)
    for _ in range(100):
        n, noise = int(rng.integers(1, 10**7)), float(np.exp(rng.uniform(-20.0, 20.0)))
        guarantee = described(n=n, noise_std=noise, adjacency=adjacency, unit=unit).guarantee(0.0)
        truth = Fraction(1, n) / Fraction(noise)
        assert truth <= Fraction(guarantee.mu) <= truth * (1 + Fraction(1, 2**50))
        verdict = pabi.verify(guarantee)
        assert verdict.ok, verdict.reason
        assert (verdict.scope, verdict.unit) == ("run", unit)


def test_two_data_sets_attain_it():
    """A record that is got right beside one that is not: two normal laws 1/n apart, told apart exactly so."""
    accuracy = described()
    apart = (200 / 300 - 199 / 300) / accuracy.accuracy_noise_std
    exact = math.erf(apart / 2.0 / math.sqrt(2.0))  # Φ(μ/2) − Φ(−μ/2)
    assert accuracy.guarantee(DELTA).advantage == pytest.approx(exact, rel=1e-12)


@both
def test_calibrated_noise_meets_its_target(adjacency):
    noisy = pabi.calibrate(described(noise_std=None, adjacency=adjacency), 0.5, 1e-6)
    assert noisy.guarantee(1e-6).epsilon(1e-6) <= 0.5
    less = described(noise_std=noisy.noise_std * (1.0 - 1e-6), adjacency=adjacency)
    assert less.guarantee(1e-6).epsilon(1e-6) > 0.5


def test_a_little_less_is_refused():
    guarantee, less = described().guarantee(DELTA), 1.0 - 1e-12
    for change in (
        lambda p: p["run"].update(noise_std=0.01 * less),
        lambda p: p["run"].update(n=299),
        lambda p: p["claim"].update(mu=p["claim"]["mu"] * less),
    ):
        assert not altered(guarantee, change).ok


def test_more_records_prove_it_all_the_more():
    assert altered(described().guarantee(DELTA), lambda p: p["run"].update(n=301)).ok


def test_bad_fields_are_named():
    for field, value in (
        ("n", 0),
        ("n", 2.5),
        ("noise_std", 0.0),
        ("noise_std", math.nan),
        ("adjacency", "swap"),
        ("unit", "household"),
    ):
        with pytest.raises(pabi.InvalidInput) as caught:
            described(**{field: value})
        assert caught.value.field == field


def test_without_noise_there_is_nothing_to_account():
    with pytest.raises(pabi.InvalidInput) as caught:
        described(noise_std=None).guarantee(DELTA)
    assert caught.value.field == "noise_std"
