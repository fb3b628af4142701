"""Balls of δ and of its slope hold the truth, and their ends are the nearest doubles on the right side."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi.convert import balls


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


def truth(mu, epsilon, digits=120):
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
    top, bottom = balls.upper(ball), balls.lower(ball)
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
        assert balls.upper(ball) == math.inf
        assert balls.lower(ball) == -math.inf


def test_tiny_is_positive_and_below_every_double():
    low, high = ends(balls.tiny())
    assert low <= 0 < Fraction(1, 2**2000) <= high <= Fraction(1, 2**1998)
    assert balls.upper(balls.tiny()) == 5e-324


@settings(deadline=None)
@given(
    st.floats(-6.0, 2.0).map(lambda x: 10.0**x),
    st.floats(-8.0, 8.0),
    st.sampled_from([40, 96, 200]),
)
def test_delta_and_its_slope_are_held(mu, a, bits):
    """ε = μ(a + μ/2), where δ is anything from nearly 1 to 10⁻¹⁵; of either sign."""
    epsilon = mu * (a + mu / 2)
    delta, slope = balls.gaussian(mu, epsilon, bits)
    exact, steep = truth(mu, epsilon)
    assert holds(delta, exact)
    assert holds(slope, steep)
    assert delta.rel_accuracy_bits() >= bits - 2


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(0.5, 600.0), (2.0, 2500.0), (1500.0, 5e5), (1e-4, 0.2), (3000.0, 1e3)]
)
def test_far_out_they_are_held_as_well(mu, epsilon):
    """Beyond a thousand standard deviations, on either side, an asymptotic series or a tiny ball is all."""
    for signed in (epsilon, -epsilon):
        delta, slope = balls.gaussian(mu, signed)
        exact, steep = truth(mu, signed, 300)
        assert holds(delta, exact)
        assert holds(slope, steep)


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [
        (math.inf, 3.0, 1),
        (1.0, -math.inf, 1),
        (1.0, math.inf, 0),
        (0.0, 2.0, 0),
        (0.0, 0.0, 0),
    ],
)
def test_limits_are_exact(mu, epsilon, delta):
    found, slope = balls.gaussian(mu, epsilon)
    assert found == delta
    assert slope == 0


def test_without_privacy_loss_delta_is_that_of_equal_laws():
    """μ = 0: δ(ε) = max(0, 1 − e^ε)."""
    with ctx.workprec(200):
        found, slope = balls.gaussian(0.0, -0.75)
        assert found.overlaps(1 - arb(-0.75).exp())
        assert slope.overlaps(arb(-0.75).exp())


# From a guess to a proof.


def falling(at):
    """δ(ε) = 1 above `at` is refuted, and 0 proven."""
    return lambda epsilon: arb(0) if epsilon >= at else arb(1)


@pytest.mark.parametrize("off", [0, 1, 2, 7, 1000])
def test_a_guess_moves_up_until_it_is_proven(off):
    """By doubling steps: at most twice as far, and one more, as need be."""
    guess = 1.5
    at = guess + off * math.ulp(guess)
    found = balls.prove_upward(guess, falling(at), 0.5)
    assert at <= found <= guess + (2 * off + 1) * math.ulp(guess)
    assert (found == guess) == (off == 0)


def test_what_is_never_proven_is_infinite():
    assert balls.prove_upward(1.0, lambda e: arb(1), 0.5) == math.inf
    assert balls.prove_upward(1.0, lambda e: arb(0.5, 0.1), 0.5) == math.inf


@pytest.mark.parametrize("off", [1, 2, 7, 1000])
def test_a_bound_moves_down_until_it_is_refuted(off):
    epsilon = 1.5
    at = epsilon - off * math.ulp(epsilon)
    found = balls.refute_downward(epsilon, falling(at), 0.5)
    assert epsilon - (3 * off + 3) * math.ulp(epsilon) <= found < at
    assert balls.refute_downward(epsilon, lambda e: arb(0), 0.5) == 0.0
