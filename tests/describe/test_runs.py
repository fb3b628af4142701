"""Descriptions of runs of noisy SGD: steps, noise, sensitivity, and everything that is refused."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pabi.account.facts.positions import OrderedView
from pabi.describe.batches import Cyclic, FullBatch, Reshuffle, ShuffleOnce
from pabi.describe.files import from_dict, to_dict
from pabi.describe.iteration import Groups
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from support.every_case import every, refused, refuses

LOGISTIC = Loss.logistic(1.0)


def make(**changes):
    given_ = {"loss": LOGISTIC, "n": 100, "batches": Cyclic(10), "step_size": 0.1, "noise_std": 1.0}
    if "epochs" not in changes and "steps" not in changes:
        given_["epochs"] = 3
    return NoisySGD(**{**given_, **changes})


@every(
    ("n", "batches", "epochs", "cooldown", "steps"),
    [
        *((100, Cyclic(10), 3, 0, 30), (100, Cyclic(10), 3, 7, 37), (101, Cyclic(10), 3, 0, 33)),
        *((100, FullBatch(), 3, 2, 5), (100, Cyclic(100), 3, 0, 3), (100, Cyclic(1), 1, 0, 100)),
        *((100, ShuffleOnce(30), 2, 0, 8), (100, Reshuffle(30), 2, 1, 9)),
        *((100, Cyclic(10), 2.5, 0, 25), (100, Cyclic(10), 2.51, 0, 26)),
        *((100, Cyclic(20), 2.2, 0, 11), (100, Cyclic(10), 0.05, 0, 1)),
        (100, Cyclic(10), 1e-9, 3, 4),
    ],
)
def test_steps_follow_from_epochs(n, batches, epochs, cooldown, steps):
    run = make(n=n, batches=batches, epochs=epochs, cooldown_steps=cooldown)
    assert run.steps == steps
    assert run.data_steps == steps - cooldown
    assert run.cooldown_steps == cooldown


@given(st.integers(1, 60), st.integers(1, 10**6), st.integers(1, 500))
def test_whole_batches_stay_whole(per_epoch, batches, unit):
    """k batches given as k/l epochs are k steps, whatever k/l is in binary."""
    epochs = batches / per_epoch
    run = make(n=per_epoch * unit, batches=Cyclic(unit), epochs=epochs)
    assert run.steps_per_epoch == per_epoch
    assert run.steps == batches


def test_replace():
    run = make(cooldown_steps=4)
    replace = dataclasses.replace
    assert replace(run, epochs=5).steps == 54
    assert replace(run, n=50).steps == 19
    assert replace(run, batches=Cyclic(20)).steps == 19
    assert replace(run, cooldown_steps=0).steps == 30
    assert replace(run, epochs=None, steps=9).data_steps == 5
    assert replace(run, step_size=0.5).step_size == 0.5
    assert replace(run, noise_std=0.5).gradient_noise_std == 0.5
    assert replace(run, noise_std=None, noise_multiplier=2.0).gradient_noise_std < 0.2 + 1e-15
    assert replace(run, clip_norm=0.5).sensitivity == 1.0
    assert replace(run, loss=LOGISTIC.with_l2(0.5)).loss.l2 == 0.5
    assert replace(run) == run
    assert replace(run, epochs=4) != run
    by_steps = make(steps=20)
    assert replace(by_steps, steps=21).steps == 21
    assert replace(by_steps, steps=None, epochs=2).steps == 20
    assert replace(by_steps, noise_std=3.0).steps == 20
    assert replace(run, epochs=None).steps == run.steps  # what it was stays
    for bad in ({"steps": 9},):
        refused("epochs", replace, run, **bad)


def test_arrays_of_steps():
    sizes = np.linspace(0.1, 0.2, 34)
    run = make(cooldown_steps=4, step_size=sizes, noise_std=np.ones(34))
    assert not run.constant
    assert np.array_equal(run.step_size, sizes)
    sizes[0] = 9.0
    assert run.step_size[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        run.step_size[0] = 1.0
    assert make().constant
    assert dataclasses.replace(run) == run


@every("adjacency", ["replace_one", "zero_out"])
def test_sensitivity(adjacency):
    twice = 2.0 if adjacency == "replace_one" else 1.0
    assert make(adjacency=adjacency).sensitivity == twice  # the loss's own bound, 1
    assert make(adjacency=adjacency, clip_norm=0.25).sensitivity == 0.25 * twice
    assert make(adjacency=adjacency, clip_norm=4.0).sensitivity == twice
    assert make(adjacency=adjacency, gradient_sensitivity=0.3).sensitivity == 0.3
    unbounded = make(adjacency=adjacency, loss=Loss.convex(1.0), clip_norm=4.0)
    assert unbounded.sensitivity == 4.0 * twice


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.integers(1, 100))
def test_noise_multiplier(multiplier, clip, size):
    """ς = multiplier·C/size, rounded down by no more than a few units."""
    given_ = {"loss": Loss.convex(1.0), "batches": Cyclic(size), "clip_norm": clip}
    run = make(**given_, noise_std=None, noise_multiplier=multiplier)
    truth = Fraction(multiplier) * Fraction(clip) / size
    assert truth * (1 - Fraction(4, 2**52)) <= Fraction(run.gradient_noise_std) <= truth
    arrays = dataclasses.replace(run, noise_multiplier=np.full(run.steps, multiplier))
    assert np.all(arrays.gradient_noise_std <= float(truth))
    assert arrays.gradient_noise_std == pytest.approx(float(truth), rel=1e-15)


def test_noise_multiplier_stands_on_the_clip_norm_even_where_it_never_clips():
    run = make(noise_std=None, noise_multiplier=2.0, clip_norm=5.0)
    assert run.gradient_noise_std == pytest.approx(2.0 * 5.0 / 10)
    assert run.sensitivity == 2.0  # the gradients of this loss have norm at most 1
    run = make(noise_std=None, noise_multiplier=2.0)
    assert run.gradient_noise_std == pytest.approx(2.0 * 1.0 / 10)
    refused("noise_std", lambda: make(noise_std=None).gradient_noise_std)


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.integers(1, 100))
def test_step_constants_err_on_the_safe_side(eta, noise, bound, size):
    given_ = {"loss": Loss.convex(1.0), "batches": Cyclic(size), "gradient_sensitivity": bound}
    run = make(**given_, step_size=eta, noise_std=noise)
    s, sigma = (float(x[0]) for x in run.step_constants(np.array([eta]), np.array([noise])))
    exact_s, exact_sigma = Fraction(eta) * Fraction(bound) / size, Fraction(eta) * Fraction(noise)
    assert exact_s <= Fraction(s) <= exact_s * (1 + Fraction(3, 2**52))
    assert exact_sigma * (1 - Fraction(3, 2**52)) <= Fraction(sigma) <= exact_sigma


NOT_POSITIVE = [0.0, -1.0, -1e-300, math.nan, math.inf, -math.inf, "1", True, 1j]
NO_COUNTS = [-1, 2.5, math.nan, math.inf, "3", True]
REFUSED = {"clip_norm": NOT_POSITIVE, "gradient_sensitivity": NOT_POSITIVE}
REFUSED |= {"diameter": NOT_POSITIVE, "epochs": NOT_POSITIVE, "n": [0, *NO_COUNTS]}
REFUSED |= {"steps": [0, *NO_COUNTS], "cooldown_steps": NO_COUNTS}
REFUSED |= {"adjacency": ["replace", "", None, 1, "Replace_One"], "loss": ["logistic", None]}
REFUSED |= {"batches": [10, "cyclic"], "update": ["adam", None], "release": ["all"]}
REFUSED |= {"prox": [3, lambda x, step_size: x]}
REFUSED |= {"step_size": [None, [], [[0.1] * 30], np.ones((30, 1)), "0.1", ["x"] * 30, {}]}
MULTIPLIED = {"noise_std": None, "noise_multiplier": 1.0}
TOGETHER = [
    ("cooldown_steps", {"steps": 5, "cooldown_steps": 5}),
    ("cooldown_steps", {"steps": 5, "cooldown_steps": 6}),
    ("epochs", {"epochs": 1, "steps": 10}),
    ("epochs", {"epochs": None, "steps": None}),
    *(("epochs", {"epochs": x}) for x in (1e18, 1e300, 1e308)),  # steps that are no number any more
    ("noise_multiplier", {"noise_std": 1.0, "noise_multiplier": 1.0}),
    ("gradient_sensitivity", {"gradient_sensitivity": 1.0, "clip_norm": 1.0}),
    ("gradient_sensitivity", {"gradient_sensitivity": 1.0, **MULTIPLIED}),
    # Arrays cover the cool-down.
    ("step_size", {"cooldown_steps": 4, "step_size": np.ones(30)}),
    ("noise_std", {"cooldown_steps": 4, "noise_std": np.ones(30)}),
    ("step_size", {"steps": 30, "cooldown_steps": 4, "step_size": np.ones(26)}),
]


def test_what_is_wrong_is_named():
    refuses(make, REFUSED)
    for field, changes in TOGETHER:
        refused(field, make, **changes)
    assert make(cooldown_steps=0).steps == 30
    assert make(steps=5, cooldown_steps=4).data_steps == 1
    assert make(steps=30, cooldown_steps=4, step_size=np.ones(30)).steps == 30


@every("field", ["step_size", "noise_std", "noise_multiplier"])
def test_what_is_wrong_with_a_schedule_is_named(field):
    def with_it(value):
        return make(**{"noise_std": None} if field == "noise_multiplier" else {}, **{field: value})

    for value in NOT_POSITIVE:
        refused(field, with_it, value)
    for value in (0.0, -1.0, math.nan, math.inf):
        bad = np.ones(30)
        bad[17] = value
        assert "step 18" in refused(field, with_it, bad)
    for length in (1, 29, 31, 300):
        assert "30" in refused(field, with_it, np.ones(length))


def test_sizes_and_positions_that_are_none_are_named():
    for size in (0, -1, 101, 1000):
        refused("size", lambda size=size: make(batches=Cyclic(size)))
    for kind in (Cyclic, ShuffleOnce, Reshuffle):
        refuses(kind, {"size": [0, -5, 2.0, 2.5, math.nan, math.inf, "10", None, True]})
    for position in (-1, 10, 1.0, "0", True):
        refused("position", make().iteration, position)
    for batches in (ShuffleOnce(10), Reshuffle(10)):
        refused("position", make(batches=batches).iteration, 0)


@every("loss", [Loss.convex(1.0), Loss.nonconvex(1.0), Loss.unknown()])
def test_an_unbounded_gradient_is_refused_naming_clip_norm(loss):
    refused("clip_norm", make, loss=loss)
    refused("clip_norm", make, loss=loss, noise_std=None, noise_multiplier=1.0)
    assert make(loss=loss, clip_norm=1.0).sensitivity == 2.0
    assert make(loss=loss, gradient_sensitivity=1.5).sensitivity == 1.5


class Ball:
    def __init__(self, diameter):
        self.diameter = diameter

    def __call__(self, x, step_size):
        return x


def test_range_diameter():
    assert make().range_diameter == math.inf
    assert make(diameter=3.0).range_diameter == 3.0
    assert make(prox=Ball(2.0)).range_diameter == 2.0
    assert make(prox=Ball(None)).range_diameter == math.inf
    assert make(prox=Ball(2.0), diameter=1.0).range_diameter == 1.0
    assert make(prox=Ball(2.0), diameter=3.0).range_diameter == 2.0
    assert make(prox=Ball(2.0)).iteration().diameter == 2.0
    assert make().iteration().diameter is None


def test_rounding_is_written_where_there_is_some():
    exact, near = make(), make(rounding=1e-8)
    assert "rounding" not in to_dict(exact)
    assert to_dict(near) == to_dict(exact) | {"rounding": 1e-8}
    assert from_dict(to_dict(near)) == near != exact == make(rounding=0.0)
    for wrong in (-1e-9, 1.5, math.nan, "much", None, True):
        message = refused("rounding", make, rounding=wrong)
        assert message == f"rounding: expected a finite number ≥ 0 and ≤ 1, got {wrong!r}"
    assert "exact steps" in refused("rounding", near.iteration)


def test_iteration_of_each_position():
    run = make(n=35, epochs=2, loss=LOGISTIC.with_l2(0.5), cooldown_steps=2, adjacency="zero_out")
    for j in range(4):
        it = run.iteration(j)
        c, s, sigma = (np.asarray(x) for x in it.schedule.columns())
        assert it.steps == 10
        assert it.adjacency == "zero_out"
        assert np.flatnonzero(s).tolist() == [j, j + 4]
        assert s[j] == pytest.approx(0.1 * 1.0 / 10, rel=1e-15)
        assert sigma == pytest.approx(np.full(10, 0.1), rel=1e-15)
        # λ shrinks every step; curvature starts at 0.
        assert c == pytest.approx(np.full(10, 0.95), rel=1e-15)


def test_a_loss_of_which_nothing_is_known_still_has_an_iteration():
    run = make(loss=Loss.unknown(gradient_bound=1.0))
    with pytest.raises(NotApplicable):
        OrderedView(run).schedule(OrderedView(run).uses(0))
    it = run.iteration()
    assert np.all(np.isnan(np.asarray(it.slopes)))
    assert np.flatnonzero(it.step_sensitivity).tolist() == [9, 19, 29]


def test_iteration_takes_the_worst_position():
    """The last one processed where all steps are alike; found by solving where they are not."""
    run = make(steps=27)
    assert np.flatnonzero(np.asarray(run.iteration().step_sensitivity)).tolist() == [6, 16, 26]
    fields = {"epochs": 2, "step_size": np.array([1.0, 0.1, 0.09, 0.01]), "noise_std": 1.0}
    varying = NoisySGD(Loss.convex(1.0, gradient_bound=0.5), 2, Cyclic(1), **fields)
    assert np.flatnonzero(np.asarray(varying.iteration().step_sensitivity)).tolist() == [0, 2]


def test_a_thousand_million_steps_are_described_in_a_few_numbers():
    run = make(n=10**6, batches=Cyclic(1000), epochs=10**6)
    assert run.steps == 10**9
    schedule = run.iteration().schedule
    assert isinstance(schedule, Groups)
    assert schedule.steps == 10**9
    assert sum(len(group.stretches) for group in schedule) < 10
