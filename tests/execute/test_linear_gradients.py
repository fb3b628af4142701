"""The fast path: sums of the stated gradients that never pass the stated sensitivity, and large data"""

import itertools
import math
import tempfile
import tracemalloc
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pabi import learn
from pabi.describe.batches import FullBatch, ShuffleOnce
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.linear_gradients import fast_sum
from pabi.execute.records import seen_norm
from pabi.execute.sums import Limit
from pabi.learn import train
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused
from support.execution import apart_squared, norm_squared

from .losses import COUNT_MAX, FAMILY, GAMMA, Z_MAX, B, K, exact_row

ULP = 2.0**-53
each_family = pytest.mark.parametrize("name", FAMILY)


def one_step(loss, n, clip_norm=None, adjacency="replace_one", clipping="norm"):
    clips = {} if clip_norm is None else {"clip_norm": clip_norm, "clipping": clipping}
    given = {"steps": 1, "step_size": 1.0, "noise_std": 1.0, "adjacency": adjacency}
    return NoisySGD(loss, n, FullBatch(), **given, **clips)


def weights_by_hand(name, z, y):
    """The residuals of scalars, by the textbook: z a list of predictors of one record."""
    sigma = lambda t: 1.0 / (1.0 + math.exp(-t)) if t > -700 else 0.0  # noqa: E731
    if name == "logistic":
        return [sigma(z[0]) - y]
    if name == "one_vs_rest":
        return [sigma(z[k]) - (k == y) for k in range(K)]
    if name == "softmax":
        whole = math.fsum(math.exp(v - max(z)) for v in z)
        return [math.exp(z[k] - max(z)) / whole - (k == y) for k in range(K)]
    if name == "squared":
        return [max(-B, min(B, z[0] - y))]
    if name == "vector_huber":
        r = [v - w for v, w in zip(z, y, strict=True)]
        return [v * min(1.0, B / max(math.hypot(*r), B)) for v in r]
    if name == "poisson":
        return [math.exp(min(z[0], Z_MAX)) - min(y, COUNT_MAX)]
    if name == "gamma":
        return [max(1.0 - y * math.exp(-z[0]), -2.0)]
    signs = [1 if y == 1 else -1] if name == "hinge" else [1 if k == y else -1 for k in range(K)]
    return [-s * max(0.0, min(1.0, (1.0 - s * v) / GAMMA)) for s, v in zip(signs, z, strict=True)]


def clipped_sum_by_hand(name, rows, y, theta, clip):
    """Σ of gradients, each clipped to `clip`, with correctly rounded sums."""
    outputs = 1 if theta.ndim == 1 else theta.shape[1]
    columns = theta.reshape(len(theta), outputs)
    terms = []
    for row, label in zip(rows, y, strict=True):
        z = [math.fsum(x * columns[j, k] for j, x in enumerate(row)) for k in range(outputs)]
        weight = weights_by_hand(name, z, label)
        norm = math.hypot(*weight) * math.hypot(*row)
        if clip is not None and norm > clip:
            weight = [w * (clip / norm) for w in weight]
        terms.append([[x * w for w in weight] for x in row])
    width = len(rows[0])
    total = [[math.fsum(t[j][k] for t in terms) for k in range(outputs)] for j in range(width)]
    return np.array(total).reshape(theta.shape)


def allowance(name, rows, theta, additions):
    """How far two ways to sum these gradients may lie apart: (m + 64) roundings of every term, with
    predictors of d terms behind each residual."""
    _, _, largest, steepness, _ = FAMILY[name]
    longest = max(math.hypot(*row) for row in rows)
    z_error = (len(rows[0]) + 16) * ULP * longest * float(np.linalg.norm(theta))
    each = longest * (steepness * z_error + (additions + 64) * ULP * largest)
    return 2 * len(rows) * each


N, D = 57, 4
BASE = np.random.default_rng(5).integers(0, 9, size=(N, D))  # every type below holds it exactly


