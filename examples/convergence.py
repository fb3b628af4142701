"""How privacy converges: ε against the number of steps when only the last iterate is released.

Noisy SGD on convex losses within a domain of diameter 1, batches drawn at random without replacement: the
setting of Fig. 10 of Bok, Su, Altschuler 2024 (D = 1, σ = 3, b/n = 0.02, L/b = 0.5). Composition pays for
every step for ever. pabi pays for a window of last steps: whatever happened before it, two runs are at
most the diameter apart when it begins, and its noise hides that, so that further steps cost nothing.

    python examples/convergence.py [PICTURE]

Half a minute; without an argument the picture is docs/figures/convergence.svg.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import pabi

DELTA = 1e-5
STEP_SIZE = 0.1
OURS, OTHER, GREY = "#0072B2", "#D55E00", "#595959"  # told apart by colour-blind readers


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
    figure, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    ax.loglog(steps, composition, "--", color=OTHER, linewidth=2)
    ax.loglog(steps, ours, color=OURS, linewidth=2.5)
    ax.axvline(window, ymax=0.62, color=GREY, linewidth=1, linestyle=":")

    last = ours[-1]
    ax.text(2.2e5, 12.5, "every iterate\n(composition)", color=OTHER, ha="right", va="bottom")
    ax.text(1.1e7, last * 1.12, f"only the last iterate: ε = {last:.3f} for ever", color=OURS, ha="right")
    ax.text(
        window * 1.12,
        0.105,
        f"window: {window} steps\n"
        "All earlier steps together are charged no more\n"
        "than two runs one diameter apart; the noise of\n"
        "the last steps hides that, and what they use.",
        color=GREY,
        fontsize="small",
        va="bottom",
    )
    for t in (10**5, 10**7):
        value = composition[steps == t][0]
        ax.plot(t, value, "o", color=OTHER, markersize=4)
        ax.annotate(
            f"{value:.3g}", (t, value), xytext=(-6, 2), textcoords="offset points",
            color=OTHER, ha="right", va="bottom",
        )
    ax.set(xlabel="steps t", ylabel=f"ε at δ = 10⁻⁵, at most", xlim=(1e2, 1.2e7), ylim=(0.08, 200))
    ax.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    steps = np.unique(np.round(10.0 ** np.arange(2.0, 7.01, 0.25)).astype(np.int64))
    found = [guarantee(t) for t in steps.tolist()]
    ours = np.array([g.epsilon(DELTA) for g in found])
    composition = np.array([g.composition.epsilon(DELTA) for g in found if g.composition])

    proof = found[-1].certificate
    assert proof is not None
    window = sum(proof.payload["plan"]["lengths"])

    table = Table(title=f"ε at δ = {DELTA:g}")
    for column in ("steps", "every iterate", "only the last"):
        table.add_column(column, justify="right")
    for t in (10**4, 10**5, 10**6, 10**7):
        (k,) = np.flatnonzero(steps == t)
        table.add_row(f"{t:,}", f"{composition[k]:.3f}", f"{ours[k]:.15g}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"The last {window} steps are all that is paid for.")

    default = Path(__file__).resolve().parent.parent / "docs" / "figures" / "convergence.svg"
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    # The same bytes every time.
    plt.rcParams["svg.hashsalt"] = "convergence"
    metadata = {"Date": None} if where.suffix == ".svg" else None
    draw(steps, ours, composition, window).savefig(where, dpi=150, metadata=metadata)
    console.print(f"Picture: {where}", soft_wrap=True)


if __name__ == "__main__":
    main()
