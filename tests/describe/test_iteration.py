"""Noisy iterations in normal form: what is stored, what is derived, what is refused."""

import dataclasses
import math

import numpy as np
import pytest

from pabi.describe.iteration import MAX_ARRAY, Column, Group, Groups, NoisyIteration, Steps, Stretch
from pabi.describe.moduli import Modulus
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused, refuses


def arrays(**changes):
    given = {"contraction": [0.9, 1.1, 1.0], "step_sensitivity": [0.0, 1.0, 0.5]}
    given |= {"step_noise_std": [1.0, 0.0, 2.0]}
    return NoisyIteration(**{**given, **changes})


def test_arrays():
    c = np.array([0.9, 1.1, 1.0])
    it = arrays(contraction=c)
    c[0] = 0.0  # a copy of it is kept, which cannot be changed
    with pytest.raises(ValueError, match="read-only"):
        it.contraction[0] = 0.0
    assert (it.steps, it.adjacency, it.diameter, it.start) == (3, "replace_one", None, 0.0)
    assert isinstance(it.schedule, Steps)
    assert np.array_equal(it.schedule, [[0.9, 1.1, 1.0], [0.0, 1.0, 0.5], [1.0, 0.0, 2.0]])
    mixed = arrays(contraction=0.5).schedule
    assert np.array_equal(mixed, [[0.5, 0.5, 0.5], [0.0, 1.0, 0.5], [1.0, 0.0, 2.0]])


def test_scalars_need_the_number_of_steps():
    it = NoisyIteration(0.9, np.float64(1.0), np.array(2.0), steps=7)
    assert it.schedule == Groups((Group(7, (Stretch(1, 0.9, 1.0, 2.0),)),))
    assert it.schedule.steps == 7
    refused("steps", NoisyIteration, 0.9, 1.0, 2.0)


def test_moduli():
    given = {"step_sensitivity": 1.0, "step_noise_std": 1.0}
    it = NoisyIteration(moduli=[Modulus.linear(0.5), Modulus.unbounded()], **given)
    assert it.steps == 2
    assert it.slopes[0] == 0.5
    assert math.isnan(it.slopes[1])
    one = NoisyIteration(moduli=Modulus.linear(0.25), **given, steps=4)
    assert (one.slopes, one.schedule.steps) == (0.25, 4)


def test_replace():
    it = arrays()
    assert dataclasses.replace(it, diameter=2.0).diameter == 2.0
    assert dataclasses.replace(it, adjacency="zero_out").adjacency == "zero_out"
    assert dataclasses.replace(it, step_sensitivity=[1.0, 1.0, 1.0]).schedule.s[0] == 1.0
    assert dataclasses.replace(NoisyIteration(0.9, 1.0, 2.0, steps=7), steps=9).schedule.steps == 9
    assert it == dataclasses.replace(it)
    assert it != dataclasses.replace(it, start=1.0)
    assert it != "something else"


NUMBERS = [-1e-9, math.nan, math.inf, -math.inf]
SHAPES = [[1.0, 1.0], [1.0] * 4, [], [[1.0, 1.0, 1.0]], "abc", ["a"] * 3]
WRONG = {"diameter": [0.0, -1.0, math.nan, math.inf], "start": [-1.0, math.nan, math.inf]}
WRONG |= {"adjacency": ["replace", None], "steps": [0, 3.0, True], "step_noise_std": [None]}
WRONG |= {"step_sensitivity": [None], "contraction": [None]}
MODULI = [Modulus.linear(1.0)] * 3


@every("field", ["contraction", "step_sensitivity", "step_noise_std"])
def test_what_is_wrong_with_a_column_is_named(field):
    alike = {"contraction": 1.0, "step_sensitivity": 1.0, "step_noise_std": 1.0, "steps": 3}
    for value in NUMBERS:
        bad = np.array(getattr(arrays(), field))
        bad[1] = value
        assert "step 2" in refused(field, arrays, **{field: bad})
        refused(field, NoisyIteration, **{**alike, field: value})
    for shape in SHAPES:
        refused(field, arrays, **{field: shape}, steps=3)


def test_what_is_wrong_is_named():
    refuses(arrays, WRONG)
    refused("contraction", arrays, moduli=MODULI)
    refused("moduli", arrays, contraction=None, moduli=[Modulus.linear(1.0), 0.5, 0.5])
    refused("moduli", arrays, contraction=None, moduli=MODULI[:2], steps=3)


def test_lengths_that_disagree_are_refused():
    columns = {"moduli": MODULI[:2], "step_sensitivity": [1.0] * 3, "step_noise_std": 1.0}
    for make, given in (
        (arrays, {"step_noise_std": [1.0, 1.0]}),
        (NoisyIteration, columns),
        (arrays, {"steps": 4}),
    ):
        with pytest.raises(InvalidInput) as error:
            make(**given)
        assert error.value.field in ("moduli", "contraction", "step_sensitivity", "step_noise_std")


MIDDLE = Group(3, (Stretch(1, 0.8, 1.0, 2.0), Stretch(2, 0.7, 0.0, 3.0)))
ENDS = (Group(1, (Stretch(2, 0.9, 0.0, 1.0),)), Group(1, (Stretch(1, 0.6, 1.0, 4.0),)))
GROUPS = Groups((ENDS[0], MIDDLE, ENDS[1]))


def test_columns_write_out_the_schedule():
    c, s, sigma = GROUPS.columns()
    assert GROUPS.steps == len(c) == 12
    assert c.shape == (12,)
    assert np.array_equal(c, [0.9, 0.9] + [0.8, 0.7, 0.7] * 3 + [0.6])
    assert np.array_equal(s, [0.0, 0.0] + [1.0, 0.0, 0.0] * 3 + [1.0])
    assert np.array_equal(sigma, [1.0, 1.0] + [2.0, 3.0, 3.0] * 3 + [4.0])
    assert c[2] == 0.8
    assert np.array_equal(c[-2:], [0.7, 0.6])
    assert c == GROUPS.columns()[0] != s
    assert [n for n, _ in GROUPS.stretches()] == [2, 3, 6, 1]
    it = NoisyIteration(c, s, sigma, diameter=2.0)
    assert isinstance(it.contraction, Column)
    assert it.schedule is dataclasses.replace(it, diameter=3.0).schedule is GROUPS


def test_a_schedule_too_long_to_write_out_is_refused():
    groups = Groups((Group(MAX_ARRAY + 1, (Stretch(1, 1.0, 0.0, 1.0),)),))
    refused("steps", np.asarray, groups.columns()[0])
