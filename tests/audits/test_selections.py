"""Private searches are audited through what users call, and mistakes planted in them are caught.

Each mistake is refuted with confidence 1 − 10⁻⁶, and the same audit does not refute what ships.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.audits import audit_outputs
from pabi.execute.checkpoint import TrialLaw
from pabi.learn import PrivateLogisticRegression, PrivateSearchCV
from pabi.learn import search as trials
from support.computed_once import computed_once

pytestmark = pytest.mark.filterwarnings("ignore")
SURE, DELTA = 1.0 - 1e-6, 1e-3

# The number of trials.

MU, MEAN, SHAPE = 0.8, 100.0, -0.5


def selections(shift, models):
    """(models,) the best of so many Gaussian trials as the shipped law draws."""
    rng = np.random.default_rng()
    promised = pabi.select(pabi.NoisyAccuracy(1, 1.0 / MU).guarantee(DELTA), MEAN, SHAPE)
    law = TrialLaw(promised.proof.written()["gamma"], SHAPE)
    numbers = np.array([law.draw(rng) for _ in range(models)])
    releases = rng.standard_normal(numbers.sum()) + shift
    return promised, np.maximum.reduceat(releases, np.cumsum(numbers) - numbers)


def audited_number(models):
    promised, null = selections(0.0, models)
    return audit_outputs(promised, null, selections(MU, models)[1], delta=DELTA, confidence=SURE)


@pytest.mark.parametrize("models", [3_000, pytest.param(30_000, marks=pytest.mark.nightly)])
def test_a_number_of_trials_that_is_drawn_is_not_refuted(models):
    result = audited_number(models)
    assert not result.refuted
    assert result.epsilon(0.05) > 0.0  # or the audit would see nothing


def test_a_number_of_trials_that_is_fixed_is_caught(monkeypatch):
    monkeypatch.setattr(TrialLaw, "draw", lambda self, generator: round(MEAN))
    assert audited_number(30_000).refuted


# Searches. The fits of their trials are computed once, and drawn from then on by the law that one step has.


def table(label):
    """39 records at rest, and one that pulls."""
    X, y = np.zeros((40, 1)), np.arange(40) % 2
    X[-1], y[-1] = 1.0, label
    return X, y


def fitted(label, **options):
    """A search, whose trials take one step each."""
    (X, y), step = table(label), {"batches": pabi.FullBatch(), "epochs": 1, "clip_norm": 0.2}
    plain = {"classes": [0, 1], "fit_intercept": False, "precondition": None}
    trial = PrivateLogisticRegression(1.0, DELTA, **step, **plain)
    public = {} if "validation_share" in options else {"X_public": X, "y_public": y}
    whole = PrivateSearchCV(trial, {"step_size": [1.0]}, delta=DELTA, shape=1.0, **options)
    return whole.fit(X, y, **public)


@pytest.fixture
def quick(monkeypatch):
    """Plans are computed once, and so is the fit of a trial: what differs are its data and its noise."""
    computed_once(monkeypatch)
    fit, made = trials._Trials._fitted, []

    def drawn(self, place, generator):
        made or made.append(fit(self, place, generator))
        model = copy.copy(made[0])
        run, pulls = model.run_, 2.0 * np.asarray(self.tables.y) - 1.0
        gradient = -run.clip_norm / run.n * float(pulls @ self.tables.X[:, 0])
        noise = run.noise_std * generator.standard_normal()
        model.coef_ = np.array([[-run.step_size * (gradient + noise)]])
        model.guarantee_ = replace(model.guarantee_, notes={})  # the hash of the first fit
        return model

    monkeypatch.setattr(trials._Trials, "_fitted", drawn)
    yield
    made.clear()


def audited(released, models, **options):
    """`released`: what a search shows, as numbers."""
    searches = [[fitted(label, **options) for _ in range(models)] for label in (0, 1)]
    null, other = (np.array([released(one) for one in some]) for some in searches)
    promised = searches[0][0].guarantee_
    return audit_outputs(promised, null, other, delta=DELTA, confidence=SURE)


def largest(model, X, y):
    return float(model.coef_[0, 0])


def trials_of(search):
    """The sum of all that a search shows: of Gaussian trials the likelihood ratio, but for its scale."""
    return np.sum(getattr(search, "trials_", [search.best_estimator_.coef_[0, 0]]))


PUBLICLY = {"epsilon": 1.6, "mean_trials": 100.0, "scoring": largest}


def test_trials_that_are_drawn_have_the_law_of_fits(quick):
    """Or the audits below would be of other trials. Kolmogorov and Smirnov, wrong once in a million."""
    from scipy.stats import kstest

    search = fitted(1, **PUBLICLY)
    settings = {"step_size": 1.0, "epsilon": search.plan_.epsilon, "delta": search.plan_.delta}
    trial = search.estimator.set_params(**settings)
    fits = np.array([trial.fit(*table(1)).coef_[0, 0] for _ in range(100)])
    std = trial.run_.noise_std
    assert search.plan_.trials[0].mu == pytest.approx(0.4 / 40 / std, rel=1e-9)
    assert kstest((fits - 0.2 / 40) / std, "norm").pvalue > 1e-6


@pytest.mark.parametrize("models", [50, pytest.param(300, marks=pytest.mark.nightly)])
def test_the_best_trial_is_not_refuted(quick, models):
    assert not audited(trials_of, models, **PUBLICLY).refuted


@pytest.mark.nightly
def test_trials_that_are_kept_are_caught(quick, monkeypatch):
    drawn = trials._Trials._fitted

    def keeping(self, place, generator):
        model = drawn(self, place, generator)
        self.search.trials_ = [*getattr(self.search, "trials_", []), model.coef_[0, 0]]
        return model

    monkeypatch.setattr(trials._Trials, "_fitted", keeping)
    assert audited(trials_of, 1000, **PUBLICLY).refuted


PRIVATELY = {"epsilon": 0.6, "mean_trials": 10.0, "validation_share": 0.9}


def sign(search):
    return float(search.best_estimator_.coef_[0, 0] > 0.0)


@pytest.mark.parametrize("models", [50, pytest.param(400, marks=pytest.mark.nightly)])
def test_noisy_scores_are_not_refuted(quick, models):
    assert not audited(sign, models, **PRIVATELY).refuted


@pytest.mark.nightly
def test_scores_without_noise_are_caught(quick, monkeypatch):
    """The record that scores decides which trial is the best: all others score all trials alike."""
    score = PrivateSearchCV._score

    def exact(self, model, tables, generator):
        silent = copy.copy(self)
        silent.plan_ = replace(self.plan_, scoring_noise=1e-9)
        return score(silent, model, tables, generator)

    monkeypatch.setattr(PrivateSearchCV, "_score", exact)
    assert audited(sign, 400, **PRIVATELY).refuted
