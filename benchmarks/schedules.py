"""Falling step sizes: what they cost and save at the same ε, on quadratics with known spectra.

    OMP_NUM_THREADS=1 python benchmarks/schedules.py

Nothing is trained. On a quadratic the mean and the variance of every eigendirection follow a recursion,
which is computed exactly. The noise is what `pabi.calibrate` finds for the schedule. The risk is
Σ λ(bias² + variance)/2, of the privacy noise alone: what sampling batches adds is not in it. Targets are 1
in every direction. Rows have norm 1 and the loss curvature M = 1, so eigenvalues sum to 1.

Where nothing contracts, the noise does not depend on the scale of step sizes. So each schedule is calibrated
once, and its path S, the sum of all step sizes, is chosen afterwards: the best one of a grid for each
spectrum, and one path for all. Cool-downs are in epochs.

`--classifier` trains logistic regression instead, on normal rows brought to norm 1 and logits of standard
deviation 3, along the path of the default rule. It takes two minutes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import brentq

import pabi
from pabi.learn import PrivateLogisticRegression
from pabi.learn.plans import Falling, budget
from pabi.showing import exact, plain

Array = NDArray[np.float64]

N, D, EPSILON, DELTA = 10_000, 100, 1.0, 1e-5
EPOCHS, PER_EPOCH = 20, 200
STEPS = EPOCHS * PER_EPOCH
STEEPEST = 1.9  # step size times curvature: beyond 2 steps expand, and c = 1 is wrong
COMMON = 1000.0  # one path for all: where noise moves the predictor of a row of norm 1 by about 0.4
PATHS = np.geomspace(10.0, 7600.0, 120)


def constant(t: Array) -> Array:
    return np.ones_like(t)


def linear(t: Array) -> Array:
    return 1.0 - t


def cosine(t: Array) -> Array:
    return (1.0 + np.cos(np.pi * t)) / 2.0


def square_root(t: Array) -> Array:
    return np.sqrt(1.0 - t)


def exponential(decades: float) -> Callable[[Array], Array]:
    """Step sizes that fall by so many powers of ten."""
    return lambda t: 10.0 ** (-decades * t)


def in_pieces(t: Array) -> Array:
    """The step sizes of the regressors."""
    falling = Falling(1.0, t.size)
    return np.array([falling(k) for k in range(t.size)])


def falling_noise(t: Array) -> Array:
    """With constant steps, the noise per unit of the path of step sizes that fall in a straight line."""
    return np.asarray((1.0 - t) ** 0.25)


@dataclass(frozen=True)
class Shape:
    """Step sizes, and noise on the gradient, by the share t of the run that is over; both up to a factor."""

    step: Callable[[Array], Array]
    noise: Callable[[Array], Array] = constant


SHAPES = {
    "constant": Shape(constant),
    "square root": Shape(square_root),
    "linear": Shape(linear),
    "linear in 40 pieces": Shape(in_pieces),
    "cosine": Shape(cosine),
    "exponential, 1 decade": Shape(exponential(1.0)),
    "exponential, 2 decades": Shape(exponential(2.0)),
    "constant, noise falls": Shape(constant, falling_noise),
}


def spectra() -> dict[str, Array]:
    """Eigenvalues by name, D of them, of sum 1."""
    k = np.arange(1, D + 1)
    shapes = {
        "flat": np.ones(D),
        "one over k": 1.0 / k,
        "geometric to 1e-4": np.geomspace(1.0, 1e-4, D),
        "half zero": (k <= D // 2).astype(float),
    }
    return {name: values / values.sum() for name, values in shapes.items()}


@dataclass(frozen=True)
class Calibrated:
    """Step sizes of sum 1, the noise on the gradient, and how many steps at the end have no data."""

    sizes: Array
    noise: Array
    cooldown: int

    @property
    def longest(self) -> float:
        """The longest path with which no step expands."""
        return STEEPEST / float(self.sizes.max())

    def risks(self, eigenvalues: Array, paths: Array) -> Array:
        """The risk after training along each of the paths."""
        bias = np.ones((paths.size, eigenvalues.size))
        variance = np.zeros_like(bias)
        for k, (size, noise) in enumerate(zip(self.sizes, self.noise, strict=True)):
            step = size * paths[:, None]
            if k < self.sizes.size - self.cooldown:
                factor = 1.0 - step * eigenvalues
                bias *= factor
                variance *= factor**2
            variance += (step * noise) ** 2
        return np.asarray((bias**2 + variance) @ eigenvalues / 2.0)

    def left(self, damping: float) -> float:
        """The variance of the noise on a path of length 1, in a direction of this curvature."""
        with_data = np.arange(self.sizes.size) < self.sizes.size - self.cooldown
        factors = np.where(with_data, 1.0 - self.sizes * damping, 1.0)
        after = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
        return float(np.sum((self.sizes * self.noise * after) ** 2))


def calibrated(
    shape: Shape, batches: pabi.FullBatch | pabi.ShuffleOnce, cooldown: int
) -> Calibrated:
    """The least noise of the shape with which a run meets the target."""
    t = (np.arange(STEPS + cooldown) + 0.5) / (STEPS + cooldown)
    sizes = shape.step(t)
    run = pabi.NoisySGD(
        pabi.Loss.convex(smoothness=1.0, gradient_bound=1.0),
        n=N,
        batches=batches,
        steps=STEPS + cooldown,
        step_size=STEEPEST * sizes / sizes.max(),
        noise_std=shape.noise(t),
        cooldown_steps=cooldown,
        adjacency="zero_out",
    )
    _, noise = pabi.calibrate(run, EPSILON, DELTA).schedule(0, t.size)
    return Calibrated(sizes / sizes.sum(), noise, cooldown)


def even(schedule: Calibrated, first: Calibrated) -> str:
    """The λS from which on `schedule` leaves less noise than `first`; a dash if there is none."""
    differences = [schedule.left(x) - first.left(x) for x in (0.01, 30.0)]
    if not differences[0] > 0.0 > differences[1]:
        return "–"
    root = brentq(lambda x: schedule.left(x) - first.left(x), 0.01, 30.0)
    return plain(root, decimals=2)


def row(schedule: Calibrated, first: Calibrated, units: dict[str, float]) -> list[str]:
    """Of noise where nothing damps it, and of risks over `units`: the least risks of the first row."""
    paths = PATHS[schedule.longest >= PATHS]
    cells = [plain(schedule.left(0.0) / first.left(0.0), decimals=2), even(schedule, first)]
    for name, eigenvalues in spectra().items():
        risks = schedule.risks(eigenvalues, paths)
        best = int(np.argmin(risks))
        unit = units.setdefault(name, float(risks[best]))
        mark = "*" if best == paths.size - 1 else ""
        least = plain(risks[best] / unit, decimals=2)
        cells.append(f"{least} ({plain(paths[best], decimals=0)}{mark})")
        common = float(schedule.risks(eigenvalues, np.array([COMMON]))[0])
        cells.append(plain(common / unit, decimals=2))
    return cells


def part(
    batches: pabi.FullBatch | pabi.ShuffleOnce, cooldowns: tuple[int, ...]
) -> Iterator[list[str]]:
    """All shapes with all cool-downs; everything is over what the first row has."""
    units: dict[str, float] = {}
    first = calibrated(SHAPES["constant"], batches, cooldowns[0])
    for cooldown in cooldowns:
        epochs = plain(cooldown / PER_EPOCH)
        for name, shape in SHAPES.items():
            yield [name, epochs, *row(calibrated(shape, batches, cooldown), first, units)]


# Logistic regression.


def problem(d: int, spectrum: Array, seed: int) -> tuple[Array, Array, Array]:
    """Rows of norm 1, their probabilities and their labels: N to train on, as many to test on."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2 * N, d)) * np.sqrt(spectrum)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = rng.normal(size=d) / np.sqrt(spectrum)
    logits = rows @ weights
    p = 1.0 / (1.0 + np.exp(-logits * 3.0 / np.std(logits)))
    return rows, p, (rng.random(2 * N) < p).astype(int)


