"""One record's steps and their constants, against runs written out record by record and step by step.

All small runs are gone through: every n and batch size, runs that end within an epoch, and cool-downs.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pabi import BallsInBins, Cyclic, FullBatch, Loss, NoisySGD, Poisson, Reshuffle
from pabi.account.facts.positions import OrderedView, Uses, check_position
from pabi.describe.iteration import Groups, Steps
from support.every_case import every, refused
from support.quadratic_programs import least_payments

ETA, NOISE, CLIP = 0.3, 0.7, 1.5
ULP = Fraction(1, 2**52)

# (n, size, steps with data, steps of cool-down)
SMALL = [
    (n, size, data, cooldown)
    for n, size in itertools.product(range(1, 7), repeat=2)
    if size <= n
    for data in range(1, 2 * -(-n // size) + 3)
    for cooldown in (0, 1, 3)
]
LOSSES = {
    "shrinks by curvature": Loss.strongly_convex(0.5, 2.0, l2=0.25, gradient_bound=CLIP),
    "shrinks by the regulariser": Loss.logistic(CLIP, l2=0.5),
    "keeps distances": Loss.logistic(CLIP),
    "overshoots": Loss.strongly_convex(1.0, 9.0, gradient_bound=CLIP),
    "expands": Loss.weakly_convex(0.5, 1.0, gradient_bound=CLIP),
}


def run_of(n, size, data, cooldown, loss="shrinks by curvature", **changes):
    given = {"steps": data + cooldown, "cooldown_steps": cooldown, "batches": Cyclic(size)}
    given |= {"n": n, "step_size": ETA, "noise_std": NOISE}
    return NoisySGD(LOSSES[loss], **(given | changes))


def written_out(run):
    """[(records of the batch, exact slope, exact sensitivity, exact noise)] of every step."""
    size = run.batch_size
    batches = [list(range(a, min(a + size, run.n))) for a in range(0, run.n, size)]
    eta = np.broadcast_to(run.step_size, run.steps)
    noise = np.broadcast_to(run.noise_std, run.steps)
    found = []
    for k in range(run.steps):
        batch = batches[k % len(batches)] if k < run.data_steps else []
        step = Fraction(float(eta[k]))
        pull = [
            Fraction(run.loss.l2) + Fraction(len(batch), size) * Fraction(h)
            for h in run.loss.curvature
        ]
        slope = max(abs(1 - step * h) for h in pull)
        moved = step * Fraction(run.sensitivity) / size
        found.append((batch, slope, moved, step * Fraction(float(noise[k]))))
    return found


def uses_of(exact, record):
    """The steps whose batch holds the record."""
    return [k for k, (batch, *_) in enumerate(exact) if record in batch]


def assert_safe(exact, schedule, used):
    """Slopes and sensitivities are not below the exact ones, noises not above, all within a few ulps."""
    columns = schedule.columns() if isinstance(schedule, Groups) else schedule
    c, s, sigma = (np.asarray(x) for x in columns)
    assert len(c) == len(s) == len(sigma) == len(exact) == schedule.steps
    for k, (_, slope, moved, noise) in enumerate(exact):
        assert slope <= Fraction(float(c[k])) <= slope + 4 * ULP * max(slope, 1)
        if k in used:
            assert moved <= Fraction(float(s[k])) <= moved * (1 + 4 * ULP)
        else:
            assert s[k] == 0.0
        assert noise * (1 - 4 * ULP) <= Fraction(float(sigma[k])) <= noise


@every("n, size", sorted({(n, size) for n, size, *_ in SMALL}))
def test_every_record_is_used_where_its_batch_is(n, size):
    for data, cooldown in [(d, c) for m, b, d, c in SMALL if (m, b) == (n, size)]:
        run = run_of(n, size, data, cooldown)
        view, exact = OrderedView(run), written_out(run)
        assert view.period == -(-n // size)
        for record in range(n):
            uses = view.uses(record // size)
            assert uses.steps(view.period).tolist() == uses_of(exact, record)
            assert uses.total == len(uses_of(exact, record))


@pytest.mark.parametrize("loss", LOSSES)
@every("n, size", [(1, 1), (3, 3), (4, 2), (5, 2), (5, 3), (4, 1)])
def test_run_length_codes_are_the_steps_written_out(n, size, loss):
    """And the steps of a schedule given as arrays are those of the same numbers given once, or their own."""
    rng = np.random.default_rng(5)
    for data, cooldown in [(d, c) for m, b, d, c in SMALL if (m, b) == (n, size)]:
        run = run_of(n, size, data, cooldown, loss)
        full = np.full(run.steps, 1.0)
        sizes, noises = rng.uniform(0.05, 0.5, (2, run.steps))
        alike = run_of(n, size, data, cooldown, loss, step_size=ETA * full, noise_std=NOISE * full)
        varying = run_of(n, size, data, cooldown, loss, step_size=sizes, noise_std=noises)
        exact, other = written_out(run), written_out(varying)
        for position in range(run.steps_per_epoch):
            used = uses_of(exact, position * size)
            uses = OrderedView(run).uses(position)
            codes, again = OrderedView(run).schedule(uses), OrderedView(run).steps(uses)
            arrays = OrderedView(alike).schedule(OrderedView(alike).uses(position))
            own = OrderedView(varying).schedule(OrderedView(varying).uses(position))
            assert isinstance(codes, Groups)
            assert isinstance(arrays, Steps)
            assert_safe(exact, codes, used)
            assert_safe(exact, arrays, used)
            assert_safe(other, own, used)
            for code, array, column in zip(codes.columns(), arrays, again, strict=True):
                assert np.array_equal(np.asarray(code), array)
                assert np.array_equal(array, column)


@every("loss", ["overshoots", "shrinks by curvature"])
@every("data, cooldown", [(6, 0), (7, 2), (9, 1)])
def test_any_set_of_steps_with_a_periodic_beginning(data, cooldown, loss):
    """Uses one an epoch and then others, as the worst record of a reshuffled run has them."""
    run = run_of(5, 2, data, cooldown, loss)
    view, exact, tried = OrderedView(run), written_out(run), 0
    for first, epochs in itertools.product(range(3), range(3)):
        periodic = [first + 3 * e for e in range(epochs) if first + 3 * e < data]
        begin = periodic[-1] + 1 if periodic else 0
        for count in range(3):
            for then in itertools.combinations(range(begin, data), count):
                uses, used = Uses(first, len(periodic), then), [*periodic, *then]
                assert uses.steps(3).tolist() == used
                assert uses.total == len(used)
                assert_safe(exact, view.schedule(uses), used)
                tried += 1
    assert tried > 50


@pytest.mark.parametrize("loss", LOSSES)
def test_nonexpansive_and_alike_are_said_of_the_steps_that_are_taken(loss):
    """A short last batch that never comes does not count, nor full ones where there are none. A schedule that
    varies is not alike."""
    for n, size, data, cooldown in SMALL:
        for changes in ({}, {"step_size": np.linspace(ETA, 1.9, data + cooldown)}):
            run = run_of(n, size, data, cooldown, loss, **changes)
            slopes = [slope for _, slope, *_ in written_out(run)]
            alike = not changes and len(set(slopes)) == 1 and cooldown == 0
            assert OrderedView(run).nonexpansive == all(slope <= 1 for slope in slopes)
            assert OrderedView(run).homogeneous == alike


def random_run(rng):
    n = int(rng.integers(2, 7))
    size = int(rng.integers(1, n))
    data, cooldown = int(rng.integers(2, 9)), int(rng.integers(0, 3))
    changes = {}
    if rng.random() < 0.6:
        sizes = rng.uniform(0.05, 0.4, data + cooldown)
        changes["step_size"] = np.sort(sizes) if rng.random() < 0.7 else sizes
    return run_of(n, size, data, cooldown, str(rng.choice(list(LOSSES))), **changes)


def test_the_record_used_last_is_the_worst_where_the_view_says_so():
    """By a quadratic program for the record of every position. Where the view does not say so, another
    record can be worse, and sometimes is."""
    rng = np.random.default_rng(8)
    said = others = 0
    for _ in range(300):
        run = random_run(rng)
        view, exact = OrderedView(run), written_out(run)
        c, s, sigma = (np.array([float(step[i]) for step in exact]) for i in (1, 2, 3))
        costs = []
        for position in range(run.steps_per_epoch):
            used = np.isin(np.arange(run.steps), uses_of(exact, position * run.batch_size))
            costs.append(least_payments(c, np.where(used, s, 0.0), sigma)[1])
        last = next(k for k in reversed(range(run.data_steps)))
        assert view.last_position == last % run.steps_per_epoch
        if view.later_is_worse:
            said += 1
            assert max(costs) <= costs[view.last_position] * (1.0 + 1e-8)
        else:
            others += max(costs) > costs[view.last_position] * (1.0 + 1e-3)
    assert said > 100
    assert others > 20


@every("batches", [Poisson(10), BallsInBins(10)])
@every("failing", [1e-3, 1e-8])
def test_all_batches_are_covered_where_that_costs_nothing(batches, failing):
    """With η·M·count/size ≤ 2 for every count the slope is 1 whatever the batch; otherwise counts are
    limited, and a batch beyond the limit is rarer than what may fail."""
    from scipy.stats import binom

    loss = Loss.convex(1.0, gradient_bound=1.0)
    run = NoisySGD(loss, n=100, batches=batches, steps=30, step_size=0.125, noise_std=1.0)
    mild = OrderedView(run, failing).fractions
    assert (mild.failure, mild.cap) == (0.0, 100)
    wild = NoisySGD(loss, n=100, batches=batches, steps=30, step_size=1.0, noise_std=1.0)
    found = OrderedView(wild, failing).fractions
    different = 30 if isinstance(batches, Poisson) else 10
    assert found.full == (0, Fraction(found.cap, 10)) == found.last
    assert 20 < found.cap < 100
    assert different * binom.sf(found.cap, 100, 0.1) <= found.failure <= failing


def test_positions_of_a_known_order_are_taken_and_no_others():
    run = run_of(7, 2, 8, 0)
    assert [check_position(run, np.int64(j)) for j in range(4)] == [0, 1, 2, 3]
    for position in (-1, 4, 1.0, True, "0", None):
        said = refused("position", check_position, run, position)
        assert "0..steps_per_epoch − 1 = 3" in said
    for batches in (Reshuffle(2), BallsInBins(2), Poisson(2)):
        random = run_of(7, 2, 8, 0, batches=batches)
        assert "no known positions" in refused("position", check_position, random, 0)
    full = run_of(4, 4, 3, 0, batches=FullBatch())
    assert check_position(full, 0) == 0
    assert OrderedView(full).uses(0).steps(1).tolist() == [0, 1, 2]
