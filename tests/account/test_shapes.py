"""Moduli of many steps as arrays, against the formulas of their parts at fifty digits."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import Modulus
from pabi.account.facts.step_moduli import shapes
from support.every_case import every

ROUNDINGS = 1e-14  # relative: a few of them
DISTANCES = [1e-12, 1e-3, 0.31, 1.0, 7.25, 1e3, 1e12]

constants = st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-6, 1e3))
# A modulus as the parts of which it is the least: the name of a constructor and its numbers.
part = st.one_of(
    st.tuples(st.just("linear"), constants),
    st.tuples(st.just("sqrt"), constants, st.floats(1e-6, 1e3)),
    st.tuples(st.just("affine"), constants, st.floats(1e-6, 1e3)),
    st.just(("unbounded",)),
)
parts = st.lists(part, min_size=1, max_size=4)


def built(stated):
    """The modulus of these parts, made by the public constructors."""
    return Modulus.minimum(*[getattr(Modulus, name)(*numbers) for name, *numbers in stated])


def truth(stated, distance):
    """Its value at a distance, from the formulas; mpmath."""
    if distance == 0.0:
        return mp.mpf(0)
    values = []
    for name, *numbers in stated:
        a, b = (mp.mpf(x) for x in (*numbers, 0.0, 0.0)[:2])
        line = a * distance if a else mp.mpf(0)
        root = mp.sqrt((a * mp.mpf(distance) ** 2 if a else 0) + b)
        values.append({"sqrt": root, "unbounded": mp.inf}.get(name, line + b))
    return min(values)


@settings(deadline=None)
@given(st.lists(parts, min_size=1, max_size=5))
def test_values_are_those_of_the_parts(moduli):
    """To a few roundings as arrays; one distance at a time never below the truth either."""
    shape = shapes([built(m) for m in moduli])
    assert shape.steps == len(moduli)
    distances = [0.0, *DISTANCES]
    found = shape.at(np.tile(distances, (len(moduli), 1)))
    for stated, row, omega in zip(moduli, found, shape.evaluators(), strict=True):
        assert row[0] == omega(0.0) == 0.0
        for z, value in zip(distances[1:], row[1:], strict=True):
            exact = truth(stated, z)
            if exact == mp.inf:
                assert value == omega(z) == math.inf
            else:
                assert abs(value - exact) <= ROUNDINGS * exact
                assert exact <= omega(z) <= exact * (1 + ROUNDINGS)
        assert omega(math.inf) >= truth(stated, math.inf)
        assert math.isinf(omega(math.inf)) == mp.isinf(truth(stated, math.inf))


@every("z", [5e-324, 1e-300, 0.1, 1.7e308])
def test_a_step_that_keeps_distances_is_evaluated_exactly(z):
    """No distance may grow by roundings alone, however many such steps there are."""
    (omega,) = shapes([Modulus.linear(1.0)]).evaluators()
    assert omega(z) == z


CURVES = {"linear": [("linear", 0.8)], "root": [("sqrt", 1.3, 0.4)]}
CURVES |= {"flat root": [("sqrt", 0.0, 0.4)], "affine": [("affine", 0.9, 0.2)]}
CURVES |= {"least of two": [("linear", 1.4), ("sqrt", 0.5, 0.3)]}
CURVES |= {"least of three": [("linear", 2.0), ("affine", 1.0, 0.1), ("sqrt", 0.6, 0.5)]}


@every("name", CURVES)
def test_jumps_and_slopes_are_those_of_the_curve(name):
    """ω(0+) > 0, or the least c with ω(δ) ≤ cδ everywhere, which the curve nearly attains."""
    stated = CURVES[name]
    shape = shapes([built(stated)])
    rises = [truth(stated, z) / z for z in (mp.mpf(10) ** k for k in range(-30, 6))]
    assert bool(shape.jumps[0]) == (truth(stated, mp.mpf(10) ** -30) > 1e-9)
    assert bool(shape.jumps[0]) == math.isnan(shape.slopes[0])
    if not shape.jumps[0]:
        assert max(rises) == pytest.approx(shape.slopes[0], rel=ROUNDINGS)
        at_zero = [float(x[0]) for x in shape.along(np.zeros(1))]
        assert at_zero == pytest.approx([0.0, shape.slopes[0], 0.0])
    else:
        assert max(rises) > 1e6
        assert [float(x[0]) for x in shape.along(np.zeros(1))] == [0.0, 0.0, 0.0]


def bent(z):
    return math.sqrt(1.1 * z * z + 0.25)


def test_functions_are_asked_and_never_known_to_vanish():
    moduli = [Modulus.linear(0.5), Modulus.from_function(bent), Modulus.linear(2.0)]
    shape = shapes(moduli)
    assert not shape.roots_only
    assert shape.jumps.tolist() == [False, True, False]
    assert np.isnan(shape.slopes).tolist() == [False, True, False]
    assert shape.at(np.full((3, 1), 2.0))[:, 0].tolist() == [1.0, bent(2.0), 4.0]
    one = shape.evaluators()[1]
    assert bent(2.0) <= one(2.0) <= bent(2.0) * (1 + ROUNDINGS)
    assert one(0.0) == 0.0
    assert one(math.inf) == math.inf
    value, first, _ = shape.along(np.full(3, 2.0))
    assert value[1] == bent(2.0)
    # A difference over a ten-thousandth of the distance: off by half of it times the second derivative.
    slope, bend = 2.2 / bent(2.0), 1.1 * 0.25 / bent(2.0) ** 3
    assert abs(first[1] - slope) <= 0.5 * 2e-4 * bend + 1e-9


def test_parts_of_a_run_and_other_units():
    """A piece of the steps is what those are by themselves; units that are powers of two lose nothing."""
    moduli = [*(built(stated) for stated in CURVES.values()), Modulus.from_function(bent)]
    whole = shapes(moduli)
    rng = np.random.default_rng(1)
    for first, end in [(0, 7), (2, 5), (4, 7), (6, 7)]:
        z = rng.uniform(0.0, 3.0, (end - first, 4))
        alone = shapes(moduli[first:end])
        assert np.array_equal(whole.between(first, end).at(z), alone.at(z))
        assert whole.between(first, end).steps == alone.steps == end - first
        assert np.array_equal(whole.between(first, end).jumps, alone.jumps)
    z = rng.uniform(0.0, 3.0, (7, 4))
    for unit in (2.0**-30, 2.0, 2.0**40):
        assert unit * whole.in_units_of(unit).at(z / unit) == pytest.approx(whole.at(z), rel=1e-15)


def test_roots_only():
    """Whether the closed form for √(κδ² + h) speaks of every step."""
    line = Modulus.linear(0.5)
    assert shapes([line, Modulus.sqrt(1.0, 0.3)]).roots_only
    for other in (
        Modulus.affine(1.0, 0.3),
        built(CURVES["least of two"]),
        Modulus.from_function(bent),
    ):
        assert not shapes([line, other]).roots_only
