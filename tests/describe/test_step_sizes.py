"""Step sizes given as a function of the step: the run is that of the numbers, and `replace` asks again."""

import copy
import inspect
import itertools
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.describe.files import from_dict, to_dict
from pabi.describe.updates import MOST_CALLS
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused

DELTA = 1e-5


def falling(k):
    return 0.5 / (1 + 0.01 * k)


def make(**changes):
    settings = {"loss": pabi.Loss.logistic(1.0, l2=0.01), "n": 1000, "batches": pabi.Cyclic(100)}
    settings |= {"noise_std": 0.05, "step_size": falling}
    if "steps" not in changes:
        settings["epochs"] = 3
    return pabi.NoisySGD(**settings | changes)


def numbers(steps):
    return np.array([falling(k) for k in range(steps)])


@every("changes", [{}, {"cooldown_steps": 4}, {"steps": 17}])
def test_the_run_is_that_of_the_numbers(changes):
    run = make(**changes)
    plain = make(**changes, step_size=numbers(run.steps))
    assert np.array_equal(run.step_size, numbers(run.steps))
    assert run == plain
    assert plain == run
    assert repr(run) == repr(plain)
    assert to_dict(run) == to_dict(plain)
    assert json.loads(json.dumps(to_dict(run))) == to_dict(run)
    assert from_dict(to_dict(run)) == run
    assert run.guarantee(DELTA).to_json() == plain.guarantee(DELTA).to_json()


def test_replacing_the_number_of_steps_asks_again():
    fewer = [{"epochs": 7}, {"epochs": 1}, {"epochs": None, "steps": 55}, {"cooldown_steps": 9}]
    for changes in (*fewer, {"batches": pabi.Cyclic(50)}, {"n": 3000}):
        run = replace(make(), **changes)
        assert run.steps != 30
        assert np.array_equal(run.step_size, numbers(run.steps))
        again = replace(run, epochs=None, steps=100)
        assert np.array_equal(again.step_size, numbers(100))


def test_replacing_step_sizes_forgets_the_function():
    run = replace(make(), step_size=0.25)
    assert replace(run, epochs=4).step_size == 0.25
    fixed = replace(make(), step_size=np.array(make().step_size))
    with pytest.raises(InvalidInput, match="^step_size: expected 40 entries"):
        replace(fixed, epochs=4)


@every("copied", [copy.copy, copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))])
def test_copies_and_pickles_hold_numbers(copied):
    """A lambda could not be pickled."""
    run = make(step_size=lambda k: falling(k))
    again = copied(run)
    assert again == run
    assert type(again.step_size) is np.ndarray
    with pytest.raises(InvalidInput, match="^step_size: expected 40 entries"):
        replace(again, epochs=4)


