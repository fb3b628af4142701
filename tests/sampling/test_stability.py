"""Uniform stability against exact differences."""

from __future__ import annotations

import math
from itertools import product

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pabi.erm import uniform_stability
from pabi.sampling.erm_bounds import average_stability
from support.every_case import every, refused, refuses


@every(("m", "n", "integral"), list(product((0.1, 3.0), (1, 50), (0.01, 1.0, 40.0))))
def test_strongly_convex_losses_attain_it(m: float, n: int, integral: float) -> None:
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


def test_convex_losses_attain_it_and_it_is_the_limit() -> None:
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


def test_concave_losses_break_the_formula_for_convex_ones() -> None:
    # −θ²/2 + zθ on [−1, 1], so L = 2; the means part as (2/n)(e^∫β − 1) while the boundary is far.
    n, integral, lipschitz = 10**6, 7.4, 2.0
    truth = 2.0 / n * math.expm1(integral)  # for ℓ that changes at the rate 1
    assert truth > 20.0 * uniform_stability("convex", lipschitz=lipschitz, n=n, integral=integral)


def test_nonconvex_losses_attain_it() -> None:
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
def test_averages_are_as_stable_as_the_average_of_their_points(m: float, integral: float) -> None:
    def weight(b: float) -> float:
        return math.exp(m * (b - integral))

    def apart(b: float) -> float:
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


def test_bad_input_is_named() -> None:
    def stability(**changes: object) -> float:
        given: dict[str, object] = {"losses": "convex", "lipschitz": 1.0, "n": 10, **changes}
        return uniform_stability(given.pop("losses"), **given)  # type: ignore[arg-type]

    table = {"losses": ["concave"], "lipschitz": [0.0, math.nan], "n": [0, None]}
    refuses(stability, table | {"integral": [-1.0], "diameter": [-2.0]})
    strongly, rough = {"losses": "strongly_convex"}, {"losses": "nonconvex", "diameter": 1.0}
    refused("strong_convexity", stability, **strongly)
    refused("strong_convexity", stability, **strongly, strong_convexity=-1.0)
    refused("diameter", stability, losses="nonconvex", mu=1.0)
    refused("mu", stability, **rough)
    refused("mu", stability, **rough, mu=1.0, advantage=0.1)
    refused("advantage", stability, **rough, advantage=1.5)
