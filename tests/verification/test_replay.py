"""Payments replayed in doubles never prove more than the exact replay of this file grants.

The oracle goes step by step in rational arithmetic, straight from the recursion.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

import pabi
from pabi.verification import replay
from pabi.verification.arithmetic import (
    BITS,
    Refused,
    above,
    check_cost,
    double_above,
    double_below,
    fraction_of,
)
from pabi.verification.replay import Claim, PaidBlocks, Replay, RoundedSteps, replayed
from pabi.verification.roundings import (
    Fine,
    OutOfReach,
    products_above,
    products_after,
    products_below,
    slopes_above,
)

SHAPES = ("even", "contracting", "expanding", "mixed", "fading", "steep", "noiseless", "tiny")


@pytest.fixture(autouse=True)
def _precision():
    with ctx.workprec(BITS):
        yield


def exactly(steps, paid):
    """(the distance at the end, what is paid), as Fractions."""
    c, sigma = (list(map(Fraction, column.tolist())) for column in (steps.c, steps.sigma))
    demands = dict(zip(paid.at.tolist(), map(Fraction, paid.owed.tolist()), strict=True))
    rates, begin = {}, paid.first
    for end, q, shift in zip(paid.ends.tolist(), paid.q.tolist(), paid.shift.tolist(), strict=True):
        pay = Fraction(q) * Fraction(2) ** shift / Fraction(paid.unit)
        for k in range(end, begin - 1, -1):
            rates[k] = pay * sigma[k]
            pay *= c[k]
        begin = end + 1
    z, cost = Fraction(paid.distance), Fraction(0)
    for k in range(paid.tau, len(c)):
        rate = rates.get(k, Fraction(0))
        z = max(Fraction(0), c[k] * z + demands.get(k, 0) - rate * sigma[k])
        cost += rate * rate
    return z, cost


def drawn(rng, shape, t, period):
    """RoundedSteps, and payments in blocks for the uses of one place, far from what is needed."""
    c = {
        "even": np.ones(t),
        "contracting": rng.uniform(0.2, 1.0, t),
        "expanding": rng.uniform(1.0, 3.0, t),
        "steep": np.exp(rng.uniform(-400.0, 400.0, t)),
        "tiny": np.where(rng.random(t) < 0.1, 1e-310, 1.0),
    }.get(shape, rng.uniform(0.5, 1.5, t))
    sigma = np.exp(rng.normal(0.0, 1.0, t))
    if shape == "fading":
        sigma *= np.linspace(1.0, 1e-9, t) ** 2
    if shape == "noiseless":
        sigma[rng.random(t) < 0.3] = 0.0
    at = np.arange(rng.integers(period), t, period)
    owed = np.exp(rng.normal(0.0, 2.0, len(at))) * (rng.random(len(at)) < 0.9)
    tau = int(rng.integers(t // 2)) * int(rng.integers(2))
    first = tau + int(rng.integers(3))
    ends = np.unique(np.append(rng.integers(first, t, 3), t - 1))
    q = np.exp(rng.normal(0.0, 1.0, len(ends)))
    shift = rng.integers(-3, 4, len(ends))
    unit = float(rng.choice([1.0, 0.25, 3.0]))
    paid = PaidBlocks(tau, float(rng.choice([0.0, 2.5])), first, ends, q, shift, unit, at, owed)
    return RoundedSteps(c, np.ones(t), sigma), paid


def needed(steps, paid, number=Fraction):
    """By how much all payments have to be multiplied; None if that is no help. From every step on they have
    to make up for what is owed, each times the slopes after it."""
    c, sigma = (list(map(number, column.tolist())) for column in (steps.c, steps.sigma))
    demands = dict(zip(paid.at.tolist(), map(number, paid.owed.tolist()), strict=True))
    after, owed, pays, worst = number(1), number(0), number(0), number(0)
    blocks = dict(
        zip(paid.ends.tolist(), zip(paid.q.tolist(), paid.shift.tolist(), strict=True), strict=True)
    )
    for k in range(len(c) - 1, paid.tau - 1, -1):
        if k in blocks:
            q, shift = blocks[k]
            rate, within = number(q) * number(2) ** shift / number(paid.unit), number(1)
        if k >= paid.first:
            pays += rate * sigma[k] ** 2 * within * after
        owed += demands.get(k, 0) * after
        after, within = after * c[k], within * c[k]
        here = owed + (number(paid.distance) * after if k == paid.tau else 0)
        if here:
            if not pays:
                return None
            worst = here / pays if here / pays > worst else worst
    return worst or None


def _scaled(paid, factor):
    return paid._replace(
        q=np.array([float(q * factor) for q in map(type(factor), paid.q.tolist())])
    )


def in_doubles(steps, cases, size):
    """The costs that doubles prove, None for each that they leave open."""
    with np.errstate(all="ignore"):
        return list(replay.Doubles(steps, size).costs(cases))


@pytest.mark.parametrize("shape", SHAPES)
def test_doubles_prove_nothing_that_is_not_so_and_nearly_all_that_is(shape):
    rng = np.random.default_rng(SHAPES.index(shape))
    decided = 0
    for _ in range(5):
        t, period = int(rng.integers(8, 20)), int(rng.integers(1, 9))
        steps, paid = drawn(rng, shape, t, period)
        critical = needed(steps, paid)
        if critical is None:
            continue
        margins = [s * Fraction(1, 2**p) for p in (20, 46, 48, 50, 52, 53) for s in (1, -1)]
        cases = [_scaled(paid, critical * (1 + margin)) for margin in margins]
        for size in (1, min(period, t)):
            try:
                costs = in_doubles(steps, cases, size)
            except OutOfReach:
                continue
            for margin, case, cost in zip(margins, cases, costs, strict=True):
                left, spent = exactly(steps, case)
                if cost is None:
                    # Where slopes differ by hundreds of powers of two, balls may have to decide.
                    assert margin < Fraction(1, 2**47) or size > 1 or shape in ("steep", "tiny")
                    continue
                assert left == 0
                proven = fraction_of(above(cost))
                assert spent <= proven <= spent * (1 + Fraction(1, 2**48))
                decided += 1
    assert decided > 0


def test_cases_that_are_replayed_together_do_not_mix():
    """Each case has its own start, blocks and demands, and the parts are filled up from the left."""
    rng = np.random.default_rng(5)
    steps, _ = drawn(rng, "mixed", 16, 4)
    cases = [drawn(rng, "mixed", 16, int(rng.integers(1, 9)))[1] for _ in range(30)]
    cases += [case._replace(q=case.q * 1e3) for case in cases]
    together = in_doubles(steps, cases, 4)
    assert {cost is None for cost in together} == {True, False}
    for case, cost in zip(cases, together, strict=True):
        (alone,) = in_doubles(steps, [case], 4)
        assert (cost is None) == (alone is None)
        left, spent = exactly(steps, case)
        assert cost is None or (left == 0 and spent <= fraction_of(above(cost)))
        assert cost is None or cost == alone


@pytest.mark.parametrize("size", [1, 300])
def test_what_many_roundings_lose_is_counted(size):
    """Of 30 000 steps doubles alone lose some 2^-45, which is told from what is needed here."""
    rng = np.random.default_rng(8)
    t, period = 30_000, 300
    steps = RoundedSteps(
        rng.uniform(0.99999, 1.00001, t), np.full(t, 0.1), rng.uniform(0.5, 2.0, t)
    )
    at = np.arange(7, t, period)
    paid = PaidBlocks(
        *(0, 0.0, 0, np.array([20_000, t - 1]), np.array([1.0, 4.0]), np.zeros(2, int), 1.0),
        *(at, steps.s[at]),
    )
    critical = needed(steps, paid, number=arb)
    cases = [_scaled(paid, critical * (1 + arb(2) ** -47 * sign)) for sign in (1, -1)]
    cost, too_little = in_doubles(steps, cases, size)
    assert too_little is None
    true = replayed(steps, cases[0])
    assert true <= cost <= true * (1 + arb(2) ** -49)
    with pytest.raises(Refused):
        replayed(steps, cases[1])


def test_products_and_quotients_are_known_to_more_than_doubles():
    rng = np.random.default_rng(2)
    a, b = (np.exp(rng.uniform(-600.0, 600.0, 200)) for _ in range(2))
    one, other = Fine.of(a), Fine.of(b, 2.0**-60, 5)
    for fine, of in ((one.times(other), lambda x, y: x * y), (one.over(other), lambda x, y: x / y)):
        heads, tails, powers = fine.head.tolist(), fine.tail.tolist(), fine.power.tolist()
        for x, y, h, e, p in zip(a.tolist(), b.tolist(), heads, tails, powers, strict=True):
            true = of(Fraction(x), Fraction(y) * (1 + Fraction(1, 2**60)) * 32)
            known = Fraction(h) * (1 + Fraction(e)) * Fraction(2) ** p
            assert abs(known / true - 1) < Fraction(1, 2**102)


def test_sums_over_parts_of_cells_are_known_to_more_than_doubles():
    rng = np.random.default_rng(4)
    t, size = 40, 7
    c, sigma = rng.uniform(0.3, 1.2, t), np.exp(rng.normal(0.0, 3.0, t)) * (rng.random(t) < 0.8)
    cells = replay.Cells(sigma, products_after(c), size)
    pairs = [(i, j) for i in range(t) for j in range(i, t) if i // size == j // size]
    begin, end = (np.array(x) for x in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        sums, worst = cells.between(begin, end)
    terms, after = {}, Fraction(1)
    for k in range(t - 1, -1, -1):
        terms[k], after = (Fraction(sigma[k]) * after) ** 2, after * Fraction(c[k])
    found = zip(
        sums.head.tolist(), sums.tail.tolist(), sums.power.tolist(), worst.tolist(), strict=True
    )
    for (i, j), (head, tail, power, lost) in zip(pairs, found, strict=True):
        true = sum(terms[k] for k in range(i, j + 1))
        if true == 0:
            assert head == 0.0 or lost > 1e9
            continue
        if lost < 1e9:
            known = Fraction(head) * (1 + Fraction(tail)) * Fraction(2) ** power
            assert abs(known / true - 1) < Fraction(lost) ** 2 / 2**95
        if i % size and (j + 1) % size:
            rest = sum(terms[k] for k in range(i, min(t, i // size * size + size)))
            assert lost > rest / true * Fraction(999, 1000) or lost > 1e9


def test_a_small_part_of_a_cell_is_summed_by_itself():
    """All of the cell but 2^-30 of it is taken off again, which leaves too few digits."""
    sigma = np.array([1.0, 2.0**-15, 1.0, 1.0])
    steps = RoundedSteps(np.ones(4), np.ones(4), sigma)
    paid = few()[1]._replace(
        ends=np.array([0, 1, 3]), q=np.full(3, 2.0), shift=np.zeros(3, dtype=np.int64)
    )
    assert in_doubles(steps, [paid], 4) == [None]
    assert in_doubles(steps, [paid], 1) != [None]


def few(**other):
    """Three steps of noise 1 that use a record at first, paid by what is needed and a little more."""
    paid = PaidBlocks(
        0,
        0.0,
        0,
        np.array([2]),
        np.array([0.5]),
        np.array([0]),
        1.0,
        np.array([0]),
        np.array([1.0]),
    )
    return RoundedSteps(np.ones(3), np.ones(3), np.ones(3)), paid._replace(**other)


def check(steps, *stated):
    claim = Claim(*stated)
    (cost,) = Replay(steps).costs([claim])
    check_cost(cost, claim.mu, "the end")


def test_an_ulp_too_little_is_refused_and_an_ulp_more_is_accepted():
    """Σa²/σ² = 3q² with q = ½; what doubles leave open balls decide."""
    steps, paid = few()
    check(steps, paid, math.nextafter(math.sqrt(0.75), 1.0))
    with pytest.raises(Refused, match="cost"):
        check(steps, paid, math.nextafter(math.sqrt(0.75), 0.0))
    third = math.nextafter(1.0 / 3.0, 1.0)
    check(steps, few(q=np.array([third]))[1], 1.0)
    with pytest.raises(Refused, match="leave a distance"):
        check(steps, few(q=np.array([1.0 / 3.0]))[1], 1.0)


def test_what_else_is_paid_counts():
    steps, paid = few()
    check(steps, paid, 1.0, arb("0.25"))
    with pytest.raises(Refused, match="cost"):
        check(steps, paid, 1.0, arb("0.2500001"))


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_payment_that_is_no_number_is_refused(value):
    case = {"tau": 0, "first": 0, "unit": 1.0, "ends": [2], "q": [value]}
    with pytest.raises(Refused, match="no number"):
        replay.payments_of(case, 0.0, np.array([0]), np.array([1.0]), 3)


@pytest.mark.parametrize("ends", [[2, 1], [1, 1], [3], [-1], [0, 2**61]])
def test_blocks_out_of_order_are_refused(ends):
    case = {"tau": 0, "first": 0, "unit": 1.0, "ends": ends, "q": [1.0] * len(ends)}
    with pytest.raises(Refused, match="out of order"):
        replay.payments_of(case, 0.0, np.array([0]), np.array([1.0]), 3)


def test_without_noise_nothing_is_paid():
    steps, paid = few()
    with pytest.raises(Refused, match="leave a distance"):
        check(steps._replace(sigma=np.zeros(3)), paid, 9.0)


def test_payments_before_there_is_anything_to_pay_are_lost():
    """All of the demand comes after the payments, which would suffice were they kept."""
    steps, paid = few(ends=np.array([1]), q=np.array([5.0]), at=np.array([2]))
    with pytest.raises(Refused, match="leave a distance"):
        check(steps, paid, 99.0)


def test_nothing_is_owed_and_nothing_is_paid():
    steps, paid = few(
        ends=np.zeros(0, int), q=np.zeros(0), shift=np.zeros(0, int), owed=np.zeros(1)
    )
    check(steps, paid, 0.0)
    with pytest.raises(Refused, match="leave a distance"):
        check(steps, paid._replace(owed=np.array([5e-324])), 0.0)


def test_a_slope_of_zero_forgets_what_came_before():
    steps, paid = few(at=np.array([0]), owed=np.array([1e9]))
    check(steps._replace(c=np.array([1.0, 0.0, 1.0])), paid, 1.0)


@pytest.mark.nightly
@pytest.mark.parametrize("batches", [pabi.Cyclic(500), pabi.ShuffleOnce(500)], ids=str)
def test_long_runs_need_no_more_than_the_default_limits(batches):
    """100 places in 100 000 steps of a schedule, where balls take 20 s."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0, l2=1e-3),
        n=50_000,
        batches=batches,
        epochs=1000,
        step_size=0.5 + 0.5 * np.cos(np.pi * np.arange(100_000) / 100_000),
        clip_norm=1.0,
        noise_multiplier=1.0,
    )
    assert pabi.verify(run.guarantee(delta=1e-6).to_json()).ok


