"""Clipping and row by row products, against rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import InvalidInput
from pabi.execute.blocks import clip_coordinates, clip_norms, refuse_small
from support.every_case import every
from support.execution import norm_squared

UNIT = Fraction(1, 2**53)
entries = st.floats(-1e6, 1e6)
vectors = st.integers(1, 6).flatmap(
    lambda d: st.lists(st.lists(entries, min_size=d, max_size=d), min_size=1, max_size=5)
)
bounds = st.floats(-6.0, 6.0).map(lambda x: 10.0**x)


@settings(deadline=None)
@given(vectors, bounds)
def test_norms_are_clipped_by_no_more_than_is_said(rows, bound):
    """The exact clip to a bound smaller by (d + 16)·2⁻⁵³, but for a few units of the product."""
    given_ = np.array(rows)
    found = clip_norms(given_, bound)
    d = given_.shape[1]
    for x, y in zip(given_, found, strict=True):
        least = min(norm_squared(x), (Fraction(bound) * (1 - (2 * d + 24) * UNIT)) ** 2)
        assert least <= norm_squared(y) <= Fraction(bound) ** 2
        if norm_squared(x) <= (Fraction(bound) * (1 - (2 * d + 24) * UNIT)) ** 2:
            assert np.array_equal(x, y)
        # The direction stays: all entries shrink by one factor.
        shrink = math.sqrt(norm_squared(y) / norm_squared(x)) if x.any() else 1.0
        assert y == pytest.approx(x * shrink, rel=1e-14, abs=bound * 1e-315)


@every("clip", [clip_norms, clip_coordinates])
def test_gradients_of_any_shape_are_clipped_as_vectors(clip):
    """The norm is over everything but the first axis."""
    rng = np.random.default_rng(1)
    flat = rng.standard_normal((5, 12)) * 3.0
    found = clip(flat, 1.0)
    for shape in ((5, 12, 1), (5, 3, 4), (5, 2, 3, 2)):
        assert np.array_equal(clip(flat.reshape(shape), 1.0).reshape(5, 12), found)
    scalars = np.array([-3.0, 0.5, 2.0])
    assert clip(scalars, 1.0) == pytest.approx([-1.0, 0.5, 1.0], rel=1e-14)
    assert clip(np.zeros((4, 0)), 1.0).shape == (4, 0)


SCALES = [5e-324, 1e-310, 1e-300, 1e-160, 1e-3, 1.0, 1e5, 1e160, 1.7e308]
BOUNDS = [1e-290, 1e-200, 1e-150, 1e-3, 1.0, 0.1 + 0.2, 1.0 / 3.0, 1e150]


def vectors_of_every_size(shape):
    """With the largest doubles among them, and one of zeros alone."""
    rng = np.random.default_rng(1)
    found = rng.choice([-1.0, 1.0], size=(len(SCALES) * 3, *shape))
    found *= np.resize(SCALES, len(found)).reshape(-1, *[1] * len(shape))
    found[: len(SCALES)] *= rng.random((len(SCALES), *shape))
    found[-1].flat[0] = 0.0
    return found


@pytest.mark.parametrize("bound", BOUNDS)
def test_no_norm_and_no_coordinate_exceeds_its_bound(bound):
    """In exact rational arithmetic; what is well within stays as it is, and little else is taken away."""
    limit = Fraction(bound) ** 2
    for shape in ((1,), (2,), (3,), (7,), (2, 5), (64,), (97,)):
        vectors, d = vectors_of_every_size(shape), math.prod(shape)
        before = vectors.copy()
        by_norm, by_coordinate = clip_norms(vectors, bound), clip_coordinates(vectors, bound)
        assert np.array_equal(vectors, before)
        for v, c in zip(vectors, by_norm, strict=True):
            exact = norm_squared(v)
            assert norm_squared(c) <= limit
            if exact <= limit * (1 - Fraction(1, 10**12)):
                assert np.array_equal(c, v)
            elif exact > limit:
                assert norm_squared(c) >= limit * (1 - Fraction(1, 10**12))
                assert np.all(np.sign(c) * np.sign(v) >= 0.0)
        least = limit * (1 - 8 * UNIT) ** 2
        for v, c in zip(vectors, by_coordinate, strict=True):
            assert norm_squared(c) <= limit
            for was, now in zip(v.ravel().tolist(), c.ravel().tolist(), strict=True):
                if Fraction(was) ** 2 * d <= least:
                    assert was == now
                else:
                    assert least <= Fraction(now) ** 2 * d <= limit
                    assert (now > 0) == (was > 0)


def test_vectors_right_at_the_bound():
    """Vectors normalised in floating point are about as often too long as too short."""
    vectors = np.random.default_rng(2).standard_normal((500, 9))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    assert any(norm_squared(v) > 1 for v in vectors)
    assert all(norm_squared(c) <= 1 for c in clip_norms(vectors, 1.0))


@every("d", [1, 3, 50, 8200, 20_000])
def test_clipping_does_not_depend_on_place_or_company(d):
    vectors = np.random.default_rng(d).normal(size=(20, d))
    alone = np.concatenate([clip_norms(vectors[i : i + 1], 0.7) for i in range(20)])
    for first, last in ((0, 20), (1, 20), (0, 19), (5, 8), (13, 20)):
        assert np.array_equal(clip_norms(vectors[first:last], 0.7), alone[first:last])


@every("bound", [0.0, -1.0, 1e-291, 5e-324, math.nan])
def test_bounds_that_scaling_would_exceed_are_refused(bound):
    vectors = np.ones((1, 10))
    clips = (lambda b, clip=clip: clip(vectors, b) for clip in (clip_norms, clip_coordinates))
    for check in (refuse_small, *clips):
        with pytest.raises(InvalidInput, match="^clip_norm: expected at least 1e-290"):
            check(bound)
