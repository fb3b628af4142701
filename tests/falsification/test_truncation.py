"""A Poisson batch above the cap may be replaced by an empty one, never be cut."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pabi import Loss, Poisson
from support.falsification.claims import sampled_delta, sampled_delta_back
from support.falsification.random_batches import ZERO, Constant, Instance, hockey_stick

EPSILONS = np.array([0.0, 0.01, 0.2, 1.0])


def one_step(cap: int, pull: float, mu: float) -> Instance:
    """One record in fifty is expected; the others pull by `pull`, the record in question by 1."""
    others, loss = ((Constant(pull), 49),), Loss.convex(1.0, gradient_bound=1.0)
    return Instance(others, Constant(1.0), ZERO, Poisson(1, cap=cap), (1.0,), (1.0 / mu,), loss)


def test_a_batch_cut_to_the_cap_costs_more_than_is_claimed():
    """It is seen to be there from the others not being there: δ(0.2) = 2.27e-4 instead of 1.29e-4."""
    one = one_step(1, -1.0, 1.0)
    truth, error = hockey_stick(one, [0.2], ("truncate", "truncate"))
    claim = sampled_delta(1.0, 0.02, 0.2)
    assert truth.max() == pytest.approx(2.268e-4, rel=1e-3)
    assert claim == pytest.approx(1.292e-4, rel=1e-3)
    assert error <= 1e-7
    said = one.run.guarantee(1e-5).delta(0.2)
    assert said == pytest.approx(claim, rel=0.05)
    assert truth.max() - error > said
    assert 0.0 < hockey_stick(one, [0.2])[0].max() <= said


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_empty_batches_never_cost_more_than_is_claimed(mu):
    """Whichever way the others pull, and at every ε; rounding of 1e-14 is allowed for."""
    for cap, pull in itertools.product((1, 2, 3, 50), (-1.0, -0.4, 0.0, 0.3, 1.0)):
        one = one_step(cap, pull, mu)
        truth, _ = hockey_stick(one, EPSILONS)
        back = sampled_delta_back(mu, 0.02, EPSILONS)
        claim = np.maximum(sampled_delta(mu, 0.02, EPSILONS), back)
        assert np.all(truth.max(axis=0) <= claim + 1e-14), (cap, pull)
