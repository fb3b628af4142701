"""The instances are what the description says, cost what closed forms say, and no more than is promised."""

import math
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import Loss, NoisySGD, NotApplicable
from pabi.audits.auditing import worst
from pabi.audits.drifts import Drift
from pabi.audits.instance import Instance, Membership, counted_share, line_of
from pabi.audits.instances import instances
from pabi.convert import gdp_to_epsilon
from pabi.execute.batches import batch_rows
from pabi.learn import LogisticGradients, SmoothedHingeGradients, SquaredGradients
from support.every_case import every

from .trained import assert_not_dearer, named, orders, statistics

DELTA = 1e-5
each_order = pytest.mark.parametrize("batches", orders(7, spare=10), ids=named)
each_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
BALL = pabi.prox.ball(0.2)
KINDS = {
    "logistic": (Loss.logistic(1.0, l2=0.1), {}),
    "huber": (Loss.huber(1.0, 1.0), {"clip_norm": 0.5}),
    "convex": (Loss.convex(2.0, gradient_bound=1.0), {}),
    "nonconvex": (Loss.nonconvex(1.0, gradient_bound=1.0, l2=0.2), {}),
    "nonconvex on a ball": (Loss.nonconvex(1.0, gradient_bound=1.0), {"prox": BALL}),
    "lipschitz on a ball": (Loss.lipschitz(1.0), {"prox": BALL}),
}


def run_of(batches, loss=None, **changes):
    fields = {"n": 45, "epochs": 3, "step_size": 0.5, "noise_std": 0.4, **changes}
    return NoisySGD(loss or Loss.convex(1.0, gradient_bound=1.0), batches=batches, **fields)


@pytest.mark.parametrize("kind", KINDS)
@each_adjacency
@each_order
@pytest.mark.one_in(3)
def test_no_instance_costs_more_than_is_promised(batches, adjacency, kind):
    loss, rest = KINDS[kind]
    run = run_of(batches, loss, adjacency=adjacency, **rest)
    guarantee, tried = run.guarantee(DELTA), instances(run)
    for instance in tried[:3] + tried[-3:]:
        assert_not_dearer(instance, guarantee)


@each_adjacency
def test_full_batches_of_linear_losses_cost_all_that_is_promised(adjacency):
    """A sum of T steps: μ = √T·s/σ, which composition attains."""
    run = run_of(pabi.FullBatch(), adjacency=adjacency, noise_std=0.1)
    sensitivity = (2.0 if adjacency == "replace_one" else 1.0) / 45
    mu = math.sqrt(3) * sensitivity / 0.1
    law = worst(run, DELTA)[1]
    assert law.epsilon(DELTA) == pytest.approx(gdp_to_epsilon(mu, DELTA), rel=1e-4)
    assert run.guarantee(DELTA).epsilon(DELTA) == pytest.approx(law.epsilon(DELTA), rel=1e-3)


def test_a_quadratic_that_forgets_costs_a_geometric_series():
    """λ alone: the release is Σ c^(T−1−k)·η(g/n + ξ_k)."""
    run = run_of(pabi.FullBatch(), Loss.logistic(1.0, l2=0.8), epochs=5, noise_std=0.1)
    powers = (1.0 - 0.5 * 0.8) ** np.arange(5)
    mu = (2.0 / 45) * powers.sum() / (0.1 * math.sqrt((powers**2).sum()))
    flat = next(i for i in instances(run) if not any(i.curvature))
    assert flat.pair().epsilon(DELTA) == pytest.approx(gdp_to_epsilon(mu, DELTA), rel=1e-4)


def test_curved_batches_before_the_record_cost_more():
    """They forget noise that linear losses keep."""
    run = run_of(pabi.Cyclic(7), noise_std=0.05)
    steady = [i for i in instances(run) if isinstance(i, Instance)]
    costs = {i.curvature: i.pair().epsilon(DELTA) for i in steady}
    assert max(costs.values()) > 1.1 * costs[(0.0,)]


SATURATING = {
    "logistic": lambda rows: LogisticGradients(rows, np.zeros(2, dtype=int)),
    "smoothed_hinge": lambda rows: SmoothedHingeGradients(rows, np.zeros(2, dtype=int), 1.0),
    "squared": lambda rows: SquaredGradients(rows, np.zeros(2), residual_bound=1.0),
}


@every("loss", SATURATING)
def test_far_out_two_records_pull_in_opposite_directions(loss):
    """A coordinate that both share a little of decides the residual: clipped to 1 the gradients are opposite
    and of length 1, and stay so wherever the other coordinate goes."""
    share = 1e-4
    rows = np.array([[share, math.sqrt(1.0 - share**2)], [share, -math.sqrt(1.0 - share**2)]])
    for second in (-50.0, 0.0, 50.0):
        pulls = SATURATING[loss](rows)(np.array([1e8, second]), np.arange(2))
        pulls /= np.maximum(np.linalg.norm(pulls, axis=1), 1.0)[:, None]
        assert np.linalg.norm(pulls, axis=1) == pytest.approx([1.0, 1.0], abs=1e-9)
        assert np.linalg.norm(pulls[0] - pulls[1]) == pytest.approx(2.0, abs=1e-6)


