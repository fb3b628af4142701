"""Bounds on the last point and the path's average of a reflected diffusion, against exact solutions."""

import math
from collections.abc import Callable
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.special import gammainc, lambertw
from scipy.stats import chi, gamma, norm

from pabi.erm import uniform_stability
from pabi.literature import langevin_universality
from pabi.sampling import erm_bounds
from pabi.sampling.erm_bounds import average_stability
from support.every_case import every, refused, refuses

Array = np.ndarray


@every("k", [1e-12, 1e-6, 1e-3, 0.009, 0.1, 1.2563, 5.0, 600.0])
def test_entropy_factor_is_the_other_branch_of_lambert(k):
    x = erm_bounds.entropy_factor(k)
    if 1e-5 < k < 700.0:
        assert x == pytest.approx(-lambertw(-math.exp(-1.0 - k), -1).real, rel=1e-9)
    with mpmath.workdps(50):
        slack = mpmath.mpf(x) - 1 - mpmath.log(x)
        assert slack >= k
        assert float(slack) == pytest.approx(k, rel=1e-3 if k < 1e-9 else 1e-8)  # of doubles near 1


def test_entropy_factor_at_the_best_time_of_path_accounting():
    assert erm_bounds.entropy_factor(1.2563) == pytest.approx(3.5126, abs=2e-4)
    # The best x of x/√(x − 1 − ln x) solves x − 1 = 2 ln x.
    best = 3.5128624172523393
    assert best - 1.0 == pytest.approx(2.0 * math.log(best), abs=1e-12)
    assert erm_bounds.entropy_factor(best - 1.0 - math.log(best)) == pytest.approx(best, rel=1e-9)
    assert best / math.sqrt(8.0 * (best - 1.0 - math.log(best))) == pytest.approx(1.108, abs=5e-4)


LOSSES = {
    "absolute": (lambda x: np.abs(x), np.sign),
    "square": (lambda x: 0.5 * x**2, lambda x: x),
    "corner": (
        lambda x: np.maximum(0.5 - x, 0.2 * (x - 0.5)),
        lambda x: np.where(x < 0.5, -1.0, 0.2),
    ),
    "linear": (lambda x: x, np.ones_like),
}


def reflected(values, beta, time, width, start):
    """The law at `time` of the reversible chain on equal cells whose stationary law is ∝ exp(−βL).

    Rates √(π_j/π_i)/width² between neighbours: a finite-volume form of the reflected diffusion, which has
    the bounded Hessian of L in its discrete form as well.
    """
    n = len(values)
    generator = np.zeros((n, n))
    for i, j in [(i, i + 1) for i in range(n - 1)] + [(i + 1, i) for i in range(n - 1)]:
        generator[i, j] = math.exp(0.5 * beta * (values[i] - values[j])) / width**2
    generator -= np.diag(generator.sum(axis=1))
    return np.asarray(expm(time * generator)[start])


