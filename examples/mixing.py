"""How soon a projected Langevin chain forgets where it began: "I want total variation 0.01".

First steps against those of Bravo, Flores-Mella, Guzmán, Theorem 4.2, in their settings: convex potentials on
a set of diameter 10, smooth or with a Hölder gradient. Then the bound itself on total variation, step by
step, beside what is measured between chains that begin at opposite ends of a disc, for the potential
‖x‖^1.5, which is not smooth.

    python examples/mixing.py [PICTURE]

Half a minute; without an argument the picture is docs/figures/mixing.png.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi.literature.bravo import theorem_4_2

TARGET = 0.01


def steps() -> Table:
    """Both numbers of steps, for several potentials."""
    table = Table(title=f"steps to total variation {TARGET}, D = 10")
    for column in ("potential", "η", "Theorem 4.2", "pabi", "ratio"):
        table.add_column(column, justify="left" if column == "potential" else "right")
    for name, loss, step_size, holder in (
        ("convex, smooth (M = 1)", pabi.Loss.convex(1.0), 0.01, (1.0, 1.0)),
        ("p = 1/2, M = 1", pabi.Loss.weakly_smooth([(0.5, 1.0)]), 0.01, (0.5, 1.0)),
        ("1-Lipschitz", pabi.Loss.lipschitz(1.0), 0.01, (0.0, 2.0)),
    ):
        exponent, constant = holder
        printed = float(
            theorem_4_2(
                diameter=10.0,
                step_size=step_size,
                total_variation=TARGET,
                exponent=exponent,
                constant=constant,
            )
        )
        ours = pabi.mixing_time(loss, 10.0, step_size, TARGET)
        table.add_row(name, f"{step_size:g}", f"{printed:.0f}", str(ours), f"{printed / ours:.2f}")
    return table


def gradient(x: Any) -> Any:
    """Of ‖x‖^1.5, for (chains, 2) points."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return 1.5 * x / np.sqrt(np.maximum(length, 1e-300))


def main(picture: Path) -> None:
    console = Console()
    console.print(steps())
    # |∇f(x) − ∇f(y)| ≤ 1.5·2^(1/2)·|x − y|^(1/2)
    loss = pabi.Loss.weakly_smooth([(0.5, 1.5 * 2.0**0.5)])
    step_size, radius = 0.01, 1.0
    longest = pabi.mixing_time(loss, 2.0 * radius, step_size, TARGET)
    ax = pabi.mixing.plot(
        loss,
        2.0 * radius,
        step_size,
        longest,
        gradient=gradient,
        prox=pabi.prox.ball(radius),
        starts=([radius, 0.0], [-radius, 0.0]),
        chains=20_000,
        random_state=1,
    )
    ax.set_title("‖x‖^1.5 on the unit disc, η = 0.01")
    ax.figure.savefig(picture, dpi=120)
    console.print(f"‖x‖^1.5 on the unit disc: {longest} steps to {TARGET}; picture: {picture.name}")


if __name__ == "__main__":
    default = Path(__file__).parent.parent / "docs" / "figures" / "mixing.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
