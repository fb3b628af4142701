"""The proven μ of every record of a run, and which is the worst, against quadratic programs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import pabi
from pabi import BallsInBins, Cyclic, FullBatch, Loss, NoisySGD, Poisson, Reshuffle
from pabi.account.analyses import shifted_interpolation
from pabi.account.facts.positions import OrderedView, Uses, check_position
from pabi.account.shifts.epochs import Record, cyclic, energy_of, record, solve_schedule
from pabi.describe.iteration import Group, Groups, Steps, Stretch
from support.certificates import granted
from support.every_case import every, refused
from support.quadratic_programs import least_payments

QP = 1e-8  # to which programs are solved
ULP = Fraction(1, 2**52)
LOSSES = [
    Loss.strongly_convex(0.5, 2.0, l2=0.25, gradient_bound=1.0),
    Loss.weakly_convex(0.4, 1.0, l2=0.1, gradient_bound=1.0),
    Loss.logistic(1.5, l2=0.5),
    Loss.logistic(1.5),
    Loss.strongly_convex(1.0, 9.0, gradient_bound=1.0),  # overshoots
]


def run_of(n, size, steps, cooldown=0, loss=None, **changes):
    given = {"batches": Cyclic(size), "cooldown_steps": cooldown, "step_size": 0.3}
    given |= {"n": n, "steps": steps, "noise_std": 0.8, **changes}
    loss = Loss.strongly_convex(0.5, 2.0, gradient_bound=1.0) if loss is None else loss
    return NoisySGD(loss, **given)


def least(c, s, sigma, diameter):
    """From together before the first step, or from the largest distance before a later one."""
    w, found = 0.0, []
    for k in range(len(c)):
        if k == 0 or w > 0.0:
            found.append(least_payments(c[k:], s[k:], sigma[k:], w)[1])
        w = min(diameter, c[k] * w + s[k])
    return min(found)


def written_out(run, position):
    """c, s and σ of every step as the record sees them, from the description."""
    sizes = [min(run.batch_size, run.n - a) for a in range(0, run.n, run.batch_size)]
    eta = np.broadcast_to(run.step_size, run.steps)
    noise = np.broadcast_to(run.noise_std, run.steps)
    c, s = np.empty(run.steps), np.zeros(run.steps)
    for k in range(run.steps):
        place = k % len(sizes)
        part = sizes[place] / run.batch_size if k < run.data_steps else 0.0
        c[k] = max(abs(1.0 - eta[k] * (run.loss.l2 + part * h)) for h in run.loss.curvature)
        if k < run.data_steps and place == position:
            s[k] = eta[k] * run.sensitivity / run.batch_size
    return c, s, eta * noise


def random_run(rng):
    n = int(rng.integers(1, 6))
    size = int(rng.integers(1, n + 1))
    steps = int(rng.integers(2, 11))
    changes = {}
    if rng.random() < 0.7:  # schedules that vary are merged epoch by epoch
        changes["step_size"] = rng.uniform(0.1, 0.9, steps)
        changes["noise_std"] = rng.uniform(0.4, 1.5, steps)
    if rng.random() < 0.4:
        changes["diameter"] = float(rng.uniform(0.1, 1.0))
    loss = LOSSES[int(rng.integers(len(LOSSES)))]
    return run_of(n, size, steps, int(rng.integers(0, min(3, steps))), loss, **changes)


@every("seed", range(60))
def test_every_records_bound_is_the_least_there_is(seed):
    run = random_run(np.random.default_rng(seed))
    found = cyclic(OrderedView(run))
    assert len(found) == run.steps_per_epoch
    for position, one in enumerate(found):
        c, s, sigma = written_out(run, position)
        used = np.flatnonzero(s).tolist()
        assert one.uses.steps(run.steps_per_epoch).tolist() == used
        if not used:
            assert one.mu == 0.0
            assert one.shifts is None
        else:
            exact = least(c, s, sigma, run.range_diameter)
            assert one.mu**2 == pytest.approx(exact, rel=QP)


def falling_or_rising(rng):
    n, steps, changes = int(rng.integers(2, 7)), int(rng.integers(3, 11)), {}
    if rng.random() < 0.6:
        sizes = rng.uniform(0.05, 0.4, steps)
        changes["step_size"] = np.sort(sizes) if rng.random() < 0.7 else sizes
    loss = LOSSES[int(rng.integers(len(LOSSES)))]
    return run_of(n, int(rng.integers(1, n)), steps, int(rng.integers(0, 3)), loss, **changes)


def test_the_record_used_last_is_the_worst_where_the_view_says_so():
    """Where the view does not say so, another record can be worse, and sometimes is. The checker judges by
    itself which records have to be shown."""
    rng = np.random.default_rng(8)
    said = others = 0
    for _ in range(60):
        run = falling_or_rising(rng)
        view = OrderedView(run)
        granted(shifted_interpolation.apply, run, 1e-5)
        costs = [
            least(*written_out(run, position), math.inf) for position in range(run.steps_per_epoch)
        ]
        assert view.last_position == (run.data_steps - 1) % run.steps_per_epoch
        if view.later_is_worse:
            said += 1
            assert max(costs) <= costs[view.last_position] * (1.0 + QP)
        else:
            others += max(costs) > costs[view.last_position] * (1.0 + 1e-3)
    assert said > 20
    assert others > 2


def test_slopes_that_doubles_do_not_tell_apart_are_not_alike():
    """1 + 3e-15 and 1 + 2e-15 for the short batch, both rounded up: the kernel asks for every position."""
    chain = pabi.LangevinChain(
        pabi.Loss.saddle(1.25, smoothness=1e-12), 21, 5.0, 0.0023, steps=4, batches=pabi.Cyclic(13)
    )
    view = OrderedView(chain.run)
    assert view.constants.full == view.constants.last > 1.0
    assert not view.homogeneous
    granted(shifted_interpolation.apply, chain.run, 1e-5)


@every("diameter", [None, 0.4])
@every("varying", [False, True])
def test_chosen_positions_are_those_of_all(varying, diameter):
    changes = {"step_size": np.linspace(0.1, 0.6, 14)} if varying else {}
    run = run_of(7, 2, 14, 1, diameter=diameter, **changes)
    view = OrderedView(run)
    every = [one.mu for one in cyclic(view)]
    squares = [least(*written_out(run, j), run.range_diameter) for j in range(4)]
    assert np.square(every) == pytest.approx(squares, rel=QP)
    assert [one.mu for one in cyclic(view, [3, 1])] == [every[3], every[1]]
    assert [record(view, view.uses(j)).mu for j in range(4)] == pytest.approx(every, rel=1e-11)


def test_slopes_whose_products_leave_the_doubles():
    """η·h one rounding below 1: each slope c is about 10⁻¹⁶, and 24 steps leave 10⁻³⁸⁴.

    What m steps after the last use leave of s is s·c^m, paid by noises of which the last one alone matters;
    what earlier uses leave is nothing beside it.
    """
    eta = np.full(24, math.nextafter(1.0, 0.0))
    run = run_of(3, 1, 24, loss=Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0), step_size=eta)
    c = float(1 - Fraction(float(eta[0])))
    for position, one in enumerate(cyclic(OrderedView(run))):
        exact = 2.0 / 0.8 * c ** (2 - position)
        assert exact * (1.0 - 1e-15) <= one.mu <= exact * (1.0 + 1e-9)


def test_a_record_that_is_never_used_costs_nothing():
    view = OrderedView(run_of(6, 2, 1))
    assert [one.mu > 0.0 for one in cyclic(view)] == [True, False, False]
    assert record(view, Uses(0, 0)) == Record(Uses(0, 0))
    varying = OrderedView(run_of(6, 2, 1, step_size=np.array([0.3])))
    assert [one.mu > 0.0 for one in cyclic(varying)] == [True, False, False]


@every("then", [(), (7,), (4, 8)])
def test_other_uses_than_one_an_epoch(then):
    """As the worst record of a reshuffled run has them."""
    run = run_of(3, 1, 9)
    uses = Uses(1, 1, then)
    c, _, sigma = written_out(run, 0)
    s = np.zeros(9)
    s[[1, *then]] = 0.3 * 2.0
    found = record(OrderedView(run), uses)
    assert found.mu**2 == pytest.approx(least(c, s, sigma, math.inf), rel=QP)


stretch = st.builds(
    Stretch,
    st.integers(1, 3),
    st.sampled_from([0.5, 0.9, 1.0, 1.2]),
    st.sampled_from([0.0, 0.0, 0.7, 1.3]),
    st.sampled_from([0.5, 1.0]),
)


@given(
    st.lists(
        st.builds(Group, st.integers(1, 3), st.lists(stretch, min_size=1, max_size=2).map(tuple)),
        min_size=1, max_size=3,
    ).map(Groups),
    st.sampled_from([math.inf, 0.6]),
)  # fmt: skip
def test_run_length_codes_cost_what_their_steps_cost(groups, diameter):
    c, s, sigma = (np.asarray(x) for x in groups.columns())
    _, coded = solve_schedule(groups, diameter)
    _, plain = solve_schedule(Steps(c, s, sigma), diameter)
    exact = least(c, s, sigma, diameter) if s.any() else 0.0
    assert energy_of(coded) == pytest.approx(exact, rel=1e-7, abs=1e-12)
    assert energy_of(plain) == pytest.approx(exact, rel=1e-7, abs=1e-12)


@every("batches", [Poisson(10), BallsInBins(10)])
@every("failing", [1e-3, 1e-8])
def test_all_batches_are_covered_where_that_costs_nothing(batches, failing):
    """With η·M·count/size ≤ 2 for every count the slope is 1 whatever the batch; otherwise counts are
    limited, and a batch beyond the limit is rarer than what may fail."""
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
    run = run_of(7, 2, 8)
    assert [check_position(run, np.int64(j)) for j in range(4)] == [0, 1, 2, 3]
    for position in (-1, 4, 1.0, True, "0", None):
        said = refused("position", check_position, run, position)
        assert "0..steps_per_epoch − 1 = 3" in said
    for batches in (Reshuffle(2), BallsInBins(2), Poisson(2)):
        random = run_of(7, 2, 8, batches=batches)
        assert "no known positions" in refused("position", check_position, random, 0)
    full = run_of(4, 4, 3, batches=FullBatch())
    assert check_position(full, 0) == 0
    assert OrderedView(full).uses(0).steps(1).tolist() == [0, 1, 2]
