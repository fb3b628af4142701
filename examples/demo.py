"""Which digit was written? pabi's untuned default beside DP-SGD at the same ε, on scikit-learn's digits.

Run `make demo`, or `python examples/demo.py`. Noise comes from the operating system, so accuracies differ a
little every time. DP-SGD is trained and accounted as libraries do it: Poisson batches, each record's
gradient clipped, every iterate charged. pabi itself calibrates and trains it, with a noise multiplier at
most 0.04 % above what dp-accounting asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import pabi
from pabi.learn import PrivateLogisticRegression, Records, SoftmaxGradients, bound_rows, train
from pabi.showing import exact, plain, shown, shown_down

DELTA, TRAININGS = 1e-5, 5
# DP-SGD's (step size, batch size, epochs, clipping norm) at each ε: the best and the twelfth of 24 on the
# test digits, from benchmarks/proving_ground/results/peers/digits.json.
SETTINGS = {
    0.25: ((8.0, 467, 20, 0.5), (8.0, 140, 50, 0.5)),
    0.5: ((4.0, 140, 20, 0.5), (4.0, 140, 20, 1.0)),
    1.0: ((4.0, 140, 20, 0.5), (8.0, 467, 20, 0.5)),
    2.0: ((4.0, 140, 50, 0.5), (8.0, 467, 50, 0.5)),
    4.0: ((8.0, 140, 50, 0.5), (16.0, 467, 20, 0.5)),
}
METHODS = (
    "pabi, untuned default",
    "DP-SGD, tuned in hindsight (the best of 24 settings)",
    "DP-SGD, the twelfth of the 24",
)
NOTES = """\
Mean ± standard error of five trainings. DP-SGD's settings were chosen on the test digits, at no charge to
its ε. pabi's follow from a rule that sees no data; digits are among the problems on which the rule's few
constants were set. Adjacency: zero_out, one record's part becomes zero; the counterpart of add/remove."""


def digits() -> tuple[np.ndarray, ...]:
    """Rows and labels, 1 400 to train on and 397 to test; the split is made without a look at them."""
    pixels, digit = load_digits(return_X_y=True)
    rows = bound_rows(pixels / 16.0, 1.0)  # pixels lie in 0..16; each row is brought to norm 1
    fit_on, test_on = np.split(np.random.default_rng(0).permutation(len(rows)), [1400])
    return rows[fit_on], digit[fit_on], rows[test_on], digit[test_on]


def default(epsilon: float, X: np.ndarray, y: np.ndarray) -> PrivateLogisticRegression:
    model = PrivateLogisticRegression(epsilon, DELTA, adjacency="zero_out", classes=range(10))
    return model.fit(X, y)


def dp_sgd(epsilon: float, settings: tuple, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(65, 10) weights, those of the constant last."""
    step_size, size, epochs, clip_norm = settings
    steps = {"batches": pabi.Poisson(size), "epochs": epochs, "step_size": step_size}
    clipped = {"clip_norm": clip_norm, "adjacency": "zero_out"}
    # Nothing is said of the loss, so that every iterate is charged.
    run = pabi.NoisySGD(pabi.Loss.unknown(), n=len(X), **steps, **clipped)
    gradients = SoftmaxGradients(Records(X, 1.0, intercept_scaling=1.0), y, classes=10)
    return train(pabi.calibrate(run, epsilon, DELTA), gradients, np.zeros(gradients.shape)).x


def compared(epsilon: float, data: tuple[np.ndarray, ...]) -> np.ndarray:
    """(3, 2): for each method the mean test accuracy and its standard error, in per cent."""
    (X, y, X_test, y_test), trainings = data, range(TRAININGS)
    shares = [[default(epsilon, X, y).score(X_test, y_test) for _ in trainings]]
    for settings in SETTINGS[epsilon]:
        weights = [dp_sgd(epsilon, settings, X, y) for _ in trainings]
        shares.append([np.mean(np.argmax(X_test @ w[:-1] + w[-1], 1) == y_test) for w in weights])
    return 100.0 * np.c_[np.mean(shares, 1), np.std(shares, 1, ddof=1) / TRAININGS**0.5]


def draw(points: np.ndarray, without: float, where: Path) -> None:
    with pabi.plotting.style() as colours:
        figure, ax = plt.subplots()
        for k, colour in enumerate((colours.ours, colours.other, colours.neutral)):
            look = {"color": colour, "linestyle": colours.lines[k], "marker": "os^"[k]}
            ax.errorbar(list(SETTINGS), *points[:, k].T, label=METHODS[k], capsize=4, **look)
        ax.axhline(without, color=colours.ink, linewidth=1.2, label="no privacy (scikit-learn)")
        ax.set(title="Handwritten digits at equal privacy", ylabel="test accuracy in %")
        ax.set(xscale="log", xlabel=f"ε at δ = {exact(DELTA)}")
        ax.set_xticks(list(SETTINGS), [exact(epsilon) for epsilon in SETTINGS])
        ax.minorticks_off()
        ax.legend(loc="lower right")
        figure.savefig(where, dpi=150)


def explain(model: PrivateLogisticRegression, say: Callable[..., None]) -> None:
    run, moments = model.run_.guarantee(DELTA), model.moments_.guarantee(DELTA)
    curves = moments.curve.compose(run.composition), model.guarantee_
    every, last = (shown(curve.epsilon(DELTA), decimals=2) for curve in curves)
    say(f"One model: ε = {every} if every iterate is charged, ε = {last} for the last one alone.")
    begin = time.perf_counter()
    verdict = pabi.verify(model.guarantee_)
    say(f"Checked in {plain(time.perf_counter() - begin, 1)} s: {verdict.reason}")
    say("It holds for you if you can stand behind these sentences:")
    say(*(f"  • {sentence}" for sentence in model.guarantee_.assumptions), sep="\n")


def main() -> None:
    say, data = Console(highlight=False, soft_wrap=True).print, digits()
    X, y, X_test, y_test = data
    without = 100.0 * LogisticRegression(C=100.0, max_iter=1000).fit(X, y).score(X_test, y_test)
    points = np.array([compared(e, data) for e in track(SETTINGS, "training", transient=True)])
    table = Table("ε", *METHODS, title=f"Which digit? Test accuracy in %, δ = {exact(DELTA)}")
    table.caption = f"Without privacy (scikit-learn): {shown_down(without, decimals=1)}"
    for epsilon, row in zip(SETTINGS, points, strict=True):
        cells = (f"{shown_down(mean, decimals=1)} ± {shown(se, decimals=1)}" for mean, se in row)
        table.add_row(exact(epsilon), *cells)
    draw(points, without, where := Path("demo.png").resolve())
    say(table, f"{NOTES}\nPicture: {where}\n", sep="\n")
    explain(default(1.0, X, y), say)


if __name__ == "__main__":
    main()
