"""The best start and its payments, against quadratic programs, rational arithmetic and the papers.

P1 is Bok, Su, Altschuler 2024, "Shifted interpolation for differential privacy".
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import quadprog

from pabi.describe.iteration import Group, Groups, Steps, Stretch
from pabi.shifts import isotonic, periodic
from pabi.shifts.records import mu_of
from pabi.shifts.start import best_start

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


def quadratic_program(c, s, sigma, start):
    """(lower, upper) bounds on the least Σ (a_k/σ_k)² with z_t = 0, z ≥ 0, a ≥ 0.

    In u = a/σ the program is a projection onto a polyhedron. The upper bound is the solver's point,
    the lower one the dual value of its multipliers, which is valid for any multipliers ≥ 0.
    """
    t, row, base = len(c), np.zeros(len(c)), start
    rows, bounds = [], []
    for k in range(t):
        row = c[k] * row
        row[k] = sigma[k]
        base = c[k] * base + s[k]
        scale = np.abs(row).max() or 1.0
        if k == t - 1:
            rows.append(row / scale)  # at least everything is paid
            bounds.append(base / scale)
        else:
            rows.append(-row / scale)  # and never more than there is
            bounds.append(-base / scale)
    if base == 0.0:
        return 0.0, 0.0
    if not np.any(row > 0.0):
        return math.inf, math.inf
    matrix = np.vstack([*rows, np.eye(t)])
    bound = np.append(bounds, np.zeros(t))
    try:
        u, _, _, _, multipliers, _ = quadprog.solve_qp(np.eye(t), np.zeros(t), matrix.T, bound)
    except ValueError:  # inconsistent: a demand after the last noise
        return math.inf, math.inf
    assert np.all(multipliers >= 0.0)
    assert np.all(matrix @ u >= bound - 1e-10 * (1.0 + np.abs(bound)))
    lower = 2.0 * bound @ multipliers - np.sum((matrix.T @ multipliers) ** 2)
    return float(lower), float(u @ u)


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
            lower, upper = quadratic_program(c[tau:], s[tau:], sigma[tau:], w[tau])
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


def replay(c, s, sigma, found):
    """(distance at the end, cost) of a start and its payments, in rationals."""
    c, s, sigma = ([Fraction(float(x)) for x in column] for column in (c, s, sigma))
    pay, cost, begin = [Fraction(0)] * len(c), Fraction(0), found.payments.first
    blocks = zip(found.payments.ends.tolist(), found.payments.q.tolist(), strict=True)
    for end, per_unit in blocks:
        w, q = Fraction(1), Fraction(per_unit) / Fraction(found.unit)
        for k in range(end, begin - 1, -1):
            pay[k] = q * sigma[k] ** 2 * w
            cost += (q * sigma[k] * w) ** 2
            w *= c[k]
        begin = end + 1
    assert not any(pay[: found.tau])
    z = Fraction(found.distance)
    for k in range(found.tau, len(c)):
        z = max(Fraction(0), c[k] * z + s[k] - pay[k])
    return z, cost


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
        rest, cost = replay(c, s, sigma, found)
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
        w = forward(c, s, diameter, 0.0)
        v = sigma**2
        truth = min(isotonic.solve(c[k:], s[k:], v[k:], w[k]).energy for k in range(t))
        got = best_start(steps(c, s, sigma), diameter).payments.energy
        assert got == pytest.approx(truth, rel=2e-9, abs=0.0)


def test_a_smaller_diameter_never_costs_more():
    rng = np.random.default_rng(9)
    for number in range(60):
        c, s, sigma, _, start = instance(rng, number)
        given = steps(c, s, sigma)
        energies = [
            best_start(given, diameter, min(start, 0.1)).payments.energy
            for diameter in (0.1, 0.5, 2.0, 10.0, math.inf)
        ]
        for smaller, larger in itertools.pairwise(energies):
            assert smaller <= larger * (1 + 1e-9)


def test_composition_and_a_single_payment_are_never_better():
    rng = np.random.default_rng(10)
    for number in range(60):
        c, s, sigma, diameter, _ = instance(rng, 2 * number + 1)
        if not sigma.all():
            continue
        energy = best_start(steps(c, s, sigma), diameter).payments.energy
        assert energy <= np.sum((s / sigma) ** 2) * (1 + 1e-12)
        assert energy <= (forward(c, s, math.inf, 0.0)[-1] / sigma[-1]) ** 2 * (1 + 1e-12)


# P1's tables.

TABLE_8 = [
    (0.25, 0.2, 80, 0.2795084971874737),
    (0.25, 0.1, 160, 0.39528470752104744),
    (0.25, 0.05, 320, 0.5590169943749475),
    (0.5, 0.2, 40, 0.39528470752104744),
    (0.5, 0.1, 80, 0.5590169943749475),
    (0.5, 0.05, 160, 0.7905694150420949),
    (1.0, 0.2, 20, 0.5590169943749475),
    (1.0, 0.1, 40, 0.7905694150420949),
    (1.0, 0.05, 80, 1.118033988749895),
]


@pytest.mark.parametrize("solver", ["arrays", "run-length"])
@pytest.mark.parametrize(("gradient", "eta", "t_star", "mu_star"), TABLE_8)
def test_table_8(gradient, eta, t_star, mu_star, solver):
    """P1 Table 8: full batches, c = 1, D = 1, noise_std = 8. From t* on the cap is attained."""
    s, sigma = eta * gradient, eta * 8.0

    def mu(t):
        if solver == "arrays":
            given = steps(np.ones(t), np.full(t, s), np.full(t, sigma))
            return mu_of(best_start(given, 1.0).payments.energy)
        given = Groups((Group(t, (Stretch(1, 1.0, s, sigma),)),))
        return mu_of(periodic.best_start(given, 1.0).energy)

    for t in (t_star, t_star + 1, 2 * t_star, 20 * t_star):
        assert mu(t) == pytest.approx(mu_star, rel=EXACT, abs=0.0)
    for t in (1, t_star // 4, t_star // 2):
        assert mu(t) == pytest.approx(math.sqrt(t) * s / sigma, rel=EXACT, abs=0.0)
    assert math.sqrt(t_star - 1) * s / sigma < mu_star * (1 - EXACT)
    assert math.sqrt(t_star) * s / sigma == pytest.approx(mu_star, rel=EXACT, abs=0.0)
    # Just before t*, the cap still helps nothing.
    assert mu(t_star - 1) <= math.sqrt(t_star - 1) * s / sigma * (1 + EXACT)


TABLES_10_TO_12 = [
    (10, 0.25, 0.04, 41, 0.5335936864527374),
    (10, 0.25, 0.02, 81, 0.75),
    (10, 0.25, 0.01, 161, 1.0573814617041266),
    (10, 0.5, 0.04, 21, 0.7637626158259733),
    (10, 0.5, 0.02, 41, 1.0671873729054748),
    (10, 0.5, 0.01, 81, 1.5),
    (10, 1.0, 0.04, 11, 1.1055415967851332),
    (10, 1.0, 0.02, 21, 1.5275252316519465),
    (10, 1.0, 0.01, 41, 2.1343747458109497),
    (20, 0.25, 0.04, 21, 0.38188130791298663),
    (20, 0.25, 0.02, 41, 0.5335936864527374),
    (20, 0.25, 0.01, 81, 0.75),
    (20, 0.5, 0.04, 11, 0.5527707983925666),
    (20, 0.5, 0.02, 21, 0.7637626158259733),
    (20, 0.5, 0.01, 41, 1.0671873729054748),
    (20, 1.0, 0.04, 6, 0.8164965809277259),
    (20, 1.0, 0.02, 11, 1.1055415967851332),
    (20, 1.0, 0.01, 21, 1.5275252316519465),
    (40, 0.25, 0.04, 11, 0.2763853991962833),
    (40, 0.25, 0.02, 21, 0.38188130791298663),
    (40, 0.25, 0.01, 41, 0.5335936864527374),
    (40, 0.5, 0.04, 6, 0.40824829046386296),
    (40, 0.5, 0.02, 11, 0.5527707983925666),
    (40, 0.5, 0.01, 21, 0.7637626158259733),
    (40, 1.0, 0.04, 4, 0.6236095644623235),
    (40, 1.0, 0.02, 6, 0.8164965809277259),
    (40, 1.0, 0.01, 11, 1.1055415967851332),
]


@pytest.mark.parametrize(("length", "gradient", "eta", "e_star", "mu_star"), TABLES_10_TO_12)
def test_tables_10_to_12(length, gradient, eta, e_star, mu_star):
    """P1 Tables 10–12: cyclic batches, c = 1, D = 1, noise_std = 3, last batch.

    The optimal shifts prove no more than the printed μ*. E*, the epochs from which composition is
    worse than μ*, is as corrected: the printed column multiplies where it should add.
    """
    s, sigma = eta * gradient, eta * 3.0
    assert e_star == math.ceil((3.0 * mu_star / gradient) ** 2 * (1 - EXACT))
    assert math.sqrt(e_star - 1) * gradient / 3.0 < mu_star * (1 - EXACT)
    for epochs in (1, e_star, 2 * e_star):
        t = length * epochs
        uses = np.zeros(t)
        uses[length - 1 :: length] = s
        mu = mu_of(best_start(steps(np.ones(t), uses, np.full(t, sigma)), 1.0).payments.energy)
        assert mu <= mu_star * (1 + EXACT)
        used, idle = Stretch(1, 1.0, s, sigma), Stretch(length - 1, 1.0, 0.0, sigma)
        groups = [Group(1, (idle,)), Group(epochs - 1, (used, idle)), Group(1, (used,))]
        by_length = periodic.best_start(Groups(g for g in groups if g.times), 1.0)
        assert mu_of(by_length.energy) == pytest.approx(mu, rel=EXACT, abs=0.0)


CONSTRAINED = [
    (1.2810252304406968, 361),
    (1.2977713690461004, 362),
    (1.3127849234810507, 353),
    (1.3269776053940743, 354),
    (1.341640786499874, 355),
    (1.3568010505999364, 356),
    (1.3751456799283635, 357),
    (1.4051188470584879, 358),
    (1.4632243987255136, 359),
    (1.6251232694862383, 360),
]


@pytest.mark.parametrize(("position", "mu", "tau"), [(j, *x) for j, x in enumerate(CONSTRAINED)])
def test_cyclic_constrained(position, mu, tau):
    """l = 10, E = 40, c = 1, s = σ = 1, D = 5; the last improves P1 Thm 4.6, √3."""
    s = np.zeros(400)
    s[position::10] = 1.0
    found = best_start(steps(np.ones(400), s, np.ones(400)), 5.0)
    assert mu_of(found.payments.energy) == pytest.approx(mu, rel=EXACT, abs=0.0)
    assert mu_of(found.payments.energy) < math.sqrt(3.0)
    assert found.tau == tau
    used, idle = Stretch(1, 1.0, 1.0, 1.0), Stretch(9, 1.0, 0.0, 1.0)
    groups = [Group(39, (used, idle)), Group(1, (used,))]
    if position:
        groups = [Group(1, (idle._replace(n=position),)), *groups]
    if position < 9:
        groups = [*groups, Group(1, (idle._replace(n=9 - position),))]
    by_length = periodic.best_start(Groups(groups), 5.0)
    assert mu_of(by_length.energy) == pytest.approx(mu, rel=EXACT, abs=0.0)


def test_constrained_full():
    found = best_start(steps(np.ones(200), np.full(200, 0.1), np.ones(200)), 5.0)
    assert mu_of(found.payments.energy) == pytest.approx(1.4142135623730927, rel=EXACT, abs=0.0)


RANDOM_LINEAR = [
    (
        [0.975, 1.138, 1.065, 0.735, 0.78, 1.124, 0.603, 1.093, 1.078, 0.881, 0.782, 0.767],
        [0.255, 0.0, 0.505, 0.0, 0.0, 0.0, 0.622, 0.989, 0.215, 0.16, 0.0, 0.044],
        [0.928, 0.306, 1.711, 0.563, 0.755, 1.797, 1.167, 1.74, 1.388, 1.561, 0.456, 1.22],
        (1.5, 0.5913234319096038, 9, 0.8975337951997789),
    ),
    (
        [1.123, 0.817, 0.959, 0.636, 0.833, 0.794, 0.69, 1.09, 0.828, 1.187, 0.954, 0.963],
        [0.0, 0.676, 0.0, 0.0, 0.0, 0.0, 0.097, 0.968, 0.0, 0.0, 0.3, 0.0],
        [1.391, 1.268, 0.94, 0.999, 0.707, 0.365, 1.79, 1.095, 1.231, 0.848, 1.577, 0.343],
        (1.5, 0.5040034841257994, 0, 1.0511109445208862),
    ),
    (
        [0.823, 0.618, 0.674, 1.18, 0.995, 0.857, 0.914, 1.124, 0.807, 0.954, 1.01, 0.813],
        [0.0, 0.0, 0.0, 0.0, 0.933, 0.005, 0.753, 0.811, 0.137, 0.0, 0.0, 0.014],
        [0.762, 1.918, 1.056, 1.967, 1.176, 1.186, 1.824, 1.563, 1.287, 1.025, 1.793, 1.0],
        (1.5, 0.4856822460505341, 8, 1.0395358865156448),
    ),
    (
        [0.641, 0.858, 0.912, 1.171, 0.751, 1.084, 1.006, 1.03, 0.978, 1.183, 0.8, 0.839],
        [0.203, 0.0, 0.0, 0.915, 0.84, 0.112, 0.0, 0.0, 0.0, 0.659, 0.0, 0.0],
        [1.792, 1.19, 1.857, 0.379, 0.351, 0.334, 0.73, 0.723, 0.619, 1.264, 0.366, 1.304],
        (1.5, 0.751529464318504, 10, 3.4572988296878866),
    ),
    (
        [0.7, 1.007, 0.613, 0.786, 1.163, 0.923, 1.087, 0.995, 0.966, 0.715, 0.945, 0.624],
        [0.802, 0.0, 0.0, 0.051, 0.0, 0.0, 0.0, 0.627, 0.0, 0.0, 0.0, 0.0],
        [0.856, 1.527, 1.774, 1.818, 0.575, 0.345, 1.406, 0.665, 1.258, 1.906, 0.945, 0.73],
        (1.5, 0.22524045991587355, 0, 1.3295028892888767),
    ),
    (
        [0.994, 0.661, 0.828, 0.68, 0.997, 1.098, 0.826, 0.823, 0.924, 0.729, 0.748, 0.798],
        [0.457, 0.082, 0.0, 0.0, 0.3, 0.078, 0.0, 0.131, 0.0, 0.131, 0.0, 0.0],
        [1.704, 1.446, 0.93, 0.409, 1.182, 1.588, 0.624, 0.753, 1.211, 1.572, 1.824, 0.514],
        (math.inf, 0.15092470426921337, 0, 0.42330127283031316),
    ),
]


@pytest.mark.parametrize(("c", "s", "sigma", "expected"), RANDOM_LINEAR)
def test_random_linear(c, s, sigma, expected):
    diameter, mu, tau, composition = expected
    found = best_start(steps(c, s, sigma), diameter)
    assert mu_of(found.payments.energy) == pytest.approx(mu, rel=EXACT, abs=0.0)
    assert found.tau == tau
    assert np.linalg.norm(np.array(s) / np.array(sigma)) == pytest.approx(
        composition, rel=EXACT, abs=0.0
    )


def test_varying_step_sizes_can_make_an_earlier_record_the_worst():
    """c = 1, noise_std = 1, L/b = 1, l = 2, step sizes 1, .1, .09, .01."""
    eta = np.array([1.0, 0.1, 0.09, 0.01])
    for first, mu in ((0, 1.4063797097333888), (1, 1.2459880367986298)):
        s = np.zeros(4)
        s[first::2] = eta[first::2]
        found = best_start(steps(np.ones(4), s, eta))
        assert mu_of(found.payments.energy) == pytest.approx(mu, rel=EXACT, abs=0.0)


# Long runs.


@pytest.mark.parametrize("c", [0.9, 1.1, 0.999, 1.0, 1.0001])
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


def test_no_more_noise_left_is_infinite_with_a_diameter_too():
    given = steps(np.ones(3), [1.0, 1.0, 1.0], [1.0, 1.0, 0.0])
    assert best_start(given, 1.0).payments.energy == math.inf


@pytest.mark.parametrize("diameter", [math.inf, 5.0])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_what_is_undefined_is_no_cheaper_than_anything_it_could_be(column, diameter):
    """0·∞ is NaN. Where it stands for a slope or a demand any number may be meant, and for a noise 0."""
    columns = [np.ones(3), np.array([1.0, 1.0, 0.0]), np.ones(3)]

    def energy(value):
        changed = [x.copy() for x in columns]
        changed[column][1] = value
        return best_start(Steps(*changed), diameter).payments.energy

    assert energy(math.nan) >= max(energy(x) for x in (0.0, 1.0, 10.0, 1e6)) * (1.0 - 1e-12)
