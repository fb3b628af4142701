"""Data that change after they were looked at: no record moves a sum by more than was promised."""

import os

import numpy as np
import pytest
from scipy import sparse

from pabi import learn
from pabi.execute.large_records import LargeRecords, RowMap
from pabi.execute.layouts import Layout
from pabi.execute.records import MOST_ROWS, Records
from pabi.execute.sources import Parts
from pabi.execute.statistics import _products, _sums_of_squares
from pabi.execute.sums import Limit
from support.every_case import every, refused

N, D = 12, 3
LARGE = 1e6
ONE = Limit(1.0, 1.0)
Y = np.arange(N) % 2
CLIPPED = 1.0 + 1e-12  # a sum of few terms rounds by less


def short_rows(kind="f8"):
    """Rows well within the norm 1."""
    return np.random.default_rng(3).uniform(-0.3, 0.3, (N, D)).astype(kind)


def mapped_file(tmp_path):
    np.save(tmp_path / "X.npy", short_rows())
    return np.load(tmp_path / "X.npy", mmap_mode="r+")


def with_views(tmp_path):
    """A read-only view of memory that somebody else can write to."""
    whole = np.zeros((N + 1, D))
    whole[1:] = short_rows()
    view = whole[1:].view()
    view.flags.writeable = False
    return view, whole[1:]


# (what the gradients are made of, what is written to afterwards)
ARRAYS = {
    "doubles": lambda tmp: 2 * (short_rows(),),
    "singles": lambda tmp: 2 * (short_rows("f4"),),
    "columns first": lambda tmp: 2 * (np.asfortranarray(short_rows()),),
    "a view": with_views,
    "a mapped file": lambda tmp: 2 * (mapped_file(tmp),),
    "a view of a mapped file": lambda tmp: (lambda X: (np.asarray(X)[:], X))(mapped_file(tmp)),
}
GRADIENTS = {
    "logistic": lambda X: learn.LogisticGradients(X, Y),
    "softmax": lambda X: learn.SoftmaxGradients(X, Y, 2),
    "squared": lambda X: learn.SquaredGradients(X, Y.astype(float), 1.0),
    "own": lambda X: learn.LinearGradients(X, Y, lambda z, y: z - y),
    "weighted": lambda X: learn.LogisticGradients(X, Y).weighted(np.full(N, 0.5)),
}
ROWS = {"in a row": slice(0, N), "chosen": np.arange(N)[::-1].copy()}


@pytest.mark.parametrize("made", ARRAYS)
@every("how", GRADIENTS)
@every("rows", ROWS)
def test_a_sum_is_within_its_bound_whatever_is_written_into_the_rows(tmp_path, made, how, rows):
    """10⁶ written into one record moved a model by 5000, where .02 was promised."""
    X, theirs = ARRAYS[made](tmp_path)
    gradients = GRADIENTS[how](Records(X, 1.0))
    theirs[0], theirs[-1] = LARGE, -LARGE
    for theta in (np.zeros(gradients.shape), np.full(gradients.shape, 1e-6)):
        total = gradients.clipped_sum(theta, ROWS[rows], ONE)
        assert np.linalg.norm(total) <= N * CLIPPED
        theirs[:] *= -3.0


@every("part", ["data", "indices", "indptr", "all"])
def test_sparse_rows_are_a_copy(part):
    X = sparse.csr_matrix(short_rows())
    theirs = X.copy()
    own = Records(theirs, 1.0)
    before = own.dense(slice(0, N))
    if part in ("data", "all"):
        theirs.data[:] = LARGE
    if part in ("indices", "all"):
        theirs.indices[:] = 0
    if part in ("indptr", "all"):
        theirs.indptr[:] = 0
    assert np.array_equal(own.dense(slice(0, N)), before)
    assert np.array_equal(before, X.toarray())


