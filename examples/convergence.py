"""How privacy converges: ε against the number of steps when only the last iterate is released.

Noisy SGD on convex losses within a domain of diameter 1, batches drawn at random without replacement: the
setting of Fig. 10 of Bok, Su, Altschuler 2024 (D = 1, σ = 3, b/n = 0.02, L/b = 0.5). Composition pays for
every step for ever. pabi pays for a window of last steps: whatever happened before it, two runs are at
most the diameter apart when it begins, and its noise hides that, so that further steps cost nothing.

    python examples/convergence.py [FOLDER]

Two minutes; convergence.svg goes to FOLDER, by default docs/figures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi.showing import exact, shown

DELTA = 1e-5
STEP_SIZE = 0.1


def guarantee(steps: int) -> pabi.Guarantee:
    """Of the last iterate after `steps` steps."""
    run = pabi.NoisySGD(
        # As curved as the step size allows; replacing a record changes a gradient sum by L = 2·25.
        pabi.Loss.convex(smoothness=2.0 / STEP_SIZE, gradient_bound=25.0),
        n=5000,
        batches=pabi.FixedSize(100),
        steps=steps,
        step_size=STEP_SIZE,
        noise_std=3.0,
        diameter=1.0,
    )
    return run.guarantee(DELTA)


def draw(steps: np.ndarray, ours: np.ndarray, composition: np.ndarray, window: int) -> plt.Figure:
    """Both curves, named where they run."""
    colours = pabi.plotting.palette()
    figure, ax = plt.subplots()
    last = shown(ours[-1], decimals=3)
    ax.loglog(steps, composition, color=colours.other, linestyle=colours.lines[1])
    ax.loglog(steps, ours, color=colours.ours, linestyle="-", linewidth=3.2)

    def say(text: str, x: float, y: float, color: str, **options: Any) -> None:
        ax.text(x, y, text, color=color, va="center", **options)

    say("every iterate", 1.6e5, 15.0, colours.other, ha="right")
    say(f"only the last: ε = {last} for ever", 1e7, float(last) * 1.35, colours.ours, ha="right")
    for k in np.flatnonzero((steps == 10**5) | (steps == 10**6) | (steps == 10**7)):
        ax.plot(steps[k], composition[k], "o", color=colours.other, markersize=5)
        say(
            shown(composition[k], 3),
            0.75 * steps[k],
            1.35 * composition[k],
            colours.other,
            ha="right",
        )
    meaning = (
        f"the price of the last {window} steps,\nbegun with the two runs a whole diameter\n"
        "apart: no number of steps costs more"
    )
    say(meaning, 1e7, 0.33, colours.neutral, ha="right", multialignment="right")
    ax.set(
        title="On a bounded domain ε stops growing",
        xlabel="steps",
        ylabel="ε at δ = 10⁻⁵ (at most)",
        xlim=(1e2, 1.2e7),
        ylim=(0.08, 250),
    )
    ax.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    ax.grid()
    return figure


def main() -> None:
    powers = np.concatenate(
        [np.arange(2.0, 3.5, 0.25), np.arange(3.5, 4.0, 1 / 16), np.arange(4.0, 7.1)]
    )
    steps = np.round(10.0**powers).astype(np.int64)
    found = [guarantee(t) for t in steps.tolist()]
    ours = np.array([g.epsilon(DELTA) for g in found])
    composition = np.array([g.composition.epsilon(DELTA) for g in found if g.composition])

    proof = found[-1].certificate
    assert proof is not None
    # One factor for every step that is paid for.
    window = sum(f.get("count", 1) for f in proof.payload["claim"]["product"]["factors"])

    table = Table(title=f"ε at δ = {exact(DELTA)}")
    for column in ("steps", "every iterate", "only the last"):
        table.add_column(column, justify="right")
    for t in (10**4, 10**5, 10**6, 10**7):
        (k,) = np.flatnonzero(steps == t)
        table.add_row(f"{t:,}", shown(composition[k], decimals=3), repr(float(ours[k])))
    console = Console(highlight=False)
    console.print(table)
    console.print(f"The last {window} steps are all that is paid for.")

    default = Path(__file__).resolve().parent.parent / "docs" / "figures"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    with pabi.plotting.style("light"):
        figure = draw(steps, ours, composition, window)
        figure.savefig(folder / "convergence.svg", metadata={"Date": None, "Creator": "pabi"})
    console.print("Picture: convergence.svg")


if __name__ == "__main__":
    main()
