"""Proximal maps as values: arrays, equality, files, certificates, and what is refused."""

import copy
import dataclasses
import json
import math
import pickle
import tomllib
import warnings
from functools import partial

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

import pabi
from pabi.describe import prox
from pabi.describe.files import StatedProx, from_dict, to_dict
from pabi.describe.runs import Prox
from support.every_case import every, refused, refuses

INF = math.inf
ANYWHERE = [prox.l1(0.1), prox.l2(0.1), prox.elastic_net(0.1, 0.1)]
ANYWHERE += [prox.ball(1.0), prox.box(-0.5, 0.5), prox.simplex(2.0)]


SHAPES = [(p, shape) for p in ANYWHERE for shape in [(), (1,), (5,), (2, 3), (2, 3, 4)]]
SHAPES += [(p, (0, 3)) for p in ANYWHERE if not isinstance(p, prox.simplex)]


@every("p, shape", SHAPES)
def test_shapes_are_kept_and_are_no_matter(p, shape):
    x = np.random.default_rng(0).normal(size=shape)
    result = p(x, 0.5)
    assert type(result) is np.ndarray
    assert result.shape == shape
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result.ravel(), p(x.ravel(), 0.5))
    assert isinstance(p, Prox)


def test_arrays_fix_the_shape():
    """And are copies, which cannot be changed."""
    mine = np.ones((2, 3))
    for p, shape in (
        (prox.ball(1.0, mine), (2, 3)),
        (prox.box(np.zeros((2, 3)), 1.0), (2, 3)),
        (prox.box(np.zeros((2, 1)), np.ones(3)), (2, 3)),
        (prox.box(0.0, 1.0, shape=(2, 3)), (2, 3)),
        (prox.halfspace(mine, 1.0), (2, 3)),
        (prox.ball(1.0, 3.0), ()),
    ):
        assert p(np.full(shape, 9.0), 1.0).shape == shape
        with pytest.raises(pabi.InvalidInput, match=r"x: expected shape .*, got \(6,\)"):
            p(np.full(6, 9.0), 1.0)
    p = prox.ball(1.0, mine)
    mine[0] = 9.0
    assert p.center[0, 0] == 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.radius = 2.0
    with pytest.raises(ValueError, match="read-only"):
        p.center[0] = 2.0


@every("p", [*ANYWHERE, prox.nuclear_norm(0.1), prox.halfspace(np.ones((3, 2)), 0.0)])
@every("scale", [1e-3, 10.0])  # points that stay and points that move
def test_the_input_is_left_alone(p, scale):
    x = scale * np.random.default_rng(0).normal(size=(3, 2))
    before = x.copy()
    result = p(x, 0.5)
    assert not np.shares_memory(result, x)
    result[...] = 7.0
    np.testing.assert_array_equal(x, before)
    x.flags.writeable = False
    again = p(x, 0.5)
    np.testing.assert_array_equal(p(np.asfortranarray(x), 0.5), again)
    np.testing.assert_array_equal(p(x.tolist(), 0.5), again)
    np.testing.assert_array_equal(p(x.astype(np.float32), 0.5), p(np.float32(x).astype(float), 0.5))
    assert p(np.ones((3, 2), dtype=int), 0.5).dtype == np.float64


def test_penalties_are_scaled_by_the_step_size_and_projections_are_not():
    x = np.array([[0.3, -2.0, 5.0]])
    for p in (prox.ball(1.0), prox.box(0, 1), prox.simplex()):
        np.testing.assert_array_equal(p(x, 1e-9), p(x, 1e9))
    for kind in (prox.l1, prox.l2, prox.nuclear_norm):
        np.testing.assert_array_equal(kind(0.5)(x, 0.25), kind(0.125)(x, 1.0))


@every(
    "p", [*ANYWHERE, prox.nuclear_norm(1e300), prox.halfspace(np.ones((2, 2)), 0.0), prox.l1(1e300)]
)
@every("value", [INF, -INF, math.nan, 1.7e308, -1.7e308, 5e-324])
def test_odd_values_raise_and_warn_of_nothing(p, value):
    """Iterates are hidden, so that nothing may tell whether one of them overflowed."""
    x = np.array([[value, 1.0], [value, -2.0]])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for step_size in (1e-300, 1.0, 1e300):
            result = p(x, step_size)
            assert result.shape == (2, 2)
            assert np.isnan(result).any() == np.isnan(value)
            assert not np.isinf(result).any()


