"""The law of the distance that drawn batches leave, against all sequences of draws."""

import itertools

import numpy as np
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


RUNS = {
    "poisson": a_run(pabi.Poisson(4), adjacency="zero_out"),
    "replaced": a_run(pabi.Poisson(2)),
    "fixed size": a_run(pabi.FixedSize(1)),
    "fixed size, zeroed": a_run(pabi.FixedSize(4), adjacency="zero_out"),
    "no regulariser": a_run(pabi.Poisson(2), loss=pabi.Loss.convex(1.0, gradient_bound=1.0)),
    "expanding": a_run(pabi.Poisson(2), loss=pabi.Loss.nonconvex(1.0, gradient_bound=1.0)),
    "falling": a_run(pabi.Poisson(2), step_size=lambda k: 0.3 / (k + 1.0)),
    "cool-down": a_run(pabi.Poisson(2), steps=None, epochs=0.9, cooldown_steps=3),
}


def slopes_and_pulls(view, steps):
    """c and the change of each of the first steps, one by one."""
    blocks = view.window(view.run.steps)
    c, s = (np.repeat(x, blocks.length) for x in (blocks.c, blocks.s))
    return c[:steps], view.factor.change * s[:steps]


@every("name", RUNS)
@every("steps", [1, 5, 11])
def test_no_tail_is_below_that_of_all_draws(name, steps):
    view = SampledRun(RUNS[name], DELTA)
    law = drawn_distance(view, steps)
    c, added = slopes_and_pulls(view, steps)
    p = view.probability
    values, chances = [], []
    for drawn in itertools.product((0, 1), repeat=steps):
        z = 0.0
        for slope, change, v in zip(c, added, drawn, strict=True):
            z = slope * z + change * v
        values.append(z)
        chances.append(p ** sum(drawn) * (1.0 - p) ** (steps - sum(drawn)))
    values, chances = np.array(values), np.array(chances)
    assert law.values[-1] >= values.max()
    assert np.all(np.diff(law.values) > 0.0)
    assert np.all(law.weights >= 0.0)
    assert law.weights.sum() == pytest.approx(1.0, abs=1e-12)
    # Between two of its values the law's tail is constant, and the exact one largest at the lower.
    for value, tail in zip(law.values, 1.0 - np.cumsum(law.weights), strict=True):
        assert chances[values > value * (1.0 + 1e-12)].sum() <= tail + 1e-12


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
    assert drawn_distance(SampledRun(RUNS["poisson"], DELTA), 0) is None
