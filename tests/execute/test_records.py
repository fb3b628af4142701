"""Rows of bounded norm against rows worked out one number at a time, logistic gradients, and refusals."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pabi import InvalidInput, learn
from pabi.describe.batches import FullBatch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.records import MOST_ROWS, as_labels, seen_norm
from pabi.learn import bound_rows, train, with_intercept
from support.every_case import every, refused
from support.execution import norm_squared

from .losses import exact_row

UNIT = Fraction(1, 2**53)
RNG = np.random.default_rng(6)
DATA = np.round(RNG.standard_normal((40, 5)) * 2.0, 3) * (RNG.random((40, 5)) < 0.6)
SYMMETRIC = ([-2.0] * 5, [2.0] * 5)  # a sparse matrix keeps its zeros
LOPSIDED = ([-1.0, 0.0, -3.0, 0.5, -2.0], [2.0, 1.0, 3.0, 1.5, 0.0])

FORMS = {"dense": lambda: DATA.copy(), "csr": lambda: sparse.csr_matrix(DATA)}
SETTINGS = {
    "as they are": {},
    "bounded": {"feature_norm": 1.5},
    "bounded, with an intercept": {"feature_norm": 1.5, "intercept_scaling": 0.5},
    "within ranges": {"ranges": SYMMETRIC},
    "within ranges, bounded, with an intercept": {
        "ranges": SYMMETRIC, "feature_norm": 0.75, "intercept_scaling": 2.0,
    },
}  # fmt: skip


@every("ranges", [SYMMETRIC, LOPSIDED, (-0.5, 3.0)])
def test_ranges_are_mapped_onto_one_interval(ranges):
    """One pair for all features, or one each; centres and half widths are kept."""
    records = learn.Records(DATA, ranges=ranges)
    low, high = (np.broadcast_to(side, 5) for side in ranges)
    sides = low.tolist(), high.tolist()
    exact = np.array([exact_row(row, ranges=sides) for row in DATA])
    assert records.dense(slice(0, 40)) == pytest.approx(exact, abs=1e-15)
    assert records.centre == pytest.approx((low + high) / 2)
    assert records.reach == pytest.approx((high - low) / 2)


@every("form", ["dense", "csr"])
@every("how", SETTINGS)
def test_norms_are_never_below_the_true_ones(form, how):
    """Of factor times row, in rational arithmetic."""
    records = learn.Records(FORMS[form](), **SETTINGS[how])
    own = Fraction(SETTINGS[how].get("intercept_scaling", 0.0)) ** 2
    for block in records.blocks(np.arange(40)):
        features = block.features.toarray() if form == "csr" else block.features
        for i, row in enumerate(features):
            factor = Fraction(1 if block.scale is None else float(block.scale[i]))
            square = sum((Fraction(float(x)) * factor) ** 2 for x in row) + own
            if "feature_norm" in SETTINGS[how]:
                assert square <= Fraction(SETTINGS[how]["feature_norm"]) ** 2 + own
            found = Fraction(float(block.norm[i])) ** 2
            assert square <= found <= square * (1 + 100 * UNIT) + Fraction(1, 10**300)


@every("d", [1, 100, 600])
@every("rows", [slice(0, 9000), slice(100, 4200), np.arange(8999, -1, -2)])
def test_blocks_are_the_rows_in_order(d, rows):
    """None longer than what sums are allowed to round by, and every row once."""
    X = np.broadcast_to(np.arange(9000.0, dtype=np.float32)[:, None], (9000, d))
    found, at = [], 0
    for block in learn.Records(X).blocks(rows):
        assert block.part == slice(at, at + len(block.features))
        assert 0 < len(block.features) <= MOST_ROWS
        found.append(block.features.copy())
        at = block.part.stop
    assert np.array_equal(np.concatenate(found), X[rows])


@every("form", FORMS)
def test_no_warning_tells_of_a_row_far_out_of_its_range(form):
    """Its distance in half widths overflows."""
    X = FORMS[form]()
    X[0, 0] = 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = learn.Records(X, 1.0, ranges=(-1e-10, 1e-10))
    assert records.dense(slice(0, 1))[0, 0] <= 1.0


@every("form", FORMS)
def test_it_is_known_whether_a_row_was_changed(form):
    """Rows at the bound do not count: nobody is to be warned of roundings."""
    far, near = (-100.0, 100.0), (-1.0, 1.0)
    for shortened, settings in (
        (False, {}),
        (False, {"feature_norm": 100.0}),
        (True, {"feature_norm": 1.5}),
        (False, {"ranges": far}),
        (True, {"ranges": near}),
        (True, {"ranges": far, "feature_norm": 0.01}),
    ):
        assert learn.Records(FORMS[form](), **settings).shortened is shortened
    rows = DATA[np.any(DATA != 0.0, axis=1)]
    rows = rows / np.linalg.norm(rows, axis=1)[:, None]
    assert not learn.Records(rows, 1.0).shortened
    assert not learn.Records(rows, ranges=(rows.min(axis=0), rows.max(axis=0))).shortened


@given(st.floats(1e-70, 1e70), st.one_of(st.none(), st.floats(1e-70, 1e70)))
def test_what_the_model_sees_is_no_longer_than_is_said(norm, scaling):
    """√(R² + κ²), rounded up by a few units at most."""
    square = Fraction(norm) ** 2 + Fraction(scaling or 0.0) ** 2
    found = Fraction(seen_norm(norm, scaling)) ** 2
    assert square <= found <= square * (1 + 8 * UNIT * 2)


@every("bound", [1e-3, 1.0, 1.7, 1e6])
def test_bounded_rows_are_within_the_bound_exactly(bound):
    found = bound_rows(DATA, bound)
    for before, after in zip(DATA, found, strict=True):
        assert norm_squared(after) <= Fraction(bound) ** 2
        if norm_squared(before) <= Fraction(bound) ** 2 * (1 - Fraction(1, 10**12)):
            assert np.array_equal(after, before)
        assert after == pytest.approx(exact_row(before, bound), rel=1e-13)


def test_labels_are_one_a_row_and_of_any_kind():
    for y in (np.zeros(3), np.zeros((4, 1)), 0.0, [], None, "abcd"):
        assert "shape (4,), one a row of X, got " in refused("y", as_labels, y, 4)
    for y in ([0, 1, 0, 1], ("a", "b", "a", "b"), np.array([1.5, 0, 0, 0])):
        assert as_labels(y, 4).tolist() == list(y)


@every(
    "X",
    [
        *(np.zeros(3), np.zeros((2, 2, 2)), np.zeros((0, 3)), np.zeros((3, 0)), [], 1.0, None),
        [[1.0], [1.0, 2.0]],
    ],
)
@every("take", [learn.Records, lambda X: bound_rows(X, 1.0), with_intercept])
def test_what_is_no_matrix_is_refused(X, take):
    refused("X", take, X)


X = RNG.standard_normal((30, 4))
Y = (RNG.random(30) < 0.4).astype(int)


@every("labels", [2 * Y - 1, Y.astype(bool), Y.astype(float), (2 * Y - 1).tolist()])
def test_both_codes_of_the_labels_agree(labels):
    theta, rows = np.array([1.0, 2.0, -1.0, 0.5]), np.arange(30)
    one, other = (learn.LogisticGradients(X, y)(theta, rows) for y in (labels, Y))
    assert np.array_equal(one, other)
    tiny = learn.LogisticGradients([[1.0]], [1])(np.array([40.0]), np.array([0]))
    assert tiny[0, 0] == pytest.approx(-math.exp(-40.0), rel=1e-14)


SECRET = 6172.25


def logistic(*labels):
    return lambda: learn.LogisticGradients([[SECRET], [1.0]], list(labels))


def records(*args, **options):
    return lambda: learn.Records(*args, **options)


def sparse_records(rows, **options):
    return lambda: learn.Records(sparse.csr_matrix(rows), 1.0, **options)


def squared(target, bound=0.7):
    return lambda: learn.SquaredGradients([[1.0]], [target], bound)


def huber(targets, threshold=0.7):
    return lambda: learn.VectorHuberGradients([[1.0]], targets, threshold)


def poisson(count, *bounds):
    return lambda: learn.PoissonGradients([[1.0]], [count], *bounds)


REFUSED = {
    "y": [
        *(logistic(0), logistic([0], [1]), logistic(0, 2), logistic(0, SECRET)),
        *(logistic(0, math.nan), logistic(-1, 0), logistic("0", "1")),
        lambda: learn.OneVsRestGradients([[SECRET], [1.0]], [0, 3], 3),
        lambda: learn.OneVsRestGradients([[SECRET], [1.0]], [0, -1], 3),
        lambda: learn.SoftmaxGradients([[SECRET], [1.0]], [0.0, SECRET], 3),
        *(squared(math.nan), squared(math.inf), squared("x6172")),
        *(huber([[SECRET, math.nan]]), huber([SECRET]), huber([[SECRET], [1.0]])),
        *(huber([["x6172"]]), huber([[]]), poisson(-SECRET, 1.0, 2.0)),
        lambda: learn.SmoothedHingeGradients([[1.0]], [SECRET], 0.4),
    ],
    "classes": [lambda: learn.SoftmaxGradients([[SECRET], [1.0]], [0, 1], 1)],
    "residual_bound": [squared(1.0, 0.0)],
    "threshold": [huber([[1.0]], 0.0)],
    "smoothing": [lambda: learn.SmoothedHingeGradients([[1.0]], [1], -1.0)],
    "count_bound": [poisson(1.0, 1.0, 0.0)],
    "predictor_bound": [poisson(1.0, math.inf, 1.0)],
    "X": [
        *(records([1.0, 2.0]), records(np.zeros((0, 2))), records([["a"], [SECRET]])),
        *(records([[SECRET], [bad]], 1.0) for bad in (math.nan, math.inf, 1e100, -1e100)),
        *(records([["x6172"]], 1.0), records([[1j * SECRET]], 1.0)),
        sparse_records([[SECRET, math.inf]]),
        lambda: bound_rows([[math.nan, 1.0]], 1.0),
    ],
    "feature_ranges": [
        sparse_records([[1.0, 2.0]], ranges=(0.0, 1.0)),
        *(records([[1.0]], 1.0, ranges=r) for r in ((1.0, 1.0), (0.0, math.inf))),
        records([[1.0]], 1.0, ranges=[[0.0, 0.0], [1.0, 1.0]]),
    ],
    "feature_norm": [
        *(records([[1.0]], bound) for bound in (0.0, 1e-100, 1e100)),
        *(lambda b=b: bound_rows(X, b) for b in (0.0, -1.0, math.nan, math.inf, "1", True)),
    ],
    "intercept_scaling": [records([[1.0]], 1.0, -1.0)],
    "scaling": [lambda: with_intercept(X, 0.0)],
    "theta": [lambda: learn.LogisticGradients(X, Y)(np.zeros(3), np.arange(2))],
}


@every("field", REFUSED)
def test_refusals_name_the_field_and_show_no_data(field):
    for i, build in enumerate(REFUSED[field]):
        with pytest.raises(InvalidInput) as caught:
            build()
        assert caught.value.field == field, i
        assert "6172" not in str(caught.value), i
        assert caught.value.__suppress_context__ or caught.value.__context__ is None, i


def test_intercept_is_the_last_column():
    out = with_intercept(X, 0.5)
    assert np.array_equal(out[:, :-1], X)
    assert np.all(out[:, -1] == 0.5)
    assert np.all(with_intercept(X)[:, -1] == 1.0)


def test_training_with_little_noise_finds_the_regularised_optimum():
    """Gradient descent with c = 1 − ηλ = 0.8 forgets its start by 0.8⁶⁰⁰; scikit-learn agrees to
    its tolerance, up to noise of standard deviation below ης/√(1 − c²) ≈ 3.4e-8."""
    from sklearn.linear_model import LogisticRegression

    features = with_intercept(bound_rows(X, 1.0), 0.5)
    given = {"steps": 600, "step_size": 2.0, "noise_std": 1e-8}
    run = NoisySGD(Loss.logistic(math.hypot(1.0, 0.5), l2=0.1), n=30, batches=FullBatch(), **given)
    theta = train(run, learn.LogisticGradients(features, Y), np.zeros(5), delta=1e-5).x
    peer = LogisticRegression(C=1.0 / (0.1 * 30), fit_intercept=False, tol=1e-12, max_iter=10_000)
    assert theta == pytest.approx(peer.fit(features, Y).coef_[0], abs=1e-6)
