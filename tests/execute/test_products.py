"""Products strip by strip: as exact as any order of additions, row by row, and never past the sensitivity."""

from fractions import Fraction

import numpy as np
import pytest

from pabi.describe.batches import FullBatch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute import blocks
from pabi.execute.blocks import add_weighted_sum, predictors
from pabi.execute.linear_gradients import fast_sum
from pabi.execute.records import seen_norm
from pabi.learn import LogisticGradients, Records, SoftmaxGradients
from support.every_case import every
from support.execution import apart_squared

UNIT = Fraction(1, 2**53)
LEAST = Fraction(1, 2**1074)  # of doubles: what an underflow rounds by at most


@pytest.fixture(params=[1, 10**6], ids=["short strips", "usual strips"])
def strips(request, monkeypatch):
    """Strips of the least length, and those that are used for matrices as small as these: one."""
    monkeypatch.setattr(blocks, "_UNCOPIED", request.param * 32 * 7 * 3)


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
SIZES = [0.0, 1e-3, 1.0, 1e12]  # of θ: margins from none to far beyond what exponentials hold


def neighbours(rows, outputs, adjacency, rng):
    """Two adjacent data sets (X, y): one record is replaced by the opposite one, or its row zeroed."""
    X = rows(rng).astype(np.float32)
    y = np.zeros(N, dtype=int)
    other_X, other_y, at = X.copy(), y.copy(), int(rng.integers(N))
    if adjacency == "zero_out":
        other_X[at] = 0.0
    else:
        other_y[at] = 1
        if rng.integers(2):
            other_X[at] = -X[at]
    return (X, y), (other_X, other_y)


def built(outputs, adjacency, X, y):
    # A zeroed record has no gradient, and so no intercept.
    records = Records(X, 1.0, 0.5 if adjacency == "replace_one" else None)
    return LogisticGradients(records, y) if outputs is None else SoftmaxGradients(records, y, K)


def run_of(outputs, adjacency, clip):
    loss = (Loss.logistic if outputs is None else Loss.softmax)(seen_norm(1.0, 0.5))
    given = {"steps": 1, "step_size": 1.0, "noise_std": 1.0, "adjacency": adjacency}
    given |= {"clip_norm": clip and clip * loss.gradient_bound}
    return NoisySGD(loss, n=N, batches=FullBatch(), **given)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("outputs", [None, K])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_adjacent_float32_sums_differ_by_at_most_the_sensitivity(rows, outputs, adjacency):
    rng = np.random.default_rng(20)
    order = rng.permutation(N)
    for size in SIZES:
        for clip in (None, 0.3):
            pair = neighbours(rows, outputs, adjacency, rng)
            run, theta, sums = run_of(outputs, adjacency, clip), None, []
            for X, y in pair:
                gradients = built(outputs, adjacency, X, y)
                if theta is None:
                    theta = rng.normal(size=gradients.shape) * size
                with np.errstate(all="ignore"):
                    sums.append(fast_sum(gradients, run)(theta, order))
            assert np.all(np.isfinite(sums))
            assert apart_squared(*sums) <= Fraction(run.sensitivity) ** 2
