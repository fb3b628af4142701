"""The Laplace mechanism against the truth: sums over densities, exact losses, and attacks on vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp
from scipy.stats import laplace

from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import Gaussian, Laplace, Product, TradeOff, discrete_laplace

EPSILONS = (0.0, 1e-3, 0.05, 0.3, 0.7, 1.5, 2.9)
CASES = [(e, p) for e in (1e-3, 0.4, 3.0) for p in (1e-3, 0.3, 1.0)]


def density(x: float, at: float = 0.0) -> float:
    return mp.exp(-abs(x - at)) / 2


def hockey_stick(epsilon: float, p: float, e: float, *, turned: bool) -> float:
    """δ(e) of the sampled pair by quadrature in 30 digits, from corner to corner of the integrand."""
    with mp.workdps(30):
        share = mp.mpf(p)

        def difference(x: float) -> float:
            first = share * density(x) + (1 - share) * density(x, epsilon)
            second = density(x, epsilon)
            one, other = (second, first) if turned else (first, second)
            return mp.mpf(one) - mp.exp(e) * other

        def positive(x: float) -> float:
            return max(mp.mpf(0), difference(x))

        low, high = mp.mpf(0), mp.mpf(epsilon)
        away = [0.5 * 2**k for k in range(8)]
        corners = [low, high, *(-x for x in away), *(high + x for x in away)]
        if difference(low) * difference(high) < 0:
            corners.append(mp.findroot(difference, (low, high), solver="anderson"))
        return float(mp.quad(positive, sorted(corners)))


@pytest.mark.parametrize(("epsilon", "p"), CASES)
@pytest.mark.one_in(2)
def test_delta_is_the_hockey_stick_divergence_of_both_orders(epsilon: float, p: float):
    curve = Laplace(epsilon, p)
    for e in EPSILONS:
        truth = max(hockey_stick(epsilon, p, e, turned=turned) for turned in (False, True))
        assert curve.delta(e) == pytest.approx(truth, rel=1e-12, abs=1e-25)
        assert curve.delta(e) >= truth * (1.0 - 1e-14) - 1e-25
    signed = np.array([s * e for e in EPSILONS for s in (-1.0, 1.0)])
    scalars = np.array([curve.delta(float(e)) for e in signed])
    assert np.all(curve.delta(signed) >= scalars - 1e-16)
    assert curve.delta(signed) == pytest.approx(scalars, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize(("epsilon", "p"), CASES)
def test_epsilon_is_where_delta_is_met(epsilon: float, p: float):
    curve = Laplace(epsilon, p)
    for share in (1e-9, 1e-3, 0.5):
        delta = share * curve.delta(0.0)
        low, high = curve.epsilon_bounds(delta)
        assert 0.0 < low <= high <= low * (1.0 + 1e-12)
        assert curve.delta(high) <= delta * (1.0 + 1e-9)
        assert curve.delta(high * (1.0 - 1e-6)) > delta
    assert curve.epsilon(0.0) == pytest.approx(math.log1p(p * math.expm1(epsilon)), rel=1e-12)
    assert curve.epsilon(curve.delta(0.0)) == 0.0
    assert curve.epsilon(1.0) == 0.0


def test_the_curve_is_that_of_the_best_tests():
    """Tests reject below a threshold; the level of each is exact, and so is its power."""
    for epsilon in (0.2, 2.0):
        thresholds = np.linspace(-4.0, epsilon + 4.0, 401)
        alpha, beta = laplace.cdf(thresholds, epsilon), laplace.sf(thresholds)
        value = Laplace(epsilon)(alpha)
        assert np.all(value <= beta + 1e-15)
        assert value == pytest.approx(beta, abs=1e-14)


@pytest.mark.parametrize("p", [1e-3, 0.3, 0.9])
def test_the_curve_of_a_batch_is_below_every_test_of_either_order_and_close(p: float):
    thresholds = np.linspace(-4.0, 6.0, 301)
    plain, seen = laplace.cdf(thresholds, 2.0), laplace.cdf(thresholds)
    mixed = p * seen + (1.0 - p) * plain
    remove, add = (plain, 1.0 - mixed), (1.0 - mixed, plain)
    curve = Laplace(2.0, p)
    for alpha, beta in (remove, add):
        assert np.all(curve(np.clip(alpha, 0.0, 1.0)) <= beta + 1e-12)
    # A symmetrised function is made of the parts of both on either side of the diagonal, and a chord.
    outer = plain < 0.05
    assert curve(plain[outer]) == pytest.approx(1.0 - mixed[outer], abs=1e-5)


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_beyond_the_largest_loss_nothing_is_left(p: float):
    curve = Laplace(1.0, p)
    assert curve.delta(1e308) == curve.delta([1e308])[0] == curve.delta(1.0) == 0.0
    assert curve.delta(math.nextafter(curve.epsilon(0.0), 0.0)) > 0.0
    assert curve.delta(-1e308) == 1.0


@pytest.mark.parametrize(("epsilon", "p"), CASES)
@pytest.mark.parametrize("order", [1.0001, 1.5, 4.0, 60.0])
@pytest.mark.one_in(3)
def test_renyi_divergences_are_integrals(epsilon: float, p: float, order: float):
    def moment(a: float, b: float) -> float:
        """E of the power `a` of P's and `b` of Q's density, in 30 digits."""

        def at(x: float) -> float:
            q = density(x, epsilon)
            return (p * density(x) + (1 - mp.mpf(p)) * q) ** a * q**b

        return mp.quad(
            at,
            [
                -100,
                -20,
                -5,
                -1,
                0,
                mp.mpf(epsilon) / 2,
                epsilon,
                epsilon + 1,
                epsilon + 5,
                epsilon + 20,
                epsilon + 100,
            ],
        )

    with mp.workdps(30):
        worst = max(moment(order, 1 - order), moment(1 - order, order))
        truth = float(mp.log(worst) / (order - 1))
    # Quadrature of corners in 30 digits is good to 1e-11 of 1.
    value = Laplace(epsilon, p).rdp(order)
    assert value >= truth * (1.0 - 1e-9) - 1e-10
    assert value == pytest.approx(truth, rel=1e-6, abs=1e-10)
    assert truth <= Laplace(epsilon, p).zcdp * order * (1.0 + 1e-9) + 1e-10


@pytest.mark.parametrize(
    ("epsilon", "p", "order"),
    [
        (1.0, 0.5, 1.0 + 2.0**-50),
        (20.0, 1e-3, 1.0 + 1e-9),
        (100.0, 1e-40, 3.0),
        (200.0, 1e-70, 2.0),
        (200.0, 1e-70, 1.0001),
    ],
)
def test_renyi_divergences_of_rare_records_and_of_orders_near_1_keep_their_digits(
    epsilon: float, p: float, order: float
):
    """Of the first order of the pair: E L^α - 1 is the mean of L^α - 1 - α(L - 1)."""
    with mp.workdps(60):
        e, a = mp.mpf(epsilon), mp.mpf(order)

        def more(y: float) -> float:
            ratio = 1 - p + p * mp.exp(y)
            return ratio**a - 1 - a * (ratio - 1)

        def inner(y: float) -> float:
            return more(y) * mp.exp(-(y + e) / 2) / 4

        whole = more(-e) / 2 + more(e) * mp.exp(-e) / 2 + mp.quad(inner, mp.linspace(-e, e, 101))
        truth = mp.log1p(whole) / (a - 1)
        assert truth <= Laplace(epsilon, p).rdp(order) <= truth * mp.mpf(1.0 + 2e-7)


def convolved(epsilon: float, k: int, e: float, points: int = 100_001) -> tuple[float, float]:
    """(lower, upper) bounds on δ(e) of k Laplace releases: losses rounded down, and up, to a grid."""
    cells = (points - 1) // 2
    step = epsilon / cells
    edges = np.linspace(-epsilon, epsilon, points)
    inner = np.diff(0.5 * np.exp(0.5 * (edges - epsilon)))
    results = []
    for rounded in ([*inner.tolist(), 0.0], [0.0, *inner.tolist()]):
        mass = np.array(rounded)
        mass[0] += 0.5 * math.exp(-epsilon)
        mass[-1] += 0.5
        size = 1 << (k * points).bit_length()
        total = np.fft.irfft(np.fft.rfft(mass, size) ** k, size)[: k * (points - 1) + 1]
        losses = -k * epsilon + step * np.arange(total.size)
        high = losses > e
        results.append(float(np.sum(total[high] * -np.expm1(e - losses[high]))))
    return results[0], results[1]


@pytest.mark.parametrize(
    ("epsilon", "k", "e"), [(0.5, 2, 0.3), (0.1, 8, 0.4), (1.5, 3, 2.0), (0.05, 20, 0.3)]
)
def test_a_product_is_the_sum_of_losses(epsilon: float, k: int, e: float):
    low, high = convolved(epsilon, k, e)
    below, above = Product([(Laplace(epsilon), k)]).delta_bounds(e)
    assert below <= high + 1e-12
    assert above >= low - 1e-12
    assert above <= high * 1.01


def test_a_product_with_a_gaussian_is_an_average_over_its_losses():
    mu, epsilon = 0.4, 0.5
    product = Gaussian(mu).compose(Laplace(epsilon))
    y, weights = np.polynomial.legendre.leggauss(2000)
    y, weights = epsilon * y, epsilon * weights * 0.25 * np.exp(0.5 * epsilon * (y - 1.0))
    for e in (0.1, 0.6, 1.2):
        parts = Gaussian(mu).delta(e - y) @ weights
        ends = 0.5 * Gaussian(mu).delta(e - epsilon)
        ends += 0.5 * math.exp(-epsilon) * Gaussian(mu).delta(e + epsilon)
        truth = parts + ends
        low, high = product.delta_bounds(e, 1e-4)
        assert low <= truth * (1.0 + 1e-9)
        assert truth <= high * (1.0 + 1e-9)
        at = product.epsilon(truth)
        assert e * (1.0 - 1e-9) <= at <= e * (1.0 + 1e-3)


def test_epsilon_close_to_the_sum_of_the_largest_losses_takes_no_transform():
    """Between what the outcomes of the largest loss alone reveal and the sum itself."""
    product = Product([(Laplace(1.0), 2)])
    low, high = product.epsilon_bounds(1e-9)
    assert 2.0 - 5e-9 < low < 2.0 <= high < 2.0 + 1e-12


@pytest.mark.parametrize("shifts", [(0.5, 0.5), (0.9, 0.1), (0.3, 0.3, 0.4), (1.0, 2.0)])
def test_a_vector_moved_by_as_much_in_l1_norm_reveals_no_more(shifts: tuple[float, ...]):
    """An attack on "one number is the worst": the product of the entries, from below."""
    one = Laplace(math.fsum(shifts))
    several = Product([(Laplace(shift), 1) for shift in shifts])
    for share in (0.1, 0.5, 0.9):
        e = share * one.epsilon_0
        low, _ = several.delta_bounds(e)
        assert 0.0 < low < one.delta(e)


def test_it_lies_above_its_discrete_form():
    """Discrete noise has the same δ at the losses that it can have, and chords between them."""
    a, steps = 0.3, 4
    one, other = Laplace(a * steps), discrete_laplace(a, steps)
    for k in range(steps // 2 + 1):
        at = a * (steps - 2 * k)
        assert other.delta(at) == pytest.approx(one.delta(at), rel=1e-12, abs=1e-14)
    assert other.delta(a * (steps - 1)) > one.delta(a * (steps - 1))


@pytest.mark.parametrize("curve", [Laplace(0.0), Laplace(2.0, 0.0)])
def test_what_moves_nothing_reveals_nothing(curve: TradeOff):
    assert curve.orientation == "symmetric"
    assert curve.delta(0.0) == 0.0
    assert curve.epsilon(0.0) == 0.0
    assert curve.rdp(3.0) == 0.0
    assert curve(0.25) == pytest.approx(0.75)
    assert curve.compose(Gaussian(1.0)).epsilon(1e-5) == pytest.approx(
        Gaussian(1.0).epsilon(1e-5), rel=2e-3
    )


@pytest.mark.parametrize("arguments", [(-1.0,), (math.inf,), (math.nan,), (1.0, -0.1), (1.0, 1.1)])
def test_numbers_out_of_range_are_refused(arguments: tuple[float, ...]):
    with pytest.raises(InvalidInput, match=r"^(epsilon|probability): "):
        Laplace(*arguments)


@pytest.mark.parametrize("curve", [Laplace(50.0, 1e-9), Laplace(20.0, 1e-4), Laplace(299.0, 0.5)])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
def test_a_product_is_never_below_a_factor_however_far_apart_its_losses(
    curve: Laplace, delta: float
):
    """Nor above the sum of what the factors are at half of δ each."""
    product = curve.compose(Gaussian(1.0))
    low, high = product.epsilon_bounds(delta)
    least = max(Gaussian(1.0).epsilon_bounds(delta)[0], curve.epsilon_bounds(delta)[0])
    assert least * (1.0 - 1e-12) <= high
    assert low <= high
    assert product.epsilon(delta) <= curve.epsilon(0.0) + Gaussian(1.0).epsilon(delta) + 1e-9


@pytest.mark.parametrize("epsilon", [301.0, 1e6, 1e308])
def test_losses_that_serve_no_reader_count_as_everything(epsilon: float):
    assert Laplace(epsilon).compose(Gaussian(1.0)).epsilon(1e-5) == math.inf
    batch = Laplace(epsilon, 0.01).self_compose(2)
    assert batch.epsilon(0.02) == pytest.approx(0.0, abs=1e-9)
    assert batch.epsilon(0.005) == math.inf
    assert Laplace(epsilon).epsilon(1e-5) == pytest.approx(epsilon)