@each_order
def test_gradients_are_within_their_bound_wherever_a_path_goes(batches):
    loss = Loss.convex(1.0, gradient_bound=1.0)
    rng = np.random.default_rng(0)
    for run in (run_of(batches, loss, noise_std=0.01), run_of(batches, loss, prox=BALL)):
        for instance in (i for i in instances(run) if isinstance(i, Instance)):
            x = instance.trained(instance.record, 2_000, rng)
            steepest = np.abs(instance.rest) + max(map(abs, instance.curvature)) * np.abs(x)
            assert steepest.max() <= 1.0
            assert max(abs(instance.record), abs(instance.other), abs(instance.rest)) <= 1.0


def test_strongly_convex_records_are_curved_themselves():
    loss = Loss.strongly_convex(0.5, 1.0)
    run = run_of(pabi.Cyclic(7), loss, gradient_sensitivity=2.0)
    tried = instances(run)
    steady = [i for i in tried if isinstance(i, Instance)]
    assert all(not i.flat and min(i.curvature) >= 0.5 for i in steady)
    assert all(not i.kind.flat and i.kind.low == 0.5 for i in tried if isinstance(i, Drift))
    assert max(i.pair().epsilon(DELTA) for i in tried) <= run.guarantee(DELTA).epsilon(DELTA)


class Own:
    """A proximal map that pabi knows nothing of."""

    diameter = None

    def __call__(self, x, step_size):
        return x


FULL, STRONG = pabi.FullBatch(), Loss.strongly_convex(0.5, 1.0)
REFUSED = {
    "update whose steps": run_of(FULL, update=pabi.updates.Adam()),
    "another update|update whose": run_of(FULL, update="other"),
    "of a path, under": run_of(FULL, release="path", prox=pabi.prox.l1(0.1)),
    "map of your own": run_of(FULL, prox=Own()),
    "logistic loss on a bounded domain": run_of(FULL, Loss.logistic(1.0), prox=BALL),
    "curved": run_of(FULL, STRONG, gradient_sensitivity=2.0, adjacency="zero_out"),
    "no loss is linear": run_of(FULL, STRONG, gradient_sensitivity=2.0, release="path"),
}


@every("reason", REFUSED)
def test_where_no_instance_is_known_none_is_made_up(reason):
    with pytest.raises(NotApplicable, match=reason):
        instances(REFUSED[reason])


def test_a_domain_that_is_too_wide_is_refused():
    run = run_of(pabi.FullBatch(), noise_std=1e-5, prox=pabi.prox.ball(1e-2), epochs=400)
    with pytest.raises(NotApplicable, match="wide"):
        worst(run, DELTA)


# Every description that is accounted for has an instance: of other updates, paths, caps, maps and losses.


CONVEX = Loss.convex(1.0, gradient_bound=1.0)


def small_run(batches, loss=CONVEX, **changes):
    fields = {"n": 18, "epochs": 3, "step_size": 0.3, "noise_std": 0.5, **changes}
    return NoisySGD(loss, batches=batches, **fields)


MOMENTUM = pabi.updates.Momentum(0.7)
NESTEROV = pabi.updates.Momentum(0.8, nesterov=True)
RUNS = {
    "momentum": small_run(pabi.Cyclic(4), update=MOMENTUM),
    "nesterov": small_run(pabi.ShuffleOnce(4), Loss.logistic(1.0, l2=0.2), update=NESTEROV),
    "momentum, fixed size": small_run(pabi.FixedSize(4), update=MOMENTUM, adjacency="zero_out"),
    "path": small_run(pabi.Cyclic(4), release="path"),
    "path, Poisson": small_run(pabi.Poisson(4), release="path", adjacency="zero_out"),
    "path, drawn": small_run(pabi.Reshuffle(4), release="path"),
    "cap": small_run(pabi.Poisson(4, cap=5)),
    "cap of bins": small_run(pabi.BallsInBins(4, cap=4)),
    "l1": small_run(pabi.Cyclic(4), prox=pabi.prox.l1(0.1)),
    "l2": small_run(pabi.ShuffleOnce(4), prox=pabi.prox.l2(0.7)),
    "elastic net": small_run(pabi.Poisson(4), prox=pabi.prox.elastic_net(0.1, 0.5)),
    "nuclear norm": small_run(pabi.Cyclic(4), prox=pabi.prox.nuclear_norm(0.2)),
    "box": small_run(pabi.Cyclic(4), prox=pabi.prox.box(-0.2, 0.3, shape=(2,))),
    "half of a line": small_run(pabi.Cyclic(4), prox=pabi.prox.box(0.0, np.inf)),
    "simplex": small_run(pabi.BallsInBins(4), prox=pabi.prox.simplex(0.5)),
    "halfspace": small_run(pabi.Reshuffle(4), prox=pabi.prox.halfspace([1.0, 0.0], 0.2)),
    "one against the rest": small_run(pabi.Cyclic(4), Loss.one_vs_rest(1.0, 4)),
    "vector Huber": small_run(pabi.Cyclic(4), Loss.vector_huber(1.0, 0.5)),
    "vector Huber on a ball": small_run(
        pabi.Cyclic(4), Loss.vector_huber(1.0, 0.5), prox=pabi.prox.ball(0.3)
    ),
    "Poisson losses": small_run(pabi.Cyclic(4), Loss.poisson(1.0, 0.5, 2.0)),
    "dissipative": small_run(
        pabi.Cyclic(4), Loss.dissipative(1.0, 0.4, 1.0), gradient_sensitivity=2.0
    ),
    "dissipative, clipped": small_run(
        pabi.Poisson(4), Loss.dissipative(1.0, 0.4, 1.0), clip_norm=1.0
    ),
    "users": small_run(pabi.Poisson(4), unit="user", clip_norm=1.0),
    "schedules": small_run(
        pabi.Cyclic(4), step_size=lambda k: 0.3 / (1 + k), cooldown_steps=3, epochs=2
    ),
}
each_run = pytest.mark.parametrize("name", RUNS)


