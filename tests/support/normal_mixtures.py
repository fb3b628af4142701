"""Two mixtures of normal laws N(m, 1), ((weight, m), …) each, whose likelihood ratio increases: all that
they reveal, in many digits."""

import functools
import math

import mpmath as mp
import numpy as np
from scipy.special import ndtr

M = mp.mpf
DIGITS = mp.workdps(60)


def tail(z):
    """P(N(0, 1) > z)."""
    return mp.erfc(z / mp.sqrt(2)) / 2


def gaussian_delta(mu, epsilon, digits=60):
    """δ of N(μ, 1) against N(0, 1) at any real ε, for μ > 0."""
    with mp.workdps(digits):
        m, e = M(mu), M(epsilon)
        return tail(e / m - m / 2) - mp.exp(e) * tail(e / m + m / 2)


@functools.cache
def quantile(alpha):
    """z with P(N(0, 1) > z) = α, for 0 < α < 1."""
    with mp.workdps(60 - int(mp.log10(alpha))):
        return mp.sqrt(2) * mp.erfinv(1 - 2 * M(alpha))


def gaussian_tradeoff(mu, alpha):
    with mp.workdps(60 - int(mp.log10(alpha))):
        return tail(M(mu) - quantile(alpha))


@DIGITS
def drawn(p, mu):
    """A part p moved by `mu`."""
    return (p, mu), (1 - M(p), 0)


PLAIN = ((1, 0),)


@DIGITS
def parts_of(means, weights, sign=1):
    """A secret mixture. What a double misses of all weights goes to the lowest mean."""
    (low, _), *rest = sorted(zip(means, weights, strict=True))
    return ((1 - sum(M(w) for _, w in rest), sign * low), *((w, sign * m) for m, w in rest))


@DIGITS
def places(one, two, e):
    """Where the loss log(one/two) is e, ever closer: the nearest double, and Newton's steps from there."""

    def loss(z, exp, log):
        up, down = (sum(w * exp(m * z - m * m / 2) for w, m in parts) for parts in (one, two))
        return log(up / down) if up * down > 0 else math.nan

    def slope(z):
        sums = []
        for parts in (one, two):
            terms = [(w * mp.exp(m * z - m * m / 2), m) for w, m in parts]
            sums.append(mp.fsum(t * m for t, m in terms) / mp.fsum(t for t, _ in terms))
        return sums[0] - sums[1]

    with mp.workdps(20):
        low, high = M(-1500), M(1500)
        for _ in range(62):
            middle = (low + high) / 2
            low, high = (middle, high) if loss(middle, mp.exp, mp.log) < e else (low, middle)
    found = [+low]
    for _ in range(3):
        z = found[-1]
        rise = slope(z)
        if rise > M(10) ** -30:
            found.append(z - (loss(z, mp.exp, mp.log) - e) / rise)
    return found


@DIGITS
def exact(*laws):
    return [tuple((M(w), M(m)) for w, m in parts) for parts in laws]


def hockey_stick(one, two):
    """δ at any finite ε. Any threshold is a lower bound, and the root is the best of them."""
    one, two = exact(one, two)

    def value(e):
        def above(z):
            first, second = (mp.fsum(w * tail(z - m) for w, m in parts) for parts in (one, two))
            return first - mp.exp(e) * second

        with mp.workdps(max(60, mp.mp.dps)):
            return max(M(0), -mp.expm1(e), *map(above, places(one, two, M(e))))

    return value


def turned(value):
    """δ of the other order; where that cancels beyond the digits kept, 0, which is below any δ."""

    def other(e):
        if e > 100:
            return M(0)
        with mp.workdps(200):
            result = 1 - mp.exp(e) * (1 - value(-M(e)))
        return result if abs(result) > M(10) ** -50 else M(0)

    return other


@DIGITS
def cell(one, two, left, right, swapped=False):
    """(mass, excess) of the losses between two, of the pair or of that in the other order."""
    one, two = exact(one, two)
    ends = (-right, -left) if swapped else (left, right)
    a, b = (places(one, two, M(e))[-1] for e in ends)
    first, second = (
        mp.fsum(w * (tail(a - m) - tail(b - m)) for w, m in parts)
        for parts in ((two, one) if swapped else (one, two))
    )
    return float(first), float(first - mp.exp(left) * second)


def errors(one, two, z):
    """(type I, type II) of the tests that reject `two` above z."""
    return (
        sum(float(w) * ndtr(float(m) - z) for w, m in two),
        sum(float(w) * ndtr(z - float(m)) for w, m in one),
    )


def divergence(one, two, order):
    """Rényi's, by the trapezoidal rule, as good as the numbers for functions that fall like these."""
    far = 2.0 * order * max(abs(float(m)) for _, m in (*one, *two)) + 40.0
    z = np.linspace(-far, far, 60_001, dtype=np.longdouble)

    def log_density(parts):
        terms = [np.log(np.longdouble(float(w))) - 0.5 * (z - float(m)) ** 2 for w, m in parts]
        return np.logaddexp.reduce(terms)

    log_p, log_q = log_density(one), log_density(two)
    cell, exponent = (z[1] - z[0]) / math.sqrt(2.0 * math.pi), order * log_p + (1.0 - order) * log_q
    if (top := exponent.max()) > 5.0:
        moment = top + np.log(np.exp(exponent - top).sum() * cell)
    else:  # less the tangent, whose integral is 1: what is left has one sign
        ratio = log_p - log_q
        more = np.exp(log_q) * (np.expm1(order * ratio) - order * np.expm1(ratio))
        moment = np.log1p(more.sum() * cell)
    return float(moment / (order - 1.0))
