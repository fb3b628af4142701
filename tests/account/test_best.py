"""The best guarantee: the least of all answers at the δ asked for, and closed forms of one and two steps."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import pabi
from pabi import Cyclic, InvalidInput, Loss, NoisyIteration, NoisySGD
from pabi.account.analyses import analyses_of
from pabi.account.best import Outcome, best_guarantee, best_of, least_of, outcomes
from pabi.tradeoff import ApproxDP, Gaussian
from pabi.verification.granting import Proposal

DELTA = 1e-5


def gaussian_epsilon(mu, delta):
    """The root of Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) = δ (Dong, Roth, Su, Cor. 2.13)."""

    def gap(e):
        weighted = math.exp(e + norm.logcdf(-e / mu - mu / 2))
        return norm.cdf(-e / mu + mu / 2) - weighted - delta

    return brentq(gap, 0.0, 500.0, xtol=1e-12)


def iteration_of(c, s, sigma, **changes):
    columns = (np.array(x, dtype=float) for x in (c, s, sigma))
    names = ("contraction", "step_sensitivity", "step_noise_std")
    return NoisyIteration(**dict(zip(names, columns, strict=True)), **changes)


RUN = NoisySGD(
    Loss.logistic(1.0, l2=0.1), n=40, batches=Cyclic(10), epochs=3, step_size=0.5, noise_std=0.5
)
DESCRIPTIONS = {
    "a run": RUN,
    "an iteration": iteration_of([0.9] * 6, [1.0, 0.0, 0.5, 0.0, 1.0, 0.0], [1.0] * 6),
    "an exponential mechanism": pabi.ExponentialMechanism(
        Loss.logistic(1.0), n=100, dimension=3, diameter=2.0, epsilon=0.5
    ),
    "second moments": pabi.NoisySecondMoments(100, 3, 1.0, noise_std=5.0),
    "a diffusion": pabi.LangevinDiffusion(
        Loss.logistic(1.0, l2=0.5), n=100, inverse_temperature=20.0, time=3.0
    ),
}


def test_a_bare_iteration_has_what_needs_no_more_than_one_record():
    reasons = {o.name: o.reason for o in outcomes(DESCRIPTIONS["an iteration"], DELTA)}
    refusing = [
        name for name, reason in reasons.items() if reason == "a bare iteration follows one record"
    ]
    assert len(reasons) - len(refusing) == 3
    assert reasons["composition"] is reasons["shifted interpolation"] is None


def test_one_step_is_one_gaussian_mechanism():
    """Nothing is hidden: μ = s/σ, whatever the step does to distances."""
    for (s, sigma), slope in product([(1.0, 2.0), (0.3, 0.1), (2.0, 1.0)], (0.0, 0.7, 1.4)):
        best = best_guarantee(iteration_of([slope], [s], [sigma]), DELTA)
        truth = gaussian_epsilon(s / sigma, DELTA)
        assert best.mu == pytest.approx(s / sigma, rel=1e-12), (s, sigma, slope)
        assert best.epsilon(DELTA) == pytest.approx(truth, rel=1e-9), (s, sigma, slope)
        assert best.method == "composition"  # of equals the one that assumes least


def test_two_steps_share_the_first_pull():
    """Of s = 1, step 1 pays 1 − z and step 2 pays cz: the least (1 − z)² + (cz/σ)² is c²/(c² + σ²), where
    composition pays 1. A pull in the last step cannot be shared."""
    for case in product((0.5, 1.0, 1.3), (0.4, 1.0, 3.0)):
        slope, noise = case
        best = best_guarantee(iteration_of([1.0, slope], [1.0, 0.0], [1.0, noise]), DELTA)
        square = slope**2 / (slope**2 + noise**2)
        assert best.mu == pytest.approx(math.sqrt(square), rel=1e-9), case
        assert best.composition.mu == pytest.approx(1.0, rel=1e-12), case
        assert best.method != "composition", case
    last = best_guarantee(iteration_of([0.5, 0.5], [0.0, 1.0], [9.0, 1.0]), DELTA)
    assert last.mu == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_no_analysis_is_better_at_the_delta_asked_for(name):
    description = DESCRIPTIONS[name]
    for delta in (0.0, 1e-9, 1e-2):
        found = outcomes(description, delta)
        assert [o.name for o in found] == [a.name for a in analyses_of(description)], delta
        assert all((o.proposal is None) != (o.reason is None) for o in found), delta
        assert all((o.guarantee is None) == (o.proposal is None) for o in found), delta
        best = best_guarantee(description, delta)
        least = min(o.guarantee.epsilon(delta) for o in found if o.guarantee is not None)
        assert best.epsilon(delta) <= least * (1.0 + 2e-10), delta
        assert best.tuned_at == delta


class Said(Proposal):
    """What nothing proves."""

    def written(self):
        return {}


def outcome(name, curve=None, reason=None):
    return Outcome(name, None if curve is None else Said(name, RUN, curve), reason, RUN)


def test_curves_that_cross_are_chosen_by_delta():
    """ε of G(1) falls with δ, and that of randomised response hardly."""
    found = [outcome("gaussian", Gaussian(1.0)), outcome("pure", ApproxDP(3.0))]
    crossing = brentq(lambda x: gaussian_epsilon(1.0, math.exp(x)) - 3.0, -40.0, -2.0)
    assert least_of(found, math.exp(crossing + 1.0)).name == "gaussian"
    assert least_of(found, math.exp(crossing - 1.0)).name == "pure"


def test_of_equals_the_first_is_taken():
    """Beyond roundings: a part in 10⁹ is a difference."""
    for first, second in (("one", "other"), ("other", "one")):
        equal = [outcome(first, Gaussian(1.0 + 1e-14)), outcome(second, Gaussian(1.0))]
        assert least_of(equal, DELTA).name == first
        better = [outcome(first, Gaussian(1.0 + 1e-9)), outcome(second, Gaussian(1.0))]
        assert least_of(better, DELTA).name == second


def test_at_delta_zero_gaussians_are_told_apart():
    """Where all of them read ε = ∞."""
    found = [outcome("worse", Gaussian(2.0)), outcome("better", Gaussian(1.0))]
    best = least_of(found, 0.0)
    assert best.name == "better"
    assert best.proposal.epsilon(0.0) == math.inf


def test_what_composition_gives_comes_with_it():
    every, *hidden = outcomes(RUN, DELTA)
    assert best_of([every, *hidden], DELTA).composition == every.guarantee.curve
    assert best_of(hidden, DELTA).composition is None
    refused = outcome("composition", reason="not of this")
    assert best_of([refused, *hidden], DELTA).composition is None


def test_where_nothing_applies_all_reasons_are_given():
    found = [outcome("one", reason="it is too long"), outcome("other", reason="it is too short")]
    with pytest.raises(pabi.NotApplicable, match="one: it is too long; other: it is too short"):
        least_of(found, DELTA)


def test_delta_is_checked_before_anything_is_proven():
    for delta in (-1e-9, 1.0, 2.0, math.nan, "1e-5", None, True):
        with pytest.raises(InvalidInput) as refused:
            outcomes(RUN, delta)
        assert refused.value.field == "delta", delta


def test_what_is_no_description_is_refused():
    for thing in (None, "a run", Gaussian(1.0), RUN.guarantee(DELTA)):
        with pytest.raises(InvalidInput) as refused:
            best_guarantee(thing, DELTA)
        assert str(refused.value).startswith("description: expected one of pabi's NoisySGD"), thing
