"""Sampled batches: drawn as described, summed within the stated sensitivity, never cut, never kept."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom

from pabi import learn
from pabi.describe.batches import (
    BallsInBins,
    Cyclic,
    FixedSize,
    FreshSubsets,
    FullBatch,
    Poisson,
    ShuffleOnce,
)
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.batches import batch_rows
from pabi.execute.linear_gradients import fast_sum
from pabi.execute.records import MOST_ROWS
from pabi.execute.sums import Limit, per_record_sum
from pabi.learn import train
from support.every_case import every, refused
from support.execution import apart_squared, assert_law


def run_of(n, batches, **changes):
    given = {"steps": 12, "step_size": 0.3, "noise_std": 1.0, "clip_norm": 100.0} | changes
    return NoisySGD(given.pop("loss", Loss.convex(smoothness=1.0)), n=n, batches=batches, **given)


@pytest.fixture(params=[4000, pytest.param(20_000, marks=pytest.mark.nightly)])
def draws(request):
    """How many are drawn."""
    return request.param


def drawn(run, generator, count, between=lambda: None):
    """Batches as tuples of rows, () for an empty one."""
    order, found = batch_rows(run, generator), []
    for k in range(count):
        rows = order.batch(k)
        found.append(() if rows is None else tuple(rows.tolist()))
        between()
    return found


def law_of(n, batches):
    """{set of rows: probability}, from the description."""
    size = batches.size
    sets = [s for k in range(n + 1) for s in itertools.combinations(range(n), k)]
    if batches.kind == "fixed_size":
        return {s: 1.0 / math.comb(n, size) for s in sets if len(s) == size}
    p = size / n if batches.probability is None else batches.probability
    law = {s: p ** len(s) * (1.0 - p) ** (n - len(s)) for s in sets}
    if batches.cap is not None:
        beyond = sum(law.pop(s) for s in sets if len(s) > batches.cap)
        law[()] += beyond
    return {s: w for s, w in law.items() if w > 0.0}


SMALL = [
    *((1, FixedSize(1)), (5, FixedSize(1)), (5, FixedSize(5)), (6, FixedSize(2))),
    *((7, FixedSize(4)), (1, Poisson(1)), (5, Poisson(1)), (5, Poisson(5)), (6, Poisson(2))),
    *((6, Poisson(2, cap=2)), (6, Poisson(1, cap=1)), (7, Poisson(4, cap=6))),
    *((4, Poisson(2, cap=9)), (6, Poisson(1, cap=2, probability=0.3))),
]


def named(value):
    return repr(value) if isinstance(value, (FixedSize, Poisson)) else None


@pytest.mark.parametrize(("n", "batches"), SMALL)
def test_the_law_over_all_sets_of_records(n, batches, draws):
    """Every set, hence every record, pair and number of records, at its own probability."""
    found = drawn(run_of(n, batches), np.random.default_rng(0), draws)
    assert_law(found, law_of(n, batches))


LARGE = [
    *((40, FixedSize(7)), (40, Poisson(7)), (40, Poisson(7, cap=9))),
    (20_000, FixedSize(2_000)),  # numpy shuffles a part of all rows
    *((20_000, FixedSize(100)), (20_000, Poisson(2_000)), (20_000, Poisson(100, cap=120))),
]


@pytest.mark.parametrize("steps", [800, pytest.param(3000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("n", "batches"), LARGE, ids=named)
def test_records_and_pairs_are_included_as_often_as_they_should(n, batches, steps):
    """Counts of each of the first 40 records, and of each pair of them, at z-scores of 6 or less."""
    inside = np.zeros((steps, watched := 40))
    for k, rows in enumerate(drawn(run_of(n, batches), np.random.default_rng(n), steps)):
        assert list(rows) == sorted(set(rows) & set(range(n)))
        inside[k, [i for i in rows if i < watched]] = 1.0
    # Given its size a batch is uniform, whatever the cap.
    sizes = np.arange(n + 1)
    if batches.kind == "fixed_size":
        weight = (sizes == batches.size).astype(float)
    else:
        weight = binom.pmf(sizes, n, batches.size / n) * (sizes <= (batches.cap or n))
    one = float(np.sum(weight * sizes / n))
    two = float(np.sum(weight * sizes * (sizes - 1) / (n * (n - 1))))
    counts = inside.T @ inside
    spread = math.sqrt(steps * one * (1.0 - one))
    assert np.all(np.abs(np.diag(counts) - steps * one) < 6 * spread)
    pairs = counts[np.triu_indices(watched, 1)]
    limit = 6 * math.sqrt(steps * two * (1.0 - two)) + 3.0  # few are rather Poisson than normal
    assert np.all(np.abs(pairs - steps * two) < limit)


@pytest.mark.parametrize("batches", [FixedSize(1), FixedSize(2), Poisson(1), Poisson(2, cap=2)])
@every("lag", [1, 2])
def test_steps_are_independent(batches, lag, draws):
    """The joint law of two batches is the product, and the noise in between does not matter."""
    law, generator = law_of(3, batches), np.random.default_rng(5)
    found = drawn(run_of(3, batches), generator, draws, lambda: generator.standard_normal(2))
    pairs = list(zip(found, found[lag:], strict=False))[:: lag + 1]
    assert_law(pairs, {(a, b): law[a] * law[b] for a in law for b in law})


@every("batches", [FixedSize(1000), Poisson(1000), Poisson(1000, cap=1200)])
def test_no_work_in_proportion_to_the_number_of_records(batches):
    """Among 10¹² records, of which not even a list would fit in memory."""
    rows = batch_rows(run_of(10**12, batches), np.random.default_rng(0)).batch(0)
    assert 800 < len(rows) < 1200
    assert len(set(rows.tolist())) == len(rows)
    assert rows.dtype == np.intp


def test_nothing_of_a_batch_is_kept():
    for batches in (FixedSize(3), Poisson(3), Poisson(3, cap=4)):
        order = batch_rows(run_of(7, batches), np.random.default_rng(0))
        before = {name: value for name, value in vars(order).items() if name != "_generator"}
        for k in range(20):
            order.batch(k)
        assert {n: v for n, v in vars(order).items() if n != "_generator"} == before
        assert order.secret is None


CENTRES = np.random.default_rng(7).normal(size=(7, 2)) * [1.0, 3.0]


class Noted:
    """Gradients x − a_i that note which rows were asked for."""

    def __init__(self):
        self.calls = []

    def __call__(self, x, rows):
        assert rows.ndim == 1
        assert len(rows) > 0
        self.calls.append(rows.tolist())
        return x - CENTRES[rows]


class Heard(np.random.Generator):
    """A generator whose noise is noted, one array a step."""

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))
        self.noise = []

    def standard_normal(self, *args, **kwargs):
        self.noise.append(super().standard_normal(*args, **kwargs))
        return self.noise[-1].copy()


@every(
    "batches",
    [
        *(Poisson(2), Poisson(2, cap=2), Poisson(1, cap=1), FixedSize(2), FixedSize(7)),
        *(BallsInBins(3), BallsInBins(1, cap=1), BallsInBins(2, redraw="epoch")),
    ],
)
def test_every_step_is_the_described_one(free, batches):
    """Sums are divided by `size` whatever the length; without records a step is regulariser and noise."""
    loss = Loss.convex(smoothness=1.0, l2=0.2)
    run = run_of(7, batches, loss=loss, steps=60, cooldown_steps=5, release="path")
    gradients, generator, path = Noted(), Heard(3), [np.array([0.5, -1.0])]
    result = train(run, gradients, path[0], generator, watch=lambda k, x: path.append(x))
    assert np.array_equal(result.x, path[-1])
    again = Heard(3)
    expected = drawn(run, again, run.data_steps, lambda: again.standard_normal((2,)))
    assert [list(rows) for rows in expected if rows] == gradients.calls
    empty = 0
    for k in range(60):
        x, noise = path[k], generator.noise[k]
        rows = list(expected[k]) if k < 55 else []
        if rows:
            total = np.sum(x - CENTRES[rows], axis=0) / batches.size
            wanted = x - 0.3 * (total + 0.2 * x + noise)
            assert path[k + 1] == pytest.approx(wanted, rel=1e-12, abs=1e-12)
        else:
            empty += 1
            assert np.array_equal(path[k + 1], x - 0.3 * (0.2 * x + noise))
    assert empty > 5 or batches.kind != "poisson"
    assert empty == 5 or batches.kind != "fixed_size"
    longest = max(map(len, gradients.calls))
    assert longest <= (getattr(batches, "cap", None) or 7)
    if batches == Poisson(2):
        assert longest > 2


def aligned(n, rng):
    """Rows all alike, so that rounding errors add up, with gradients longer than the clip."""
    row = rng.normal(size=3)
    X = np.tile(5.0 * row / np.linalg.norm(row), (n, 1))
    return learn.LogisticGradients(learn.Records(X, 1.0), np.ones(n, dtype=int))


def clipped_run(n, batches, **changes):
    loss = Loss.logistic(1.0)
    return run_of(n, batches, loss=loss, clip_norm=0.2, adjacency="zero_out", **changes)


@every("cap", [None, 3000])
@every("stored", ["fast", "callable"])
def test_one_more_record_moves_the_sum_by_no_more_than_its_bound(cap, stored):
    """For batches hundreds of times the expected size."""
    n, rng = 5000, np.random.default_rng(1)
    run = clipped_run(n, Poisson(10, cap))
    for _ in range(10):
        gradients = aligned(n, rng)
        total = fast_sum(gradients, run) if stored == "fast" else per_record_sum(gradients, run)
        for size in rng.integers(1, cap or n, 3):
            moved = apart_squared(*(total(np.zeros(3), np.arange(k)) for k in (size, size + 1)))
            assert Fraction(0.19) ** 2 < moved <= Fraction(0.2) ** 2


@every(
    ("batches", "most"),
    [
        *((Poisson(10), 5000), (Poisson(10, cap=40), 40), (Poisson(10, cap=9000), 5000)),
        *((FixedSize(10), 10), (Cyclic(10), 10), (FullBatch(), 5000), (ShuffleOnce(10), 10)),
    ],
)
def test_the_limit_is_that_of_the_largest_batch(batches, most):
    assert batches.order(5000, 10).sizes.most == most
    run = clipped_run(5000, batches)
    limit = Limit.of(run, 100)
    assert limit.clip == pytest.approx(0.2 * (1.0 - 2.0 * most * 116 * 2.0**-53), rel=1e-15)
    assert limit.shrink == pytest.approx(1.0 - 2.0 * most * 116 * 2.0**-53, rel=1e-15)
    assert limit.anywhere == isinstance(run.order, FreshSubsets)
    gradients, some = aligned(5000, np.random.default_rng(1)), (np.zeros(3), slice(0, 9))
    whole = Limit.of(run, min(most, MOST_ROWS))
    assert np.array_equal(fast_sum(gradients, run)(*some), gradients.clipped_sum(*some, whole))


def test_batches_too_large_to_be_summed_are_refused():
    refused("batches", Limit.of, clipped_run(10**15, Poisson(10)), 4096)
    assert Limit.of(clipped_run(10**15, Poisson(10, cap=100)), 4096).clip > 0.19


def near_zero_predictors(n, d, theta, rng):
    """Rows of length one whose product with a long θ nearly cancels: small residual, large rounding."""
    X = rng.normal(size=(n, d))
    X -= np.outer(X @ theta, theta) / (theta @ theta)
    return X / np.linalg.norm(X, axis=1)[:, None]


def compared(gradients, run, theta, sets):
    limit = Limit.of(run, gradients.additions(run.order.sizes.most))
    return apart_squared(*(gradients.clipped_sum(theta, rows, limit) for rows in sets))


@pytest.mark.parametrize("trials", [24, pytest.param(60, marks=pytest.mark.nightly)])
@every("kind", ["dense", "csr", "intercept"])
@every("outputs", [1, 3])
def test_a_record_moves_the_sum_by_no_more_wherever_the_others_stand(kind, outputs, trials):
    """On top of others, or in another's place: theirs stay to the last bit, however badly they round."""
    rng, bound = np.random.default_rng(3), Fraction(0.01) ** 2
    for trial in range(trials):
        n, d = 40, int(rng.integers(2, 80))
        theta = rng.normal(size=d) * 1e6
        X = near_zero_predictors(n, d, theta, rng)
        if trial % 3 == 0:
            X *= rng.choice([1e-3, 1.0, 1e9], (n, 1))
        y = rng.integers(0, max(outputs, 2), n)
        data, intercept = sparse.csr_matrix(X) if kind == "csr" else X, kind == "intercept"
        records = learn.Records(data, 1.0, 0.5 if intercept else None)
        if outputs == 1:
            gradients, loss = learn.LogisticGradients(records, y), Loss.logistic(1.25)
        else:
            gradients, loss = learn.SoftmaxGradients(records, y, 3), Loss.softmax(1.25)
            theta = np.outer(theta, rng.normal(size=3))
        if intercept:
            theta = np.concatenate([theta, np.zeros((1, *theta.shape[1:]))])
        # A bound that every record's gradient exceeds, so that nothing is left to spare.
        run = run_of(n, Poisson(3), loss=loss, clip_norm=0.01)
        others = np.sort(rng.choice(n - 1, int(rng.integers(1, n - 1)), replace=False))
        others[others >= (at := int(rng.integers(n)))] += 1
        both = np.sort(np.append(others, at))
        assert compared(gradients, run, theta, (others, both)) <= bound
        replaced = both[both != rng.choice(others)], others
        for one in (run, replace(run, batches=FixedSize(len(others)))):
            assert compared(gradients, one, theta, replaced) <= 4 * bound


@pytest.mark.parametrize("d", [1, 2, 7, 60, 785, 4096, 4097, 9000, 20_000])
@every("outputs", [None, 1, 3, 10])
@every("stored", ["dense", "csr"])
def test_predictors_do_not_depend_on_place_or_company(d, outputs, stored):
    """To the last bit, on rows longer than numpy's buffer as well."""
    rng = np.random.default_rng(d)
    n = 24
    X = rng.normal(size=(n, d))
    records = learn.Records(sparse.csr_matrix(X) if stored == "csr" else X, 1.0, 0.5)
    theta = rng.normal(size=(d + 1,) if outputs is None else (d + 1, outputs))

    def predictor(rows):
        parts = [records.predictor(b, theta, anywhere=True) for b in records.blocks(rows)]
        return np.concatenate(parts)

    alone = np.concatenate([predictor(np.array([i])) for i in range(n)])
    exact = records.dense(slice(0, n)) @ theta
    assert alone == pytest.approx(exact, rel=1e-9, abs=1e-12)
    for _ in range(30):
        rows = rng.permutation(n)[: int(rng.integers(1, n + 1))]
        assert np.array_equal(predictor(rows), alone[rows])
