"""The best payments from a given start, against exact arithmetic.

P1 is Bok, Su, Altschuler 2024, "Shifted interpolation for differential privacy".
"""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from pabi.account.shifts import isotonic
from support.every_case import every

# Of the energy, for short runs: the solver promises a few 1e-13 even for 10^6 pieces.
TIGHT = 1e-12


def exact_energy(c, s, sigma, start=0.0):
    """The optimum μ² in 60 digits: pool adjacent violators on demands W·s and weights W²·σ²."""
    total, weight, pieces = mpf(1), mpf(0), []
    for k in range(len(c) - 1, -1, -1):
        demand = total * mpf(float(s[k]))
        if k == 0:
            demand += total * mpf(float(c[0])) * mpf(float(start))
        weight = (total * mpf(float(sigma[k]))) ** 2
        pieces.append((demand, weight))
        total *= mpf(float(c[k]))
    blocks = []
    for demand, weight in reversed(pieces):
        # Cross-multiplied, so that a piece without noise has an infinite slope.
        while blocks and blocks[-1][0] * weight >= demand * blocks[-1][1]:
            d, v = blocks.pop()
            demand, weight = demand + d, weight + v
        blocks.append((demand, weight))
    if any(v == 0 and d > 0 for d, v in blocks):
        return mp.inf
    return mpmath.fsum(d * d / v for d, v in blocks if d > 0)


def instance(rng, *, zeros=False):
    """A random schedule with slopes on both sides of one and steps that do not use the record."""
    t = int(rng.integers(1, 41))
    c = rng.uniform(0.3, 1.5, t)
    s = np.where(rng.random(t) < 0.5, rng.uniform(0.0, 2.0, t), 0.0)
    sigma = rng.uniform(0.1, 2.0, t)
    if zeros:
        c[rng.random(t) < 0.1] = 0.0
        sigma[rng.random(t) < 0.2] = 0.0
    start = float(rng.choice([0.0, rng.uniform(0.0, 5.0)]))
    return c, s, sigma, start


@every("zeros", [False, True])
def test_agrees_with_regression_in_sixty_digits(zeros):
    rng = np.random.default_rng(20240901 + zeros)
    infinite = 0
    for _ in range(200):
        c, s, sigma, start = instance(rng, zeros=zeros)
        truth = exact_energy(c, s, sigma, start)
        got = isotonic.solve(c, s, sigma**2, start).energy
        if truth == mp.inf:
            infinite += 1
            assert got == math.inf
        elif truth == 0:
            assert got == 0.0
        else:
            assert truth <= got <= truth * (1 + TIGHT)
    assert not zeros or 5 <= infinite <= 195  # both outcomes occur


def test_long_schedules_agree_with_regression_in_sixty_digits():
    """Cyclic batches of contracting steps, as of P1 Table 9, and random walks of the slope."""
    schedules = []
    for length, c, epochs in [(10, 0.98, 500), (20, 0.99, 50), (40, 0.995, 50)]:
        t = length * epochs
        schedules.append((np.full(t, c), np.where(np.arange(t) % length == length - 1, 0.2, 0.0)))
    rng, t = np.random.default_rng(11), 1500
    for _ in range(5):
        c = np.exp(0.7 * rng.standard_normal(t) + rng.choice([-0.3, 0.0, 0.3]))
        schedules.append((c, np.where(rng.random(t) < 0.1, rng.random(t), 0.0)))
    for c, s in schedules:
        sigma = rng.uniform(0.5, 2.0, len(c))
        truth = exact_energy(c, s, sigma)
        assert abs(isotonic.solve(c, s, sigma**2).energy / truth - 1) <= TIGHT


MILLION = 1_000_000


def check_long(c, s, truth):
    got = isotonic.solve(np.asarray(c), np.asarray(s), np.ones(len(c))).energy
    assert abs(got / truth - 1) <= mpf(2e-12)


