"""Large tables and columns in passes: what is read of the same in memory, to the last bit."""

import numpy as np
import pytest

from pabi.execute import sources
from pabi.execute.blocks import copy_rows
from pabi.execute.large_records import LargeRecords, RowMap, records_of
from pabi.execute.records import Records
from pabi.execute.source_files import array_parts
from pabi.execute.sources import Parts
from pabi.learn import LargeTable
from pabi.numbers.errors import InvalidInput
from support.every_case import every
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
    with pytest.raises(InvalidInput, match="rows: expected a slice"):
        large.dense(np.array([3, 1]))


@every("equal", [False, True])
def test_mapped_rows_are_those_in_memory(tmp_path, equal):
    matrix = np.diag([1.0, 2.0, 0.5, 3.0, 1.5]) + 0.1
    row_map = RowMap(matrix, 1.0, 2.0, equal)
    large = row_map.mapped(LargeRecords(table_in("npy", X, tmp_path), 1.0))
    own = row_map.mapped(Records(X, 1.0))
    assert np.array_equal(large.dense(slice(0, N)), own.dense(slice(0, N)))


def test_columns_beside_are_no_features(tmp_path):
    parts = write_parts(tmp_path / "parts", frame_of(X, y=np.arange(N)))
    large = records_of(LargeTable(parts), without=["y"])
    assert np.array_equal(large.dense(slice(0, N)), X)
    assert np.array_equal(large.column("y").together(), np.arange(N))
    assert type(records_of(X)) is Records  # what is in memory stays there


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_number_in_the_last_part(tmp_path, form):
    rows = X.copy()
    rows[-1, 2] = np.nan
    table = table_in(form, rows, tmp_path)
    with pytest.raises(InvalidInput, match="X: expected finite numbers up to 2\\^250, got NaN"):
        LargeRecords(table)


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


def test_files_that_change_between_passes(tmp_path):
    parts = write_parts(tmp_path / "parts", frame_of(X))
    large = LargeRecords(LargeTable(parts))
    frame_of(X[:3000]).to_parquet(parts / "part-2.parquet")
    with pytest.raises(InvalidInput, match="X: it changed while it was read"):
        large.dense(slice(0, N))


@every("m", [1, 255, 256, 5000])
@every("order", ["C", "F"])
@every("kind", ["f4", "f8"])
def test_rows_are_copied_however_they_lie(m, order, kind):
    rows = np.asarray(np.random.default_rng(m).standard_normal((m, 7)), kind, order=order)
    room = np.zeros(m, np.dtype([("other", "f8"), ("x", kind, (7,))]))
    for source in (rows, rows[::-1], rows[: m // 2]):
        copy_rows(source, room["x"][: len(source)])
        assert np.array_equal(room["x"][: len(source)], source)
    numbers = np.empty((m, 7))
    copy_rows(rows, numbers)
    assert np.array_equal(numbers, rows)
    assert not room["other"].any()


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
        with pytest.raises(InvalidInput, match="y: expected as many rows as X has"):
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
        with pytest.raises(InvalidInput, match="^y: expected at least one row, got none$"):
            parts_of(*parts).first()
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
