"""Columns that are read in passes: what becomes of cells is what becomes of all of them in memory."""

import numpy as np
import pytest

from pabi.execute import sources
from pabi.execute.large_columns import LargeColumn, applied, column_of, first_of, labels_of, product
from pabi.execute.sources import Parts, Steady
from pabi.numbers.errors import InvalidInput
from support.execution import every

CELLS = np.random.default_rng(0).integers(0, 5, 100)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "READ", 64)


@every("cells", [CELLS, CELLS.astype(str), CELLS.astype(object)])
def test_labels(cells):
    assert labels_of(column_of(cells, "y")).tolist() == np.unique(cells).tolist()
    assert labels_of(cells).tolist() == np.unique(cells).tolist()


def test_changes_follow_one_another():
    changed = applied(applied(column_of(CELLS, "y"), np.square), lambda cells: cells + 1)
    assert np.array_equal(changed.whole(), CELLS**2 + 1)
    assert np.array_equal(applied(CELLS, np.square), CELLS**2)
    assert first_of(changed)[0] == CELLS[0] ** 2 + 1


@every("swapped", [False, True])
def test_products(swapped):
    sides = column_of(CELLS, "y"), np.linspace(0.0, 1.0, 100)
    result = product(*sides[::-1]) if swapped else product(*sides)
    assert np.array_equal(result.whole(), CELLS * sides[1])


def test_cells_are_counted_and_checked():
    column = column_of(CELLS, "y")
    assert column.checked(100) == 100
    with pytest.raises(InvalidInput, match="y: expected as many rows as X has"):
        column.checked(99)


def test_no_cells():
    empty = LargeColumn(Steady(Parts(lambda: iter([])), "y"))
    with pytest.raises(InvalidInput, match="y: expected at least one row"):
        empty.first()


def parts_of(*parts):
    return LargeColumn(Steady(Parts(lambda: iter(parts)), "y"))


def test_a_part_without_rows_is_nothing():
    """A first part of a cluster's table, or all rows of a part, may be gone."""
    none = CELLS[:0]
    for parts in ((none, CELLS), (CELLS[:50], none, CELLS[50:]), (CELLS, none)):
        column = parts_of(*parts)
        assert column.first()[0] == CELLS[0]
        assert np.array_equal(column.whole(), CELLS)
        assert labels_of(column).tolist() == np.unique(CELLS).tolist()
    with pytest.raises(InvalidInput, match="^y: expected at least one row, got none$"):
        parts_of(none).first()


def test_cells_of_parts_of_other_types_stay_what_they_are():
    """A gap makes objects of a part, and a word text of an array: neither changes the cells of the others."""
    large = np.array([2**60 + 1, 2**60 + 2])
    for other in (np.array([0.5]), np.array([None], dtype=object), np.array(["word"])):
        assert parts_of(large, other).whole().tolist() == [*large.tolist(), *other.tolist()]
    assert parts_of(np.array(["a"]), np.array(["bcd"])).whole().tolist() == ["a", "bcd"]
    with pytest.raises(
        InvalidInput, match="^y: expected labels that are all text, or all numbers$"
    ):
        labels_of(parts_of(large, np.array(["word"])))
