"""Rare outcomes that reveal much, and what reveals nearly nothing: what is left of masses that nearly cancel,
against 50 digits, and products against each of their factors."""

import math

import numpy as np
import pytest
from mpmath import mp

import pabi.tradeoff as t
from support.every_case import every
from support.normal_mixtures import drawn, hockey_stick

NEARLY_ONE = 1.0 - 2.0**-53


def secret(mu, p, opposite):
    return t.SecretMixture([0.0, mu], [1.0 - p, p], opposite)


def advantage(mu, p):
    """δ(0) where a part p of the mass is moved by `mu`."""
    return float(mp.mpf(p) * mp.erf(mp.mpf(mu) / mp.sqrt(8)))


# (δ, releases, the distance of their two Gaussians, p)
RARE = [
    (1e-20, t.PoissonReplaced(8.0, 1e-17), 16.0, 1e-17),
    (1e-30, t.PoissonReplaced(20.0, 1e-20), 40.0, 1e-20),
    (1e-20, t.FixedSizeSubsampled(8.0, 8.0, 16.0, 1e-17), 16.0, 1e-17),
    (1e-20, t.FixedSizeSubsampled(8.0, 9.0, 16.0, 1e-17), 16.0, 1e-17),
    (1e-20, secret(8.0, 1e-17, False), 8.0, 1e-17),
    (1e-20, secret(8.0, 1e-17, True), 16.0, 1e-17),
    (1e-26, t.PoissonSubsampled(8.0, 1e-24), 8.0, 1e-24),
]
SMALL = [(t.PoissonReplaced(2.4e-6, 4.1e-6), 4.8e-6, 4.1e-6)]
SMALL += [(t.PoissonReplaced(1e-13, 0.3), 2e-13, 0.3)]
SMALL += [(t.FixedSizeSubsampled(3.0, 2.0, 1e-13, 0.3), 1e-13, 0.3)]
SMALL += [(secret(1e-13, 0.3, True), 2e-13, 0.3), (secret(1e-13, 0.3, False), 1e-13, 0.3)]
SMALL += [(t.PoissonSubsampled(1e-13, 0.3), 1e-13, 0.3)]
SMALL += [(t.PoissonSubsampled(0.527, NEARLY_ONE), 0.527, NEARLY_ONE)]


@every("curve, mu, p", [*((curve, mu, p) for _, curve, mu, p in RARE), *SMALL])
def test_the_excess_above_0_has_its_digits(curve, mu, p):
    # Weights are doubles: 1 - 1e-17 and 1e-17 are what adds to 1 and begins with 1e-17.
    for loss in curve.losses():
        assert loss.above(0.0)[1] == pytest.approx(advantage(mu, p), rel=1e-7)


@pytest.mark.parametrize(("delta", "curve"), [(delta, curve) for delta, curve, _, _ in RARE[:4:3]])
@pytest.mark.one_in(2)
def test_two_rare_releases_claim_no_less_than_one(delta, curve):
    assert t.Product([(curve, 2)]).epsilon(delta) >= curve.epsilon_bounds(delta)[0] > 1.0


@every(
    "curve, delta",
    [
        (t.PoissonSubsampled(1e-20, 0.5), 1e-23),
        (t.PoissonReplaced(1e-24, 1e-3), 1e-28),
        (t.FixedSizeSubsampled(1e-20, 5e-21, 1e-20, 0.01), 1e-24),
        (t.Subsampled(t.Gaussian(1e-16), 1e-3), 2e-22),
        (t.BoundedRange(1e-200), 1e-204),
        (t.BoundedRange(1e-310), 1e-312),
    ],
)
def test_two_that_reveal_nearly_nothing_claim_no_less_than_one(curve, delta):
    """Cells of their losses are far shorter than the rounding of probabilities."""
    assert t.Product([(curve, 2)]).epsilon(delta) >= curve.epsilon_bounds(delta)[0] > 0.0


def test_a_gaussian_besides_reveals_no_less():
    p, delta = 1.0299538499574483e-12, 1.0299205732590953e-12
    product = t.Product([(t.PoissonReplaced(20.0, p), 1), (t.Gaussian(1e-30), 1)])
    assert product.epsilon(delta) >= t.PoissonReplaced(20.0, p).epsilon_bounds(delta)[0] > 90.0


