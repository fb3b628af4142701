"""Attacks on estimators that precondition: the likelihood-ratio test on what a fitted model shows.

The worst pair under `zero_out`: a record of full length against a row of zeros, among others whose gradients
cancel while residuals are clipped. Given the map, the record adds the same gradient at every step, so that
the released moments and the last weights are Gaussians that it moves by a known distance. The attacker sees
`preconditioner_` and `coef_` alone.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, norm

from pabi.describe.batches import FullBatch
from pabi.execute import statistics as moments_module
from pabi.execute.large_records import RowMap
from pabi.learn import PrivateLogisticRegression, ReleasedMoments
from pabi.learn import estimators as estimators_module
from pabi.learn import plans as whitening_module
from pabi.learn.plans import noise_level
from support.computed_once import computed_once

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

DELTA, STEPS, STEP_SIZE, CLIP, RADIUS = 1e-3, 3, 0.02, 0.25, 1.5
ERROR = 1e-6  # of an interval, with both of its ends
ONE, TWO = RADIUS * np.eye(2)
BOTH = (ONE + TWO) / math.sqrt(2.0)
CROWD = np.array([ONE, ONE, TWO, TWO, BOTH, BOTH, 0.0 * ONE])
LABELS = np.array([0, 1, 0, 1, 0, 1, 0, 1])  # rows that come twice come with both
DATA = {"record": np.vstack([CROWD, ONE]), "zero": np.vstack([CROWD, 0.0 * ONE])}


def estimator(random_state=None):
    return PrivateLogisticRegression(
        8.0,
        DELTA,
        RADIUS,
        fit_intercept=False,
        adjacency="zero_out",
        precondition=0.5,
        batches=FullBatch(),
        epochs=STEPS,
        step_size=STEP_SIZE,
        l2=0.0,
        clip_norm=CLIP * RADIUS,
        classes=[0, 1],
        random_state=random_state,
    )


@pytest.fixture
def quick(monkeypatch):
    """Calibrations and guarantees of equal descriptions are computed once."""
    computed_once(monkeypatch)


def evidence(model):
    """(of the moments, of the weights): N(0, 1) without the record, N(μ, 1) with it, for stated noise."""
    row_map, moments, run = model.preconditioner_, model.moments_, model.run_
    level = noise_level(moments)
    P = np.diag(row_map.matrix) if row_map.diagonal else row_map.matrix
    mean = np.linalg.inv(P @ P) - level * np.eye(2)
    sums = mean * moments.n * RADIUS**2 - CROWD.T @ CROWD
    of_moments = sums[0, 0] / moments.moment_noise_std
    direction = P @ ONE / np.linalg.norm(P @ ONE)
    theta = np.linalg.solve(P, model.coef_[0]) * row_map.unit / row_map.norm
    of_weights = theta @ direction / (STEP_SIZE * run.noise_std * math.sqrt(STEPS))
    return of_moments, of_weights


def distances(model):
    """By how much the record moves either."""
    of_moments = RADIUS**2 / model.moments_.moment_noise_std
    of_weights = math.sqrt(STEPS) * CLIP * RADIUS / (8 * model.run_.noise_std)
    return of_moments, of_weights


def statistics(data, times, seed, weights):
    """(times,): the log-likelihood ratio, up to its zero and scale, of as many fits."""
    generator = np.random.default_rng(seed)
    fits = (estimator(generator).fit(DATA[data], LABELS) for _ in range(times))
    return np.array([np.dot(weights, evidence(model)) for model in fits])


def rates(times, *, louder=(1.0, 1.0)):
    """[false, true] positives of the best test in as many fits; noises are the stated ones over `louder`."""
    model = estimator().fit(DATA["record"], LABELS)
    moved = np.array(distances(model)) * np.square(louder)
    positives = []
    for seed, data in enumerate(("zero", "record")):
        values = statistics(data, times, seed, moved)
        middle = float(moved @ distances(model)) / 2.0
        positives.append(int(np.sum(values > middle)))
    return positives


def at_least(hits, times):
    """A lower bound on a probability that fails with probability ERROR/2 (Clopper, Pearson 1934)."""
    return float(beta.ppf(ERROR / 2.0, hits, times - hits + 1)) if hits else 0.0


def at_most(hits, times):
    return 1.0 - at_least(times - hits, times)


def violated(false, true, times, mu):
    """Whether the rates are beyond the trade-off function of G(μ), but for an error of 1e-6."""
    allowed = norm.cdf(norm.ppf(at_most(false, times)) + mu)
    return at_least(true, times) > allowed


def whole():
    """μ of the composed guarantee."""
    model = estimator().fit(DATA["record"], LABELS)
    guarantee = model.guarantee_
    assert guarantee.mu == pytest.approx(math.hypot(*distances(model)), rel=1e-6)
    return guarantee.mu


@pytest.mark.parametrize("diagonal", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("times", [400, pytest.param(6000, marks=pytest.mark.nightly)])
def test_the_best_test_tells_no_more_than_the_guarantee_and_no_less(
    monkeypatch, quick, times, diagonal
):
    if diagonal:
        monkeypatch.setattr(whitening_module, "WIDEST", 1)
    assert estimator().fit(DATA["record"], LABELS).moments_.diagonal == diagonal
    false, true = rates(times)
    mu = whole()
    assert not violated(false, true, times, mu)
    advantage = 2.0 * norm.cdf(mu / 2.0) - 1.0
    # Four standard deviations of a difference of two shares, and what is lost where the map cuts negative
    # eigenvalues off, which happens once in hundreds of releases.
    assert abs((true - false) / times - advantage) < 4.0 * math.sqrt(0.5 / times) + 0.01


def half_of_the_training_noise(monkeypatch):
    train = estimators_module.train_and_keep

    def quieter(keep, run, *others):
        return train(keep, replace(run, noise_std=run.noise_std / 2.0), *others)

    monkeypatch.setattr(estimators_module, "train_and_keep", quieter)


def half_of_the_moments_noise(monkeypatch):
    monkeypatch.setattr(moments_module, "noise_factor", lambda *asked: 0.5)


def exact_moments(monkeypatch):
    """The map is made of what was not released."""

    def unprotected(terms, moments, records, groups):
        rows = records.dense(slice(0, records.n))
        return ReleasedMoments(rows.T @ rows, terms.proven)

    monkeypatch.setattr(estimators_module, "released_moments", unprotected)


def longer_rows(monkeypatch):
    """Mapped rows twice as long as the loss says, and gradients bounded by their shorter norm."""
    mapped = RowMap.mapped

    def longer(self, records, anywhere=False):
        twice = mapped(self, records, anywhere)._held()
        twice._bounds = np.full(records.n, 2.0), twice._bounds[1]
        return twice

    monkeypatch.setattr(RowMap, "mapped", longer)


@pytest.mark.parametrize(
    ("planted", "louder"),
    [
        (half_of_the_training_noise, (1.0, 2.0)),
        (half_of_the_moments_noise, (2.0, 1.0)),
        (exact_moments, (9.0, 1.0)),
        (longer_rows, (1.0, 2.0)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_mistakes_are_seen(monkeypatch, quick, planted, louder):
    mu = whole()
    planted(monkeypatch)
    times = 800
    false, true = rates(times, louder=louder)
    assert violated(false, true, times, mu)


def test_an_honest_pair_is_not_seen():
    """The yardstick: shares that belong to G(2) are no violation of G(2), those of G(3) are."""
    times = 500
    shares = {mu: (norm.cdf(-mu / 2.0), norm.cdf(mu / 2.0)) for mu in (2.0, 3.5)}
    hits = {mu: [round(times * share) for share in pair] for mu, pair in shares.items()}
    assert not violated(*hits[2.0], times, 2.0)
    assert violated(*hits[3.5], times, 2.0)
