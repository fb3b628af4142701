"""Descriptions survive being written to a table and read back, and tables with mistakes say so."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pabi
from pabi.describe.files import StatedProx, from_dict, to_dict
from support.every_case import every, refused

positive = st.floats(1e-6, 1e6)
losses = st.one_of(
    st.builds(pabi.Loss.logistic, positive, l2=st.floats(0, 1)),
    st.builds(pabi.Loss.huber, positive, positive),
    st.builds(
        lambda m, l2: pabi.Loss.convex(m, l2, gradient_bound=1.0, glm=True), positive, positive
    ),
    st.builds(lambda g: pabi.Loss.unknown(gradient_bound=g), positive),
)
KINDS = [pabi.Cyclic, pabi.ShuffleOnce, pabi.Reshuffle, pabi.FixedSize, pabi.Poisson]
KINDS += [pabi.BallsInBins]
SIZE, SPARE = st.integers(1, 50), st.integers(0, 9)
LEAST = 50 + 9  # records, so that every such batch fits


def capped(kind):
    return st.builds(lambda size, more: kind(size, size + more), SIZE, st.integers(0))


batches = st.one_of(
    st.just(pabi.FullBatch()),
    *(st.builds(kind, SIZE) for kind in KINDS),
    *(st.builds(kind, SIZE, SPARE) for kind in (pabi.ShuffleOnce, pabi.Reshuffle)),
    st.builds(pabi.BallsInBins, SIZE, redraw=st.sampled_from(["once", "epoch"])),
    *(capped(kind) for kind in (pabi.Poisson, pabi.BallsInBins)),
)


@st.composite
def runs(draw):
    t = draw(st.integers(2, 200))

    def schedule():
        return draw(st.one_of(positive, st.lists(positive, min_size=t, max_size=t)))

    fields = {"steps": t, "step_size": schedule(), "noise_std": schedule()}
    fields |= {"clip_norm": draw(st.one_of(st.none(), positive))}
    fields |= {"adjacency": draw(st.sampled_from(["replace_one", "zero_out"]))}
    fields |= {"prox": draw(st.sampled_from([None, StatedProx("ball(1.0)", 2.0)]))}
    fields |= {"diameter": draw(st.one_of(st.none(), positive))}
    fields |= {"cooldown_steps": draw(st.integers(0, t - 1))}
    fields |= {"release": draw(st.sampled_from(["last", "path"]))}
    return pabi.NoisySGD(draw(losses), draw(st.integers(LEAST, 10**9)), draw(batches), **fields)


def through_json(description):
    return from_dict(json.loads(json.dumps(to_dict(description))))


@given(runs())
@settings(deadline=None)
def test_runs_round_trip(run):
    assert through_json(run) == run


SMOOTH = pabi.Loss.logistic(1.0, l2=0.1)
CHAIN = pabi.LangevinChain(SMOOTH, 100, inverse_temperature=2.0, step_size=0.01, steps=50)
DIFFUSION = pabi.LangevinDiffusion(SMOOTH, 100, inverse_temperature=2.0, time=1.7)
DRAW = pabi.ExponentialMechanism(SMOOTH, 100, dimension=2, diameter=1.0, inverse_temperature=2.0)
ROUNDS = {"dimension": 2, "diameter": 10.0, "epsilons": [0.2, 0.3], "failure": 0.01}
MOMENTS = pabi.NoisySecondMoments(100, dimension=3, feature_norm=1.5)
LEVELS = pabi.NoisyColumnStatistics(100, 3, "levels", noise_std=4.0, adjacency="zero_out")
TRAINED = pabi.NoisySGD(SMOOTH, 20, pabi.Cyclic(5), epochs=2, step_size=0.5, noise_std=0.5)
FORGETTING = pabi.Unlearning(TRAINED, [(3, 2)])


@every(
    "described",
    [
        *(CHAIN, replace(CHAIN, chains=3, release="path", prox=pabi.prox.ball(2.0))),
        *(replace(CHAIN, batches=pabi.Cyclic(7)), replace(DIFFUSION, diameter=2.0)),
        replace(DIFFUSION, inverse_temperature=[1.0, 2.0, 3.0], release="path"),
        *(DRAW, replace(DRAW, inverse_temperature=None, epsilon=2.0)),
        *(pabi.IteratedExponentialMechanism(SMOOTH, 1000, **ROUNDS, split=s) for s in (None, 9)),
        *(MOMENTS, replace(MOMENTS, noise_std=0.1, adjacency="zero_out", diagonal=True)),
        *(replace(MOMENTS, noise_multiplier=1 / 3), LEVELS, replace(LEVELS, threshold=4.5)),
        replace(LEVELS, statistic="counts", questions=7),
        *(FORGETTING, pabi.Unlearning(TRAINED, [(3, 2), (0, 1)])),
        *(replace(FORGETTING, step_size=x) for x in (0.1, [0.3, 0.2, 0.1])),
        *(replace(FORGETTING, published=True), pabi.NoisyAccuracy(50, 0.1)),
    ],
)
def test_what_else_is_described_round_trips(described):
    again = through_json(described)
    assert again == described == replace(described)
    assert again.assumptions == described.assumptions


def test_epochs_stay_epochs():
    """What was derived is not written, so that the table says what its author said."""
    given = {"epochs": 2, "step_size": 0.1, "noise_std": 1.0}
    run = pabi.NoisySGD(pabi.Loss.logistic(1.0), 10, pabi.Cyclic(3), **given)
    table = to_dict(run)
    assert "steps" not in table
    assert table["epochs"] == 2
    assert through_json(run).steps == run.steps == 8


@every(
    ("batches", "table"),
    [
        (pabi.FixedSize(3), {"kind": "fixed_size", "size": 3}),
        (pabi.Poisson(3), {"kind": "poisson", "size": 3}),
        (pabi.Poisson(np.int64(3), np.int64(5)), {"kind": "poisson", "size": 3, "cap": 5}),
        (pabi.Poisson(3, probability=0.3), {"kind": "poisson", "size": 3, "probability": 0.3}),
        (pabi.FullBatch(), {"kind": "full_batch"}),
        (pabi.BallsInBins(3), {"kind": "balls_in_bins", "size": 3}),
        (pabi.ShuffleOnce(3, 0), {"kind": "shuffle_once", "size": 3}),
        (pabi.Reshuffle(3, 2), {"kind": "reshuffle", "size": 3, "spare": 2}),
        (
            pabi.BallsInBins(3, 5, redraw="epoch"),
            {"kind": "balls_in_bins", "size": 3, "cap": 5, "redraw": "epoch"},
        ),
    ],
)
def test_tables_of_batches(batches, table):
    """A missing cap is left out: TOML has no null."""
    run = from_dict(GOOD | {"batches": table})
    assert run.batches == batches
    written = to_dict(pabi.NoisySGD(run.loss, 10, batches, epochs=1, step_size=0.1, noise_std=1.0))
    assert written["batches"] == table
    assert all(type(written["batches"][key]) is type(table[key]) for key in table)


def test_iterations_round_trip():
    rng = np.random.default_rng(0)
    c, s, sigma = rng.uniform(0.5, 1.0, (3, 300))
    it = pabi.NoisyIteration(c, s, sigma, diameter=2.0, start=0.5, adjacency="zero_out")
    assert through_json(it) == it
    scalars = pabi.NoisyIteration(0.9, 1.0, 2.0, steps=10**9)
    assert through_json(scalars) == scalars


def test_moduli():
    m, given = pabi.Modulus, {"step_sensitivity": 1.0, "step_noise_std": 1.0}
    minimum = m.minimum(m.linear(1.5), m.affine(1.0, 0.1))
    several = [m.linear(0.5), m.sqrt(0.9, 0.2), m.affine(1.0, 0.3), minimum, m.unbounded()]
    for it in (
        pabi.NoisyIteration(moduli=several, **given),
        pabi.NoisyIteration(moduli=several[1], **given, steps=2),
    ):
        assert through_json(it) == it
    function = m.from_function(lambda d: d)
    refused("moduli", to_dict, pabi.NoisyIteration(moduli=function, **given, steps=2))


GOOD = {"loss": {"kind": "logistic", "feature_norm": 1.0}, "n": 10}
GOOD |= {"batches": {"kind": "cyclic", "size": 2}, "epochs": 1, "step_size": 0.1, "noise_std": 1.0}


CAPPED = {"kind": "poisson", "size": 3}
LOGISTIC = {"kind": "logistic", "feature_norm": 1.0}
MISTAKES = {
    "batches": [
        ({"kind": "cyclic"}, "size", "missing"),
        ({"kind": "cyclic", "size": 2.5}, "size", "integer"),
        ({"kind": "full_batch", "size": 2}, "size", "belongs to"),
        ({"kind": "poison", "size": 2}, "kind", "poisson"),
        ({"kind": "fixed_size"}, "size", "missing"),
        ({"kind": "poisson", "cap": 3}, "size", "missing"),
        ({**CAPPED, "cap": 2}, "cap", "at least size = 3"),
        ({**CAPPED, "cap": 4.5}, "cap", "integer"),
        ({**CAPPED, "cap": True}, "cap", "integer"),
        ({**CAPPED, "caps": 4}, "caps", "did you mean cap"),
        ({"kind": "poisson", "size": 11, "cap": 20}, "size", "1..n = 10"),
        ({"kind": "fixed_size", "size": 3, "cap": 4}, "cap", "balls_in_bins or poisson"),
        ({"kind": "cyclic", "size": 3, "cap": 4}, "cap", "balls_in_bins or poisson"),
        ({"kind": "full_batch", "cap": 4}, "cap", "balls_in_bins or poisson"),
        ({"kind": "cyclic", "size": 2, "epochs": 3}, "epochs", "above the first table"),
        *((x, "batches", "expected a table") for x in ("cyclic", [{"kind": "cyclic"}])),
        ({"kind": [1], "size": 2}, "kind", "got [1]"),
    ],
    "loss": [
        (3, "loss", "table"),
        ({"feature_norm": 1.0}, "kind", "loss"),
        ({**LOGISTIC, "kind": "logistics"}, "kind", "logistic"),
        ({"kind": "logistic"}, "feature_norm", "missing"),
        ({**LOGISTIC, "n": 3}, "n", "above the first table"),
        ({**LOGISTIC, "lambda": 1}, "lambda", "unknown key in [loss]"),
        ({"kind": [1]}, "kind", "got [1]"),
    ],
    "step_size": [
        ("fast", "step_size", "number"),
        ([0.1, "fast"], "step_size", "number"),
        ({"f8": "no base64!"}, "step_size", "base64"),
    ],
    "kind": [("noisy_gd", "kind", "noisy_sgd"), (["noisy_sgd"], "kind", "got ['noisy_sgd']")],
    "steps": [(3, "epochs", "got both")],
    "epochs": [(None, "epochs", "got neither")],
    "noise_multiplier": [(1.0, "noise_multiplier", "at most one of")],
    "cap": [(200, "cap", "unknown key in the top level")],
    "step_sise": [(1.0, "step_sise", "step_size")],
    "prox": [({"diameter": -1.0}, "diameter", "> 0"), ("ball", "prox", "expected a table")],
    "n": [("ten", "n", "integer"), (None, "n", "integer")],
}


ITERATED = {"kind": "noisy_iteration", "contraction": [0.9, 0.9]}
ITERATED |= {"step_sensitivity": [0.1, 0.1], "step_noise_std": [0.1, 0.1]}
MISTAKES_OF_ITERATIONS = [
    ({"step_sensitivity": [0.1]}, "step_sensitivity", "expected 2 entries, one per step, got 1"),
    ({"contraction": [math.nan, 1.0]}, "contraction", "got nan at step 1"),
    ({"contraction": {"f8": "!"}}, "contraction", "base64"),
    ({"contraction": [10**400, 1.0]}, "contraction", "range of doubles"),
    ({"steps": 3}, "contraction", "expected 3 entries"),
    ({"start": -1.0}, "start", "got -1.0"),
    ({"diameter": 0}, "diameter", "got 0"),
    ({"moduli": [1]}, "moduli", "kind in linear, "),
    ({"moduli": {"kind": "sqrt", "kappa": 1.0}}, "moduli", "expected kappa, h, got"),
    ({"moduli": {"kind": "linear", "slope": -1.0}}, "slope", "got -1.0"),
    ({"n": 3}, "n", "unknown key"),
]


def test_mistakes_name_the_field():
    for name, mistakes in MISTAKES.items():
        for value, field, hint in mistakes:
            assert hint in refused(field, from_dict, {**GOOD, name: value})
    for name in ("loss", "n", "batches", "epochs", "step_size"):
        assert name in refused(name, from_dict, {k: v for k, v in GOOD.items() if k != name})
    for changes, field, hint in MISTAKES_OF_ITERATIONS:
        assert hint in refused(field, from_dict, ITERATED | changes)


def test_a_stated_prox_cannot_be_run():
    with pytest.raises(pabi.InvalidInput, match="by name only"):
        StatedProx("ball(1.0)", 2.0)(np.zeros(2), 0.1)
