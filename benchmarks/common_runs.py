"""Runs that people have: how long their guarantee and their calibration take, beside dp-accounting.

    python benchmarks/common_runs.py [NAME …] [--peers]

Every time is of one call in a fresh process that has accounted another run before. A fit is the calibration,
the training and the certificate of a linear model of 20 columns on as many rows as the run has; beside it is
the time of the training alone. Runs on more than a million rows, or on a loss of which nothing is known, are
not fitted. A run is refused whose steps end so short that doubles do not resolve their noise. The peer's time
is that of one ε for the same noise with Poisson batches, every iterate released, after another one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi import Cyclic, FullBatch, LangevinChain, Loss, NoisySGD, Poisson, Reshuffle, ShuffleOnce
from pabi.showing import plain

LIMIT = 600.0  # seconds that one call may take


@dataclass(frozen=True)
class Common:
    """A run, the δ it is read at, and the ε that is asked of it."""

    run: Any
    delta: float
    target: float


def cosine(steps: int, peak: float) -> np.ndarray:
    """From `peak` to 0, as torch's CosineAnnealingLR."""
    return peak * 0.5 * (1.0 + np.cos(np.pi * np.arange(steps) / steps))


def warm(steps: int, peak: float, share: float = 0.1) -> np.ndarray:
    """Linear to `peak` in a share of the steps, then as before."""
    rise = int(share * steps)
    return np.concatenate([peak * np.arange(1, rise + 1) / rise, cosine(steps - rise, peak)])


