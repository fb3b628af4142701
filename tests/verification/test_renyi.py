"""The checker's Rényi divergences: against exact numbers, and never above what a ledger charges."""

import itertools
import math

import mpmath
import pytest
from flint import ctx

from pabi import tradeoff as t
from pabi.verification.arithmetic import BITS
from pabi.verification.bounds import read_bounds
from pabi.verification.factors.divergences import epsilon_of
from pabi.verification.renyi import least_divergence

CLOSE = mpmath.mpf(10) ** -11  # relative: moments far from 1 are integrated to 2⁻⁴⁰
DIGITS = mpmath.mpf(10) ** -40  # what mpmath itself rounds at 60 digits


def checked(curve, order):
    """The checker's divergence of a trade-off function, in many digits; None where it knows none."""
    if isinstance(
        curve, t.Subsampled | t.PoissonSubsampled | t.PoissonReplaced | t.FixedSizeSubsampled
    ):
        curve = t.Product([(curve, 1)])
    with ctx.workprec(BITS):
        rho = least_divergence(read_bounds(curve.to_dict()), order)
    return None if rho is None else mpmath.mpf(int(rho.p)) / int(rho.q)


# What a ledger charges is computed in doubles, by quadrature, and rounded up.

CURVES = [
    t.Gaussian(0.7),
    t.Mixture([t.Gaussian(0.3), t.Gaussian(1.5)], [0.75, 0.25]),
    t.BoundedRange(0.7),
    t.BoundedRange(40.0),
    t.ApproxDP(0.7),
    t.ApproxDP(50.0),
    t.Laplace(0.7),
    t.Laplace(30.0),
    t.PoissonSubsampled(0.9, 0.01),
    t.PoissonSubsampled(3.0, 0.3),
    t.PoissonSubsampled(0.02, 1e-4),
    t.PoissonSubsampled(1.5, 1.0),
    t.PoissonReplaced(0.9, 0.01),
    t.PoissonReplaced(2.0, 0.4),
    t.Subsampled(t.Gaussian(0.9), 0.01),
    t.Subsampled(t.Gaussian(2.5), 0.2),
    t.FixedSizeSubsampled(1.0, 0.5, 0.7, 0.1),
    t.FixedSizeSubsampled(0.5, 1.0, 0.7, 0.02),
    t.FixedSizeSubsampled(1.8, 0.9, 0.9, 0.05),
    t.RenyiDP(50.0, 0.4),
    t.Best([t.Gaussian(0.5), t.BoundedRange(1.0), t.ApproxDP(0.4)]),
    t.Selected(t.Gaussian(0.5), 10.0, 0.5),
    t.Selected(t.Product([(t.PoissonSubsampled(1.0, 0.01), 20)]), 5.0, 0.25),
    t.Product([(t.Gaussian(0.4), 1), (t.PoissonSubsampled(1.0, 0.01), 100), (t.ApproxDP(0.1), 3)]),
    t.Product([(t.FixedSizeSubsampled(1.0, 0.5, 0.7, 0.1), 7), (t.PoissonReplaced(0.5, 0.1), 2)]),
]


