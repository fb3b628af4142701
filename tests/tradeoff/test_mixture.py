"""Mixtures: trade-off values against exact points of the curve, composition against enumeration."""

import math
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from pabi import convert
from pabi.tradeoff import Gaussian, Identity, Mixture
from pabi.tradeoff.mixture import MOST_PARTS
from support.every_case import every
from support.normal_mixtures import gaussian_delta


def mixture(mus, weights):
    return Mixture([Gaussian(m) for m in mus], weights)


def errors(mus, weights, epsilon):
    """(type I, type II) of the likelihood-ratio test at log threshold ε: a point of the curve."""
    with mp.workdps(80):
        places = [
            (w, mp.mpf(epsilon) / m, mp.mpf(m) / 2) for m, w in zip(mus, weights, strict=True)
        ]
        first = mp.fsum(w * mp.ncdf(-e - half) for w, e, half in places)
        return first, mp.fsum(w * mp.ncdf(e - half) for w, e, half in places)


CASES = [([1.0], [1.0]), ([0.5, 2.0], [0.5, 0.5]), ([1e-3, 0.3, 6.0], [0.25, 0.5, 0.25])]
CASES += [([0.1, 15.0], [1 - 2**-20, 2**-20])]


@every("mus, weights", CASES)
def test_values_on_exact_points(mus, weights):
    f = mixture(mus, weights)
    for epsilon in (-40.0, -5.0, -0.3, 0.0, 1e-3, 0.7, 6.0, 50.0):
        first, second = errors(mus, weights, epsilon)
        if 1e-290 < first < 1 - 1e-9:  # a level that a double resolves
            alpha = float(first)
            # alpha is `first` rounded: the curve moves by at most e^ε times that.
            shift = mp.exp(epsilon) * abs(first - mp.mpf(alpha)) * 2
            least = second * (1 - mp.mpf("2e-10")) - shift * 3 - mp.mpf("1e-300")
            assert least <= f(alpha) <= second + shift, epsilon


def test_steps_and_infinite_parts():
    f = mixture([0.0, 2.0, math.inf], [0.25, 0.5, 0.25])
    assert 0.75 * (1 - 1e-15) <= f(0.0) <= 0.75
    assert f(1.0) == 0.0
    # At ε = 0 the test rejects nothing of the first part: type I error Φ(-1)/2 ≈ 0.079; then the
    # first part is randomised and f falls with slope -1 for a quarter.
    first = 0.5 * 0.15865525393145707
    for share in (0.0, 0.3, 0.9, 1.0):
        alpha, second = first + 0.25 * share, first + 0.25 - 0.25 * share
        assert f(alpha) == pytest.approx(second, abs=1e-12)
        assert f(alpha) <= second + 1e-15
    assert f(0.9) == 0.0  # everything finite can be rejected at 0.75
    assert mixture([math.inf], [1.0])([0.0, 0.5]).tolist() == [0.0, 0.0]
    assert f.epsilon(0.2) == math.inf
    assert f.delta(1e9) >= 0.25
    assert mixture([0.0], [1.0])(0.25) == pytest.approx(0.75, abs=1e-12)
    # A part with μ near the smallest double is as good as one with μ = 0.
    nothing = pytest.approx(mixture([0.0, 2.0], [0.5, 0.5])(0.3), abs=1e-12)
    for tiny in (5e-324, 2.225073858507203e-309, 1e-200, 1e-20):
        assert mixture([tiny, 2.0], [0.5, 0.5])(0.3) == nothing


def test_normal_form_and_equality():
    a = mixture([2.0, 1.0, 2.0, 3.0], [0.25, 0.25, 0.5, 0.0])
    assert a == mixture([1.0, 2.0], [0.25, 0.75])
    assert a.parts == (Gaussian(1.0), Gaussian(2.0))
    assert a.weights == (0.25, 0.75)
    assert hash(a) == hash(mixture([1.0, 2.0], [0.25, 0.75]))


def test_readings():
    f = mixture([0.5, 2.0], [0.5, 0.5])
    assert f.epsilon(1e-5) == convert.mixture_to_epsilon([0.5, 2.0], [0.5, 0.5], 1e-5)
    assert f.rdp(4.0) == convert.mixture_to_rdp([0.5, 2.0], [0.5, 0.5], 4.0)
    for order in (1.001, 3.0, 100.0):
        assert f.rdp(order) <= f.zcdp * order * (1 + 1e-12)
    half = (math.erf(0.5 / math.sqrt(8)) + math.erf(2.0 / math.sqrt(8))) / 2
    assert f.advantage == pytest.approx(half, rel=1e-14)
    assert f.bayes_success(0.5) == pytest.approx(0.5 + half / 2, rel=1e-14)