# Doubles next to rational numbers.


RATES = (
    fmpq(0),
    fmpq(1, 4),
    fmpq(1, 3),
    fmpq(2),
    fmpq(-1, 7),
    fmpq(10**320 + 1, 10**320),
    fmpq(1, 10**250),
)


def schedules(rng):
    """Step sizes of all sorts: any, powers of two, near inverses of rates, extreme, equal."""
    yield rng.uniform(0.0, 9.0, 60)
    yield np.ldexp(1.0, rng.integers(-40, 4, 20))
    yield np.array([0.0, 1.0, 1.5, 0.75, 3.0, 4.0, 0.5, 7.0, 1e300, 1e307, 5e-324, 1e-310])
    yield 10.0 ** rng.uniform(-300.0, 10.0, 40)
    yield np.full(9, 0.1)


@pytest.mark.parametrize("rate", RATES, ids=lambda rate: f"{float(fraction_of(rate)):.3g}")
def test_slopes_and_products_are_the_next_doubles(rate):
    rng = np.random.default_rng(3)
    r = fraction_of(rate)
    for etas in schedules(rng):
        exact = [Fraction(x) for x in etas.tolist()]
        assert slopes_above(etas, {rate}).tolist() == [double_above(abs(1 - x * r)) for x in exact]
        worst = [double_above(max(abs(1 - x * r), abs(1 - x / 9))) for x in exact]
        assert slopes_above(etas, {rate, fmpq(1, 9)}).tolist() == worst
        if rate < 0:
            continue
        assert products_above(etas, rate).tolist() == [double_above(x * r) for x in exact]
        others = rng.uniform(0.0, 2.0, len(etas)) * (rng.random(len(etas)) < 0.8)
        pairs = zip(exact, map(Fraction, others.tolist()), strict=True)
        below = [double_below(x * y * r) for x, y in pairs]
        assert products_below(etas, others, rate).tolist() == below


def test_slopes_that_are_doubles_though_their_rates_are_not():
    """1 − η/d of η = d/4 and 3d/4, where η times the double next to 1/d is rounded somehow."""
    for d in range(3, 300, 2):
        etas = np.array([0.25, 0.75]) * d
        assert slopes_above(etas, {fmpq(1, d)}).tolist() == [0.75, 0.25]
        assert products_above(etas, fmpq(1, d)).tolist() == [0.25, 0.75]
        assert products_below(etas, np.ones(2), fmpq(1, d)).tolist() == [0.25, 0.75]
