"""Moduli of continuity: values, the least linear slope, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pabi.errors import InvalidInput
from pabi.moduli import Linear, Modulus, Unbounded


def test_linear():
    modulus = Modulus.linear(0.75)
    assert isinstance(modulus, Modulus)
    assert modulus.linear == 0.75
    assert modulus(2.0) == 1.5
    assert isinstance(modulus(2.0), float)
    assert np.array_equal(modulus([0.0, 1.0, 4.0]), [0.0, 0.75, 3.0])
    assert modulus(np.ones((2, 3))).shape == (2, 3)


def test_linear_at_the_border():
    assert Modulus.linear(0.0)(5.0) == 0.0
    assert Modulus.linear(1).linear == 1.0
    assert Modulus.linear(3.5)(math.inf) == math.inf


def test_unbounded():
    modulus = Modulus.unbounded()
    assert modulus.linear is None
    assert modulus(0.0) == 0.0
    assert modulus(1e-300) == math.inf
    assert np.array_equal(modulus([0.0, 2.0]), [0.0, math.inf])


@pytest.mark.parametrize("modulus", [Modulus.linear(0.3), Modulus.linear(2.0), Modulus.unbounded()])
def test_zero_at_zero_and_nondecreasing(modulus):
    """ω(0) = 0, because distance zero means equality."""
    grid = np.concatenate([[0.0], np.logspace(-300, 300, 100)])
    values = modulus(grid)
    assert values[0] == 0.0
    assert np.all(values[1:] >= values[:-1])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_zero_slope_at_infinity_is_not_nan():
    assert not math.isnan(Modulus.linear(0.0)(math.inf))


@pytest.mark.parametrize("slope", [-1e-9, math.nan, math.inf, -math.inf])
def test_bad_slopes_are_refused(slope):
    with pytest.raises(InvalidInput) as error:
        Modulus.linear(slope)
    assert error.value.field == "slope"


@pytest.mark.parametrize("distance", [-1.0, math.nan, [0.0, -1e-300], [1.0, math.nan]])
@pytest.mark.parametrize("modulus", [Modulus.linear(1.0), Modulus.unbounded()])
def test_bad_distances_are_refused(modulus, distance):
    with pytest.raises(InvalidInput) as error:
        modulus(distance)
    assert error.value.field == "distance"


def test_equality_and_representation():
    assert Modulus.linear(0.5) == Linear(0.5)
    assert hash(Modulus.linear(0.5)) == hash(Linear(0.5))
    assert Modulus.linear(0.5) != Modulus.linear(0.25)
    assert Modulus.unbounded() == Unbounded()
    assert Modulus.unbounded() != Modulus.linear(1.0)
    assert eval(repr(Modulus.linear(0.1)), {"Modulus": Modulus}) == Modulus.linear(0.1)
    assert eval(repr(Modulus.unbounded()), {"Modulus": Modulus}) == Unbounded()
