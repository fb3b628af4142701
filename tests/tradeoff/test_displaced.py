"""Gaussians on batches that a record joins in the place of another: against quadrature, under attack."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from pabi.tradeoff import FixedSizeSubsampled, Gaussian, PoissonReplaced, Product, Subsampled
from pabi.tradeoff.halves import Half
from pabi.tradeoff.law import MixtureLaw
from support.every_case import every


def test_what_is_known_already():
    """D(μ, μ) is C_p(G(μ)), D(μ, 2μ) is R_p(μ), and without chance it is a Gaussian."""
    for p, mu in ((0.1, 1.0), (0.01, 0.4), (0.7, 3.0)):
        for apart, known in ((mu, Subsampled(Gaussian(mu), p)), (2.0 * mu, PoissonReplaced(mu, p))):
            curve = FixedSizeSubsampled(mu, mu, apart, p)
            assert curve.orientation == "symmetric"
            assert curve.delta(0.3) == pytest.approx(known.delta(0.3), rel=1e-12)
            assert curve.rdp(3.0) == pytest.approx(known.rdp(3.0), rel=1e-9)
            many, likewise = Product([(curve, 60)]), Product([(known, 60)])
            assert many.epsilon(1e-6) == pytest.approx(likewise.epsilon(1e-6), rel=1e-3)
            alpha = np.array([0.0, 0.01, 0.3, 0.9])
            assert curve(alpha) == pytest.approx(known(alpha), abs=1e-3)
    assert FixedSizeSubsampled(2.0, 1.0, 1.0, 1.0).epsilon(1e-5) == Gaussian(1.0).epsilon(1e-5)
    assert FixedSizeSubsampled(2.0, 1.0, 1.0, 0.0).epsilon(0.0) == 0.0
    assert FixedSizeSubsampled(math.inf, 1.0, 1.0, 0.3).delta(9.0) == pytest.approx(0.3)
    far, replaced = FixedSizeSubsampled(1.0, 1.0, 9.0, 0.3), PoissonReplaced(1.0, 0.3)
    assert far.delta(0.5) == pytest.approx(replaced.delta(0.5))


CASES = [(1.0, 0.5, 0.5, 0.1), (2.0, 1.0, 1.7, 0.02), (0.2, 0.1, 0.1, 0.01), (1.0, 0.5, 1.5, 0.3)]
CASES += [(6.0, 3.0, 3.0, 0.3), (0.7, 0.6, 0.9, 0.9)]


@every("norm, other, apart, p", CASES)
def test_moments_are_those_of_quadrature(norm, other, apart, p):
    """E e^(λY) over the three parts of the law: losses above 0, below 0, and 0."""
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def over(a, power, of_second):
        b = a - apart
        ends = 0.5 * (a + b) + np.linspace(0.0, a * (3 + 2 * abs(power)) + 30, 41)
        middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * (ends[1] - ends[0])
        z = middle[:, None] + half * nodes
        one, two = (
            np.logaddexp(math.log(p) - 0.5 * (z - place) ** 2, math.log1p(-p) - 0.5 * z * z)
            for place in (a, b)
        )
        first = np.exp(two + power * (two - one) if of_second else one + power * (one - two))
        return half * float((first @ weights).sum()) / math.sqrt(2.0 * math.pi)

    for power in (0.5, 3.0):
        moved = over(norm, 0, False) + over(other, 0, True)
        truth = over(norm, power, False) + over(other, power, True) + 1 - moved
        pair = MixtureLaw(Half.single(norm, apart, p), Half.single(other, apart, p))
        assert pair.finite_log_moment(power) == pytest.approx(math.log(truth), rel=1e-9, abs=1e-12)


@every("norm, other, apart, p", CASES)
def test_cells_hold_what_lies_between_two_losses(norm, other, apart, p):
    """Mass and excess of every cell from δ at its ends: E(1 - e^(l - Y))⁺ = δ(l)."""
    pair = MixtureLaw(Half.single(norm, apart, p), Half.single(other, apart, p))
    curve = FixedSizeSubsampled(norm, other, apart, p, "remove")
    size = curve.epsilon(1e-3) + 0.1
    edges = size * np.array([-1.0, -0.31, -0.1, 0.04, 0.3, 0.32, 1.5])  # 0 is inside a cell
    cells = pair.cells(edges)
    for left, right, mass, excess in zip(edges, edges[1:], *cells, strict=False):
        above, _ = pair.above(float(left))
        beyond, _ = pair.above(float(right))
        assert mass == pytest.approx(above - beyond, abs=1e-10)
        # δ(l) = the cell's excess + what lies beyond it, of which e^(l - r) is left at least.
        rest = beyond - math.exp(left - right) * (beyond - curve.delta(float(right)))
        assert excess == pytest.approx(curve.delta(float(left)) - rest, abs=1e-9)


def coarse(w, v, p, e, cells):
    """A lower bound on both orders' δ(e) of two mixtures in the plane, moved by `w` and by `v`: exact masses
    of squares, of which each is one outcome."""
    edges = np.linspace(-8.0, 8.0, cells + 1)

    def masses(place):
        x, y = (np.diff(ndtr(np.concatenate([[-50.0], edges, [50.0]]) - c)) for c in place)
        return np.outer(x, y)

    none = masses((0.0, 0.0))
    one, two = (p * masses(place) + (1.0 - p) * none for place in (w, v))
    level = math.exp(e)
    return (
        float(np.maximum(one - level * two, 0.0).sum()),
        float(np.maximum(two - level * one, 0.0).sum()),
    )


def attack(seed, cells):
    """Two gradients in the plane (three points span no more): that which comes, and that which makes room.
    Their pulls never exceed the price in either order, and collinear ones attain it."""
    rng = np.random.default_rng(seed)
    size, p = rng.uniform(0.1, 1.5), rng.uniform(0.01, 0.7)
    comes, goes = (
        size * rng.uniform() ** 0.3 * x / np.linalg.norm(x) for x in rng.normal(size=(2, 2))
    )
    if seed % 3 == 1:
        comes = -size * goes / np.linalg.norm(goes)
        goes = -comes
    if seed % 3 == 2:
        comes = goes = size * np.array([1.0, 0.0])
    place = goes + rng.uniform(0.0, 1.0) * rng.normal(size=2) * (seed % 6 == 0)
    place *= min(1.0, size / np.linalg.norm(place))
    # At another iterate the record that makes room may pull otherwise: `place`.
    apart = max(size, float(np.linalg.norm(comes - goes + place)))
    curve = FixedSizeSubsampled(2.0 * size, size, apart, p, "remove")
    for e in (0.0, 0.05 * size, 0.4 * size, size, 3.0 * size):
        case = seed, e
        forward, backward = coarse(comes - goes, -place, p, e, cells)
        assert forward <= curve.delta(e) * (1.0 + 1e-12) + 1e-14, case
        assert backward <= curve.inverse().delta(e) * (1.0 + 1e-12) + 1e-14, case
        if seed % 3 == 1 and e <= size:
            assert forward >= curve.delta(e) * 0.99 - 1e-7, case
        if seed % 3 == 2 and e <= 0.4 * size:
            assert backward >= curve.inverse().delta(e) * 0.98 - 1e-7, case


@pytest.mark.parametrize(
    ("seeds", "cells"),
    [
        *((range(first, first + 12), 300) for first in range(0, 60, 12)),
        pytest.param(range(60, 10_000), 160, marks=pytest.mark.nightly, id="many"),
    ],
)
def test_no_two_gradients_tell_more(seeds, cells):
    for seed in seeds:
        attack(seed, cells)


@every("seed", range(12))
def test_no_geometries_tell_more_together(seed):
    """Three releases whose gradients change from one to the next, worst ones of either order among them,
    against the composed price: outcomes merged to few, so that their product can be listed."""
    rng = np.random.default_rng(seed)
    size, p = rng.uniform(0.2, 1.2), rng.uniform(0.05, 0.6)
    edges = np.concatenate([[-50.0], np.linspace(-4.0, 4.0 + 2.0 * size, 29), [50.0]])

    def masses(place):
        return p * np.diff(ndtr(edges - place)) + (1.0 - p) * np.diff(ndtr(edges))

    one = two = np.ones(1)
    for _ in range(3):
        w, v = [(2.0 * size, size), (0.0, -size), (0.0, size)][rng.integers(3)]
        if rng.uniform() < 0.3:
            goes, comes = rng.uniform(-size, size, 2)
            w, v = comes - goes, -goes
        one, two = (np.multiply.outer(x, masses(y)).ravel() for x, y in ((one, w), (two, v)))
    for direction, (first, second) in (("remove", (one, two)), ("add", (two, one))):
        price = Product([(FixedSizeSubsampled(2.0 * size, size, size, p, direction), 3)])
        for e in (0.1 * size, size):
            exact = float(np.maximum(first - math.exp(e) * second, 0.0).sum())
            assert exact <= price.delta(e) * (1.0 + 1e-12)


def test_a_price_one_part_in_a_hundred_too_small_is_found_out():
    """The attack has teeth: the worst line beats smaller sizes."""
    size, p, e = 1.0, 0.2, 0.3
    forward, backward = coarse((2.0 * size, 0.0), (size, 0.0), p, e, 1200)
    _, other = coarse((0.0, 0.0), (size, 0.0), p, e, 1200)
    assert forward > FixedSizeSubsampled(1.98, 0.99, 0.99, p, "remove").delta(e)
    assert forward > FixedSizeSubsampled(1.96, 1.0, 1.0, p, "remove").delta(e)
    assert other > FixedSizeSubsampled(1.98, 0.99, 0.99, p, "add").delta(e) > backward


def test_moments_of_many_are_those_of_each():
    """Whatever else is integrated with it: sizes from 1e-3 to 90 together, and more than one array holds."""
    rng = np.random.default_rng(0)
    for power in (1e-3, 0.7, 6.3, 40.0):
        sizes = np.exp(rng.uniform(math.log(1e-3), math.log(90.0), (60, 3)))
        pairs = [
            MixtureLaw(Half.single(norm, min(apart, norm + other), p), Half.single(other, apart, p))
            for (norm, other, apart), p in zip(
                sizes.tolist(), rng.uniform(0.01, 0.9, 60), strict=True
            )
        ]
        together = MixtureLaw.finite_log_moments(pairs, power)
        alone = [pair.finite_log_moment(power) for pair in pairs]
        assert together == pytest.approx(alone, rel=1e-12)


def test_what_moves_far_is_seen_and_what_is_not_drawn_looks_the_same_in_both():
    """p·N(150, 1) + (1 - p)·N(0, 1) against p·N(-151, 1) + (1 - p)·N(0, 1), and N(1, 1) against N(0, 1): the
    former tell all or nothing, so that δ is p + (1 - p)·δ_1."""
    p = 0.1
    for norm, other, apart in ((150.0, 151.0, 301.0), (1.0, 200.0, 201.0)):
        far = FixedSizeSubsampled(norm, other, apart, p)
        both = Product([(far, 1), (Gaussian(1.0), 1)])
        for epsilon in (0.0, 0.5, 2.0):
            least = p + (1 - p) * Gaussian(1.0).delta(epsilon)
            assert least <= both.delta(epsilon) <= 1.001 * least
