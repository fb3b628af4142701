"""How soon a projected Langevin chain forgets where it began: "I want total variation 0.01".

Steps against those of Bravo, Flores-Mella, Guzmán, Theorem 4.2, in their settings: convex potentials on a set
of diameter 10, smooth or with a Hölder gradient. The bound on total variation step by step, beside what is
measured, is drawn by examples/gallery/mixing.py.

    python examples/mixing.py
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

import pabi
from pabi.literature.bravo import theorem_4_2
from pabi.showing import as_printed, exact, plain

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
        ratio = plain(printed / ours, decimals=2)
        table.add_row(name, exact(step_size), as_printed(printed, 0), str(ours), ratio)
    return table


if __name__ == "__main__":
    Console().print(steps())
