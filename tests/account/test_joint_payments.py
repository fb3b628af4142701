"""Payments chosen for all bins together: known numbers, and the law of what bins have in common."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import pabi
from pabi.account.analyses import joint
from pabi.account.shifts.joint import Bins, spread
from pabi.tradeoff import Gaussian, Product, RandomAllocation, TradeOff
from pabi.verification.anew.allocations import Orders
from pabi.verification.factors.allocations import Allocation, LabelGroup
from support.allocations import run_in_bins
from support.every_case import refused

DELTA = 1e-5
run = partial(run_in_bins, n=500, batches=pabi.BallsInBins(50), epochs=2)

STRONG = pabi.Loss.convex(1.0, l2=0.1, gradient_bound=1.0)
# Steps on batches of up to 94 records stretch by 1.45.
STRETCHED = pabi.Loss.weakly_convex(0.45 / 0.94, 1.0, gradient_bound=1.0)


# The most that it may cost is what another implementation of the theorem found; the least, a linear loss.
KNOWN = [({}, 1.12, 1.30), ({"epochs": 10}, 2.75, 2.87), ({"loss": STRONG}, 1.09, 1.19)]
KNOWN += [({"loss": STRONG, "epochs": 10}, 1.645, 1.705), ({"loss": STRETCHED}, 1.12, 1.75)]
KNOWN += [({"epochs": 10, "adjacency": "replace_one"}, 6.13, 6.37)]


@pytest.mark.parametrize(("changes", "least", "most"), KNOWN)
def test_known_numbers(changes, least, most):
    guarantee = run(**changes).guarantee(DELTA)
    assert guarantee.method == "joint payments"
    assert least < guarantee.epsilon(DELTA) < most + 0.005


def test_all_at_once_is_all_paths():
    """Two places then move no step in common: α = 0, and β is what composition has."""
    places = Bins(np.ones(6), np.full(6, 0.7), np.ones(6), 6, 3)
    payments = places.paid(np.array([1.0, 1.0, 1.0, 1.0, 0.0]))
    alpha, beta = spread(places.common(places.noises(range(3)), payments), False)
    assert not alpha.any()
    assert beta == pytest.approx(np.full(3, 0.7 * math.sqrt(2.0)), rel=1e-8)


CASES = [((0.3, 0.6), (0.5, 0.9)), ((1.2, 1.2), (0.4, 0.2)), ((0.05, 1.5), (1.0, 0.3))]
CASES += [((0.7, 0.2), (0.0, 1.5)), ((0.0, 0.0), (0.8, 0.8))]
EPSILON = 0.7
Z = np.linspace(-8.0, 8.0, 121) + 0.013
P = np.exp(-0.5 * Z**2) / math.sqrt(2.0 * math.pi) * (Z[1] - Z[0])


@pytest.mark.parametrize(("alpha", "beta"), CASES)
def test_the_law_against_its_definition(alpha, beta):
    """δ of two labels by quadrature over all three numbers, which errs at the kink alone. The accountant's
    and the checker's, who share no code, are above it in both orders."""
    a, b = ([np.exp(m * Z - 0.5 * m * m) for m in means] for means in (alpha, beta))
    ratio = a[0][:, None, None] * b[0][None, :, None] + a[1][:, None, None] * b[1][None, None, :]
    p, ratio = np.einsum("i,j,k->ijk", P, P, P), 0.5 * ratio
    curve = RandomAllocation([0.5, 0.5], beta, [1, 1], common=alpha)
    labels = [LabelGroup(Fraction(1, 2), (y,), 1, x) for x, y in zip(alpha, beta, strict=True)]
    orders = Orders(Allocation(tuple(labels), False, False), 0)
    kappa = math.exp(EPSILON)
    truth = [float(np.sum(p * np.maximum(x, 0.0))) for x in (ratio - kappa, 1.0 - kappa * ratio)]
    for order, (gain, exact) in enumerate(zip(curve._gains, truth, strict=True)):
        for found in (curve._in_order(gain, EPSILON, 1e-4), orders.delta(order, EPSILON)):
            assert exact * (1.0 - 2e-3) <= found <= exact * 1.06 + 1e-4, order


def test_one_number_for_all_is_a_release_of_its_own():
    one = RandomAllocation([0.6, 0.4], [0.3, 0.7], [6, 4], common=[0.5, 0.5])
    two = Product([(RandomAllocation([0.6, 0.4], [0.3, 0.7], [6, 4]), 1), (Gaussian(0.5), 1)])
    # What grids add to δ.
    assert one.delta(1.0) == pytest.approx(two.delta(1.0), rel=5e-3)
    assert TradeOff.from_dict(one.to_dict()) == one


def test_bad_fields_are_refused():
    fields = {"shares": [0.5, 0.5], "sizes": [1.0, 1.0], "counts": [1, 1], "common": [0.5, 0.5]}
    for changes in (
        *({"common": x} for x in ([0.5], [0.5, -0.1])),
        *({"opposite": True}, {"displaces": True}),
    ):
        refused("common", RandomAllocation, **{**fields, **changes})
    refused("shares", RandomAllocation, **{**fields, "shares": [0.3, 0.3]})


def test_where_places_are_seen_anyway_it_does_not_apply():
    for noise in (0.05, 1e-5):
        with pytest.raises(pabi.NotApplicable, match="place is seen"):
            joint.apply(run(noise_multiplier=noise, adjacency="replace_one"), DELTA)
    with pytest.raises(pabi.NotApplicable, match="one by one"):
        joint.apply(run(n=500_000, batches=pabi.BallsInBins(10)), DELTA)