def loss_of_accuracy(model: PrivateLogisticRegression, rows: Array, p: Array) -> float:
    """By how many points its accuracy is below the best one there is."""
    right = np.where(model.predict(rows) == 1, p, 1.0 - p)
    return 100.0 * float(np.mean(np.maximum(p, 1.0 - p) - right))


def trained(
    data: tuple[Array, Array, Array], epsilon: float, shape: Shape
) -> PrivateLogisticRegression:
    """The estimator on the path of the default rule, without preconditioning, with these step sizes."""
    path = 0.6 * N * budget(epsilon, DELTA) / 0.5
    per_epoch = max(20, math.ceil(path * 0.25 * 2.6 / STEEPEST / EPOCHS))
    size = math.ceil(N / per_epoch)
    per_epoch = math.ceil(N / size)
    steps = EPOCHS * per_epoch + math.ceil(per_epoch / 2)
    sizes = shape.step((np.arange(steps) + 0.5) / steps)
    sizes *= path / sizes.sum()
    model = PrivateLogisticRegression(
        epsilon=epsilon,
        delta=DELTA,
        classes=[0, 1],
        feature_norm=1.0,
        fit_intercept=False,
        precondition=None,
        clip_norm=0.5,
        adjacency="zero_out",
        batches=pabi.ShuffleOnce(size),
        epochs=EPOCHS,
        cooldown_epochs=0.5,
        step_size=lambda k: float(sizes[k]),
    )
    rows, _, labels = data
    return model.fit(rows[:N], labels[:N])


