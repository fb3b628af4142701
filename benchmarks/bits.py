"""What it costs that guarantees are true of the program: noise, exponentials, trainings, ε.

    OMP_NUM_THREADS=1 python benchmarks/bits.py

Times are the least of several, in seconds; "before" draws normal numbers and takes numpy's exponential.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from unittest import mock

import numpy as np

from pabi import Cyclic, Loss, NoisySGD, ShuffleOnce, learn
from pabi.describe import scalar_losses, vector_losses
from pabi.execute import engine
from pabi.execute.noise import StepNoise
from pabi.numbers.exponential import exponential
from pabi.showing import plain, shown

RNG = np.random.default_rng(0)


def least(call: Callable[[], object], times: int = 5) -> float:
    """The least time of several."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        took.append(time.perf_counter() - begin)
    return min(took)


class Ordinary(StepNoise):
    """Noise in doubles."""

    def __call__(self, sums, generator):
        return sums + self.noise_std * generator.standard_normal(sums.shape)


def parts() -> None:
    """A million normal numbers, and exponentials."""
    noise, sums = StepNoise(1.0, 1.0, 10**6), np.zeros(10**6)
    print(f"10⁶ numbers of noise    {plain(least(lambda: noise(sums, RNG)), 3)}, ", end="")
    print(f"numpy's {plain(least(lambda: sums + RNG.standard_normal(sums.shape)), 3)}")
    z = RNG.normal(size=10**6)
    print(f"10⁶ exponentials        {plain(least(lambda: exponential(z)), 3)}, ", end="")
    print(f"numpy's {plain(least(lambda: np.exp(z)), 3)}")


def trainings() -> None:
    """Six epochs over 60 000 rows of 784 numbers in float32, ten classes, batches of 1 500."""
    X, y = RNG.random((60_000, 784), dtype=np.float32), RNG.integers(0, 10, 60_000)
    rows = learn.Records(X, 1.0, intercept_scaling=0.5)
    gradients = learn.SoftmaxGradients(rows, y, 10)

    def products() -> None:
        theta = np.zeros((784, 10), np.float32)
        for first in range(0, 60_000, 1_500):
            part = X[first : first + 1_500]
            part.T @ (part @ theta)

    print(f"bare float32 products   {plain(6.0 * least(products), 3)}")
    for batches in (Cyclic(1_500), ShuffleOnce(1_500)):
        run = NoisySGD(
            *(Loss.softmax(1.1181), 60_000, batches),
            **{"epochs": 6, "step_size": 2.0, "noise_std": 0.006, "clip_norm": 1.0},
            clipping="residual",
        )

        def train(run: NoisySGD = run) -> learn.Trained:
            return learn.train(run, gradients, np.zeros((785, 10)), 0)

        with (
            mock.patch.object(engine, "StepNoise", Ordinary),
            mock.patch.object(vector_losses, "exponential", np.exp),
            mock.patch.object(scalar_losses, "exponential", np.exp),
        ):
            before = least(train)
        print(f"training, {batches.kind:13s} {plain(least(train), 3)}, before {plain(before, 3)}")
        trained, stated = train(), run.guarantee()
        exact = trained.run.rounding, float(trained.run.noise_std) / 0.006 - 1.0
        print(
            f"  rounding {plain(exact[0], 2)}, noise raised by {plain(exact[1], 2)}, "
            f"ε {shown(stated.epsilon(1e-5), 7)}"
        )


def fits() -> None:
    """Tables of the sizes people have."""
    for n, d in ((1_000, 10), (10_000, 20), (100_000, 50)):
        X, y = RNG.normal(size=(n, d)), RNG.integers(0, 2, n)
        for epsilon in (0.3, 1.0, 10.0):
            model = learn.PrivateLogisticRegression(epsilon=epsilon, delta=1e-5, random_state=0)
            took = least(lambda model=model, X=X, y=y: model.fit(X, y), 2)
            print(
                f"fit of {n} × {d} at ε = {epsilon}: {plain(took, 3)}, "
                f"rounding {plain(model.run_.rounding, 2)}"
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parts()
    trainings()
    fits()
