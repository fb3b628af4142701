"""Mixtures whose label stays secret: against integration, closed forms, and labels in sight."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from mpmath import mp
from scipy.special import ndtr

from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import (
    Gaussian,
    Mixture,
    PoissonReplaced,
    PoissonSubsampled,
    Product,
    SecretMixture,
    TradeOff,
)
from pabi.tradeoff.gaussian_below import gaussian_below
from pabi.tradeoff.pairs import Reversed, SampledGaussian
from pabi.tradeoff.secret_losses import OppositeLoss, SecretLoss, SwappedLoss

MEANS, WEIGHTS = (0.7, 0.8, 1.0, 1.6), (0.25, 0.25, 0.25, 0.25)
CASES = [
    ((0.0, 1.0), (0.9, 0.1)),
    (MEANS, WEIGHTS),
    ((0.01, 0.02), (0.5, 0.5)),
    ((0.0, 3.0, 6.0), (0.5, 0.49, 0.01)),
]


def exactly(means, weights, opposite: bool, e: float) -> float:
    """The larger δ(e) of both orders in 30 digits, by a search for where the ratio is e^e, or e^-e."""
    with mp.workdps(30):
        pairs = [(mp.mpf(w), mp.mpf(m)) for w, m in zip(weights, means, strict=True)]

        def ratio(z, sign=1):
            up = sum(w * mp.exp(m * z - m * m / 2) for w, m in pairs)
            return up / sum(w * mp.exp(-m * z - m * m / 2) for w, m in pairs) if opposite else up

        def place(level):
            low, high = mp.mpf(-200), mp.mpf(200)
            for _ in range(110):
                middle = (low + high) / 2
                low, high = (middle, high) if ratio(middle) < level else (low, middle)
            return high

        level = mp.exp(mp.mpf(e))
        z = place(level)
        other = [(w, -m) for w, m in pairs] if opposite else [(mp.mpf(1), mp.mpf(0))]
        forward = sum(w * mp.ncdf(m - z) for w, m in pairs)
        forward -= level * sum(w * mp.ncdf(m - z) for w, m in other)
        z = place(1 / level)
        backward = sum(w * mp.ncdf(z - m) for w, m in other)
        backward -= level * sum(w * mp.ncdf(z - m) for w, m in pairs)
        return float(max(forward, backward))


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize(("means", "weights"), CASES)
def test_delta_is_the_hockey_stick_divergence(means, weights, opposite):
    curve = SecretMixture(means, weights, opposite)
    mean = float(np.dot(means, weights))
    for e in (0.0, mean, 5.0 * mean):
        truth = exactly(means, weights, opposite, e)
        assert truth * (1.0 - 1e-14) <= curve.delta(e) <= truth * (1.0 + 1e-12)
        mirrored = 1.0 - math.exp(-e) * (1.0 - truth)
        assert curve.delta(-e) == pytest.approx(mirrored, rel=1e-13)
        array = curve.delta(np.array([e, -e]))
        assert truth <= array[0] == pytest.approx(truth, rel=1e-8, abs=1e-11)
        assert array[1] == pytest.approx(mirrored, rel=1e-11, abs=1e-11)
        low, high = curve.epsilon_bounds(truth)
        assert low - 1e-10 <= e <= high * (1.0 + 1e-12) + 1e-12
        assert high == pytest.approx(e, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(("mu", "p"), [(1.0, 0.1), (0.5, 0.01), (3.0, 0.5), (6.0, 0.3)])
def test_two_means_of_which_one_is_zero_are_a_poisson_batch(mu, p):
    for curve, known in (
        (SecretMixture([0.0, mu], [1.0 - p, p]), PoissonSubsampled(mu, p)),
        (SecretMixture([0.0, mu], [1.0 - p, p], True), PoissonReplaced(mu, p)),
    ):
        for e in (-1.0, 0.0, 0.5, 3.0):
            assert curve.delta(e) == pytest.approx(known.delta(e), rel=1e-10, abs=1e-15)
        for order in (1.01, 2.0, 16.0):
            assert curve.rdp(order) == pytest.approx(known.rdp(order), rel=5e-8)
        if mu == 1.0:
            own, other = (Product([(one, 5)]).epsilon(1e-6) for one in (curve, known))
            assert own == pytest.approx(other, rel=2e-3)  # on a grid for 1e-3


def test_one_mean_is_a_gaussian():
    for curve, mu in ((SecretMixture([1.3], [1.0]), 1.3), (SecretMixture([1.3], [1.0], True), 2.6)):
        assert curve.epsilon(1e-5) == Gaussian(mu).epsilon(1e-5)
        assert curve.delta(-1.0) == Gaussian(mu).delta(-1.0)
        assert curve.rdp(3.0) == pytest.approx(Gaussian(mu).rdp(3.0), rel=1e-7)
        assert curve(0.1) == Gaussian(mu)(0.1)
        assert curve.orientation == "symmetric"
    assert SecretMixture([0.0], [1.0]).epsilon(0.0) == 0.0


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize(("means", "weights"), CASES)
def test_a_label_in_sight_reveals_no_less(means, weights, opposite):
    curve = SecretMixture(means, weights, opposite)
    apart = 2.0 if opposite else 1.0
    seen = Mixture([Gaussian(apart * m) for m in means], weights)
    for e in (-0.5, 0.0, 0.2, 1.0, 4.0):
        assert curve.delta(e) <= seen.delta(e) * (1.0 + 1e-12)
    for order in (1.5, 8.0):
        assert curve.rdp(order) <= seen.rdp(order) * (1.0 + 1e-7)
    assert curve.zcdp >= curve.rdp(4.0) / 4.0
    assert gaussian_below(curve) == apart * means[-1]


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize(("means", "weights"), CASES)
def test_the_curve_is_that_of_thresholds(means, weights, opposite):
    z = np.linspace(-5.0, 8.0, 201)
    m, w = np.array(means), np.array(weights)
    other = -m if opposite else 0.0 * m
    alpha = ndtr(other - z[:, None]) @ w
    beta = ndtr(z[:, None] - m) @ w
    value = SecretMixture(means, weights, opposite)(alpha)
    assert np.all(value <= beta + 1e-12)
    if opposite:  # else it is the worse of both orders
        assert value == pytest.approx(beta, abs=2e-4)


PAIRS = {
    "secret": SecretLoss(MEANS, WEIGHTS),
    "swapped": SwappedLoss(SecretLoss(MEANS, WEIGHTS)),
    "opposite": OppositeLoss(MEANS, WEIGHTS),
}


@pytest.mark.parametrize("name", PAIRS)
def test_losses_are_what_integration_says(name):
    """Masses, excesses and moments against sums over a fine grid of places."""
    pair = PAIRS[name]
    z = np.linspace(-14.0, 32.0, 460_001)
    m, w = np.array(MEANS), np.array(WEIGHTS)

    def density(means):
        total = sum(a * np.exp(-0.5 * (z - b) ** 2) for a, b in zip(w, means, strict=True))
        return total / math.sqrt(2.0 * math.pi) * (z[1] - z[0])

    p, q = {
        "secret": (density(m), density(0.0 * m)),
        "swapped": (density(0.0 * m), density(m)),
        "opposite": (density(m), density(-m)),
    }[name]
    y = np.log(p) - np.log(q)
    edges = np.array([0.0, 0.3, 0.31, 0.5, 1.5, 4.0])
    cells = pair.cells(edges)
    for i in range(edges.size - 1):
        inside = (y > edges[i]) & (y < edges[i + 1])
        # The sum misses at most one place at either end.
        assert cells.mass[i] == pytest.approx(p[inside].sum(), rel=2e-2, abs=1e-4)
        excess = (p[inside] * -np.expm1(edges[i] - y[inside])).sum()
        assert cells.excess[i] == pytest.approx(excess, rel=1e-2, abs=1e-4)
    mass, excess = pair.above(0.5)
    assert mass == pytest.approx(p[y > 0.5].sum(), abs=1e-4)
    assert excess == pytest.approx((p * -np.expm1(np.minimum(0.5 - y, 0.0))).sum(), abs=1e-7)
    for power in (0.01, 1.0, 5.0):
        assert pair.log_moment(power) == pytest.approx(
            math.log((p * np.exp(power * y)).sum()), rel=1e-9
        )
    # Narrow cells and a wide one say the same.
    fine = pair.cells(np.linspace(0.3, 0.5, 200))
    assert fine.mass.sum() == pytest.approx(cells.mass[1] + cells.mass[2], rel=1e-10)


def test_moments_of_negative_order_are_those_of_poisson_batches():
    """In the swapped order a moment takes the ratio to a negative power; in 40 digits."""
    with mp.workdps(30):
        for order in (-1.5, -8.0):
            truth = mp.log(
                mp.quad(
                    lambda z, a=order: mp.npdf(z) * (0.9 + 0.1 * mp.exp(z - 0.5)) ** a,
                    list(range(-30, 31, 3)),
                )
            )
            own = SecretLoss((0.0, 1.0), (0.9, 0.1)).log_moment_of_q(order)
            assert own == pytest.approx(float(truth), rel=1e-10)
    known = Reversed(SampledGaussian(1.0, 0.1))
    assert SwappedLoss(SecretLoss((0.0, 1.0), (0.9, 0.1))).most == pytest.approx(known.most)


@pytest.mark.parametrize("opposite", [False, True])
def test_a_product_with_a_gaussian_is_between_what_is_known(opposite):
    curve = SecretMixture(MEANS, WEIGHTS, opposite)
    both = curve.compose(Gaussian(0.8))
    assert both.epsilon(1e-5) > curve.epsilon(1e-5)
    apart = 2.0 if opposite else 1.0
    seen = Mixture([Gaussian(math.hypot(apart * m, 0.8)) for m in MEANS], WEIGHTS)
    assert both.epsilon(1e-5) <= seen.epsilon(1e-5)
    low, high = both.epsilon_bounds(1e-5)
    assert low <= high <= low * 1.002


def test_more_weight_on_larger_means_reveals_no_less():
    for opposite in (False, True):
        base = SecretMixture(MEANS, WEIGHTS, opposite)
        for means, weights in (
            ((0.7, 0.9, 1.0, 1.6), WEIGHTS),
            (MEANS, (0.2, 0.25, 0.25, 0.3)),
        ):
            worse = SecretMixture(means, weights, opposite)
            for e in (-1.0, 0.0, 0.5, 2.0, 6.0):
                assert base.delta(e) <= worse.delta(e)


def test_what_is_missing_of_the_weights_goes_to_the_lowest_mean():
    curve = SecretMixture([1.0, 2.0], [0.5, 0.5 - 5e-10])
    assert sum(w for _, w in curve._shares) == 1
    assert curve._shares[-1][1] == 0.5 - 5e-10
    much = SecretMixture([1.0, 2.0], [0.5, 0.5 + 5e-10])
    assert sum(w for _, w in much._shares) == 1
    assert much._shares[-1][1] == 0.5 + 5e-10


def test_files():
    curve = SecretMixture([2.0, 1.0, 1.0], [0.5, 0.25, 0.25], opposite=True)
    assert curve.means == (1.0, 2.0)
    assert TradeOff.from_dict(json.loads(json.dumps(curve.to_dict()))) == curve


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (([-1.0], [1.0]), "means"),
        (([21.0], [1.0]), "means"),
        (([math.nan], [1.0]), "means"),
        (([1.0], [0.5]), "weights"),
        (([1.0, 2.0], [1.0]), "weights"),
        (([], []), "weights"),
        (([1.0], [1.0], 1), "opposite"),
    ],
)
def test_numbers_out_of_range_are_refused(arguments, field):
    with pytest.raises(InvalidInput, match=rf"^{field}: "):
        SecretMixture(*arguments)


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize("order", [1.5, 8.0, 41.0, 120.0])
@pytest.mark.parametrize(
    ("means", "weights"), [*CASES, ((1.5, 4.3, 1.6), (0.6, 0.2, 0.2)), ((2.0, 6.0), (0.4, 0.6))]
)
def test_divergences_are_those_of_a_fine_sum(means, weights, opposite, order):
    """At orders where what matters lies beyond all means."""
    far = 2.0 * order * max(means) + 12.0
    z = np.linspace(-far, far, 400_001)

    def log_density(places):
        parts = [math.log(w) - 0.5 * (z - m) ** 2 for m, w in zip(places, weights, strict=True)]
        return np.logaddexp.reduce(parts) - 0.5 * math.log(2.0 * math.pi)

    p = log_density(means)
    q = log_density([-m for m in means] if opposite else [0.0] * len(means))

    def divergence(a, b):
        moment = np.logaddexp.reduce(order * a + (1.0 - order) * b) + math.log(z[1] - z[0])
        return float(moment) / (order - 1.0)

    truth = max(divergence(p, q), divergence(q, p))
    found = SecretMixture(means, weights, opposite).rdp(order)
    assert truth * (1.0 - 1e-9) - 1e-9 <= found <= truth * (1.0 + 1e-6) + 1e-9


def bisected(curve: SecretMixture, delta: float) -> float:
    """ε where `exactly` meets `delta`."""
    low, high = 0.0, 400.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = exactly(curve.means, curve.weights, curve.opposite, middle) > delta
        low, high = (middle, high) if above else (low, middle)
    return high


@pytest.mark.parametrize(
    ("means", "weights", "opposite", "delta"),
    [
        ((5.7, 10.06), (0.083, 0.917), True, 8e-5),  # Q lies far from 0
        ((1e-3, 20.0), (0.0373, 0.9627), False, 1e-13),  # -log .0373 = 3.29, near which Q is
        ((0.0, 19.5), (0.97, 0.03), True, 1e-3),  # a loss of 0 in between
    ],
)
def test_epsilon_is_right_where_the_loss_is_nearly_flat(means, weights, opposite, delta):
    curve = SecretMixture(means, weights, opposite)
    truth = bisected(curve, delta)
    low, high = curve.epsilon_bounds(delta)
    assert low * (1.0 - 1e-12) <= truth <= high * (1.0 + 1e-12)
    assert high == pytest.approx(truth, rel=1e-8)
