"""Balls of δ and its slope hold the truth, and their ends are the nearest doubles on the right side.

What is built on them: δ of many Gaussian pairs at once, and the law of the number of trials.
"""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pabi.numbers import gaussian
from pabi.numbers.mixtures import gamma_of, mean_of
from pabi.numbers.vectorised import delta_and_slope, gaussian_delta
from support.every_case import every, refused


def rational(x):
    """An exact arb as a fraction."""
    mantissa, exponent = x.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def ends(ball):
    """The least and the greatest point of a ball, as fractions."""
    middle, radius = rational(ball.mid()), rational(ball.rad())
    return middle - radius, middle + radius


def holds(ball, truth):
    """Whether a number of mpmath, right to many more digits than the ball, lies in it."""
    low, high = ends(ball)
    exact = Fraction(int(truth.man)) * Fraction(2) ** truth.exp * (-1 if truth < 0 else 1)
    return low <= exact <= high


def truth(mu, epsilon, digits=200):
    """δ and −dδ/dε = e^ε·Φ(−ε/μ − μ/2)."""
    with mp.workdps(digits):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        above = mp.erfc((e / m - m / 2) / mp.sqrt(2)) / 2
        below = mp.exp(e) * mp.erfc((e / m + m / 2) / mp.sqrt(2)) / 2
        return above - below, below


numbers = st.one_of(st.just(0), st.integers(-(2**60), 2**60))


@given(numbers, st.integers(-1200, 900), st.integers(0, 2**40), st.integers(-1300, 900))
def test_ends_are_the_nearest_doubles_on_the_right_side(middle, exponent, radius, spread):
    ball = arb(middle) * arb(2) ** exponent
    ball = arb(ball, arb(radius) * arb(2) ** spread)
    low, high = ends(ball)
    top, bottom = gaussian.upper(ball), gaussian.lower(ball)
    largest = Fraction(1.7976931348623157e308)
    assert top == math.inf or Fraction(top) >= high
    assert bottom == -math.inf or Fraction(bottom) <= low
    assert (top == math.inf) == (high > largest)
    assert (bottom == -math.inf) == (low < -largest)
    if top < math.inf:
        below = math.nextafter(top, -math.inf)
        assert below == -math.inf or Fraction(below) < high


def test_a_ball_that_says_nothing_bounds_nothing():
    for ball in (arb("nan"), arb("inf"), arb(0, "inf")):
        assert (gaussian.lower(ball), gaussian.upper(ball)) == (-math.inf, math.inf)
    low, high = ends(gaussian.tiny())  # positive, and below every double
    assert low <= 0 < Fraction(1, 2**2000) <= high <= Fraction(1, 2**1998)
    assert gaussian.upper(gaussian.tiny()) == 5e-324


@settings(deadline=None)
@given(
    st.floats(-6.0, 2.0).map(lambda x: 10.0**x),
    st.floats(-8.0, 8.0),
    st.sampled_from([40, 96, 200]),
)
def test_delta_and_its_slope_are_held(mu, a, bits):
    """ε = μ(a + μ/2), where δ is anything from nearly 1 to 10⁻¹⁵; of either sign."""
    epsilon = mu * (a + mu / 2)
    delta, slope = gaussian.gaussian(mu, epsilon, bits)
    exact, steep = truth(mu, epsilon)
    assert holds(delta, exact)
    assert holds(slope, steep)
    assert delta.rel_accuracy_bits() >= bits - 2


@every("mu, epsilon", [(0.5, 600.0), (2.0, 2500.0), (1500.0, 5e5), (1e-4, 0.2), (3000.0, 1e3)])
def test_far_out_they_are_held_as_well(mu, epsilon):
    """Beyond a thousand standard deviations, on either side, an asymptotic series or a tiny ball is all."""
    for signed in (epsilon, -epsilon):
        delta, slope = gaussian.gaussian(mu, signed)
        exact, steep = truth(mu, signed, 300)
        assert holds(delta, exact)
        assert holds(slope, steep)


def test_limits_are_exact():
    inf = math.inf
    for mu, epsilon, delta in (
        (inf, 3.0, 1),
        (1.0, -inf, 1),
        (1.0, inf, 0),
        (0.0, 2.0, 0),
        (0.0, 0.0, 0),
    ):
        assert gaussian.gaussian(mu, epsilon) == (delta, 0)
    with ctx.workprec(200):  # of equal laws δ(ε) = max(0, 1 − e^ε)
        found, slope = gaussian.gaussian(0.0, -0.75)
        assert found.overlaps(1 - arb(-0.75).exp())
        assert slope.overlaps(arb(-0.75).exp())


def falling(at):
    """δ(ε) = 1 above `at` is refuted, and 0 proven."""
    return lambda epsilon: arb(0) if epsilon >= at else arb(1)


