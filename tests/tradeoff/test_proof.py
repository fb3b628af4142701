"""What every analysis proposes: a proof that the envelope and the checker can take."""

import functools
import json

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FixedSize, Loss, NoisyIteration, NoisySGD, Poisson, ShuffleOnce, Unlearning
from pabi.account.best import outcomes
from pabi.tradeoff import Laplace
from pabi.verification import theorems

DELTA = 1e-5


def run_of(batches, loss=None, **changes):
    given = {"n": 12, "batches": batches, "epochs": 3, "step_size": 0.4, "noise_std": 1.0}
    return NoisySGD(Loss.logistic(1.0, l2=0.2) if loss is None else loss, **given | changes)


GIVEN_A_MODEL = run_of(Cyclic(4), diameter=1.0)
SAMPLED = {"n": 1000, "epochs": None, "steps": 300, "step_size": 0.2, "noise_std": 0.5}
ZEROED = {"adjacency": "zero_out"}
USES = np.array([1.0, 0.0, 0.5])
LOGISTIC, DISSIPATIVE = (
    Loss.logistic(1.0, l2=0.5),
    Loss.dissipative(1e-7, 2.0, 2.0, gradient_bound=1.0),
)


DESCRIPTIONS = {
    "cyclic": run_of(Cyclic(5)),
    "shuffled once": run_of(ShuffleOnce(4)),
    "some left out": run_of(ShuffleOnce(3, spare=2)),
    "balls in bins": run_of(pabi.BallsInBins(4)),
    "reshuffled": run_of(pabi.Reshuffle(4), step_size=np.linspace(0.5, 0.1, 9)),
    "fixed size": run_of(FixedSize(4), diameter=2.0),
    "poisson": run_of(Poisson(4, cap=8), **ZEROED),
    "lipschitz": run_of(Cyclic(4), Loss.lipschitz(1.0), noise_std=3.0, diameter=1.0),
    "dissipative, sampled": run_of(FixedSize(20), DISSIPATIVE, **SAMPLED),
    "forgetting": Unlearning(run_of(ShuffleOnce(4), **ZEROED), [(3, 2)]),
    "forgetting, one by one": Unlearning(run_of(Cyclic(4)), [(3, 2), (1, 1)]),
    "forgetting, sampled": Unlearning(run_of(Poisson(4, cap=8), **ZEROED), [(3, 2)]),
    "forgetting, bent": Unlearning(run_of(Cyclic(4), Loss.lipschitz(1.0), noise_std=3.0), [(9, 1)]),
    "forgetting, given a model": Unlearning(GIVEN_A_MODEL, [(9, 1)], published=True),
    "an iteration": NoisyIteration(0.9, USES, 1.0, diameter=2.0),
    "moduli": NoisyIteration(
        moduli=pabi.Modulus.sqrt(0.9, 0.1), step_sensitivity=USES, step_noise_std=1.0
    ),
    "a chain": pabi.LangevinChain(
        LOGISTIC, n=50, inverse_temperature=50.0, step_size=1e-2, steps=20
    ),
    "a diffusion": pabi.LangevinDiffusion(LOGISTIC, n=50, inverse_temperature=20.0, time=3.0),
    "second moments": pabi.NoisySecondMoments(50, 3, 1.0, noise_multiplier=5.0),
    "an accuracy": pabi.NoisyAccuracy(50, 0.1),
    "column moments": pabi.NoisyColumnStatistics(50, 3, "moments", noise_std=5.0),
    "column levels": pabi.NoisyColumnStatistics(
        50, 3, "levels", noise_std=5.0, threshold=5.0, **ZEROED
    ),
    "a mechanism": pabi.ExponentialMechanism(
        LOGISTIC, n=50, dimension=3, diameter=2.0, epsilon=0.5
    ),
}
SELECTED = "cyclic", "shuffled once", "poisson", "second moments", "a mechanism"
GROUPED = "cyclic", "shuffled once", "second moments", "a mechanism"


@functools.cache
def proven(name):
    """What all analyses of a description propose and what is granted, and the proofs and guarantees of a
    selection and of groups, by their names."""
    description = DESCRIPTIONS[name]
    found = {one.name: (one.proposal, one.guarantee) for one in outcomes(description, DELTA)}
    if name in SELECTED:
        found["a selection"] = with_proof(pabi.select(description.guarantee(DELTA), 10.0))
    if name in GROUPED:
        found["groups"] = with_proof(description.guarantee(DELTA).for_groups(3))
    return {key: one for key, one in found.items() if one[0] is not None}


def with_proof(guarantee):
    return guarantee.proof, guarantee


@functools.cache
def stated():
    return pabi.Guarantee.from_tradeoff(
        Laplace(0.5), adjacency="zero_out", method="noisy histogram", source="its makers"
    )


HEADER = {"format", "version", "theorem", "adjacency", "assumes"}


def test_every_theorem_has_a_proof_here():
    """But for those of several releases, which are made of certificates."""
    found = {proof.theorem for name in DESCRIPTIONS for proof, _ in proven(name).values()}
    assert set(theorems.table()) - found - {stated().proof.theorem} == {
        "composed",
        "adaptive composition",
        "adaptive composition of divergences",
    }


@pytest.mark.parametrize("name", [*DESCRIPTIONS, "a stated mechanism"])
def test_proofs_say_their_theorem_once_and_are_accepted(name):
    """A key of the envelope would be overwritten. What is solved when a proof is written does not depend on
    when that is, and the checker, which shares nothing with those who wrote it, accepts it."""
    known = proven(name) if name in DESCRIPTIONS else {name: with_proof(stated())}
    for case, (proof, guarantee) in known.items():
        body = proof.written()
        assert proof.theorem in theorems.table(), case
        assert body, case
        assert not HEADER & set(body), case
        assert json.loads(json.dumps(body, allow_nan=False)) == body, case
        assert guarantee.certificate.payload["theorem"] == proof.theorem, case
        assert proof.written() == body, case
        assert guarantee.verified is (proof is not guarantee.proof), (
            case
        )  # what is granted was checked
        verdict = pabi.verify(guarantee)
        assert verdict.ok, f"{case}: {verdict.reason}"