@every("direction", ["add", "both"])
@every("mu, count", [(0.527, 1), (1.0, 1000), (0.3, 30_000)])
def test_batches_that_nearly_hold_the_record_reveal_what_a_gaussian_does(direction, mu, count):
    """δ of both differ by 2^-53 a release at most."""
    product = t.Product([(t.PoissonSubsampled(mu, NEARLY_ONE, direction), count)])
    low, high = product.epsilon_bounds(1e-5)
    whole = t.Gaussian(mu * math.sqrt(count))
    assert high >= whole.epsilon_bounds(1e-5 + count * 2.0**-53)[0]
    assert low <= whole.epsilon(1e-5 - count * 2.0**-53)
    assert high == pytest.approx(whole.epsilon(1e-5), rel=1e-3)


@every(
    "top, count, delta",
    [(1e-12, 3, 1e-16), (1e-13, 2, 1e-20), (1e-9, 5, 1e-11), (1.0, 2, 0.5), (3e-5, 4, 1e-5)],
)
def test_lower_ends_of_products_of_lists_are_not_above_the_truth(top, count, delta):
    low, high = t.Product([(t.ApproxDP(top), count)]).epsilon_bounds(delta)
    share = 1 / (1 + mp.exp(-mp.mpf(top)))

    def truth(epsilon):
        sums = [(mp.binomial(count, j), j, (2 * j - count) * mp.mpf(top)) for j in range(count + 1)]
        masses = ((w * share**j * (1 - share) ** (count - j), y) for w, j, y in sums)
        return sum(mass * max(0, 1 - mp.exp(epsilon - y)) for mass, y in masses)

    assert truth(low) >= delta or low == 0.0
    assert truth(high) <= delta


def test_without_a_transform_delta_is_no_more_than_the_sum_of_the_advantages(monkeypatch):
    def too_long(*_):
        raise MemoryError

    monkeypatch.setattr(t.numerical, "profile", too_long)
    product = t.Product([(t.Laplace(48.0, 5e-12), 2)])
    truth = 2.0 * 5e-12 * -math.expm1(-24.0)
    for delta in (product.delta(0.0), product.delta(np.array([0.0]))[0]):
        assert truth * (1.0 - 1e-10) <= delta <= truth * (1.0 + 1e-5)


def test_many_atoms_beside_a_gaussian_are_read_closely():
    top, count, delta = 1.3048565157396246e-4, 7748, 9.68e-5
    epsilon = t.Product([(t.Gaussian(0.24), 1), (t.ApproxDP(top), count)]).epsilon(delta)
    # Their sum is nearly normal, of a variance of top² each.
    assert epsilon == pytest.approx(
        t.Gaussian(math.hypot(0.24, top * math.sqrt(count))).epsilon(delta), rel=1e-3
    )


def test_what_no_loss_exceeds_takes_no_transform(monkeypatch):
    monkeypatch.setattr(t.numerical, "profile", None)
    delta = t.Product([(t.Laplace(2.5e-8, 0.88), 2)]).delta(np.array([1e-3]))
    assert 0.0 <= delta[0] <= 5e-324


def test_moments_of_which_nothing_is_known_are_infinite():
    """∞·0 and ∞ - ∞ at orders whose squares are no doubles."""
    halves = t.Mixture([t.Gaussian(0.0), t.Gaussian(5.0)], [0.5, 0.5])
    for order in (1e153, 1.5e154, 1e155, 1e300):
        assert t.Product([(halves, 2)]).rdp(order) >= order
        assert t.Product([(halves, 2), (t.Gaussian(3.0), 3)]).rdp(order) >= order
    bounded = t.Product([(t.BoundedRange(100.0), 2), (t.Laplace(1e-3), 1)])
    assert bounded.rdp(1.7e308) >= 199.0


def test_epsilon_of_tiny_losses_is_that_of_many_digits():
    p, mu, delta = 1e-6, 0.01, 1e-12
    low, high = t.FixedSizeSubsampled(mu, mu, 2.0 * mu, p).epsilon_bounds(delta)
    truth = hockey_stick(drawn(p, mu), drawn(p, -mu))
    assert truth(low * (1.0 - 1e-9)) >= delta >= truth(high)
    assert low <= high <= low * (1.0 + 1e-9)
