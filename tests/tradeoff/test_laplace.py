"""The Laplace mechanism against the truth: sums over densities, exact losses, and attacks on vectors."""

import math
from functools import partial

import numpy as np
import pytest
from mpmath import mp
from scipy.stats import laplace

from pabi.tradeoff import Gaussian, Laplace, Product, discrete_laplace
from pabi.tradeoff.numerical import ComposedLoss
from support.every_case import every

ORDERS = (1.0001, 1.5, 4.0, 60.0)
CASES = [(e, p) for e in (1e-3, 0.4, 3.0) for p in (1e-3, 0.3, 1.0)]


@every("p", [1e-3, 0.3, 0.9])
def test_the_curve_of_a_batch_is_below_every_test_of_either_order_and_close(p):
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


@every("epsilon, p", [(0.7, 1.0), (2.0, 0.3), (5.0, 1e-3)])
def test_cells_hold_all_of_both_data_sets(epsilon, p):
    """The other data set has e^-l·(mass - excess) of a cell that begins at l; both have 1 in all."""
    for pair in Laplace(epsilon, p).losses():
        low, high = pair.reach(0.0, 0.0)
        for edges in (np.linspace(low - 0.1, high + 0.1, k) for k in (3, 8, 400)):
            mass, excess = pair.cells(edges)
            assert mass.sum() == pytest.approx(1.0, rel=1e-12)
            assert np.exp(-edges[:-1]) @ (mass - excess) == pytest.approx(1.0, rel=1e-12)


RARE = [(1.0, 0.5, 1.0 + 2.0**-50), (20.0, 1e-3, 1.0 + 1e-9), (100.0, 1e-40, 3.0)]
RARE += [(200.0, 1e-70, 2.0), (200.0, 1e-70, 1.0001)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "cases", [[case] for case in RARE] + [[(*case, order) for case in CASES] for order in ORDERS]
)
def test_renyi_divergences_are_integrals(cases):
    """Of rare records and of orders near 1 too: E L^b - 1 is the mean of L^b - 1 - b(L - 1)."""
    for epsilon, p, order in cases:
        with mp.workdps(60 if cases[0] in RARE else 40):
            e, a = mp.mpf(epsilon), mp.mpf(order)

            def moment(power, e=e, p=p):
                def more(y):
                    ratio = 1 - p + p * mp.exp(y)
                    return ratio**power - 1 - power * (ratio - 1)

                def inner(y):
                    return more(y) * mp.exp(-(y + e) / 2) / 4

                ends = more(-e) / 2 + more(e) * mp.exp(-e) / 2
                return ends + mp.quad(inner, mp.linspace(-e, e, 5 if e < 10 else 101))

            other = moment(1 - a) if e < 10 else 0
            truth = mp.log1p(max(moment(a), other)) / (a - 1)
            curve = Laplace(epsilon, p)
            assert truth <= curve.rdp(order) <= truth * mp.mpf(1.0 + 2e-7), (epsilon, p, order)
            assert truth <= curve.zcdp * order * (1.0 + 1e-9)


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


SHIFTS = [(Laplace, x) for x in ((0.5, 0.5), (0.9, 0.1), (0.3, 0.3, 0.4), (1.0, 2.0))]
SHIFTS += [(partial(discrete_laplace, 0.4), x) for x in ((1, 1), (2, 3), (1, 1, 1, 1))]


@every("noisy, shifts", SHIFTS)
def test_a_vector_moved_by_as_much_in_l1_norm_reveals_no_more(noisy, shifts):
    """An attack on "one number is the worst": the product of the entries, from below."""
    one = noisy(sum(shifts))
    several = Product([(noisy(shift), 1) for shift in shifts])
    for share in (0.05, 0.1, 0.5, 0.9):
        e = share * one.epsilon(0.0)
        low, _ = several.delta_bounds(e)
        assert 0.0 < low < one.delta(e)