EVERY = [*ANYWHERE, prox.nuclear_norm(0.1), prox.ball(2.0, center=[0.1, -0.2])]
EVERY += [prox.ball(2.0, center=np.arange(6.0).reshape(2, 3))]
EVERY += [prox.ball(2.0, center=np.random.default_rng(0).normal(size=100))]
EVERY += [prox.box(-1.0, 1.0, shape=(2, 3)), prox.box(0.0, INF)]
EVERY += [prox.box([-INF, 0.0, 1.0], [0.5, INF, 1.0])]
EVERY += [prox.box(-1.0, np.random.default_rng(0).uniform(size=(20, 5)))]
EVERY += [prox.box(-1.0, np.where(np.arange(80) < 5, INF, 0.1)), prox.simplex()]
EVERY += [prox.halfspace([1.0, -0.0, 0.1], -2.5), prox.halfspace(np.ones((9, 9, 9)), 1.0)]


def test_equality_and_hash():
    for i, a in enumerate(EVERY):
        for j, b in enumerate(EVERY):
            assert (a == b) == (i == j)
        for same in (copy.deepcopy(a), pickle.loads(pickle.dumps(a)), dataclasses.replace(a)):
            assert same == a
            assert hash(same) == hash(a)
            assert same.diameter == a.diameter
        assert a != "ball"
    assert prox.l1(1.0) != prox.l2(1.0)
    assert prox.ball(1) == prox.ball(1.0)
    assert prox.ball(1.0, [1, 2]) != prox.ball(1.0, [1, 3]) != prox.ball(1.0)
    assert prox.ball(1.0, [[1, 2]]) != prox.ball(1.0, [1, 2])
    assert prox.halfspace([0.0, 1.0], 0.0) == prox.halfspace([-0.0, 1.0], -0.0)


def test_reprs_read_like_constructors():
    wide = "halfspace(normal=<array of shape (4, 5)>, offset=2.0)"
    for p, text in (
        (prox.ball(1), "ball(1.0)"),
        (prox.ball(1, (1, 2)), "ball(radius=1.0, center=[1.0, 2.0])"),
        (prox.box(-1, 1), "box(lower=-1.0, upper=1.0)"),
        (prox.elastic_net(0.1, 0.2), "elastic_net(l1=0.1, l2=0.2)"),
        (prox.simplex(), "simplex(1.0)"),
        (prox.halfspace(np.ones((4, 5)), 2), wide),
    ):
        assert repr(p) == text
    for p in EVERY:
        if "<" not in repr(p):
            assert eval(repr(p), {"inf": INF, **prox.KINDS}) == p


def run_with(p, **changes):
    given = {"epochs": 200, "step_size": 0.1, "noise_std": 1.0, "prox": p, **changes}
    return pabi.NoisySGD(pabi.Loss.convex(1.0, gradient_bound=1.0), 100, pabi.Cyclic(10), **given)


@every("p", EVERY)
def test_round_trip(p):
    run = run_with(p)
    table = json.loads(json.dumps(to_dict(run), allow_nan=False))
    assert table["prox"]["kind"] == type(p).__name__
    assert table["prox"].get("diameter") == p.diameter
    read = from_dict(table)
    assert read == run
    assert type(read.prox) is type(p)
    assert read.prox.diameter == p.diameter
    assert from_dict(tomllib.loads(tomli_w.dumps(to_dict(run)))) == run
    assert ".." not in json.dumps(table)


def test_foreign_maps_stay_names():
    class Mine:
        diameter = 3.0

        def __call__(self, x, step_size):
            return x

        def __repr__(self):
            return "Mine()"

    table = to_dict(run_with(Mine()))
    assert table["prox"] == {"name": "Mine()", "diameter": 3.0}
    assert from_dict(table).prox == StatedProx("Mine()", 3.0)


RUN_FILE = """
n = 100
epochs = 2
step_size = 0.1
noise_std = 1.0
loss = {kind = "logistic", feature_norm = 1.0}
batches = {kind = "cyclic", size = 10}

[prox]
"""


