"""Laws on grids: nothing of a law is lost, and what no cell has tells everything."""

from dataclasses import dataclass

import numpy as np
import pytest
from mpmath import mp

from pabi.tradeoff import PrivacyLossDistribution, Product, SecretMixture
from pabi.tradeoff.grids import MISSING, optimistic, pair_above, pessimistic
from pabi.tradeoff.halves import Half
from pabi.tradeoff.laplace import LaplaceLoss, SampledLaplace, TurnedLaplace
from pabi.tradeoff.law import Labelled, MixtureLaw
from pabi.tradeoff.numerical import ComposedLoss
from pabi.tradeoff.pairs import ExponentialLoss, LossCells
from support.every_case import every


def twice(place, apart, weight):
    """The law of two equal halves of one part."""
    half = Half.single(place, apart, weight)
    return MixtureLaw(half, half)


FLAT = (0.0, 19.5), (0.97, 0.03)  # between the two means the loss is 0 to all digits
LAWS = [MixtureLaw.of(Half.single(1.0, 1.0, 0.1)), twice(3.0, 3.0, 0.01)]
LAWS += [MixtureLaw.of(Half.single(2.0, 2.0, 0.3)).reversed]
LAWS += [Labelled((0.0, 0.5, 3.0), (0.5, 0.25, 0.25))]
LAWS += [
    *(SecretMixture((0.0, 1.0), (0.1, 0.9), opposite).losses()[0] for opposite in (False, True))
]
LAWS += [*(SecretMixture(*FLAT, opposite).losses()[0] for opposite in (False, True))]
LAWS += [SecretMixture((1e-3, 20.0), (0.0373, 0.9627)).losses()[1], twice(1.0, 2.0, 0.1)]
LAWS += [MixtureLaw(Half.single(2.0, 1.0, 0.1), Half.single(1.0, 1.0, 0.1)), twice(1.0, 1.5, 0.1)]
LAWS += [ExponentialLoss(2.0), ExponentialLoss(3000.0), LaplaceLoss(1.5), SampledLaplace(2.0, 0.1)]
LAWS += [TurnedLaplace(SampledLaplace(2.0, 0.1))]


@every("cells", [7, 400])
@every("pair", LAWS)
def test_all_masses_add_to_one(pair, cells):
    _, high = pair.reach(1e-12, 1e-9)
    step = high / cells
    above = pessimistic(pair, step, 1e-12, 1e-9)
    assert above.p.sum() + above.infinity == pytest.approx(1.0, abs=1e-11)
    below = optimistic(pair, step, 1e-12, 1e-9)
    assert below.p.sum() + below.infinity <= 1.0 + MISSING


@dataclass(frozen=True)
class Leaking(MixtureLaw):
    """A law whose cells lose some of what they hold."""

    lost: float = 0.01

    def cells(self, edges):
        mass, excess = super().cells(edges)
        return LossCells(mass * (1.0 - self.lost), excess * (1.0 - self.lost))


MEANS = (0.5, 1.0), (0.1, 0.9)


@every("opposite", [False, True])
def test_what_no_cell_has_is_infinite(opposite):
    law = SecretMixture(*MEANS, opposite)._law
    losses = pessimistic(Leaking(law.upper, law.lower), 0.05, 1e-12, 1e-9)
    assert losses.infinity >= 0.005
    assert losses.p.sum() + losses.infinity == pytest.approx(1.0, abs=1e-11)


@pytest.mark.parametrize("opposite", [False, True])
def test_no_listed_distribution_spreads_what_is_missing(monkeypatch, opposite):
    law = SecretMixture(*MEANS, opposite)._law
    monkeypatch.setattr(SecretMixture, "_law", Leaking(law.upper, law.lower))
    curve = SecretMixture(*MEANS, opposite)
    assert PrivacyLossDistribution.pessimistic(curve, 0.05).infinity_mass >= 0.005
    assert PrivacyLossDistribution.optimistic(curve, 0.05).infinity_mass == 0.0


def two_releases(means, weights, epsilon):
    """δ of two independent opposite mixtures, by the trapezoidal rule."""
    w, m = np.array(weights), np.array(means)
    z = np.linspace(-12.0, m[-1] + 12.0, 1201)

    def density(z, sign):
        return (w * np.exp(-0.5 * (z[..., None] - sign * m) ** 2)).sum(-1) / np.sqrt(2 * np.pi)

    p, q = density(z, 1.0), density(z, -1.0)
    step = z[1] - z[0]
    inside = np.maximum(np.outer(p, p) - np.exp(epsilon) * np.outer(q, q), 0.0)
    return float(inside.sum()) * step * step


@every("means, weights", [((0.0, 1.0), (0.1, 0.9)), ((0.0, 2.0), (0.5, 0.5))])
@every("epsilon", [0.0, 0.3, 2.0])
def test_two_opposite_mixtures_are_not_below_the_truth(means, weights, epsilon):
    truth = two_releases(means, weights, epsilon)
    product = Product([(SecretMixture(means, weights, opposite=True), 2)])
    assert product.delta(epsilon) >= truth * (1.0 - 1e-5)
    assert product.delta(epsilon) == pytest.approx(truth, rel=2e-4)
    assert product.delta([epsilon])[0] >= truth * (1.0 - 1e-5)


def test_the_place_of_no_loss_is_exact():
    for means, weights in [((0.0, 1.0), (0.1, 0.9)), ((0.3, 2.0), (0.5, 0.5)), FLAT]:
        law = SecretMixture(means, weights, True)._law
        assert law.upper.origin == law.upper.place(np.array([0.0]))[0] == 0.0
        assert law.above(0.0)[0] == pytest.approx(1.0 - law.above(0.0)[0] + law.above(0.0)[1])


@every("means, weights, opposite", [(*FLAT, True), ((1e-3, 20.0), (0.0373, 0.9627), False)])
def test_places_are_found_where_the_loss_is_nearly_flat(means, weights, opposite):
    """To the digits that a loss has there."""
    law = SecretMixture(means, weights, opposite)._law
    for half, sign in ((law.upper, 1), (law.lower, -1)):
        losses = np.linspace(0.0, min(half.high(1e-12), 3.2 if sign < 0 else 1e9), 101)[1:]
        for loss, t in zip(losses.tolist(), half.place(losses).tolist(), strict=True):
            z = sign * (half.origin + mp.mpf(t))

            def level(side, z=z):
                parts = zip(means, weights, strict=True)
                return mp.fsum(w * mp.exp(side * m * z - mp.mpf(m) ** 2 / 2) for m, w in parts)

            exact = sign * float(mp.log(level(1) / (level(-1) if opposite else 1)))
            if not opposite or sign > 0:
                assert exact == pytest.approx(loss, rel=1e-12, abs=1e-12)


def test_a_function_that_is_one_everywhere_reveals_all():
    pair = pair_above(np.array([0.0, 1.0, 3.0]), np.ones(3))
    assert (pair.infinity, pair.masses.sum()) == (1.0, 0.0)
    _, high = ComposedLoss(((pair, 3),)).delta_bounds(2.0, 1e-4)
    assert high == 1.0