@pytest.mark.parametrize(("a", "b"), [(0.9, 0.9), (1.1, 1.1), (0.9, 1.1), (1.1, 0.9)])
def test_a_million_steps(a, b):
    """A pair of steps contracts (0.9·1.1 = 0.99), and the regression pools them all (checked on 200); steps
    that expand never help: the optimum is composition, √t."""

    def pooled(t):
        pair, n = mpf(a) * mpf(b), t // 2
        demand = (1 + mpf(b)) * (1 - pair**n) / (1 - pair)
        weight = (1 + mpf(b) ** 2) * (1 - pair ** (2 * n)) / (1 - pair**2)
        return demand**2 / weight if pair < 1 else mpf(t)

    short = exact_energy([a, b] * 100, [1.0] * 200, [1.0] * 200)
    assert mpmath.almosteq(short, pooled(200), rel_eps=mpf(10) ** -50)
    check_long(np.tile([a, b], MILLION // 2), np.ones(MILLION), pooled(MILLION))


@every("c, after", [(0.9, 1000), (0.9, 3000), (0.95, 5000), (0.99, 30_000)])
def test_a_record_used_once_and_then_forgotten(c, after):
    """s²·W²/ΣW²: still accurate where W is 1e-137."""
    x, t = mpf(c), after + 1
    truth = x ** (2 * after) * (1 - x**2) / (1 - x ** (2 * t))
    s = np.zeros(t)
    s[0] = 1.0
    check_long(np.full(t, c), s, truth)


@every("first", [0.8, 1.25])
def test_slopes_whose_product_leaves_the_range_of_doubles_and_returns(first):
    """W runs over 600 orders of magnitude and comes back; one record used at the far ends."""
    n = 3000
    c = np.repeat([first, 1.0 / first], n)
    s = np.zeros(2 * n)
    s[[0, n, 2 * n - 1]] = 1.0
    check_long(c, s, exact_energy(c, s, np.ones(2 * n)))


@every("down, up", [(700, 0), (603, 28), (700, 28), (1500, 100)])
def test_payments_of_a_forgotten_record_are_numbers(down, up):
    """What is left to hide underflows."""
    c = np.concatenate([np.full(down, 0.3), np.full(up, 2.0)])
    s = np.zeros(down + up)
    s[:2] = 0.01
    payments = isotonic.solve(c, s, np.full(down + up, 0.01))
    assert np.all(np.isfinite(payments.q))
    assert payments.energy < 1e-300


def test_nothing_to_pay_and_what_cannot_be_hidden():
    for c, s, v, start, energy in (
        ([1, 1, 1], [0, 0, 0], [1, 1, 1], 0.0, 0.0),
        ([1, 1, 1], [0, 0, 0], [0, 0, 0], 0.0, 0.0),
        ([1, 0], [1, 0], [0, 0], 2.0, 0.0),
        ([1, 1, 1], [0, 0, 1e-300], [1, 1, 0], 0.0, math.inf),  # a demand after the last noise
        ([1, 1, 1], [1, 1, 1], [0, 0, 0], 0.0, math.inf),
        ([1, 1, 1], [0, 0, 0], [0, 0, 0], 1e-9, math.inf),
    ):
        assert (
            isotonic.solve(*(np.array(x, dtype=float) for x in (c, s, v)), start).energy == energy
        )


@every("unit", [2.0**-400, 2.0**-60, 2.0**60, 2.0**400])
def test_the_unit_of_the_iterate_does_not_matter(unit):
    rng = np.random.default_rng(2)
    c, s, sigma = rng.uniform(0.5, 1.5, 50), rng.random(50), rng.uniform(0.5, 2.0, 50)
    a = isotonic.solve(c, s, sigma**2).energy
    b = isotonic.solve(c, s * unit, (sigma * unit) ** 2).energy
    assert b == pytest.approx(a, rel=TIGHT, abs=0.0)


@every("ratio", [1e-100, 1e-30, 1e30, 1e100])
def test_noises_of_very_different_size(ratio):
    c, s, sigma = np.ones(4), np.ones(4), np.array([1.0, ratio, 1.0, ratio])
    truth = exact_energy(c, s, sigma)
    assert truth * (1 - mpf(1e-14)) <= isotonic.solve(c, s, sigma**2).energy
    assert isotonic.solve(c, s, sigma**2).energy <= truth * (1 + mpf(1e-12))
