"""Clipping and row by row products, against rational arithmetic.

That no norm ever exceeds its bound is tested with the engine, for vectors of every size; here is how much
clipping takes away, and that rows do not depend on their neighbours.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import InvalidInput
from pabi.execute.clipping import by_row, clip_coordinates, clip_norms, refuse_small

UNIT = Fraction(1, 2**53)
entries = st.floats(-1e6, 1e6)
vectors = st.integers(1, 6).flatmap(
    lambda d: st.lists(st.lists(entries, min_size=d, max_size=d), min_size=1, max_size=5)
)
bounds = st.floats(-6.0, 6.0).map(lambda x: 10.0**x)


def squared(vector):
    return sum(Fraction(float(x)) ** 2 for x in np.ravel(vector))


@settings(deadline=None)
@given(vectors, bounds)
def test_norms_are_clipped_by_no_more_than_is_said(rows, bound):
    """The exact clip to a bound smaller by (d + 16)·2⁻⁵³, but for a few units of the product."""
    given_ = np.array(rows)
    found = clip_norms(given_, bound)
    d = given_.shape[1]
    for x, y in zip(given_, found, strict=True):
        least = min(squared(x), (Fraction(bound) * (1 - (2 * d + 24) * UNIT)) ** 2)
        assert least <= squared(y) <= Fraction(bound) ** 2
        if squared(x) <= (Fraction(bound) * (1 - (2 * d + 24) * UNIT)) ** 2:
            assert np.array_equal(x, y)
        # The direction stays: all entries shrink by one factor.
        shrink = math.sqrt(squared(y) / squared(x)) if x.any() else 1.0
        assert y == pytest.approx(x * shrink, rel=1e-14, abs=bound * 1e-315)


@given(vectors, bounds)
def test_coordinates_are_clipped_one_by_one(rows, bound):
    """To ±bound/√d, less a few units; what is within stays."""
    given_ = np.array(rows)
    found = clip_coordinates(given_, bound)
    d = given_.shape[1]
    low = (Fraction(bound) * (1 - 8 * UNIT)) ** 2 / d
    for x, y in zip(given_.ravel().tolist(), found.ravel().tolist(), strict=True):
        if Fraction(x) ** 2 <= low:
            assert x == y
        else:
            assert low <= Fraction(y) ** 2 <= Fraction(bound) ** 2 / d
            assert (x > 0) == (y > 0)


@pytest.mark.parametrize("clip", [clip_norms, clip_coordinates])
def test_gradients_of_any_shape_are_clipped_as_vectors(clip):
    """The norm is over everything but the first axis."""
    rng = np.random.default_rng(1)
    flat = rng.standard_normal((5, 12)) * 3.0
    found = clip(flat, 1.0)
    for shape in ((5, 12, 1), (5, 3, 4), (5, 2, 3, 2)):
        assert np.array_equal(clip(flat.reshape(shape), 1.0).reshape(5, 12), found)
    scalars = np.array([-3.0, 0.5, 2.0])
    assert clip(scalars, 1.0) == pytest.approx([-1.0, 0.5, 1.0], rel=1e-14)


@pytest.mark.parametrize("clip", [clip_norms, clip_coordinates])
def test_vectors_without_entries_stay_so(clip):
    assert clip(np.zeros((4, 0)), 1.0).shape == (4, 0)


@pytest.mark.parametrize("bound", [0.0, -1.0, 1e-291, 5e-324, math.nan])
def test_bounds_that_scaling_would_exceed_are_refused(bound):
    for check in (refuse_small, lambda b: clip_norms(np.ones((1, 2)), b)):
        with pytest.raises(InvalidInput, match="^clip_norm: expected at least 1e-290") as refused:
            check(bound)
        assert refused.value.field == "clip_norm"


# Row by row.


@pytest.mark.parametrize(
    ("subscripts", "shape"), [("ij,j->i", ()), ("ij,kj->ik", (3,)), ("ij,ij->i", None)]
)
@pytest.mark.parametrize("d", [1, 7, 4096, 4097, 9000])
def test_a_row_yields_the_same_wherever_it_stands(subscripts, shape, d):
    """To the last bit: alone, among others, and at another place; and to within what sums round by."""
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((9, d)) * 10.0 ** rng.uniform(-3, 3, (9, 1))
    other = rows.copy() if shape is None else rng.standard_normal((*shape, d))
    whole = by_row(subscripts, rows, other)
    order = rng.permutation(9)
    turned = by_row(subscripts, rows[order], other[order] if shape is None else other)
    assert np.array_equal(turned, whole[order])
    for i in range(9):
        alone = by_row(subscripts, rows[i : i + 1], other[i : i + 1] if shape is None else other)
        assert np.array_equal(alone[0], whole[i])
    for i in (0, 8):
        columns = other[i : i + 1] if shape is None else np.atleast_2d(other)
        for found, column in zip(np.ravel(whole[i]), columns, strict=True):
            products = [
                Fraction(float(a)) * Fraction(float(b))
                for a, b in zip(rows[i], column, strict=True)
            ]
            room = (d + 1) * UNIT * sum(map(abs, products))
            assert abs(Fraction(float(found)) - sum(products)) <= room
