"""Payments under random batches, against quadrature, closed forms and a search over shares.

With probability 1 a record's factor is Gaussian and costs μ² exactly, so that splits of noise have closed
forms: paying D with a share u of a noise whose room is R, and hiding a pull p in each of L steps behind the
rest, costs D²/(Ru) + Lp²/(1 − u), at best (D/√R + p√L)².
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from pabi.account.facts.sampled import Blocks, RecordFactor
from pabi.account.shifts.random import Cost, PayOff, distances, lead_in, two_sided
from support.every_case import every

GRID = 0.0102  # between shares that are tried, from 0.05 to 0.97


def blocks_of(length, c, sigma, s=None):
    c, sigma = np.array(c, dtype=float), np.array(sigma, dtype=float)
    s = np.ones(len(c)) if s is None else np.array(s, dtype=float)
    return Blocks(np.array(length, dtype=np.int64), c, s, sigma, np.zeros(len(c)))


def room_of(blocks):
    """Σ σ²W² of each block, W the product of the slopes of all later steps, one step at a time."""
    room, later = np.zeros(len(blocks.c)), 1.0
    for i in reversed(range(len(blocks.c))):
        for _ in range(int(blocks.length[i])):
            room[i] += (blocks.sigma[i] * later) ** 2
            later *= blocks.c[i]
    return room, later


GAUSSIAN = Cost(RecordFactor.PRESENT, 1.0, 2.0, 5.0)


def moment(mu, p, power, factor):
    """log E e^(λY) of the loss Y = log(dP/dQ) under P = (1 − p)N(0, 1) + pN(μ, 1), Q = N(0, 1).

    Of the symmetrised pair, whose trade-off function is that one up to slope −1 and then its mirror image: P
    with Y and Q with −Y above z = μ/2, where the ratio is 1, and Y = 0 for what is left. Of a replaced record
    P = (1 − p)N(0, 1) + pN(μ/2, 1), and Q is its mirror image around 0. Of a zeroed one in the place of
    another Y > 0 as of P = (1 − p)N(0, 1) + pN(2μ, 1), Q = (1 − p)N(0, 1) + pN(μ, 1), Y < 0 as minus the loss
    of the pair first named under its Q, and Y = 0 for what is left.
    """
    z = np.linspace(-40.0, 60.0, 50_001)

    def log_ratio(place):
        """Of (1 − p)N(0, 1) + pN(place, 1) over N(0, 1)."""
        return np.logaddexp(math.log1p(-p), math.log(p) + place * z - place * place / 2)

    def integral(logs, low=-40.0):
        """Of N(0, 1) times a function whose logarithm is given, from `low` on."""
        density = np.exp(logs - z * z / 2) / math.sqrt(2 * math.pi)
        return np.trapezoid(np.where(z >= low, density, 0.0), z)

    one = log_ratio(mu)
    match factor:
        case RecordFactor.PRESENT:
            return math.log(integral((1 + power) * one))
        case RecordFactor.REPLACED:
            return math.log(integral((1 + power) * log_ratio(mu / 2) - power * log_ratio(-mu / 2)))
        case RecordFactor.ZEROED:
            two = log_ratio(2 * mu)
            above = [integral((1 + e) * two - e * one, 1.5 * mu) for e in (power, 0.0)]
        case _:
            above = [integral((1 + e) * one, 0.5 * mu) for e in (power, 0.0)]
    below = [integral(-e * one, 0.5 * mu) for e in (power, 0.0)]
    return math.log(1.0 + above[0] - above[1] + below[0] - below[1])


@every("factor", RecordFactor)
@every("p, power", [(0.3, 1.0), (0.05, 4.0), (0.2, 3.0), (0.9, 2.5)])
def test_the_cost_is_the_scaled_moment(p, power, factor):
    """2/(λ(λ + 1)) of it, so that G(μ) costs μ². It chooses payments and proves nothing, and is interpolated:
    to a part in a thousand where the moment does not suddenly rise."""
    cost = Cost(factor, p, power, 2.0)
    mus = np.array([0.3, 0.77, 1.0, 1.9])
    exact = [2.0 / (power * (power + 1.0)) * moment(mu, p, power, factor) for mu in mus]
    assert cost(mus) == pytest.approx(exact, rel=1e-3)


@every("power", [0.5, 1.0, 30.0])
def test_a_record_that_is_always_there_is_a_gaussian_mechanism(power):
    mus = np.array([0.0, 1e-9, 1e-3, 0.5, 3.0])
    for factor in RecordFactor:
        assert Cost(factor, 1.0, power, 3.0)(mus) == pytest.approx(mus**2, rel=1e-12)
    # log E L^(1+λ) ≈ λ(λ + 1)/2·p²μ² of small factors, far below the table as well.
    small = np.array([0.0, 1e-12, 1e-7, 1e-4])
    cost = Cost(RecordFactor.PRESENT, 0.25, 3.0, 1.0)(small)
    assert cost == pytest.approx((0.25 * small) ** 2, rel=1e-2)


@every("seed", range(10))
def test_blocks_share_as_well_as_a_search_finds(seed):
    """A convex problem in three shares; no worse than where each is two grid points off."""
    rng = np.random.default_rng(seed)
    length, c = rng.integers(1, 10, 3), rng.uniform(0.9, 1.1, 3)
    pulls = rng.uniform(0.2, 0.5, 3)
    blocks = blocks_of(length, c, rng.uniform(0.5, 1.5, 3))
    room, product = room_of(blocks)
    demand = 2.0 * product
    found = PayOff(GAUSSIAN, lambda b, z: pulls).best(blocks, 2.0)

    def cost(share):
        share = np.asarray(share)
        return demand**2 / (room @ share) + float(np.sum(length * pulls**2 / (1.0 - share)))

    searched = minimize(cost, [0.5] * 3, bounds=[(1e-7, 0.97)] * 3, tol=1e-14)
    assert found.cost == pytest.approx(cost(found.share), rel=1e-9)
    assert found.cost >= searched.fun * (1.0 - 1e-5)
    off = [
        np.clip(searched.x + np.array(d), 1e-4, 0.97)
        for d in itertools.product([-2 * GRID, 2 * GRID], repeat=3)
    ]
    assert found.cost <= max(map(cost, off))


def test_corners_of_paying_off():
    """No distance; one whose square overflows; steps without a record, which pay with all their noise; and a
    slope of 0, until which the record's pull may depend on the distance."""
    blocks = blocks_of([3], [0.9], [1.0])
    pay_off = PayOff(GAUSSIAN, lambda b, z: np.full(1, 0.5))
    found = pay_off.best(blocks, 0.0)
    assert (found.cost, found.gaussian) == (pytest.approx(3 * 0.25), 0.0)
    assert found.share.tolist() == [0.0]
    assert pay_off.best(blocks_of([2000], [1.5], [1.0]), 1e140).cost == math.inf
    blocks = blocks_of([3, 4], [0.9, 1.0], [1.0, 0.5])
    room, product = room_of(blocks)
    found = PayOff(GAUSSIAN, lambda b, z: np.zeros(2)).best(blocks, 1.5)
    assert found.share.tolist() == [1.0, 1.0]
    assert found.cost == pytest.approx((1.5 * product) ** 2 / room.sum(), rel=1e-9)
    forgetting = blocks_of([2, 1, 2], [2.0, 0.0, 1.0], [1.0, 1.0, 1.0])
    found = PayOff(GAUSSIAN, lambda b, z: 0.1 * z).best(forgetting, 1.0)
    assert found.gaussian == 0.0
    # Before the steps: 1, 2, then 4, then 0 — no more than twice 2, once 4 and nothing.
    assert 0.01 * (1 + 4 + 16) <= found.cost <= 0.01 * (2 * 16 + 16) * (1 + 1e-9)


