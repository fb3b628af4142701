"""Sources that are read in passes: the same rows however they are cut, and one line where they change."""

import os
from itertools import repeat

import numpy as np
import pytest

from pabi.execute import sources as module
from pabi.execute.sources import Parts, rechunked, slices, storage
from pabi.learn import LargeTable
from pabi.numbers.errors import InvalidInput
from support.every_case import every
from support.large import package

X = np.arange(60.0).reshape(20, 3)


@every("lengths", [[20], [7, 13], [1] * 20, [0, 5, 0, 15]])
@every("size", [1, 4, 7, 20, 30])
def test_rows_are_cut_anew(lengths, size):
    parts = np.split(X, np.cumsum(lengths)[:-1])
    cut = list(rechunked(iter(parts), repeat(size)))
    assert np.array_equal(np.concatenate(cut), X)
    assert {len(part) for part in cut[:-1]} <= {size}
    assert 0 < len(cut[-1]) <= size


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


@every("rows, other", [*((X, o) for o in (X + (X == 59.0), X[:-1], X[::-1])), (WORDS, WORDS[:1])])
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


def test_a_part_that_comes_twice_is_refused(tmp_path):
    table = LargeTable(dataset_of(tmp_path, [[0, 1], [1]]))
    with pytest.raises(InvalidInput, match="X.parquet: expected once"):
        table.features()


def test_a_filtered_dataset_is_refused(tmp_path):
    field = package("pyarrow.dataset").field
    table = LargeTable(dataset_of(tmp_path, [[0, 1]]).filter(field("x") < 5))
    with pytest.raises(InvalidInput, match="X: expected a dataset of pyarrow's without a filter"):
        table.features()


def test_a_file_that_changes_is_cut_off_or_is_gone(tmp_path):
    """It is refused before it is read."""
    file = tmp_path / "X.npy"
    np.save(file, X)
    steady, rows = LargeTable(file).features(), slices(np.load(file, mmap_mode="r"))
    list(steady.chunks())
    os.utime(file, ns=(1, 1))
    with pytest.raises(InvalidInput, match="X: it changed"):
        next(steady.chunks())
    os.truncate(file, 300)
    with pytest.raises(InvalidInput, match="changed"):
        list(rows)
    np.save(file, X)
    gone = LargeTable(file).features()
    file.unlink()
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        list(gone.chunks())


@pytest.mark.parametrize(("d", "rows"), [(1, 1 << 16), (40, 24576), (300, 4096)])
def test_batches_of_files_are_whole_blocks_of_rows(tmp_path, d, rows):
    """About 4 MB of them, and not so many of a few columns that what becomes of them is much longer."""
    pandas, n = package("pandas"), 70_000
    table = np.broadcast_to(np.arange(n, dtype=np.float32)[:, None], (n, d))
    names = [f"x{j}" for j in range(d)]
    pandas.DataFrame(table, columns=names).to_parquet(tmp_path / "X.parquet")
    chunks = list(LargeTable(tmp_path / "X.parquet").features().chunks())
    assert {len(chunk) for chunk in chunks[:-1]} == {rows}
    assert np.array_equal(np.concatenate(chunks)[:, -1], table[:, -1])


def test_short_rows_are_read_some_at_a_time(tmp_path):
    np.save(tmp_path / "y.npy", np.zeros(600_000, np.int8))
    chunks = list(slices(np.load(tmp_path / "y.npy", mmap_mode="r")))
    assert [len(chunk) for chunk in chunks] == [1 << 18, 1 << 18, 600_000 - (1 << 19)]
