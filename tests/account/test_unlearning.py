"""Forgetting against exact values, and against published ones."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import ndtr

import pabi
from pabi.account.analyses import secret_order
from pabi.numbers.errors import NotApplicable
from support.every_case import every
from support.pairs import pairs

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

# n, size, epochs, epochs after the request, records, l2, step size, noise, μ; computed elsewhere, for
# logistic losses of rows of norm 1 and records that are zeroed.
VALUES = """
4018 574 22 1 2 0.0011154945208183902 1.4725339193959954 0.012378930845651503 0.49317951961488793
1858 929 19 6 2 0.09025675905983963 0.949618857720397 0.003612392342097112 0.48537696816305814
3901 3901 11 1 3 0.039351602072822574 0.37609766121338123 0.0020218858530778603 1.1969781030369462
936 312 23 6 1 0.015596433801199383 0.9355480872701076 0.008522423930848379 0.7576394434474018
4760 595 12 7 3 0.04614797734159716 1.367928876155226 0.011865274644620689 0.009467734299467259
2933 419 25 3 2 0.004180615473174405 0.8314048884467666 0.011075140286176424 0.7382878597761512
976 122 12 1 1 0.008138885886990885 1.2376845125157834 0.01509095564529159 0.6111259499505345
3153 1051 12 7 1 0.02433411988679213 1.3902912081207466 0.017955989071168466 0.048589913745160834
"""


@every("value", VALUES.strip().splitlines())
def test_values_that_were_computed_elsewhere(value):
    n, size, epochs, later, records = map(int, value.split()[:5])
    l2, eta, noise, mu = map(float, value.split()[5:])
    given = {"epochs": epochs, "step_size": eta, "noise_std": noise, "adjacency": "zero_out"}
    batches = pabi.FullBatch() if n == size else pabi.Cyclic(size)
    run = pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=l2), n, batches, **given)
    assert run.unlearning(1e-5, epochs=later, records=records).mu == pytest.approx(mu, rel=1e-9)


def setting_of_the_paper(adjacency="replace_one"):
    """η = 1/L, L = ¼ + λ, λ = 1e-6·n: 1000 epochs of full batches, σ = 0.03."""
    lam, n = 0.011264, 11264
    eta = 1.0 / (0.25 + lam)
    loss, sensitivity = pabi.Loss.logistic(1.0, l2=lam), None
    if adjacency == "replace_one":
        loss, sensitivity = pabi.Loss.strongly_convex(lam, 0.25 + lam), 2.0
    given = {"step_size": eta, "noise_std": math.sqrt(2.0 * eta) * 0.03 / eta}
    given |= {"gradient_sensitivity": sensitivity, "adjacency": adjacency, "epochs": 1000}
    return pabi.NoisySGD(loss, n, pabi.FullBatch(), **given)


@pytest.mark.parametrize(
    ("epochs", "mu", "epsilon", "zeroed"),
    [
        (1, 0.0527834822562211, 0.13605453523120467, 0.062),
        (5, 0.044252701291290615, 0.11140807088077719, 0.050),
        (20, 0.022847902715679942, 0.0522900041995962, 0.023),
    ],
)
def test_the_setting_of_the_paper(epochs, mu, epsilon, zeroed):
    run = setting_of_the_paper()
    guarantee = run.unlearning(1.0 / run.n, epochs=epochs)
    assert guarantee.mu == pytest.approx(mu, rel=1e-9)
    assert guarantee.epsilon(1.0 / run.n) == pytest.approx(epsilon, rel=1e-9)
    other = setting_of_the_paper("zero_out").unlearning(1.0 / run.n, epochs=epochs)
    assert other.epsilon(1.0 / run.n) == pytest.approx(zeroed, abs=1e-3)


def forgetful(batches, n, noise, **changes):
    """Steps of slope 0: only the last one counts, in which every record moves the model by 1."""
    settings = {"n": n, "batches": batches, "epochs": 1, "step_size": 1.0, "noise_std": noise}
    settings |= {"adjacency": "zero_out"} | changes
    return pabi.NoisySGD(
        pabi.Loss.convex(1e-12, gradient_bound=float(batches.batch_size(n))).with_l2(1.0),
        **settings,
    )


def test_two_records_are_more_than_one_that_pulls_twice():
    """Twenty bins, two records, s/σ = 4: none, one or both are in the last. The advantage is 0.0931, where
    one record at a random place with twice the pull would have 0.0500."""
    run = forgetful(pabi.BallsInBins(50, cap=1000), 1000, 0.25)
    p = 1.0 / 20.0
    t = np.linspace(0.0, 8.0, 800_001)
    apart = 2 * p * (1 - p) * (ndtr(4 - t) - ndtr(-t)) + p * p * (ndtr(8 - t) - ndtr(-t))
    truth, mistaken = float(apart.max()), p * (2 * ndtr(4.0) - 1)
    assert truth == pytest.approx(0.0931, abs=5e-5)
    assert mistaken == pytest.approx(0.0500, abs=5e-5)
    assert truth <= run.unlearning(1e-3, steps=0, records=2).delta(0.0) <= 1.1 * truth


def test_a_stated_probability_counts_and_not_the_divisor():
    """One step in which each of two records is with probability 0.4, of ten with sums divided by one: a
    binomial mixture of shifts by s/σ, where 1/10 would have less than a third of the advantage."""
    given = {"steps": 1, "step_size": 1.0, "noise_std": 0.25, "adjacency": "zero_out"}
    run = pabi.NoisySGD(
        pabi.Loss.convex(1e-9, gradient_bound=1.0), 10, pabi.Poisson(1, probability=0.4), **given
    )

    def advantage(p):
        t = np.linspace(0.0, 8.0, 800_001)
        one, two = (ndtr(shift - t) - ndtr(-t) for shift in (4.0, 8.0))
        return float((2 * p * (1 - p) * one + p * p * two).max())

    guarantee = run.unlearning(1e-3, steps=0, records=2)
    assert 3.0 * advantage(0.1) < advantage(0.4) <= guarantee.delta(0.0)


@pytest.mark.parametrize("batches", [pabi.Cyclic(10), pabi.ShuffleOnce(10), pabi.Poisson(10)])
def test_users_are_forgotten_as_records_are(batches):
    """A user contributes a mean of what records contribute: Theorem 27, with the same numbers."""
    run = run_with(batches)
    of_users = replace(run, unit="user").unlearning(1e-4, epochs=1, records=3)
    of_records = run.unlearning(1e-4, epochs=1, records=3)
    assert (of_users.unit, of_records.unit) == ("user", "record")
    assert of_users.epsilon(1e-4) == of_records.epsilon(1e-4)


def test_given_a_model_only_a_diameter_helps():
    """From a distance D, five steps of slope c: D·c⁵ over the noise of all five, exactly."""
    given = {"epochs": 2, "step_size": 0.5, "noise_std": 0.6, "diameter": 3.0}
    given |= {"adjacency": "zero_out"}
    run = pabi.NoisySGD(
        pabi.Loss.convex(1.0, gradient_bound=1.0).with_l2(0.2), 100, pabi.Cyclic(10), **given
    )
    powers = 0.9 ** np.arange(4.0, -1.0, -1.0)
    exact = 3.0 * 0.9**5 / (0.3 * math.sqrt(float(np.sum(powers**2))))
    assert run.unlearning(1e-3, steps=5, published=True).mu == pytest.approx(exact, rel=1e-10)
    more = run.unlearning(1e-3, steps=5, records=50, published=True)
    assert more.mu == pytest.approx(exact, rel=1e-10)
    with pytest.raises(NotApplicable, match="only a diameter"):
        replace(run, diameter=None).unlearning(1e-3, steps=5, published=True)
    with pytest.raises(NotApplicable, match="secret order"):
        replace(run, batches=pabi.ShuffleOnce(10)).unlearning(1e-3, steps=5, published=True)
    with pytest.raises(NotApplicable, match="no step follows"):
        run.unlearning(1e-3, steps=0, published=True)


def test_no_step_after_the_request_is_the_guarantee_of_the_training():
    """A model and all that is made of it later say as much of one record as the model does. Payments in
    advance are made for a record that stays."""
    given = {"epochs": 3, "step_size": 0.5, "noise_std": 0.3, "adjacency": "zero_out"}
    run = pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=0.05), 100, pabi.ShuffleOnce(10), **given)
    forgetting, training = run.unlearning(1e-4, steps=0), secret_order.apply(run, 1e-4)
    assert forgetting.epsilon(1e-4) == pytest.approx(training.epsilon(1e-4), rel=1e-9)


SCHEMES = [
    *(pabi.FullBatch(), pabi.Cyclic(10), pabi.ShuffleOnce(10), pabi.Reshuffle(10)),
    *(pabi.BallsInBins(10), pabi.FixedSize(10), pabi.Poisson(10)),
]


def run_with(batches, **changes):
    settings = {"n": 103, "batches": batches, "epochs": 4, "step_size": 0.5, "noise_std": 0.3}
    settings |= {"adjacency": "zero_out"} | changes
    loss = settings.pop("loss", pabi.Loss.logistic(1.0, l2=0.05))
    return pabi.NoisySGD(loss, **settings)


@pytest.mark.parametrize("batches", [pabi.FixedSize(6), pabi.Poisson(6)], ids=lambda b: b.kind)
def test_more_steps_after_a_short_run_never_cost_more(batches):
    """Steps after the request see none of the records, so they may only hide more."""
    given = {"epochs": 3, "step_size": 0.02, "noise_std": 0.9, "adjacency": "zero_out"}
    run = pabi.NoisySGD(pabi.Loss.logistic(feature_norm=0.17), 15, batches, **given)
    steps = (0, 4, 8, 11, 14, 17, 24)
    found = [run.unlearning(1e-7, steps=k, records=2).epsilon(1e-7) for k in steps]
    assert all(more <= less * (1.0 + 2e-3) for less, more in pairwise(found))
    assert found[-1] < 0.9 * found[0]


CHANGES = {
    "prox": {"prox": pabi.prox.ball(2.0)},
    "falling": {"step_size": lambda k: 0.5 / (1 + k / 10)},
    "rising": {"step_size": lambda k: 0.1 + 0.001 * k},
    "expanding": {"loss": pabi.Loss.nonconvex(1.0, gradient_bound=1.0)},
    "nonsmooth": {"loss": pabi.Loss.lipschitz(1.0, l2=0.1)},
    "residual": {"clip_norm": 0.5, "clipping": "residual"},
    "cooldown": {"cooldown_steps": 3},
    "other": {"update": "other"},
}


@pytest.mark.parametrize(("batches", "changes"), pairs(SCHEMES, list(CHANGES)))
def test_every_run_forgets_at_most_what_its_uses_cost(batches, changes):
    """No steps after a request undo that the records never paid more than composition says; none at all, or
    more records, cost no less."""
    run = run_with(batches, **CHANGES[changes])
    guarantee = run.unlearning(1e-4, steps=15, records=2)
    epsilon = guarantee.epsilon(1e-4)
    assert guarantee.adjacency == "retrained"
    assert epsilon <= guarantee.composition.epsilon(1e-4)
    rounding = 1.0 - 1e-3  # of compositions of random batches
    assert run.unlearning(1e-4, steps=0, records=2).epsilon(1e-4) >= epsilon * rounding
    assert run.unlearning(1e-4, steps=15, records=3).epsilon(1e-4) >= epsilon * rounding


def test_one_request_after_another_costs_less_than_one_at_the_end():
    """The earlier records are hidden longer; and more than the later ones alone."""
    run = run_with(pabi.Cyclic(10))
    both = run.unlearning(1e-4, requests=[(1, 1), (1, 1)]).mu
    at_once = run.unlearning(1e-4, epochs=1, records=2).mu
    assert both < replace(run, epochs=5).unlearning(1e-4, epochs=1, records=2).mu
    assert both < at_once
    assert both > replace(run, epochs=5).unlearning(1e-4, epochs=1).mu
