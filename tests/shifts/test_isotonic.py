"""The best payments from a given start, against exact arithmetic.

P1 is Bok, Su, Altschuler 2024, "Shifted interpolation for differential privacy".
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from pabi.shifts import isotonic
from pabi.shifts.records import mu_of

# Of the energy, for short runs: the solver promises a few 1e-13 even for 10^6 pieces.
TIGHT = 1e-12


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


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


def replay(c, s, sigma, payments, start=0.0, number=Fraction):
    """(distance at the end, cost) of the payments, in rationals, or in 60 digits for long runs."""
    first, c = payments.first, [number(float(x)) for x in c]
    s, sigma = [number(float(x)) for x in s], [number(float(x)) for x in sigma]
    pay, cost, begin = [number(0)] * len(c), number(0), first
    for end, q in zip(payments.ends.tolist(), payments.q.tolist(), strict=True):
        w = number(1)
        for k in range(end, begin - 1, -1):
            pay[k] = number(q) * sigma[k] ** 2 * w
            cost += (number(q) * sigma[k] * w) ** 2
            w *= c[k]
        begin = end + 1
    z = number(float(start))
    for k in range(len(c)):
        z = max(number(0), c[k] * z + s[k] - pay[k])
    return z, cost


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


@pytest.mark.parametrize("zeros", [False, True], ids=["positive", "zero slopes and noises"])
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


@pytest.mark.parametrize("zeros", [False, True], ids=["positive", "zero slopes and noises"])
def test_payments_are_feasible_and_cost_no_more_than_stated(zeros):
    rng = np.random.default_rng(7 + zeros)
    for _ in range(100):
        c, s, sigma, start = instance(rng, zeros=zeros)
        payments = isotonic.solve(c, s, sigma**2, start)
        if payments.energy == math.inf:
            continue
        rest, cost = replay(c, s, sigma, payments, start)
        assert rest == 0
        assert cost <= Fraction(payments.energy)


def test_payments_follow_slopes_that_never_fall():
    """The regression itself: in common units the slopes of successive blocks do not decrease."""
    rng = np.random.default_rng(3)
    several = 0
    for _ in range(100):
        c, s, sigma, _ = instance(rng)
        payments = isotonic.solve(c, s, sigma**2)
        w = np.append(np.cumprod(c[::-1])[::-1][1:], 1.0)
        if payments.ends.size:
            several += payments.ends.size > 1
            slopes = payments.q / w[payments.ends]
            assert np.all(slopes[1:] >= slopes[:-1] * (1 - 1e-13))
            assert payments.costs.sum() == pytest.approx(payments.energy, rel=TIGHT, abs=0.0)
    assert several > 20


@pytest.mark.parametrize("c", [0.5, 0.9, 0.92, 0.99, 0.999999, 1.0])
@pytest.mark.parametrize("t", [1, 2, 10, 1000])
def test_full_batch_equality(t, c):
    """P1 Thm 4.2: (s/σ)·√((1 − c^t)/(1 + c^t) · (1 + c)/(1 − c)); √t·s/σ at c = 1."""
    s, sigma, x = 0.3, 1.7, mpf(c)
    truth = mp.sqrt(t if c == 1 else (1 - x**t) / (1 + x**t) * (1 + x) / (1 - x))
    truth *= mpf(s) / mpf(sigma)
    got = mu_of(isotonic.solve(np.full(t, c), np.full(t, s), np.full(t, sigma) ** 2).energy)
    # σ² is one rounding away from the square of σ; everything else errs upwards.
    assert truth * (1 - mpf(2) ** -52) <= got <= truth * (1 + mpf(1e-12))


TABLE_7 = [
    (0.92, 10, 0.3076318969597429),
    (0.92, 100, 0.48978077316316737),
    (0.92, 1000, 0.48989794855663577),
    (0.96, 10, 0.3140824077020787),
    (0.96, 100, 0.6882887295464671),
    (0.96, 1000, 0.6999999999999997),
    (0.98, 10, 0.31569708221760584),
    (0.98, 100, 0.8707237339804994),
    (0.98, 1000, 0.9949874354320882),
    (0.99, 10, 0.316096111326877),
    (0.99, 100, 0.9610137446461975),
    (0.99, 1000, 1.4106126987421936),
    (0.995, 10, 0.31619499777150106),
    (0.995, 100, 0.9897358773049292),
    (0.995, 1000, 1.9842510708572538),
]


@pytest.mark.parametrize(("c", "t", "mu"), TABLE_7)
def test_table_7(c, t, mu):
    """P1 Table 7: full batches of contracting steps, L/(n·noise_std) = 0.1."""
    got = mu_of(isotonic.solve(np.full(t, c), np.full(t, 0.1), np.ones(t)).energy)
    assert got == pytest.approx(mu, rel=1e-9, abs=0.0)


TABLE_9 = [
    (10, 0.98, 5, 0.22938257430122755),
    (10, 0.98, 50, 0.270003996917833),
    (10, 0.98, 500, 0.27001011546298775),
    (10, 0.99, 5, 0.23326093597715825),
    (10, 0.99, 50, 0.3340768100087629),
    (10, 0.99, 500, 0.33564178398014965),
    (10, 0.995, 5, 0.23503207045553995),
    (10, 0.995, 50, 0.4104044778128607),
    (10, 0.995, 500, 0.4387805340948428),
    (20, 0.98, 5, 0.2108272096457646),
    (20, 0.98, 50, 0.21599402460731146),
    (20, 0.98, 500, 0.21599402468496426),
    (20, 0.99, 5, 0.21506723990209908),
    (20, 0.99, 50, 0.23745298463487471),
    (20, 0.99, 500, 0.2374566267232722),
    (20, 0.995, 5, 0.2171896645077465),
    (20, 0.995, 50, 0.27516491197485615),
    (20, 0.995, 500, 0.27612505264619014),
    (40, 0.98, 5, 0.20244847770254853),
    (40, 0.98, 50, 0.20264834184190614),
    (40, 0.98, 500, 0.20264834184190614),
    (40, 0.99, 5, 0.20545064918136688),
    (40, 0.99, 50, 0.20812704703602308),
    (40, 0.99, 500, 0.20812704708042293),
    (40, 0.995, 5, 0.20763817768799658),
    (40, 0.995, 50, 0.21948910301498709),
    (40, 0.995, 500, 0.21949111840609078),
]


@pytest.mark.parametrize(("length", "c", "epochs", "mu"), TABLE_9)
def test_table_9(length, c, epochs, mu):
    """P1 Table 9: cyclic batches of contracting steps, last batch, L/(b·noise_std) = 0.2."""
    t = length * epochs
    s = np.zeros(t)
    s[length - 1 :: length] = 0.2
    assert mu_of(isotonic.solve(np.full(t, c), s, np.ones(t)).energy) == pytest.approx(
        mu, rel=1e-9, abs=0.0
    )


CYCLIC = [
    0.644777796066311,
    0.6648803015417419,
    0.6856200637933899,
    0.7070182996643424,
    0.7290970301222506,
    0.7528470625065448,
    0.786139550728552,
    0.8388213104931179,
    0.9354948275153033,
    1.1791418353933703,
]


@pytest.mark.parametrize(("position", "mu"), list(enumerate(CYCLIC)))
def test_every_position_of_a_cyclic_run(position, mu):
    s = np.zeros(80)
    s[position::10] = 1.0
    assert mu_of(isotonic.solve(np.full(80, 0.97), s, np.ones(80)).energy) == pytest.approx(
        mu, rel=1e-9
    )


RANDOM_UNBOUNDED = (
    [0.994, 0.661, 0.828, 0.68, 0.997, 1.098, 0.826, 0.823, 0.924, 0.729, 0.748, 0.798],
    [0.457, 0.082, 0.0, 0.0, 0.3, 0.078, 0.0, 0.131, 0.0, 0.131, 0.0, 0.0],
    [1.704, 1.446, 0.93, 0.409, 1.182, 1.588, 0.624, 0.753, 1.211, 1.572, 1.824, 0.514],
)


def test_a_mixed_schedule():
    c, s, sigma = (np.array(x) for x in RANDOM_UNBOUNDED)
    mu = mu_of(isotonic.solve(c, s, sigma**2).energy)
    assert mu == pytest.approx(0.15092470426921337, rel=1e-9, abs=0.0)
    assert np.linalg.norm(s / sigma) == pytest.approx(0.42330127283031316, rel=1e-9, abs=0.0)


# Long runs: nothing over- or underflows.

MILLION = 1_000_000


def check_long(got, truth_squared):
    mu = mp.sqrt(truth_squared)
    assert math.isfinite(got)
    assert mu <= got <= mu * (1 + mpf(1e-12))


def test_a_million_contracting_steps():
    c = mpf(0.9)
    got = mu_of(isotonic.solve(np.full(MILLION, 0.9), np.ones(MILLION), np.ones(MILLION)).energy)
    check_long(got, (1 - c**MILLION) / (1 + c**MILLION) * (1 + c) / (1 - c))


def test_a_million_expanding_steps():
    """Expanding steps never help: the optimum is composition, √t."""
    got = mu_of(isotonic.solve(np.full(MILLION, 1.1), np.ones(MILLION), np.ones(MILLION)).energy)
    check_long(got, mpf(MILLION))


@pytest.mark.parametrize(("a", "b"), [(0.9, 1.1), (1.1, 0.9)])
def test_a_million_alternating_steps(a, b):
    """A pair contracts (0.9·1.1 = 0.99), and the regression pools all steps (checked on 200)."""
    pair = mpf(a) * mpf(b)

    def pooled(t):
        n = t // 2
        demand = (1 + mpf(b)) * (1 - pair**n) / (1 - pair)
        weight = (1 + mpf(b) ** 2) * (1 - pair ** (2 * n)) / (1 - pair**2)
        return demand**2 / weight

    short = exact_energy([a, b] * 100, [1.0] * 200, [1.0] * 200)
    assert mpmath.almosteq(short, pooled(200), rel_eps=mpf(10) ** -50)
    ones = np.ones(MILLION)
    check_long(
        mu_of(isotonic.solve(np.tile([a, b], MILLION // 2), ones, ones).energy), pooled(MILLION)
    )


@pytest.mark.parametrize(("c", "after"), [(0.9, 1000), (0.9, 3000), (0.95, 5000), (0.99, 30_000)])
def test_a_record_used_once_and_then_forgotten(c, after):
    """s²·W²/ΣW²: still accurate where W is 1e-137."""
    x, t = mpf(c), after + 1
    truth = x ** (2 * after) * (1 - x**2) / (1 - x ** (2 * t))
    s = np.zeros(t)
    s[0] = 1.0
    check_long(mu_of(isotonic.solve(np.full(t, c), s, np.ones(t)).energy), truth)


def test_a_forgotten_record_is_never_said_to_be_untouched():
    """Its μ is 0.9^100000, below all doubles: positive, tiny, and not below the truth."""
    t = 100_001
    s = np.zeros(t)
    s[0] = 1.0
    energy = isotonic.solve(np.full(t, 0.9), s, np.ones(t)).energy
    assert 0.0 < energy < 1e-300


@pytest.mark.parametrize("first", [0.8, 1.25], ids=["down, then up", "up, then down"])
def test_slopes_whose_product_leaves_the_range_of_doubles_and_returns(first):
    """W runs over 600 orders of magnitude and comes back; one record used at the far ends."""
    n = 3000
    c = np.repeat([first, 1.0 / first], n)
    s = np.zeros(2 * n)
    s[[0, n, 2 * n - 1]] = 1.0
    sigma = np.ones(2 * n)
    check_long(mu_of(isotonic.solve(c, s, sigma).energy), exact_energy(c, s, sigma))


def test_random_walks_of_the_slope():
    rng = np.random.default_rng(11)
    for _ in range(5):
        t = 1500
        c = np.exp(0.7 * rng.standard_normal(t) + rng.choice([-0.3, 0.0, 0.3]))
        s = np.where(rng.random(t) < 0.1, rng.random(t), 0.0)
        sigma = rng.uniform(0.5, 2.0, t)
        truth = exact_energy(c, s, sigma)
        assert truth <= isotonic.solve(c, s, sigma**2).energy <= truth * (1 + mpf(1e-12))


@pytest.mark.parametrize(("down", "up"), [(700, 0), (603, 28), (700, 28), (1500, 100)])
def test_payments_of_a_forgotten_record_are_numbers(down, up):
    """What is left to hide underflows; the payments stay positive, finite and sufficient."""
    c = np.concatenate([np.full(down, 0.3), np.full(up, 2.0)])
    s = np.zeros(down + up)
    s[:2] = 0.01
    payments = isotonic.solve(c, s, np.full(down + up, 0.01))
    assert np.all(np.isfinite(payments.q))
    assert payments.energy < 1e-300
    rest, cost = replay(c, s, np.full(down + up, 0.1), payments, number=mpf)
    assert rest == 0
    assert cost <= payments.energy


# Steps that forget everything, and steps without noise.


def test_a_slope_of_zero_discards_what_came_before():
    rng = np.random.default_rng(5)
    c, s, v = rng.uniform(0.5, 1.5, 30), rng.random(30), rng.uniform(0.5, 2.0, 30)
    c[12] = 0.0
    whole = isotonic.solve(c, s, v, start=3.0)
    tail = isotonic.solve(c[12:], s[12:], v[12:])
    assert whole.energy == pytest.approx(tail.energy, rel=TIGHT, abs=0.0)
    assert whole.first == 12


def test_nothing_to_pay():
    assert isotonic.solve(np.ones(5), np.zeros(5), np.ones(5)).energy == 0.0
    assert isotonic.solve(np.ones(5), np.zeros(5), np.zeros(5)).energy == 0.0
    forgotten = isotonic.solve(np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.zeros(2), start=2.0)
    assert forgotten.energy == 0.0


def test_demand_after_the_last_noise_cannot_be_hidden():
    for s in ([0.0, 0.0, 0.0, 1.0], [1e-300, 0.0, 0.0, 1.0]):
        noise = np.array([1.0, 1.0, 1.0, 0.0])
        assert isotonic.solve(np.ones(4), np.array(s), noise).energy == math.inf
    assert isotonic.solve(np.ones(3), np.ones(3), np.zeros(3)).energy == math.inf
    assert isotonic.solve(np.ones(3), np.zeros(3), np.zeros(3), start=1e-9).energy == math.inf


def test_trailing_noiseless_steps_without_the_record_are_free():
    noise = np.array([1.0, 1.0, 0.0, 0.0])
    got = isotonic.solve(np.array([1.0, 1.0, 7.0, 3.0]), np.array([1.0, 0.0, 0.0, 0.0]), noise)
    assert got.energy == pytest.approx(0.5, rel=TIGHT, abs=0.0)


def test_demands_wait_for_noise_through_noiseless_steps():
    got = isotonic.solve(np.array([9.0, 3.0, 2.0]), np.ones(3), np.array([0.0, 0.0, 4.0]))
    assert got.energy == pytest.approx((1.0 * 3 * 2 + 2 + 1) ** 2 / 4.0, rel=TIGHT, abs=0.0)


def test_a_demand_does_not_vanish_in_a_long_noiseless_stretch():
    """Halved 1200 times and doubled 1200 times without noise, a difference of 1 is 1 again."""
    c = np.concatenate([[1.0], np.full(1200, 0.5), np.full(1200, 2.0), [1.0]])
    s, v = np.zeros(len(c)), np.zeros(len(c))
    s[0], v[-1] = 1.0, 1.0
    assert isotonic.solve(c, s, v).energy >= 1.0


# Magnitudes: rescaling is exact, extremes err upwards.


@pytest.mark.parametrize("unit", [2.0**-400, 2.0**-60, 2.0**60, 2.0**400])
def test_the_unit_of_the_iterate_does_not_matter(unit):
    rng = np.random.default_rng(2)
    c, s, sigma = rng.uniform(0.5, 1.5, 50), rng.random(50), rng.uniform(0.5, 2.0, 50)
    a = isotonic.solve(c, s, sigma**2).energy
    b = isotonic.solve(c, s * unit, (sigma * unit) ** 2).energy
    assert b == pytest.approx(a, rel=TIGHT, abs=0.0)


@pytest.mark.parametrize("ratio", [1e-100, 1e-30, 1e30, 1e100])
def test_noises_of_very_different_size(ratio):
    c, s, sigma = np.ones(4), np.ones(4), np.array([1.0, ratio, 1.0, ratio])
    truth = exact_energy(c, s, sigma)
    assert truth * (1 - mpf(1e-14)) <= isotonic.solve(c, s, sigma**2).energy
    assert isotonic.solve(c, s, sigma**2).energy <= truth * (1 + mpf(1e-12))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("s", "sigma"),
    [([1.0, 1.0], [1e160, 1.0]), ([1e300, 1.0], [1e-100, 1.0]), ([1.0, 1.0], [1e155, 1e-5])],
)
def test_overflow_is_never_below_the_truth(s, sigma):
    sigma = np.array(sigma)
    energy = isotonic.solve(np.ones(2), np.array(s), sigma**2).energy
    assert energy >= exact_energy(np.ones(2), s, sigma) * (1 - mpf(1e-14))
