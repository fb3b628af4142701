"""Random runs that forget, on quadratics, against what is proven of them from the outside."""

import math

import numpy as np
import pytest

import pabi
from support.daily import of_today
from support.falsification.forgetting import KINDS, SECRET, random_forgetting, random_secret
from support.falsification.mixtures import hockey_sticks
from support.falsification.quadratic_runs import ROUNDING

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0])


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_known_orders_are_never_less_forgotten_than_proven(kind, count):
    for order in ["full", "cyclic"]:
        rng = np.random.default_rng([count, *kind.encode(), *order.encode()])
        for _ in range(count):
            case = random_forgetting(rng, kind, order)
            claimed, truth = case.unlearning.guarantee(1e-4).mu, case.mu()
            assert claimed >= truth * ROUNDING, (claimed, truth, case)


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", ["convex", "weakly convex", "nonconvex"])
def test_users_are_never_less_forgotten_than_proven(kind, count):
    """Some have no records, and contribute nothing that contracts or expands."""
    for order in ["full", "cyclic"]:
        rng = np.random.default_rng([count, *kind.encode(), *order.encode(), *b"users"])
        for _ in range(count):
            case = random_forgetting(rng, kind, order, "user")
            guarantee, truth = case.unlearning.guarantee(1e-4), case.mu()
            assert guarantee.unit == "user", order
            assert guarantee.mu >= truth * ROUNDING, (guarantee.mu, truth, case)


@pytest.mark.parametrize("count", [6, pytest.param(12, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("order", SECRET)
def test_secret_orders_are_never_less_forgotten_than_proven(order, count):
    today = of_today("forgetting") if count > 6 else 0
    rng = np.random.default_rng([count, *order.encode(), today])
    for _ in range(count):
        case, weights, members = random_secret(rng, order)
        guarantee = case.unlearning.guarantee(float(10 ** rng.uniform(-6, -1)))
        if (
            guarantee.method == "unlearning, composition"
            and order == "fixed size"
            and case.curvature.any()
        ):
            continue  # others' gradients exceed the bound, which counts where one is displaced
        truth = hockey_sticks(*case.mixtures(weights, members), EPSILONS).max(axis=0)
        for epsilon, true in zip(EPSILONS.tolist(), truth.tolist(), strict=True):
            # Differences of normal probabilities, each rounded to 1e-16, for a few dozen intervals.
            assert guarantee.delta(epsilon) >= true - 1e-13 * math.exp(epsilon), (epsilon, case)


def test_the_truth_is_met_where_it_can_be():
    """One record, full batches, all curvatures at the end that contracts least: nothing smaller is true."""
    rng = np.random.default_rng(5)
    met = 0
    for _ in range(200):
        case = random_forgetting(rng, "convex", "full")
        met += math.isclose(case.unlearning.guarantee(1e-4).mu, case.mu(), rel_tol=1e-10)
    assert met >= 20


def test_an_attack_finds_a_bound_with_the_slope_of_full_batches():
    """The same steps with the slope of a batch of which nothing is missing: too small by a quarter."""
    run = pabi.NoisySGD(
        pabi.Loss.strongly_convex(0.02, 1.0),
        n=2,
        batches=pabi.FullBatch(),
        steps=1,
        step_size=1.0,
        noise_std=1.0 / 3.0,
        gradient_sensitivity=2.0,
        adjacency="zero_out",
    )
    wrong = pabi.NoisyIteration(
        np.full(51, 0.98), np.append(1.0, np.zeros(50)), np.full(51, 1.0 / 3.0)
    )
    truth = 3.0 * 0.99**50 * math.sqrt((1.0 - 0.99**2) / (1.0 - 0.99**102))
    assert wrong.guarantee(1e-5).mu < 0.75 * truth
    assert run.unlearning(0.4, steps=50).mu >= truth
