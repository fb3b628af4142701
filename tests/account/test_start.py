"""The best start and its payments, against quadratic programs, rational arithmetic and the papers.

P1 is Bok, Su, Altschuler 2024, "Shifted interpolation for differential privacy".
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pabi.account.shifts import isotonic
from pabi.account.shifts.epochs import mu_of
from pabi.account.shifts.start import best_start
from pabi.describe.iteration import Steps
from support.every_case import every
from support.quadratic_programs import least_payments

from .closed_forms import replay

EXACT = 1e-9  # of a printed or tabulated number
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
        assert cost <= Fraction(found.payments.energy)
        assert found.distance >= reachable(c, s, diameter, start, found.tau)


@pytest.mark.parametrize(
    "kind",
    [
        "cyclic",
        *(
            pytest.param(k, marks=pytest.mark.nightly)
            for k in ("contracting", "expanding", "mixed", "flat")
        ),
    ],
)
def test_the_search_finds_the_best_of_all_starts(kind):
    """Long enough for several windows of the search; every start is solved by itself."""
    rng = np.random.default_rng(8)
    t = 1600
    c = {
        "contracting": np.full(t, 0.999),
        "expanding": np.full(t, 1.0005),
        "mixed": rng.uniform(0.9, 1.1, t),
        "flat": np.ones(t),
        "cyclic": np.where(np.arange(t) % 40 == 39, 0.9, 1.002),
    }[kind]
    s = np.where(rng.random(t) < 0.2, 0.05, 0.0)
    sigma = rng.uniform(0.5, 1.5, t)
    for diameter in (0.5, 4.0):
        w, v = forward(c, s, diameter, 0.0), sigma**2
        truth = min(isotonic.solve(c[k:], s[k:], v[k:], w[k]).energy for k in range(t))
        got = best_start(steps(c, s, sigma), diameter).payments.energy
        assert got == pytest.approx(truth, rel=2e-9, abs=0.0)


@every("gradient", [0.25, 0.5, 1.0])
@every("eta", [0.05, 0.1, 0.2])
def test_full_batches_on_a_diameter(gradient, eta):
    """P1 Thm 4.5 as in its Table 8: c = 1, D = 1, noise_std = 8. From t* on μ is 2√(sD)/σ."""
    s, sigma = eta * gradient, eta * 8.0
    t_star, mu_star = round(4.0 / s), 2.0 * math.sqrt(s) / sigma

    def mu(t):
        given = steps(np.ones(t), np.full(t, s), np.full(t, sigma))
        return mu_of(best_start(given, 1.0).payments.energy)

    for t in (t_star, t_star + 1, 2 * t_star, 20 * t_star):
        assert mu(t) == pytest.approx(mu_star, rel=EXACT, abs=0.0)
    for t in (1, t_star // 4, t_star // 2):
        assert mu(t) == pytest.approx(math.sqrt(t) * s / sigma, rel=EXACT, abs=0.0)
    # Just before t*, the cap still helps nothing.
    assert mu(t_star - 1) <= math.sqrt(t_star - 1) * s / sigma * (1 + EXACT)


@every("length", [10, 20, 40])
@every("gradient", [0.25, 0.5, 1.0])
@every("eta", [0.04, 0.02, 0.01])
def test_cyclic_batches_on_a_diameter(length, gradient, eta):
    """P1 Thm 4.6 as in its Tables 10–12: c = 1, D = 1, noise_std = 3, the last batch. The optimal shifts
    prove no more than its μ*, from E* epochs on less than composition."""
    s, sigma = eta * gradient, eta * 3.0
    square = 1.0 + 4.0 / (length * s)
    mu_star, e_star = gradient / 3.0 * math.sqrt(square), math.ceil(square * (1 - EXACT))
    for epochs in (1, e_star, 2 * e_star):
        t = length * epochs
        uses = np.zeros(t)
        uses[length - 1 :: length] = s
        mu = mu_of(best_start(steps(np.ones(t), uses, np.full(t, sigma)), 1.0).payments.energy)
        assert mu <= mu_star * (1 + EXACT)


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


def test_the_start_itself_may_be_the_best():
    """A distance at the start that no diameter cuts off, and nothing else to hide."""
    found = best_start(steps(np.full(50, 0.9), np.zeros(50), np.ones(50)), 10.0, 1.0)
    w = 0.9 ** np.arange(50)
    assert found.tau == 0
    assert found.payments.energy == pytest.approx(
        (0.9**50) ** 2 / np.sum(w * w), rel=1e-12, abs=0.0
    )


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
