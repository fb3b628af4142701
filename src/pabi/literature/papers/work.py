"""The work that takes time: functions of plain data, whose results can be kept and that run anywhere."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from pabi.describe.files import from_dict
from pabi.describe.runs import NoisySGD
from pabi.literature.papers.writing import Digits, read_digits
from pabi.numbers.errors import PrivacyWarning

CLASSES = 10


def proven(run: dict[str, Any], delta: float) -> dict[str, float | None]:
    """ε at `delta` and μ (None: not Gaussian) of the guarantee of a description."""
    guarantee = from_dict(run).guarantee(delta)
    return {"epsilon": guarantee.epsilon(delta), "mu": guarantee.mu}


def renyi(run: dict[str, Any], order: float) -> float:
    """The Rényi divergence of a description's guarantee, in nats."""
    return float(from_dict(run).guarantee(1e-5).rdp(order))


def tradeoff(run: dict[str, Any], delta: float, fpr: list[float]) -> list[float]:
    """The trade-off curve of a description's guarantee, chosen at `delta`."""
    values = from_dict(run).guarantee(delta).tradeoff(np.array(fpr))
    return [float(v) for v in np.asarray(values)]


def sampled_composition(probability: float, mu: float, steps: int, delta: float) -> float:
    """ε at `delta` of `steps` Gaussian mechanisms G(μ) on batches drawn without replacement."""
    from pabi.tradeoff import Gaussian, Subsampled

    curve = Subsampled(Gaussian(mu), probability).self_compose(steps)
    return curve.epsilon_bounds(delta, rtol=1e-5)[1]


def planned(**problem: Any) -> dict[str, Any]:
    """The plan of `pabi.erm.plan` for a problem: algorithm, bound on the excess risk, time of a diffusion."""
    from pabi.describe.langevin import LangevinDiffusion
    from pabi.erm import plan

    best = plan(**problem)
    time = best.run.time if isinstance(best.run, LangevinDiffusion) else None
    return {"algorithm": best.algorithm, "risk": best.risk_bound, "time": time}


def trained(
    run: dict[str, Any], mnist: str | None, feature_norm: float, intercept: float, seed: int
) -> dict[str, float]:
    """Accuracies in percent of softmax regression on MNIST, trained once as described.

    `mnist`: the file (None: fetched). Rows of pixels in [0, 1] are brought within `feature_norm`, then
    the constant `intercept` is appended. The noise comes from `seed`, so that the number can be computed
    again: the data are public, and the model is not to be published as private.
    """
    from pabi.learn import Records, SoftmaxGradients, train

    digits = _digits(mnist)
    records = Records(digits.X, feature_norm, intercept)
    gradients = SoftmaxGradients(records, digits.y, CLASSES)
    described = from_dict(run)
    assert isinstance(described, NoisySGD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        theta = train(described, gradients, np.zeros(gradients.shape), random_state=seed).x
    # Test rows as the model saw those it was trained on.
    tested = Records(digits.X_test, feature_norm, intercept)
    return {
        "train": _accuracy(records, digits.y, theta),
        "test": _accuracy(tested, digits.y_test, theta),
    }


@functools.lru_cache(maxsize=1)
def _digits(mnist: str | None) -> Digits:
    return read_digits(mnist)


def _accuracy(records: Any, labels: Any, theta: Any) -> float:
    rows = slice(0, len(records))
    guesses = [
        records.predictor(block, theta).argmax(axis=1) == labels[block.part]
        for block in records.blocks(rows)
    ]
    return 100.0 * float(np.mean(np.concatenate(guesses)))
