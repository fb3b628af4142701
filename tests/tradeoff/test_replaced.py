"""Gaussians on Poisson batches of which a record is replaced: against quadrature, and under attack."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp
from scipy.special import ndtr

from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import Gaussian, PoissonReplaced, PoissonSubsampled, Product, Subsampled
from pabi.tradeoff.replaced_losses import ReplacedLoss

CASES = [(0.1, 0.5), (0.3, 0.01), (1.0, 0.1), (1.0, 1e-4), (2.5, 0.9), (6.0, 0.3)]


def exactly(mu: float, p: float, e: float) -> float:
    """δ(e) in 40 digits: the excess of P over e^e·Q beyond where they are equal, found by bisection."""
    with mp.workdps(40):
        m, share, level = mp.mpf(mu), mp.mpf(p), mp.exp(mp.mpf(e))

        def ratio(z: float) -> float:
            one = share * mp.exp(m * z - m * m / 2) + 1 - share
            return one / (share * mp.exp(-m * z - m * m / 2) + 1 - share)

        low, high = mp.mpf(0), mp.mpf(200)
        for _ in range(140):
            middle = (low + high) / 2
            low, high = (middle, high) if ratio(middle) < level else (low, middle)
        first = share * mp.ncdf(m - high) + (1 - share) * mp.ncdf(-high)
        second = share * mp.ncdf(-m - high) + (1 - share) * mp.ncdf(-high)
        return float(first - level * second)


@pytest.mark.parametrize(("mu", "p"), CASES)
def test_delta_is_the_hockey_stick_divergence(mu: float, p: float):
    curve = PoissonReplaced(mu, p)
    epsilons = [share * mu * p for share in (0.0, 0.1, 1.0, 3.0)]
    for e in epsilons:
        truth = exactly(mu, p, e)
        assert truth * (1.0 - 1e-15) <= curve.delta(e) <= truth * (1.0 + 1e-12)
        mirrored = 1.0 - math.exp(-e) * (1.0 - truth)
        assert curve.delta(-e) == pytest.approx(mirrored, rel=1e-13)
        assert curve.delta(np.array([e]))[0] == pytest.approx(truth, rel=1e-9, abs=1e-11)
        assert curve.delta(np.array([e]))[0] >= truth
        low, high = curve.epsilon_bounds(truth)
        assert low - 1e-12 <= e <= high * (1.0 + 1e-12) + 1e-12
        assert high == pytest.approx(e, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("mu", "p"), CASES)
def test_the_curve_is_that_of_thresholds(mu: float, p: float):
    z = np.linspace(-5.0, 5.0, 201)
    alpha = p * ndtr(-mu - z) + (1.0 - p) * ndtr(-z)
    beta = p * ndtr(z - mu) + (1.0 - p) * ndtr(z)
    value = PoissonReplaced(mu, p)(alpha)
    assert np.all(value <= beta + 1e-12)
    assert value == pytest.approx(beta, abs=2e-4)


@pytest.mark.parametrize(("mu", "p"), CASES)
@pytest.mark.parametrize("order", [1.001, 2.0, 9.0, 70.0])
def test_renyi_divergences_are_integrals(mu: float, p: float, order: float):
    """By the trapezoidal rule, which is as good as the numbers for functions that fall like these."""
    z = np.linspace(-20.0, 2.0 * order * mu + 40.0, 400_001, dtype=np.longdouble)
    log_p, log_q = (
        np.logaddexp(
            np.log(np.longdouble(p)) - 0.5 * (z - m) ** 2, np.log1p(-np.longdouble(p)) - 0.5 * z * z
        )
        for m in (mu, -mu)
    )
    exponent = order * log_p + (1.0 - order) * log_q
    step, root = z[1] - z[0], math.sqrt(2.0 * math.pi)
    if exponent.max() > 5.0:
        top = exponent.max()
        log_moment = top + np.log(np.exp(exponent - top).sum() * step / root)
    else:  # less the tangent, whose integral is 1: what is left has one sign
        ratio = log_p - log_q
        more = np.exp(log_q) * (np.expm1(order * ratio) - order * np.expm1(ratio))
        log_moment = np.log1p(more.sum() * step / root)
    truth = float(log_moment / (order - 1.0))
    value = PoissonReplaced(mu, p).rdp(order)
    assert truth * (1.0 - 1e-9) <= value <= truth * (1.0 + 1e-7)


@pytest.mark.parametrize(("mu", "p"), CASES)
def test_cells_are_the_masses_of_intervals(mu: float, p: float):
    """Narrow ones, where the excess must not cancel, and wide ones."""
    pair = ReplacedLoss(mu, p)
    for edges in (
        mu * p * np.array([0.5, 0.5 + 1e-7, 0.5 + 1e-4, 0.6, 1.5]),
        np.array([0.0, 0.1 * mu, mu]),
    ):
        mass, excess = pair.cells(edges)
        with mp.workdps(40):
            deltas = [mp.mpf(0)] * edges.size
            for i, e in enumerate(edges.tolist()):
                places = mp.mpf(e) / 2 + mp.asinh(
                    mp.sinh(mp.mpf(e) / 2)
                    * mp.exp(mp.mpf(mu) ** 2 / 2)
                    * (1 - mp.mpf(p))
                    / mp.mpf(p)
                )
                deltas[i] = places / mp.mpf(mu)
            for i in range(mass.size):
                a, b = deltas[i], deltas[i + 1]
                share = mp.mpf(p)
                one = share * (mp.ncdf(b - mu) - mp.ncdf(a - mu)) + (1 - share) * (
                    mp.ncdf(b) - mp.ncdf(a)
                )
                other = share * (mp.ncdf(b + mu) - mp.ncdf(a + mu)) + (1 - share) * (
                    mp.ncdf(b) - mp.ncdf(a)
                )
                own = one - mp.exp(mp.mpf(edges[i])) * other
                # An edge is a double: its place is known to a relative 1e-16, and the cell may be 1e-7 long.
                assert mass[i] == pytest.approx(float(one), rel=1e-8)
                assert excess[i] == pytest.approx(float(own), rel=1e-8)


@pytest.mark.parametrize(("mu", "p"), [(1.0, 0.1), (0.4, 0.6), (2.5, 0.3)])
def test_no_other_records_are_worse(mu: float, p: float):
    """An attack: two vectors of norm at most μ in the plane, at any angle, summed over the plane."""
    curve, x = PoissonReplaced(mu, p), np.linspace(-8.0, 8.0, 641)
    area = (x[1] - x[0]) ** 2
    plane = np.stack(np.meshgrid(x, x), axis=-1)

    def density(v: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.sum((plane - v) ** 2, axis=-1)) / (2.0 * math.pi)

    zero, worst = density(np.zeros(2)), {}
    for angle in (0.0, 1.0, 2.0, 3.0, math.pi):
        for length in (0.0, 0.6, 1.0):
            one = np.array([mu, 0.0])
            other = length * mu * np.array([math.cos(angle), math.sin(angle)])
            first = p * density(one) + (1.0 - p) * zero
            second = p * density(other) + (1.0 - p) * zero
            for e in (0.0, 0.1, 0.5, 1.5):
                for left, right in ((first, second), (second, first)):
                    delta = float(np.maximum(left - math.exp(e) * right, 0.0).sum()) * area
                    # The sum over a grid with corners errs by its square.
                    assert delta <= curve.delta(e) + 1e-4
                    worst[angle, length] = max(worst.get((angle, length), 0.0), delta)
    assert max(worst, key=worst.__getitem__) == (math.pi, 1.0)
    assert worst[math.pi, 1.0] == pytest.approx(curve.delta(0.0), abs=1e-4)


@pytest.mark.parametrize(("mu", "p"), CASES)
def test_it_lies_between_what_is_known_of_it(mu: float, p: float):
    """Blank in place of another record reveals no more; the bound that any mechanism of 2μ has, no less."""
    for e in (0.0, 0.3 * mu * p, mu):
        value = PoissonReplaced(mu, p).delta(e)
        assert PoissonSubsampled(mu, p).delta(e) <= value * (1.0 + 1e-12)
        assert value <= Subsampled(Gaussian(2.0 * mu), p).delta(e) * (1.0 + 1e-12)


def test_at_the_ends_it_is_what_it_must_be():
    assert PoissonReplaced(1.5, 1.0).epsilon(1e-5) == Gaussian(3.0).epsilon(1e-5)
    assert PoissonReplaced(1.5, 0.0).epsilon(0.0) == PoissonReplaced(0.0, 0.4).epsilon(0.0) == 0.0
    assert PoissonReplaced(math.inf, 0.3).delta(50.0) == pytest.approx(0.3)
    assert PoissonReplaced(math.inf, 0.3).epsilon(0.2) == math.inf
    assert PoissonReplaced(math.inf, 0.3).epsilon(0.3) == 0.0
    assert PoissonReplaced(200.0, 0.3).delta(5.0) == pytest.approx(0.3)
    assert Product([(PoissonReplaced(200.0, 0.01), 2)]).epsilon(0.5) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("arguments", [(-1.0, 0.5), (1.0, 1.5), (math.nan, 0.5), ("1", 0.5)])
def test_numbers_out_of_range_are_refused(arguments: tuple[float, float]):
    with pytest.raises(InvalidInput, match=r"^(mu|probability): "):
        PoissonReplaced(*arguments)
