"""The law of the last iterate: closed forms on quadratics, and attacks that must not beat the guarantee."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import beta, norm

from pabi.describe.batches import Cyclic, FullBatch, Reshuffle, ShuffleOnce
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.learn import LogisticGradients, Records, SquaredGradients, train
from support.unpriced import Unpriced

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


# Attacks. Two adjacent data sets, many runs on each: a threshold on the released parameter is chosen on
# one half and judged on the other.

CONFIDENCE = 0.999


def attack(first, second, guarantee):
    """How far a threshold attack beats the guarantee with 99.9 % confidence; ≤ 0 if it does not.

    The threshold is the one that does best on the first halves. On the second halves both error rates
    are bounded from above (Clopper–Pearson, 99.95 % each): as the trade-off function falls, a pair of
    upper bounds below its graph is below it for the true rates.
    """
    half = len(first) // 2
    thresholds = np.quantile(np.concatenate([first[:half], second[:half]]), np.linspace(0, 1, 103))
    rules = [(sign, sign * t, swap) for sign in (1.0, -1.0) for t in thresholds for swap in (0, 1)]
    rates = np.empty((len(rules), 2))
    for i, (sign, threshold, swap) in enumerate(rules):
        null, other = (second, first) if swap else (first, second)
        rates[i] = (
            np.mean(sign * null[:half] > threshold),
            np.mean(sign * other[:half] <= threshold),
        )
    # Rates off by a standard error or two are allowed for, lest tails win by chance.
    rates += 2.0 * np.sqrt((rates * (1.0 - rates) + 1.0 / half) / half)
    margins = guarantee.tradeoff(np.minimum(rates[:, 0], 1.0)) - rates[:, 1]
    sign, threshold, swap = rules[int(np.argmax(margins))]
    null, other = (second, first) if swap else (first, second)
    positives = int(np.sum(sign * null[half:] > threshold))
    misses = int(np.sum(sign * other[half:] <= threshold))
    fpr, fnr = (upper_rate(k, len(first) - half) for k in (positives, misses))
    return float(guarantee.tradeoff(fpr)) - fnr


def upper_rate(successes, trials, confidence=1.0 - (1.0 - CONFIDENCE) / 2.0):
    """The Clopper–Pearson upper bound of a probability."""
    if successes == trials:
        return 1.0
    return float(beta.ppf(confidence, successes + 1, trials - successes))


# Four records with feature 1, so that logistic gradients are −yσ(−yθ), of size 1/2 at θ = 0, and always
# as long as the clip while |θ| < log((1 − C)/C): the worst a clipped record can do.
LABELS = np.array([1, 0, 1, 0])


def neighbours(adjacency, at=3):
    """Gradients of two adjacent data sets that differ in record `at`."""
    X, y = np.ones((4, 1)), LABELS.copy()
    if adjacency == "zero_out":
        other = LogisticGradients(Records(np.where(np.arange(4) == at, 0.0, 1.0)[:, None], 1.0), y)
    else:
        other = LogisticGradients(Records(X, 1.0), np.where(np.arange(4) == at, 1 - y, y))
    return LogisticGradients(Records(X, 1.0), y), other


def attacked_run(batches, adjacency, **changes):
    given = {"batches": batches, "epochs": 2, "step_size": 0.2}
    given |= {"noise_std": 0.15 if adjacency == "replace_one" else 0.075, "clip_norm": 0.3}
    given |= {"adjacency": adjacency}
    given.update(changes)
    return NoisySGD(Loss.logistic(1.0, l2=given.pop("l2", 0.0)), n=4, **given)


def outcomes(run, runs, seed, at=3):
    """Released parameters on either data set."""
    return [
        draw(run, gradients, [0.0], runs, [seed, i]).ravel()
        for i, gradients in enumerate(neighbours(run.adjacency, at))
    ]


TRAININGS, RUNS_AT_NIGHT = 600, 20_000  # on either data set
ATTACKED = [
    (batches, adjacency)
    for batches in (Cyclic(2), ShuffleOnce(2))
    for adjacency in ("replace_one", "zero_out")
]


def forgetful(batches):
    """Steps that keep a fifth of what was: only the record used last is seen at all."""
    return attacked_run(
        batches, "replace_one", epochs=1, l2=1.0, step_size=0.8, clip_norm=0.1, noise_std=0.1
    )


def attack_is_beaten(run, claimed, runs, seed):
    """Whether an attack on `run` beats the guarantee of `claimed`."""
    guarantee = claimed.guarantee(1e-3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisySGD, "guarantee", lambda self, delta=1e-5, position=None: Unpriced())
        first, second = outcomes(run, runs, seed)
    return attack(first, second, guarantee) > 0.0


CHANGES = {
    "plain": {},
    "cool-down": {"cooldown_steps": 1},
    "l2": {"l2": 0.5, "step_size": 0.5},
    "schedule": {"step_size": np.array([0.4, 0.3, 0.2, 0.1])},
    "no clip": {"clip_norm": None, "step_size": 2.0, "noise_std": 0.3},
}


@pytest.mark.parametrize(("batches", "adjacency"), ATTACKED)
@pytest.mark.one_in(2)
def test_no_threshold_attack_beats_the_guarantee(batches, adjacency):
    """The worst record of the worst data, and half a per mille of false alarms a direction."""
    run = attacked_run(batches, adjacency)
    assert not attack_is_beaten(run, run, TRAININGS, 1)


@pytest.mark.nightly
@pytest.mark.parametrize(("batches", "adjacency"), ATTACKED)
@pytest.mark.parametrize("how", CHANGES)
def test_no_threshold_attack_beats_the_guarantee_at_night(batches, adjacency, how):
    run = attacked_run(batches, adjacency, **CHANGES[how])
    assert not attack_is_beaten(run, run, RUNS_AT_NIGHT, 11)


@pytest.mark.parametrize(
    ("batches", "adjacency"),
    [
        pytest.param(*case, marks=pytest.mark.nightly if i in (0, 3) else ())
        for i, case in enumerate(ATTACKED)
    ],
)
def test_the_same_attack_detects_half_the_noise(batches, adjacency):
    """A test that could not fail would say nothing."""
    claimed = attacked_run(batches, adjacency)
    run = attacked_run(batches, adjacency, noise_std=claimed.noise_std / 2.0)
    assert attack_is_beaten(run, claimed, TRAININGS, 2)


def test_the_same_attack_detects_records_that_are_not_shuffled():
    """The guarantee of shuffled records, and a trainer that keeps them in order, the attacked one last."""
    claimed = forgetful(ShuffleOnce(1))
    assert not attack_is_beaten(claimed, claimed, TRAININGS, 3)
    assert not attack_is_beaten(forgetful(Cyclic(1)), forgetful(Cyclic(1)), TRAININGS, 4)
    assert attack_is_beaten(forgetful(Cyclic(1)), claimed, TRAININGS, 5)


def test_the_attack_gets_close_to_the_guarantee():
    """Full batches and gradients that are always clipped are the exact case: three quarters of the noise
    are caught, so the guarantee is not met by being loose."""
    claimed = attacked_run(FullBatch(), "replace_one", noise_std=0.1)
    run = attacked_run(FullBatch(), "replace_one", noise_std=0.075)
    assert attack_is_beaten(run, claimed, 2 * TRAININGS, 6)
    assert not attack_is_beaten(claimed, claimed, 2 * TRAININGS, 7)


@pytest.mark.nightly
@pytest.mark.parametrize("at", range(4))
def test_no_record_of_a_cyclic_run_is_seen_better_than_its_own_guarantee(at):
    """Position by position: the guarantee of batch `at` alone."""
    run = attacked_run(Cyclic(1), "replace_one", epochs=2, clip_norm=0.2, noise_std=0.2)
    guarantee = run.guarantee(1e-3, position=at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisySGD, "guarantee", lambda self, delta=1e-5, position=None: Unpriced())
        first, second = outcomes(run, RUNS_AT_NIGHT, 20 + at, at)
    assert attack(first, second, guarantee) <= 0.0
