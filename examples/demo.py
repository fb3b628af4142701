"""Private logistic regression on real data: what it costs when only the last iterate is released.

Tells odd from even handwritten digits (scikit-learn's copy of the UCI set: 1 797 images of 8×8
pixels). The `NoisySGD` object that is accounted is the object that is trained, with noise from the
operating system's entropy, so the accuracies differ a little every time. Run `make demo`, or

    python examples/demo.py

The digits are a public benchmark, and the settings were tried out on it. On data of your own choose
them beforehand, or from public data: a search over settings is a release for each of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import pabi
from pabi.learn import LogisticGradients, bound_rows, train
from pabi.showing import accuracy, exact, plain, shown

DELTA = 1e-5
FEATURE_NORM = 1.0
L2 = 0.001


def digits() -> tuple[np.ndarray, np.ndarray]:
    """(1797, 64) features of norm at most 1 and (1797,) labels, 1 for odd digits.

    A pixel lies in 0..16 by definition, so centring at 8 and dividing by 8 needs no look at the
    data, and each row is brought to norm 1 by itself. Corners are always blank and thus act as an
    intercept.
    """
    pixels, digit = load_digits(return_X_y=True)
    return bound_rows((pixels - 8.0) / 8.0, FEATURE_NORM), digit % 2


def main() -> None:
    features, odd = digits()
    # Not stratified: which records are trained on, and in which batch, must not depend on the data.
    X, X_test, y, y_test = train_test_split(features, odd, train_size=1400, random_state=0)

    run = pabi.NoisySGD(
        pabi.Loss.logistic(feature_norm=FEATURE_NORM, l2=L2),
        n=len(X),
        batches=pabi.Cyclic(size=35),
        epochs=40,
        step_size=0.5,
        noise_std=0.1,  # a noise multiplier of 0.1·35/1 = 3.5
    )
    shuffled = replace(run, batches=pabi.ShuffleOnce(size=35))
    cooled = replace(shuffled, cooldown_steps=shuffled.steps_per_epoch)
    runs = {
        "fixed order (Cyclic)": run,
        "secret shuffle (ShuffleOnce)": shuffled,
        "the same, cool-down epoch": cooled,
    }

    sampling_error = (0.9 * 0.1 / len(y_test)) ** 0.5

    def right(theta: np.ndarray) -> str:
        """The share of test digits, as far as it is known."""
        return accuracy(np.mean((X_test @ theta > 0.0) == (y_test == 1)), sampling_error)

    table = Table(
        title=f"Odd or even digit? Logistic regression on {len(X)} records, {run.epochs} epochs of "
        f"{run.steps_per_epoch} batches, δ = {exact(DELTA)}"
    )
    table.add_column("run")
    table.add_column("test\naccuracy", justify="right")
    table.add_column("ε, charging\nevery iterate", justify="right")
    table.add_column("ε by pabi, only\nthe last released", justify="right", style="bold green")

    gradients = LogisticGradients(X, y)
    guarantees = {}
    for name, described in runs.items():
        result = train(described, gradients, np.zeros(X.shape[1]), delta=DELTA)
        guarantee = guarantees[name] = result.guarantee
        assert guarantee.composition is not None
        table.add_row(
            name,
            right(result.x),
            shown(guarantee.composition.epsilon(DELTA), decimals=2),
            shown(guarantee.epsilon(DELTA), decimals=2),
        )
    table.add_section()
    open_model = LogisticRegression(C=1.0 / (L2 * len(X)), fit_intercept=False, max_iter=1000)
    open_model.fit(X, y)
    without = accuracy(open_model.score(X_test, y_test), sampling_error)
    table.add_row("no privacy (scikit-learn)", without, "∞", "∞")

    console = Console(highlight=False)
    console.print(table)
    share = float(np.mean(y_test == 1))
    both = pabi.compose(*list(guarantees.values())[:2]).epsilon(DELTA)
    console.print(
        f"Both ε of a line are proven for the same trained model. Accuracies are of one run each, "
        f"on {len(y_test)} held-out records (sampling error about "
        f"{plain(sampling_error, 2, percent=True)}; always guessing the larger class gets "
        f"{accuracy(max(share, 1.0 - share), sampling_error)}), which no guarantee here covers. "
        f"Each line is a release of its own: publishing the first two costs "
        f"ε = {shown(both, decimals=2)} together.\n"
    )

    guarantee = guarantees["secret shuffle (ShuffleOnce)"]
    where = Path("demo.png").resolve()
    with pabi.plotting.style():
        guarantee.plot()[0].figure.savefig(where, dpi=150)
    console.print(f"Plot of the second line's guarantee: {where}\n", soft_wrap=True)

    console.print("The second line holds for you if you can stand behind these sentences:")
    for sentence in guarantee.assumptions:
        console.print(f"  • {sentence}")


if __name__ == "__main__":
    main()
