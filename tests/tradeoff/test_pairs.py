"""Moments of sampled Gaussians of any size, and what products of very large ones claim."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mp
from scipy import stats
from scipy.integrate import trapezoid

from pabi import FixedSize, Loss, NoisySGD, Poisson, tradeoff
from pabi.tradeoff import (
    ApproxDP,
    BoundedRange,
    Gaussian,
    PoissonSubsampled,
    Product,
    SecretMixture,
    Subsampled,
)
from pabi.tradeoff.halves import Half
from pabi.tradeoff.law import MixtureLaw
from support.every_case import every


def log_ratio(mu, p, z):
    """log L(z) of a Gaussian that is drawn."""
    return np.logaddexp(math.log1p(-p), math.log(p) + mu * z - 0.5 * mu * mu)


def log_moment(mu, p, power, symmetrised=False):
    """log E_Q L^(1 + power), or log E e^(power·Y) of the symmetrised pair."""
    half = Half.single(mu, mu, p)
    if symmetrised:
        return MixtureLaw(half, half).log_moment(power)
    law = MixtureLaw.of(half)
    return law.log_moment(power) if power > 0.0 else law.reversed.log_moment(-1.0 - power)


REACH = 12.0  # what is farther from all modes is below e⁻⁷² of them


def integrated(mu, p, order):
    """log E_Q L^order by a fine sum around everything that may matter: both modes and where they meet."""
    meet = 0.5 * mu + math.log((1.0 - p) / p) / mu
    around = np.linspace(-REACH, REACH, 60_001)
    z = np.unique(np.concatenate([m + around for m in (0.0, meet, mu, order * mu)]))
    ratio, density = log_ratio(mu, p, z), -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
    exponent = order * ratio + density
    top = float(exponent.max())
    if top > 1.0:
        return top + math.log(float(trapezoid(np.exp(exponent - top), z)))
    # E L = 1, so that what L^order has more than its tangent at L = 1 has the mean E L^order - 1.
    plain = np.exp(density)
    more = np.exp(exponent) - plain - order * (np.exp(ratio + density) - plain)
    return math.log1p(float(trapezoid(more, z)))


OF_ONE = (1e-6, 1e-2, 0.5, 0.9), (1e-4, 1e-2, 0.1, 1.0, 10.0), 1e-6
OF_THE_OTHER = (1e-3, 0.05, 0.3), (-1.1, -4.0, -9.0, -40.0), 1e-9
SUMS = [(mu, *OF_ONE) for mu in (5.0, 40.0, 99.0, 101.0, 400.0, 600.0, 1e3, 1e4, 1e6)]
SUMS += [(mu, *OF_THE_OTHER) for mu in (0.5, 2.0, 3.0, 8.0, 40.0)]


@pytest.mark.parametrize(("mu", "shares", "powers", "rel"), SUMS)
def test_moments_are_those_of_a_fine_sum(mu, shares, powers, rel):
    for p, power in itertools.product(shares, powers):
        truth = pytest.approx(integrated(mu, p, 1.0 + power), rel=rel, abs=1e-12)
        assert log_moment(mu, p, power) == truth, (p, power)


@pytest.mark.parametrize(("mu", "p"), [(1.0, 1e-6), (4.5, 1e-14), (5.0, 1e-20), (8.0, 1e-50)])
def test_moments_of_what_is_hardly_ever_drawn(mu, p):
    """E_Q L² is 1 + p²·(e^(μ²) - 1), most of which is around 2μ, where Q has next to nothing."""
    exact = p * p * math.expm1(mu * mu)
    secret = SecretMixture([0.0, mu], [1.0 - p, p])
    for curve in (PoissonSubsampled(mu, p), PoissonSubsampled(mu, p, "remove"), secret):
        assert exact <= curve.rdp(2.0) <= exact * (1.0 + 1e-6)


@every("mu, p, times", [(8.0, 0.01, 50), (5.0, 0.05, 10), (3.0, 0.3, 3)])
def test_releases_without_the_record_claim_no_less_than_one_event_shows(mu, p, times):
    """How likely it is without the record, and with it, that every outcome is at most μ/2 + 1."""
    near, far = stats.norm.cdf([0.5 * mu + 1.0, 1.0 - 0.5 * mu])
    without, with_it, delta = near**times, (p * far + (1.0 - p) * near) ** times, 1e-3
    shown = math.log((without - delta) / with_it)
    product = Product([(PoissonSubsampled(mu, p, direction="add"), times)])
    assert product.epsilon(delta) >= shown > 0.0


@every("mu", [5.0, 40.0, 99.0, 101.0, 400.0, 1e4])
@every("p", [1e-6, 1e-2, 0.9])
@every("power", [1e-6, 1e-4, 0.1])
def test_moments_of_the_symmetrised_pair_are_those_of_a_fine_sum(mu, p, power):
    around = np.linspace(-REACH, REACH, 120_001)
    z = np.unique(np.concatenate([m + around for m in (0.5 * mu, mu, (1.0 + power) * mu)]))
    z = np.append(0.5 * mu, z[z > 0.5 * mu])
    ratio, density = log_ratio(mu, p, z), -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
    exponents = density + np.array([1.0 + power, 1.0, 0.0, -power])[:, None] * ratio
    more = np.array([1.0, -1.0, -1.0, 1.0]) @ np.exp(np.minimum(exponents, 300.0))
    if exponents.max() < 300.0:
        truth = math.log1p(float(trapezoid(more, z)))
        assert log_moment(mu, p, power, True) == pytest.approx(truth, rel=1e-6, abs=1e-12)


def surely(mu, p, times, extra, epsilon):
    """What δ(ε) of O_p(μ)^⊗times ⊗ G(extra) is at least: k draws seen have a loss of nearly a Gaussian."""
    k = np.arange(times + 1)
    square = k * mu**2 + extra**2
    # A release that does not hold the record has the loss log(1 - p) at least, one that does log p more.
    least = 0.5 * square + k * math.log(p) + (times - k) * math.log1p(-p)
    tail = stats.norm.sf((epsilon + 10.0 - least) / np.maximum(np.sqrt(square), 1e-300))
    return float(stats.binom.pmf(k, times, p) @ tail) * -math.expm1(-10.0)


@pytest.mark.parametrize("mu", [20.0, 60.0, 99.0, 200.0, 1e3, 3e3, 1e5, 1e8, 1e150])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
@pytest.mark.one_in(2)
def test_products_of_large_releases_claim_no_less_than_is_sure(mu, delta):
    for curve in (PoissonSubsampled(mu, 0.1, "remove"), Subsampled(Gaussian(mu), 0.1)):
        product = Product([(curve, 27), (Gaussian(1.0), 1)])
        epsilon = product.epsilon(delta)
        assert epsilon == math.inf or surely(mu, 0.1, 27, 1.0, epsilon) <= delta
        low, high = product.epsilon_bounds(delta)
        assert low <= high
        for at in (1.0, 0.25 * mu * mu):
            assert surely(mu, 0.1, 27, 1.0, at) <= product.delta(at) * (1.0 + 1e-9)


def test_a_large_release_that_is_rare_enough_costs_only_its_probability():
    # 27 releases hold the record with a probability of at most 2.7e-8: this much of δ is lost.
    product = Product([(PoissonSubsampled(1e4, 1e-9), 27), (Gaussian(1.0), 1)])
    assert product.epsilon(1e-3) == pytest.approx(Gaussian(1.0).epsilon(1e-3 - 2.7e-8), rel=1e-3)
    assert product.epsilon(1e-3) >= Gaussian(1.0).epsilon(1e-3)


@pytest.mark.parametrize("multiplier", [1e-300, 1e-200, 1e-154, 1e-77, 1e-10, 1e-3])
@pytest.mark.parametrize("batches", [Poisson(25), FixedSize(25)], ids=lambda b: b.kind)
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.one_in(2)
def test_runs_with_next_to_no_noise_are_answered(multiplier, batches, adjacency):
    given = {"noise_multiplier": multiplier, "clip_norm": 1.0, "adjacency": adjacency, "epochs": 2}
    for loss, step in ((Loss.unknown(), 0.5), (Loss.logistic(1.0), 0.5), (Loss.softmax(1.0), 4.0)):
        guarantee = NoisySGD(loss, 1000, batches, step_size=step, **given).guarantee(1e-5)
        # One step in which the record is seen loses μ²/2 and more, and one of 80 is likely to.
        assert guarantee.epsilon(1e-5) >= 0.4 / multiplier / multiplier


@every(
    "power, exact",
    [
        (-1.0000670320046037, 1.697103421357833050977765807405780277858e-6),
        (-1.01, 2.531780798428989139045370487066760539861e-4),
    ],
)
def test_moments_of_orders_near_0_do_not_overflow(power, exact):
    """μ = 32, p = 0.025, where L is e^700 and more within reach; by quadrature with 40 digits."""
    assert log_moment(32.0, 0.025, power) == pytest.approx(exact, rel=1e-9)


def exact_moment(curve, power):
    """log E e^(λY) of bounded range or randomised response, in 900 digits."""
    with mp.workdps(900):
        e, power = mp.mpf(curve.epsilon_0), mp.mpf(power)
        x, y = (power + 0.5) * e, e / 2
        if isinstance(curve, ApproxDP):
            return mp.log(mp.cosh(x) / mp.cosh(y))
        return mp.log(mp.sinh(x) / x * y / mp.sinh(y))


@every("kind", [BoundedRange, ApproxDP])
@every("epsilon", [1e-300, 1e-130, 1e-12, 4.287133585872524e-06, 0.3, 1.0, 50.0])
@every("power", [1e-300, 2.0**-52, 1e-9, 1.5537690303e-6, 3.3e-5, 0.5, 1.0, 7.0, 4e6, 1e12])
def test_moments_of_small_losses_and_powers_do_not_cancel(kind, epsilon, power):
    curve = kind(epsilon)
    exact, value = exact_moment(curve, power), curve.losses()[0].log_moment(power)
    assert exact <= value <= exact * mp.mpf(1.0 + 3e-12) + mp.mpf(2e-320)
    order, room = 1.0 + power, mp.mpf(1.0 + 1e-9)
    if order > 1.0:
        exact = exact_moment(curve, mp.mpf(order) - 1) / (mp.mpf(order) - 1)
        assert exact <= curve.rdp(order)
        assert epsilon < 0.1 or kind is BoundedRange or curve.rdp(order) <= exact * room
        if kind is ApproxDP:  # of ranges no single pair has the whole curve, and each costs less
            assert exact <= curve.zcdp * mp.mpf(order) * room
        assert Product([(curve, 2)]).rdp(order) >= 2 * exact or exact < 1e-320


@every("count, delta", [(10**16, 1e-6), (10**15, 1e-2)])
def test_of_very_many_small_ranges_no_less_is_claimed_than_of_their_limit(count, delta):
    limit = Gaussian(math.sqrt(count / 3.0) * 1e-8 * (1.0 - 1e-6))
    assert Product([(BoundedRange(1e-8), count)]).epsilon(delta) >= limit.epsilon_bounds(delta)[0]


def test_moments_of_lists_do_not_cancel():
    p, q = [0.5 + 1e-13, 0.5 - 1e-13], [0.5 - 1e-13, 0.5 + 1e-13]
    exact = mp.log(sum(mp.mpf(a) ** 1.25 * mp.mpf(b) ** -0.25 for a, b in zip(p, q, strict=True)))
    listed = tradeoff.PrivacyLossDistribution(p, q)
    assert listed.losses()[0].log_moment(0.25) >= exact > 0.0


@pytest.mark.parametrize("power", [1e-10, 1.1e-9, 2.0**-50, 1e-16])
def test_powers_near_0_keep_their_digits(power):
    """Of Gaussians K(λ)/λ is the mean of the loss but for O(λ), by quadrature with 40 digits."""
    mu, p = 3.0, 0.01
    with mp.workdps(40):

        def loss(z):
            return mp.log1p(p * mp.expm1(mu * z - mp.mpf(mu) ** 2 / 2))

        def integrand(z):
            return mp.npdf(z) * mp.exp(loss(z)) * loss(z)

        mean = mp.quad(integrand, list(range(-16, 20)))
    assert log_moment(mu, p, power) / power == pytest.approx(float(mean), rel=5e-9)
    assert log_moment(mu, p, power) * (1.0 + 1e-10) >= power * mean


@every("mu, p", [(12.7, 1.0 - 2.0**-39), (12.7, 1.0 - 2.0**-36), (9.0, 1.0 - 2.0**-30)])
def test_next_to_the_largest_loss_of_a_record_that_is_hardly_ever_left_out(mu, p):
    """N(0, 1) against p·N(-μ, 1) + (1 - p)·N(0, 1): most of the first has nearly the loss -log(1 - p)."""
    product, rest = Product([(PoissonSubsampled(mu, p, "add"), 1)]), 1.0 - p
    for x in (1e-3, 1e-4):
        epsilon = -math.log(rest) - x
        # That much of both lies above -1.
        first = stats.norm.cdf(1.0)
        second = rest * first + p * stats.norm.cdf(1.0 - mu)
        least = first - math.exp(epsilon) * second
        assert product.delta(epsilon) >= least * (1.0 - 1e-9) > 0.0
