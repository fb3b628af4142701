"""Certificates of second moments: accepted, and refused when altered."""

from __future__ import annotations

import copy
import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

import pabi

DELTA = 1e-3
CASES = [
    {"adjacency": adjacency, "diagonal": diagonal, **noise}
    for adjacency, diagonal, noise in itertools.product(
        ("replace_one", "zero_out"),
        (False, True),
        ({"noise_std": 9.0}, {"noise_multiplier": 4.1}),
    )
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c.values())))


def guarantee_of(case, **changes):
    fields = {"n": 100, "dimension": 5, "feature_norm": 1.3, **case, **changes}
    return pabi.NoisySecondMoments(**fields).guarantee(DELTA)


@cases
def test_accepted_after_reading(case):
    guarantee = guarantee_of(case)
    read = pabi.Guarantee.from_json(guarantee.to_json())
    assert not read.verified
    verdict = pabi.verify(read)
    assert verdict.ok, verdict.reason
    assert read.verified
    assert verdict.scope == "run"
    assert verdict.adjacency == case["adjacency"]
    assert set(verdict.assumptions) == set(guarantee.assumptions)
    # The checker derives the least double that is proven, from which the accountant is roundings away.
    assert guarantee.mu * (1.0 - 1e-14) <= verdict.mu <= guarantee.mu


def test_the_checker_agrees_on_all_kinds_of_numbers():
    """Rounded so differently that a claim a rounding too small would be refused here."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        radius, noise = np.exp(rng.uniform(-60.0, 60.0, 2))
        name = str(rng.choice(["noise_std", "noise_multiplier"]))
        adjacency = str(rng.choice(["replace_one", "zero_out"]))
        guarantee = guarantee_of({"adjacency": adjacency, name: noise}, feature_norm=radius)
        assert pabi.verify(guarantee).ok
        unit = Fraction(radius) ** 2 if name == "noise_multiplier" else 1
        square = Fraction(radius) ** 4 / (Fraction(noise) * unit) ** 2
        assert Fraction(guarantee.mu) ** 2 >= square * (2 if adjacency == "replace_one" else 1)


def altered(guarantee, change):
    payload = copy.deepcopy(guarantee.certificate.payload)
    change(payload)
    return pabi.verify(json.dumps(payload))


def scaled(name, factor):
    def change(payload):
        payload["run"][name] *= factor

    return change


def in_run(**changes):
    return lambda payload: payload["run"].update(changes)


@cases
@pytest.mark.parametrize("name", ["noise_std", "noise_multiplier"])
def test_half_of_the_noise_does_not_prove_it(case, name):
    if name in case:
        for factor in (0.5, 1.0 - 1e-12):
            assert not altered(guarantee_of(case), scaled(name, factor)).ok
        assert altered(guarantee_of(case), scaled(name, 1.0 + 1e-12)).ok
    else:
        assert not altered(guarantee_of(case), in_run(**{name: 9.0})).ok  # both at once


@cases
def test_longer_records_are_not_covered(case):
    """In units of R² the noise grows with the records, and the claim stays true."""
    guarantee = guarantee_of(case)
    in_units = "noise_multiplier" in case
    assert altered(guarantee, scaled("feature_norm", 2.0)).ok == in_units
    assert altered(guarantee, scaled("feature_norm", 1.0 + 1e-12)).ok == in_units


@cases
def test_a_guarantee_states_its_own_norm(case):
    """Half of R in the certificate proves the claim all the more, but of other records than are stated."""
    data = guarantee_of(case).to_dict(certificate=True)
    data["certificate"]["run"]["feature_norm"] /= 2.0
    assert not pabi.verify(data).ok


@cases
def test_a_smaller_claim_is_refused(case):
    def claimed(factor):
        return lambda payload: payload["claim"].update(mu=payload["claim"]["mu"] * factor)

    guarantee = guarantee_of(case)
    for factor in (0.5, 1.0 - 1e-12):
        assert "mu" in altered(guarantee, claimed(factor)).reason
    assert altered(guarantee, claimed(1.0 + 1e-12)).ok


@cases
def test_the_other_adjacency_is_refused(case):
    other = {"replace_one": "zero_out", "zero_out": "replace_one"}[case["adjacency"]]
    guarantee = guarantee_of(case)
    assert not altered(guarantee, in_run(adjacency=other)).ok
    assert not altered(guarantee, lambda p: p.update(adjacency=other)).ok
    # Both together are another certificate, which is true where it asks for less.
    both = altered(
        guarantee, lambda p: (p.update(adjacency=other), p["run"].update(adjacency=other))
    )
    assert both.ok == (other == "zero_out")
    stated = guarantee.to_dict(certificate=True) | {"adjacency": other}
    assert not pabi.verify(stated).ok


@cases
def test_a_matrix_does_not_pass_for_its_diagonal(case):
    """The same μ is proven of both; what is stated to be released is not the same."""
    data = guarantee_of(case).to_dict(certificate=True)
    data["certificate"]["run"]["diagonal"] = not case["diagonal"]
    verdict = pabi.verify(data)
    assert not verdict.ok
    assert "assumptions" in verdict.reason


def test_releases_beside_each_other():
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.3),
        n=100,
        batches=pabi.Cyclic(10),
        epochs=2,
        step_size=0.1,
        noise_multiplier=8.0,
    )
    together = pabi.compose(guarantee_of(CASES[0]), run.guarantee(DELTA))
    verdict = pabi.verify(together)
    assert verdict.ok, verdict.reason
    assert verdict.scope == "run"
