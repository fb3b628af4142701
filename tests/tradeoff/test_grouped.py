"""Chains of adjacent data sets: closed forms, exact compositions, and pairs worked out by hand."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pabi import tradeoff as t
from support.every_case import every

MIXTURE = t.Mixture([t.Gaussian(0.2), t.Gaussian(0.6)], [0.25, 0.75])
BASES = [MIXTURE, t.ApproxDP(0.5, 1e-6), t.BoundedRange(1.0), t.PoissonSubsampled(1.0, 0.1)]
BASES += [t.Best([t.Gaussian(0.5), t.BoundedRange(1.0)]), t.selected(t.Gaussian(0.3), 5.0)]


@every("mu, size", [(1.0, 2), (0.3, 5), (0.2, 10), (0.05, 33)])
def test_of_gaussians_it_is_hardly_above_the_closed_form(mu, size):
    """`Grouped` knows no closed form; `grouped` has it."""
    curve, exact = t.Grouped(t.Gaussian(mu), size), t.Gaussian(size * mu)
    assert t.grouped(t.Gaussian(mu), size).mu == pytest.approx(size * mu, rel=1e-15)
    for delta in (1e-2, 1e-6, 1e-10):
        assert exact.epsilon(delta) <= curve.epsilon(delta) <= 1.005 * exact.epsilon(delta)
    for epsilon in (0.0, 0.37, 2.0):
        assert exact.delta(epsilon) <= curve.delta(epsilon) <= 1.01 * exact.delta(epsilon)
    alpha = np.linspace(0.0, 1.0, 21)
    assert (curve(alpha) <= exact(alpha) + 1e-15).all()
    assert curve(alpha) == pytest.approx(exact(alpha), abs=0.01)


def test_no_closed_form_is_rounded_down():
    for x in (0.1, 1 / 3, 0.7):
        assert t.grouped(t.Gaussian(x), 3).mu >= 3.0 * x * (1.0 - 1e-16)
        assert t.grouped(t.ApproxDP(x), 7).epsilon_0 == pytest.approx(7.0 * x, rel=1e-15)
    assert t.grouped(t.Identity(), 5) == t.Identity()
    assert t.grouped(t.Gaussian(math.inf), 5) == t.Gaussian(math.inf)
    assert t.grouped(MIXTURE, 1) is MIXTURE


@every("size", [2, 3, 8])
def test_approximate_privacy_of_groups(size):
    """(kε, δ(e^(kε) − 1)/(e^ε − 1)), the textbook's."""
    epsilon, delta = 0.5, 1e-6
    textbook = delta * math.expm1(size * epsilon) / math.expm1(epsilon)
    curve = t.grouped(t.ApproxDP(epsilon, delta), size)
    assert curve.delta(size * epsilon) == pytest.approx(textbook, rel=1e-6)
    assert curve.delta(size * epsilon) >= textbook * (1.0 - 1e-9)
    assert curve.delta(math.inf) >= textbook * (1.0 - 1e-9)


@every("epsilon", [0.022191889291481172, 0.1, 1 / 3, 0.7, 4.3e-7])
@pytest.mark.parametrize("size", [2, 3, 6, 7, 100])
def test_chains_of_bounded_ranges_reveal_all_of_them(epsilon, size):
    """The largest loss is that of every link, exactly."""
    assert Fraction(t.grouped(t.BoundedRange(epsilon), size).epsilon(0.0)) >= size * Fraction(
        epsilon
    )


@every("base", BASES)
@every("size", [2, 3])
def test_it_is_below_the_composition_of_functions_on_a_fine_grid(base, size):
    """1 − (1 − f)∘…∘(1 − f), with f's own upper bound in between, evaluated at many levels."""
    curve = t.grouped(base, size)
    levels = np.geomspace(1e-6, 1.0, 40)
    power = levels
    for _ in range(size):
        power = np.minimum(1.0, 1.0 - base(power) - 1e-12)
    assert (curve(levels) <= 1.0 - power + 1e-9).all()
    assert curve(levels) == pytest.approx(1.0 - power, abs=0.02)


@every("size", [2, 3])
def test_chains_of_discrete_laws_never_beat_it(size):
    """T(P_0, P_k) of random chains whose links have (ε, δ) at most those of a base."""
    rng = np.random.default_rng(size)
    for _ in range(20):
        laws = [rng.dirichlet(np.full(4, 3.0))]
        for _ in range(size):
            laws.append(0.7 * laws[-1] + 0.3 * rng.dirichlet(np.full(4, 3.0)))
        grid = np.linspace(0.0, 4.0, 400)
        links = list(itertools.pairwise(laws))
        both = links + [(q, p) for p, q in links]
        # The smallest pure ε of all links, and, at a smaller ε, the δ that goes with it.
        pure = max(float(np.max(np.log(p / q))) for p, q in both)
        loose = 0.5 * pure
        delta = max(float(np.maximum(p - math.exp(loose) * q, 0.0).sum()) for p, q in both)
        base = t.Best(
            [t.ApproxDP(pure * (1 + 1e-12)), t.ApproxDP(loose, min(1.0, delta * (1 + 1e-12)))]
        )
        curve = t.Grouped(base, size)
        for p, q in ((laws[0], laws[-1]), (laws[-1], laws[0])):
            truth = [np.maximum(p - math.exp(e) * q, 0.0).sum() for e in grid]
            assert (curve.delta(grid) >= np.array(truth) * (1.0 - 1e-9)).all()


def test_renyi_divergences_are_no_less_than_the_exact_ones():
    """Of G(μ) of size k, whose divergence of order α is α(kμ)²/2."""
    curve = t.Grouped(t.Gaussian(0.4), 3)
    for order in (1.5, 2.0, 30.0):
        assert order * 1.2**2 / 2.0 <= curve.rdp(order) <= order * 0.72 * (1.0 + 1e-12)
    assert curve.zcdp == pytest.approx(0.72, rel=1e-12)


def test_it_composes_without_revealing_less():
    """Two releases to a group: no less than G(√2·kμ), and hardly more."""
    curve, exact = t.Grouped(t.Gaussian(0.3), 2), t.Gaussian(0.6 * math.sqrt(2.0))
    both = curve.self_compose(2)
    assert isinstance(both, t.Product)
    for delta in (1e-2, 1e-5):
        assert exact.epsilon(delta) <= both.epsilon(delta) <= 1.03 * exact.epsilon(delta)
