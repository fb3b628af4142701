"""Bounds on the excess of Gibbs densities, against quadrature of those densities."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammainc
from scipy.stats import chi, gamma

from pabi.sampling import erm_bounds
from support.every_case import every

Array = np.ndarray
Function = Callable[[Array], Array]

# (loss on [−1, 1], its Lipschitz constant there); the quadrature's panels end at multiples of 1/8.
CONVEX_1D: dict[str, tuple[Function, float]] = {
    "absolute": (np.abs, 1.0),
    "linear": (lambda x: x, 1.0),
    "square": (lambda x: x**2, 2.0),
    "off centre": (lambda x: (x - 0.5) ** 2, 3.0),
    "hinge": (lambda x: np.maximum(0.0, 0.25 - x), 1.0),
    "log cosh": (lambda x: np.log(np.cosh(3.0 * x)), 3.0),
    "quartic": (lambda x: x**4, 4.0),
}
# (loss on the unit disc, its Lipschitz constant, where it is least)
CONVEX_2D: dict[str, tuple[Function, float, tuple[float, float]]] = {
    "norm": (lambda x: np.hypot(x[0], x[1]), 1.0, (0.0, 0.0)),
    "l1": (lambda x: np.abs(x[0]) + np.abs(x[1]), math.sqrt(2.0), (0.0, 0.0)),
    "linear": (lambda x: x[0], 1.0, (-1.0, 0.0)),
    "bowl": (lambda x: x[0] ** 2 + 0.25 * x[1] ** 2, 2.0, (0.0, 0.0)),
    "logistic": (lambda x: np.log1p(np.exp(4.0 * x[0])) + 0.25 * np.abs(x[1]), 4.1, (-1.0, 0.0)),
}
RADII = 30 * 20  # nodes on every ray of the disc
KAPPAS = (0.1, 1.0, 7.0, 60.0)


def panels(pieces: int, low: float, high: float) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights, 30 on each of equal pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    half = 0.5 * (high - low) / pieces
    centres = low + half * (2.0 * np.arange(pieces) + 1.0)
    return (centres[:, None] + half * nodes).ravel(), np.tile(half * weights, pieces)


def line() -> tuple[Array, Array]:
    return panels(64, -1.0, 1.0)


def disc() -> tuple[Array, Array]:
    """Points (2, N) and weights on the unit disc, in polar coordinates around its centre."""
    r, wr = panels(RADII // 30, 0.0, 1.0)
    angle, wa = panels(8, 0.0, 2.0 * math.pi)
    points = np.stack([np.outer(r, np.cos(angle)).ravel(), np.outer(r, np.sin(angle)).ravel()])
    return points, np.outer(r * wr, wa).ravel()


def excess(values: Array, weights: Array, kappa: float, least: float) -> tuple[Array, Array]:
    """κ·excess at the nodes, and the probability of every node."""
    scaled = kappa * (values - least)
    mass = weights * np.exp(-scaled)
    return scaled, mass / mass.sum()


def crossed(mass: Array) -> float:
    """What tails on the disc can be off by: on every ray a level is crossed at most twice, between nodes."""
    return 2.0 * float(mass.reshape(RADII, -1).max(axis=0).sum())


@pytest.mark.parametrize(("name", "kappa"), list(product(CONVEX_1D, KAPPAS)))
def test_gamma_law_of_index_one_dominates_on_a_line(name: str, kappa: float) -> None:
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
def test_gamma_law_of_index_two_dominates_on_a_disc(name: str, kappa: float) -> None:
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
def test_a_cone_attains_the_convex_bound(p: int, x: float) -> None:
    # Rays of length 1 from the minimiser, κL = x: the density of κf is ∝ y^(p−1)e^(−y) below x.
    def part(power: float) -> float:
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


def test_the_convex_bound_is_p_without_a_boundary_and_never_above_x() -> None:
    for p in (1, 3, 100, 10**6):
        assert erm_bounds.gibbs_convex(p) == p
        assert erm_bounds.gibbs_convex(p, 1e9) <= p * (1.0 + 1e-8)
        for x in (1e-12, 1e-3, 0.5 * p, p, 2.0 * p):
            assert 0.0 < erm_bounds.gibbs_convex(p, x) <= x


@every(("kappa", "m"), list(product((1.0, 10.0, 300.0), (0.5, 2.0))))
def test_chi_law_dominates_the_distance_from_the_minimiser(kappa: float, m: float) -> None:
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
        truth = float(scaled @ mass)
        assert truth == pytest.approx(chi.mean(2), rel=1e-6)


def wells_1d(rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Nodes and weights on [−1, 1], and a 1-Lipschitz loss with wells, its least value known."""
    x, w = line()
    centres = rng.choice(np.arange(-8, 9), size=3, replace=False) / 8.0
    depths = rng.uniform(0.02, 0.5, size=3)
    pits = [np.minimum(0.0, np.abs(x - c) - d) for c, d in zip(centres, depths, strict=True)]
    return np.min(pits, axis=0), w, -float(depths.max())


@every("seed", range(8))
def test_bound_without_convexity_holds_for_wells_on_a_line(seed: int) -> None:
    values, w, least = wells_1d(np.random.default_rng(seed))
    for kappa in (0.5, 3.0, 20.0, 200.0, 2000.0):
        scaled, mass = excess(values, w, kappa, least)
        bound = erm_bounds.gibbs_any(1, 2.0 * kappa)
        free = erm_bounds.free_energy(1, 2.0 * kappa)
        assert scaled @ mass <= bound <= free
        for t in (0.5, 1.0, 3.0):
            assert mass[scaled > free + t].sum() <= math.exp(-t)


def test_bound_without_convexity_holds_for_wells_on_a_disc() -> None:
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


def plateau_mean(p: int, x: float, h: float) -> float:
    """κ·E f for f = min(cone, plateau) on rays of length 1, in terms of κ: cone up to h ≤ x, then flat."""
    inner = math.exp(math.lgamma(p) + math.log(gammainc(p, h)) - p * math.log(x)) * p
    first = p * inner * gammainc(p + 1, h) / gammainc(p, h)
    outer = (1.0 - (h / x) ** p) * math.exp(-h)
    return (first + h * outer) / (inner + outer)


@every(("p", "x"), list(product((1, 2, 3, 10), (0.3, 2.0, 15.0, 400.0, 1e5))))
def test_a_cone_with_a_plateau_attains_the_bound_without_convexity(p: int, x: float) -> None:
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


def test_free_energy_is_the_sharpened_theorem_d_5() -> None:
    for p, x in product((1, 4, 30), (0.1, 5.0, 80.0)):
        volume, _ = quad(lambda t, p=p, x=x: p * t ** (p - 1) * math.exp(-x * t), 0.0, 1.0)
        assert erm_bounds.free_energy(p, x) == pytest.approx(-math.log(volume), rel=1e-7)
        printed = math.gamma(p + 1) * gammainc(p, x) / x**p
        assert erm_bounds.free_energy(p, x) == pytest.approx(-math.log(printed), rel=1e-7)


def test_bounds_stay_finite_where_numbers_under_and_overflow() -> None:
    for p, x in product((1, 10**3, 10**6, 10**8), (1e-12, 1.0, 1e3, 1e8, 1e300)):
        convex, other = erm_bounds.gibbs_convex(p, x), erm_bounds.gibbs_any(p, x)
        assert 0.0 < convex <= x
        assert convex * (1.0 - 1e-8) <= other <= x
        assert other <= erm_bounds.free_energy(p, x) * (1.0 + 1e-8)