@each_run
def test_no_instance_of_others_costs_more_than_is_promised(name):
    run = RUNS[name]
    guarantee, (_, law) = run.guarantee(DELTA), worst(run, DELTA)
    for delta in (1e-5, 1e-2):
        promised = guarantee.epsilon(delta) * (1.0 + 1e-9)
        assert 0.0 < law.epsilon(delta) <= promised or delta == 1e-2
        assert law.swapped().epsilon(delta) <= promised


@each_run
def test_what_is_trained_has_the_law(name):
    assert all(x < 100.0 for x in statistics(*worst(RUNS[name], DELTA), 7))


PATHS = {
    "l1": lambda x: x,
    "l2": lambda x: x / (1 + 0.3 * 0.7),
    "elastic net": lambda x: x / (1 + 0.3 * 0.5),
    "nuclear norm": lambda x: x,
}


@every("name", PATHS)
def test_far_out_proximal_maps_move_and_shrink(name):
    """Differences of two far points, through the map itself."""
    run, shape = RUNS[name], (1, 1) if name == "nuclear norm" else (1,)
    points = np.array([1e3, 1e3 + 0.7, 1e3 - 0.4])
    mapped = np.array([run.prox(np.full(shape, x), 0.3).item() for x in points])
    assert np.diff(mapped) == pytest.approx(np.diff(PATHS[name](points)), abs=1e-9)
    assert line_of(run).ridge == {"l2": 0.7, "elastic net": 0.5}.get(name, 0.0)


def test_along_a_side_maps_are_walls():
    """Two corners of a simplex, and a side of a box."""
    run = RUNS["simplex"]
    half = 0.5 * line_of(run).width
    for t in (-1.0, -0.1, 0.3, 1.0):
        point = np.array([0.25 + t / np.sqrt(2.0), 0.25 - t / np.sqrt(2.0)])
        mapped = run.prox(point, 0.3)
        assert (mapped[0] - mapped[1]) / np.sqrt(2.0) == pytest.approx(np.clip(t, -half, half))
    assert line_of(RUNS["box"]).width == pytest.approx(0.5)
    assert np.isinf(line_of(RUNS["half of a line"]).width)


@pytest.mark.parametrize("name", ["cap", "cap of bins"])
def test_caps_are_those_of_the_trainer(name):
    """How often the record is in a batch that is summed, in 1000 runs of the shipped batches."""
    run, rng, met = RUNS[name], np.random.default_rng(3), 0
    for _ in range(1_000):
        order = batch_rows(run, rng)
        batches = (order.batch(step) for step in range(run.steps))
        met += sum(rows is not None and 0 in np.arange(18)[rows] for rows in batches)
    inside = Membership(run, 0, 200_000, rng)
    expected = sum(float(inside.at(step).mean()) for step in range(run.steps))
    assert 0.2 < counted_share(run.order) < 0.98
    assert met / 1_000 == pytest.approx(expected, rel=0.15)


def test_a_path_costs_what_composition_charges():
    """Everybody knows the batches: three steps of linear losses, told apart without other steps' noise, and
    each by as much as its own noise lets it."""
    falling = 0.5 / np.repeat([1.0, 2.0, 3.0], 5)
    for noise, cost in ((0.5, np.sqrt(3.0)), (falling, np.sqrt(14.0))):
        run = replace(RUNS["path"], noise_std=noise)
        _, law = worst(run, DELTA)
        known = gdp_to_epsilon(cost * 2.0 / 4.0 / 0.5, DELTA)
        assert law.epsilon(DELTA) == pytest.approx(known, rel=1e-3)
        assert run.guarantee(DELTA).epsilon(DELTA) == pytest.approx(known, rel=2e-3)