@every("held", [np.asarray, sparse.csr_matrix])
def test_bounds_that_rows_were_measured_for_stay(held):
    records = Records(held(np.eye(3)), 5.0, 1.0, (-2.0, 2.0))
    for name in ("feature_norm", "intercept_scaling", "centre", "reach"):
        with pytest.raises(AttributeError):
            setattr(records, name, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        records.reach[:] = 0.1


def test_what_a_sparse_matrix_says_of_itself_is_not_believed():
    """Entries that were made one and the same after it was found out that each is there once."""
    X = sparse.csr_matrix(np.full((N, D), 0.55))  # of norm .95
    assert X.has_canonical_format
    X.indices[:] = 0
    rows = Records(X, 1.0).dense(slice(0, N))
    assert np.all(np.linalg.norm(rows, axis=1) <= 1.0)
    assert rows == pytest.approx(np.tile([1.0, 0.0, 0.0], (N, 1)))
    X.indices[:] = D + 5
    assert "expected a sparse matrix whose indices are within" in refused("X", Records, X, 1.0)


@every("made", ARRAYS)
def test_second_moments_of_what_is_read(tmp_path, made):
    X, theirs = ARRAYS[made](tmp_path)
    records = Records(X, 1.0)
    theirs[0], theirs[-1] = LARGE, -LARGE
    assert np.linalg.norm(_products(records)) <= N * CLIPPED
    assert _sums_of_squares(records).sum() <= N * CLIPPED


@every("made", ARRAYS)
@every("equal", [True, False])
def test_rows_are_mapped_from_what_is_read_and_then_ours(tmp_path, made, equal):
    X, theirs = ARRAYS[made](tmp_path)
    records = Records(X, 1.0)
    theirs[0] = LARGE
    images = RowMap(np.full(D, 2.0), 1.0, 1.0, equal).mapped(records)
    gradients = learn.LogisticGradients(images, Y)
    theirs[:] = -LARGE
    assert np.linalg.norm(gradients.clipped_sum(np.zeros(D), slice(0, N), ONE)) <= N * CLIPPED
    assert np.all(np.linalg.norm(images.dense(slice(0, N)), axis=1) <= CLIPPED)


@every("how", ["logistic", "softmax", "squared", "own"])
def test_targets_weights_and_the_shape_are_ours_as_well(how):
    X, weights = short_rows(), np.full(N, 0.25)
    y = Y.astype(float if how == "squared" else int)
    gradients = {
        "logistic": lambda: learn.LogisticGradients(X, y).weighted(weights),
        "softmax": lambda: learn.SoftmaxGradients(X, y, 2),
        "squared": lambda: learn.SquaredGradients(X, y, 1.0),
        "own": lambda: learn.LinearGradients(X, y, lambda z, t: z - t),
    }[how]()
    point = np.zeros(gradients.shape)
    before = gradients.clipped_sum(point, slice(0, N), ONE)
    y[:], weights[:], X.shape = 1 - y, 1e9, (D, N)
    assert np.array_equal(gradients.clipped_sum(point, slice(0, N), ONE), before)


def test_rows_are_held_once_in_their_own_type_and_in_order():
    """Copied block by block, also of an array whose columns lie in one piece."""
    X = np.asfortranarray(np.random.default_rng(0).random((2 * MOST_ROWS + 17, 2)).astype("f4"))
    held = Records(X, 1.0)._held()
    assert not np.shares_memory(held._X, X)
    assert np.array_equal(held._X, X)
    assert held._X.dtype == X.dtype
    assert held._held() is held


def test_rows_that_stop_being_numbers_are_refused_when_they_are_read():
    X = short_rows()
    records = Records(X, 1.0)
    X[3, 1] = np.nan
    assert "expected finite numbers" in refused("X", records.dense, slice(0, N))


def same_stamp(path, change):
    """Writes to a file such that its size and time stay the same."""
    before = os.stat(path)
    rows = np.load(path, mmap_mode="r+")
    change(rows)
    rows.flush()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@every("kind", ["f4", "f8"])
def test_a_file_that_changes_between_its_passes(tmp_path, kind):
    """No row was scaled in the pass that looked at them; one is now."""
    path = tmp_path / "X.npy"
    np.save(path, short_rows(kind))
    gradients = learn.LogisticGradients(LargeRecords(str(path), 1.0), Y)
    same_stamp(path, lambda rows: rows.__setitem__(0, LARGE))
    for _ in range(2):
        total = gradients.clipped_sum(np.zeros(D), slice(0, N), ONE)
        assert np.linalg.norm(total) <= N * CLIPPED
    gradients.layout.close()


def test_rows_that_were_laid_out_are_those_that_are_read(tmp_path):
    """What is written to the table after the rows were laid out changes nothing any more."""
    path = tmp_path / "X.npy"
    np.save(path, short_rows("f4"))
    layout = Layout(LargeRecords(str(path), 1.0), Parts.of(Y), None)
    (before,) = layout.blocks(slice(0, N))
    features = before.features.copy()
    same_stamp(path, lambda rows: rows.__setitem__(slice(None), LARGE))
    (after,) = layout.blocks(np.arange(N)[::-1].copy())
    assert np.array_equal(after.features[::-1], features)
    layout.close()
