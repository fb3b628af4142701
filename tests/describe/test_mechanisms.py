"""The exponential mechanism and its iterated form: constants, bounds against densities, and refusals."""

import math

import numpy as np
import pytest

import pabi
from pabi import Loss
from pabi.account.analyses import mechanisms
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import Best, BoundedRange, Gaussian
from support.every_case import every, refused, refuses


def mechanism(loss=None, **changes):
    given = {"n": 100, "dimension": 1, "diameter": 1.0, "inverse_temperature": 2.0}
    loss = Loss.convex(1.0, gradient_bound=15.0) if loss is None else loss
    return pabi.ExponentialMechanism(loss, **{**given, **changes})


def iterated(loss=None, **changes):
    given = {"n": 1000, "dimension": 2, "diameter": 10.0, "epsilons": [0.2, 0.3, 0.5]}
    loss = Loss.strongly_convex(0.1, 1.0, gradient_bound=1.0) if loss is None else loss
    return pabi.IteratedExponentialMechanism(loss, **{**given, "failure": 0.01, **changes})


def test_bounded_range_of_the_reference():
    found = mechanism(diameter=3.0, inverse_temperature=None, epsilon=6.0).guarantee(1e-3)
    truth = {-2: 0.9660989046131189, 0: 0.9051482536448665, 1: 0.8446616566713084}
    truth |= {3: 0.6050264587225035, 5.5: 0.049050678044794176}
    for epsilon, delta in truth.items():
        assert BoundedRange(6.0).delta(epsilon) == pytest.approx(delta, rel=1e-9)
        assert found.delta(epsilon) <= delta * (1.0 + 1e-9)
    assert found.advantage <= math.tanh(1.5) * (1.0 + 1e-12)


def gibbs_mu(found):
    return next(row.mu for row in found.explain(1e-3) if row.method == "Gibbs measure")


def test_both_bounds_hold_at_once():
    found = mechanism(diameter=2.0, inverse_temperature=5.0)
    rows = {row.method: row for row in found.explain(1e-3)}
    both = found.guarantee(1e-3)
    assert isinstance(both.curve, Best)
    for epsilon in np.linspace(-1.0, 4.0, 23):
        parts = [BoundedRange(found.range), Gaussian(rows["Gibbs measure"].mu)]
        least = min(part.delta(float(epsilon)) for part in parts)
        assert both.delta(epsilon) == pytest.approx(least, rel=1e-13)
    levels = np.linspace(0.0, 1.0, 101)
    assert np.all(both.tradeoff(levels) >= Gaussian(rows["Gibbs measure"].mu)(levels))


def test_epsilon_and_temperature_describe_the_same():
    by_epsilon = mechanism(inverse_temperature=None, epsilon=0.7)
    assert by_epsilon.kappa == pytest.approx(0.7 / 0.3, rel=1e-14)
    assert by_epsilon.range == pytest.approx(0.7, rel=1e-14)
    assert by_epsilon.guarantee(0.0).epsilon(0.0) == pytest.approx(by_epsilon.range, rel=1e-15)
    by_kappa = mechanism(inverse_temperature=by_epsilon.kappa)
    assert by_kappa.guarantee(1e-3).epsilon(1e-3) == by_epsilon.guarantee(1e-3).epsilon(1e-3)
    one, half = (mechanism(adjacency=a) for a in ("replace_one", "zero_out"))
    assert half.range == pytest.approx(0.5 * one.range, rel=1e-14)
    # √(2κΔD) for convex losses (Bok, Su, Altschuler, Cor. 5.4).
    assert gibbs_mu(one) == pytest.approx(math.sqrt(2.0 * 2.0 * 0.3), rel=1e-12)


def test_nothing_is_needed_of_the_loss_but_a_gradient_bound():
    found = mechanism(Loss.unknown(gradient_bound=15.0))
    assert found.guarantee(1e-3).method == "bounded range"
    assert found.guarantee(1e-3).epsilon(0.0) == pytest.approx(found.range, rel=1e-15)
    rows = {row.method: row.reason for row in found.explain(1e-3)}
    assert "nothing is known of the curvature" in rows["Gibbs measure"]


def test_rounds():
    found = iterated()
    first, second, last = found.rounds
    assert first.diameter == 10.0
    assert first.inverse_temperature == pytest.approx(0.2 / (0.002 * 10.0), rel=1e-14)
    from scipy.stats import chi2

    quantile = chi2.isf(0.005, 2)
    assert first.radius == pytest.approx(math.sqrt(quantile / (0.1 * 10.0)), rel=1e-9)
    assert second.diameter == min(10.0, 2.0 * first.radius)
    assert last.radius == math.inf


def test_a_lipschitz_strongly_convex_loss_bounds_its_set():
    found = iterated(Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0))
    assert found.rounds[0].diameter == pytest.approx(2.0, rel=1e-14)
    assert iterated(Loss.convex(1.0, l2=1.0, gradient_bound=1.0)).rounds[0].diameter == 10.0