def halved(steps: int, first: float, then: float) -> np.ndarray:
    return np.where(np.arange(steps) < steps // 2, first, then)


LOGISTIC = Loss.logistic(1.0, l2=1e-3)
SOFTMAX = Loss.softmax(1.0, l2=1e-4)


def sgd(batches: Any, loss: Loss = LOGISTIC, **changes: Any) -> NoisySGD:
    settings: dict[str, Any] = {
        "n": 20_000,
        "epochs": 20,
        "step_size": 1.0,
        "noise_multiplier": 1.5,
    }
    if "total_steps" in changes:
        settings.pop("epochs")
        changes["steps"] = changes.pop("total_steps")
    return NoisySGD(loss, batches=batches, **settings | {"clip_norm": 1.0} | changes)


def runs() -> dict[str, Common]:
    unknown, zero = Loss.unknown(), {"adjacency": "zero_out"}
    many = {"n": 50_000, "epochs": 100, "noise_multiplier": 1.1}
    weak, squared = Loss.logistic(1.0, l2=1 / 8500), Loss.squared(1.0, residual_bound=1.0)
    quiet = {"step_size": 0.1, "noise_multiplier": 50.0}
    small = {"n": 8_500, "epochs": 20, "step_size": 6.0, "noise_multiplier": 8.0}
    table = {
        "plain DP-SGD": (sgd(Poisson(256), unknown, **many, **zero), 1e-6, 1.0),
        "plain DP-SGD, long": (sgd(Poisson(512), unknown, n=60_000, total_steps=100_000, **zero), 1e-6, 8.0),
        "plain DP-SGD, shuffled": (sgd(ShuffleOnce(256), unknown, **many), 1e-6, 8.0),
        "plain DP-SGD, reshuffled": (sgd(Reshuffle(500), unknown, n=50_000, **zero), 1e-6, 8.0),
        "Poisson, logistic": (sgd(Poisson(500)), 1e-6, 1.0),
        "shuffled, constant": (sgd(ShuffleOnce(500)), 1e-6, 1.0),
        "shuffled, halved": (sgd(ShuffleOnce(500), step_size=halved(800, 1.0, 0.1)), 1e-6, 1.0),
        "shuffled, cosine": (sgd(ShuffleOnce(500), step_size=cosine(800, 1.0)), 1e-6, 1.0),
        "shuffled, warm-up": (sgd(ShuffleOnce(500), step_size=warm(800, 1.0)), 1e-6, 1.0),
        "reshuffled, constant": (sgd(Reshuffle(500)), 1e-6, 1.0),
        "reshuffled, halved": (sgd(Reshuffle(500), step_size=halved(800, 1.0, 0.1)), 1e-6, 1.0),
        "reshuffled, cosine, softmax": (
            sgd(Reshuffle(500), SOFTMAX, step_size=cosine(800, 1.0), clip_norm=2.0), 1e-6, 1.0),
        "reshuffled, cosine, clipped": (sgd(Reshuffle(500), SOFTMAX, step_size=cosine(800, 1.0)), 1e-6, 1.0),
        "reshuffled, warm-up": (sgd(Reshuffle(500), step_size=warm(800, 1.0)), 1e-6, 1.0),
        "clipped softmax, expanding": (sgd(ShuffleOnce(200), SOFTMAX, n=8_500, step_size=4.0), 1e-5, 1.0),
        "8 500 rows, long steps": (sgd(ShuffleOnce(212), weak, **small), 1e-5, 0.5),
        "regression": (sgd(ShuffleOnce(50), squared, n=442, step_size=0.5), 1e-4, 4.0),
        "fixed order, 50 million": (sgd(Cyclic(50_000), n=50_000_000, epochs=3), 1e-9, 1.0),
        "full batch, long": (sgd(FullBatch(), n=1_000, epochs=100_000, **quiet), 1e-5, 1.0),
        "Langevin": (
            LangevinChain(Loss.logistic(1.0, l2=0.04), n=1_000, inverse_temperature=1_000.0,
                          step_size=0.001, steps=2_000, prox=pabi.prox.ball(4.0)), 1e-5, 1.0),
        "small": (sgd(ShuffleOnce(10), n=100, epochs=10, noise_multiplier=3.0), 1e-3, 4.0),
    }  # fmt: skip
    return {name: Common(*settings) for name, settings in table.items()}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def one(name: str, what: str) -> dict[str, Any]:
    """Measured in this process."""
    common = runs()[name]
    warnings.simplefilter("ignore")
    sgd(Cyclic(500)).guarantee(1e-5).epsilon(1e-5)  # imports
    if what == "guarantee":
        seconds, guarantee = timed(lambda: common.run.guarantee(common.delta))
        return {
            "seconds": seconds,
            "epsilon": guarantee.epsilon(common.delta),
            "method": guarantee.method,
        }
    if what == "calibrate":
        seconds, _ = timed(lambda: pabi.calibrate(common.run, common.target, common.delta))
        return {"seconds": seconds}
    if what == "fit":
        return fitted(common)
    other = Common(sgd(Poisson(100)), 1e-5, 1.0)
    reading(other)
    seconds, epsilon = timed(lambda: reading(common))
    return {"seconds": seconds, "epsilon": epsilon}


ROWS, COLUMNS = 1_000_000, 20


def fitted(common: Common) -> dict[str, Any]:
    """Calibrating, training and certifying; and the training alone."""
    from pabi.learn import LogisticGradients, SoftmaxGradients, SquaredGradients, bound_rows, train

    run = common.run
    if not isinstance(run, NoisySGD) or run.n > ROWS or run.loss.kind == "unknown":
        return {}
    rng = np.random.default_rng(0)
    rows = bound_rows(rng.normal(size=(run.n, COLUMNS)), 1.0)
    score = rows @ rng.normal(size=COLUMNS)
    match run.loss.kind:
        case "logistic":
            gradients, x0 = LogisticGradients(rows, score > 0.0), np.zeros(COLUMNS)
        case "softmax":
            labels = np.digitize(score, [-1.0, 0.0, 1.0])
            gradients, x0 = SoftmaxGradients(rows, labels, 4), np.zeros((COLUMNS, 4))
        case "squared":
            gradients, x0 = SquaredGradients(rows, np.tanh(score), 1.0), np.zeros(COLUMNS)
        case kind:
            raise ValueError(kind)

    def training(described: NoisySGD) -> Any:
        return train(described, gradients, x0, delta=common.delta)

    def fit() -> Any:
        result = training(pabi.calibrate(run, common.target, common.delta))
        return result.guarantee.certificate.to_json()

    try:
        seconds, _ = timed(fit)
    except pabi.InvalidInput:
        return {"error": "refused"}
    alone, _ = timed(lambda: train(run, gradients, x0))
    return {"seconds": seconds, "alone": alone}


def reading(common: Common) -> float | None:
    """ε by dp-accounting, of the run with Poisson batches and every iterate released."""
    import dp_accounting as dp

    run = common.run
    if not isinstance(run, NoisySGD):
        return None
    accountant = dp.pld.PLDAccountant(dp.NeighboringRelation.REPLACE_SPECIAL)
    event = dp.PoissonSampledDpEvent(
        run.batch_size / run.n, dp.GaussianDpEvent(float(run.noise_multiplier))
    )
    accountant.compose(event, int(run.steps))
    return float(accountant.get_epsilon(common.delta))


def measure(name: str, what: str) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--one", what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"seconds": LIMIT}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--peers", action="store_true", help="dp-accounting besides")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.names[0], options.one)))
        return
    table = Table(
        "run",
        "method",
        "ε",
        "guarantee, s",
        "calibrate, s",
        "fit, s",
        "training, s",
        "peer: ε",
        "s",
    )
    for name in options.names or runs():
        here = measure(name, "guarantee")
        search = measure(name, "calibrate")
        fit = measure(name, "fit")
        peer = measure(name, "peer") if options.peers else {}
        table.add_row(
            name,
            here.get("method", here.get("error")),
            *(
                plain(x, 3) if isinstance(x, float) else x or ""
                for x in (
                    here.get("epsilon"),
                    here.get("seconds"),
                    search.get("seconds"),
                    fit.get("seconds", fit.get("error")),
                    fit.get("alone"),
                    peer.get("epsilon"),
                    peer.get("seconds"),
                )
            ),
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
