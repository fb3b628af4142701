"""Effective draws a second of emcee on the logistic posterior of sampling_target.py.

    pip install emcee==3.1.6
    OMP_NUM_THREADS=1 python emcee_sampling.py RESULTS.json

The affine-invariant ensemble with its default moves, its walkers evaluated all at once (`vectorize=True`)
on the same matrix products. It corrects for the error of its steps, which Langevin chains do not, and has
no guarantee. Effective draws are those of the mean, by emcee's own integrated autocorrelation time, of the
coordinate with the fewest, over the processor time of the run, burn-in excluded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import emcee
import numpy as np
from sampling_target import DIMENSION, RECORDS, posterior

STEPS = 4_000


def log_density() -> Any:
    """(walkers, d) ↦ (walkers,)."""
    X, y, precision = posterior(RECORDS, DIMENSION)
    signed = np.where(y == 1, 1.0, -1.0)[:, None] * X

    def value(points: np.ndarray) -> np.ndarray:
        z = points @ signed.T
        losses = np.log1p(np.exp(-np.abs(z))) + np.maximum(-z, 0.0)
        return -losses.sum(axis=1) - 0.5 * precision * np.sum(points**2, axis=1)

    return value


def measure(walkers: int) -> dict[str, Any]:
    sampler = emcee.EnsembleSampler(walkers, DIMENSION, log_density(), vectorize=True)
    start = 0.1 * np.random.default_rng(1).normal(size=(walkers, DIMENSION))
    state = sampler.run_mcmc(start, STEPS // 5)
    sampler.reset()
    begin = time.process_time()
    sampler.run_mcmc(state, STEPS)
    taken = time.process_time() - begin
    apart = float(np.max(sampler.get_autocorr_time(tol=20)))
    return {
        "library": "emcee",
        "version": version("emcee"),
        "walkers": walkers,
        "autocorrelation_steps": apart,
        "effective_per_second": walkers * STEPS / apart / taken,
        "seconds": taken,
        "std": sampler.get_chain(flat=True).std(axis=0).tolist(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="the JSON file to write")
    arguments = parser.parse_args()
    records = [measure(walkers) for walkers in (32, 200)]
    arguments.results.write_text(json.dumps(records, indent=1))
    print(*records, sep="\n")


if __name__ == "__main__":
    main()
