"""What is released and what is taken from callables, against rational arithmetic."""

import math
import traceback
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pabi import InvalidInput
from pabi.execute.hiding import mapped, on_grid, released, returned, starting_point, unseen
from support.every_case import every

SECRET = 616263.25  # no message shows it

noise = st.floats(-200.0, 200.0).map(lambda x: 10.0**x)


@given(noise, st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5))
def test_releases_are_multiples_of_a_fine_grid(noise_std, factors):
    """A power of two above 2⁻²⁰ of the noise and at most twice that; each number moves by half of it."""
    x = np.array(factors) * noise_std
    found = on_grid(x, noise_std)
    # The largest power of two that is at most 2⁻¹⁹ of the noise.
    limit = Fraction(noise_std) / 2**19
    grid = Fraction(2) ** (limit.numerator.bit_length() - limit.denominator.bit_length() + 1)
    while grid > limit:
        grid /= 2
    assert limit / 2 < grid <= limit
    for before, after in zip(x.tolist(), found.tolist(), strict=True):
        assert (Fraction(after) / grid).denominator == 1
        assert abs(Fraction(after) - Fraction(before)) <= grid / 2


@every("noise_std", [0.0, 1e-290, 1e290])
def test_without_a_grid_within_the_doubles_nothing_is_rounded(noise_std):
    x = np.array([0.1, -3.0])
    assert np.array_equal(on_grid(x, noise_std), x)


@every(
    "x0", [0.0, [1, 2], [[1.0, 2.0]], np.float32(0.5), np.array([1, 2], dtype=np.int8), [True], []]
)
def test_a_start_is_a_copy_as_float64(x0):
    found = starting_point(x0)
    assert found.dtype == np.float64
    assert np.array_equal(found, x0)
    assert not np.shares_memory(found, np.asarray(x0))


@every("value", [np.ones((2, 3)), [[1, 1, 1], [1, 1, 1]], np.ones((2, 3), np.uint8)])
def test_what_a_callable_returns_becomes_float64(value):
    found = returned("f", value, (2, 3))
    assert found.dtype == np.float64
    assert np.array_equal(found, np.ones((2, 3)))


def gradients(value):
    return returned("gradients", value, (2, 3))


def prox(value):
    return mapped(value, (3,))


def x0(value):
    return starting_point(value)


@every(
    "read, value, said",
    [
        (x0, None, "missing"),
        *((x0, value, "an array of numbers, got a") for value in ("a", [1.0, "x"], {"a": 1})),
        (x0, [[1.0], [1.0, 2.0]], "an array of numbers, got a list"),
        *((x0, [SECRET, odd], "finite numbers") for odd in (math.nan, math.inf)),
        (gradients, np.full((3, 2), SECRET), "shape (2, 3), got (3, 2)"),
        (gradients, SECRET, "shape (2, 3), got ()"),
        (gradients, np.full((2, 3), SECRET * 1j), "real numbers, got dtype complex128"),
        (gradients, np.ones((2, 3), bool), "real numbers, got dtype bool"),
        (gradients, [[SECRET] * 3, [SECRET]], "an array of shape (2, 3)"),
        (gradients, np.full((2, 3), "616263"), "real numbers, got dtype <U6"),
        (gradients, None, "real numbers, got dtype object"),
        *((gradients, [[SECRET] * 3, [1.0, 2.0, odd]], "finite") for odd in (math.nan, -math.inf)),
        *((prox, odd, "keep the shape (3,), got") for odd in (np.ones(2), np.ones((3, 1)), None)),
        *((prox, odd, "return an array of shape (3,)") for odd in ("x", [1.0, [2.0], 3.0])),
    ],
)
def test_refusals_say_shape_and_kind_and_no_value(read, value, said):
    with pytest.raises(InvalidInput) as caught:
        read(value)
    assert caught.value.field == read.__name__
    assert said in str(caught.value)
    assert "616263" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_map_may_return_any_array_of_numbers():
    assert mapped([1, 2, 3], (3,)).tolist() == [1.0, 2.0, 3.0]


def test_what_is_returned_is_passed_on():
    thing = object()
    assert unseen(lambda: thing) is thing
    values = released(lambda: np.arange(3.0))
    assert values.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 1.0


@every("how", [unseen, released])
def test_no_floating_point_warning_reports_on_a_hidden_number(how):
    """Outside they are as before."""
    outside = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = how(lambda: np.array([1.0, -1.0]) / np.zeros(2) + np.exp(np.full(2, 1e9)))
        assert np.isinf(found[0])
        with pytest.warns(RuntimeWarning):
            np.array([1.0]) / np.zeros(1)
    assert np.geterr() == outside


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_errors_of_every_kind_pass_with_empty_frames(error):
    def inner():
        hidden = np.full(2, SECRET)
        raise error if hidden.any() else None

    with pytest.raises(type(error)) as caught:
        unseen(inner)
    assert caught.value is error
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    (own,) = [frame for frame in frames if frame.f_code.co_name == "inner"]
    assert own.f_locals == {}
