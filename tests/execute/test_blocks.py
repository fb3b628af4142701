"""Products strip by strip and clipping, against rational arithmetic: as exact as any order of additions, row
by row, and never past the sensitivity."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi.describe.batches import FullBatch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute import blocks
from pabi.execute.blocks import (
    add_weighted_sum,
    clip_coordinates,
    clip_norms,
    predictors,
    refuse_small,
)
from pabi.execute.linear_gradients import fast_sum
from pabi.execute.records import seen_norm
from pabi.learn import LogisticGradients, Records, SoftmaxGradients
from support.every_case import every, refused
from support.execution import apart_squared, norm_squared

UNIT = Fraction(1, 2**53)
LEAST = Fraction(1, 2**1074)  # of doubles: what an underflow rounds by at most


@pytest.fixture(params=[1, 10**6], ids=["short strips", "usual strips"])
def strips(request, monkeypatch):
    """Strips of the least length, and those that are used for matrices as small as these: one."""
    monkeypatch.setattr(blocks, "_UNCOPIED", request.param * 32 * 7 * 3)
    assert (blocks._strip(7, 3) == 32) is (request.param == 1)


def matrices(rng, m, d):
    """Features that round badly."""
    normal = rng.normal(size=(m, d))
    sizes = rng.choice([1e-300, 1e-150, 1e-30, 1.0, 1e30, 1e70], size=(m, d))
    alternating = np.where(np.arange(d) % 2, -1.0, 1.0) * (1.0 + np.arange(d) * 2.0**-52)
    return [normal, normal * sizes, np.tile(alternating, (m, 1)), np.full((m, d), 1.0 / 3.0)]


def exact_products(left, right):
    """Entries of left @ right, and of |left| @ |right|, without rounding."""
    rows = [[Fraction(v) for v in row] for row in left.tolist()]
    columns = [[Fraction(v) for v in column] for column in right.T.tolist()]
    for i, row in enumerate(rows):
        for k, column in enumerate(columns):
            terms = [a * b for a, b in zip(row, column, strict=True)]
            yield i, k, sum(terms, Fraction(0)), sum(map(abs, terms), Fraction(0))


def assert_close(found, left, right, additions):
    """Each entry is off by no more than so many additions and one product round, in any order."""
    gamma = (additions + 1) * UNIT / (1 - (additions + 1) * UNIT)
    for i, k, exact, size in exact_products(left, right):
        error = abs(Fraction(float(found[i, k])) - exact)
        assert error <= gamma * size + (additions + 1) * LEAST


@every("outputs", [None, 1, 3])
@every("m", [1, 31, 32, 70])
def test_products_are_off_by_no_more_than_their_additions(strips, outputs, m):
    rng = np.random.default_rng(m)
    for features in matrices(rng, m, 7):
        theta = rng.normal(size=7 if outputs is None else (7, outputs))
        found = predictors(features, theta)
        assert found.shape == (m, *theta.shape[1:])
        assert_close(found.reshape(m, -1), features, theta.reshape(7, -1), 7)
        weight = rng.normal(size=found.shape)
        total = np.zeros(theta.shape)
        add_weighted_sum(features, weight, total)
        assert_close(total.reshape(7, -1), features.T, weight.reshape(m, -1), m)


@every(("d", "outputs"), [(5, None), (784, None), (784, 3), (784, 10), (50, 26)])
def test_a_predictor_does_not_notice_the_other_rows(d, outputs):
    """To the last bit, at the place that its row has: proofs compare batches that differ in another row."""
    rng = np.random.default_rng(d)
    m = 200
    features = rng.normal(size=(m, d))
    theta = rng.normal(size=d if outputs is None else (d, outputs))
    before = predictors(features, theta)
    for at in (0, 1, 15, 95, 96, 97, m - 1):
        for size in (0.0, 1e-300, 1.0, 1e70):
            changed = features.copy()
            changed[at] = rng.normal(size=d) * size
            others = np.arange(m) != at
            assert np.array_equal(predictors(changed, theta)[others], before[others])


N, D, K = 500, 784, 10
FLOAT32 = np.finfo(np.float32)


def equal_rows(rng):
    """Errors add up where all rows are alike, and gradients are as long as they may be."""
    return np.tile(rng.normal(size=D), (N, 1))


def cancelling_rows(rng):
    """Predictors of differences far below their terms."""
    half = rng.normal(size=(N, D // 2)) * 1e30
    return np.hstack([half, -half * (1.0 + 2.0**-22)])


def wild_rows(rng):
    """From the least denormal to the largest number of float32."""
    sizes = [FLOAT32.smallest_subnormal, FLOAT32.tiny, 1e-20, 1.0, 1e20, FLOAT32.max / 8.0]
    return rng.normal(size=(N, D)) * rng.choice(sizes, size=(N, 1))


def repeated_rows(rng):
    """Few different ones, many times each."""
    return rng.normal(size=(5, D))[rng.integers(5, size=N)]


ROWS = [equal_rows, cancelling_rows, wild_rows, repeated_rows]
SIZES = [0.0, 1.0, 1e12]  # of θ: margins from none to far beyond what exponentials hold


def neighbours(rows, adjacency, rng):
    """Two adjacent data sets (X, y): one record is replaced by the opposite one, or its row zeroed."""
    X, y = rows(rng).astype(np.float32), np.zeros(N, dtype=int)
    other_X, other_y, at = X.copy(), y.copy(), int(rng.integers(N))
    if adjacency == "zero_out":
        other_X[at] = 0.0
    else:
        other_y[at] = 1
        other_X[at] *= rng.choice([-1.0, 1.0])
    return (X, y), (other_X, other_y)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("outputs", [None, K])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_adjacent_float32_sums_differ_by_at_most_the_sensitivity(rows, outputs, adjacency):
    rng = np.random.default_rng(20)
    order = rng.permutation(N)
    loss = (Loss.logistic if outputs is None else Loss.softmax)(seen_norm(1.0, 0.5))
    given = {"steps": 1, "step_size": 1.0, "noise_std": 1.0, "adjacency": adjacency}
    # A zeroed record has no gradient, and so no intercept.
    intercept = 0.5 if adjacency == "replace_one" else None
    for size, clip in itertools.product(SIZES, (None, 0.3 * loss.gradient_bound)):
        run, theta, sums = NoisySGD(loss, N, FullBatch(), clip_norm=clip, **given), None, []
        for X, y in neighbours(rows, adjacency, rng):
            records = Records(X, 1.0, intercept)
            logistic = outputs is None
            gradients = (
                LogisticGradients(records, y) if logistic else SoftmaxGradients(records, y, K)
            )
            theta = rng.normal(size=gradients.shape) * size if theta is None else theta
            with np.errstate(all="ignore"):
                sums.append(fast_sum(gradients, run)(theta, order))
        assert np.all(np.isfinite(sums))
        assert apart_squared(*sums) <= Fraction(run.sensitivity) ** 2


# Clipping.

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
    flat = np.random.default_rng(1).standard_normal((5, 12)) * 3.0
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
        assert "expected at least 1e-290" in refused("clip_norm", check, bound)