READ = {
    'kind = "ball"; radius = 2.0': prox.ball(2.0),
    'kind = "ball"; radius = 2; center = [0, 1.5]': prox.ball(2.0, [0.0, 1.5]),
    'kind = "ball"; radius = 2.0; diameter = 4.5': prox.ball(2.0),
    'kind = "box"; lower = -1; upper = inf': prox.box(-1.0, INF),
    'kind = "box"; lower = [0, "-inf"]; upper = [1, inf]': prox.box([0, -INF], [1, INF]),
    'kind = "box"; lower = -1; upper = 1; shape = [2, 3]': prox.box(-1.0, 1.0, (2, 3)),
    'kind = "box"; lower = -1; upper = 1; shape = 3': prox.box(-1.0, 1.0, 3),
    'kind = "simplex"': prox.simplex(),
    'kind = "elastic_net"; l1 = 0.1; l2 = 1': prox.elastic_net(0.1, 1.0),
    'kind = "halfspace"; normal = [[1, 2]]; offset = 1': prox.halfspace([[1, 2]], 1.0),
    'name = "mine"; diameter = 2': StatedProx("mine", 2),
}


def test_run_files():
    for lines, expected in READ.items():
        run = from_dict(tomllib.loads(RUN_FILE + lines.replace("; ", "\n")))
        assert run.prox == expected, lines


MISTAKES = """
kind = "bal"; radius = 2.0                              | kind      | ball
kind = 3                                                | kind      | 3
knd = 3                                                 | knd       | did you mean kind
kind = "ball"                                           | radius    | missing
kind = "ball"; raduis = 2.0                             | raduis    | did you mean radius
kind = "ball"; radius = 2.0; step_size = 1.0            | step_size | above the first table
kind = "ball"; radius = 2.0; name = "ball"              | name      | unknown key in [prox]
kind = "ball"; radius = 2.0; diameter = 3.9             | diameter  | at least
kind = "ball"; radius = 2.0; diameter = nan             | diameter  | nan
kind = "ball"; radius = "2"                             | radius    | number
kind = "ball"; radius = 1; center = ["1"]               | center    | real numbers
kind = "ball"; radius = 1; center = [[1], [1, 2]]       | center    | real numbers
kind = "ball"; radius = 1; center = {f8 = "!"}          | center    | base64
kind = "ball"; radius = 1; center = {}                  | center    | number
kind = "l1"; strength = 1; diameter = 5.0               | diameter  | unbounded
kind = "box"; lower = -1; upper = 1; diameter = 5.0     | diameter  | unbounded
kind = "box"; lower = -1; upper = 1; shape = 2.5        | shape     | integer
"""


def test_mistakes_in_run_files():
    for mistake in MISTAKES.strip().splitlines():
        lines, field, hint = (part.strip() for part in mistake.split("|"))
        table = tomllib.loads(RUN_FILE + lines.replace("; ", "\n"))
        assert hint in refused(field, from_dict, table), mistake
    table, deep = to_dict(run_with(prox.ball(1.0, np.ones((10, 10))))), 1.0
    table["prox"]["center"]["shape"] = [10, 11]
    assert "(10, 11), got 100" in refused("center", from_dict, table)
    for _ in range(600):
        deep = [deep]
    with pytest.raises(pabi.InvalidInput, match="center"):
        from_dict({**table, "prox": {"kind": "ball", "radius": 1, "center": deep}})


ODD = st.recursive(
    st.one_of(st.floats(), st.integers(), st.booleans(), st.none(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["f8", "shape"]), inner)
    ),
    max_leaves=5,
)


@given(st.sampled_from(sorted(prox.KINDS)), st.data())
@settings(deadline=None)
def test_odd_tables_are_refused_by_name_or_read(kind, data):
    names = [f.name for f in dataclasses.fields(prox.KINDS[kind])] + ["diameter"]
    table = {"kind": kind, **data.draw(st.dictionaries(st.sampled_from(names), ODD))}
    try:
        read = from_dict({**to_dict(run_with(None)), "prox": table})
    except pabi.InvalidInput as bad:
        refused = bad.field.removeprefix("prox.")
    else:
        refused = None
        assert from_dict(json.loads(json.dumps(to_dict(read), allow_nan=False))) == read
    assert refused in (None, *names)


