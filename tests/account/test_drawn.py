"""The law of the distance that drawn batches leave."""

import pytest

import pabi
from pabi.account.facts.sampled import SampledRun
from pabi.account.shifts.random import drawn_distance
from support.every_case import every

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
DELTA = 1e-5


def a_run(batches, **changes):
    loss = pabi.Loss.convex(1.0, gradient_bound=1.0, glm=True, l2=1.0)
    given = {"n": 20, "steps": 12, "step_size": 0.3, "noise_std": 0.5, "clip_norm": 1.0}
    return pabi.NoisySGD(batches=batches, **({"loss": loss} | given | changes))


def test_rare_draws_leave_a_small_distance():
    """Of 5 000 batches the last hundred or so count, and 1 % of them hold the record."""
    run = a_run(pabi.Poisson(2), n=200, steps=5_000, step_size=0.01)
    law = drawn_distance(SampledRun(run, DELTA), 5_000)
    share = float(law.values @ law.weights) / law.values[-1]
    assert 0.01 <= share <= 0.025


def test_what_lies_further_back_than_is_looked_at_counts_in_full():
    """Without contraction one block is enough; with very little of it there would be too many."""
    view = SampledRun(a_run(pabi.Poisson(2, cap=2), step_size=lambda k: 0.003, steps=3_000), DELTA)
    blocks = view.before(2_500)
    assert blocks.steps < 2_500
    law = drawn_distance(view, 2_500)
    rest = view.distance(2_500 - blocks.steps, view.factor.change) * blocks.contraction
    assert law.values[0] > rest


@every("batches", [pabi.FixedSize(20), pabi.Poisson(20)])
def test_batches_that_hold_everybody_leave_the_largest_distance(batches):
    view = SampledRun(a_run(batches), DELTA)
    law = drawn_distance(view, 11)
    assert law is None or law.values[0] >= law.values[-1] * (1.0 - 1e-6) or law.weights[-1] > 0.99


def test_nothing_was_drawn_before_the_first_step():
    assert drawn_distance(SampledRun(a_run(pabi.Poisson(4)), DELTA), 0) is None
