"""The worked examples of docs/theory and docs/erm.md, and steps of their proofs as numbers."""

import math

import numpy as np
import pytest
from scipy.stats import gamma

import pabi
from pabi.describe.iteration import NoisyIteration
from pabi.describe.moduli import Modulus
from pabi.sampling import erm_bounds
from pabi.tradeoff import BoundedRange, Gaussian, Mixture, PoissonSubsampled, Product, Subsampled
from support.every_case import every


@every(
    ("s", "payments", "square"),
    [((1, 1, 1), (1 / 3, 2 / 3, 4 / 3), 7 / 3), ((1, 0, 0), (1 / 21, 2 / 21, 4 / 21), 1 / 21)],
)
def test_three_steps_by_hand(s, payments, square):
    """Section 4.1: slope ½, noise 1."""
    z = 0.0
    for owed, paid in zip(s, payments, strict=True):
        z = 0.5 * z + owed - paid
        assert z > -1e-15
    assert abs(z) < 1e-15
    assert math.fsum(a * a for a in payments) == pytest.approx(square, rel=1e-14)
    run = NoisyIteration(0.5, np.array(s, dtype=float), 1.0, steps=3)
    assert run.guarantee().mu ** 2 == pytest.approx(square, rel=1e-12)


@every("c", [0.9, 1.0, 1.1])
def test_one_use_in_closed_form(c):
    """Section 4.1: one use, r steps before the end, itself included, whatever the slope."""
    s = np.zeros(12)
    s[4] = 2.0
    share = 1.0 / 8.0 if c == 1.0 else c**14 * (1.0 - c**2) / (1.0 - c**16)
    mu = NoisyIteration(c, s, 3.0, steps=12).guarantee().mu
    assert mu**2 == pytest.approx((2.0 / 3.0) ** 2 * share, rel=1e-9)


def test_full_batches_on_a_set():
    """Section 4.1: the least of (Dc^R + s(1 − c^R)/(1 − c))²(1 − c²)/(1 − c^(2R)); 4Ds for c = 1."""
    run = {"step_sensitivity": 0.5, "step_noise_std": 1.0, "steps": 400}
    assert NoisyIteration(1.0, diameter=6.0, **run).guarantee().mu ** 2 == pytest.approx(
        12.0, rel=1e-9
    )
    c, r = 0.95, np.arange(1, 380)
    windows = (
        (6.0 * c**r + 0.5 * (1.0 - c**r) / (1.0 - c)) ** 2 * (1.0 - c * c) / (1.0 - c ** (2 * r))
    )
    whole = 0.25 * (1.0 + c) * (1.0 - c**400) / ((1.0 - c) * (1.0 + c**400))
    mu = NoisyIteration(c, diameter=6.0, **run).guarantee().mu
    assert mu**2 == pytest.approx(min(whole, windows.min()), rel=1e-9)


def test_a_secret_order():
    """Section 6: ten batches, eight epochs, c = 0.97."""
    mus = [_cyclic(j) for j in range(10)]
    assert [mus[j] for j in (0, 7, 8, 9)] == pytest.approx([0.645, 0.839, 0.935, 1.179], abs=5e-4)
    secret = Mixture([Gaussian(mu) for mu in mus], [0.1] * 10)
    assert Gaussian(mus[9]).epsilon(1e-5) == pytest.approx(5.30, abs=5e-3)
    assert secret.epsilon(1e-5) == pytest.approx(4.63, abs=5e-3)
    assert Gaussian(math.sqrt(8.0)).epsilon(1e-5) == pytest.approx(15.46, abs=5e-3)
    assert Gaussian(mus[9]).delta(0.0) == pytest.approx(0.445, abs=1e-3)
    assert secret.delta(0.0) == pytest.approx(0.307, abs=5e-4)


def _cyclic(batch):
    s = np.zeros(80)
    s[batch::10] = 1.0
    return float(NoisyIteration(0.97, s, 1.0, steps=80).guarantee().mu)


def test_a_closed_form_that_is_not_monotone():
    """Section 4.4: 100/t + ¼·Σ 1/k has its least value at 400, and the best path stays there."""
    closed = {
        t: 100.0 / t + 0.25 * math.fsum(1.0 / k for k in range(1, t + 1)) for t in (200, 400, 2000)
    }
    assert closed[200] > closed[400] < closed[2000]
    for t in closed:
        given = {"step_sensitivity": 0.0, "step_noise_std": 1.0, "start": 10.0, "diameter": 10.0}
        run = NoisyIteration(moduli=Modulus.sqrt(1.0, 0.25), steps=t, **given)
        least = min(closed[200], closed[400]) if t >= 400 else closed[200]
        assert run.guarantee().mu ** 2 == pytest.approx(least, rel=1e-9)


