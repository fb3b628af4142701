"""Batches and mixtures whose label stays secret: against the two mixtures of normal laws that they are."""

import math

import numpy as np
import pytest
from mpmath import mp

from pabi import tradeoff as t
from pabi.tradeoff.gaussian_below import gaussian_below
from support.every_case import every
from support.normal_mixtures import (
    PLAIN,
    cell,
    divergence,
    drawn,
    errors,
    hockey_stick,
    parts_of,
    turned,
)

REPLACED = [(0.1, 0.5), (0.3, 0.01), (1.0, 0.1), (1.0, 1e-4), (2.5, 0.9), (6.0, 0.3)]


MEANS, WEIGHTS = (0.7, 0.8, 1.0, 1.6), (0.25, 0.25, 0.25, 0.25)
SECRET = [((0.0, 1.0), (0.9, 0.1)), (MEANS, WEIGHTS), ((0.01, 0.02), (0.5, 0.5))]
SECRET += [((0.0, 3.0, 6.0), (0.5, 0.49, 0.01))]
LARGE = [((1.5, 4.3, 1.6), (0.6, 0.2, 0.2)), ((2.0, 6.0), (0.4, 0.6))]


def replaced(mu, p):
    return t.PoissonReplaced(mu, p), drawn(p, mu), drawn(p, -mu)


def secret(means, weights, opposite):
    other = parts_of(means, weights, -1) if opposite else PLAIN
    return t.SecretMixture(means, weights, opposite), parts_of(means, weights), other


SYMMETRIC = [replaced(*case) for case in REPLACED] + [secret(*case, True) for case in SECRET]
WORSE = [secret(*case, False) for case in SECRET]


@every("curve, one, two", SYMMETRIC + WORSE)
def test_the_curve_is_that_of_thresholds(curve, one, two):
    alpha, beta = errors(one, two, np.linspace(-5.0, 8.0, 201))
    assert np.all(curve(alpha) <= beta + 1e-12)
    if (curve, one, two) in SYMMETRIC:  # else it is the worse of both orders
        assert curve(alpha) == pytest.approx(beta, abs=2e-4)


@every("mu, p", [(0.3, 0.1), (2.0, 0.2), (1.0, 0.6)])
def test_curves_of_one_order_are_those_of_thresholds(mu, p):
    plain, power = errors(drawn(p, mu), PLAIN, np.linspace(-3.5, mu + 3.5, 60))
    for way, alpha, truth in (("remove", power, plain), ("add", plain, power)):
        value = t.PoissonSubsampled(mu, p, way)(alpha)
        assert np.all(value <= truth + 1e-15)
        assert value == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize("order", [1.001, 1.5, 8.0, 41.0, 120.0])
@pytest.mark.parametrize("chosen", [0, 1, 2, 3])
def test_divergences_are_those_of_a_fine_sum(chosen, order):
    """At orders where what matters lies beyond all means."""
    large = [secret(*case, opposite) for case in LARGE for opposite in (True, False)]
    for curve, one, two in (SYMMETRIC + WORSE + large)[chosen::4]:
        truth = max(divergence(*laws, order) for laws in ((one, two), (two, one)))
        assert truth * (1.0 - 1e-9) <= curve.rdp(order) <= truth * (1.0 + 1e-6), curve


HALF, SHARE = secret(MEANS, WEIGHTS, False)[1], 1.0 - 2.0**-53
NEARLY_SURE = t.PoissonSubsampled(3.0, SHARE, "add").losses()[0]
CELLS = [
    *(
        (t.PoissonReplaced(mu, p).losses()[0], drawn(p, mu), drawn(p, -mu), False)
        for mu, p in REPLACED
    ),
    *((t.PoissonSubsampled(1.0, 0.1).losses()[i], drawn(0.1, 1.0), PLAIN, i == 1) for i in (0, 1)),
    *((t.SecretMixture(MEANS, WEIGHTS).losses()[i], HALF, PLAIN, i == 1) for i in (0, 1)),
    (t.SecretMixture(MEANS, WEIGHTS, True).losses()[0], HALF, parts_of(MEANS, WEIGHTS, -1), False),
    (NEARLY_SURE, drawn(SHARE, 3.0), PLAIN, True),
]


@every("pair, one, two, swapped", CELLS)
def test_cells_are_the_masses_of_intervals(pair, one, two, swapped):
    """Narrow ones, where the excess must not cancel, and wide ones."""
    size = float(abs(sum(w * m for w, m in one)))
    narrow, wide = size * np.array([0.1, 0.1 + 1e-7, 0.1 + 1e-4, 0.2, 0.4]), size * np.arange(5.0)
    long = [np.array([-30.0, -6.0, 3.0, 20.0, 30.0])] if pair is NEARLY_SURE else []
    for edges in (narrow, wide, *long):
        mass, excess = pair.cells(edges)
        for i, (left, right) in enumerate(zip(edges.tolist(), edges[1:].tolist(), strict=False)):
            truth = cell(one, two, left, right, swapped)
            # An edge is a double: its place is known to a relative 1e-16, and the cell may be 1e-7 long.
            assert (mass[i], excess[i]) == pytest.approx(truth, rel=1e-8), (left, right)


