"""The printed tables of Bok, Su, Altschuler 2024, from the bounds they tabulate."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from pabi.convert import gdp_to_epsilon, rdp_to_epsilon
from pabi.literature import bok, mcsherry_talwar, ye_shokri
from support.bok_tables import TABLE_7, TABLE_8, TABLE_9, TABLES_10_TO_12

MNIST = {"L": 10.0, "b": 1500, "noise_std": 0.01}


def prints(value, printed):
    """Whether a value rounds to the printed decimals."""
    decimals = len(printed.split(".")[1])
    return abs(value - float(printed)) <= 0.5 * 10.0**-decimals + 1e-12


# epochs; GDP composition: μ, ε; then λ: Theorem 4.5's μ and ε, Ye and Shokri's ε (Tables 1, 3 and 4).
TABLE_4 = [
    (50, "4.71", "30.51", {0.002: ("0.99", "4.34", "5.82"), 0.004: ("0.99", "4.32", "5.61")}),
    (100, "6.67", "49.88", {0.002: ("1.24", "5.60", "7.61"), 0.004: ("1.22", "5.51", "7.00")}),
    (200, "9.43", "83.83", {0.002: ("1.59", "7.58", "9.88"), 0.004: ("1.51", "7.09", "8.38")}),
]


def test_table_4():
    for epochs, mu, epsilon, by_l2 in TABLE_4:
        composed = float(bok.theorem_4_4(epochs=epochs, **MNIST))
        assert prints(composed, mu), (epochs, mu)
        assert prints(gdp_to_epsilon(composed, 1e-5), epsilon), (epochs, mu)
        for l2, (own_mu, own_epsilon, rdp_epsilon) in by_l2.items():
            run = {"slope": 1.0 - 0.05 * l2, "batches_per_epoch": 40, "epochs": epochs, **MNIST}
            own = float(bok.theorem_4_5(**run))
            assert prints(own, own_mu), (epochs, mu)
            assert prints(gdp_to_epsilon(own, 1e-5), own_epsilon), (epochs, mu)
            renyi = float(ye_shokri.theorem_3_3(order=2.0, **run))
            assert prints(rdp_to_epsilon(rho=0.5 * renyi, delta=1e-5), rdp_epsilon), (epochs, mu)


# ε of composition with batches of fixed size (Table 4, NoisySGD), computed there to 10⁻³.
@pytest.mark.parametrize(("epochs", "epsilon"), [(50, 4.44), (100, 6.65), (200, 10.11)])
def test_table_4_sampled(epochs, epsilon):
    curve = bok.theorem_4_8(L=10.0, b=1500, n=60_000, noise_std=0.01, steps=40 * epochs).value
    low, high = curve.epsilon_bounds(1e-5)
    assert low - 0.006 <= epsilon <= high + 0.006  # printed to 0.005, computed to 0.001


def test_table_7():
    for slope, steps, printed in TABLE_7:
        mu = float(bok.theorem_4_2(L=0.1, n=1, noise_std=1.0, slope=slope, steps=steps))
        assert prints(mu, printed), (slope, steps)


def test_table_8():
    """At the printed t* composition and Theorem 4.3 meet, D = 1, σ = 8."""
    for ratio, step_size, threshold, printed in TABLE_8:
        mu = bok.theorem_4_3(
            L=ratio, n=1, noise_std=8.0, step_size=step_size, diameter=1.0, steps=threshold
        )
        assert prints(float(mu), printed), (ratio, step_size)
        composed = float(bok.theorem_4_1(L=ratio, n=1, noise_std=8.0, steps=threshold))
        assert composed == pytest.approx(float(mu), rel=1e-12), (ratio, step_size)


def test_table_9():
    for length, slope, epochs, printed in TABLE_9:
        mu = bok.theorem_4_5(
            L=0.2, b=1, noise_std=1.0, slope=slope, batches_per_epoch=length, epochs=epochs
        )
        assert prints(float(mu), printed), (length, slope)


def test_tables_10_to_12():
    """D = 1, σ = 3: μ* as printed, and the printed E* from the slip it comes from."""
    for length, ratio, step_size, printed_epochs, printed in TABLES_10_TO_12:
        run = {
            "L": ratio,
            "b": 1,
            "step_size": step_size,
            "diameter": 1.0,
            "batches_per_epoch": length,
        }
        mu = float(bok.theorem_4_6(noise_std=3.0, epochs=10**6, **run))
        assert prints(mu, printed), (length, ratio)
        assert float(bok.tables_10_to_12(**run)) == printed_epochs, (length, ratio)
        # In exact arithmetic: where Theorem 4.4 reaches Theorem 4.6, and that the printed E* is before it.
        once, eta = Fraction(str(ratio)) ** 2, Fraction(str(step_size))
        reach = 1 / (eta * Fraction(str(ratio)))
        square = once + 3 * Fraction(str(ratio)) / (eta * length) + once / length * math.ceil(reach)
        assert mu == pytest.approx(math.sqrt(square) / 3.0, rel=1e-12), (length, ratio)
        right = math.ceil(square / once)
        assert printed_epochs < right, (length, ratio)
        composed = float(bok.theorem_4_4(L=ratio, b=1, noise_std=3.0, epochs=printed_epochs))
        assert composed < mu, (length, ratio)


def test_crossover_of_the_exponential_mechanism():
    """The plain (2LD, 0) guarantee and Corollary 5.4 cross at LD = 0.676… (their §D.4)."""

    def gap(x):
        mu = float(bok.corollary_5_4(L=x, diameter=1.0))
        epsilon = float(mcsherry_talwar.exponential_mechanism(L=x, diameter=1.0))
        return math.log((1.0 - ndtr(-0.5 * mu)) / ndtr(-0.5 * mu)) - epsilon

    assert brentq(gap, 0.1, 2.0, xtol=1e-14) == pytest.approx(0.6763896796400565, abs=1e-12)


def test_theorem_4_6_in_the_example_where_optimal_shifts_are_cheaper():
    mu = bok.theorem_4_6(
        L=1.0, b=1, noise_std=1.0, step_size=1.0, diameter=5.0, batches_per_epoch=10, epochs=40
    )
    assert float(mu) == pytest.approx(math.sqrt(3.0), rel=1e-15)
