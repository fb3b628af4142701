"""Speed and memory of the accountant, each beside its goal and beside one numpy pass over the data.

    make bench          or          python benchmarks/run.py

Every figure is the median of several runs, after one that warms up. "numpy pass" is what it costs to
read the same three arrays once (c·s + σ), so that the distance to the limit of the machine is visible.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi.describe.batches import Batches
from pabi.showing import plain

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
STEPS = 1_000_000


def median_time(work: Callable[[], object], runs: int = 5) -> float:
    work()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def process(*command: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *command], check=True, capture_output=True)


def schedules() -> dict[str, pabi.NoisyIteration]:
    """A million arbitrary steps, contracting, drifting, sparse; with and without a domain."""
    rng = np.random.default_rng(0)
    sigma = rng.uniform(0.5, 1.5, STEPS)
    dense = rng.uniform(0.0, 1.0, STEPS)
    sparse = dense * (rng.random(STEPS) < 0.01)
    slopes = {
        "contracting": rng.uniform(0.9, 1.0, STEPS),
        "both ways": rng.uniform(0.9, 1.1, STEPS),
        "isometric": np.ones(STEPS),
    }
    cases = {}
    for name, c in slopes.items():
        for density, s in (("dense", dense), ("sparse", sparse)):
            cases[f"{name}, {density}"] = pabi.NoisyIteration(c, s, sigma)
            cases[f"{name}, {density}, D = 5"] = pabi.NoisyIteration(c, s, sigma, diameter=5.0)
    cases["isometric, dense, D = 1000"] = pabi.NoisyIteration(
        slopes["isometric"], dense, sigma, diameter=1000.0
    )
    return cases


def peak_memory() -> float:
    """MB, of a fresh process, for the case that looks at all the steps most often.

    Linux's own high-water mark where there is one: ru_maxrss starts from the parent's.
    """
    script = f"""
import pathlib, resource, numpy as np, pabi
rng, t = np.random.default_rng(0), {STEPS}
s, sigma = rng.uniform(0, 1, t), rng.uniform(0.5, 1.5, t)
pabi.NoisyIteration(np.ones(t), s, sigma, diameter=3e5).guarantee()
status = pathlib.Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
marks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
print(marks[0] if marks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return int(out.stdout) / 1024.0


def mnist(batches: Batches) -> pabi.NoisySGD:
    return pabi.NoisySGD(
        pabi.Loss.convex(smoothness=1.0, l2=0.002),
        n=60_000,
        batches=batches,
        epochs=50,
        step_size=0.05,
        noise_std=0.01,
        gradient_sensitivity=10.0,
    )


def main() -> None:
    rows: list[tuple[str, float, str]] = []
    cases = schedules()
    first = next(iter(cases.values()))
    c, s, sigma = first.contraction, first.step_sensitivity, first.step_noise_std
    numpy_pass = median_time(lambda: c * s + sigma)
    for name, iteration in cases.items():
        limit = "1.5 s" if iteration.diameter else "0.3 s"
        seconds = median_time(lambda it=iteration: it.guarantee(), 3)  # type: ignore[misc]
        rows.append((f"10⁶ steps: {name}", seconds, limit))

    constant = pabi.NoisyIteration(0.999999, 1e-3, 1.0, steps=10**9)
    rows.append(("10⁹ constant steps", median_time(constant.guarantee), "50 ms"))
    capped = pabi.NoisyIteration(1.0, 1e-3, 1.0, steps=10**9, diameter=100.0)
    rows.append(("10⁹ constant steps, D = 100", median_time(capped.guarantee), "50 ms"))
    for kind in (pabi.Cyclic, pabi.ShuffleOnce, pabi.Reshuffle, pabi.BallsInBins):
        run = mnist(kind(1_500))
        rows.append(
            (
                f"50 epochs, {kind.__name__}: guarantee().epsilon()",
                median_time(lambda r=run: r.guarantee().epsilon(1e-5)),  # type: ignore[misc]
                "20 ms" if kind is pabi.Cyclic else "—",
            )
        )

    steps = 20 * 40
    falling = pabi.NoisySGD(
        pabi.Loss.convex(smoothness=1.0),
        n=60_000,
        batches=pabi.Reshuffle(1_500),
        epochs=20,
        step_size=np.linspace(0.1, 0.01, steps),
        noise_std=0.01,
        gradient_sensitivity=10.0,
    )
    latest = median_time(lambda: falling.guarantee().epsilon(1e-5))
    rows.append(("20 epochs, Reshuffle, falling steps", latest, "—"))
    proven = falling.guarantee().certificate
    assert proven is not None
    rows.append(("— its verification", median_time(lambda: pabi.verify(proven), 3), "—"))

    rng = np.random.default_rng(1)
    t = 100_000
    written = pabi.NoisyIteration(
        rng.uniform(0.9, 1.05, t), rng.uniform(0, 1, t), rng.uniform(0.5, 1.5, t)
    ).guarantee()
    proof = written.certificate
    assert proof is not None
    size = len(proof.to_json())
    rows.append(("verify 10⁵ steps", median_time(lambda: pabi.verify(proof), 3), "5 s"))
    short = constant.guarantee().certificate
    assert short is not None

    startup = median_time(process("-c", "pass"))
    rows.append(("python (bare process)", startup, "—"))
    for module, goal in (("pabi", "0.3 s"), ("numpy", "—")):
        seconds = median_time(process("-c", f"import {module}")) - startup
        rows.append((f"import {module}, process less bare python", seconds, goal))
    for name in ("mnist-cyclic.toml", "logistic-shuffle-once.toml"):
        command = process("-m", "pabi", "account", str(EXAMPLES / name), "--delta", "1e-5")
        rows.append((f"pabi account {name}, process", median_time(command), "1 s"))

    table = Table("what", "median", "goal", title=f"pabi {pabi.__version__}")
    for what, seconds, goal in rows:
        told = f"{plain(seconds, 3)} s" if seconds >= 0.1 else f"{plain(1000 * seconds, 3)} ms"
        table.add_row(what, told, goal)
    console = Console(width=100)
    console.print(table)
    console.print(f"one numpy pass over the three arrays of 10⁶: {plain(1000 * numpy_pass, 3)} ms")
    console.print(
        "peak memory of a process that accounts 10⁶ steps: "
        f"{plain(peak_memory(), decimals=0)} MB (goal 500 MB)"
    )
    console.print(
        f"certificate of 10⁵ arbitrary steps: {plain(size / 1e6, decimals=2)} MB (goal 5 MB)"
    )
    console.print(f"certificate of 10⁹ constant steps: {len(short.to_json())} bytes")


if __name__ == "__main__":
    main()