def test_moments_of_negative_order_are_those_of_poisson_batches():
    """In the swapped order a moment takes the ratio to a negative power; in 30 digits."""
    batch, known = t.SecretMixture((0.0, 1.0), (0.9, 0.1)), t.PoissonSubsampled(1.0, 0.1, "add")
    with mp.workdps(30):
        for order in (-1.5, -8.0):

            def power(z, order=order):
                return mp.npdf(z) * (0.9 + 0.1 * mp.exp(z - 0.5)) ** order

            truth = float(mp.log(mp.quad(power, list(range(-30, 31, 3)))))
            for loss in (batch.losses()[1], *known.losses()):
                assert loss.log_moment(-order) == pytest.approx(truth, rel=1e-10)
    assert batch.losses()[1].most == pytest.approx(known.losses()[0].most)


def test_one_mean_is_a_gaussian():
    for opposite, mu in ((False, 1.3), (True, 2.6)):
        curve, known = t.SecretMixture([1.3], [1.0], opposite), t.Gaussian(mu)
        assert curve.epsilon(1e-5) == known.epsilon(1e-5)
        assert curve.delta(-1.0) == known.delta(-1.0)
        assert curve.rdp(3.0) == pytest.approx(known.rdp(3.0), rel=1e-7)
        assert curve(0.1) == known(0.1)
        assert curve.orientation == "symmetric"
    assert t.SecretMixture([0.0], [1.0]).epsilon(0.0) == 0.0


@every("opposite", [False, True])
@every("means, weights", SECRET)
def test_a_gaussian_of_the_largest_mean_lies_below(means, weights, opposite):
    curve = t.SecretMixture(means, weights, opposite)
    assert curve.zcdp >= curve.rdp(4.0) / 4.0
    assert gaussian_below(curve) == (2.0 if opposite else 1.0) * means[-1]


@every("opposite", [False, True])
def test_a_product_with_a_gaussian_is_between_what_is_known(opposite):
    curve = t.SecretMixture(MEANS, WEIGHTS, opposite)
    low, high = curve.compose(t.Gaussian(0.8)).epsilon_bounds(1e-5)
    apart = 2.0 if opposite else 1.0
    seen = t.Mixture([t.Gaussian(math.hypot(apart * m, 0.8)) for m in MEANS], WEIGHTS)
    assert curve.epsilon(1e-5) < low <= high <= low * 1.002
    assert curve.compose(t.Gaussian(0.8)).epsilon(1e-5) <= seen.epsilon(1e-5)


def test_what_is_missing_of_the_weights_goes_to_the_lowest_mean():
    for last in (0.5 - 5e-10, 0.5 + 5e-10):
        curve = t.SecretMixture([1.0, 2.0], [0.5, last])
        assert sum(w for _, w in curve._shares) == 1
        assert curve._shares[-1][1] == last
    assert t.SecretMixture([2.0, 1.0, 1.0], [0.5, 0.25, 0.25]).means == (1.0, 2.0)


@every(
    "means, weights, opposite, delta",
    [
        ((5.7, 10.06), (0.083, 0.917), True, 8e-5),  # Q lies far from 0
        ((1e-3, 20.0), (0.0373, 0.9627), False, 1e-13),  # -log .0373 = 3.29, near which Q is
        ((0.0, 19.5), (0.97, 0.03), True, 1e-3),  # a loss of 0 in between
    ],
)
def test_epsilon_is_right_where_the_loss_is_nearly_flat(means, weights, opposite, delta):
    curve, one, two = secret(means, weights, opposite)
    forward = hockey_stick(one, two)
    backward = forward if opposite else turned(forward)
    low, high = curve.epsilon_bounds(delta)
    for e, side in ((low * (1.0 - 1e-8), 1), (high * (1.0 + 1e-12), -1), (high * (1.0 - 1e-8), 1)):
        assert side * (max(forward(e), backward(e)) - delta) >= 0.0
    assert low <= high


def test_at_the_ends_a_batch_of_replaced_records_is_what_it_must_be():
    assert t.PoissonReplaced(1.5, 1.0).epsilon(1e-5) == t.Gaussian(3.0).epsilon(1e-5)
    assert (
        t.PoissonReplaced(1.5, 0.0).epsilon(0.0) == t.PoissonReplaced(0.0, 0.4).epsilon(0.0) == 0.0
    )
    everything = t.PoissonReplaced(math.inf, 0.3)
    assert everything.delta(50.0) == pytest.approx(0.3)
    assert (everything.epsilon(0.2), everything.epsilon(0.3)) == (math.inf, 0.0)
    assert t.PoissonReplaced(200.0, 0.3).delta(5.0) == pytest.approx(0.3)
    assert t.Product([(t.PoissonReplaced(200.0, 0.01), 2)]).epsilon(0.5) == pytest.approx(
        0.0, abs=1e-9
    )
