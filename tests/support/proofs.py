"""A proof of every theorem, of small descriptions: what analyses hand over with their guarantees."""

from __future__ import annotations

from functools import cache

import numpy as np

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


@cache
def proofs() -> dict[str, pabi.Guarantee]:
    """Guarantees by name, of every theorem but those of several releases."""
    found = {
        f"{name}: {outcome.name}": outcome.guarantee
        for name, description in DESCRIPTIONS.items()
        for outcome in outcomes(description, DELTA)
        if outcome.guarantee is not None
    }
    for name in ("cyclic", "shuffled once", "poisson", "second moments", "a mechanism"):
        found[f"a selection from {name}"] = pabi.select(DESCRIPTIONS[name].guarantee(DELTA), 10.0)
    for name in ("cyclic", "shuffled once", "second moments", "a mechanism"):
        found[f"groups of {name}"] = DESCRIPTIONS[name].guarantee(DELTA).for_groups(3)
    found["a stated mechanism"] = pabi.Guarantee.from_tradeoff(
        Laplace(0.5), adjacency="zero_out", method="noisy histogram", source="its makers"
    )
    return found
