"""Sources that are read in passes: the same rows however they are cut, and one line where they change."""

import os
from itertools import repeat

import numpy as np
import pytest

from pabi.execute import sources as module
from pabi.execute.cells import cells_of, texts_of
from pabi.execute.large_records import LargeRecords
from pabi.execute.sources import Parts, dask_blocks, rechunked, slices, storage
from pabi.integrations.dask.blocks import blocks_of
from pabi.learn import LargeTable
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused
from support.large import package

X = np.arange(60.0).reshape(20, 3)


@every("order", ["C", "F"])
@every("part", [slice(None), slice(3, 17), slice(None, None, -2)])
def test_mapped_files_are_read_as_they_are_mapped(tmp_path, monkeypatch, order, part):
    monkeypatch.setattr(module, "READ", 100)
    np.save(tmp_path / "X.npy", np.asarray(X, order=order))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")[part]
    chunks = list(slices(mapped))
    assert len(chunks) > 1
    assert np.array_equal(np.concatenate(chunks), X[part])


@every(
    ("kind", "held"),
    [
        *(("f4", "f4"), ("f8", "f8"), ("f2", "f4"), ("i2", "f4"), ("i4", "f8"), ("i8", "f8")),
        ("?", "f4"),
    ],
)
def test_numbers_are_held_without_loss(kind, held):
    assert storage(np.dtype(kind)) == np.dtype(held)


WORDS = np.array(["a", "b"], object)


OTHERS = [(X, other) for other in (X + (X == 59.0), X[:-1], X[::-1])]
OTHERS += [(WORDS, other) for other in (WORDS[:1], np.array(["a", "c"], object))]


@every("rows, other", OTHERS)
def test_other_rows_are_refused(rows, other):
    """The same numbers in other parts are not others."""
    parts = iter([[rows] if rows is WORDS else [rows[:5], rows[5:]], [rows], [other]])
    steady = Parts(lambda: iter(next(parts)))
    for _ in range(2):
        assert np.array_equal(np.concatenate(list(steady.chunks())), rows)
    with pytest.raises(InvalidInput, match="X: it changed while it was read.*nothing was released"):
        list(steady.chunks())


@every("part", [slice(None), slice(3, 17), slice(None, None, -2)])
def test_what_was_written_to_a_private_mapping_is_read(tmp_path, monkeypatch, part):
    """Rows that were blanked in memory alone: the file still has them."""
    monkeypatch.setattr(module, "READ", 100)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="c")
    mapped[:] = 0.0
    steady = LargeTable(mapped[part]).features()
    for _ in range(2):
        assert not np.concatenate(list(steady.chunks())).any()
    assert not mapped.any()


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_mapping_of_a_file_that_was_replaced_is_read(tmp_path, mode):
    """And what is written to a shared mapping stays."""
    file = tmp_path / "X.npy"
    np.save(file, X)
    mapped = np.load(file, mmap_mode=mode)
    np.save(tmp_path / "other.npy", X + 1)
    os.replace(tmp_path / "other.npy", file)
    steady = LargeTable(mapped).features()
    assert np.array_equal(np.concatenate(list(steady.chunks())), X)
    if mode == "r+":
        mapped[:] = 7.0
        assert (np.concatenate(list(slices(mapped))) == 7.0).all()
        assert (mapped == 7.0).all()


