"""Seconds of processor time that prv-accountant needs for the ε of a Poisson-subsampled Gaussian, composed.

    pip install prv-accountant==0.2.0
    python prv_speed.py RESULTS.json

8 000 steps with sampling probability 0.025 and noise multiplier 1.5, δ = 1e-5, as in
benchmarks/random_batches.py. The library gives a lower bound, an estimate and an upper bound; about half
the distance between the bounds, `eps_error`, is its argument, and `delta_error` is 1e-3·δ, as its
documentation advises. Timed are the largest `eps_error` (of a few) at which the upper bound is within a
relative 1e-3 of the limit, and the largest at which the estimate is, which by itself guarantees nothing.
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

from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

STEPS, PROBABILITY, MULTIPLIER, DELTA = 8000, 0.025, 1.5, 1e-5
RTOL = 1e-3
RUNS = 5


def bounds(eps_error: float) -> tuple[float, float, float]:
    """(lower, estimate, upper) of ε."""
    accountant = PRVAccountant(
        PoissonSubsampledGaussianMechanism(
            sampling_probability=PROBABILITY, noise_multiplier=MULTIPLIER
        ),
        eps_error=eps_error,
        delta_error=1e-3 * DELTA,
        max_self_compositions=STEPS,
    )
    low, estimate, high = accountant.compute_epsilon(DELTA, STEPS)
    return float(low), float(estimate), float(high)


def measure(reading: str, eps_error: float) -> dict[str, Any]:
    """Time of `bounds` at this `eps_error`, every run from the beginning."""
    times = []
    for _ in range(RUNS):
        begin = time.process_time()
        found = bounds(eps_error)
        times.append(time.process_time() - begin)
    return {
        "library": "prv-accountant",
        "version": version("prv-accountant"),
        "reading": reading,
        "eps_error": eps_error,
        "bounds": found,
        "times": times,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="the JSON file to write")
    arguments = parser.parse_args()

    _, truth, _ = bounds(0.02)
    errors = [truth * RTOL * share for share in (0.999, 0.99, 0.95, 0.9, 0.8)]
    proven = next(e for e in errors if bounds(e)[2] <= (1.0 + RTOL) * truth)
    rough = (3.2, 1.6, 0.8, 0.4, 0.2, 0.1, 0.05)
    estimated = next(e for e in rough if abs(bounds(e)[1] / truth - 1.0) <= RTOL)
    records = [measure("upper bound", proven), measure("estimate", estimated)]
    arguments.results.write_text(json.dumps(records, indent=1))
    print(*records, sep="\n")


if __name__ == "__main__":
    main()
