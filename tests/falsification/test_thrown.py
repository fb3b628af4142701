"""Secret batches of clipped, nonconvex and walled-in training on a line, against exact laws."""

from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import Loss, Reshuffle
from support.daily import of_today
from support.falsification import secret_orders
from support.falsification.claims import EPSILONS, guarantees
from support.falsification.random_batches import Constant, Line
from support.falsification.secret_orders import Quadratics
from support.falsification.thrown import Thrown, random_thrown, reshuffled_average
from support.falsification.walks import violated

ADJACENCIES = ["zero_out", "replace_one"]

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


# The truth.


@pytest.mark.parametrize("cap", [None, 2])
def test_quadratics_have_their_closed_form(cap):
    """Two kinds of others, five steps and a cool-down, mixtures of different variances."""
    eta, noise = (0.4, 0.7, 0.3, 0.5, 0.6, 0.2), (0.5, 0.4, 0.8, 0.6, 0.3, 0.7)
    found = Thrown(
        ((Line(0.8, 2.0), 2), (Constant(-0.7), 1)),
        Line(0.5, -1.0),
        Line(0.5, 3.0),
        2,
        cap,
        eta,
        noise,
        Loss.convex(1.0, gradient_bound=1e3).with_l2(0.3),
        start=0.4,
        cooldown=1,
    )
    same = Quadratics(
        np.array([0.5, 0.8, 0.8, 0.0]),
        np.array([-0.5, 1.6, 1.6, 0.7]),
        1.5,
        2,
        np.array(eta),
        np.array(noise),
        (0.0, 1.0),
        l2=0.3,
        cooldown=1,
        start=0.4,
    )
    both, error = found.average.delta(EPSILONS)
    truth = same.truth(secret_orders.thrown(4, 2, 5, cap), EPSILONS)
    assert error <= 1e-7
    assert both.max(axis=0) == pytest.approx(truth, abs=error + 1e-9)
    alike = replace(found, base=((Constant(0.0), 3),))
    still = replace(same, curvature=np.array([0.5, 0, 0, 0]), pull=np.array([-0.5, 0, 0, 0]))
    both, error = reshuffled_average(replace(alike, cap=None)).delta(EPSILONS)
    truth = still.truth(secret_orders.reshuffled(4, 2, 5), EPSILONS)
    assert both.max(axis=0) == pytest.approx(truth, abs=error + 1e-9)


# The average as it is stated.


def test_half_of_the_bound_is_caught():
    """Some instance shows it."""
    rng = np.random.default_rng(3)

    def caught():
        found = random_thrown(rng, "replace_one", False)
        facts = dict(found.loss.parameters)
        bound = found.clip if found.clip is not None else facts["gradient_bound"]
        facts["gradient_bound"] = bound / 2
        less = replace(found.loss, parameters=tuple(facts.items()))
        told = replace(found, loss=less, clip=None)
        claim = told.run(pabi.BallsInBins(told.size, told.cap)).guarantee(1e-3)
        return violated(found.average, {"": claim}, EPSILONS)

    assert any(caught() for _ in range(40)), "no instance shows it"


# What the library says.


@pytest.mark.parametrize("count", [6, pytest.param(250, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_bins_are_never_safer_than_guaranteed(adjacency, count):
    for walls in [False, True]:
        rng = np.random.default_rng([count, walls, len(adjacency), 1])
        for _ in range(count):
            found = random_thrown(rng, adjacency, walls)
            run = found.run(pabi.BallsInBins(found.size, found.cap))
            claims = guarantees(run, float(10 ** rng.uniform(-5, -1)))
            violations = violated(found.average, claims, EPSILONS)
            assert not violations, (violations, found)


@pytest.mark.parametrize("count", [6, pytest.param(80, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_permutations_are_never_safer_than_guaranteed(adjacency, count):
    """Fresh ones every epoch, of records that all but one are alike."""
    today = of_today("permutations") if count > 6 else 0
    rng = np.random.default_rng([count, len(adjacency), 2, today])
    for _ in range(count):
        found = random_thrown(rng, adjacency, bool(rng.random() < 0.5), kinds=1)
        found = replace(found, cap=None)
        claims = guarantees(found.run(Reshuffle(found.size)), float(10 ** rng.uniform(-5, -1)))
        violations = violated(reshuffled_average(found), claims, EPSILONS)
        assert not violations, (violations, found)
