"""Intervals from tempered draws and their coverage, and diagnostics of chains beside what was expected.

    OMP_NUM_THREADS=1 python benchmarks/posteriors.py [--repetitions 200]

First, logistic regression with a normal prior: every repetition draws coefficients from the prior, then
records, then k tempered posterior draws, and asks whether each coefficient lies in its interval of 95 %. The
recipe is that of docs, "Sample a posterior". Beside it the two ways to get it wrong: the tempered draws' own
spread, and the posterior's spread without that of the draws' centre. Then settings in which the recipe
fails. Last, R̂ and effective draws of paths on three posteriors, beside `pabi.mixing.outlook`. Ten minutes.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

import pabi
from pabi.mixing import outlook
from pabi.sampling import Draws, from_log_density, langevin, mean_gradient
from pabi.showing import plain, shown, shown_down

RECORDS, DIMENSION, PRECISION = 1_000, 3, 10.0
DELTA, LEVEL = 1e-5, 0.95


def summary(draws: Draws, discard: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """(mean, standard deviation and number of independent draws of each coordinate; β/n)."""
    values = draws.values[:, discard:]
    flat = values.reshape(-1, values.shape[2])
    k = np.full(values.shape[2], float(len(flat)))
    if draws.release == "path":
        k = draws.diagnostics(discard).ess_bulk
    deviation = flat.std(axis=0) * np.sqrt(k / (k - 1.0))
    return flat.mean(axis=0), deviation, k, draws.chain.inverse_temperature / draws.chain.n


def half_widths(draws: Draws, discard: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """(middle, half the width) of intervals of each coordinate: by the recipe, with the tempered draws taken
    for the posterior's, and with their mean taken for the posterior's."""
    mean, deviation, k, share = summary(draws, discard)
    t = stats.t.ppf(0.5 + LEVEL / 2.0, k - 1.0) * deviation
    return mean, [t * np.sqrt(1.0 / k + share), t * np.sqrt(1.0 / k + 1.0), t * np.sqrt(share)]


@dataclass(frozen=True)
class Setting:
    """What is drawn, and from which data."""

    name: str
    chain: pabi.LangevinChain
    discard: int = 0
    prior_scale: float = 1.0  # of the coefficients, in the prior's standard deviations


def described(epsilon: float | None, chains: int, steps: int, release: str) -> pabi.LangevinChain:
    """The coldest chain with gradient steps of length 1 that costs `epsilon`; None: the posterior's own."""
    chain = pabi.LangevinChain(
        pabi.Loss.logistic(feature_norm=1.0, l2=PRECISION / RECORDS),
        n=RECORDS,
        inverse_temperature=RECORDS,
        step_size=1.0 / RECORDS,
        steps=steps,
        chains=chains,
        release=release,
        prox=pabi.prox.ball(4.0),
    )
    # A smaller β makes shorter gradient steps; they are lengthened again.
    for _ in range(4 if epsilon is not None else 0):
        chain = replace(chain, step_size=1.0 / chain.inverse_temperature)
        chain = pabi.calibrate(chain, epsilon=epsilon, delta=DELTA)
    return chain