@pytest.mark.parametrize(("name", "beta"), list(product(LOSSES, (1.0, 10.0, 40.0))))
def test_last_point_of_reflected_diffusions_on_a_line(name, beta):
    loss, _ = LOSSES[name]
    cells = 240
    width = 2.0 / cells
    x = -1.0 + width * (np.arange(cells) + 0.5)
    values = loss(x)
    f = values - loss(np.linspace(-1.0, 1.0, 2001)).min()
    m = 1.0 if name == "square" else 0.0
    for time, start in product((0.003, 0.03, 0.3), (0, cells // 2)):
        law = reflected(values, beta, time, width, start)
        radius = max(x[start] + 1.0, 1.0 - x[start]) + width
        for assumed in {0.0, m}:
            bound = erm_bounds.last_point(
                1, inverse_temperature=beta, time=time, radius=radius, strong_convexity=assumed
            )
            # The loss is 1-Lipschitz: a cell's points differ by at most its width.
            assert law @ f <= bound + width
        if name == "linear" and start == cells - 1:
            assert law @ f >= 0.1 * bound  # the bound is of the right size


@every("p, m, beta, time", list(product((1, 3, 50), (0.1, 2.0), (0.5, 20.0), (0.01, 0.4, 5.0))))
def test_last_point_of_ornstein_uhlenbeck_processes(p, m, beta, time):
    # dθ = −βmθ dt + √2 dW from θ_0: exact in every dimension, no boundary.
    start = 0.7
    decay = math.exp(-beta * m * time)
    variance = -math.expm1(-2.0 * beta * m * time) / (beta * m)
    truth = 0.5 * m * (p * variance + (start * decay) ** 2)
    # r² stands for the mean squared distance of the start from a draw of the Gibbs law.
    radius = math.sqrt(start**2 + p / (beta * m))
    bound = erm_bounds.last_point(
        p, inverse_temperature=beta, time=time, radius=radius, strong_convexity=m
    )
    assert truth <= bound


def test_entropy_of_the_bound_is_attained_by_ornstein_uhlenbeck_processes():
    # KL(N(a, s) ‖ N(b, s)) of two points that follow the same process is what the bound has for r = |a − b|.
    beta, m, time, apart = 3.0, 0.7, 0.4, 0.9
    decay = math.exp(-beta * m * time)
    variance = -math.expm1(-2.0 * beta * m * time) / (beta * m)
    entropy = (apart * decay) ** 2 / (2.0 * variance)
    said = beta * m * apart**2 / (2.0 * math.expm1(2.0 * beta * m * time))
    assert said == pytest.approx(entropy, rel=1e-12)
    p = 4
    expected = p / beta * erm_bounds.entropy_factor(entropy / p)
    bound = erm_bounds.last_point(
        p, inverse_temperature=beta, time=time, radius=apart, strong_convexity=m
    )
    assert bound == pytest.approx(expected, rel=1e-8)
    flat = erm_bounds.last_point(p, inverse_temperature=beta, time=time, radius=apart)
    assert flat == pytest.approx(
        p / beta * erm_bounds.entropy_factor(apart**2 / (4 * p * time)), rel=1e-8
    )
    tiny = erm_bounds.last_point(
        p, inverse_temperature=beta, time=time, radius=apart, strong_convexity=1e-9
    )
    assert tiny == pytest.approx(flat, rel=1e-7)


def test_last_point_is_at_most_what_the_paper_says():
    for p, beta, time, d in product((1, 20), (1.0, 50.0), (1e-4, 0.1, 10.0), (0.5, 3.0)):
        said = langevin_universality.equation_33(
            inverse_temperature=beta, dimension=p, diameter=d, time=time
        ).value
        assert erm_bounds.last_point(p, inverse_temperature=beta, time=time, radius=d) <= said


@every(("p", "m", "beta", "time"), list(product((1, 8), (0.3, 2.0), (1.0, 9.0), (0.2, 1.0))))
def test_weighted_mean_of_the_excess_along_ornstein_uhlenbeck_paths(p, m, beta, time):
    start = 1.3

    def squared(t):
        decay = math.exp(-beta * m * t)
        return start**2 * decay**2 + p * -math.expm1(-2.0 * beta * m * t) / (beta * m)

    grown = math.expm1(m * beta * time)
    mean, _ = quad(
        lambda t: 0.5 * m * squared(t) * m * beta * math.exp(m * beta * t), 0.0, time, epsrel=1e-12
    )
    bound = erm_bounds.path_average(
        p, inverse_temperature=beta, time=time, radius=start, strong_convexity=m
    )
    left_out = 0.5 * m * squared(time) * math.exp(m * beta * time) / grown
    # For quadratics nothing is lost but the distance at the end.
    assert mean / grown == pytest.approx(bound - left_out, rel=1e-9, abs=2e-9 * bound)


def test_path_average_against_the_printed_42():
    m, p, phi, time = 0.8, 5, 0.6, 1.7
    said = langevin_universality.equation_42(
        m=m, dimension=p, squared_distance=phi, time=time, power=0.0
    ).value
    ours = erm_bounds.path_average(
        p, inverse_temperature=1.0, time=time, radius=math.sqrt(phi), strong_convexity=m
    )
    assert said - ours == pytest.approx(0.5 * m * phi / math.expm1(m * time), rel=1e-6)


def test_path_average_of_convex_losses_is_the_limit():
    for beta, time in product((0.5, 30.0), (0.01, 2.0)):
        flat = erm_bounds.path_average(3, inverse_temperature=beta, time=time, radius=1.1)
        assert flat == pytest.approx(1.21 / (2.0 * beta * time) + 3.0 / beta, rel=1e-8)
        near = erm_bounds.path_average(
            3, inverse_temperature=beta, time=time, radius=1.1, strong_convexity=1e-10
        )
        assert near == pytest.approx(flat, rel=1e-7)


# Excess of Gibbs densities, against quadrature of those densities.


Function = Callable[[Array], Array]

# (loss on [−1, 1], its Lipschitz constant there); the quadrature's panels end at multiples of 1/8.
CONVEX_1D = {
    "absolute": (np.abs, 1.0),
    "linear": (lambda x: x, 1.0),
    "square": (lambda x: x**2, 2.0),
    "off centre": (lambda x: (x - 0.5) ** 2, 3.0),
    "hinge": (lambda x: np.maximum(0.0, 0.25 - x), 1.0),
    "log cosh": (lambda x: np.log(np.cosh(3.0 * x)), 3.0),
    "quartic": (lambda x: x**4, 4.0),
}
# (loss on the unit disc, its Lipschitz constant, where it is least)
CONVEX_2D = {
    "norm": (lambda x: np.hypot(x[0], x[1]), 1.0, (0.0, 0.0)),
    "l1": (lambda x: np.abs(x[0]) + np.abs(x[1]), math.sqrt(2.0), (0.0, 0.0)),
    "linear": (lambda x: x[0], 1.0, (-1.0, 0.0)),
    "bowl": (lambda x: x[0] ** 2 + 0.25 * x[1] ** 2, 2.0, (0.0, 0.0)),
    "logistic": (lambda x: np.log1p(np.exp(4.0 * x[0])) + 0.25 * np.abs(x[1]), 4.1, (-1.0, 0.0)),
}
RADII = 30 * 20  # nodes on every ray of the disc
KAPPAS = (0.1, 1.0, 7.0, 60.0)


def panels(pieces, low, high):
    """Gauss–Legendre nodes and weights, 30 on each of equal pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    half = 0.5 * (high - low) / pieces
    centres = low + half * (2.0 * np.arange(pieces) + 1.0)
    return (centres[:, None] + half * nodes).ravel(), np.tile(half * weights, pieces)


def line():
    return panels(64, -1.0, 1.0)


def disc():
    """Points (2, N) and weights on the unit disc, in polar coordinates around its centre."""
    r, wr = panels(RADII // 30, 0.0, 1.0)
    angle, wa = panels(8, 0.0, 2.0 * math.pi)
    points = np.stack([np.outer(r, np.cos(angle)).ravel(), np.outer(r, np.sin(angle)).ravel()])
    return points, np.outer(r * wr, wa).ravel()


def excess(values, weights, kappa, least):
    """κ·excess at the nodes, and the probability of every node."""
    scaled = kappa * (values - least)
    mass = weights * np.exp(-scaled)
    return scaled, mass / mass.sum()


def crossed(mass):
    """What tails on the disc can be off by: on every ray a level is crossed at most twice, between nodes."""
    return 2.0 * float(mass.reshape(RADII, -1).max(axis=0).sum())


@pytest.mark.parametrize(("name", "kappa"), list(product(CONVEX_1D, KAPPAS)))
def test_gamma_law_of_index_one_dominates_on_a_line(name, kappa):
    loss, lipschitz = CONVEX_1D[name]
    x, w = line()
    least = float(np.min(loss(np.linspace(-1.0, 1.0, 17))))  # every minimiser is a multiple of 1/8
    scaled, mass = excess(loss(x), w, kappa, least)
    assert scaled @ mass <= erm_bounds.gibbs_convex(1, 2.0 * kappa * lipschitz)
    for level in (0.2, 0.5, 0.9, 0.99, 0.9999):
        quantile = gamma.ppf(level, 1)
        # The level is crossed at most twice, each time between two nodes.
        assert mass[scaled > quantile].sum() <= 1.0 - level + 2.0 * mass.max()


@pytest.mark.parametrize(("name", "kappa"), list(product(CONVEX_2D, KAPPAS)))
def test_gamma_law_of_index_two_dominates_on_a_disc(name, kappa):
    loss, lipschitz, at = CONVEX_2D[name]
    x, w = disc()
    least = float(loss(np.array([[at[0]], [at[1]]]))[0])
    scaled, mass = excess(loss(x), w, kappa, least)
    assert scaled.min() >= -1e-12
    assert scaled @ mass <= erm_bounds.gibbs_convex(2, 2.0 * kappa * lipschitz)
    levels = np.linspace(0.0, 12.0, 40)
    above = np.array([mass[scaled > level].sum() for level in levels])
    assert (above <= gamma.sf(levels, 2) + crossed(mass)).all()


@every(("p", "x"), list(product((1, 2, 5, 40), (0.01, 1.0, 6.0, 100.0))))
def test_a_cone_attains_the_convex_bound(p, x):
    # Rays of length 1 from the minimiser, κL = x: the density of κf is ∝ y^(p−1)e^(−y) below x.
    def part(power):
        low = max(0.0, p - 1.0 - 12.0 * math.sqrt(p))
        top = min(x, p + 60.0 * math.sqrt(p) + 60.0)
        peak = min(p - 1.0, top)
        shift = (p - 1.0) * math.log(max(peak, 1e-300)) - peak if p > 1 else 0.0
        return float(
            quad(
                lambda y: y**power * math.exp((p - 1) * math.log(y) - y - shift) if y > 0 else 0.0,
                min(low, top),
                top,
                epsabs=0.0,
                epsrel=1e-11,
                limit=400,
            )[0]
        )

    truth = part(1.0) / part(0.0)
    assert erm_bounds.gibbs_convex(p, x) == pytest.approx(truth, rel=3e-9)
    assert erm_bounds.gibbs_convex(p, x) >= truth * (1.0 - 1e-10)


def test_the_convex_bound_is_p_without_a_boundary_and_never_above_x():
    for p in (1, 3, 100, 10**6):
        assert erm_bounds.gibbs_convex(p) == p
        assert erm_bounds.gibbs_convex(p, 1e9) <= p * (1.0 + 1e-8)
        for x in (1e-12, 1e-3, 0.5 * p, p, 2.0 * p):
            assert 0.0 < erm_bounds.gibbs_convex(p, x) <= x


@every(("kappa", "m"), list(product((1.0, 10.0, 300.0), (0.5, 2.0))))
def test_chi_law_dominates_the_distance_from_the_minimiser(kappa, m):
    x, w = disc()
    levels = np.linspace(0.05, 5.0, 60)
    for extra in (0.0, 0.3, 3.0):
        loss = 0.5 * m * (x**2).sum(axis=0) + extra * np.abs(x[0])
        _, mass = excess(loss, w, kappa, 0.0)
        scaled = math.sqrt(kappa * m) * np.sqrt((x**2).sum(axis=0))
        above = np.array([mass[scaled > level].sum() for level in levels])
        assert (above <= chi.sf(levels, 2) + crossed(mass)).all()
    # A plain quadratic far from the boundary attains it, so that nothing smaller would do.
    if kappa * m >= 100.0:
        _, mass = excess(0.5 * m * (x**2).sum(axis=0), w, kappa, 0.0)
        scaled = math.sqrt(kappa * m) * np.sqrt((x**2).sum(axis=0))
        assert float(scaled @ mass) == pytest.approx(chi.mean(2), rel=1e-6)


def wells_1d(rng):
    """Nodes and weights on [−1, 1], and a 1-Lipschitz loss with wells, its least value known."""
    x, w = line()
    centres = rng.choice(np.arange(-8, 9), size=3, replace=False) / 8.0
    depths = rng.uniform(0.02, 0.5, size=3)
    pits = [np.minimum(0.0, np.abs(x - c) - d) for c, d in zip(centres, depths, strict=True)]
    return np.min(pits, axis=0), w, -float(depths.max())


@every("seed", range(8))
def test_bound_without_convexity_holds_for_wells_on_a_line(seed):
    values, w, least = wells_1d(np.random.default_rng(seed))
    for kappa in (0.5, 3.0, 20.0, 200.0, 2000.0):
        scaled, mass = excess(values, w, kappa, least)
        bound = erm_bounds.gibbs_any(1, 2.0 * kappa)
        free = erm_bounds.free_energy(1, 2.0 * kappa)
        assert scaled @ mass <= bound <= free
        for t in (0.5, 1.0, 3.0):
            assert mass[scaled > free + t].sum() <= math.exp(-t)


def test_bound_without_convexity_holds_for_wells_on_a_disc():
    x, w = disc()
    rng = np.random.default_rng(5)
    for _ in range(6):
        centres = rng.uniform(-0.6, 0.6, size=(4, 2))
        depths = rng.uniform(0.05, 0.6, size=4)
        pits = [
            np.minimum(0.0, np.hypot(*(x - c[:, None])) - d)
            for c, d in zip(centres, depths, strict=True)
        ]
        values = np.min(pits, axis=0)
        for kappa in (2.0, 10.0):  # as steep as the nodes resolve
            # The least value may lie between nodes; the true one is lower, by less than −max depth.
            scaled, mass = excess(values, w, kappa, -float(depths.max()))
            assert scaled @ mass <= erm_bounds.gibbs_any(2, 2.0 * kappa)


def plateau_mean(p, x, h):
    """κ·E f for f = min(cone, plateau) on rays of length 1, in terms of κ: cone up to h ≤ x, then flat."""
    inner = math.exp(math.lgamma(p) + math.log(gammainc(p, h)) - p * math.log(x)) * p
    first = p * inner * gammainc(p + 1, h) / gammainc(p, h)
    outer = (1.0 - (h / x) ** p) * math.exp(-h)
    return (first + h * outer) / (inner + outer)


@every(("p", "x"), list(product((1, 2, 3, 10), (0.3, 2.0, 15.0, 400.0, 1e5))))
def test_a_cone_with_a_plateau_attains_the_bound_without_convexity(p, x):
    heights = np.geomspace(1e-3 * min(x, 1.0), x, 1000)
    means = [plateau_mean(p, x, float(h)) for h in heights]
    best = int(np.argmax(means))
    near = np.linspace(heights[max(0, best - 1)], heights[min(999, best + 1)], 2001)
    truth = max(plateau_mean(p, x, float(h)) for h in near)
    bound = erm_bounds.gibbs_any(p, x)
    assert truth <= bound
    assert bound == pytest.approx(truth, rel=1e-6)  # of the grid: the mean is flat at its largest
    assert erm_bounds.gibbs_convex(p, x) * (1.0 - 1e-8) <= bound
    assert bound <= erm_bounds.free_energy(p, x) * (1.0 + 1e-8)


def test_free_energy_is_the_sharpened_theorem_d_5():
    for p, x in product((1, 4, 30), (0.1, 5.0, 80.0)):
        volume, _ = quad(lambda t, p=p, x=x: p * t ** (p - 1) * math.exp(-x * t), 0.0, 1.0)
        assert erm_bounds.free_energy(p, x) == pytest.approx(-math.log(volume), rel=1e-7)
        printed = math.gamma(p + 1) * gammainc(p, x) / x**p
        assert erm_bounds.free_energy(p, x) == pytest.approx(-math.log(printed), rel=1e-7)


def test_bounds_stay_finite_where_numbers_under_and_overflow():
    for p, x in product((1, 10**3, 10**6, 10**8), (1e-12, 1.0, 1e3, 1e8, 1e300)):
        convex, other = erm_bounds.gibbs_convex(p, x), erm_bounds.gibbs_any(p, x)
        assert 0.0 < convex <= x
        assert convex * (1.0 - 1e-8) <= other <= x
        assert other <= erm_bounds.free_energy(p, x) * (1.0 + 1e-8)


# Uniform stability against exact differences.


@every(("m", "n", "integral"), list(product((0.1, 3.0), (1, 50), (0.01, 1.0, 40.0))))
def test_strongly_convex_losses_attain_it(m, n, integral):
    # ℓ(θ; z) = zθ + (m/2)θ², |z| ≤ L: the means of the Gaussian laws part as (Δ/m)(1 − e^(−m∫β)), and ℓ(·; L)
    # changes at the rate L at 0, between them.
    lipschitz = 2.0
    steps = 20_000
    h = integral / steps
    apart = 0.0
    for _ in range(steps):  # Euler's method: relative error m·h/2
        apart += h * (2.0 * lipschitz / n - m * apart)
    said = uniform_stability(
        "strongly_convex", lipschitz=lipschitz, n=n, strong_convexity=m, integral=integral
    )
    assert said == pytest.approx(lipschitz * apart, rel=m * h + 1e-9)
    whole = uniform_stability("strongly_convex", lipschitz=lipschitz, n=n, strong_convexity=m)
    assert whole == pytest.approx(2.0 * lipschitz**2 / (m * n), rel=1e-12)
    assert said <= whole


def test_convex_losses_attain_it_and_it_is_the_limit():
    # ℓ(θ; z) = zθ: the drifts of adjacent data sets differ by 2L/n all the time.
    for n, integral in product((1, 30), (0.2, 5.0)):
        said = uniform_stability("convex", lipschitz=1.5, n=n, integral=integral)
        assert said == pytest.approx(1.5 * (2.0 * 1.5 / n) * integral, rel=1e-12)
        limit = uniform_stability(
            "strongly_convex", lipschitz=1.5, n=n, strong_convexity=1e-9, integral=integral
        )
        assert limit == pytest.approx(said, rel=1e-7)
    assert uniform_stability("convex", lipschitz=1.0, n=3) == math.inf
    assert uniform_stability("convex", lipschitz=1.0, n=3, diameter=2.0) == pytest.approx(2.0)


def test_nonconvex_losses_attain_it():
    # Releases N(0, 1) and N(μ, 1), and a loss that is 0 on one side of the middle and LD on the other.
    for mu in (0.01, 0.7, 4.0):
        said = uniform_stability("nonconvex", lipschitz=3.0, diameter=0.5, mu=mu)
        truth = 1.5 * (norm.cdf(mu / 2.0) - norm.cdf(-mu / 2.0))
        assert said == pytest.approx(truth, rel=1e-12)
        same = uniform_stability(
            "nonconvex", lipschitz=3.0, diameter=0.5, advantage=2.0 * norm.cdf(mu / 2.0) - 1.0
        )
        assert same == pytest.approx(said, rel=1e-12)


@every(("m", "integral"), list(product((0.0, 1e-8, 1e-3, 1.0, 20.0), (1e-3, 1.0, 60.0))))
def test_averages_are_as_stable_as_the_average_of_their_points(m, integral):
    def weight(b):
        return math.exp(m * (b - integral))

    def apart(b):
        return 2.0 / 7.0 * (b if m == 0.0 else -math.expm1(-m * b) / m)

    near = [integral - k / m for k in (1.0, 5.0, 30.0) if m > 0.0 and k / m < integral]
    top = quad(
        lambda b: weight(b) * apart(b), 0.0, integral, points=near or None, epsrel=1e-12, limit=500
    )[0]
    whole = quad(weight, 0.0, integral, points=near or None, epsrel=1e-12, limit=500)[0]
    said = average_stability(lipschitz=1.3, n=7, m=m, integral=integral)
    assert said == pytest.approx(1.3**2 * top / whole, rel=1e-7)
    assert said >= 1.3**2 * top / whole * (1.0 - 1e-9)
    assert said <= uniform_stability("convex", lipschitz=1.3, n=7, integral=integral)


def test_bad_input_is_named():
    def stability(**changes):
        given = {"losses": "convex", "lipschitz": 1.0, "n": 10, **changes}
        return uniform_stability(given.pop("losses"), **given)

    table = {"losses": ["concave"], "lipschitz": [0.0, math.nan], "n": [0, None]}
    refuses(stability, table | {"integral": [-1.0], "diameter": [-2.0]})
    strongly, rough = {"losses": "strongly_convex"}, {"losses": "nonconvex", "diameter": 1.0}
    refused("strong_convexity", stability, **strongly)
    refused("strong_convexity", stability, **strongly, strong_convexity=-1.0)
    refused("diameter", stability, losses="nonconvex", mu=1.0)
    refused("mu", stability, **rough)
    refused("mu", stability, **rough, mu=1.0, advantage=0.1)
    refused("advantage", stability, **rough, advantage=1.5)
