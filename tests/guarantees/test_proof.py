"""What every analysis hands over with its guarantee: a proof that the envelope and the checker can take."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pabi
from pabi import (
    BallsInBins,
    Cyclic,
    FixedSize,
    Loss,
    Modulus,
    NoisyIteration,
    NoisySGD,
    Poisson,
    Reshuffle,
    ShuffleOnce,
    Unlearning,
)
from pabi.account.best import outcomes
from pabi.tradeoff import Laplace
from pabi.verification import theorems

DELTA = 1e-5


def run_of(batches, loss=None, **changes):
    given = {
        "n": 12,
        "batches": batches,
        "epochs": 3,
        "step_size": 0.4,
        "noise_std": 1.0,
        **changes,
    }
    return NoisySGD(Loss.logistic(1.0, l2=0.2) if loss is None else loss, **given)


DESCRIPTIONS = {
    "cyclic": run_of(Cyclic(5)),
    "shuffled once": run_of(ShuffleOnce(4)),
    "balls in bins": run_of(BallsInBins(4)),
    "reshuffled": run_of(Reshuffle(4), step_size=np.linspace(0.5, 0.1, 9)),
    "fixed size": run_of(FixedSize(4), diameter=2.0),
    "poisson": run_of(Poisson(4, cap=8), adjacency="zero_out"),
    "lipschitz": run_of(Cyclic(4), Loss.lipschitz(1.0), noise_std=3.0, diameter=1.0),
    "dissipative, sampled": NoisySGD(
        Loss.dissipative(1e-7, 2.0, 2.0, gradient_bound=1.0),
        n=1000,
        batches=FixedSize(20),
        steps=300,
        step_size=0.2,
        noise_std=0.5,
    ),
    "forgetting": Unlearning(run_of(ShuffleOnce(4), adjacency="zero_out"), [(3, 2)]),
    "forgetting, one by one": Unlearning(run_of(Cyclic(4)), [(3, 2), (1, 1)]),
    "forgetting, sampled": Unlearning(run_of(Poisson(4, cap=8), adjacency="zero_out"), [(3, 2)]),
    "forgetting, bent": Unlearning(run_of(Cyclic(4), Loss.lipschitz(1.0), noise_std=3.0), [(9, 1)]),
    "forgetting, given a model": Unlearning(
        run_of(Cyclic(4), diameter=1.0), [(9, 1)], published=True
    ),
    "an iteration": NoisyIteration(0.9, np.array([1.0, 0.0, 0.5]), 1.0, diameter=2.0),
    "moduli": NoisyIteration(
        moduli=Modulus.sqrt(0.9, 0.1),
        step_sensitivity=np.array([1.0, 0.0, 0.5]),
        step_noise_std=1.0,
    ),
    "a chain": pabi.LangevinChain(
        Loss.logistic(1.0, l2=0.1), n=50, inverse_temperature=50.0, step_size=1e-2, steps=20
    ),
    "a diffusion": pabi.LangevinDiffusion(
        Loss.logistic(1.0, l2=0.5), n=50, inverse_temperature=20.0, time=3.0
    ),
    "second moments": pabi.NoisySecondMoments(50, 3, 1.0, noise_multiplier=5.0),
    "an accuracy": pabi.NoisyAccuracy(50, 0.1),
    "column moments": pabi.NoisyColumnStatistics(50, 3, "moments", noise_std=5.0),
    "column levels": pabi.NoisyColumnStatistics(
        50, 3, "levels", noise_std=5.0, threshold=5.0, adjacency="zero_out"
    ),
    "a mechanism": pabi.ExponentialMechanism(
        Loss.logistic(1.0, l2=0.5), n=50, dimension=3, diameter=2.0, epsilon=0.5
    ),
}
PROOFS = {
    f"{name}: {outcome.name}": outcome.guarantee
    for name, description in DESCRIPTIONS.items()
    for outcome in outcomes(description, DELTA)
    if outcome.guarantee is not None
}
PROOFS |= {
    f"a selection from {name}": pabi.select(DESCRIPTIONS[name].guarantee(DELTA), 10.0)
    for name in ("cyclic", "shuffled once", "poisson", "second moments", "a mechanism")
}
PROOFS |= {
    f"groups of {name}": DESCRIPTIONS[name].guarantee(DELTA).for_groups(3)
    for name in ("cyclic", "shuffled once", "second moments", "a mechanism")
}
PROOFS["a stated mechanism"] = pabi.Guarantee.from_tradeoff(
    Laplace(0.5), adjacency="zero_out", method="noisy histogram", source="its makers"
)
HEADER = {"format", "version", "theorem", "adjacency", "assumes"}


def test_every_theorem_has_a_proof_here():
    """But for those of several releases, which are made of certificates."""
    found = {guarantee.proof.theorem for guarantee in PROOFS.values()}
    assert set(theorems.table()) - found == {
        "composed",
        "adaptive composition",
        "adaptive composition of divergences",
    }


@pytest.mark.parametrize("name", PROOFS)
def test_a_proof_says_its_theorem_and_nothing_that_the_envelope_says(name):
    """A key of its own would overwrite the envelope's."""
    proof = PROOFS[name].proof
    body = proof.written()
    assert proof.theorem in theorems.table()
    assert not HEADER & set(body)
    assert body
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert PROOFS[name].certificate.payload["theorem"] == proof.theorem


@pytest.mark.parametrize("name", PROOFS)
def test_a_proof_written_twice_says_the_same(name):
    """What is solved only when it is written must not depend on when that is."""
    proof = PROOFS[name].proof
    assert proof.written() == proof.written()


@pytest.mark.parametrize("name", PROOFS)
def test_every_proof_is_accepted(name):
    """By the checker, which shares nothing with those who wrote it, and for no smaller claim."""
    verdict = pabi.verify(PROOFS[name])
    assert verdict.ok, verdict.reason
