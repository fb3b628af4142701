"""The noise multiplier that each accountant asks for at the same ε, batch size and epochs.

    python benchmarks/multipliers.py

Logistic regression with the Adult data's n, softmax regression with MNIST's; zero_out, δ = 1e-5. The peers'
multipliers (Poisson batches, Opacus' PRV accountant) are printed by benchmarks/peers/opacus_accuracy.py.
"""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.table import Table

import pabi
from pabi.showing import exact, plain

DELTA = 1e-5
CASES = {
    "Adult, b = 512, 10 epochs": (pabi.Loss.logistic(1.0), 32_561, 512, 10),
    "Adult, b = 512, 20 epochs": (pabi.Loss.logistic(1.0), 32_561, 512, 20),
    "MNIST, b = 1500, 50 epochs": (pabi.Loss.softmax(1.0), 60_000, 1_500, 50),
}


def multiplier(epsilon: float, run: pabi.NoisySGD) -> str:
    calibrated = pabi.calibrate(run, epsilon, DELTA, parameter="noise_multiplier")
    return plain(calibrated.noise_multiplier, decimals=3)


def main() -> None:
    table = Table(title="Noise multipliers")
    for column in ("run", "ε", "cyclic", "one secret shuffle", "shuffle, a cool-down epoch"):
        table.add_column(column)
    for name, (loss, n, size, epochs) in CASES.items():
        cyclic = pabi.NoisySGD(
            loss,
            n=n,
            batches=pabi.Cyclic(size),
            epochs=epochs,
            step_size=1.0,
            adjacency="zero_out",
        )
        shuffled = replace(cyclic, batches=pabi.ShuffleOnce(size))
        cooled = replace(shuffled, cooldown_steps=shuffled.steps_per_epoch)
        for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
            row = (multiplier(epsilon, run) for run in (cyclic, shuffled, cooled))
            table.add_row(name, exact(epsilon), *row)
    Console().print(table)


if __name__ == "__main__":
    main()