def resident():
    with open("/proc/self/statm") as about:
        return int(about.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_a_mapped_file_does_not_stay_in_memory(tmp_path):
    """64 MB are read, of which a few parts of 4 MB are in memory."""
    np.save(tmp_path / "X.npy", np.ones((1 << 13, 1 << 10)))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    before = resident()
    for _ in slices(mapped):
        pass
    assert resident() - before < 24 << 20


def dataset_of(tmp_path, groups):
    """40 rows in groups of ten, of which these are in the dataset."""
    arrow, datasets = package("pyarrow"), package("pyarrow.dataset")
    parquet = package("pyarrow.parquet")
    parquet.write_table(
        arrow.table({"x": np.arange(40.0)}), tmp_path / "X.parquet", row_group_size=10
    )
    whole = datasets.dataset(tmp_path / "X.parquet")
    (file,) = whole.get_fragments()
    parts = [file.subset(row_group_ids=some) for some in groups]
    return datasets.FileSystemDataset(parts, whole.schema, whole.format, whole.filesystem)


@every("groups", [[[0]], [[1, 3]], [[2], [0]], [[0, 1, 2, 3]]])
def test_a_part_of_a_file_is_read_and_no_more(tmp_path, groups):
    steady = LargeTable(dataset_of(tmp_path, groups)).features()
    read = np.concatenate(list(steady.chunks())).ravel()
    order = [group for some in groups for group in some]
    assert read.tolist() == [10.0 * group + row for group in order for row in range(10)]


def test_a_part_that_comes_twice_and_a_filtered_dataset_are_refused(tmp_path):
    table = LargeTable(dataset_of(tmp_path, [[0, 1], [1]]))
    with pytest.raises(InvalidInput, match="X.parquet: expected once"):
        table.features()
    field = package("pyarrow.dataset").field
    table = LargeTable(dataset_of(tmp_path, [[0, 1]]).filter(field("x") < 5))
    assert "a dataset of pyarrow's without a filter" in refused("X", table.features)


@every("form", ["csv", "json"])
def test_types_that_are_found_by_looking_at_cells_are_refused(tmp_path, form):
    """A word in one record would make text of the numbers and dates of all others."""
    datasets, csv = package("pyarrow.dataset"), package("pyarrow.csv")
    file = tmp_path / f"X.{form}"
    file.write_text("x,day\n1,2020-01-01T00:00\n" if form == "csv" else '{"x": 1}\n')
    table = LargeTable(datasets.dataset(file, format=form))
    for read in (table.features, table.cells, lambda: table.column("x")):
        with pytest.raises(InvalidInput, match=rf"X\.{form}: expected a type for the column 'x'"):
            read()
    stated = csv.ConvertOptions(column_types={"x": package("pyarrow").float64()})
    options = datasets.CsvFileFormat(convert_options=stated)
    if form == "csv":
        table = LargeTable(datasets.dataset(file, format=options), columns=["x"])
        assert table.features().together().tolist() == [[1.0]]


@every("link", [os.link, os.symlink])
def test_a_file_of_two_names_is_refused(tmp_path, link):
    dataset, folder = package("pyarrow.dataset").dataset, tmp_path / link.__name__
    folder.mkdir()
    dataset_of(folder, [[0]])
    link(folder / "X.parquet", folder / "also.parquet")
    of_each = [dataset(folder / name) for name in ("X.parquet", "also.parquet")]
    another_way = [f"{folder}/X.parquet", f"{folder}/../{folder.name}/X.parquet"]
    for twice in (folder, of_each, another_way):
        with pytest.raises(InvalidInput, match=r"(X|also)\.parquet: expected once"):
            LargeTable(dataset(twice)).features()


def test_a_file_that_is_replaced_by_one_of_its_size_and_time_is_refused(tmp_path):
    """As by a copy that keeps times, or where times are of whole seconds."""
    dataset_of(tmp_path, [[0]])
    file, other = tmp_path / "X.parquet", tmp_path / "other"
    rows = LargeTable(file).features().counted()
    other.write_bytes(file.read_bytes())
    times = os.stat(file)
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, file)
    assert "it changed while it was read" in refused("X", list, rows)


def test_a_file_that_changes_is_cut_off_or_is_gone(tmp_path):
    """It is refused before it is read."""
    file = tmp_path / "X.npy"
    np.save(file, X)
    steady, rows = LargeTable(file).features(), slices(np.load(file, mmap_mode="r"))
    list(steady.chunks())
    os.utime(file, ns=(1, 1))
    assert "it changed" in refused("X", next, steady.chunks())
    os.truncate(file, 300)
    with pytest.raises(InvalidInput, match="changed"):
        list(rows)
    np.save(file, X)
    gone = LargeTable(file).features()
    file.unlink()
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        list(gone.chunks())


# Collections of dask's, whose parts may be of other types than they say.


delayed = package("dask").delayed
arrays, frames = package("dask.array"), package("dask.dataframe")
pandas = package("pandas")


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


def test_cells_of_parts_of_other_types_are_not_converted():
    """Numbers too large for their type are infinite, without a warning, which would show a record."""
    (whole,) = rechunked(iter([np.array([0.1, 2.0]), np.array(["a"])]), repeat(3))
    assert whole.tolist() == [0.1, 2.0, "a"]
    beside = dask_array(X, X.astype(str), axis=1)
    assert next(dask_blocks(beside))[1].tolist() == [3.0, 4.0, 5.0, "3.0", "4.0", "5.0"]
    steady = LargeTable(dask_array(X, X + 1e300)).features()
    assert np.isinf(list(steady.chunks())[1]).all()


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
        assert "expected real numbers in the column 'a'" in refused("X", table.features)


def test_columns_without_names_of_their_own_and_a_series_are_refused():
    for names in ([0, 1], ["a", "a"]):
        frame = frames.from_pandas(pandas.DataFrame(X[:, :2], columns=names), npartitions=1)
        for take in (LargeTable, lambda table: blocks_of(table, X[:, 2])):
            assert "columns with names" in refused("X", take, frame)
    series = frames.from_pandas(pandas.Series(X[:, 0]), npartitions=1)
    assert "shape (n, d), got " in refused("X", LargeTable, series)
