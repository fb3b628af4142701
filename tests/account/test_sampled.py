"""Runs with random batches step by step, against steps written out and rational arithmetic."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import FixedSize, Loss, NoisySGD, Poisson
from pabi.account.facts.sampled import Blocks, SampledRun
from pabi.account.shifts.random import drawn_distance
from support.every_case import every

ULP = Fraction(1, 2**52)
TINY = Fraction(1, 2**1070)  # a few of the least doubles
DELTA = 1e-5
SCHEMES = {"fixed": FixedSize(3), "poisson": Poisson(3, cap=5)}
LOSSES = {
    "shrinks": Loss.strongly_convex(0.5, 2.0, l2=0.25, gradient_bound=1.5),
    "expands": Loss.weakly_convex(0.5, 1.0, gradient_bound=1.5),
    "overshoots": Loss.convex(8.0, gradient_bound=1.5),
    "keeps": Loss.convex(1.0, gradient_bound=1.5),
    "forgets": Loss.strongly_convex(4.0, 4.0, gradient_bound=1.5),  # slope 0 with full batches
}


def run_of(batches, loss="shrinks", adjacency="replace_one", **changes):
    given = {"n": 8, "steps": 30, "cooldown_steps": 4, "step_size": 0.25, "noise_std": 0.7}
    return NoisySGD(LOSSES[loss], batches=batches, adjacency=adjacency, **(given | changes))


def written_out(run):
    """[(exact slope, s, σ, ρ)] of every step, the slope that of the worst batch there may be."""
    size, loss = run.batch_size, run.loss
    counts = [size] if isinstance(run.batches, FixedSize) else range(run.batches.cap + 1)
    lo, hi = map(Fraction, loss.curvature)
    own = Fraction(loss.gradient_bound)
    # One record's gradient where it comes on top of others; two of them where one displaces another.
    norm = 2 * own if isinstance(run.batches, FixedSize) else own
    steep = max(abs(lo), abs(hi)) if run.adjacency == "zero_out" else hi - lo
    found = []
    for k in range(run.steps):
        eta = Fraction(float(np.broadcast_to(run.step_size, run.steps)[k]))
        noise = Fraction(float(np.broadcast_to(run.noise_std, run.steps)[k]))
        data = k < run.data_steps
        slope = max(
            abs(1 - eta * (Fraction(loss.l2) + Fraction(count, size) * h))
            for count in (counts if data else [0])
            for h in (lo, hi)
        )
        s, rho = (eta * norm / size, eta * steep / size) if data else (Fraction(0), Fraction(0))
        found.append((slope, s, eta * noise, rho))
    return found


BOTH = list(itertools.product(SCHEMES, ["replace_one", "zero_out"]))
EACH = list(itertools.product(SCHEMES, LOSSES, ["replace_one", "zero_out"]))


def assert_steps(blocks, exact):
    """Equal to these steps one by one; slopes, pulls and steepnesses not below, noises not above."""
    columns = [np.repeat(x, blocks.length) for x in (blocks.c, blocks.s, blocks.sigma, blocks.rho)]
    assert blocks.steps == len(columns[0]) == len(exact)
    for c, s, sigma, rho, (slope, pull, noise, steep) in zip(*columns, exact, strict=True):
        assert slope <= Fraction(float(c)) <= slope + 8 * ULP
        assert pull <= Fraction(float(s)) <= pull * (1 + 4 * ULP)
        assert noise * (1 - 4 * ULP) <= Fraction(float(sigma)) <= noise
        assert steep <= Fraction(float(rho)) <= steep * (1 + 8 * ULP) + TINY


@every("scheme, loss, adjacency", EACH)
def test_windows_are_the_last_steps(scheme, loss, adjacency):
    run = run_of(SCHEMES[scheme], loss, adjacency)
    exact = written_out(run)
    view = SampledRun(run, DELTA)
    assert view.most == 30
    for steps, pieces in itertools.product((1, 3, 4, 5, 17, 30), (1, 4)):
        window = view.window(steps, pieces)
        assert_steps(window, exact[30 - steps :])
        if loss != "forgets":  # all but the last of such steps are forgotten, however they are cut
            assert len(window.length) >= min(pieces, max(0, steps - 4))
    columns, rho = view.columns(2, 9), np.full(7, view.constants[4])
    assert_steps(Blocks(np.ones(7, dtype=np.int64), *columns, rho), exact[2:9])


@every("scheme, adjacency", BOTH)
def test_schedules_that_vary_are_kept_step_by_step(scheme, adjacency):
    rng = np.random.default_rng(3)
    sizes, noises = rng.uniform(0.05, 0.3, 30), rng.uniform(0.5, 1.0, 30)
    given = {"step_size": sizes, "noise_std": noises}
    run = run_of(SCHEMES[scheme], "overshoots", adjacency, **given)
    exact, view = written_out(run), SampledRun(run, DELTA)
    for steps in (1, 4, 9, 30):
        assert_steps(view.window(steps, 3), exact[30 - steps :])
    c, s, sigma = view.columns(2, 9)
    assert len(c) == len(s) == len(sigma) == 7
    assert c.tolist() == view.window(28).c[:7].tolist()


def furthest(run, view, steps, pull):
    """The recursion z ↦ min(D, cz + pull·s) in rational arithmetic."""
    z = Fraction(0)
    for slope, s, *_ in written_out(run)[:steps]:
        z = slope * z + Fraction(pull) * s
        if math.isfinite(run.range_diameter):
            z = min(z, Fraction(run.range_diameter))
    return z


@pytest.mark.parametrize("written", [False, True])
@every("scheme, loss, adjacency", EACH)
def test_distances_are_never_below_the_recursion(scheme, loss, adjacency, written):
    changes = {"step_size": np.full(30, 0.25)} if written else {}
    run = run_of(SCHEMES[scheme], loss, adjacency, **changes)
    view = SampledRun(run, DELTA)
    for steps, pull in itertools.product((0, 1, 2, 25, 26, 27, 30), (1.0, 2.0)):
        exact = furthest(run, view, steps, pull)
        found = Fraction(view.distance(steps, pull))
        assert exact <= found <= exact * (1 + Fraction(1, 10**10)) + Fraction(1, 10**300)


@every("written", [False, True])
def test_no_distance_is_beyond_the_diameter(written):
    changes = {"step_size": np.full(30, 0.25)} if written else {}
    run = run_of(FixedSize(3), "keeps", diameter=0.5, **changes)
    view = SampledRun(run, DELTA)
    assert view.distance(1) == pytest.approx(0.25, rel=1e-9)
    assert view.distance(2) == view.distance(30) == 0.5


@every("scheme, adjacency", BOTH)
def test_what_a_record_adds_and_how_far_steps_are_apart(scheme, adjacency):
    """By all pairs of adjacent batches of gradients ±C: with and without the record, and with another in
    its place."""
    run = run_of(SCHEMES[scheme], adjacency=adjacency)
    view, bound = SampledRun(run, DELTA), run.loss.gradient_bound
    one = [-bound, bound]
    others = [-bound, bound] if adjacency == "replace_one" else [0.0]
    apart = max(abs(a - b) for a in one for b in others)  # the record is in both batches
    if scheme == "fixed":  # where it is not drawn another one is
        top = max(abs(a - b) for a in [*one, *others] for b in [-bound, bound])
    else:
        top = max(abs(a) for a in [*one, *others])
    assert view.record_norm == top
    assert view.factor.change * view.record_norm == apart
    assert view.single == (adjacency == "zero_out" and scheme == "poisson")


@every("n, size", [(8, 3), (7, 7), (10, 1), (3, 1)])
@every("scheme", [FixedSize, Poisson])
def test_the_probability_is_that_of_being_drawn(scheme, n, size):
    found = Fraction(SampledRun(run_of(scheme(size), n=n), DELTA).probability)
    assert Fraction(size, n) <= found <= min(1, Fraction(size, n) * (1 + ULP))


slope = st.one_of(st.floats(0.5, 1.5), st.sampled_from([1.0, 0.999999, 1.000001]))
block = st.tuples(st.integers(1, 20), slope, st.floats(0.1, 2.0))


def blocks_of(rows):
    length, c, sigma = (np.array(x) for x in zip(*rows, strict=True))
    zeros = np.zeros(len(rows))
    return Blocks(length.astype(np.int64), c, zeros, sigma, zeros)


@settings(deadline=None)
@given(st.lists(block, min_size=1, max_size=6))
def test_products_and_weights_of_blocks(rows):
    """The contraction not below Πc, the room not above Σσ²W², both to ten digits; in rationals."""
    blocks = blocks_of(rows)
    steps = [(Fraction(c), Fraction(sigma)) for n, c, sigma in rows for _ in range(n)]
    product, weights = Fraction(1), []
    for c, sigma in reversed(steps):
        weights.append((sigma * product) ** 2)
        product *= c
    weights.reverse()
    assert product <= Fraction(blocks.contraction) <= product * (1 + Fraction(1, 10**10))
    ends = np.cumsum([0, *[n for n, *_ in rows]])
    for i, room in enumerate(blocks.room):
        exact = sum(weights[ends[i] : ends[i + 1]])
        assert exact * (1 - Fraction(1, 10**10)) <= Fraction(float(room)) <= exact
    later = Fraction(1)
    for (n, c, _), log in zip(reversed(rows), reversed(blocks.later.tolist()), strict=True):
        assert math.exp(log) == pytest.approx(float(later), rel=1e-12)
        later *= Fraction(c) ** n


def test_a_slope_of_zero_forgets_all_before():
    blocks = blocks_of([(2, 0.5, 1.0), (3, 0.0, 1.0), (2, 0.5, 1.0)])
    assert blocks.contraction == 0.0
    # Of the steps with slope 0 only the last one's noise is left, times 0.5².
    assert blocks.room == pytest.approx([0.0, 0.25**2, 1.25], rel=1e-10)


# The law of the distance that drawn batches leave.


def drawn_run(batches, **changes):
    loss = Loss.convex(1.0, gradient_bound=1.0, glm=True, l2=1.0)
    given = {"n": 20, "steps": 12, "step_size": 0.3, "noise_std": 0.5, "clip_norm": 1.0}
    return NoisySGD(batches=batches, **({"loss": loss} | given | changes))


def test_rare_draws_leave_a_small_distance():
    """Of 5 000 batches the last hundred or so count, and 1 % of them hold the record."""
    run = drawn_run(Poisson(2), n=200, steps=5_000, step_size=0.01)
    law = drawn_distance(SampledRun(run, DELTA), 5_000)
    share = float(law.values @ law.weights) / law.values[-1]
    assert 0.01 <= share <= 0.025


def test_what_lies_further_back_than_is_looked_at_counts_in_full():
    """Without contraction one block is enough; with very little of it there would be too many."""
    view = SampledRun(drawn_run(Poisson(2, cap=2), step_size=lambda k: 0.003, steps=3_000), DELTA)
    blocks = view.before(2_500)
    assert blocks.steps < 2_500
    law = drawn_distance(view, 2_500)
    rest = view.distance(2_500 - blocks.steps, view.factor.change) * blocks.contraction
    assert law.values[0] > rest


@every("batches", [FixedSize(20), Poisson(20)])
def test_batches_that_hold_everybody_leave_the_largest_distance(batches):
    view = SampledRun(drawn_run(batches), DELTA)
    law = drawn_distance(view, 11)
    assert law is None or law.values[0] >= law.values[-1] * (1.0 - 1e-6) or law.weights[-1] > 0.99


def test_nothing_was_drawn_before_the_first_step():
    assert drawn_distance(SampledRun(drawn_run(Poisson(4)), DELTA), 0) is None