DELTA = 1e-3


@pytest.fixture(scope="module")
def certified():
    return run_with(prox.ball(0.05)).guarantee(DELTA)


def test_the_diameter_counts_and_is_verified(certified):
    assert certified.mu < run_with(None).guarantee(DELTA).mu
    verdict = pabi.verify(certified.certificate.to_json())
    assert verdict.ok, verdict.reason
    assert verdict.scope == "run"
    assert any("ball(0.05) has diameter at most 0.1" in s for s in verdict.assumptions)
    for p in (prox.box(-0.02, 0.02, shape=4), prox.simplex(0.05)):
        assert run_with(p).guarantee(DELTA).mu < run_with(None).guarantee(DELTA).mu


def test_tampering_is_found(certified):
    for changes, ok in (
        ({"radius": 0.06}, False),  # and a stated diameter that is too small for it
        ({"radius": 0.06, "diameter": None}, False),
        ({"radius": 0.06, "diameter": 0.12}, False),
        ({"diameter": 0.09}, False),
        ({"kind": "l1"}, False),
        ({"kind": "box", "lower": -1.0, "upper": 1.0}, False),
        ({"radius": 0.04}, True),  # a smaller ball needs no new proof
    ):
        payload = copy.deepcopy(certified.certificate.payload)
        payload["run"]["prox"].update(changes)
        assert pabi.verify(payload).ok == ok, changes


def test_bad_input_names_the_field():
    negative = [-1.0, math.nan, INF, "1", None, True, [1]]
    positive = [0.0, -1.0, math.nan, INF]
    ragged = [[1.0], [1.0, 2.0]]
    for make, table in (
        (prox.l1, {"strength": negative}),
        (prox.l2, {"strength": [-1.0]}),
        (prox.nuclear_norm, {"strength": [math.nan]}),
        (partial(prox.elastic_net, l2=1.0), {"l1": [-1.0]}),
        (partial(prox.elastic_net, l1=1.0), {"l2": [math.nan]}),
        (prox.ball, {"radius": [*positive, 1e308, "1"]}),
        (partial(prox.ball, 1.0), {"center": [[math.nan, 1.0], [INF, 1.0], "here", [1j], ragged]}),
        (partial(prox.ball, 1e307), {"center": [[1.79e308]]}),
        (partial(prox.box, upper=1.0), {"lower": [2.0, [0.0, 2.0], math.nan, None]}),
        (partial(prox.box, upper=INF), {"lower": [INF]}),
        (partial(prox.box, upper=-INF), {"lower": [-INF]}),
        (partial(prox.box, 0.0), {"upper": [[1.0, math.nan]]}),
        (partial(prox.box, [0.0, 0.0]), {"upper": [[1.0, 1.0, 1.0]]}),
        (partial(prox.box, [0.0, 0.0], 1.0), {"shape": [3]}),
        (partial(prox.box, 0.0, 1.0), {"shape": [(2, 0), "3"]}),
        (prox.simplex, {"total": positive}),
        (partial(prox.halfspace, offset=1.0), {"normal": [[0.0, 0.0], [], [1.0, INF]]}),
        (partial(prox.halfspace, [1.0]), {"offset": [math.nan]}),
        (partial(prox.halfspace, [1e-300]), {"offset": [-1e300]}),
        (partial(prox.l1(1.0), [1.0]), {"step_size": [0.0, -1.0, math.nan, None]}),
        (partial(prox.elastic_net(1.0, 1.0), [1.0]), {"step_size": [0.0]}),
    ):
        refuses(make, table)
    refused("x", prox.simplex(), [], 1.0)


def test_complaints_about_an_iterate_do_not_show_it():
    secret = 8675309.0
    for p in (prox.nuclear_norm(1.0), prox.ball(1.0, [0.0]), prox.halfspace([1.0], 0.0)):
        assert "8675309" not in refused("x", p, [secret, 1.0], 1.0)
    for x in (["8675309.0"], [secret, None], [[secret], [1.0, 2.0]], [8675309.0j]):
        assert "8675309" not in refused("x", prox.ball(1.0), x, 1.0)
