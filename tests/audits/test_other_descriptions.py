"""Every description that is accounted for has an instance: of other updates, paths, caps, maps and losses."""

from __future__ import annotations

import numpy as np
import pytest

import pabi
from pabi import Loss, NoisySGD
from pabi.audits.auditing import worst
from pabi.audits.instance import Membership, counted_share, line_of
from pabi.convert import gdp_to_epsilon
from pabi.execute.batches import batch_rows
from support.every_case import every

from .trained import statistics

DELTA = 1e-5
CONVEX = Loss.convex(1.0, gradient_bound=1.0)


def run_of(batches, loss=CONVEX, **changes):
    fields = {"n": 18, "epochs": 3, "step_size": 0.3, "noise_std": 0.5, **changes}
    return NoisySGD(loss, batches=batches, **fields)


MOMENTUM = pabi.updates.Momentum(0.7)
NESTEROV = pabi.updates.Momentum(0.8, nesterov=True)
RUNS = {
    "momentum": run_of(pabi.Cyclic(4), update=MOMENTUM),
    "nesterov": run_of(pabi.ShuffleOnce(4), Loss.logistic(1.0, l2=0.2), update=NESTEROV),
    "momentum, fixed size": run_of(pabi.FixedSize(4), update=MOMENTUM, adjacency="zero_out"),
    "path": run_of(pabi.Cyclic(4), release="path"),
    "path, Poisson": run_of(pabi.Poisson(4), release="path", adjacency="zero_out"),
    "path, drawn": run_of(pabi.Reshuffle(4), release="path"),
    "cap": run_of(pabi.Poisson(4, cap=5)),
    "cap of bins": run_of(pabi.BallsInBins(4, cap=4)),
    "l1": run_of(pabi.Cyclic(4), prox=pabi.prox.l1(0.1)),
    "l2": run_of(pabi.ShuffleOnce(4), prox=pabi.prox.l2(0.7)),
    "elastic net": run_of(pabi.Poisson(4), prox=pabi.prox.elastic_net(0.1, 0.5)),
    "nuclear norm": run_of(pabi.Cyclic(4), prox=pabi.prox.nuclear_norm(0.2)),
    "box": run_of(pabi.Cyclic(4), prox=pabi.prox.box(-0.2, 0.3, shape=(2,))),
    "half of a line": run_of(pabi.Cyclic(4), prox=pabi.prox.box(0.0, np.inf)),
    "simplex": run_of(pabi.BallsInBins(4), prox=pabi.prox.simplex(0.5)),
    "halfspace": run_of(pabi.Reshuffle(4), prox=pabi.prox.halfspace([1.0, 0.0], 0.2)),
    "one against the rest": run_of(pabi.Cyclic(4), Loss.one_vs_rest(1.0, 4)),
    "vector Huber": run_of(pabi.Cyclic(4), Loss.vector_huber(1.0, 0.5)),
    "vector Huber on a ball": run_of(
        pabi.Cyclic(4), Loss.vector_huber(1.0, 0.5), prox=pabi.prox.ball(0.3)
    ),
    "Poisson losses": run_of(pabi.Cyclic(4), Loss.poisson(1.0, 0.5, 2.0)),
    "dissipative": run_of(
        pabi.Cyclic(4), Loss.dissipative(1.0, 0.4, 1.0), gradient_sensitivity=2.0
    ),
    "dissipative, clipped": run_of(pabi.Poisson(4), Loss.dissipative(1.0, 0.4, 1.0), clip_norm=1.0),
    "users": run_of(pabi.Poisson(4), unit="user", clip_norm=1.0),
    "schedules": run_of(
        pabi.Cyclic(4), step_size=lambda k: 0.3 / (1 + k), cooldown_steps=3, epochs=2
    ),
}
each_run = pytest.mark.parametrize("name", RUNS)


@each_run
def test_no_instance_costs_more_than_is_promised(name):
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
    """Everybody knows the batches: three steps of linear losses, told apart without other steps' noise."""
    run = RUNS["path"]
    _, law = worst(run, DELTA)
    cost = np.sqrt(3.0) * 2.0 / 4.0 / 0.5
    assert law.epsilon(DELTA) == pytest.approx(gdp_to_epsilon(cost, DELTA), rel=1e-3)
    assert run.guarantee(DELTA).epsilon(DELTA) == pytest.approx(law.epsilon(DELTA), rel=2e-3)