def test_composition_is_the_product_mixture():
    a, b = mixture([0.3, 1.0], [0.25, 0.75]), mixture([0.0, 0.5, 2.0], [0.125, 0.375, 0.5])
    c, pairs = a.compose(b), list(product(*(zip(x.mus, x.weights, strict=True) for x in (a, b))))
    for epsilon in (0.0, 0.5, 4.0, 30.0):
        parts = [(w * v, mp.sqrt(mp.mpf(x) ** 2 + mp.mpf(y) ** 2)) for (x, w), (y, v) in pairs]
        truth = mp.fsum(w * gaussian_delta(mu, epsilon) for w, mu in parts)
        assert truth <= c.delta(epsilon) <= truth * (1 + mp.mpf("1e-11"))
    assert a.compose(Identity()) == a == Identity().compose(a)
    assert mixture([3.0, 0.0], [0.5, 0.5]).compose(Gaussian(4.0)) == mixture([5.0, 4.0], [0.5, 0.5])
    assert Gaussian(4.0).compose(mixture([3.0, 0.0], [0.5, 0.5])) == mixture([5, 4], [0.5, 0.5])
    assert a.self_compose(2) == a.compose(a)


def test_repeated_composition_never_falls_below_the_multinomial():
    """Two parts, composed k times: binomially many of the larger. Beyond the cap, still above."""
    k, low, high, p = 300, 0.02, 0.5, 0.25
    f = mixture([low, high], [1 - p, p]).self_compose(k)
    assert isinstance(f, Mixture)
    assert len(f.parts) <= MOST_PARTS
    counts = np.arange(k + 1)
    logs = [math.lgamma(k + 1) - math.lgamma(j + 1) - math.lgamma(k - j + 1) for j in range(k + 1)]
    weights = np.exp(np.array(logs) + counts * math.log(p) + (k - counts) * math.log(1 - p))
    mus = np.sqrt(counts * high**2 + (k - counts) * low**2)
    for epsilon in (0.0, 5.0, 20.0, 60.0, 120.0):
        truth = float(weights @ convert.gaussian_delta(mus, epsilon))
        assert truth * (1 - 1e-10) <= f.delta(epsilon) <= truth * 1.05


def test_more_parts_than_the_cap():
    mus = np.linspace(0.1, 1.0, 90)
    f = mixture(mus.tolist(), [1 / 90] * 90)
    g = f.compose(f)
    assert isinstance(g, Mixture)
    four = g.compose(f)
    assert isinstance(four, Mixture)
    assert 90 * len(g.parts) > MOST_PARTS >= len(four.parts)
    assert math.fsum(four.weights) == pytest.approx(1.0, abs=1e-14)
    grid = np.array([0.0, 1.0, 5.0, 15.0])
    pairs = np.sqrt(np.add.outer(np.add.outer(mus**2, mus**2).ravel(), mus**2).ravel())
    for epsilon in grid.tolist():
        truth = float(np.mean(convert.gaussian_delta(pairs, epsilon)))
        assert truth * (1 - 1e-10) <= four.delta(epsilon) <= truth * 1.02
    # With an infinite part, its mass is kept whole.
    h = mixture([*mus.tolist(), math.inf], [0.9 / 90] * 90 + [0.1]).self_compose(4)
    assert h.delta(1e6) == pytest.approx(1 - 0.9**4, rel=1e-9)
    assert h.delta(1e6) >= 1 - 0.9**4 - 1e-15


def test_narrow_mixtures_on_the_grid():
    """All μ within 1e-7 of each other: the grid must not round any of them down."""
    mus = 1.0 + np.linspace(0, 1e-7, 2000)
    f = mixture(mus.tolist(), [1 / 2000] * 2000)
    g = f.compose(f)
    assert isinstance(g, Mixture)
    for epsilon in (0.5, 6.0, 12.0):
        truth = Gaussian(math.sqrt(2.0)).delta(epsilon)
        top = Gaussian(math.sqrt(2.0) * (1 + 2e-7)).delta(epsilon)
        assert truth <= g.delta(epsilon) <= top
    exact = np.mean(mus**2) * 2
    assert float(np.array(g.weights) @ np.square(g.mus)) >= exact * (1 - 1e-15)
