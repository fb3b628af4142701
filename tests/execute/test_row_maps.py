"""Mapped rows: against a direct computation in double precision, within their norm, each from itself."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from pabi.execute import large_records as module
from pabi.execute.large_records import RowMap
from pabi.execute.records import Records
from support.every_case import every
from support.execution import norm_squared

UNIT, NORM = 1.25, 3.0
equals = every("equal", [False, True])
diagonals = every("diagonal", [False, True])


def matrix_of(width, diagonal, seed=0, size=1.0):
    """A positive matrix whose eigenvalues differ by orders of magnitude, or its diagonal."""
    rng = np.random.default_rng(seed)
    values = size * np.exp(rng.uniform(-2.0, 3.0, width))
    if diagonal:
        return values
    basis, _ = np.linalg.qr(rng.standard_normal((width, width)))
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / 2.0


def table_of(n=50, d=7, seed=1):
    """Rows shorter and longer than 1, one of them 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(rng.uniform(-3.0, 1.0, (n, 1)))
    X[3] = 0.0
    return X * (rng.random((n, d)) < 0.5)


def directly(row_map, seen):
    """The same map in double precision and in one product."""
    P = np.diag(row_map.matrix) if row_map.diagonal else row_map.matrix
    image = seen @ P.T / row_map.unit
    lengths = np.linalg.norm(image, axis=1)
    least = 0.0 if row_map.equal else 1.0
    factors = np.where(lengths > 0.0, 1.0 / np.maximum(np.maximum(lengths, least), 1e-300), 0.0)
    return row_map.norm * factors[:, None] * image


@equals
@diagonals
@every("intercept", [None, 0.75])
@every("held_as", ["float64", "float32", "int8", "sparse"])
def test_rows_are_those_of_a_direct_computation(held_as, intercept, diagonal, equal):
    X = table_of()
    match held_as:
        case "sparse":
            held = sparse.csr_matrix(X)
        case "int8":
            held = X = np.rint(2.0 * X).astype(np.int8)
        case dtype:
            held = X = X.astype(dtype)
    records = Records(held, 1.0, intercept)
    row_map = RowMap(matrix_of(records.width, diagonal), UNIT, NORM, equal)
    truth = directly(row_map, records.dense(slice(0, records.n)))
    table = row_map.table(records)
    assert sparse.issparse(table) == (diagonal and held_as == "sparse")
    table = table.toarray() if sparse.issparse(table) else table
    # Each entry is a sum of w products in single precision, of a row and a matrix of known sizes; rows that
    # are brought to a norm carry the relative error of their own length.
    sizes = np.linalg.norm(row_map.matrix, 2) if not diagonal else np.max(row_map.matrix)
    lengths = np.linalg.norm(truth / NORM, axis=1) if not equal else 1.0
    image = np.linalg.norm(records.dense(slice(0, records.n)) @ matrix_as(row_map), axis=1) / UNIT
    coarse = 4.0 * records.width * 2.0**-24 * sizes / np.maximum(image, 1e-9)
    allowed = NORM * (2.0**-18 + 2.0**-22 + coarse) * lengths
    assert np.all(np.linalg.norm(table - truth, axis=1) <= allowed)


def matrix_as(row_map):
    return np.diag(row_map.matrix) if row_map.diagonal else row_map.matrix


@equals
@diagonals
@every("held_as", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("norm", [2.0**-200, 1e-35, 0.1, 1.0, 39.7, 1e35, 2.0**200])
def test_no_row_is_longer_than_the_norm(norm, held_as, diagonal, equal):
    """In rational arithmetic; and so near to it that `Records` does not scale any again."""
    for seed in range(4):
        X = table_of(seed=seed) * 10.0 ** np.random.default_rng(seed).uniform(-30, 30, (50, 1))
        records = Records(held_as(X), 1.0)
        row_map = RowMap(matrix_of(7, diagonal, seed), UNIT, norm, equal)
        mapped = row_map.mapped(records)
        rows = mapped.dense(slice(0, mapped.n))
        squares = [norm_squared(row) for row in rows]
        assert max(squares) <= Fraction(norm) ** 2
        assert not mapped.shortened
        assert mapped.feature_norm == norm
        if equal:
            least = (Fraction(norm) * Fraction(1.0 - 2.0**-17)) ** 2
            assert all(square == 0 or square >= least for square in squares)


@every("least", [0.0, 1e-310, 1e-170, 1e-161, 1e-150])
def test_rows_that_hardly_differ_from_zero_are_bounded(least):
    """Squares of their numbers leave the range of doubles."""
    X = np.diag([least, 2.0 * least, 1.0])
    for held in (X, sparse.csr_matrix(X)):
        for diagonal in (False, True):
            row_map = RowMap(matrix_of(3, diagonal), UNIT, NORM, True)
            mapped = row_map.mapped(Records(held, 1.0))
            rows = mapped.dense(slice(0, 3))
            assert all(norm_squared(row) <= NORM**2 for row in rows)
            assert least > 0.0 or not rows[:2].any()


@equals
@diagonals
@pytest.mark.parametrize("held_as", [np.asarray, sparse.csr_matrix])
@every("held_at_once", [1 << 22, 7 * 11])
def test_a_row_depends_on_itself_alone(monkeypatch, held_at_once, held_as, diagonal, equal):
    """The same bits at its place, whatever the others are; and its scale."""
    monkeypatch.setattr(module, "_HELD", held_at_once)
    one, other = table_of(n=5000, seed=1), table_of(n=5000, seed=2) * 3.0
    places = [0, 10, 4095, 4096, 4999]
    other[places] = one[places]
    row_map = RowMap(matrix_of(7, diagonal), UNIT, NORM, equal)
    tables, scales = [], []
    for X in (one, other):
        records = Records(held_as(X), 1.0)
        table = row_map.table(records)
        tables.append(table[places].toarray() if sparse.issparse(table) else table[places])
        scales.append(np.array(row_map.scales(records))[:, places])
    assert tables[0].tobytes() == tables[1].tobytes()
    assert scales[0].tobytes() == scales[1].tobytes()


@equals
@diagonals
@every("shape", [(7,), (7, 3)])
def test_weights_of_mapped_rows_are_weights_of_rows(shape, diagonal, equal):
    """s·x·(R·P·θ/U) is what a mapped row times θ is."""
    records = Records(table_of(), 1.0)
    row_map = RowMap(matrix_of(7, diagonal), UNIT, NORM, equal)
    theta = np.random.default_rng(2).standard_normal(shape)
    factors, norms = row_map.scales(records)
    seen = records.dense(slice(0, records.n))
    product = ((seen @ row_map.applied(theta)).T * factors).T
    table = row_map.table(records)
    assert np.allclose(product, table @ theta, rtol=0.0, atol=1e-4)
    assert np.allclose(norms, np.linalg.norm(table.astype(np.float64), axis=1), rtol=1e-6)


def test_rows_that_are_short_enough_keep_their_length():
    """Where rows are not brought to one norm, the map is linear on those that need no scaling."""
    records, short = (
        Records(table_of(), 1.0),
        RowMap(matrix_of(7, False, size=0.02), UNIT, NORM, False),
    )
    factors, norms = short.scales(records)
    assert np.max(norms) < 0.9 * NORM
    assert np.all(factors == 1.0)
    factors, norms = RowMap(1e3 * short.matrix, UNIT, NORM, False).scales(records)
    far = norms > 0.99 * NORM
    assert 0.0 < np.min(factors[far]) < np.max(factors[far]) < 1.0
    assert np.all(factors[~far] == 1.0)