@pytest.mark.parametrize("order", [1.5, 4.0, pytest.param(32.0, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("part", range(5))
def test_a_ledger_charges_no_less_and_hardly_more(part, order):
    for curve in CURVES[part::5]:
        charge, own = curve.rdp(order), checked(curve, order)
        assert own <= charge <= own * (1.0 + 1e-7) + 1e-13, curve


def test_what_no_finite_divergence_is_known_of():
    for curve in (
        t.Product([(t.Gaussian(0.3), 1)], failure=1e-9),
        t.Product([(t.SecretMixture([0.2, 0.6], [0.5, 0.5]), 1)], failure=1e-9),
        t.Grouped(t.Mixture([t.Gaussian(0.1), t.Gaussian(0.5)], [0.5, 0.5]), 2),
        t.RenyiDP(3.0, 0.1),
        t.Gaussian(math.inf),
    ):
        assert checked(curve, 4.0) is None, curve


# Exact numbers.


def log_moment(order, first, second, low=-40, high=60):
    """log ∫ P^α·Q^(1−α) of functions, by mpmath's quadrature over cells of length 1."""
    a = mpmath.mpf(order)

    def integrand(z):
        return first(z) ** a * second(z) ** (1 - a)

    with mpmath.workdps(30):
        return mpmath.log(mpmath.quad(integrand, mpmath.arange(low, high + 1)))


def mixed(p, m):
    """The density of p·N(m, 1) + (1 − p)·N(0, 1)."""
    p, m = mpmath.mpf(p), mpmath.mpf(m)
    return lambda z: p * mpmath.npdf(z, m) + (1 - p) * mpmath.npdf(z)


def test_integer_orders_of_poisson_batches():
    """The binomial sum of Mironov, Talwar and Zhang 2019; the other order of the data sets reveals less."""
    for order, (mu, p) in itertools.product((2, 5, 17), ((0.9, 0.01), (2.0, 0.25), (0.05, 0.5))):
        m, share = mpmath.mpf(mu), mpmath.mpf(p)
        moment = mpmath.fsum(
            mpmath.binomial(order, k)
            * (1 - share) ** (order - k)
            * share**k
            * mpmath.exp(mpmath.mpf(k * (k - 1)) * m * m / 2)
            for k in range(order + 1)
        )
        truth = mpmath.log(moment) / (order - 1)
        own = checked(t.PoissonSubsampled(mu, p), float(order))
        assert truth * (1 - DIGITS) <= own <= truth * (1 + CLOSE), (order, mu, p)


@pytest.mark.parametrize("order", [1.5, pytest.param(6.5, marks=pytest.mark.nightly)])
def test_integrals(order):
    """Of both orders of the data sets, the larger one."""
    one, none = mixed(0.1, 0.8), mixed(0, 0)
    truth = max(log_moment(order, one, none), log_moment(order, none, one)) / (order - 1)
    own = checked(t.PoissonSubsampled(0.8, 0.1), order)
    assert truth * (1 - mpmath.mpf(10) ** -15) <= own <= truth * (1 + CLOSE)
    truth = log_moment(order, one, mixed(0.1, -0.8)) / (order - 1)
    own = checked(t.PoissonReplaced(0.8, 0.1), order)
    assert truth * (1 - mpmath.mpf(10) ** -15) <= own <= truth * (1 + CLOSE)


def halves(factor, order):
    """log M of a record that displaces others, from what the losses above and below 0 are."""
    p, m = mpmath.mpf(factor.probability), mpmath.mpf(factor.apart)
    total, rest = mpmath.mpf(0), mpmath.mpf(1)
    for size, power in ((factor.norm, mpmath.mpf(order)), (factor.other, 1 - mpmath.mpf(order))):
        one, two = mixed(p, size), mixed(p, mpmath.mpf(size) - m)
        middle = mpmath.mpf(size) - m / 2
        cells = [middle, *(middle + k for k in range(1, 45))]
        total += mpmath.quad(lambda z: one(z) ** power * two(z) ** (1 - power), cells)  # noqa: B023
        rest -= mpmath.quad(one if power > 0 else two, cells)
    return mpmath.log(total + rest)


@pytest.mark.parametrize("order", [pytest.param(1.5, marks=pytest.mark.nightly), 6.5])
def test_records_that_displace_others(order):
    with mpmath.workdps(30):
        factor = t.FixedSizeSubsampled(1.0, 0.5, 0.7, 0.1)
        turned = t.FixedSizeSubsampled(0.5, 1.0, 0.7, 0.1)
        truth = max(halves(factor, order), halves(turned, order)) / (order - 1)
    for one in (factor, turned):
        assert truth * (1 - mpmath.mpf(10) ** -15) <= checked(one, order) <= truth * (1 + CLOSE)


@pytest.mark.parametrize("order", [1.5, 3.0, 20.0])
def test_closed_forms(order):
    """Of pairs of finitely many outcomes, and of Laplace noise and bounded ranges by quadrature."""
    a, e = mpmath.mpf(order), mpmath.mpf("0.75")
    hit = mpmath.exp(e) / (1 + mpmath.exp(e))
    pure = mpmath.log(hit**a * (1 - hit) ** (1 - a) + (1 - hit) ** a * hit ** (1 - a)) / (a - 1)
    assert pure * (1 - DIGITS) <= checked(t.ApproxDP(0.75), order) <= pure * (1 + CLOSE)

    def laplace(centre):
        return lambda z: mpmath.exp(-abs(z - centre)) / 2

    def moment(z):
        return laplace(0)(z) ** a * laplace(e)(z) ** (1 - a)

    truth = mpmath.log(mpmath.quad(moment, [-80, -9, 0, e, 9, 80])) / (a - 1)
    assert truth * (1 - 1e-20) <= checked(t.Laplace(0.75), order) <= truth * (1 + CLOSE)
    # δ as a function of e^ε, and M = α(α − 1)·∫ e^((α−1)x)·δ(x) dx.
    top = mpmath.exp(e)

    def excess(x):
        ratio = mpmath.exp(x)
        inside = (1 - mpmath.sqrt(ratio / top)) ** 2 / (1 - 1 / top) if x > -e else 1 - ratio
        return mpmath.exp((a - 1) * x) * inside

    truth = mpmath.log(a * (a - 1) * mpmath.quad(excess, [-200, -20, -e, 0, e])) / (a - 1)
    assert truth * (1 - 1e-12) <= checked(t.BoundedRange(0.75), order) <= truth * (1 + 1e-12)


def test_the_conversion_is_that_of_the_lemma():
    """At its ε one of the two bounds is at most δ; with a little less neither is."""
    for order, rho, delta in itertools.product(
        (1.25, 2.0, 9.0, 300.0), (1e-9, 0.02, 1.0, 40.0), (1e-12, 1e-5, 0.3)
    ):
        epsilon = epsilon_of(order, rho, delta)
        a, r = mpmath.mpf(order), mpmath.mpf(rho)

        def bound(e, a=a, r=r):
            first = mpmath.exp((a - 1) * (r - e)) * (a - 1) ** (a - 1) / a**a
            if e <= 0:
                return first
            return min(first, mpmath.expm1((a - 1) * r) / mpmath.expm1((a - 1) * e) / a)

        assert bound(mpmath.mpf(epsilon)) <= delta, (order, rho, delta)
        if epsilon > 0.0:
            less = mpmath.mpf(epsilon) * (1 - mpmath.mpf(10) ** -12)
            assert bound(less) > delta, (order, rho, delta)