@pytest.mark.parametrize("curve", [Laplace(50.0, 1e-9), Laplace(20.0, 1e-4), Laplace(299.0, 0.5)])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
def test_a_product_is_never_below_a_factor_however_far_apart_its_losses(curve, delta):
    """Nor above the sum of what the factors are at half of δ each."""
    product = curve.compose(Gaussian(1.0))
    low, high = product.epsilon_bounds(delta)
    least = max(Gaussian(1.0).epsilon_bounds(delta)[0], curve.epsilon_bounds(delta)[0])
    assert least * (1.0 - 1e-12) <= high
    assert low <= high
    assert product.epsilon(delta) <= curve.epsilon(0.0) + Gaussian(1.0).epsilon(delta) + 1e-9


@every("epsilon", [301.0, 1e6, 1e308])
def test_losses_that_serve_no_reader_count_as_everything(epsilon):
    assert Laplace(epsilon).compose(Gaussian(1.0)).epsilon(1e-5) == math.inf
    batch = Laplace(epsilon, 0.01).self_compose(2)
    assert batch.epsilon(0.02) == pytest.approx(0.0, abs=1e-9)
    assert batch.epsilon(0.005) == math.inf
    assert Laplace(epsilon).epsilon(1e-5) == pytest.approx(epsilon)


@every("epsilon, p", [(30.0, 1.0 - 2.0**-43), (33.0, 1.0 - 2.0**-44), (28.0, 1.0 - 2.0**-42)])
def test_the_largest_loss_of_a_record_that_is_hardly_ever_left_out(epsilon, p):
    """-log(1 - p + p·e^-ε) in the second order, half of whose mass it has: at x below δ is (1 - e^-x)/2."""
    exact = float(-mp.log((1 - mp.mpf(p)) + mp.mpf(p) * mp.exp(-mp.mpf(epsilon))))
    pair = Laplace(epsilon, p).losses()[1]
    assert pair.most == pytest.approx(exact, rel=1e-14)
    x = 1e-6
    _, delta = ComposedLoss(((pair, 1),)).delta_bounds(exact - x, 1e-3)
    assert delta >= -0.5 * math.expm1(-x) * (1.0 - 1e-6)


# p·e^ε from next to nothing to more than 1, powers of e beyond all doubles among them.
RARE = [(31.0, 1e-20), (100.0, 1e-50), (300.0, 1e-140), (300.0, 1e-131), (35.0, 0.5)]


@every("epsilon, p", RARE)
@every("count", [2, 1000])
def test_at_delta_0_epsilon_is_the_sum_of_the_largest_losses_or_hardly_more(epsilon, p, count):
    with mp.workdps(200):
        most = count * mp.log1p(mp.mpf(p) * mp.expm1(epsilon))
        read = Product([(Laplace(epsilon, p), count)]).epsilon(0.0)
        assert most <= read <= most * (1 + 1e-13)


@every("epsilon, p", [*RARE, (720.0, 1e-310), (1000.0, 1e-5), (1e4, 0.3)])
def test_renyi_divergences_of_whole_orders_where_powers_of_e_are_no_doubles(epsilon, p):
    """E L^2 and E L^3 of L = 1 - p + p·e^y are sums of moments of e^y."""

    def moment(a):
        x = mp.mpf(epsilon)
        return (a * mp.exp((a - 1) * x) + (a - 1) * mp.exp(-a * x)) / (2 * a - 1)

    with mp.workdps(1000):
        q, curve = mp.mpf(p), Laplace(epsilon, p)
        square, cube = moment(2) - 1, moment(3) - 3 * moment(2) + 2
        two, three = mp.log1p(q**2 * square), mp.log1p(3 * q**2 * square + q**3 * cube) / 2
        assert two <= curve.rdp(2.0) <= two * (1 + 2e-8)
        assert three <= curve.rdp(3.0) <= three * (1 + 2e-8)
