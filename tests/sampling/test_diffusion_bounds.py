"""Bounds on the last point and the path's average of a reflected diffusion, against exact solutions."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.special import lambertw

from pabi.literature import langevin_universality
from pabi.sampling import erm_bounds
from support.every_case import every

Array = np.ndarray


@every("k", [1e-12, 1e-6, 1e-3, 0.009, 0.1, 1.2563, 5.0, 600.0])
def test_entropy_factor_is_the_other_branch_of_lambert(k: float) -> None:
    x = erm_bounds.entropy_factor(k)
    if 1e-5 < k < 700.0:
        assert x == pytest.approx(-lambertw(-math.exp(-1.0 - k), -1).real, rel=1e-9)
    with mpmath.workdps(50):
        slack = mpmath.mpf(x) - 1 - mpmath.log(x)
        assert slack >= k
        assert float(slack) == pytest.approx(k, rel=1e-3 if k < 1e-9 else 1e-8)  # of doubles near 1


def test_entropy_factor_at_the_best_time_of_path_accounting() -> None:
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


def reflected(values: Array, beta: float, time: float, width: float, start: int) -> Array:
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
def test_last_point_of_reflected_diffusions_on_a_line(name: str, beta: float) -> None:
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


@every(
    ("p", "m", "beta", "time"), list(product((1, 3, 50), (0.1, 2.0), (0.5, 20.0), (0.01, 0.4, 5.0)))
)
def test_last_point_of_ornstein_uhlenbeck_processes(
    p: int, m: float, beta: float, time: float
) -> None:
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


def test_entropy_of_the_bound_is_attained_by_ornstein_uhlenbeck_processes() -> None:
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


def test_last_point_is_at_most_what_the_paper_says() -> None:
    for p, beta, time, d in product((1, 20), (1.0, 50.0), (1e-4, 0.1, 10.0), (0.5, 3.0)):
        said = langevin_universality.equation_33(
            inverse_temperature=beta, dimension=p, diameter=d, time=time
        ).value
        assert erm_bounds.last_point(p, inverse_temperature=beta, time=time, radius=d) <= said


@every(("p", "m", "beta", "time"), list(product((1, 8), (0.3, 2.0), (1.0, 9.0), (0.2, 1.0))))
def test_weighted_mean_of_the_excess_along_ornstein_uhlenbeck_paths(
    p: int, m: float, beta: float, time: float
) -> None:
    start = 1.3

    def squared(t: float) -> float:
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


def test_path_average_against_the_printed_42() -> None:
    m, p, phi, time = 0.8, 5, 0.6, 1.7
    said = langevin_universality.equation_42(
        m=m, dimension=p, squared_distance=phi, time=time, power=0.0
    ).value
    ours = erm_bounds.path_average(
        p, inverse_temperature=1.0, time=time, radius=math.sqrt(phi), strong_convexity=m
    )
    assert said - ours == pytest.approx(0.5 * m * phi / math.expm1(m * time), rel=1e-6)


def test_path_average_of_convex_losses_is_the_limit() -> None:
    for beta, time in product((0.5, 30.0), (0.01, 2.0)):
        flat = erm_bounds.path_average(3, inverse_temperature=beta, time=time, radius=1.1)
        assert flat == pytest.approx(1.21 / (2.0 * beta * time) + 3.0 / beta, rel=1e-8)
        near = erm_bounds.path_average(
            3, inverse_temperature=beta, time=time, radius=1.1, strong_convexity=1e-10
        )
        assert near == pytest.approx(flat, rel=1e-7)
