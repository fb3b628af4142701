"""Private optimisation: excess risk measured on data, beside the bounds that were planned.

    python benchmarks/erm.py [--draws N] [--figures DIR]

Logistic loss on five columns of the breast-cancer data and squared loss with clipped residuals on five of
the diabetes data (both of scikit-learn), rows scaled to norm at most 1, parameters in the ball of radius
2; and a loss of many wells in two dimensions. Mechanisms are drawn from exactly; averages of paths are of
chains of fine steps, whose own bound is shown. The excess is over the least mean loss on the ball. A few
minutes; it fails when a measured mean lies above its bound.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes

import pabi
from pabi import showing
from pabi.erm import Plan, packing_loss, plan
from pabi.literature import langevin_universality
from pabi.sampling import erm_algorithms, erm_bounds

Array = np.ndarray
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA, RADIUS, P, L2 = 1e-6, 2.0, 5, 0.2
SEED = 20_240_501


@dataclass
class Data:
    """A mean loss with its gradient, 1-Lipschitz for every record, and its curvature's bound."""

    name: str
    x: Array
    y: Array
    smoothness: float
    value: Callable[[Array, Array], Array] = field(repr=False)
    slope: Callable[[Array, Array], Array] = field(repr=False)

    def mean(self, points: Array, l2: float = 0.0) -> Array:
        """(k,) at (k, p) points, 2000 at once."""
        parts = np.array_split(points, max(1, len(points) // 2000))
        found = [self.value(part @ self.x.T, self.y).mean(axis=1) for part in parts]
        return np.concatenate(found) + 0.5 * l2 * np.einsum("ij,ij->i", points, points)

    def gradient(self, points: Array) -> Array:
        return np.asarray(self.slope(points @ self.x.T, self.y) @ self.x / len(self.x))

    def least(self, l2: float = 0.0) -> float:
        inside = {"type": "ineq", "fun": lambda t: RADIUS**2 - t @ t}
        start = np.full(P, 0.1)
        solved = minimize(
            lambda t: self.mean(t[None], l2)[0],
            start,
            jac=lambda t: self.gradient(t[None])[0] + l2 * t,
            constraints=inside,
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        return float(solved.fun)


def standardised(x: Array) -> Array:
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.asarray(x / np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None])


def data_sets() -> list[Data]:
    cancer, diabetes = load_breast_cancer(), load_diabetes()
    y = (diabetes.target - diabetes.target.mean()) / diabetes.target.std()
    return [
        Data(
            "logistic loss, breast cancer",
            standardised(cancer.data[:, :P]),
            2.0 * cancer.target - 1.0,
            0.25,
            lambda z, y: np.logaddexp(0.0, -z * y),
            lambda z, y: -y / (1.0 + np.exp(z * y)),
        ),
        Data(
            "squared loss, residuals clipped, diabetes",
            standardised(diabetes.data[:, [2, 3, 4, 8, 9]]),
            y,
            1.0,
            # ½r², continued linearly where |r| > 1
            lambda z, y: np.where(np.abs(z - y) < 1.0, 0.5 * (z - y) ** 2, np.abs(z - y) - 0.5),
            lambda z, y: np.clip(z - y, -1.0, 1.0),
        ),
    ]


@dataclass
class Row:
    """One plan, and what was measured of it."""

    epsilon: float
    plan: Plan
    bound: float
    mean: float
    error: float
    how: str


def exact(data: Data, made: Plan, l2: float, draws: int) -> Row:
    """Of exact draws of the mechanism."""
    drawn = pabi.sampling.gibbs_rejection(
        made.run,
        lambda t: data.mean(t, l2),
        random_state=SEED,
        draws=draws,
        most_evaluations=10**10,
        delta=made.delta,
    )
    excess = data.mean(drawn.values[0], l2) - data.least(l2)
    how = f"{draws} exact draws"
    return _row(made, made.risk_bound, excess, how)


def averaged(data: Data, made: Plan, draws: int) -> Row:
    """Of averages of independent chains' paths."""
    run = made.run
    steps = max(1000, erm_algorithms.enough_steps(made))
    ball = pabi.prox.ball(RADIUS)
    one = {
        "inverse_temperature": run.inverse_temperature,
        "step_size": run.time / steps,
        "steps": steps,
        "prox": ball,
        "release": "path",
    }
    excess, bound = [], math.inf
    least = data.least()
    together = max(1, min(draws, 20_000_000 // (steps * P)))
    for first in range(0, draws, together):
        chain = pabi.LangevinChain(run.loss, len(data.x), chains=together, **one)
        paths = pabi.sampling.langevin(chain, data.gradient, np.zeros(P), random_state=SEED + first)
        for path in paths.values:
            point, found = erm_algorithms.of_path(made, chain, path)
            assert found is not None
            bound = found
            excess.append(data.mean(point[None])[0] - least)
    return _row(made, bound, np.array(excess[:draws]), f"{draws} chains, {steps} steps")


def _row(made: Plan, bound: float, excess: Array, how: str) -> Row:
    error = float(excess.std(ddof=1) / math.sqrt(len(excess)))
    return Row(made.epsilon, made, bound, float(excess.mean()), error, how)


def measured(data: Data, draws: int) -> dict[str, list[Row]]:
    common: dict[str, Any] = {
        "n": len(data.x),
        "dimension": P,
        "lipschitz": 1.0,
        "diameter": 2.0 * RADIUS,
        "radius": RADIUS,
        "smoothness": data.smoothness,
    }
    strong = {
        **common,
        "lipschitz": 1.0 + L2 * RADIUS,
        "smoothness": data.smoothness + L2,
        "strong_convexity": L2,
    }
    rows: dict[str, list[Row]] = {}
    for epsilon in EPSILONS:
        pure = plan("erm", "convex", epsilon=epsilon, **common)
        rows.setdefault("ε-DP, exponential mechanism", []).append(exact(data, pure, 0.0, draws))
        path = plan(
            "erm", "convex", epsilon=epsilon, delta=DELTA, algorithm="path_average", **common
        )
        rows.setdefault("(ε, δ)-DP, average of a path", []).append(averaged(data, path, draws))
        sharp = plan(
            "erm",
            "strongly_convex",
            epsilon=epsilon,
            delta=DELTA,
            algorithm="exponential_mechanism",
            **strong,
        )
        name = f"(ε, δ)-DP, l2 = {L2}, one Gibbs draw"
        rows.setdefault(name, []).append(exact(data, sharp, L2, draws))
    return rows


def slope(rows: list[Row], of: Callable[[Row], float]) -> float:
    """Of the logarithm against that of ε, least squares."""
    return float(np.polyfit(np.log([r.epsilon for r in rows]), np.log([of(r) for r in rows]), 1)[0])


def save(name: str, folder: Path, draw: Callable[..., Any], *given: Any) -> None:
    """What `draw(*given)` draws."""
    with pabi.plotting.style("light"):
        figure = draw(*given)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": "pabi"})
        plt.close(figure)


def picture(found: dict[str, dict[str, list[Row]]]) -> Any:
    colours = pabi.plotting.palette()
    figure, axes = plt.subplots(1, 2, figsize=(11, 5.2), sharey=True)
    for ax, (name, by_plan) in zip(axes, found.items(), strict=True):
        for (label, rows), colour, marker in zip(
            by_plan.items(), colours.cycle, "os^", strict=False
        ):
            e = [r.epsilon for r in rows]
            dashed = {"color": colour, "linestyle": colours.lines[1], "linewidth": 1.8}
            ax.plot(e, [r.bound for r in rows], **dashed)
            ax.errorbar(
                e,
                [r.mean for r in rows],
                yerr=[2.0 * r.error for r in rows],
                fmt=f"{marker}-",
                color=colour,
                label=label,
                capsize=3,
                markersize=6,
            )
        ax.plot(
            [], [], color=colours.neutral, linestyle=colours.lines[1], label="the bound of each"
        )
        ax.set(xscale="log", yscale="log", xlabel="ε", title=name)
        ax.set_xticks(EPSILONS, [showing.exact(e) for e in EPSILONS])
        ax.minorticks_off()
        ax.grid()
    axes[0].set_ylabel("expected excess empirical risk")
    axes[0].legend(loc="lower left")
    return figure


# Many wells.


def wells(draws: int) -> list[tuple[float, float, float, float, float, float]]:
    """(ε, bound, free energy, exact mean by quadrature, measured mean, its error), n = 500, p = 2."""
    rng = np.random.default_rng(SEED)
    n, s = 500, 21
    bits = (rng.random((n, s)) < rng.uniform(0.1, 0.6, s)).astype(float)
    problem = packing_loss(bits, dimension=2)
    found = []
    for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0):
        made = plan(
            "erm",
            "nonconvex",
            n=n,
            dimension=2,
            lipschitz=1.0,
            diameter=2.0,
            epsilon=epsilon,
        )
        kappa = made.run.kappa
        truth = problem.mean_excess(kappa)
        drawn = pabi.sampling.gibbs_rejection(
            made.run, problem.value, random_state=SEED, draws=draws, most_evaluations=10**10
        )
        values = problem.value(drawn.values[0]) - problem.minimum
        free = erm_bounds.free_energy(2, kappa * 2.0) / kappa
        error = float(values.std(ddof=1) / math.sqrt(draws))
        found.append((epsilon, made.risk_bound, free, truth, float(values.mean()), error))
    return found


def picture_of_wells(found: list[tuple[float, ...]]) -> Any:
    e, bound, free, truth, mean, error = (np.array(c) for c in zip(*found, strict=True))
    colours = pabi.plotting.palette()
    figure, ax = plt.subplots()
    for values, colour, line, label in (
        (free, colours.neutral, 2, "free energy (Theorem D.5 with constants)"),
        (bound, colours.cycle[0], 1, "the plan's bound (cone with a plateau)"),
        (truth, colours.cycle[1], 0, "exact, by quadrature"),
    ):
        ax.plot(e, values, color=colour, linestyle=colours.lines[line], label=label)
    measured = {"yerr": 2.0 * error, "color": colours.cycle[1], "capsize": 3}
    ax.errorbar(e, mean, fmt="o", label="measured, exact draws", **measured)
    ax.set(xscale="log", yscale="log", xlabel="ε", ylabel="expected excess empirical risk")
    ax.set_title("21 wells in the unit disc, n = 500, ε-DP")
    ax.set_xticks(e, [showing.exact(x) for x in e])
    ax.minorticks_off()
    ax.grid()
    ax.legend(loc="lower left")
    return figure


# The bounds themselves.


def planned() -> tuple[Array, dict[str, list[float]]]:
    """Against p: the printed constant, and what is planned."""
    n, epsilon = 100_000, 1.0
    dimensions = np.unique(np.geomspace(1, 10_000, 33).astype(int))
    common: dict[str, Any] = {
        "n": n,
        "lipschitz": 1.0,
        "diameter": 2.0,
        "radius": 1.0,
        "epsilon": epsilon,
    }
    curves: dict[str, list[float]] = {}
    for p in dimensions.tolist():
        printed = langevin_universality.theorem_f_1(
            L=1.0, n=n, dimension=p, diameter=2.0, epsilon=epsilon, delta=DELTA
        )
        curves.setdefault("last point, as printed (35)", []).append(printed.value)
        pure = plan("erm", "convex", dimension=p, **common)
        curves.setdefault("ε-DP, exponential mechanism", []).append(pure.risk_bound)
        for name in ("exponential_mechanism", "last_point", "path_average"):
            made = plan("erm", "convex", dimension=p, delta=DELTA, algorithm=name, **common)
            label = f"(ε, δ)-DP, {name.replace('_', ' ')}"
            curves.setdefault(label, []).append(made.risk_bound)
    return dimensions, curves


def picture_of_bounds(dimensions: Array, curves: dict[str, list[float]]) -> Any:
    colours = pabi.plotting.palette()
    figure, ax = plt.subplots(figsize=(7.2, 5.2))
    looks = (
        *((colours.neutral, 2), (colours.cycle[0], 0), (colours.cycle[2], 3)),
        *((colours.cycle[1], 1), (colours.cycle[3], 4)),
    )
    for (label, values), (colour, line) in zip(curves.items(), looks, strict=True):
        ax.plot(dimensions, values, color=colour, linestyle=colours.lines[line], label=label)
    ax.set(xscale="log", yscale="log", xlabel="dimension p", ylabel="bound on the excess risk")
    ax.set_title("Convex, L = 1, unit ball, n = 10⁵, ε = 1, δ = 10⁻⁶")
    ax.grid()
    ax.legend(loc="upper left")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description="Excess risk, measured and bounded.")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument(
        "--figures", type=Path, default=Path(__file__).parent.parent / "docs" / "figures"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore", pabi.PrivacyWarning)  # fixed seeds
    console = Console(width=118)
    found = {}
    failed = []
    for data in data_sets():
        found[data.name] = measured(data, given.draws)
        table = Table(title=f"{data.name}: n = {len(data.x)}, p = {P}, δ = {showing.exact(DELTA)}")
        for heading in ("plan", "ε", "bound", "measured", "s.e.", "ratio", "how"):
            table.add_column(
                heading, justify="left" if heading in ("plan", "how") else "right", no_wrap=True
            )
        for label, rows in found[data.name].items():
            for r in rows:
                table.add_row(
                    label,
                    showing.exact(r.epsilon),
                    showing.shown(r.bound, 2),
                    showing.plain(r.mean, 2),
                    showing.plain(r.error, 2),
                    showing.shown(r.bound / r.mean, 2),
                    r.how,
                )
                if r.mean - 4.0 * r.error > r.bound:
                    failed.append((data.name, label, r.epsilon))
        console.print(table)
        for label, rows in found[data.name].items():
            proven, seen = slope(rows, lambda r: r.bound), slope(rows, lambda r: r.mean)
            said = f"{showing.plain(proven, decimals=2)} bounded, {showing.plain(seen, decimals=2)} measured"
            console.print(f"{label}: slope in ε {said}")
    save("erm-excess", given.figures, picture, found)
    rows = wells(given.draws)
    table = Table(title="21 wells in the unit disc, n = 500, p = 2, ε-DP, exact draws")
    for heading in ("ε", "bound", "free energy", "quadrature", "measured", "± s.e."):
        table.add_column(heading, justify="right")
    for row in rows:
        proven, seen = (
            (showing.shown(x, 3) for x in row[1:3]),
            (showing.plain(x, 3) for x in row[3:]),
        )
        table.add_row(showing.exact(row[0]), *proven, *seen)
        if row[3] > row[1] or row[4] - 4.0 * row[5] > row[1]:
            failed.append(("wells", "", row[0]))
    console.print(table)
    save("erm-wells", given.figures, picture_of_wells, rows)
    save("erm-bounds", given.figures, picture_of_bounds, *planned())
    if failed:
        raise SystemExit(f"measured above the bound: {failed}")


if __name__ == "__main__":
    main()