def test_two_directions_and_the_worse_of_each_step():
    """Section 10.2: p = 0.02, m/σ = 0.5, t = 2000, δ = 1e-5; readings are up to 1e-3 above the truth."""
    remove, add = (PoissonSubsampled(0.5, 0.02, way) for way in ("remove", "add"))
    worse = Subsampled(Gaussian(0.5), 0.02)
    for factor, epsilon in ((remove, 1.933), (add, 1.829), (worse, 2.253)):
        assert Product([(factor, 2000)]).epsilon(1e-5) == pytest.approx(epsilon, rel=1e-3)


@every("epsilon", [0.3, 4.0])
def test_a_bounded_range_is_worst_with_two_values(epsilon):
    """Section 12.3: no law with ratios in an interval of length ε has a larger δ(e); two values attain it."""
    rng = np.random.default_rng(0)
    worst = BoundedRange(epsilon)
    for e in np.linspace(-0.9, 0.9, 7) * epsilon:
        bound = (1.0 - math.exp(-0.5 * (epsilon - e))) ** 2 / -math.expm1(-epsilon)
        if e >= 0.0:
            assert worst.delta(e) == pytest.approx(bound, rel=1e-9)
        for _ in range(200):
            # Ratios in [−ε, ε] with both masses 1, at random, moved into an interval of length ε.
            y = epsilon * rng.beta(0.3, 0.3, size=rng.integers(2, 6))
            q = rng.dirichlet(np.full(y.size, 0.5))
            y -= math.log(q @ np.exp(y))
            assert np.maximum(q * (np.exp(y) - math.exp(e)), 0.0).sum() <= bound + 1e-12
        t = 0.5 * (epsilon + e)
        p = -math.expm1(t - epsilon) / -math.expm1(-epsilon)
        two = p * -math.expm1(e - t)
        assert two == pytest.approx(bound, rel=1e-12)


@every("m", [-0.7, 0.0, 0.7])
def test_shifts_of_diffusions_with_a_diameter(m):
    """Theorem 16 (iii): the payments 2qW, q = βΔ, bring z' = −mβz + βΔ − a from D to 0, never below, and cost
    βD(2Δ − mD)."""
    beta, gap, diameter = 2.0, 1.0, 1.3
    rate = beta * m
    window = diameter / (beta * gap) if m == 0.0 else -math.log1p(-m * diameter / gap) / rate
    steps = 20_000
    h = window / steps
    z, cost = diameter, 0.0
    for k in range(steps):
        paid = 2.0 * beta * gap * math.exp(-rate * (window - (k + 0.5) * h))
        middle = z + 0.5 * h * (beta * gap - rate * z - paid)
        z += h * (beta * gap - rate * middle - paid)
        cost += 0.5 * paid * paid * h
        assert z > -1e-7
    assert z == pytest.approx(0.0, abs=1e-7)
    assert cost == pytest.approx(beta * diameter * (2.0 * gap - m * diameter), rel=1e-6)


def test_what_the_last_point_saves():
    """Section 12.2: tanh(x)/x with x = βmT/2 is 0.92, 0.20, 0.02 at βmT = 1, 10, 100."""
    loss = pabi.Loss.strongly_convex(1.0, 2.0, gradient_bound=1.0)
    for length, share in ((1.0, 0.92), (10.0, 0.20), (100.0, 0.02)):
        run = pabi.LangevinDiffusion(loss, 1000, inverse_temperature=10.0, time=length / 10.0)
        path = 0.5 * (2.0 / 1000.0 * 10.0) ** 2 * length / 10.0
        assert run.guarantee().mu ** 2 / path == pytest.approx(share, abs=5e-3)


def test_examples_of_private_optimisation():
    """docs/erm.md: a quantile of Gamma(2, 1)/10, and x at p = 10, r = 1, T = 0.1."""
    assert gamma.ppf(0.95, 2) / 10.0 == pytest.approx(0.474, abs=5e-4)
    found = erm_bounds.last_point(10, inverse_temperature=10.0, time=0.1, radius=1.0)
    assert found == pytest.approx(1.88, abs=5e-3)


@every(("p", "x"), [(1, 3.0), (3, 20.0), (5, 60.0)])
def test_the_root_of_the_cone_with_a_plateau(p, x):
    """docs/erm.md: E φ(min(Y₀, h)) = 0 by quadrature, φ(y) = (y − h + 1)e^(−y), Y₀ = xV^(1/p)."""
    h = erm_bounds.gibbs_any(p, x) + 1.0
    assert 1.0 < h < x
    nodes, weights = np.polynomial.legendre.leggauss(60)
    y = 0.5 * h * (nodes + 1.0)
    inside = 0.5 * h * weights @ ((y - h + 1.0) * np.exp(h - y) * p * y ** (p - 1) / x**p)
    assert inside + 1.0 - (h / x) ** p == pytest.approx(0.0, abs=1e-7)
