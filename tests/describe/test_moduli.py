"""Moduli of continuity: values, the least linear slope, and what is refused."""

import dataclasses
import math
import pickle

import numpy as np
import pytest

import pabi
from pabi.account.facts.step_moduli import shapes
from pabi.describe.moduli import Linear, Minimum, Modulus, Sqrt, above_both, known_modulus
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused, refuses


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_linear_and_unbounded():
    modulus = Modulus.linear(0.75)
    assert isinstance(modulus, Modulus)
    assert modulus.linear == 0.75
    assert modulus(2.0) == 1.5
    assert isinstance(modulus(2.0), float)
    assert np.array_equal(modulus([0.0, 1.0, 4.0]), [0.0, 0.75, 3.0])
    assert modulus(np.ones((2, 3))).shape == (2, 3)
    assert Modulus.linear(0.0)(5.0) == 0.0
    assert not math.isnan(Modulus.linear(0.0)(math.inf))
    assert Modulus.linear(3.5)(math.inf) == math.inf
    assert Modulus.unbounded().linear is None
    assert np.array_equal(Modulus.unbounded()([0.0, 1e-300]), [0.0, math.inf])
    with pytest.raises(dataclasses.FrozenInstanceError):
        modulus.slope = 0.5


@every("modulus", [Modulus.linear(0.3), Modulus.linear(2.0), Modulus.unbounded()])
def test_zero_at_zero_and_nondecreasing(modulus):
    """ω(0) = 0, because distance zero means equality."""
    grid = np.concatenate([[0.0], np.logspace(-300, 300, 100)])
    values = modulus(grid)
    assert values[0] == 0.0
    assert np.all(values[1:] >= values[:-1])


def test_what_is_wrong_is_named():
    refuses(Modulus.linear, {"slope": [-1e-9, math.nan, math.inf, -math.inf]})
    for modulus in (Modulus.linear(1.0), Modulus.unbounded()):
        refuses(modulus, {"distance": [-1.0, math.nan, [0.0, -1e-300], [1.0, math.nan]]})
    for field, make, *given in (
        ("kappa", Modulus.sqrt, -1.0, 1.0),
        ("h", Modulus.sqrt, 1.0, math.nan),
        ("slope", Modulus.affine, -0.1, 1.0),
        ("shift", Modulus.affine, 1.0, -0.1),
        ("moduli", Modulus.minimum),
        ("moduli", Modulus.minimum, 1.0),
    ):
        refused(field, make, *given)


def test_square_roots_affine_functions_and_minima():
    root, affine = Modulus.sqrt(0.25, 4.0), Modulus.affine(0.5, 1.0)
    assert root(3.0) == pytest.approx(2.5, rel=1e-14)
    assert affine(3.0) == pytest.approx(2.5, rel=1e-14)
    assert root(0.0) == affine(0.0) == 0.0  # distance zero means equality
    assert root.linear is None
    assert affine.linear is None
    both = Modulus.minimum(root, affine, Modulus.linear(2.0))
    assert both.linear == 2.0
    grid = np.logspace(-6, 6, 50)
    np.testing.assert_array_equal(
        both(grid), np.minimum(np.minimum(root(grid), affine(grid)), 2 * grid)
    )


def test_degenerate_ones_are_linear():
    """And minima drop what never is the least."""
    linear, affine, minimum = Modulus.linear, Modulus.affine, Modulus.minimum
    assert Modulus.sqrt(4.0, 0.0)(1.5) == pytest.approx(3.0, rel=1e-15)
    assert Modulus.sqrt(1.0, 0.0) == linear(1.0)
    assert affine(0.5, 0.0) == linear(0.5)
    assert minimum(linear(1.0), Modulus.sqrt(1.0, 0.1)) == linear(1.0)
    assert minimum(Modulus.unbounded(), affine(1.0, 1.0)) == affine(1.0, 1.0)
    nested = minimum(minimum(linear(3.0), affine(1, 1)), linear(2))
    assert nested == minimum(affine(1.0, 1.0), linear(2.0))


