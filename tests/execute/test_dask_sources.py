"""Collections of dask's, whose parts may be of other types than they say."""

from itertools import repeat

import numpy as np
import pytest

from pabi.execute.cells import cells_of, texts_of
from pabi.execute.large_records import LargeRecords
from pabi.execute.sources import Parts, dask_blocks, rechunked
from pabi.integrations.dask.blocks import blocks_of
from pabi.learn import LargeTable
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused
from support.large import package

delayed = package("dask").delayed
arrays, frames = package("dask.array"), package("dask.dataframe")
pandas = package("pandas")
X = np.arange(60.0).reshape(20, 3)


def dask_array(*blocks, axis=0):
    parts = [arrays.from_delayed(delayed(block), (20, 3), np.float32) for block in blocks]
    return arrays.concatenate(parts, axis=axis)


@every("axis", [0, 1])
@every("kind", ["U32", object, "f2", "f8", "g", "i8", "?"])
def test_the_type_of_a_block_changes_no_cell_of_others(kind, axis):
    third, ones = (X / 3.0).astype("f4"), np.ones((20, 3), kind)
    steady = LargeTable(dask_array(third, ones, axis=axis)).features()
    (whole,) = rechunked(steady.chunks(), repeat(100))
    assert whole.dtype == np.float32
    assert np.array_equal(whole, np.concatenate([third, np.ones((20, 3), "f4")], axis))


@every("axis", [0, 1])
@every("block", [X + 1j, X.astype("M8[s]"), np.full((20, 3), "word"), None, X[:7, 0], X.tolist()])
def test_a_block_of_no_numbers_is_refused(block, axis):
    with pytest.raises(InvalidInput, match="^X: [^\n]*$") as caught:
        LargeRecords(dask_array(X.astype("f4"), block, axis=axis))
    assert caught.value.__context__ is None


def test_numbers_too_large_for_their_type_are_infinite():
    """Without a warning, which would show a record."""
    steady = LargeTable(dask_array(X, X + 1e300)).features()
    assert np.isinf(list(steady.chunks())[1]).all()


def test_cells_of_parts_of_other_types_are_not_converted():
    (whole,) = rechunked(iter([np.array([0.1, 2.0]), np.array(["a"])]), repeat(3))
    assert whole.tolist() == [0.1, 2.0, "a"]
    beside = dask_array(X, X.astype(str), axis=1)
    assert next(dask_blocks(beside))[1].tolist() == [3.0, 4.0, 5.0, "3.0", "4.0", "5.0"]


@pytest.fixture
def objects():
    """Partitions of objects as they are, of which dask otherwise makes text."""
    with package("dask").config.set({"dataframe.convert-string": False}):
        yield


NUMBERS = {"a": 0.1, "b": 0.5}


def dask_frame(*parts, like=NUMBERS):
    meta = pandas.DataFrame({name: [cell] for name, cell in like.items()})[:0]
    return frames.from_delayed([delayed(part) for part in parts], meta, verify_meta=False)


def part_with(cell, **others):
    table = {name: [usual] * 3 for name, usual in NUMBERS.items()} | others
    return pandas.DataFrame({**table, "a": [cell, 0.1, 0.1]}, dtype=object)


@every(
    ("cell", "number"),
    [(None, np.nan), (pandas.NA, np.nan), (True, 1.0), (" 1e3", 1000.0), (2**70, 2.0**70)],
)
def test_an_odd_cell_of_a_partition_is_a_number(cell, number):
    frame = dask_frame(part_with(0.1), part_with(cell))
    rows = np.concatenate(list(LargeTable(frame).features().chunks()))
    assert np.array_equal(rows[:, 0], [0.1, 0.1, 0.1, number, 0.1, 0.1], equal_nan=True)
    assert (rows[:, 1] == 0.5).all()


def other_partitions():
    date = pandas.Timestamp("2020-01-01")
    odd = [2**2000, 10**20000, 1j, b"5", "word", date, date.date(), [1.0]]
    dates = part_with(0.1).assign(a=date)
    return [*map(part_with, odd), dates, part_with(0.1).drop(columns="a"), None, X]


@every("part", other_partitions())
def test_a_partition_of_something_else_is_refused(part):
    with pytest.raises(InvalidInput, match="^X: [^\n]*$") as caught:
        LargeRecords(dask_frame(part_with(0.1), part))
    assert caught.value.__context__ is None


def test_a_column_whose_partition_has_no_rows_is_refused():
    with pytest.raises(InvalidInput, match="^y: expected rows in every part"):
        cells = frames.from_delayed([delayed(1.0)], (None, float), verify_meta=False)
        LargeTable(X).beside(cells).together()


def test_what_a_partition_holds_does_not_make_cells_of_others_text(objects):
    kinds = set()
    for cell in (0.1, "word", None, 10**20000):
        parts = part_with(cell).infer_objects(), part_with(0.1).infer_objects()
        frame = dask_frame(*parts, like={"a": [], "b": []})
        (whole,) = rechunked(LargeTable(frame).cells().chunks(), repeat(6))
        kinds.add(whole.dtype)
        assert whole[1:].tolist() == [[0.1, 0.5]] * 5
    assert kinds == {np.dtype(object)}


def test_a_failure_to_read_shows_no_record():
    def chunks():
        yield X
        raise ValueError("could not convert string to float: 'SECRET'")

    with pytest.raises(InvalidInput, match="^y: fails on records[^\n]*$") as caught:
        list(Parts(chunks, "y").chunks())
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


COLUMNS = {
    "text": (["u", "v"], False),
    "categories": (pandas.Categorical(["u", "v"]), False),
    "numbers as categories": (pandas.Categorical([1, 2]), False),
    "dates": (pandas.date_range("2020", periods=2, tz="UTC"), False),
    "periods": (pandas.period_range("2020", periods=2), False),
    "sparse": (pandas.arrays.SparseArray([0.0, 1.0]), False),
    "whole numbers": (pandas.array([1, None], dtype="Int64"), True),
    "truth values": (pandas.array([True, None], dtype="boolean"), True),
}


@every("name", COLUMNS)
def test_types_of_pandas_own(name):
    column, numeric = COLUMNS[name]
    frame = pandas.DataFrame({"a": column, "b": [0.5, 1.0]})
    table = LargeTable(frames.from_pandas(frame, npartitions=1))
    (cells,) = table.cells().chunks()
    assert texts_of("a", cells[:, 0]) == texts_of("a", cells_of(frame["a"]))
    if numeric:
        assert table.features().width == 2
    else:
        with pytest.raises(InvalidInput, match="X: expected real numbers in the column 'a'"):
            table.features()


def test_columns_without_names_of_their_own_and_a_series_are_refused():
    for names in ([0, 1], ["a", "a"]):
        frame = frames.from_pandas(pandas.DataFrame(X[:, :2], columns=names), npartitions=1)
        for take in (LargeTable, lambda table: blocks_of(table, X[:, 2])):
            assert "columns with names" in refused("X", take, frame)
    series = frames.from_pandas(pandas.Series(X[:, 0]), npartitions=1)
    assert "shape (n, d), got " in refused("X", LargeTable, series)