@every("seed", range(6))
def test_distances_are_those_of_payments_in_proportion_to_room(seed):
    """Step by step in rationals, z ↦ cz − a with a·W ∝ σ²W²·share."""
    rng = np.random.default_rng(seed)
    length, c = rng.integers(1, 6, 4), rng.uniform(0.8, 1.2, 4)
    blocks = blocks_of(length, c, rng.uniform(0.5, 1.5, 4))
    share, start = rng.uniform(0.0, 1.0, 4), 1.7
    room, _ = room_of(blocks)
    found = distances(blocks, share, start, float(room @ share))
    steps = [i for i in range(4) for _ in range(int(length[i]))]
    later = [Fraction(1)]
    for i in reversed(steps):
        later.insert(0, later[0] * Fraction(float(c[i])))
    weights = [
        Fraction(float(share[i])) * (Fraction(float(blocks.sigma[i])) * later[k + 1]) ** 2
        for k, i in enumerate(steps)
    ]
    rate = Fraction(start) * later[0] / sum(weights)
    z, before = Fraction(start), {i: [] for i in range(4)}
    for k, i in enumerate(steps):
        before[i].append(z)
        z = Fraction(float(c[i])) * z - rate * weights[k] / later[k + 1]
    assert abs(z) < Fraction(1, 10**12)
    for i in range(4):
        assert Fraction(float(found[i])) >= max(before[i])
        ends = max(before[i][0], before[i + 1][0] if i < 3 else 0)
        assert found[i] <= float(ends) * (1 + 1e-9) + 1e-9


