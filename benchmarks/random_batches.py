"""Random batches: seconds of a guarantee and of a composition, each beside its goal and beside peers.

    python benchmarks/random_batches.py [--prv RESULTS.json]

Every figure is processor time, all of it on one thread, and the least of several runs after one that
warms up, each with a noise not seen before, so that nothing is remembered. Accountants are compared at
the same accuracy: the coarsest settings at which ε is within a relative 1e-3 of its limit. `--prv` is
what benchmarks/peers/prv_speed.py wrote on this machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dp_accounting
from dp_accounting.pld import PLDAccountant
from rich.console import Console
from rich.table import Table

import pabi
from pabi.showing import as_printed, exact, plain, shown, shown_down
from pabi.tradeoff import Gaussian, PoissonSubsampled, Subsampled

DELTA, RTOL = 1e-5, 1e-3
PROBABILITY, MULTIPLIER, STEPS = 0.025, 1.5, 8000
PUBLISHED = {2000: 4.438, 4000: 6.654, 8000: 10.113}  # Bok, Su, Altschuler 2024, Table 4


def least_times(works: Sequence[Callable[[float], float]], runs: int) -> list[tuple[float, float]]:
    """(least seconds, last result) of each work(1 + something tiny that differs every time), in turns."""
    times: list[list[float]] = [[] for _ in works]
    results = [work(1.0) for work in works]
    for run in range(1, runs + 1):
        for k, work in enumerate(works):
            begin = time.process_time()
            results[k] = work(1.0 + 1e-7 * run)
            times[k].append(time.process_time() - begin)
    return [(min(t), result) for t, result in zip(times, results, strict=True)]


def told(seconds: float) -> str:
    return f"{plain(seconds, 3)} s" if seconds >= 0.2 else f"{plain(1000 * seconds, 3)} ms"


def between(low: float, high: float) -> str:
    return f"{shown_down(low, decimals=5)} and {shown(high, decimals=5)}"


# Whole guarantees.


def strongly_convex(batches: pabi.Poisson | pabi.FixedSize, adjacency: str) -> dict[str, Any]:
    """c = 0.9, p = 0.02, a noise multiplier of 2."""
    return {
        "loss": pabi.Loss.convex(smoothness=1.0, gradient_bound=1.0, glm=True, l2=1.0),
        "n": 5000,
        "batches": batches,
        "steps": 2000,
        "step_size": 0.1,
        "noise_std": 0.02,
        "clip_norm": 1.0,
        "adjacency": adjacency,
    }


def constrained(steps: int) -> dict[str, Any]:
    """The setting of examples/convergence.py."""
    return {
        "loss": pabi.Loss.convex(smoothness=20.0, gradient_bound=25.0),
        "n": 5000,
        "batches": pabi.FixedSize(100),
        "steps": steps,
        "step_size": 0.1,
        "noise_std": 3.0,
        "diameter": 1.0,
    }


def guarantees() -> Table:
    cases = {
        "Poisson, zero_out, t = 2 000": strongly_convex(pabi.Poisson(100), "zero_out"),
        "Poisson, replace_one, t = 2 000": strongly_convex(pabi.Poisson(100), "replace_one"),
        "fixed size, t = 2 000": strongly_convex(pabi.FixedSize(100), "replace_one"),
        "fixed size, convex, D = 1, t = 10⁴": constrained(10**4),
        "fixed size, convex, D = 1, t = 10⁷": constrained(10**7),
    }
    table = Table("guarantee(δ) and .epsilon(δ)", "ε", "seconds", "goal", title="Random batches")
    for name, arguments in cases.items():

        def account(noise: float, arguments: dict[str, Any] = arguments) -> float:
            run = pabi.NoisySGD(**arguments | {"noise_std": arguments["noise_std"] * noise})
            return run.guarantee(DELTA).epsilon(DELTA)

        ((seconds, epsilon),) = least_times([account], 4)
        table.add_row(name, shown(epsilon, decimals=4), told(seconds), "≤ 2 s")
    return table


# Composition.


def compositions() -> Table:
    table = Table("C_p(G(μ))^t, p = 0.025, μ = 2/3", "ε", "seconds", "goal", title="Composition")
    for steps in (STEPS, 10**6):

        def compose(noise: float, steps: int = steps) -> float:
            curve = Subsampled(Gaussian(1.0 / (MULTIPLIER * noise)), PROBABILITY)
            return curve.self_compose(steps).epsilon(DELTA)

        ((seconds, epsilon),) = least_times([compose], 15)
        table.add_row(f"t = {steps:,}", shown(epsilon, decimals=3), told(seconds), "≤ 50 ms")
    return table


def published() -> Table:
    table = Table("t", "published", "pabi, between", title="Bok, Su, Altschuler, Table 4: NoisySGD")
    factor = Subsampled(Gaussian(1.0 / MULTIPLIER), PROBABILITY)
    for steps, value in PUBLISHED.items():
        low, high = factor.self_compose(steps).epsilon_bounds(DELTA, rtol=1e-5)
        printed, *found = (as_printed(x, 3) for x in (value, low, high))
        agree = "the same" if found == [printed, printed] else "different"
        table.add_row(f"{steps:,}", printed, f"{between(low, high)}: {agree}")
    return table


# Peers.


def ours(noise: float) -> float:
    curve = PoissonSubsampled(1.0 / (MULTIPLIER * noise), PROBABILITY)
    return curve.self_compose(STEPS).epsilon(DELTA)


def dp_accounting_epsilon(interval: float, noise: float = 1.0) -> float:
    step = dp_accounting.PoissonSampledDpEvent(
        PROBABILITY, dp_accounting.GaussianDpEvent(MULTIPLIER * noise)
    )
    accountant = PLDAccountant(value_discretization_interval=interval)
    accountant.compose(step, STEPS)
    return float(accountant.get_epsilon(DELTA))


def coarsest(limit: float, rtol: float) -> float:
    """The largest discretisation interval of dp_accounting at which ε is so close to its limit."""
    interval = 8e-3
    while abs(dp_accounting_epsilon(interval) / limit - 1.0) > rtol:
        interval *= 0.9
    return interval


def peers(prv: list[dict[str, Any]]) -> Table:
    curve = PoissonSubsampled(1.0 / MULTIPLIER, PROBABILITY).self_compose(STEPS)
    low, high = curve.epsilon_bounds(DELTA, rtol=1e-5)
    default = 1e-4
    limit = dp_accounting_epsilon(default)
    intervals = {
        "within 1e-3": coarsest(limit, RTOL),
        "as close as pabi": coarsest(limit, ours(1.0) / limit - 1.0),
        "default": default,
    }
    works = [lambda noise, h=h: dp_accounting_epsilon(h, noise) for h in intervals.values()]
    (own, epsilon), *others = least_times([ours, *works], 12)

    table = Table(
        "accountant",
        "ε",
        "seconds",
        "pabi is faster by",
        "goal",
        title=f"Poisson-sampled Gaussian, p = {PROBABILITY}, noise multiplier {MULTIPLIER}, t = {STEPS}",
        caption=f"ε lies between {between(low, high)}",
    )
    table.add_row("pabi", shown(epsilon, decimals=4), told(own), "", "")
    for (name, interval), (seconds, epsilon) in zip(intervals.items(), others, strict=True):
        table.add_row(
            f"dp_accounting, interval {plain(interval, 2)} ({name})",
            shown(epsilon, decimals=4),
            told(seconds),
            f"{plain(seconds / own, decimals=1)}×",
            "≥ 1×" if name == "within 1e-3" else "—",
        )
    for record in prv:
        _, estimate, upper = record["bounds"]
        proven = record["reading"] == "upper bound"
        seconds = min(record["times"])
        table.add_row(
            f"prv-accountant, {record['reading']}, eps_error {exact(record['eps_error'])}",
            shown(upper if proven else estimate, decimals=4),
            told(seconds),
            f"{plain(seconds / own, decimals=1)}×",
            "≥ 50×" if proven else "—",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prv", type=Path, help="what benchmarks/peers/prv_speed.py wrote")
    arguments = parser.parse_args()
    prv = json.loads(arguments.prv.read_text()) if arguments.prv else []
    console = Console(width=110)
    for table in (compositions(), peers(prv), guarantees(), published()):
        console.print(table)


if __name__ == "__main__":
    main()