def in_a_file(X):
    with tempfile.NamedTemporaryFile() as file:
        np.asarray(X, dtype=np.float32).tofile(file.name)
        return np.memmap(file.name, dtype=np.float32, mode="r", shape=X.shape)


def strided(X):
    wide = np.full((2 * N, 2 * D + 1), 7.5)
    wide[::2, 1::2] = X
    return wide[::2, 1::2]


FORMATS = {
    **{kind: lambda X, kind=kind: X.astype(kind) for kind in ["f8", "f4", "f2", "u1", "i8", ">f8"]},
    "fortran": lambda X: np.asfortranarray(X, dtype=np.float64),
    "strided": strided,
    "backwards": lambda X: X[::-1].astype(np.float64)[::-1],
    "list": lambda X: X.tolist(),
    "memmap": in_a_file,
    "pandas": lambda X: pd.DataFrame(X.astype(np.float32), columns=list("abcd")),
    "pandas-mixed": lambda X: pd.DataFrame(X).astype({0: "uint8", 1: "float64", 2: "int16"}),
    **{f"csr {k}": lambda X, k=k: sparse.csr_matrix(X.astype(k)) for k in ("f8", "f4", "u1")},
    "csr-array": lambda X: sparse.csr_array(X.astype(np.float64)),
    "csc": lambda X: sparse.csc_matrix(X.astype(np.float64)),
    "coo": lambda X: sparse.coo_array(X.astype(np.float64)),
}
ROWS = {
    "all": slice(0, N),
    "part": slice(9, 31),
    "shuffled": np.random.default_rng(6).permutation(N),
    "few": np.array([56, 0, 7, 8]),
    "none": np.array([], dtype=np.intp),
}


def indices(rows):
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("rows", ["all", "shuffled", "few"])
@pytest.mark.parametrize("intercept", [None, 1.5])
@pytest.mark.one_in(3)
def test_every_format_gives_the_sum_of_the_clipped_gradients(form, rows, intercept):
    """For every family; rows beyond the norm scaled down, gradients clipped at half their bound."""
    chosen = [ROWS[rows], *((ROWS["part"], ROWS["none"]) if rows == "few" else ())]
    assert_sums(FORMATS[form](BASE), chosen, 9.0, intercept, None, 0.5)


@pytest.mark.parametrize("form", ["f8", "f4", "u1", "memmap", "pandas", "csr f8"])
@every("clip", [None, 0.3])
def test_ranges_are_applied_before_the_norm(form, clip):
    """Symmetric ranges where X is sparse, others where it is dense; features beyond them are clipped."""
    high = np.array([4.0, 6.0, 8.0, 2.0])
    low = -high if form == "csr f8" else np.array([0.0, 1.0, -8.0, 1.0])
    assert_sums(FORMATS[form](BASE), ROWS.values(), 1.2, 0.5, [low, high], clip)


def assert_sums(X, parts, norm, intercept, ranges, share):
    """Of every family, clipped at this share of the largest gradient of rows of this norm."""
    rows = [exact_row(row, norm, ranges) + [intercept] * bool(intercept) for row in BASE]
    records = learn.Records(X, norm, intercept, ranges=ranges)
    for name, (build, _, largest, _, _) in FAMILY.items():
        rng = np.random.default_rng(7)
        y = rng.choice(FAMILY[name].targets, size=N)
        gradients = build(records, y)
        theta = rng.normal(size=gradients.shape) * 0.3
        clip = None if share is None else share * largest * norm
        for part in parts:
            chosen = indices(part)
            got = gradients.clipped_sum(theta, part, Limit(clip, 1.0))
            if len(chosen) == 0:
                assert np.array_equal(got, np.zeros(gradients.shape))
                continue
            kept = [rows[i] for i in chosen]
            expected = clipped_sum_by_hand(name, kept, y[chosen], theta, clip)
            room = allowance(name, kept, theta, len(chosen))
            assert np.linalg.norm(got - expected) <= room, name


