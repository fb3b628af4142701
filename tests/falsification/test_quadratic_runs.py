"""Random runs of noisy SGD on quadratics, against what is proven of them from the outside."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from support.falsification.claims import EPSILONS, refuted
from support.falsification.quadratic_runs import (
    KINDS,
    ROUNDING,
    Quadratic,
    random_quadratic,
    secret_laws,
)
from support.falsification.random_batches import divergences

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


@pytest.mark.parametrize("count", [6, pytest.param(3000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_known_orders_are_never_safer_than_proven(kind, count):
    for order in ["full", "cyclic"]:
        rng = np.random.default_rng([count, *kind.encode()])
        for _ in range(count):
            found = random_quadratic(rng, kind, order)
            worst = found.run.guarantee(1e-4)
            for j in range(len(found.curvature)):
                truth = found.mu(j)
                said = found.run.guarantee(1e-4, position=j).mu if order == "cyclic" else worst.mu
                assert said >= truth * ROUNDING, (said, truth, found)
                assert worst.mu >= truth * ROUNDING, (worst.mu, truth, found)


@pytest.mark.parametrize("count", [4, pytest.param(2000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_secret_orders_are_never_safer_than_proven(kind, count):
    for order in ["shuffled", "reshuffled"]:
        rng = np.random.default_rng([count, *kind.encode()])
        for _ in range(count):
            found = random_quadratic(rng, kind, order)
            truth = divergences(*secret_laws(found), EPSILONS, math.inf).max(axis=0)
            guarantee = found.run.guarantee(float(10 ** rng.uniform(-6, -1)))
            assert not refuted(truth, guarantee), found


def one_pass(rng, kind: str) -> Quadratic:
    """A pass, or a part of one, in which every batch has the curvature that stretches the most."""
    while True:
        found = random_quadratic(rng, kind, "cyclic")
        if found.run.steps - found.run.cooldown_steps <= len(found.curvature):
            break
    run, (batches, d) = found.run, found.curvature.shape
    lo, hi = run.loss.curvature
    eta = np.broadcast_to(run.step_size, run.steps)
    worst = []
    for k in range(batches):
        fraction = (
            run.n - k * run.batch_size if k == batches - 1 else run.batch_size
        ) / run.batch_size
        size = eta[min(k, run.steps - 1)]
        worst.append(
            max((lo, hi), key=lambda h, f=fraction, e=size: abs(1 - e * (run.loss.l2 + f * h)))
        )
    return replace(found, curvature=np.tile(np.array(worst)[:, None], (1, d)))


@pytest.mark.parametrize("count", [25, pytest.param(2000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS[:4])
def test_one_pass_is_met_exactly(kind, count):
    """A record used in the first step only: no noise comes before it, and what the steps after it do,
    contract, expand or turn round, is known."""
    rng = np.random.default_rng([count, *kind.encode()])
    for _ in range(count):
        found = one_pass(rng, kind)
        guarantee = found.run.guarantee(1e-4, position=0)
        assert guarantee.mu == pytest.approx(found.mu(0), rel=1e-9, abs=0.0)
        assert guarantee.mu >= found.mu(0) * ROUNDING


def test_a_thousandth_more_noise_is_caught():
    for kind in KINDS[:4]:
        rng = np.random.default_rng(1)
        found = one_pass(rng, kind)
        louder = replace(found.run, noise_std=np.asarray(found.run.noise_std) * 1.001)
        assert louder.guarantee(1e-4, position=0).mu < found.mu(0), kind


def test_the_mixture_of_a_single_batch_is_the_gaussian():
    rng = np.random.default_rng(2)
    for order in ("shuffled", "reshuffled"):
        found = random_quadratic(rng, "convex", order)
        while len(found.curvature) > 1 or found.run.batches.spare:
            found = random_quadratic(rng, "convex", order)
        p, q = secret_laws(found)
        assert abs(q.means - p.means) / p.std == pytest.approx(
            [found.mu(0)] * len(p.means), rel=1e-12
        )
