"""Batches of fixed size of which one record is zeroed: what the checker asks for, and what it makes of it."""

from __future__ import annotations

import copy
import functools
import json

import pytest

import pabi
from pabi.tradeoff import FixedSizeSubsampled, Product, TradeOff
from pabi.verification.products import Sampled, epsilon_bound

DELTA = 1e-5


@pytest.mark.parametrize(
    ("norm", "other", "apart", "p"),
    [(1.0, 0.5, 0.5, 0.1), (2.0, 1.0, 1.7, 0.02), (0.5, 0.5, 0.8, 0.3), (3.0, 1.5, 1.5, 0.5)],
)
def test_one_factor_against_its_divergence(norm, other, apart, p):
    """The worse order, whose δ the accountant's own tests have to 40 digits."""
    truth = FixedSizeSubsampled(norm, other, apart, p)
    stated = truth.epsilon(DELTA)
    factor = Sampled("subsampled", p, apart, 1, norm, other)
    found = epsilon_bound([], [factor], DELTA, enough=stated)
    assert truth.delta(found) <= DELTA < truth.delta(found * (1.0 - 4e-3))
    assert epsilon_bound([], [factor.turned()], DELTA, enough=stated) == found


@pytest.mark.parametrize(
    ("norm", "other", "apart", "p", "times"),
    [(0.9, 0.45, 0.45, 0.01, 1000), (1.0, 0.5, 0.7, 0.1, 30), (0.4, 0.4, 0.6, 0.02, 50)],
)
def test_many_factors_against_the_accountant(norm, other, apart, p, times):
    """Which composes losses on a grid, and shares no code with the checker."""
    curve = FixedSizeSubsampled(norm, other, apart, p)
    low, high = Product([(curve, times)]).epsilon_bounds(DELTA)
    found = epsilon_bound([], [Sampled("subsampled", p, apart, times, norm, other)], DELTA)
    assert low <= found <= 1.002 * high


def run(**changes):
    fields = {
        "loss": pabi.Loss.unknown(),
        "n": 1000,
        "batches": pabi.FixedSize(20),
        "epochs": 2,
        "step_size": 0.1,
        "noise_multiplier": 1.5,
        "clip_norm": 1.0,
        "adjacency": "zero_out",
    }
    return pabi.NoisySGD(**fields | changes)


CONVEX = {
    "loss": pabi.Loss.convex(1.0, gradient_bound=1.0, l2=0.5),
    "epochs": 10,
    "clip_norm": None,
}


@functools.cache
def promised(convex=False):
    """The guarantee of the run, or of the convex one: accounted once for all tests."""
    return run(**(CONVEX if convex else {})).guarantee(DELTA)


BOTH = pytest.mark.parametrize("convex", [False, True], ids=["composition", "shift"])


def test_what_a_step_reveals_is_what_is_asked_for():
    """C/(b·ς) is 1/multiplier: the record and the one that makes room move the one sum by two of these."""
    guarantee = promised()
    (factor,) = guarantee.certificate.payload["claim"]["product"]["factors"]
    assert (factor["kind"], factor["count"]) == ("fixed_size_subsampled", 100)
    found = [factor[name] * 1.5 for name in ("norm", "other", "apart")]
    assert found == pytest.approx([2.0, 1.0, 1.0], rel=1e-10)
    assert pabi.verify(guarantee).ok
    assert guarantee.epsilon(DELTA) < 0.8 * run(adjacency="replace_one").guarantee(DELTA).epsilon(
        DELTA
    )


def test_shifts_claim_sizes_at_the_distance_that_they_are():
    guarantee = promised(convex=True)
    assert guarantee.method == "one-sided shift"
    factors = guarantee.certificate.payload["claim"]["product"]["factors"]
    drawn = [f for f in factors if f["kind"] == "fixed_size_subsampled"]
    assert drawn
    for factor in drawn:
        assert factor["norm"] == pytest.approx(2.0 * factor["other"], rel=1e-12)
        assert factor["other"] <= factor["apart"] <= 3.0 * factor["other"] * (1.0 + 1e-12)
    assert pabi.verify(guarantee).ok


def altered(guarantee, change):
    payload = copy.deepcopy(guarantee.certificate.payload)
    change(payload["claim"]["product"]["factors"][0], payload)
    return pabi.verify(json.dumps(payload))


LESS = [
    lambda f, _: f.update(norm=f["norm"] * (1.0 - 1e-9)),
    lambda f, _: f.update(other=f["other"] * (1.0 - 1e-9)),
    lambda f, _: f.update(apart=f["apart"] * (1.0 - 1e-9)),
    lambda f, _: f.update(norm=f["other"], other=f["norm"]),
    lambda f, _: f.update(probability=f["probability"] * (1.0 - 1e-9)),
    lambda f, _: f.update(count=f["count"] - 1),
    lambda f, _: f.update(direction="remove"),
]


@BOTH
def test_less_is_refused(convex):
    for i, change in enumerate(LESS):
        assert not altered(promised(convex), change).ok, i


@BOTH
def test_an_epsilon_one_part_in_a_thousand_too_small_is_refused(convex):
    guarantee = promised(convex)
    product = guarantee.certificate.payload["claim"]["product"]
    least, _ = TradeOff.from_dict(product).epsilon_bounds(DELTA, 1e-4)

    def claim(share):
        return altered(guarantee, lambda _, p: p["reading"].update(epsilon=least * share))

    assert not claim(0.999).ok
    assert claim(1.002).ok


def test_what_older_versions_claimed_is_enough():
    """C_p(G(2C/bς)) reveals more; a little less of it does not do."""

    def older(share):
        def change(factor, payload):
            mu = share * factor["norm"]
            for name in ("norm", "other", "apart"):
                del factor[name]
            factor.update(kind="subsampled", mu=mu)
            payload["reading"]["epsilon"] = 60.0

        return change

    guarantee = promised()
    assert altered(guarantee, older(1.0)).ok
    assert not altered(guarantee, older(1.0 - 1e-9)).ok
