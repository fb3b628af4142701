"""Poisson batches of which one record is replaced: what the checker asks for, and what it makes of it."""

from __future__ import annotations

import copy
import json
import math

import mpmath
import numpy as np
import pytest

import pabi
from pabi.tradeoff import PoissonReplaced, Product
from pabi.verification.products import Sampled, epsilon_bound

DELTA = 1e-5


def delta_of(mu, p, epsilon):
    """δ(ε) of P = pN(μ, 1) + (1 − p)N(0, 1) against its mirror image, by integration in 30 digits."""
    with mpmath.workdps(30):
        m, share, e = mpmath.mpf(mu), mpmath.mpf(p), mpmath.mpf(epsilon)

        def density(z, place):
            return share * mpmath.npdf(z - place) + (1 - share) * mpmath.npdf(z)

        place = mpmath.findroot(
            lambda z: mpmath.log(density(z, m) / density(z, -m)) - e, max(m, 2 * e / m)
        )
        pieces = [place, place + 1, place + 3, place + 6, place + 20, place + 20 + 2 * m]
        return mpmath.quad(lambda z: density(z, m) - mpmath.exp(e) * density(z, -m), sorted(pieces))


@pytest.mark.parametrize(("mu", "p"), [(0.5, 0.3), (1.0, 0.1), (2.0, 0.02), (3.0, 0.5), (0.2, 0.9)])
def test_one_factor_against_integration(mu, p):
    """The checker's ε is above the truth, and by little: it goes on to finer grids where an ε is stated."""
    stated = PoissonReplaced(mu, p).epsilon(DELTA)
    found = epsilon_bound([], [Sampled("poisson_replaced", p, mu, 1)], DELTA, enough=stated)
    assert delta_of(mu, p, stated) <= DELTA * (1.0 + 1e-9)
    assert delta_of(mu, p, found) <= DELTA
    assert delta_of(mu, p, found * (1.0 - 4e-3)) > DELTA


@pytest.mark.parametrize(("mu", "p", "times"), [(0.9, 0.01, 1000), (0.5, 0.1, 30), (2.0, 0.02, 50)])
def test_many_factors_against_the_accountant(mu, p, times):
    """Which composes losses on a grid, and shares no code with the checker."""
    low, high = Product([(PoissonReplaced(mu, p), times)]).epsilon_bounds(DELTA)
    found = epsilon_bound([], [Sampled("poisson_replaced", p, mu, times)], DELTA)
    assert low <= found <= 1.002 * high


def test_certain_draws_are_gaussians():
    """p = 1: the two records are 2μ apart."""
    found = epsilon_bound([], [Sampled("poisson_replaced", 1.0, 0.5, 4)], DELTA)
    assert found == pytest.approx(pabi.convert.gdp_to_epsilon(2.0, DELTA), rel=1e-3)


def run(**changes):
    fields = {
        "loss": pabi.Loss.unknown(),
        "n": 1000,
        "batches": pabi.Poisson(20),
        "epochs": 2,
        "step_size": 0.1,
        "noise_multiplier": 1.5,
        "clip_norm": 1.0,
    }
    return pabi.NoisySGD(**fields | changes)


def test_what_a_step_reveals_is_what_is_asked_for():
    """C/(b·ς) is 1/multiplier for one record, p the share of a batch."""
    guarantee = run().guarantee(DELTA)
    (factor,) = guarantee.certificate.payload["claim"]["product"]["factors"]
    assert (factor["kind"], factor["count"]) == ("poisson_replaced", 100)
    assert factor["mu"] == pytest.approx(1.0 / 1.5, rel=1e-10)
    assert factor["probability"] == 0.02
    assert pabi.verify(guarantee).ok


def altered(guarantee, change):
    payload = copy.deepcopy(guarantee.certificate.payload)
    change(payload["claim"]["product"]["factors"][0])
    return pabi.verify(json.dumps(payload))


LESS = [
    lambda f: f.update(mu=f["mu"] * (1.0 - 1e-9)),
    lambda f: f.update(probability=f["probability"] * (1.0 - 1e-9)),
    lambda f: f.update(count=f["count"] - 1),
    lambda f: f.update(kind="poisson_subsampled", direction="both"),
    lambda f: f.update(kind="subsampled"),
    lambda f: f.update(direction="both"),
]


def test_less_is_refused():
    for i, change in enumerate(LESS):
        assert not altered(run().guarantee(DELTA), change).ok, i


def test_what_older_versions_claimed_is_enough():
    """C_p(G(2μ)) reveals more than R_p(μ); a little less of it does not do."""

    def older(factor, share):
        factor.update(kind="subsampled", mu=2.0 * share * factor["mu"])

    guarantee = run().guarantee(DELTA)
    payload = copy.deepcopy(guarantee.certificate.payload)
    older(payload["claim"]["product"]["factors"][0], 1.0)
    payload["reading"]["epsilon"] = 50.0
    assert pabi.verify(json.dumps(payload)).ok
    older(payload["claim"]["product"]["factors"][0], 0.5 * (1.0 - 1e-9))
    assert not pabi.verify(json.dumps(payload)).ok


@pytest.mark.parametrize("seed", range(40))
def test_no_two_records_tell_more(seed):
    """A sum in the plane with any two records of norm at most μ: its exact divergence stays below what is
    claimed, and opposite records of norm μ attain it."""
    rng = np.random.default_rng(seed)
    p, mu = rng.uniform(0.02, 0.6), rng.uniform(0.3, 2.5)
    v, w = (mu * rng.uniform(0.0, 1.0) * x / np.linalg.norm(x) for x in rng.normal(size=(2, 2)))
    opposite = seed % 4 == 0
    if opposite:
        v = mu * v / np.linalg.norm(v)
        w = -v
    claimed = PoissonReplaced(mu, p)
    grid = np.arange(-9.0, 9.0, 0.04)
    z = np.stack(np.meshgrid(grid, grid), axis=-1)

    def density(place):
        near = np.exp(-0.5 * np.square(z).sum(axis=-1))
        at = np.exp(-0.5 * np.square(z - place).sum(axis=-1))
        return (p * at + (1.0 - p) * near) / (2.0 * math.pi)

    one, other = density(v), density(w)
    for epsilon in (-0.5, 0.0, 0.1, 0.5, 1.5, 3.0):
        exact = float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum()) * 0.04**2
        assert exact <= claimed.delta(epsilon) + 1e-4
        assert not opposite or exact >= claimed.delta(epsilon) - 1e-4
