"""Large tables and columns in passes: what is read of the same in memory, to the last bit."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from pabi.execute import large_records as module
from pabi.execute import sources
from pabi.execute.large_records import LargeRecords, RowMap
from pabi.execute.records import Records
from pabi.execute.source_files import array_parts
from pabi.execute.sources import Parts
from pabi.learn import LargeTable
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused
from support.execution import norm_squared
from support.large import FORMS, features, frame_of, package, table_in, write_parts

N = 9_000
X = features(N)
BOUNDS = [
    {},
    {"feature_norm": 1.0},
    {"feature_norm": 0.8, "intercept_scaling": 2.0, "ranges": (-0.5, 0.7)},
]


def blocks_of(records, step):
    """One block after another: the next of those in memory overwrites the one before it."""
    for first in range(0, records.n, step):
        yield from records.blocks(slice(first, min(first + step, records.n)))


@pytest.mark.parametrize("form", FORMS)
def test_every_source_has_the_same_rows(tmp_path, form):
    large = LargeRecords(table_in(form, X, tmp_path), 1.0, 0.5)
    own = Records(X, 1.0, 0.5)
    assert (large.n, large.d, large.width, large.shortened) == (N, 5, 6, own.shortened)
    assert np.array_equal(large.dense(slice(0, N)), own.dense(slice(0, N)))


@every("bounds", BOUNDS)
@every("step", [N, 1000, 4097])
def test_blocks_are_those_in_memory(tmp_path, bounds, step):
    large, own = LargeRecords(table_in("npy", X, tmp_path), **bounds), Records(X, **bounds)
    assert large.shortened == own.shortened
    for mine, theirs in zip(blocks_of(large, step), blocks_of(own, step), strict=True):
        assert mine.part == theirs.part
        assert np.array_equal(mine.features, theirs.features)
        assert np.array_equal(mine.norm, theirs.norm)
        expected = np.ones(len(mine.norm)) if theirs.scale is None else theirs.scale
        assert np.array_equal(mine.scale, expected)


@every("d", [1, 5, 40, 700, 4096, 4200])
@every("size", [1e-3, 1.0, 1e20])
def test_single_precision_passes_no_row_that_has_to_be_scaled(tmp_path, d, size):
    """Rows whose norms are within some roundings of the bound, on both sides of it."""
    rng = np.random.default_rng(d)
    for row in rng.standard_normal((4, d)):
        row = (size * row / np.linalg.norm(row)).astype("f4")
        norm = float(np.sqrt(np.sum(row.astype(np.float64) ** 2)))
        np.save(tmp_path / "X.npy", row[None])
        for part in (-1e-3, -1e-8, -1e-15, 0.0, 1e-15, 1e-8, 2e-4, 1e-3, 2e-3):
            large = LargeRecords(str(tmp_path / "X.npy"), norm * (1.0 + part))
            own = Records(row[None], norm * (1.0 + part))
            assert large.shortened == own.shortened
            (mine,), (theirs,) = large.blocks(slice(0, 1)), own.blocks(slice(0, 1))
            assert mine.scale == theirs.scale
            assert mine.norm == theirs.norm


@every("bad", [np.nan, np.inf, -np.inf])
@every("norm", [None, 1.0, 2.0**100])
def test_single_precision_passes_nothing_but_finite_numbers(tmp_path, bad, norm):
    table = X.copy()
    table[777, 3] = bad
    with pytest.raises(InvalidInput, match="X: expected finite numbers up to 2\\^250"):
        LargeRecords(table_in("npy", table, tmp_path), norm)


@every("kind", ["i8", "u1", "?", "f8", "f2"])
def test_numbers_of_every_type(tmp_path, kind):
    table = (10 * X).astype(kind)
    large = LargeRecords(table_in("npy", table, tmp_path))
    assert np.array_equal(large.dense(slice(0, N)), Records(table).dense(slice(0, N)))


def test_going_back_begins_another_pass(tmp_path):
    large = LargeRecords(table_in("npy", X, tmp_path))
    for rows in (slice(10, 20), slice(0, 5), slice(5, 9), slice(8990, 9000), slice(0, N)):
        assert np.array_equal(large.dense(rows), X[rows])
    assert "expected a slice" in refused("rows", large.dense, np.array([3, 1]))


@every("equal", [False, True])
def test_mapped_rows_are_those_in_memory(tmp_path, equal):
    matrix = np.diag([1.0, 2.0, 0.5, 3.0, 1.5]) + 0.1
    row_map = RowMap(matrix, 1.0, 2.0, equal)
    large = row_map.mapped(LargeRecords(table_in("npy", X, tmp_path), 1.0))
    own = row_map.mapped(Records(X, 1.0))
    assert np.array_equal(large.dense(slice(0, N)), own.dense(slice(0, N)))


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_number_in_the_last_part(tmp_path, form):
    rows = X.copy()
    rows[-1, 2] = np.nan
    table = table_in(form, rows, tmp_path)
    assert "expected finite numbers up to 2^250, got NaN" in refused("X", LargeRecords, table)


def with_a_null(frame):
    frame = frame.astype({"x1": "Float32"})
    frame.loc[len(frame) - 1, "x1"] = package("pandas").NA
    return frame


@every(
    "change, parts, message",
    [
        (
            lambda frame: frame.astype({"x3": str}),
            1,
            "part-2.parquet: expected float in the column 'x3'",
        ),
        (lambda frame: frame.drop(columns="x3"), 1, "part-2.parquet: expected one column 'x3'"),
        (lambda frame: frame.astype({"x3": str}), 3, "X: expected numbers in the column 'x3', got"),
        (with_a_null, 3, "X: expected finite numbers"),
    ],
)
def test_files_of_other_columns_and_of_no_numbers(tmp_path, change, parts, message):
    """The last of them, or all."""
    folder = write_parts(tmp_path / "parts", change(frame_of(X)) if parts == 3 else frame_of(X))
    if parts == 1:
        change(frame_of(X[:10])).to_parquet(folder / "part-2.parquet")
    with pytest.raises(InvalidInput, match=message):
        LargeRecords(LargeTable(folder))


def test_made_rows_that_are_no_numbers():
    rows = Parts(lambda: iter([np.array([[0.5], ["word"]], object)]), width=1)
    with pytest.raises(InvalidInput, match="^X: expected numbers, got text$") as caught:
        LargeRecords(LargeTable(X).with_rows(rows, None))
    assert caught.value.__context__ is None


CELLS = np.random.default_rng(0).integers(0, 5, 100)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "READ", 64)


def column_of(cells):
    return array_parts(cells, "y")


@every("cells", [CELLS, CELLS.astype(str), CELLS.astype(object)])
def test_cells_have_labels_and_are_counted(small_parts, cells):
    for parts in (column_of(cells), Parts.of(cells)):
        assert parts.labels().tolist() == np.unique(cells).tolist()
        assert parts.counted(100).rows == 100
        with pytest.raises(InvalidInput, match="expected as many rows as X has"):
            parts.counted(99)
    assert parts.together() is parts.first() is cells
    assert all(np.shares_memory(part, cells) for part in parts)


@every("cells", [column_of(CELLS), Parts.of(CELLS)])
def test_changes_follow_one_another_and_products(small_parts, cells):
    changed = cells.mapped(np.square).mapped(lambda part: part + 1)
    assert np.array_equal(changed.together(), CELLS**2 + 1)
    assert changed.first()[0] == CELLS[0] ** 2 + 1
    shares = np.linspace(0.0, 1.0, 100)
    for product in (cells.times(Parts.of(shares)), Parts.of(shares).times(cells)):
        assert np.array_equal(product.together(), CELLS * shares)


def parts_of(*parts):
    return Parts(lambda: iter(parts), "y")


def test_a_part_without_rows_is_nothing():
    """A first part of a cluster's table, or all rows of a part, may be gone."""
    none = CELLS[:0]
    for parts in ((), (none,)):
        assert "expected at least one row, got none" in refused("y", parts_of(*parts).first)
    for parts in ((none, CELLS), (CELLS[:50], none, CELLS[50:]), (CELLS, none)):
        column = parts_of(*parts)
        assert column.first()[0] == CELLS[0]
        assert np.array_equal(column.together(), CELLS)
        assert column.labels().tolist() == np.unique(CELLS).tolist()


def test_cells_of_parts_of_other_types_stay_what_they_are():
    """A gap makes objects of a part, and a word text of an array: neither changes the cells of the others."""
    large = np.array([2**60 + 1, 2**60 + 2])
    for other in (np.array([0.5]), np.array([None], dtype=object), np.array(["word"])):
        assert parts_of(large, other).together().tolist() == [*large.tolist(), *other.tolist()]
    assert parts_of(np.array(["a"]), np.array(["bcd"])).together().tolist() == ["a", "bcd"]
    with pytest.raises(
        InvalidInput, match="^y: expected labels that are all text, or all numbers$"
    ):
        parts_of(large, np.array(["word"])).labels()


# Mapped rows: against a direct computation in double precision, within their norm, each from itself.


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
        mapped = RowMap(matrix_of(7, diagonal, seed), UNIT, norm, equal).mapped(records)
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
            rows = row_map.mapped(Records(held, 1.0)).dense(slice(0, 3))
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