@every("off", [0, 1, 2, 7, 1000])
def test_a_guess_moves_until_it_is_proven_or_refuted(off):
    """By doubling steps: at most twice as far up, or thrice as far down, as need be."""
    guess, ulp = 1.5, math.ulp(1.5)
    at = guess + off * ulp
    found = gaussian.prove_upward(guess, falling(at), 0.5)
    assert at <= found <= guess + (2 * off + 1) * ulp
    assert (found == guess) == (off == 0)
    if off > 0:
        at = guess - off * ulp
        found = gaussian.refute_downward(guess, falling(at), 0.5)
        assert guess - (3 * off + 3) * ulp <= found < at


def test_what_is_never_proven_is_infinite_and_what_is_never_refuted_nothing():
    assert gaussian.prove_upward(1.0, lambda e: arb(1), 0.5) == math.inf
    assert gaussian.prove_upward(1.0, lambda e: arb(0.5, 0.1), 0.5) == math.inf
    assert gaussian.refute_downward(1.5, lambda e: arb(0), 0.5) == 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-5.0, 2.0), st.floats(-6.0, 20.0)), min_size=1, max_size=6))
def test_the_slope_is_that_of_delta(rows):
    """For all rows at once what each has alone; ε = μ(a + μ/2) ≥ 0."""
    mu = np.array([10.0**x for x, _ in rows])
    epsilon = np.maximum(0.0, mu * (np.array([a for _, a in rows]) + mu / 2))
    delta, slope = delta_and_slope(mu, epsilon)
    for i in range(len(rows)):
        value, steep = truth(mu[i], epsilon[i])
        assert value <= delta[i] <= value * (1 + mp.mpf("2e-13")) + mp.mpf("2e-321")
        assert float(steep) == pytest.approx(slope[i], rel=1e-12)
        alone = delta_and_slope(mu[i : i + 1], epsilon[i : i + 1])
        assert (alone[0][0], alone[1][0]) == pytest.approx((delta[i], slope[i]), rel=1e-15)


def test_far_sides_are_sure():
    """And a tail beyond the doubles is not nothing."""
    for mu, epsilon, delta in (
        *((math.inf, 1.0, 1.0), (1e3, 1.0, 1.0), (0.0, 0.0, 0.0)),
        *((0.0, 3.0, 0.0), (1.0, math.inf, 0.0)),
    ):
        found, slope = delta_and_slope(np.array([mu]), np.array([epsilon]))
        assert (found[0], slope[0]) == (delta, 0.0)
    for mu, epsilon in [(1.0, 100.0), (0.1, 50.0), (1e-300, 1.0)]:
        assert 0.0 < gaussian_delta(mu, epsilon) <= 1e-320


@settings(deadline=None)
@given(st.floats(1e-3, 10.0), st.floats(0.0, 20.0))
def test_negative_losses_mirror_positive_ones(mu, epsilon):
    """δ(−ε) = 1 − e^−ε(1 − δ(ε)), from above."""
    with mp.workdps(50):
        value, _ = truth(mu, epsilon)
        mirrored = 1 - mp.exp(-mp.mpf(epsilon)) * (1 - value)
        assert mirrored <= gaussian_delta(mu, -epsilon) <= mirrored * (1 + mp.mpf("1e-12"))


@every("gamma", [0.5, 0.1, 0.02])
def test_means_of_the_laws_that_scipy_has(gamma):
    law = stats.nbinom(2.5, gamma)
    truncated = law.mean() / (1.0 - law.pmf(0))
    geometric, logarithmic = stats.geom(gamma).mean(), stats.logser(1 - gamma).mean()
    assert gaussian.upper(mean_of(gamma, 1.0)) == pytest.approx(geometric, rel=1e-14)
    assert gaussian.upper(mean_of(gamma, 0.0)) == pytest.approx(logarithmic, rel=1e-14)
    assert gaussian.upper(mean_of(gamma, 2.5)) == pytest.approx(truncated, rel=1e-12)


@every("shape", [-0.9, -0.5, 0.0, 1e-6, 0.5, 1.0, 10.0])
def test_gamma_is_the_least_double_whose_mean_is_small_enough(shape):
    for mean in (1.01, 2.0, 10.0, 1000.0):
        gamma = gamma_of(mean, shape)
        assert 0.0 < gamma < 1.0, mean
        assert gaussian.upper(mean_of(gamma, shape)) <= mean
        assert gaussian.upper(mean_of(np.nextafter(gamma, 0.0), shape)) > mean


def test_laws_that_there_are_not():
    for mean, shape, field in [
        (1.0, 0.0, "mean_trials"),
        (2e6, 0.0, "mean_trials"),
        (5.0, -1.0, "shape"),
        (5.0, 1e-9, "shape"),
    ]:
        refused(field, gamma_of, mean, shape)
    said = refused("shape", gamma_of, 1e6, -0.99999)
    assert "expected one that 1000000 trials allow" in said
