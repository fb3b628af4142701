"""The exponential mechanism's two bounds against densities that attain them, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pabi import ExponentialMechanism, IteratedExponentialMechanism, Loss
from pabi.analyses import exponential
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import Gaussian
from support.every_case import every_case

DELTA = 1e-5
GAP = 0.3


def described(loss=None, **changes):
    settings = {"n": 100, "dimension": 1, "diameter": 2.0, "inverse_temperature": 4.0}
    loss = Loss.convex(1.0) if loss is None else loss
    return ExponentialMechanism(loss, **settings | {"gradient_gap": GAP} | changes)


@every_case("kappa", [0.1, 4.0, 300.0])
@every_case("m", [0.01, 1.0])
def test_parabolas_on_a_wide_set_are_exact(m, kappa):
    """Densities ∝ exp(−κmθ²/2) and ∝ exp(−κ(mθ²/2 + Δθ)) are N(0, v) and N(−Δ/m, v) with v = 1/(κm)."""
    truth = GAP / m * math.sqrt(kappa * m)
    mechanism = described(
        Loss.strongly_convex(m, m), inverse_temperature=kappa, diameter=50.0 * GAP / m
    )
    mu = exponential.gibbs(mechanism, DELTA).mu
    assert truth * (1.0 - 1e-15) <= mu <= truth * (1.0 + 1e-14)


def test_linear_losses_have_the_whole_range():
    """∝ 1 and ∝ exp(−κΔθ) on an interval of length D: log-likelihood ratios from end to end are κΔD apart,
    and δ(ε) follows from the two densities."""
    ranges = exponential.bounded_range(described(), DELTA)
    width = 4.0 * GAP * 2.0
    assert ranges.epsilon(0.0) == pytest.approx(width, rel=1e-12)
    points = (np.arange(20_000) + 0.5) / 20_000.0  # of D; cells so fine that they lose little
    p, q = np.full(20_000, 1.0 / 20_000), np.exp(-width * points)
    q /= q.sum()
    for one, other in ((p, q), (q, p)):
        for epsilon in (0.0, 0.3, 1.0):
            truth = float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())
            for bound in (exponential.bounded_range, exponential.gibbs, exponential.both):
                assert truth <= bound(described(), DELTA).delta(epsilon)


def test_a_set_within_the_minima_costs_what_its_diameter_says():
    """μ² = κD(2Δ − mD) while D < Δ/m, from where on it no longer grows."""
    for diameter, square in ((0.1, 4.0 * 0.1 * 0.5), (0.3, 4.0 * 0.09), (7.0, 4.0 * 0.09)):
        mechanism = described(Loss.strongly_convex(1.0, 2.0), diameter=diameter)
        assert exponential.gibbs(mechanism, DELTA).mu ** 2 == pytest.approx(square, rel=1e-12)


def iterated(**changes):
    settings = {"n": 1000, "dimension": 2, "diameter": 10.0, "epsilons": [0.2, 0.3, 0.5]}
    loss = Loss.strongly_convex(0.1, 1.0, gradient_bound=1.0)
    return IteratedExponentialMechanism(loss, **settings | {"failure": 0.01} | changes)


def test_of_split_records_the_worse_part_counts():
    """A record is in the earlier rounds or in the last one, never in both."""
    mechanism = iterated(split=600)
    *before, last = (exponential.gibbs_mu(mechanism.mechanism(i)) for i in range(3))
    curve = exponential.gibbs(mechanism, DELTA).curve
    assert isinstance(curve, Gaussian)
    assert curve.mu == pytest.approx(max(math.hypot(*before), last), rel=1e-12)
    # ε = 0.2 + 0.3 before, and 0.5 in the last round.
    assert exponential.bounded_range(mechanism, DELTA).epsilon(0.0) <= 0.5 * (1.0 + 1e-9)


def test_without_a_curvature_only_the_range_is_known():
    mechanism = described(Loss.unknown())
    with pytest.raises(NotApplicable, match="nothing is known of the curvature of a unknown loss"):
        exponential.gibbs(mechanism, DELTA)
    with pytest.raises(NotApplicable, match="nothing is known of the curvature"):
        exponential.both(mechanism, DELTA)
    assert exponential.bounded_range(mechanism, DELTA).epsilon(0.0) == pytest.approx(2.4, rel=1e-12)
