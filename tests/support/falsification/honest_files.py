"""Honest files: those that version 0.1.0 wrote, and small ones of the present version."""

import functools
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np

import pabi
from pabi import FixedSize, Loss, NoisyIteration, Poisson, Reshuffle, ShuffleOnce
from support.certificates import sgd

OLD = Path(__file__).parents[2] / "data" / "v0.1.0"
DELTA = 1e-3
# Of these, and of sampled ones, a twentieth as many alterations are tried: they are large, or take long.
SLOW = frozenset(
    {
        "composed",
        "diffusion-cooling",
        "iterated",
        "nonlinear-shuffled",
        "poisson-replace",
        "reshuffle",
        "two-sided",
    }
)
SAMPLED = frozenset(
    {
        "fixed-size",
        "one-sided",
        "poisson",
        "new fixed size",
        "new poisson",
        "new rounded, fixed size",
    }
)


_sgd = functools.partial(sgd, epochs=4)


def _descriptions():
    fixed = Loss.logistic(1.0, l2=0.1)
    bounded = Loss.strongly_convex(0.5, 1.0, gradient_bound=1.0)
    over = {"n": 100, "inverse_temperature": 2.0, "time": 9.0, "gradient_gap": 0.3}
    chains = {"n": 100, "inverse_temperature": 2.0, "step_size": 0.01, "steps": 300}
    falling = {"epochs": None, "steps": 12, "step_size": np.linspace(0.6, 0.1, 12)}
    bent = {"loss": Loss.lipschitz(1.0), "gradient_sensitivity": None, "diameter": 0.5}
    pulled = {"gradient_sensitivity": None, "loss": fixed}
    sampled = {"gradient_sensitivity": None, "loss": fixed, "noise_std": 2.0}
    return {
        "new cyclic": _sgd(),
        "new position": _sgd(),
        "new shuffle once": _sgd(batches=ShuffleOnce(7)),
        "new reshuffle": _sgd(batches=Reshuffle(14)),
        "new diameter": _sgd(diameter=0.4, epochs=30),
        "new falling": _sgd(**falling),
        "new in advance": _sgd(**pulled),
        "new in advance, shuffled": _sgd(**pulled, batches=ShuffleOnce(14), epochs=7),
        "new path": _sgd(release="path"),
        "new bent": _sgd(**bent, epochs=12),
        "new bent, shuffled": _sgd(**bent, batches=ShuffleOnce(14), epochs=5),
        "new fixed size": _sgd(**sampled, batches=FixedSize(8)),
        "new poisson": _sgd(**sampled, batches=Poisson(8), adjacency="zero_out"),
        "new iteration": NoisyIteration(0.9, 1.0, 2.0, steps=30),
        "new iteration, written": NoisyIteration(
            1.0 + 0.1 * np.sin(np.arange(12.0)), 1.0, 2.0, diameter=3.0
        ),
        "new residual": _sgd(clipping="residual", clip_norm=0.5, **pulled),
        "new rounded": _sgd(rounding=1e-3),
        "new rounded, fixed size": _sgd(**sampled, batches=FixedSize(8), rounding=1e-3),
        "new chain": pabi.LangevinChain(bounded, **chains),
        "new chains": pabi.LangevinChain(bounded, **chains, gradient_gap=0.2, chains=7),
        "new chain, shuffled": pabi.LangevinChain(bounded, **chains, batches=ShuffleOnce(50)),
        "new diffusion": pabi.LangevinDiffusion(bounded, **over),
        "new diffusion in a set": pabi.LangevinDiffusion(bounded, **over, diameter=0.4),
        "new dissipative": pabi.LangevinDiffusion(
            Loss.dissipative(0.01, 0.5, 1.0), **over | {"time": 12.0}
        ),
        "new cooling": pabi.LangevinDiffusion(
            bounded, **over | {"inverse_temperature": [1.0, 3.0]}
        ),
        "new split": pabi.IteratedExponentialMechanism(
            bounded, 1000, 2, 10.0, epsilons=[0.2, 0.3], failure=0.01, split=400
        ),
        "new exponential": pabi.ExponentialMechanism(
            bounded, n=100, inverse_temperature=2.0, dimension=2, diameter=0.4
        ),
        "new moments": pabi.NoisySecondMoments(100, 5, 1.5, noise_std=9.0),
        "new moments, diagonal": pabi.NoisySecondMoments(
            100, 5, 1.5, noise_multiplier=7.0, adjacency="zero_out", diagonal=True
        ),
        "new accuracy": pabi.NoisyAccuracy(300, 0.01, unit="user"),
        "new counts": pabi.NoisyColumnStatistics(
            100, 5, "counts", questions=7, noise_std=9.0, unit="user"
        ),
        "new column moments": pabi.NoisyColumnStatistics(100, 5, "moments", noise_std=9.0),
        "new levels": pabi.NoisyColumnStatistics(
            100, 5, "levels", noise_std=9.0, threshold=4.0, adjacency="zero_out"
        ),
    }


def _written():
    """(name, guarantee) of the present version."""
    found = {}
    for name, description in _descriptions().items():
        position = {"position": 1} if name == "new position" else {}
        found[name] = description.guarantee(DELTA, **position)
    cyclic, chain = found["new cyclic"], found["new chain"]
    found["new composed"] = pabi.compose(cyclic, chain, found["new shuffle once"])
    found["new composed, one sampled"] = pabi.compose(cyclic, found["new fixed size"])
    found["new twice"] = pabi.compose(cyclic, cyclic)
    found["new ledger"] = _entered(cyclic, found["new shuffle once"], found["new exponential"])
    found["new ledger of an order"] = _entered(
        cyclic, found["new shuffle once"], found["new moments"], order=3.0
    )
    found["new with more said"] = cyclic.assuming("the features are centred without the data")
    return found


def _entered(*guarantees, order=None):
    """What a ledger says of these."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = pabi.Ledger(Path(folder) / "a.ledger", 200.0, DELTA, order=order)
        for guarantee in guarantees:
            ledger.spend(guarantee)
        return ledger.guarantee


@functools.cache
def honest_files() -> dict[str, str]:
    """JSON texts by name, of guarantees and of a few certificates alone."""
    files = {path.stem: path.read_text() for path in sorted(OLD.glob("*.json"))}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = _written()
        files |= {name: guarantee.to_json() for name, guarantee in written.items()}
        for name in ("new cyclic", "new shuffle once", "new iteration"):
            certificate = written[name].certificate
            files[f"{name}, certificate"] = certificate.to_json()
    return files


def certificate_in(data):
    """The certificate in a file that is read."""
    return data["certificate"] if data.get("format") == "pabi.guarantee" else data


if __name__ == "__main__":
    import time

    for name, text in honest_files().items():
        begin = time.process_time()
        verdict = pabi.verify(text)
        took = time.process_time() - begin
        theorem = certificate_in(json.loads(text))["theorem"]
        print(
            f"{name:30s} {len(text):6d} {verdict.ok} {took * 1e3:7.1f} ms {theorem} {verdict.reason[:60]}"
        )
