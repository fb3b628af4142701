"""Certificates of statistics of columns: accepted, and refused when altered."""

from __future__ import annotations

import copy
import itertools
import json

import numpy as np
import pytest

import pabi

DELTA = 1e-3
KINDS = (
    {"statistic": "counts", "questions": 9},
    {"statistic": "moments"},
    {"statistic": "levels"},
    {"statistic": "levels", "threshold": 4.5},
)
CASES = [
    {**kind, "adjacency": adjacency}
    for kind, adjacency in itertools.product(KINDS, ("replace_one", "zero_out"))
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c.values())))


def guarantee_of(case, **changes):
    fields = {"n": 100, "columns": 5, "noise_std": 9.0, **case, **changes}
    return pabi.NoisyColumnStatistics(**fields).guarantee(DELTA)


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
def test_accepted_after_reading(case):
    guarantee = guarantee_of(case)
    read = pabi.Guarantee.from_json(guarantee.to_json())
    verdict = pabi.verify(read)
    assert verdict.ok, verdict.reason
    assert read.verified
    assert verdict.scope == "run"
    assert set(verdict.assumptions) == set(guarantee.assumptions)


def test_the_checker_agrees_on_all_kinds_of_numbers():
    """Rounded so differently that a claim a rounding too small would be refused here."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        case = dict(CASES[int(rng.integers(len(CASES)))])
        if "threshold" in case:
            case["threshold"] = float(rng.uniform(0.0, 37.0))
        guarantee = guarantee_of(
            case,
            noise_std=float(np.exp(rng.uniform(-20.0, 20.0))),
            columns=int(rng.integers(1, 900)),
        )
        verdict = pabi.verify(guarantee)
        assert verdict.ok, verdict.reason


@cases
@pytest.mark.parametrize("factor", [0.5, 1.0 - 1e-12])
def test_less_noise_does_not_prove_it(case, factor):
    guarantee = guarantee_of(case)
    assert not altered(guarantee, scaled("noise_std", factor)).ok
    assert altered(guarantee, scaled("noise_std", 1.0 + 1e-12)).ok


@cases
def test_more_columns_are_not_covered(case):
    guarantee = guarantee_of(case)
    assert not altered(guarantee, in_run(columns=6)).ok
    assert altered(guarantee, in_run(columns=4)).ok


@pytest.mark.parametrize("case", CASES[-2:], ids=["replace_one", "zero_out"])
def test_a_lower_threshold_fails_more_often(case):
    guarantee = guarantee_of(case)
    for threshold in (0.0, 4.0, 4.5 - 1e-9):
        verdict = altered(guarantee, in_run(threshold=threshold))
        assert "failure" in verdict.reason
        assert not verdict.ok
    assert altered(guarantee, in_run(threshold=4.6)).ok


@pytest.mark.parametrize("case", CASES[-2:], ids=["replace_one", "zero_out"])
def test_declared_levels_do_not_pass_for_others(case):
    """Without a threshold nothing fails, but another release is stated."""
    data = guarantee_of(case).to_dict(certificate=True)
    del data["certificate"]["run"]["threshold"]
    verdict = pabi.verify(data)
    assert not verdict.ok
    assert "assumptions" in verdict.reason
    claim = guarantee_of(case).certificate.payload["claim"]
    for failure in (0.0, claim["tradeoff"]["failure"] * (1.0 - 1e-12)):
        change = {"tradeoff": claim["tradeoff"] | {"failure": failure}}
        assert not altered(guarantee_of(case), lambda p, c=change: p.update(claim=c)).ok


def test_moments_do_not_pass_for_counts():
    """Under zero_out a count of each column moves by as much; what is stated to be released is another."""
    one = guarantee_of({"statistic": "moments", "adjacency": "zero_out"}).to_dict(certificate=True)
    one["certificate"]["run"]["statistic"] = "counts"
    assert not pabi.verify(one).ok


def test_releases_beside_each_other_add_their_failures():
    shown = guarantee_of(CASES[-1])
    both = pabi.compose(shown, guarantee_of(CASES[3]), shown)
    verdict = pabi.verify(both)
    assert verdict.ok, verdict.reason
    assert both.delta(50.0) >= 2.0 * shown.delta(50.0) * (1.0 - 1e-9)
