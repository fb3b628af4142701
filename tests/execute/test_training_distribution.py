"""The law of the last iterate on quadratics, in closed form."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from pabi.describe.batches import Cyclic, FullBatch, Reshuffle, ShuffleOnce
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.learn import SquaredGradients, train

pytestmark = pytest.mark.filterwarnings("ignore::pabi.numbers.errors.PrivacyWarning")


def draw(run, gradients, start, runs, seed):
    """(runs, d): last iterates of independent trainings."""
    generator = np.random.default_rng(seed)
    return np.array([train(run, gradients, start, generator).x for _ in range(runs)])


# Quadratics: affine steps and Gaussian noise, so that the law is a mixture of Gaussians over orders.

FEATURES = np.array([[1.0, 0.2], [-0.3, 0.8], [0.6, -0.5], [0.1, 1.0]])
TARGETS = np.array([2.0, -1.0, 0.5, 3.0])
START = np.array([1.0, -2.0])
RUNS = 800


def least_squares():
    """½(x·θ − y)² whose residuals never come near their bound: gradients x(x·θ − y)."""
    return SquaredGradients(FEATURES, TARGETS, 1e6)


def quadratics(x, rows):
    """The same gradients, record by record."""
    return FEATURES[rows] * (FEATURES[rows] @ x - TARGETS[rows])[:, None]


def quadratic_run(**changes):
    given = {"n": 4, "batches": FullBatch(), "steps": 5, "step_size": 0.7, "noise_std": 0.4}
    given |= {"gradient_sensitivity": 1.0}
    given.update(changes)
    loss = Loss.convex(smoothness=2.0, l2=given.pop("l2", 0.0))
    return NoisySGD(given.pop("loss", loss), **given)


def law(run):
    """[(weight, mean, covariance)] of the last iterate, one for each order of the records: the
    recursions of an affine map, written out from the description of the run."""
    b = 4 if run.batches.kind == "full_batch" else run.batches.size
    per_epoch = math.ceil(4 / b)
    data_steps = run.steps - run.cooldown_steps
    epochs = math.ceil(data_steps / per_epoch)
    each = list(itertools.permutations(range(4)))
    orders = {
        "full_batch": [[range(4)] * epochs],
        "cyclic": [[range(4)] * epochs],
        "shuffle_once": [[order] * epochs for order in each],
        "reshuffle": list(itertools.product(each, repeat=epochs)),
    }[run.batches.kind]
    etas, stds = (np.broadcast_to(s, run.steps) for s in (run.step_size, run.gradient_noise_std))
    parts = []
    for order in orders:
        mean, cov = START, np.zeros((2, 2))
        for k in range(run.steps):
            at = (k % per_epoch) * b
            rows = list(order[k // per_epoch][at : at + b]) if k < data_steps else []
            matrix = FEATURES[rows].T @ FEATURES[rows] / b + run.loss.l2 * np.eye(2)
            pull = FEATURES[rows].T @ TARGETS[rows] / b
            step = np.eye(2) - etas[k] * matrix
            mean = step @ mean + etas[k] * pull
            cov = step @ cov @ step.T + (etas[k] * stds[k]) ** 2 * np.eye(2)
        parts.append((1.0 / len(orders), mean, cov))
    return parts


def moments(parts):
    """(mean, covariance, variance of the products of two centred coordinates) of the mixture."""
    mean = sum(w * m for w, m, _ in parts)
    cov = sum(w * (c + np.outer(m - mean, m - mean)) for w, m, c in parts)
    fourth = np.zeros((2, 2))
    for w, m, c in parts:
        d, v = m - mean, np.diag(c)
        # E (d_i + g_i)²(d_j + g_j)² for Gaussian g (Isserlis).
        fourth += w * (
            np.outer(d, d) ** 2
            + np.outer(d**2, v)
            + np.outer(v, d**2)
            + 4 * np.outer(d, d) * c
            + np.outer(v, v)
            + 2 * c**2
        )
    return mean, cov, fourth - cov**2


def scores(draws, parts):
    """z-scores of the sample mean and of the sample covariance about the true mean."""
    mean, cov, spread = moments(parts)
    centred = draws - mean
    return (
        centred.mean(axis=0) / np.sqrt(np.diag(cov) / len(draws)),
        (centred.T @ centred / len(draws) - cov) / np.sqrt(spread / len(draws)),
    )


def gap(draws, parts, direction):
    """The largest distance of the empirical distribution function of a projection from the true one."""
    values = np.sort(draws @ direction)
    truth = sum(
        w * norm.cdf(values, direction @ m, math.sqrt(direction @ c @ direction))
        for w, m, c in parts
    )
    ranks = np.arange(len(values) + 1) / len(values)
    return max(np.max(ranks[1:] - truth), np.max(truth - ranks[:-1]))


def admissible_gap(runs, false_alarm=1e-7):
    """Dvoretzky–Kiefer–Wolfowitz with Massart's constant: exceeded with at most this probability."""
    return math.sqrt(math.log(2.0 / false_alarm) / (2.0 * runs))


SCHEDULE = np.array([0.9, 0.7, 0.5, 0.3, 0.2])
QUADRATIC_RUNS = {
    "full": {},
    "full, l2, cool-down": {"l2": 0.4, "cooldown_steps": 2},
    "cyclic": {"batches": Cyclic(1)},
    "cyclic, short batch, l2": {"batches": Cyclic(3), "l2": 0.3},
    "schedules": {"batches": Cyclic(2), "step_size": SCHEDULE, "noise_std": SCHEDULE[::-1]},
    "shuffled": {"batches": ShuffleOnce(1)},
    "shuffled, short batch": {"batches": ShuffleOnce(3), "cooldown_steps": 1, "l2": 0.2},
    "shuffled, schedules": {"batches": ShuffleOnce(2), "step_size": SCHEDULE},
    "reshuffled": {"batches": Reshuffle(2), "steps": 4},
    # Of a bound of 10⁶, over a batch of two: a noise of 1.
    "multiplier": {
        "batches": Cyclic(2),
        "loss": Loss.convex(smoothness=2.0, gradient_bound=1e6),
        "noise_std": None,
        "noise_multiplier": 2e-6,
        "gradient_sensitivity": None,
    },
}


@pytest.mark.parametrize("path", ["products", "records"])
@pytest.mark.parametrize("runs", [RUNS // 2, pytest.param(20_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", QUADRATIC_RUNS)
@pytest.mark.one_in(4)
def test_the_law_on_quadratics_is_the_closed_form(unpriced, name, runs, path):
    """Mean and covariance at five standard errors (five scores, 6e-7 each), and the whole law of two
    projections by Dvoretzky–Kiefer–Wolfowitz at 1e-7."""
    run, gradients = quadratic_run(**QUADRATIC_RUNS[name]), least_squares()
    parts, seed = law(run), [sorted(QUADRATIC_RUNS).index(name), path == "records"]
    draws = draw(run, gradients if path == "products" else quadratics, START, runs, seed)
    for score in scores(draws, parts):
        assert np.max(np.abs(score)) < 5.0
    for direction in (np.array([1.0, 0.0]), np.array([0.6, 0.8])):
        assert gap(draws, parts, direction) < admissible_gap(runs)
