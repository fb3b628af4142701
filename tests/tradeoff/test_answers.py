"""Randomised response and discrete Laplace noise, outcome by outcome, in rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from mpmath import mp

from pabi.tradeoff import (
    ApproxDP,
    Gaussian,
    Product,
    discrete_laplace,
    randomised_response,
)
from support.every_case import every

EPSILONS = (-0.5, 0.0, 0.1, 0.5, 1.0, 2.0)


def hockey_stick(first, second, e):
    """The larger δ(e) of the two orders, of all outcomes one by one."""
    with mp.workdps(40):
        level = mp.exp(mp.mpf(e))
        one, two = ([mp.mpf(x.numerator) / x.denominator for x in p] for p in (first, second))
        return float(
            max(
                mp.fsum(max(mp.mpf(0), a - level * b) for a, b in zip(left, right, strict=True))
                for left, right in ((one, two), (two, one))
            )
        )


def answers(noise, k, true):
    """The probability of every answer; without a true one they are alike."""
    if true is None:
        return [Fraction(1, k)] * k
    return [noise / k + (1 - noise if i == true else 0) for i in range(k)]


@every("noise", [0.001, 0.25, 0.75, 0.999])
@every("k", [2, 3, 17])
@every("blank", [False, True])
def test_an_answer_reveals_what_its_probabilities_say(noise, k, blank):
    curve = randomised_response(noise, k, blank=blank)
    first = answers(Fraction(noise), k, 0)
    second = answers(Fraction(noise), k, None if blank else 1)
    for e in EPSILONS:
        truth = hockey_stick(first, second, e)
        assert truth <= curve.delta(e) <= truth + 1e-13
    largest = max(abs(math.log(a / b)) for a, b in zip(first, second, strict=True))
    assert curve.epsilon(0.0) == pytest.approx(largest, rel=1e-12)


def test_two_answers_are_pure_privacy():
    assert randomised_response(0.5, 2) == ApproxDP(randomised_response(0.5, 2).epsilon(0.0))


def test_at_the_ends_an_answer_says_nothing_or_everything():
    assert randomised_response(0.3, 1) == randomised_response(1.0, 5) == Gaussian(0.0)
    assert randomised_response(0.0, 4) == Gaussian(math.inf)
    # A blank record's answer may be any, the true one among them.
    assert randomised_response(0.0, 4, blank=True).delta(0.0) == pytest.approx(0.75)


@every("a, steps", [(0.5, 1), (0.5, 2), (0.01, 30), (3.0, 4), (20.0, 30)])
def test_discrete_noise_reveals_what_its_probabilities_say(a, steps):
    curve = discrete_laplace(a, steps)
    with mp.workdps(60):
        far = int(120 / a) + steps
        masses, decay = [mp.tanh(mp.mpf(a) / 2)], mp.exp(-mp.mpf(a))
        for _ in range(far + steps):
            masses.append(masses[-1] * decay)

        def probability(x):
            return masses[abs(x)]

        for e in (0.0, 0.3 * a * steps, 0.9 * a * steps):
            level = mp.exp(mp.mpf(e))
            truth = mp.fsum(
                max(mp.mpf(0), probability(x) - level * probability(x - steps))
                for x in range(-far, far)
            )
            assert float(truth) * (1.0 - 1e-15) <= curve.delta(e) <= float(truth) + 1e-13
    assert curve.epsilon(0.0) == pytest.approx(a * steps, rel=1e-12)


@every("shifts", [(1, 1), (2, 3), (1, 1, 1, 1)])
def test_a_vector_of_integers_moved_by_as_much_in_l1_norm_reveals_no_more(shifts):
    """An attack on "one integer is the worst"."""
    one = discrete_laplace(0.4, sum(shifts))
    several = Product([(discrete_laplace(0.4, shift), 1) for shift in shifts])
    for share in (0.05, 0.5, 0.9):
        low, _ = several.delta_bounds(share * 0.4 * sum(shifts))
        assert 0.0 < low <= one.delta(share * 0.4 * sum(shifts))


@every(
    "curve",
    [
        discrete_laplace(0.3, 4),
        randomised_response(0.4, 5),
        randomised_response(0.4, 5, blank=True),
    ],
)
def test_products_are_sums_over_all_outcomes(curve):
    one, two = list(curve.p), list(curve.q)
    first, second = ([a * b for a in p for b in p] for p in (one, two))
    for e in (0.1, 0.7):
        truth = hockey_stick(list(map(Fraction, first)), list(map(Fraction, second)), e)
        low, high = Product([(curve, 2)]).delta_bounds(e, 1e-4)
        assert low * (1.0 - 1e-9) <= truth <= high * (1.0 + 1e-9)
        assert high == pytest.approx(truth, rel=2e-3)