SCALED = [Modulus.sqrt(0.3, 0.7), Modulus.affine(1.2, 0.1), Modulus.linear(0.9)]
SCALED += [Modulus.minimum(Modulus.linear(3.0), Modulus.sqrt(0.5, 1.0))]
SCALED += [Modulus.from_function(lambda d: d + math.log1p(d))]


@every("modulus", SCALED)
def test_scaling(modulus):
    grid = np.logspace(-3, 3, 20)
    np.testing.assert_allclose(modulus.scaled(0.7)(grid), 0.7 * modulus(grid), rtol=4e-15)
    assert modulus.scaled(0.0)(2.0) == 0.0


def test_functions_are_checked():
    assert Modulus.from_function(lambda d: 2.0 * d)(1.5) == 3.0
    for bad, words in (
        (lambda d: 1.0 / d, "never decreases"),
        (lambda d: -d, "values ≥ 0"),
        (lambda d: math.nan, "values ≥ 0"),
        (3.0, "a function of a distance"),
    ):
        with pytest.raises(InvalidInput, match=words) as error:
            Modulus.from_function(bad)
        assert error.value.field == "function"


class Flattering(Linear):
    """A linear modulus that says it contracts."""

    def least_slope(self):
        return 0.0


class Stranger(Modulus):
    def _evaluate(self, distance):
        return 0.0 * distance

    def least_slope(self):
        return 0.0

    def scaled(self, factor):
        return self


OWN = [Modulus.linear(0.5), Modulus.sqrt(1.0, 2.0), Modulus.affine(1.0, 2.0)]
OWN += [Modulus.minimum(Modulus.linear(2.0), Modulus.affine(0.5, 1.0)), Modulus.unbounded()]
OWN += [Modulus.from_function(math.sqrt)]


def iterated(moduli):
    steps = 2 if isinstance(moduli, Modulus) else None
    return pabi.NoisyIteration(moduli=moduli, step_sensitivity=1.0, step_noise_std=1.0, steps=steps)


TAKEN = {
    "as it is": known_modulus,
    "all steps": iterated,
    "one step": lambda modulus: iterated([Modulus.linear(1.0), modulus]),
    "a minimum": lambda modulus: Modulus.minimum(modulus, Modulus.linear(9.0)),
    "hidden in a minimum": lambda modulus: iterated(Minimum((modulus, Modulus.linear(9.0)))),
    "above both": lambda modulus: above_both(Modulus.linear(1.0), modulus),
    "above itself": lambda modulus: above_both(modulus, modulus),
    "pieces": lambda modulus: shapes([Modulus.linear(1.0), modulus]),
}


@every("modulus", [Flattering(1.0), Stranger()])
@every("how", TAKEN)
def test_moduli_from_elsewhere_are_refused(how, modulus):
    message = refused("moduli", TAKEN[how], modulus)
    assert "from_function" in message
    assert ("at step 2" in message) == (how == "one step")
    refused("moduli", iterated, 0.5)
    refused("moduli", Flattering(1.0).to_dict)


@every("modulus", OWN)
def test_own_moduli_are_known(modulus):
    assert known_modulus(modulus) is modulus
    assert iterated(modulus).moduli == modulus


@every("modulus", OWN[:-1])
def test_moduli_come_back_from_tables_representations_and_pickles(modulus):
    copies = (
        Modulus.from_dict(modulus.to_dict()),
        eval(repr(modulus), {"Modulus": Modulus}),
        pickle.loads(pickle.dumps(modulus)),
    )
    for copy in copies:
        assert copy == modulus
        assert hash(copy) == hash(modulus)


def test_moduli_of_different_kinds_differ():
    assert len({*OWN, Sqrt(1.0, 2.0)}) == len(OWN)