def classifiers() -> Table:
    table = Table(
        title=f"Logistic regression, n = {N:,}: points of accuracy lost, mean ± standard error of 8",
        caption="λS: the mean curvature times the path. The last two are differences to constant steps.",
    )
    for column in ("columns", "ε", "λS", "constant", "linear", "exponential, 1 decade"):
        table.add_column(column)
    shapes = [SHAPES[name] for name in ("constant", "linear", "exponential, 1 decade")]
    for d, epsilon, name in (
        (400, 1.0, "flat"),
        (100, 0.25, "flat"),
        (200, 1.0, "flat"),
        (100, 1.0, "flat"),
        (100, 1.0, "one over k"),
        (20, 1.0, "flat"),
    ):
        spectrum = np.ones(d) if name == "flat" else 1.0 / np.arange(1, d + 1)
        lost, curvature = [], []
        for seed in range(8):
            data = rows, p, _ = problem(d, spectrum, seed)
            models = [trained(data, epsilon, shape) for shape in shapes]
            lost.append([loss_of_accuracy(model, rows[N:], p[N:]) for model in models])
            curvature.append(float(np.mean(p * (1.0 - p))) / d)
        values = np.array(lost)
        differences = values[:, 1:] - values[:, :1]
        shown = np.column_stack([values[:, 0], differences])
        means, errors = shown.mean(axis=0), shown.std(axis=0, ddof=1) / math.sqrt(8)
        damping = 0.6 * N * budget(epsilon, DELTA) / 0.5 * float(np.mean(curvature))
        table.add_row(
            f"{d}, {name}",
            exact(epsilon),
            plain(damping, decimals=1),
            *(
                f"{plain(m, decimals=2)} ± {plain(e, decimals=2)}"
                for m, e in zip(means, errors, strict=True)
            ),
        )
    return table


def quadratics() -> Table:
    table = Table(
        title=f"Quadratics, ε = {exact(EPSILON)}, δ = 1e-5: all over the first row of the part",
        caption="In brackets the best path; * where steps would expand on a longer one. "
        f"@: on the path {plain(COMMON)}. Noise: its variance where nothing is damped. Even: at this λS.",
    )
    for column in (
        "step sizes",
        "cool-down",
        "noise",
        "even",
        *(c for name in spectra() for c in (name, "@")),
    ):
        table.add_column(column)
    for title, batches, cooldowns in (
        ("Full batches", pabi.FullBatch(), (0,)),
        ("One secret shuffle", pabi.ShuffleOnce(N // PER_EPOCH), (PER_EPOCH // 2, PER_EPOCH, 0)),
    ):
        table.add_section()
        table.add_row(title)
        for cells in part(batches, cooldowns):
            table.add_row(*cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", action="store_true", help="train logistic regression")
    table = classifiers() if parser.parse_args().classifier else quadratics()
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