def test_what_is_computed_from_step_sizes_is_plain():
    sizes = make().step_size
    for value in (sizes * 2.0, sizes[3:5], np.sqrt(sizes), np.asarray(sizes), sizes.sum()):
        assert type(value) in (np.ndarray, np.float64)
    with pytest.raises(ValueError, match="read-only"):
        sizes[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        sizes += 1.0
    altered = sizes.copy()  # may be written to, and is nobody's function any more
    altered[3] = -1.0
    with pytest.raises(InvalidInput, match="^step_size: .* at step 4"):
        make(step_size=altered)


def test_every_step_is_asked_once():
    """So that what was accounted is what is returned, whatever the function does."""
    calls = []

    def random(k):
        calls.append(k)
        return 0.1 + 0.1 * np.random.default_rng().random()

    run = make(step_size=random)
    longer = replace(replace(run, noise_std=0.1), epochs=5)
    assert np.array_equal(replace(longer, epochs=3).step_size, run.step_size)
    assert np.array_equal(replace(run, epochs=5).step_size, longer.step_size)
    assert calls == list(range(50))


def test_epochs_and_size_are_calibrated_with_a_function():
    run = make(noise_std=0.1)
    shuffled = replace(run, batches=pabi.ShuffleOnce(100))
    for one, parameter in ((run, "epochs"), (run, "steps"), (run, "noise_std"), (shuffled, "size")):
        found = pabi.calibrate(one, 0.9, DELTA, parameter)
        assert found.guarantee(DELTA).epsilon(DELTA) <= 0.9
        assert np.array_equal(found.step_size, numbers(found.steps))
    most = pabi.calibrate(run, 0.9, DELTA, "epochs")
    longer = replace(most, epochs=most.epochs + 1)
    assert longer.guarantee(DELTA).epsilon(DELTA) > 0.9
    for field, changes in (
        ("step_size", {"step_size": numbers(30)}),
        ("noise_std", {"noise_std": np.full(30, 0.1)}),
    ):
        message = refused(field, pabi.calibrate, replace(run, **changes), 0.9, DELTA, "epochs")
        assert "given one per step" in message
        assert ("a function of the step" in message) == (field == "step_size")


def test_functions_that_give_no_step_sizes_are_refused():
    nothing = [lambda: 0.1, lambda *, k: 0.1, lambda k: "0.1", lambda k: None, lambda k: True]
    for function, mention in (
        *((function, "k = 0") for function in (*nothing, lambda k: 1j, lambda k: np.ones(2))),
        (lambda k, j: 0.1, "(k, j)"),
        (lambda k: 0.3 - 0.1 * k, "k = 3"),
        (lambda k: math.nan if k == 7 else 1.0, "k = 7, got nan"),
        (lambda k: math.inf if k == 29 else 1.0, "k = 29, got inf"),
        (lambda k: -0.0, "k = 0, got -0.0"),
    ):
        message = refused("step_size", make, step_size=function)
        assert message.startswith("step_size: expected")
        assert mention in message


class Scalar:
    """What schedules of other libraries return: an array of theirs without dimensions."""

    ndim = 0

    def item(self):
        return 0.1

    def __float__(self):
        return 0.1


def test_numbers_of_every_kind_are_taken():
    arrays = [lambda k: np.float64(0.1), lambda k: np.array(0.1), lambda k: Scalar()]
    for function in (*arrays, lambda k, a=2: 1, (1).__add__):
        run = make(step_size=function)
        assert run.step_size.dtype == np.float64
        assert run.step_size[2] == float(function(2))


def test_numbers_alone_reach_ten_to_the_eighteenth_step():
    asked = itertools.count()
    for steps in (MOST_CALLS + 1, 10**18):
        with pytest.raises(InvalidInput, match=f"{steps} steps.*{MOST_CALLS}"):
            make(steps=steps, step_size=lambda k: 0.1 + 0 * next(asked))
    assert next(asked) == 0
    assert make(steps=10**18, step_size=0.1).steps == 10**18


def test_numbers_of_other_libraries_are_numbers():
    """Those of JAX and PyTorch are arrays of no dimension."""

    class Number:
        def __array__(self, dtype=None, copy=None):
            return np.array(0.25, dtype=dtype)

    assert type(make(step_size=Number()).step_size) is float
    assert make(step_size=Number()) == make(step_size=0.25)


def test_keywords_of_other_libraries_are_answered():
    for keyword, value, *mentions in (
        ("momentum", 0.8, "update=pabi.updates.Momentum(0.8)", "composition"),
        ("nesterov", True, "Momentum(0.9, nesterov=True)", "composition"),
        ("dampening", 0.1, "Momentum", 'update="other"'),
        ("weight_decay", 0.01, "loss.with_l2(0.01)"),
        ("lr", 0.1, "step_size=0.1"),
        ("learning_rate", np.ones((9, 9)), "step_size="),
        ("batch_size", 32, "batches=pabi.Reshuffle(32)"),
        ("max_grad_norm", 1.5, "clip_norm=1.5"),
        ("l2_norm_clip", 1.5, "clip_norm=1.5"),
        ("num_steps", 7, "steps=7"),
        ("num_epochs", 7, "epochs=7"),
        ("optimizer", "adam", "pabi.updates.Adam()"),
        ("delta", 1e-5, "run.guarantee(delta=1e-05)"),
        ("epsilon", 2.0, "pabi.calibrate(run, epsilon=2.0"),
    ):
        for message in (
            refused(keyword, make, **{keyword: value}),
            refused(keyword, replace, make(), **{keyword: value}),
        ):
            assert all(mention in message for mention in mentions)


def test_keywords_of_other_schemes_and_targets_are_answered():
    for scheme in (pabi.Reshuffle, pabi.Poisson, pabi.Cyclic):
        assert "write size=32" in refused("batch_size", scheme, batch_size=32)
    assert "spare=" in refused("drop_last", pabi.Reshuffle, 32, drop_last=True)
    assert "epsilon=1.5" in refused("target_epsilon", pabi.calibrate, make(), target_epsilon=1.5)


def test_other_names_get_pythons_words():
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        make(epoch=3)
    names = inspect.signature(pabi.NoisySGD).parameters
    assert not any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in names.values())
    assert {"loss", "step_size", "clip_norm"} < set(names)