@every("pull, noise", [(1.0, 1.0), (0.5, 2.0), (2.0, 1.0)])
@every("start", [0.0, 0.7])
@every("later", [0.3, 1.0])
def test_one_step_before_one_step(pull, noise, start, later):
    """It charges e of its pull: (e/σ)² + (cz + s − e)²·W²/R, a square with a best e by hand. Parts are
    twenty-fourths of the pull."""
    blocks = blocks_of([5], [0.9], [later], s=[0.0])
    (room,), product = room_of(blocks)
    pay_off = PayOff(GAUSSIAN, lambda b, z: np.zeros(1))
    steps = tuple(np.array([x]) for x in (0.8, pull, noise))
    found = lead_in(pay_off, blocks, steps, start, math.inf)

    def cost(e):
        return (e / noise) ** 2 + ((0.8 * start + pull - e) * product) ** 2 / room

    a, b = 1.0 / noise**2, product**2 / room
    best = min(pull, b * (0.8 * start + pull) / (a + b))
    assert 0.0 <= found.pulls[0] <= pull
    assert found.cost == pytest.approx(cost(found.pulls[0]), rel=1e-9)
    off = [min(pull, max(0.0, best + d * pull / 24)) for d in (-2, 2)]
    assert cost(best) * (1.0 - 1e-9) <= found.cost <= max(map(cost, off))


def test_distances_before_a_pay_off_stay_within_the_diameter():
    blocks = blocks_of([5], [1.0], [1.0], s=[0.0])
    pay_off = PayOff(GAUSSIAN, lambda b, z: np.zeros(1))
    steps = np.full(3, 1.0), np.full(3, 9.0), np.full(3, 1.0)
    found = lead_in(pay_off, blocks, steps, 0.0, 0.5)
    # Charging nothing and paying the diameter off is cheaper than any twenty-fourth of 9.
    assert found.pulls.tolist() == [0.0] * 3
    assert found.cost == pytest.approx(0.5**2 / 5, rel=1e-9)
    steps = np.full(2000, 2.0), np.full(2000, 1.0), np.full(2000, 1.0)
    with np.errstate(over="ignore"):  # a distance that overflows
        assert lead_in(pay_off, blocks, steps, 1.0, math.inf) is None


def test_two_sided_payments_may_be_none_or_few():
    def square(z, a):
        return a * a + 0 * z

    found = two_sided(0.5, 1.0, lambda k: 2.0 - 0.5 ** (k - 1), 9, lambda z: 1e-9 * z, square)
    assert found.payments.size == 0
    assert found.cost == pytest.approx(1e-9 * (2.0 - 0.5**8), rel=1e-12)
    found = two_sided(1.0, 1.0, float, 1000, lambda z: 100.0 * z * z, square, most=7)
    assert found.payments.size <= 7
    assert found.before[0] == pytest.approx(1000.0 - found.payments.size)