@each_family
@pytest.mark.parametrize(
    ("n", "d", "dense"), [(5_001, 2, True), (5_001, 2, False), (150, 1_500, True)]
)
@pytest.mark.one_in(2)
def test_sums_over_many_blocks(name, n, d, dense):
    """More rows than a block holds, contiguous and shuffled: gradients one by one, added exactly."""
    rng, one = np.random.default_rng(9), FAMILY[name]
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    data = learn.Records(X if dense else sparse.csr_matrix(X), 1.0, 1.0)
    gradients = one.build(data, rng.choice(one.targets, size=n))
    theta = rng.normal(size=gradients.shape) / math.sqrt(d)
    clip, shuffled = 0.6 * one.largest, rng.permutation(n)
    for rows in (slice(0, n), slice(5, n - 3), shuffled, shuffled[: n // 2]):
        chosen = indices(rows)
        each = gradients(theta, chosen).reshape(len(chosen), -1)
        lengths = np.linalg.norm(each, axis=1)
        each *= np.minimum(1.0, clip / np.maximum(lengths, 1e-300))[:, None]
        expected = np.array([math.fsum(column) for column in each.T]).reshape(theta.shape)
        got = gradients.clipped_sum(theta, rows, Limit(clip, 1.0))
        reach = math.sqrt(2.0)
        z_error = 2 * (d + 16) * ULP * reach * float(np.linalg.norm(theta))
        terms = min(len(chosen), 4096) + 64
        each_error = reach * (one.slope * z_error + terms * ULP * one.largest)
        assert np.linalg.norm(got - expected) <= len(chosen) * each_error


BIG = [1.7976931348623157e308, 1e200, 1e75, 1e60, 1e38, 1e20]
SMALL = [1e-20, 1e-100, 1e-160, 2.3e-308, 1e-310, 5e-324]
WORST = {
    "largest": [[v, v, v] for v in BIG],
    "opposed": [[v, -v, v] for v in BIG],
    "opposed-even": [[v, -v, 0.0] for v in BIG],
    "lonely": [[v, 0.0, 0.0] for v in BIG],
    "mixed": [[big, small, -1.0] for big, small in zip(BIG, SMALL, strict=True)],
    "smallest": [[v, -v, v] for v in SMALL],
    "just-over": [[1.0, 2.0**-k, 2.0**-k] for k in (20, 26, 27, 28, 40)],
    "unit": (np.random.default_rng(2).normal(size=(8, 3))).tolist(),
    "normalised": (lambda v: v / np.linalg.norm(v, axis=1)[:, None])(
        np.random.default_rng(3).normal(size=(10, 3))
    ).tolist(),
}
POINTS = {
    "zero": lambda shape, rng: np.zeros(shape),
    "ones": lambda shape, rng: np.full(shape, 2.0),
    "random": lambda shape, rng: rng.normal(size=shape) * 3.0,
    "huge": lambda shape, rng: rng.normal(size=shape) * 1e12,
}


def accepted(rows, feature_norm, intercept, stored):
    """`Records` of the rows and a plain one. Entries beyond 2²⁵⁰ are refused like infinities, for the
    factors that would bring them down are hardly doubles; nothing smaller is."""
    kept = []
    for row in rows:
        try:
            learn.Records(np.array([row]), feature_norm)
        except InvalidInput as no:
            if no.field != "X" or max(map(abs, row)) <= 2.0**250:
                raise
        else:
            kept.append(row)
    X = np.array([*kept, [0.1, 0.2, -0.1]])
    return learn.Records(X if stored == "dense" else sparse.csr_matrix(X), feature_norm, intercept)


def contributions(name, rows, intercept, stored, clips, clipping, turns):
    """(row, what it adds, the bound it must keep) for both extreme targets, every point and clip, where
    it is the turn of 0."""
    build, known, _, _, describe = FAMILY[name]
    records = accepted(rows, 1.0, intercept, stored)
    loss = describe(seen_norm(1.0, intercept))
    for y in (known[0], known[-1]):
        gradients = build(records, np.array([y] * records.n))
        for clip in clips:
            bound = loss.gradient_bound if clip is None else clip * loss.gradient_bound
            # The last, partial batch of two: room for the rounding of two records.
            run = one_step(loss, 2, None if clip is None else bound, clipping=clipping)
            total = fast_sum(gradients, run)
            for point in POINTS.values():
                theta = point(gradients.shape, np.random.default_rng(4))
                for i in itertools.compress(range(records.n), (turn == 0 for turn in turns)):
                    with np.errstate(all="ignore"):
                        yield i, total(theta, slice(i, i + 1)), bound


CLIPS = {
    "unclipped": ([None, 1.0], [None], "norm"),
    "clipped": ([None], [0.5, 1e-15], "norm"),
    "clipped convexly": ([None], [0.5], "residual"),
    "clipped convexly to little": ([None], [1e-15], "residual"),
    "clipped convexly to nothing": ([None], [1e-200], "residual"),  # whose square is no double
}
# Logistic losses are clipped together in a turn for every unit of a logit: of so many records one.
OF_JOINT_LOGISTIC = {"clipped convexly to little": 13, "clipped convexly to nothing": 47}


@each_family
@pytest.mark.parametrize("stored", ["dense", "csr"])
@pytest.mark.parametrize("how", CLIPS)
@pytest.mark.one_in(3)
def test_no_record_contributes_more_than_its_bound(name, stored, how):
    """Exact rational norms. A sum that is not finite would betray its record whatever the noise."""
    intercepts, clips, clipping = CLIPS[how]
    one_in = OF_JOINT_LOGISTIC.get(how, 1) if name == "one_vs_rest" else 1
    turns = itertools.cycle(range(one_in))
    for rows, intercept in itertools.product(WORST, intercepts):
        found = contributions(name, WORST[rows], intercept, stored, clips, clipping, turns)
        for i, got, bound in found:
            assert np.all(np.isfinite(got)), (rows, i)
            assert norm_squared(got) <= Fraction(bound) ** 2, (rows, i)


@every("feature_norm", [2.0**-250, 1e-60, 4.5e-16, 1e-3, 0.1, 1.0, 1e8, 2.0**250])
@every("stored", ["dense", "csr"])
def test_rows_are_brought_within_the_norm_exactly(feature_norm, stored):
    """Factor times row in rational arithmetic; the norm that clipping relies on is not below it."""
    for rows in WORST.values():
        records = accepted(rows, feature_norm, None, stored)
        for block in records.blocks(slice(0, records.n)):
            stored_rows = block.features if stored == "dense" else block.features.toarray()
            for i, row in enumerate(stored_rows):
                factor = 1.0 if block.scale is None else float(block.scale[i])
                exact = norm_squared(row) * Fraction(factor) ** 2
                short = norm_squared(row) < Fraction(feature_norm) ** 2 * (1 - Fraction(1, 2**39))
                assert factor == 1.0 or not short
                assert exact <= Fraction(feature_norm) ** 2
                assert exact <= Fraction(float(block.norm[i])) ** 2


def aligned_sums(name, adjacency, limit_of, n, rng, clipping="norm"):
    """Two sums over adjacent data sets made to round badly: all rows alike, so that errors add up, and
    gradients as long as the limit lets them be. Replacing a record turns its gradient round, where the
    loss allows that; zeroing it takes it away."""
    build, known, _, _, describe = FAMILY[name]
    loss = describe(1.0)
    # At θ = 0 gradients are still longer than this, whatever the label.
    clips = loss.glm or clipping == "residual"
    run = one_step(loss, n, 0.2 * loss.gradient_bound if clips else None, adjacency, clipping)
    row, at = rng.normal(size=3), int(rng.integers(n))
    X, y = np.tile(5.0 * row / np.linalg.norm(row), (n, 1)), np.repeat(known[-1:], n, axis=0)
    other_X, other_y = X.copy(), y.copy()
    if adjacency == "zero_out":
        other_X[at] = 0.0
    else:
        other_y[at] = known[0]
    sums = []
    for features, labels in ((X, y), (other_X, other_y)):
        gradients = build(learn.Records(features, 1.0), labels)
        limit = limit_of(run, gradients)
        sums.append(gradients.clipped_sum(np.zeros(gradients.shape), slice(0, n), limit))
    return apart_squared(*sums), Fraction(run.sensitivity) ** 2


def with_room(run, gradients):
    return Limit.of(run, gradients.additions(run.batch_size))


def without_room(run, gradients):
    return Limit(run.record_gradient_bound, 1.0)


@each_family
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("n", [1, 2, 3, 100, 5000])
@pytest.mark.parametrize("clipping", ["norm", "residual"])
@pytest.mark.one_in(4)
def test_adjacent_sums_differ_by_at_most_the_sensitivity(name, adjacency, n, clipping):
    rng = np.random.default_rng(n)
    for _ in range(10):
        apart, limit = aligned_sums(name, adjacency, with_room, n, rng, clipping)
        assert apart <= limit


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_without_room_for_rounding_the_sensitivity_would_be_exceeded(adjacency):
    """The test above can fail: it does, for sums of gradients of the full length."""
    rng = np.random.default_rng(0)
    trials = [
        aligned_sums(name, adjacency, without_room, 5000, rng) for name in FAMILY for _ in range(5)
    ]
    assert any(apart > limit for apart, limit in trials)


@each_family
@pytest.mark.parametrize("stored", ["dense", "csr"])
def test_one_record_among_others_moves_the_sum_by_no_more(name, stored):
    """Random data sets with wild rows and targets: replace one record, or zero its row, anywhere."""
    build, known, _, _, describe = FAMILY[name]
    rng = np.random.default_rng(12)
    sizes = [1e70, 1e30, 1e3, 1.0, 1e-5, 1e-200]
    for _ in range(60):
        n, d = int(rng.integers(2, 40)), int(rng.integers(1, 6))
        X = rng.normal(size=(n, d)) * rng.choice(sizes, size=(n, 1))
        y = rng.choice(known, size=n)
        other_X, other_y, at = X.copy(), y.copy(), int(rng.integers(n))
        zeroed = bool(rng.integers(2))
        other_X[at] = 0.0 if zeroed else rng.normal(size=d) * rng.choice(sizes)
        other_y[at] = rng.choice(known)
        run = one_step(describe(1.0), n, adjacency="zero_out" if zeroed else "replace_one")
        order, sums, theta = rng.permutation(n), [], None
        for features, labels in ((X, y), (other_X, other_y)):
            data = features if stored == "dense" else sparse.csr_matrix(features)
            gradients = build(learn.Records(data, 1.0), labels)
            theta = rng.normal(size=gradients.shape) * 20.0 if theta is None else theta
            with np.errstate(all="ignore"):
                sums.append(fast_sum(gradients, run)(theta, order))
        # The records that both hold have the same predictors on either side, to the last bit.
        assert apart_squared(*sums) <= Fraction(run.sensitivity) ** 2


def test_a_run_of_another_size_is_refused():
    gradients = learn.LogisticGradients(np.ones((5, 1)), [0, 1, 0, 1, 0])
    assert "expected 5" in refused("n", train, one_step(Loss.logistic(1.0), 4), gradients, [0.0])


def peak_megabytes(work):
    """The most that `work` held at once beyond what was there before, as numpy reports it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = work()
        return (tracemalloc.get_traced_memory()[1] - before) / 2**20, result
    finally:
        tracemalloc.stop()


# A row costs a scale, a norm, its place in the permutation and its target, twice while they are made,
# and 1 MB blocks come in a handful: 10⁵ rows stay below 100 bytes each and 10 MB of blocks.
PER_ROW, BLOCKS = 100 / 2**20, 10.0


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """200 MB of float32 in a file, and the labels."""
    n, d = 100_000, 500
    rng = np.random.default_rng(14)
    path = tmp_path_factory.mktemp("data") / "large.dat"
    block = rng.random((1000, d), dtype=np.float32)
    with path.open("wb") as stream:
        for _ in range(n // 1000):
            stream.write(block.tobytes())
    return np.memmap(path, dtype=np.float32, mode="r", shape=(n, d)), np.arange(n) % 2


@pytest.mark.parametrize("batches", [FullBatch(), ShuffleOnce(7_000)])
def test_large_data_is_never_copied(large, batches):
    """200 MB, read from a file and scaled row by row, within 20 MB; a float64 copy would be 400."""
    (X, y), given = large, {"epochs": 1, "step_size": 1.0, "noise_std": 1.0}

    def work():
        gradients = learn.LogisticGradients(learn.Records(X, 1.0, 1.0, ranges=(-1.0, 1.0)), y)
        run = NoisySGD(Loss.logistic(seen_norm(1.0, 1.0)), len(X), batches, **given)
        return train(run, gradients, np.zeros(X.shape[1] + 1)).x

    peak, _ = peak_megabytes(work)
    assert peak < PER_ROW * len(X) + BLOCKS


@pytest.mark.parametrize("batches", [FullBatch(), ShuffleOnce(10_000)])
def test_wide_sparse_data_stays_sparse(batches):
    """10⁵ × 10⁴ with ten entries a row: 12 MB sparse, 8 GB dense, 160 MB for a dense block of 2 000 rows."""
    n, d, each = 100_000, 10_000, 10
    rng = np.random.default_rng(15)
    columns = np.arange(each) * (d // each) + rng.integers(0, d // each, size=(n, each))
    entries = rng.random(n * each), columns.ravel(), np.arange(0, n * each + 1, each)
    X = sparse.csr_matrix(entries, shape=(n, d))
    y = (X[:, :5000].sum(axis=1).A1 > X[:, 5000:].sum(axis=1).A1).astype(int)
    given = {"epochs": 3, "step_size": 4.0, "noise_std": 1e-6}

    def work():
        gradients = learn.LogisticGradients(learn.Records(X, 1.0, 1.0), y)
        run = NoisySGD(Loss.logistic(seen_norm(1.0, 1.0)), n, batches, **given)
        return train(run, gradients, np.zeros(d + 1)).x

    peak, x = peak_megabytes(work)
    assert peak < PER_ROW * n + BLOCKS
    # It learned: nearly all of the weight of the first half of the columns is on the right side.
    assert np.mean(x[:5000]) > 0 > np.mean(x[5000:-1])


def test_a_record_that_is_not_clipped_does_not_notice_that_another_is():
    """To the last bit: of weight σ(−1.2), and beside one of weight σ(2.8) that is clipped to 0.2."""
    gradients = learn.LogisticGradients(learn.Records([[0.7], [0.3]], 1.0), [1, 0])
    parts = (slice(0, 1), slice(1, 2), slice(0, 2))
    first, second, both = (
        gradients.clipped_sum(np.array([-4.0]), rows, Limit(0.2, 1.0)) for rows in parts
    )
    assert abs(first) <= 0.2 < 0.7 * 0.9
    assert both == first + second


def test_residuals_whose_squares_underflow_are_clipped():
    """By 26 orders of magnitude: e^−400 for two classes, where 1e-200 is the bound."""
    gradients = learn.SoftmaxGradients(learn.Records(np.ones((1, 1)), 1.0), [0], 2)
    total = fast_sum(gradients, one_step(Loss.softmax(1.0), 1, 1e-200))
    got = total(np.array([[400.0, 0.0]]), slice(0, 1))
    assert 0 < norm_squared(got) <= Fraction(1e-200) ** 2


@every("feature_norm", [2.0**250, 1.0])
def test_bounds_that_residuals_of_long_rows_cannot_keep_are_refused(feature_norm):
    """A residual of 1.6 times the least double is rounded up to twice that, and the row is 2²⁵⁰ long."""
    gradients = learn.LogisticGradients(learn.Records([[2.0**250]], feature_norm), [1])
    run = one_step(Loss.logistic(feature_norm), 1, 1.6 * 2.0**-824)
    assert (
        norm_squared(fast_sum(gradients, run)(-np.ones(1), slice(0, 1)))
        > Fraction(run.clip_norm) ** 2
    )
    assert "at least 1e-200" in refused("clip_norm", train, run, gradients, [0.0])


@every("dtype", ["f2", "f4", "f8", "i1"])
def test_residuals_of_any_type_keep_the_bound(dtype):
    """Squares of small numbers are 0 in half precision, and their sums round too far in single precision."""
    for size, bound in ((1e-4, 1e-5), (3.0, 1.0), (100.0, 1.0)):
        for seed in range(20):
            own = (np.random.default_rng(seed).normal(size=(4, K)) * size).astype(dtype)
            given = own.copy()
            gradients = learn.LinearGradients(np.ones((4, 1)), given, lambda z, y: y, K)
            total = fast_sum(gradients, one_step(Loss.convex(1.0), 4, bound))
            sums = [total(np.zeros((1, K)), slice(i, i + 1)) for i in range(4)]
            assert all(norm_squared(one) <= Fraction(bound) ** 2 for one in sums)
            assert any(norm_squared(one) for one in sums) or dtype == "i1"
            assert np.array_equal(gradients._targets.array, own)


def test_a_residual_that_fails_or_is_no_number_shows_no_record():
    def failing(z, y):
        raise ValueError(f"bad target {y[0]}")

    for residual, said in (
        (failing, "with a ValueError"),
        (lambda z, y: z + 0j, "got dtype complex128"),
        (lambda z, y: z.astype(str), "expected it to return real numbers"),
        (lambda z, y: z[:1], "expected it to return shape"),
    ):
        gradients = learn.LinearGradients(np.ones((2, 1)), np.array([41.5, 0.0]), residual)
        message = refused(
            "residual",
            fast_sum(gradients, one_step(Loss.convex(1.0), 2, 1.0)),
            np.zeros(1),
            slice(0, 2),
        )
        assert said in message
        assert "41.5" not in message


def test_a_loss_that_promises_less_curvature_is_refused():
    """Steps would be accounted as if they kept distances that they stretch."""
    records, y = learn.Records(np.eye(4), 1.0), np.array([0, 1, 0, 1])
    given = {"n": 4, "batches": FullBatch(), "steps": 2, "step_size": 0.1, "noise_std": 1.0}
    for gradients, loss in (
        (learn.LogisticGradients(records, y), Loss.convex(0.2, gradient_bound=1.0)),
        (learn.SoftmaxGradients(records, y, 2), Loss.logistic(1.0)),
        (learn.SquaredGradients(records, y, 1.0), Loss.logistic(1.0)),
        (learn.SmoothedHingeGradients(records, y, 0.1), Loss.smoothed_hinge(1.0, 0.5)),
        (learn.PoissonGradients(records, y, 3.0, 1.0), Loss.poisson(1.0, 2.0, 1.0)),
    ):
        with pytest.raises(InvalidInput, match="^loss: expected one of curvature up to"):
            train(NoisySGD(loss, clip_norm=1.0, **given), gradients, np.zeros(gradients.shape))


SHORT = learn.Records(np.eye(4), 1.0)
CODES = np.array([0, 1, 2, 1])


@every(
    ("gradients", "loss"),
    [
        # Of no more curvature, and scaled down to the norm of one predictor's gradients: steps may expand.
        (learn.OneVsRestGradients(SHORT, CODES, 3), Loss.logistic(1.0)),
        (learn.OneVsRestGradients(SHORT, CODES, 3), Loss.one_vs_rest(1.0, 2)),
        # Clipped, its curvature is counted with the largest count.
        (learn.PoissonGradients(SHORT, 50 * CODES, 5.0, 100.0), Loss.poisson(1.0, 5.0, 2.0)),
        (learn.LogisticGradients(SHORT, CODES % 2), Loss.one_vs_rest(1.0, 2)),
        # No number times a fixed vector.
        (learn.SoftmaxGradients(SHORT, CODES, 3), Loss.convex(0.5, gradient_bound=1.0, glm=True)),
        (learn.LinearGradients(SHORT, CODES, lambda z, y: z, 3), Loss.logistic(1.0)),
        # Flat in most directions.
        (learn.LogisticGradients(SHORT, CODES % 2), Loss.strongly_convex(0.1, 0.3)),
        (learn.LinearGradients(SHORT, CODES, lambda z, y: z), Loss.dissipative(1.0, 0.1, 1.0)),
    ],
)
def test_gradients_of_another_loss_than_described_are_refused(gradients, loss):
    run = NoisySGD(
        loss, n=4, batches=FullBatch(), steps=2, step_size=0.1, noise_std=1.0, clip_norm=1.0
    )
    refused("loss", train, run, gradients, np.zeros(gradients.shape))


def test_a_linear_model_of_one_constant_may_be_strongly_convex():
    own = learn.LinearGradients(np.ones((4, 1)), np.arange(4.0), lambda z, y: z - y)
    run = one_step(Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0), 4)
    assert np.all(np.isfinite(train(run, own, np.zeros(1), delta=0.1).x))


@every("held", ["array", "csr", "records", "large"])
def test_rows_without_a_norm_are_brought_within_that_of_the_loss(held, tmp_path):
    """Longer ones would have more curvature than is accounted."""
    X, y = np.random.default_rng(7).normal(size=(30, 3)) * 3.0, np.arange(30) % 2
    np.save(tmp_path / "x.npy", X)
    rows = {
        "array": lambda: X,
        "csr": lambda: sparse.csr_matrix(X),
        "records": lambda: learn.Records(X),
        "large": lambda: learn.LargeTable(tmp_path / "x.npy"),
    }[held]()
    run = NoisySGD(
        Loss.logistic(1.5), n=30, batches=FullBatch(), steps=3, step_size=1.0, noise_std=1e-3
    )
    x = [
        train(run, learn.LogisticGradients(one, y), np.zeros(3), 0, delta=0.01).x
        for one in (rows, learn.Records(sparse.csr_matrix(X) if held == "csr" else X, 1.5))
    ]
    assert np.array_equal(*x)


def test_an_intercept_leaves_no_norm_for_the_other_features():
    gradients = learn.LogisticGradients(learn.Records(np.eye(4), None, 1.0), np.arange(4) % 2)
    refused("feature_norm", train, one_step(Loss.logistic(2.0), 4), gradients, np.zeros(5))


@every("told", [1.0, 1.4, 1.4143])
def test_rows_may_not_be_declared_longer_than_the_loss_is_told(told):
    """The intercept is the usual slip: the model sees vectors of norm √(1 + 1)."""
    gradients = learn.LogisticGradients(learn.Records(np.eye(4), 1.0, 1.0), np.array([0, 1, 0, 1]))
    run = one_step(Loss.logistic(told), 4)
    if told > math.sqrt(2.0):
        assert math.isfinite(train(run, gradients, np.zeros(5), delta=0.1).guarantee.epsilon(0.1))
    else:
        refused("feature_norm", train, run, gradients, np.zeros(5), delta=0.1)