def records(
    rng: np.random.Generator, prior_scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(coefficients, rows, labels)."""
    truth = rng.normal(scale=prior_scale * PRECISION**-0.5, size=DIMENSION)
    X = rng.uniform(-0.5, 0.5, size=(RECORDS, DIMENSION))
    return truth, X, np.where(X @ truth + rng.logistic(size=RECORDS) > 0.0, 1, -1)


def coverage(table: Table, setting: Setting, repetitions: int) -> None:
    rng = np.random.default_rng(1)
    hits, widths = np.zeros(3), np.zeros(3)
    for _ in range(repetitions):
        truth, X, y = records(rng, setting.prior_scale)
        gradient = mean_gradient(X, y, setting.chain.loss)
        draws = langevin(setting.chain, gradient, np.zeros(DIMENSION), random_state=rng)
        middle, halves = half_widths(draws, setting.discard)
        hits += [np.mean(np.abs(truth - middle) <= half) for half in halves]
        widths += [np.mean(half) for half in halves]
    cells = [
        f"{plain(hit / repetitions, decimals=1, percent=True)} ({plain(width / repetitions, 2)})"
        for hit, width in zip(hits, widths, strict=True)
    ]
    cost = setting.chain.guarantee(DELTA).epsilon(DELTA)
    share = setting.chain.inverse_temperature / RECORDS
    table.add_row(setting.name, shown(cost, 3), plain(share, 2), *cells)


def settings() -> list[Setting]:
    return [
        Setting("10 draws of the posterior", described(None, 10, 600, "last")),
        Setting("10 draws", described(3.0, 10, 600, "last")),
        Setting("10 draws", described(1.0, 10, 600, "last")),
        Setting("4 draws", described(1.0, 4, 600, "last")),
        Setting("a path of 3,000 steps", described(3.0, 1, 3_000, "path"), 500),
        Setting("a path of 1,000 steps", described(3.0, 1, 1_000, "path"), 500),
        Setting("10 draws after 20 steps", described(3.0, 10, 20, "last")),
        Setting(
            "10 draws, the prior 4 times too narrow",
            described(3.0, 10, 600, "last"),
            prior_scale=4.0,
        ),
    ]


def three() -> list[tuple[str, pabi.LangevinChain, object, float]]:
    """(name, chain, gradient, least eigenvalue of the Hessian on the data) of three posteriors."""
    rng = np.random.default_rng(2)
    truth, X, y = records(rng, 1.0)
    logistic = pabi.Loss.logistic(feature_norm=1.0, l2=PRECISION / RECORDS)
    huber = pabi.Loss.huber(feature_norm=1.0, threshold=1.0, l2=PRECISION / RECORDS)
    common = {
        "n": RECORDS,
        "inverse_temperature": RECORDS,
        "steps": 4_000,
        "chains": 4,
        "release": "path",
        "prox": pabi.prox.ball(4.0),
    }
    first = pabi.LangevinChain(logistic, step_size=1.0 / RECORDS, **common)
    second = pabi.LangevinChain(huber, step_size=0.3 / RECORDS, **common)
    p = 1.0 / (1.0 + np.exp(-X @ truth))
    of_logistic = (X * (p * (1.0 - p))[:, None]).T @ X / RECORDS
    targets = X @ truth + rng.normal(scale=0.5, size=RECORDS)
    inside = np.abs(targets - X @ truth) <= 1.0
    of_huber = X[inside].T @ X[inside] / RECORDS
    values = rng.logistic(loc=0.3, size=RECORDS)
    location = from_log_density(
        lambda x, rows: np.tanh((values[rows, None] - x) / 2.0),
        lambda x: -PRECISION * x,
        n=RECORDS,
        gradient_bound=1.0,
        curvature=(0.0, 0.5),
        prior_curvature=(PRECISION, PRECISION),
        step_size=0.6 / RECORDS,
        steps=4_000,
        prox=pabi.prox.ball(4.0),
    )
    of_location = np.mean(0.5 / np.cosh((values - 0.3) / 2.0) ** 2)
    third = replace(location.chain, chains=4, release="path")

    def least(hessian: np.ndarray) -> float:
        return float(np.linalg.eigvalsh(hessian)[0]) + PRECISION / RECORDS

    return [
        ("logistic regression", first, mean_gradient(X, y, logistic), least(of_logistic)),
        ("Huber regression", second, mean_gradient(X, targets, huber), least(of_huber)),
        ("a centre, logistic errors", third, location.gradient, of_location + PRECISION / RECORDS),
    ]


def diagnosed(table: Table) -> None:
    for name, chain, gradient, curvature in three():
        d = 1 if "centre" in name else DIMENSION
        start = np.zeros(d)
        known, public = outlook(chain, start), outlook(chain, start, curvature=curvature)
        draws = langevin(chain, gradient, start, random_state=0)
        warm = known.steps
        found, kept = draws.diagnostics(discard=warm), chain.chains * (1.0 - warm / chain.steps)
        table.add_row(
            name,
            f"{known.steps:,}",
            f"{public.steps:,}",
            shown(np.max(found.r_hat), decimals=3),
            f"{plain(kept * known.effective, 2)}",
            f"{plain(kept * public.effective, 2)}",
            shown_down(np.min(found.ess_bulk), decimals=0),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=200)
    repetitions = parser.parse_args().repetitions
    warnings.simplefilter("ignore", pabi.PrivacyWarning)
    warnings.simplefilter("ignore", pabi.SamplingWarning)
    console = Console(highlight=False, width=150)
    table = Table(title=f"Coverage of 95 % (half the width), {repetitions} repetitions")
    for column in ("released", "ε", "β/n", "recipe", "draws' own spread", "centre as exact"):
        table.add_column(column)
    for setting in settings():
        coverage(table, setting, repetitions)
    console.print(table)
    table = Table(
        title="Four paths of 4,000 steps, after the steps that the known curvature asks for"
    )
    for column in (
        "posterior",
        "steps, known",
        "steps, on the data",
        "R̂ ≤",
        "effective, known",
        "effective, on the data",
        "effective, measured",
    ):
        table.add_column(column)
    diagnosed(table)
    console.print(table)


if __name__ == "__main__":
    main()
