"""Certificates of stated mechanisms: what follows from the function is proven, alterations are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pabi
from pabi.tradeoff import Gaussian, Laplace


def honest(curve: Any = None) -> dict[str, Any]:
    guarantee = pabi.Guarantee.from_tradeoff(
        Laplace(0.5) if curve is None else curve,
        adjacency="zero_out",
        method="noisy histogram",
        source="the statistics office",
    )
    data: dict[str, Any] = json.loads(guarantee.to_json())
    return data


def test_another_function_than_is_stated_is_refused():
    """Or one order of the data sets, or one that stands beside the proof alone."""
    for place, curve in (
        ("tradeoff", {"kind": "laplace", "epsilon": 0.4, "probability": 1.0}),
        ("tradeoff", {"kind": "laplace", "epsilon": 0.5, "probability": 0.1}),
        ("tradeoff", {"kind": "bounded_range", "epsilon": 0.5}),
        ("claim", {"kind": "laplace", "epsilon": 0.5, "probability": 0.1}),
        (
            "claim",
            {"kind": "poisson_subsampled", "mu": 1.0, "probability": 0.1, "direction": "remove"},
        ),
    ):
        data = honest()
        assert pabi.verify(data).ok
        if place == "claim":
            data["certificate"]["claim"]["tradeoff"] = curve
        else:
            data["tradeoff"] = curve
        assert not pabi.verify(data).ok, (place, curve)


def test_a_composition_with_it_is_about_steps_as_stated():
    own = pabi.NoisySecondMoments(1000, 2, 1.0, noise_std=20.0, adjacency="zero_out").guarantee(
        1e-5
    )
    stated = pabi.Guarantee.from_json(json.dumps(honest()))
    both = pabi.compose(own, stated)
    verdict = pabi.verify(both)
    assert verdict.ok, verdict.reason
    assert verdict.scope == "iteration"
    less = json.loads(both.to_json())
    less["tradeoff"] = own.curve.to_dict()
    less["mu"] = own.mu
    assert not pabi.verify(less).ok


@pytest.mark.parametrize("epsilon", [1e-9, 0.2, 3.0, 300.0, 700.0])
def test_the_checker_finds_the_gaussian_below_that_the_ledger_charges(epsilon: float, tmp_path):
    """Of an adaptive composition: with the exact charge it verifies, with a little less it does not."""
    ledger = pabi.Ledger(tmp_path / "a.ledger", epsilon=5000.0, delta=1e-5)
    ledger.spend(pabi.Guarantee.from_json(json.dumps(honest(Laplace(epsilon)))))
    data = json.loads(ledger.guarantee.to_json())
    assert pabi.verify(data).ok
    charge = ledger.report().entries[0].charge
    claimed = data["certificate"] | {"claim": {"mu": charge}}
    assert pabi.verify(claimed).ok
    assert not pabi.verify(claimed | {"claim": {"mu": charge * (1.0 - 1e-9)}}).ok


def test_a_gaussian_reads_as_what_it_is():
    verdict = pabi.verify(honest(Gaussian(0.3)))
    assert verdict.mu == 0.3
    assert verdict.names == (("noisy histogram", "the statistics office"),)
