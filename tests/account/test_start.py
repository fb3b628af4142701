"""The best start and its payments, against quadratic programs, rational arithmetic and the papers.

P1 is Bok, Su, Altschuler 2024, "Shifted interpolation for differential privacy".
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from pabi.account.shifts import isotonic
from pabi.account.shifts.start import best_start
from pabi.describe.iteration import Steps
from support.every_case import every
from support.falsification.affine_maps import exact_mu
from support.quadratic_programs import least_payments

from .closed_forms import replay

QP = 1e-8


def steps(c, s, sigma):
    return Steps(*(np.asarray(x, dtype=np.float64) for x in (c, s, sigma)))


def forward(c, s, diameter, start):
    """w_0, …, w_t: how far the two runs can be apart when nothing is paid."""
    w = [start]
    for slope, more in zip(c, s, strict=True):
        w.append(min(diameter, slope * w[-1] + more))
    return w


def instance(rng, number):
    """Slopes on both sides of one, unused steps, and D finite in two cases out of three."""
    t = int(rng.integers(1, 13))
    c = rng.uniform(0.5, 1.4, t)
    s = np.where(rng.random(t) < 0.6, rng.uniform(0.0, 2.0, t), 0.0)
    sigma = rng.uniform(0.2, 2.0, t)
    if number % 5 == 0:
        c[rng.random(t) < 0.15] = 0.0
    if number % 7 == 0:
        sigma[rng.random(t) < 0.25] = 0.0
    diameter = math.inf if number % 3 == 0 else float(rng.choice([0.3, 1.0, 3.0]))
    start = 0.0 if number % 2 else float(rng.uniform(0.0, 1.0)) * min(diameter, 3.0)
    return c, s, sigma, diameter, start


def test_agrees_with_quadratic_programs_from_every_start():
    rng = np.random.default_rng(20240902)
    capped = infinite = 0
    for number in range(200):
        c, s, sigma, diameter, start = instance(rng, number)
        w = forward(c, s, diameter, start)
        truth = []
        for tau in range(len(c)):
            lower, upper = least_payments(c[tau:], s[tau:], sigma[tau:], w[tau])
            got = isotonic.solve(c[tau:], s[tau:], sigma[tau:] ** 2, w[tau]).energy
            truth.append(upper)
            if upper in (0.0, math.inf):
                assert got == upper
            else:
                assert upper - lower <= QP * upper  # the program itself is solved to that accuracy
                assert lower * (1 - QP) <= got <= upper * (1 + QP)
        best = best_start(steps(c, s, sigma), diameter, start)
        least = min(truth)
        infinite += least == math.inf
        if least in (0.0, math.inf):
            assert best.payments.energy == least
        else:
            assert best.payments.energy == pytest.approx(least, rel=QP, abs=0.0)
            assert truth[best.tau] == pytest.approx(least, rel=QP, abs=0.0)
            capped += best.tau > 0
    assert capped > 30  # the diameter matters
    assert infinite > 3


def reachable(c, s, diameter, start, tau):
    """The exact distance that the runs can have reached before step τ."""
    w, cap = Fraction(start), None if math.isinf(diameter) else Fraction(diameter)
    for k in range(tau):
        w = Fraction(float(c[k])) * w + Fraction(float(s[k]))
        w = w if cap is None else min(w, cap)
    return w


def test_payments_are_feasible_and_cost_no_more_than_stated():
    rng = np.random.default_rng(20240903)
    for number in range(150):
        c, s, sigma, diameter, start = instance(rng, number)
        found = best_start(steps(c, s, sigma), diameter, start)
        if found.payments.energy == math.inf:
            continue
        rest, cost = replay(c, s, sigma, found.payments, found.distance, found.unit, found.tau)
        assert rest == 0
        assert cost <= Fraction(found.payments.energy) * (1 + Fraction(1, 10**13))
        assert found.distance >= reachable(c, s, diameter, start, found.tau)


@pytest.mark.parametrize("kind", ["cyclic", pytest.param("mixed", marks=pytest.mark.nightly)])
def test_the_search_finds_the_best_of_all_starts(kind):
    """Long enough for several windows of the search; every start is solved by itself."""
    rng = np.random.default_rng(8)
    t = 1600
    cyclic = np.where(np.arange(t) % 40 == 39, 0.9, 1.002)
    c = cyclic if kind == "cyclic" else rng.uniform(0.9, 1.1, t)
    s = np.where(rng.random(t) < 0.2, 0.05, 0.0)
    sigma = rng.uniform(0.5, 1.5, t)
    for diameter in (0.5, 4.0):
        w, v = forward(c, s, diameter, 0.0), sigma**2
        truth = min(isotonic.solve(c[k:], s[k:], v[k:], w[k]).energy for k in range(t))
        got = best_start(steps(c, s, sigma), diameter).payments.energy
        assert got == pytest.approx(truth, rel=2e-9, abs=0.0)


@every("c", [0.9, 1.1, 0.999, 1.0, 1.0001])
def test_long_runs_on_a_diameter_stay_finite_and_below_composition(c):
    t, s, diameter = 200_000, 0.1, 1.0
    found = best_start(steps(np.full(t, c), np.full(t, s), np.ones(t)), diameter)
    # Every start by itself, in closed form: R steps from D in one block, if slopes allow it.
    r = np.arange(1.0, 3001.0)
    w = c ** (r - 1)
    one_block = (diameter * c * w + s * np.cumsum(w)) ** 2 / np.cumsum(w * w)
    assert 0.0 < found.payments.energy <= one_block.min() * (1 + 1e-9)
    assert found.payments.energy <= t * s * s * (1 + 1e-12)


@every("diameter", [math.inf, 5.0])
@every("column", [0, 1, 2])
def test_what_is_undefined_is_no_cheaper_than_anything_it_could_be(column, diameter):
    """0·∞ is NaN. Where it stands for a slope or a demand any number may be meant, and for a noise 0."""
    columns = [np.ones(3), np.array([1.0, 1.0, 0.0]), np.ones(3)]

    def energy(value):
        changed = [x.copy() for x in columns]
        changed[column][1] = value
        return best_start(Steps(*changed), diameter).payments.energy

    assert energy(math.nan) >= max(energy(x) for x in (0.0, 1.0, 10.0, 1e6)) * (1.0 - 1e-12)


# Where slopes may be as small as one likes, the cheapest payments are the exact privacy loss of some run.


def worst_slopes(c, s, sigma):
    """The slopes of Theorem 47: as large as allowed, but between two blocks smaller by the ratio of their
    slopes. Blocks are found anew, by scipy's regression."""
    later = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
    v = np.square(sigma * later)
    q = isotonic_regression(later * s / v, weights=v).x
    smaller = np.append(1.0, q[:-1] / np.where(q[1:] > 0.0, q[1:], 1.0))
    return np.where(q > 0.0, c * np.minimum(smaller, 1.0), c)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_payments_are_exact_where_slopes_are_free(count):
    rng = np.random.default_rng(count)
    for _ in range(count):
        t = int(rng.integers(1, 30))
        c = rng.uniform(0.3, 1.6, t) if rng.random() < 0.7 else np.ones(t)
        sigma = np.exp(rng.uniform(-1.0, 1.0, t))
        s = np.where(rng.random(t) < 0.4, np.exp(rng.uniform(-1.0, 1.0, t)), 0.0)
        s[int(rng.integers(t))] = 1.0
        proven = math.sqrt(best_start(Steps(c, s, sigma), math.inf, 0.0).payments.energy)
        slopes = worst_slopes(c, s, sigma)
        assert np.all((slopes >= 0.0) & (slopes <= c))
        assert float(exact_mu(slopes, s, sigma)) == pytest.approx(proven, rel=1e-9)
