"""What stands in the controls and the description that it means say the same."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pabi
from pabi.cli.explorer.state import (
    BEGINNINGS,
    BESIDES,
    CONTROLS,
    differences,
    label_of,
    number,
    page,
    read,
    state_of,
    whole,
)
from pabi.describe.files import to_dict
from pabi.describe.losses import KINDS
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import exact
from support.every_case import every, refused

LOGISTIC = pabi.Loss.logistic(1.0, l2=0.01)


def run(**changes):
    usual = {"n": 60_000, "batches": pabi.Cyclic(1500), "epochs": 50, "step_size": 0.5}
    return pabi.NoisySGD(changes.pop("loss", LOGISTIC), **usual | {"noise_std": 0.01} | changes)


RUNS = {
    "usual": run(),
    "steps": run(epochs=None, steps=77),
    "multiplier": run(noise_std=None, noise_multiplier=2.0, clip_norm=0.5),
    "no noise yet": run(noise_std=None),
    "schedule": run(epochs=None, steps=4, step_size=np.array([0.5, 0.4, 0.3, 0.2])),
    "noise schedule": run(epochs=None, steps=2, noise_std=np.array([0.5, 0.4])),
    "prox": run(prox=pabi.prox.ball(2.0)),
    "cool-down": run(cooldown_steps=40),
    "path": run(release="path", adjacency="zero_out"),
    "user": run(unit="user"),
    "momentum": run(update=pabi.updates.Momentum(0.9)),
    "sensitivity": run(gradient_sensitivity=1.5),
    "coordinates": run(clip_norm=0.1, clipping="coordinates"),
    "poisson": run(batches=pabi.Poisson(1500, cap=2000)),
    "poisson with its own probability": run(batches=pabi.Poisson(1500, probability=0.03)),
    "full batches": run(batches=pabi.FullBatch(), diameter=3.0),
    "softmax": run(loss=pabi.Loss.softmax(2.0, l2=0.1, residual_cap=0.5)),
    "no regulariser": run(loss=pabi.Loss.logistic(1.0)),
    "stated flags": run(loss=pabi.Loss.convex(1.0, gradient_bound=2.0, glm=True)),
    "kinds of its own": run(loss=pabi.Loss.weakly_smooth([(0.5, 1.0)], gradient_bound=1.0)),
    "unknown": run(loss=pabi.Loss.unknown(), clip_norm=1.0),
    "huber": run(loss=pabi.Loss.huber(1.0, 0.5)),
}


@every("name", RUNS)
def test_a_run_goes_into_the_controls_and_comes_back(name):
    description = RUNS[name]
    state = state_of(description, 1e-6)
    assert all(isinstance(text, str) for text in state.values())
    picked = read(state)
    assert to_dict(picked.description) == to_dict(description)
    assert picked.delta == 1e-6
    assert not picked.rest
    # A run replaces another one in the page: what stood in a control that means nothing now stays
    # there.
    stale = {"threshold": "oops", "classes": "?", "size": "7", "cap": "9999"}
    state = state_of(RUNS[name], 1e-6)
    kept = {k: v for k, v in stale.items() if k not in state}
    assert to_dict(read(kept | state).description) == to_dict(RUNS[name])


def test_other_descriptions_nothing_at_all_and_schedules():
    given = {"inverse_temperature": 1000.0, "step_size": 1e-4, "steps": 50}
    chain = pabi.LangevinChain(LOGISTIC, n=1000, **given)
    picked = read(state_of(chain, 1e-5))
    assert picked.rest
    assert to_dict(picked.description) == to_dict(chain)
    assert to_dict(read({}).description) == to_dict(run())
    assert read({}).delta == 1e-5
    linear, root = (read({"schedule": s}).description.step_size for s in ("linear", "root"))
    assert linear[0] == root[0] == 0.5
    assert linear[-1] == pytest.approx(0.05)
    np.testing.assert_allclose(root, 0.5 / np.sqrt(np.arange(2000) + 1.0))
    assert np.all(np.diff(linear) < 0.0)
    assert np.all(np.diff(root) < 0.0)


@every("kind", [value for value, _ in CONTROLS[0].choices])
def test_every_loss_of_the_list_is_one(kind):
    """Its parameters are offered, and what stands in them at first is accepted."""
    assert read({"loss": kind, "clip_norm": "1"}).description.loss.kind == kind
    assert set(KINDS[kind].required) <= {c.name for c in CONTROLS if c.table == "loss"}


@every("name", BEGINNINGS)
def test_the_page_begins_with_runs_of_its_own_controls(name):
    begun = read(BEGINNINGS[name])
    assert {c.name for c in CONTROLS} >= set(BEGINNINGS[name])
    assert (begun.description.loss.kind == "unknown") == (name == "a network")
    assert math.isfinite(begun.description.guarantee(begun.delta).epsilon(begun.delta))


@every("choice", [(c.name, v) for c in CONTROLS if c.kind == "choice" for v, _ in c.choices])
def test_every_choice_is_accepted(choice):
    name, value = choice
    softmax = {"loss": "softmax"} if value == "ball" else {}
    read({"clip_norm": "0.5"} | softmax | {name: value})


@every(
    ("state", "control"),
    [
        *(({"noise": "abc"}, "noise"), ({"n": "1.5"}, "n"), ({"size": "70000"}, "size")),
        *(({"further": "a = "}, "further"), ({"further": "nois_std = 1"}, None)),
        ({"further": 'kind = "x"'}, "further"),
        *(({name: ""}, name) for name in ("size", "epochs", "n")),
        *(({name: text}, name) for name in ("noise", "step_size", "delta") for text in ("0", "-1")),
        *(
            ({"delta": "1"}, "delta"),
            ({"feature_norm": "-2"}, "feature_norm"),
            ({"l2": "-1"}, "l2"),
        ),
        *(({"loss": "<script>"}, "loss"), ({"adjacency": "add_or_remove_one"}, "adjacency")),
        *(({"further": 'kind = "langevin_chain"'}, "further"), ({"n": 7}, "n")),
    ],
)
def test_mistakes_name_the_control(state, control):
    with pytest.raises(InvalidInput) as problem:
        read(state)
    assert label_of(problem.value.field)[0] == control
    assert "\n" not in str(problem.value)


def test_controls_have_names_labels_and_meanings_of_their_own():
    before, after = state_of(run(), 1e-5), state_of(run(batches=pabi.ShuffleOnce(1500)), 1e-5)
    assert differences(before, after) == "batches: shuffled once, secretly"
    assert differences(before, before) == ""
    longer = state_of(run(epochs=60, cooldown_steps=4), 1e-5)
    assert differences(before, longer) == "epochs: 60; cool-down steps: 4"
    every = [*CONTROLS, *BESIDES]
    assert len({c.name for c in every}) == len(every)
    assert all(c.label for c in every)
    shown = {c.name: c for c in every}
    for c, other in itertools.product(every, shown.values()):
        if any(name == other.name for name, _ in c.only):
            values = next(values for name, values in c.only if name == other.name)
            assert set(values) <= {value for value, _ in other.choices}
    assert {c["name"] for group in page().values() for c in group} == set(shown)


# Numbers as people type them: read, or refused in a sentence, never misread.


@every(
    ("text", "value"),
    [
        *(("0.5", 0.5), ("0,5", 0.5), (",5", 0.5), ("1e-5", 1e-5), ("1E-5", 1e-5)),
        *(("0,001", 0.001), ("60 000", 60000.0), ("60\u202f000,5", 60000.5), ("1_000", 1000.0)),
        *(("+2", 2.0), ("−3", -3.0), ("1,5e-3", 0.0015), ("12,5", 12.5)),
        *(("1'000", 1000.0), ("1,0000", 1.0)),
    ],
)
def test_numbers(text, value):
    assert number("noise", text) == value


NO_NUMBERS = [
    *("", "x", "1.2.3", "1,2,3", "1.000,5", "1,000.5", "nan", "inf", "-inf", "1e999", "0x10"),
    *("1e", "--1", "½", "١", "1" * 100, "<b>1</b>", "1;2", "1,5,0"),
]
THOUSANDS = ["1.000", "50.000", "1.000.000"]
# A thousand to some, one to others; a guess would be a promise about another run.
IN_TWO_WAYS = ["1,000", "60,000", "1,500,000", "-2,500"]


@every("text", NO_NUMBERS + THOUSANDS + IN_TWO_WAYS)
def test_what_is_no_number(text):
    said = refused("noise", number, "noise", text)
    assert len(said) < 250
    assert text not in IN_TWO_WAYS or text.replace(",", "").lstrip("-") in said


@every(
    ("text", "value"), [("60000", 60000), ("60 000", 60000), ("6e4", 60000), ("0", 0), ("12.0", 12)]
)
def test_whole_numbers(text, value):
    found = whole("n", text)
    assert found == value
    assert type(found) is int


FRACTIONS = ["1.5", "1,5", "5,0", "a", "", "1e400", "²", "1.500", "12.345"]


@every("text", FRACTIONS + THOUSANDS + IN_TWO_WAYS)
def test_what_is_no_whole_number(text):
    refused("n", whole, "n", text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_that_is_written_is_read_as_the_same(value):
    assert number("noise", exact(value)) == value


@given(st.floats(min_value=0.0, max_value=1e15, allow_nan=False))
def test_a_comma_is_a_point_or_refused(value):
    """Never anything else."""
    text = exact(value).replace(".", ",")
    try:
        found = number("noise", text)
    except InvalidInput:
        assert len(text.partition(",")[2]) == 3
    else:
        assert found == value
