"""Audits of one training against pure randomised response, and against how often they are wrong."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import pabi
from pabi.audits import one_run
from pabi.audits.auditing import chance, refuted_epsilon
from pabi.learn import LogisticGradients, train
from pabi.numbers.errors import InvalidInput


def test_without_delta_guesses_are_coins_of_randomised_response():
    """Steinke, Nasr, Jagielski, Thm 5.2 with δ = 0: r guesses are right as often as Bin(r, e^ε/(1 + e^ε))."""
    for epsilon, guesses, correct in [(0.0, 20, 15), (1.0, 50, 40), (2.0, 7, 7)]:
        truth = binom.sf(correct - 1, guesses, math.exp(epsilon) / (1.0 + math.exp(epsilon)))
        assert chance(100, guesses, correct, epsilon=epsilon, delta=0.0) == pytest.approx(truth)


def test_delta_adds_what_the_theorem_says():
    """2mδ·max_i P(v > W ≥ v − i)/i, in fractions: ε = 0, four guesses, three of them right, of ten."""
    pmf = [Fraction(math.comb(4, k), 16) for k in range(5)]
    most = max(sum(pmf[3 - i : 3], Fraction(0)) / i for i in (1, 2, 3))
    truth = pmf[3] + pmf[4] + 2 * 10 * Fraction(1, 1000) * most
    computed = chance(10, 4, 3, epsilon=0.0, delta=1e-3)
    assert computed == pytest.approx(float(truth), rel=1e-12)


def test_the_refuted_epsilon_is_the_largest():
    epsilon = refuted_epsilon(200, 100, 90, delta=1e-5, error=0.05)
    assert chance(200, 100, 90, epsilon=epsilon - 1e-5, delta=1e-5) <= 0.05
    assert chance(200, 100, 90, epsilon=epsilon + 1e-5, delta=1e-5) > 0.05
    assert refuted_epsilon(200, 100, 50, delta=1e-5, error=0.05) == 0.0


def test_randomised_response_is_refuted_as_rarely_as_stated():
    """Each of 100 bits is kept with odds e: over all counts, not simulated."""
    right = math.e / (1.0 + math.e)
    wrong = [k for k in range(101) if refuted_epsilon(100, 100, k, delta=0.0, error=0.05) > 1.0]
    assert 0.01 < binom.pmf(wrong, 100, right).sum() <= 0.05


GIVEN = {"n": 300, "batches": pabi.FullBatch(), "steps": 1, "step_size": 1.0}
GIVEN |= {"adjacency": "zero_out"}
RUN = pabi.NoisySGD(pabi.Loss.logistic(1.0), **GIVEN, noise_std=0.5 / 300, clip_norm=0.5)


def own_trainer(X, y):
    return train(RUN, LogisticGradients(X, y), x0=np.zeros(X.shape[1])).x


def test_one_training_shows_some_of_what_is_promised():
    """Each canary moves its own coordinate by one standard deviation."""
    result = one_run(RUN, own_trainer, canaries=300, confidence=1.0 - 1e-3)
    assert 0.0 < result.epsilon_lower < result.guarantee.epsilon(1e-5)
    assert not result.refuted
    assert f"{result.correct} of {result.guesses} guesses right" in str(result)


def test_one_training_without_noise_is_caught():
    def telling(X, y):
        return X.sum(axis=0)

    result = one_run(RUN, telling, canaries=300, confidence=0.999)
    assert result.correct == result.guesses
    assert result.epsilon_lower > 1.0
    weak = pabi.NoisySGD(pabi.Loss.logistic(1.0), **GIVEN, noise_std=0.02)
    assert one_run(weak, telling, canaries=300).refuted


def test_what_is_wrong_is_named():
    with pytest.raises(InvalidInput, match="^canaries: expected an integer in 10..n = 300"):
        one_run(RUN, own_trainer, canaries=301)
    with pytest.raises(InvalidInput, match="^train: expected 20 coefficients, got 3"):
        one_run(RUN, lambda X, y: np.zeros(3), canaries=20)