def test_rounds_compose():
    found = iterated()
    mus, ranges = [], []
    for i, one in enumerate(found.rounds):
        alone = found.mechanism(i)
        ranges.append(alone.range)
        mus.append(gibbs_mu(alone))
        assert alone.kappa == one.inverse_temperature
    rows = {row.method: row for row in found.explain(1e-4)}
    assert rows["Gibbs measure"].mu == pytest.approx(math.hypot(*mus), rel=1e-12)
    assert rows["Gibbs measure"].mu >= math.hypot(*mus) * (1.0 - 1e-15)
    assert found.guarantee(0.0).epsilon(0.0) == pytest.approx(sum(ranges), rel=1e-9)
    assert sum(ranges) == pytest.approx(1.0, rel=1e-12)


@every("epsilons", [[0.2, 0.3, 0.5], [0.2, 0.5], [0.1, 0.1, 3.0]])
def test_split_records_are_in_one_part_only(epsilons):
    """In the earlier rounds or in the last one: the worse part counts."""
    found, rounds = iterated(epsilons=epsilons, split=400), range(len(epsilons))
    expected = max(sum(epsilons[:-1]), epsilons[-1])
    assert found.guarantee(0.0).epsilon(0.0) == pytest.approx(expected, rel=1e-9)
    assert [found.records(i) for i in rounds] == [400] * (len(epsilons) - 1) + [600]
    assert found.rounds[0].radius > iterated(epsilons=epsilons, n=400).rounds[0].radius
    *before, last = (mechanisms.gibbs_mu(found.mechanism(i)) for i in rounds)
    curve = mechanisms.gibbs(found, DELTA).curve
    assert curve.mu == pytest.approx(max(math.hypot(*before), last), rel=1e-12)


def test_what_is_wrong_is_named():
    wrong = {"epsilon": [1.0], "inverse_temperature": [-1.0], "diameter": [None, 0.0]}
    refuses(mechanism, wrong | {"dimension": [0, 1.5]})
    refused("epsilon", mechanism, inverse_temperature=None)
    refused("epsilon", mechanism, inverse_temperature=None, epsilon=0.0)
    refused("gradient_gap", mechanism, Loss.convex(1.0))
    losses = [Loss.convex(1.0, gradient_bound=1.0), Loss.strongly_convex(1.0, 1.0)]
    wrong = {"epsilons": [[], [0.1, -0.1], 0.1], "failure": [0.0, 1.0], "split": [1000]}
    wrong |= {"loss": [*losses, Loss.unknown(gradient_bound=1.0)], "diameter": [None]}
    refuses(iterated, wrong)


def described(loss=None, **changes):
    given = {"diameter": 2.0, "inverse_temperature": 4.0, "gradient_gap": GAP}
    return mechanism(Loss.convex(1.0) if loss is None else loss, **given | changes)


DELTA = 1e-5
GAP = 0.3


@every("kappa", [0.1, 4.0, 300.0])
@every("m", [0.01, 1.0])
def test_parabolas_on_a_wide_set_are_exact(m, kappa):
    """Densities ∝ exp(−κmθ²/2) and ∝ exp(−κ(mθ²/2 + Δθ)) are N(0, v) and N(−Δ/m, v) with v = 1/(κm)."""
    truth = GAP / m * math.sqrt(kappa * m)
    mechanism = described(
        Loss.strongly_convex(m, m), inverse_temperature=kappa, diameter=50.0 * GAP / m
    )
    mu = mechanisms.gibbs(mechanism, DELTA).curve.mu
    assert truth * (1.0 - 1e-15) <= mu <= truth * (1.0 + 1e-14)


def test_a_set_within_the_minima_costs_what_its_diameter_says():
    """μ² = κD(2Δ − mD) while D < Δ/m, from where on it no longer grows."""
    for diameter, square in ((0.1, 4.0 * 0.1 * 0.5), (0.3, 4.0 * 0.09), (7.0, 4.0 * 0.09)):
        mechanism = described(Loss.strongly_convex(1.0, 2.0), diameter=diameter)
        assert mechanisms.gibbs(mechanism, DELTA).curve.mu ** 2 == pytest.approx(square, rel=1e-12)


def test_without_a_curvature_only_the_range_is_known():
    mechanism = described(Loss.unknown())
    with pytest.raises(NotApplicable, match="nothing is known of the curvature of a unknown loss"):
        mechanisms.gibbs(mechanism, DELTA)
    with pytest.raises(NotApplicable, match="nothing is known of the curvature"):
        mechanisms.both(mechanism, DELTA)
    assert mechanisms.bounded_range(mechanism, DELTA).epsilon(0.0) == pytest.approx(2.4, rel=1e-12)
