"""The text and the number of a cell follow from that cell alone, in whatever container, beside whatever."""

import datetime
import io
import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pabi.cli.schema_file import read_encoded
from pabi.execute.cells import cells_of, doubles_of, number_of, table_of, text_of, texts_of
from pabi.learn import LargeTable, PrivateCategories, PrivateImputer, PrivateScaler, SchemaEncoder
from pabi.learn.imputer import level_counters
from pabi.numbers.errors import InvalidInput
from support.every_case import every
from support.large import package

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
BIG = 2**60 + 1  # no double
RULE = {
    "1": [1, 1.0, "1", " 1.0 ", "01", "+1", "1e0", np.int8(1), np.float32(1.0), Decimal(1), Fraction(1)],
    "0": [0, -0.0, "-0", "0.0", "00"],
    "true": [True, np.True_, "True", "TRUE", " true"],
    "false": [False, np.False_, "False"],
    "0.1": [0.1, "0.1", "0.10", ".1", "1e-1", Decimal("0.1")],
    str(BIG): [BIG, str(BIG), np.int64(BIG)],
    "inf": [math.inf, "inf", "Infinity", "1e999"],
    "-inf": [-math.inf, "-INF"],
    "": ["", "  ", None, math.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("nan"), np.datetime64("NaT")],
    "a b": ["a b", " a b "],
    "nan": ["nan"],
    "1_000": ["1_000"],
    "٣": ["٣"],
    "0x10": ["0x10"],
    "-": ["-"],
    "2020-01-02 00:00:00": [pd.Timestamp("2020-01-02"), datetime.datetime(2020, 1, 2)],
}  # fmt: skip
CELLS = [(cell, text) for text, alike in RULE.items() for cell in alike]


@every(("cell", "text"), CELLS)
def test_the_rule(cell, text):
    assert text_of(cell) == text
    assert texts_of("x", cells_of([cell])) == [text]


def test_any_object_has_a_text_and_missing_numbers_are_nan():
    for cell in (
        *(10**5000, {"a": 1}, [1], 1j, b"x", Decimal("1e9999")),
        *(Fraction(10**400, 3), Decimal("sNaN")),
    ):
        assert isinstance(text_of(cell), str)
    assert text_of(10**5000) != text_of(10**5000 + 1)
    cells = [None, math.nan, pd.NA, pd.NaT, True, "true", " 7 ", 3, Decimal("0.5")]
    expected = [math.nan] * 4 + [1.0, 1.0, 7.0, 3.0, 0.5]
    assert np.array_equal(doubles_of("x", cells_of(cells)), expected, equal_nan=True)
    assert number_of("False") == 0.0


KINDS = [  # cells of one kind, and strangers that one record may bring
    ([1, 2, BIG], [None, 8.5, "x", True, math.nan, 10**400, pd.NA, 2**63]),
    ([1.0, 0.1, 1e300], [None, 7, "x", False, BIG, Decimal("0.5")]),
    ([True, False, True], [None, 2, 0.5, "x", math.nan]),
    (["1", "a", "a\0"], [None, 1, 2.5, True, math.nan, "longer than all others"]),
]
CONTAINERS = {
    "list": lambda cells: cells,
    "tuple": tuple,
    "objects": lambda cells: np.array([*cells, None], dtype=object)[:-1],
    "series of objects": lambda cells: pd.Series(cells, dtype=object),
}


@every("container", CONTAINERS)
@every(("plain", "strangers"), KINDS)
def test_a_stranger_changes_no_other_cell(container, plain, strangers):
    make = CONTAINERS[container]
    alone = [text_of(cell) for cell in plain]
    for stranger in strangers:
        texts = texts_of("x", cells_of(make([*plain, stranger])))
        assert texts == [*alone, text_of(stranger)]
        rows = table_of([[cell, 0] for cell in [*plain, stranger]])
        assert texts_of("x", rows[:, 0]) == texts


@every(
    ("values", "kind"),
    [
        ([1, 2, 70000], "<i4"),
        ([0, 1, 2**40], "<i8"),
        ([0.5, 1.0, 2.0**40], "<f8"),
        ([0.5, 0.1], "<f4"),
    ],
)
def test_what_pandas_makes_of_a_column_with_a_gap_has_the_same_texts(values, kind):
    """Also what it reads from a file, where a word makes text of all cells."""
    whole = pd.Series(np.array(values, kind))
    expected = texts_of("x", cells_of(whole))
    assert texts_of("x", cells_of(pd.concat([whole, pd.Series([None])])))[:-1] == expected
    assert texts_of("x", cells_of(whole.reindex(range(len(values) + 1))))[:-1] == expected
    if kind == "<f8" or "i" in kind:
        file = io.StringIO("\n".join(["x", *map(str, values), "word"]))
        assert texts_of("x", cells_of(pd.read_csv(file)["x"]))[:-1] == expected


@every(
    "column",
    [
        pd.Series([BIG, None], dtype="Int64"),
        pa.array([BIG, None]),
        pa.chunked_array([[BIG], [None]]),
        pd.Series([BIG, None], dtype=object),
        pd.Series([BIG, BIG + 1], dtype="category").cat.set_categories([BIG]),
    ],
)
def test_integers_beside_a_gap_are_exact(column):
    assert texts_of("x", cells_of(column)) == [str(BIG), ""]


def test_columns_of_a_frame_keep_their_own_types():
    """An integer column beside one of doubles: which a gap made of it."""
    for other in ([1, 2], [1.5, None]):
        table = table_of(pd.DataFrame({"a": [BIG, 1], "b": other, "c": [True, False]}))
        assert texts_of("x", table[:, 0]) == [str(BIG), "1"]
        assert texts_of("x", table[:, 2]) == ["true", "false"]
    # Beside one pandas makes complex numbers of all.
    for odd in (3, 1j, complex(math.nan, 0.0)):
        cells = cells_of(pd.Series([1, 2.5, odd]))
        texts = texts_of("x", cells if cells.dtype == object else cells.astype(object))
        assert texts[:2] == ["1", "2.5"]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["1.0", "True", "nan", "-3", "1e3"]),
)


@given(st.lists(SCALARS, min_size=1, max_size=6))
def test_texts_and_numbers_are_those_of_each_cell(cells):
    assert texts_of("x", cells_of(cells)) == [text_of(cell) for cell in cells]
    text = [text_of(cell) for cell in cells]
    assert [text_of(one) for one in text] == text  # of its text a cell has the same text
    numeric = [cell for cell in cells if not isinstance(cell, str)]
    expected = np.array([math.nan if c is None else _double(c) for c in numeric], dtype=np.float64)
    if numeric and np.all(np.isfinite(expected) | np.isnan(expected)):
        assert np.array_equal(doubles_of("x", cells_of(numeric)), expected, equal_nan=True)


def _double(cell):
    try:
        return float(cell)
    except OverflowError:
        return math.inf


@given(st.lists(st.floats(width=32), min_size=1, max_size=8), st.sampled_from(["f4", "f8"]))
def test_columns_of_one_type_are_as_their_cells(cells, kind):
    column = np.array(cells, dtype=kind)
    assert texts_of("x", column) == [text_of(cell) for cell in column]


@every("cell", [1j, np.complex64(1), np.datetime64("2020"), b"5", {"a": 1}, [1], 10**400, "SECRET"])
def test_what_is_no_number_is_one_line_that_keeps_nothing_of_it(cell):
    with pytest.raises(InvalidInput, match=r"^x: [^\n]*$") as no:
        doubles_of("x", cells_of([1.0, cell]))
    assert repr(cell) not in str(no.value)
    assert no.value.__context__ is no.value.__cause__ is None


@every("kind", ["c16", "M8[ns]", "m8[s]", "S3", "V2"])
def test_other_types_are_refused_as_a_whole(kind):
    column = np.zeros(2, dtype=kind)
    for read in (texts_of, doubles_of):
        with pytest.raises(InvalidInput, match=r"^x: [^\n]*$"):
            read("x", column)


@every("kind", ["i8", "f4", "f8", "?", "O", "U1"])
def test_a_masked_cell_is_missing(kind):
    masked = np.ma.array(np.array([[1, 0], [1, 1]]).astype(kind), mask=[[0, 1], [0, 0]])
    expected = [[1.0, math.nan], [1.0, 1.0]]
    if kind != "U1":
        assert np.array_equal(doubles_of("x", table_of(masked)), expected, equal_nan=True)
    texts = texts_of("x", cells_of(masked[0]))
    assert texts[1] == ""
    assert texts[0] == texts_of("x", cells_of(masked[1]))[0]
    assert table_of(np.ma.array([[1, 2]])).dtype == np.int64
    assert not isinstance(table_of(masked), np.ma.MaskedArray)


# What is made of cells, in memory and in files.


M = 600
STRANGERS = {
    "bool": (True, [None, 2, "x"]),
    "int": (1, [None, 0.5, True, "x"]),
    "big": (BIG, [None, 0.5, "x"]),
    "float": (1.0, ["x", None, 7]),
    "text": ("a", [1, 2.5, None]),
}


def rows(usual, first):
    return [[first, 0.5], *([usual, 0.5] for _ in range(M - 1))]


FORMS = {
    "list": lambda table: table,
    "frame": lambda table: pd.DataFrame(
        {"a": [row[0] for row in table], "b": [row[1] for row in table]}
    ),
    "objects": lambda table: np.array([*table, [None, None]], dtype=object)[:-1],
}


def levels_stay(make, usual, odd):
    for model in (PrivateCategories(1.0), PrivateImputer(1.0, strategy="most_frequent")):
        for first in (usual, odd):
            counts = level_counters(model._read(make(rows(usual, first)), None, reset=True), [0])[0]
            assert counts[text_of(usual)] == M - 1 + (text_of(first) == text_of(usual))


def features_stay(make, usual, odd):
    levels = {"kind": "categorical", "levels": [text_of(usual), "other"]}
    encoder, both = SchemaEncoder({"a": levels}, sparse_output=False), []
    for first in (usual, odd):
        table = make(rows(usual, first))
        column = table["a"] if make is FORMS["frame"] else [row[0] for row in table]
        both.append(encoder.fit({"a": column}).transform({"a": column})[1:])
    assert np.array_equal(*both)
    assert np.all(both[0][:, 0] == 1.0)


def texts_stay_where_gaps_are_filled(make, usual, odd):
    """So that what follows, levels or numbers, sees the same rows."""
    stated = {"fill_value": 9 if odd is not None else None, "random_state": 0}
    for strategy, indicator in product(("most_frequent", "constant"), (False, True)):
        imputer = PrivateImputer(100.0, strategy=strategy, add_indicator=indicator, **stated)
        for first in (usual, odd):
            table = make(rows(usual, first))
            out = imputer.fit(table).transform(table)
            assert set(texts_of("x", out[1:, 0])) == {text_of(usual)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stay", [levels_stay, features_stay, texts_stay_where_gaps_are_filled])
@pytest.mark.parametrize("kind", STRANGERS)
def test_cells_of_others_stay(form, stay, kind):
    """A frame makes doubles of integers beside a gap before anyone sees them: large ones are lost."""
    usual, strangers = STRANGERS[kind]
    for odd in strangers:
        if form != "frame" or usual != BIG or odd == "x":
            stay(FORMS[form], usual, odd)


def test_one_gap_among_truth_values_changes_no_statistic():
    whole = np.array([[True]] * 4000)
    gap = np.where(np.arange(4000)[:, None] == 0, None, whole)
    for table in (whole, gap, whole.tolist(), pd.DataFrame(whole), pd.DataFrame(gap)):
        fitted = PrivateImputer(10.0, strategy="most_frequent", random_state=0).fit(table)
        assert fitted.statistics_.tolist() == ["true"]
        assert PrivateCategories(10.0, random_state=0).fit(table).categories_ == [("true",)]
        assert fitted.transform([[None], [False]]).tolist() == [["true"], [False]]


def parquet(path, cells, kind):
    pa, parquet = package("pyarrow"), package("pyarrow.parquet")
    table = pa.table(
        {"a": pa.array(cells, kind), "b": pa.array([0.5] * len(cells)), "y": [0.0] * len(cells)}
    )
    parquet.write_table(table, path)
    return str(path)


FILES = {
    "int64": (BIG, "int64"),
    "bool": (True, "bool"),
    "small": (1, "int32"),
    "text": ("1.0", "string"),
}


@pytest.mark.parametrize("kind", FILES)
def test_one_null_in_a_file_changes_no_other_row(tmp_path, kind):
    usual, arrow = FILES[kind]
    expected, seen = text_of(usual), []
    for name, first in (("whole", usual), ("gap", None)):
        file = parquet(tmp_path / f"{name}.parquet", [first, *[usual] * (M - 1)], arrow)
        large = LargeTable(file, columns=["a", "b"])
        for make in (PrivateCategories(1.0), PrivateImputer(1.0, strategy="most_frequent")):
            counts = level_counters(make._read(large, "y", reset=True), [0])[0]
            assert (counts[expected], counts[""]) == (M - (first is None), first is None)
        assert texts_of("y", LargeTable(file).column("a").together())[1:] == [expected] * (M - 1)
        encoder = SchemaEncoder({"a": {"kind": "categorical", "levels": [expected, "z"]}})
        seen.append(read_encoded([file], encoder, ["y"]).features[1:].toarray())
        beside = read_encoded(
            [file], SchemaEncoder({"b": {"kind": "numeric", "range": [0, 1]}}), ["a"]
        )
        assert texts_of("a", beside.others["a"])[1:] == [expected] * (M - 1)
    assert np.array_equal(*seen)
    assert np.all(seen[0][:, 0] == 1.0)


@pytest.mark.parametrize("kind", FILES)
def test_partitions_of_a_cluster_keep_types_of_cells(kind):
    frames, usual = package("dask.dataframe"), FILES[kind][0]
    for first in (usual, None):
        cells = pd.DataFrame({"a": pd.Series([first, *[usual] * (M - 1)], dtype=object), "b": 1.5})
        large = LargeTable(frames.from_pandas(cells, npartitions=3))
        counts = level_counters(PrivateCategories(1.0)._read(large, None, reset=True), [0])[0]
        assert counts[text_of(usual)] == M - (first is None)


def test_a_text_among_numbers_leaves_them():
    """Numbers in text are read; what is none is refused in a line."""
    values = [[0.1, 1], [1 / 3, True], [2**53 + 1, 4]]
    scaler = PrivateScaler(feature_ranges=(-1, 1))
    alone = scaler._read(values, reset=True).array
    beside = scaler._read([*values, ["5", "0.5"]], reset=True).array
    assert np.array_equal(beside[:-1], alone)
    assert beside[-1].tolist() == [5.0, 0.5]
    frame = pd.DataFrame(values)
    mixed = pd.DataFrame([*values, ["5", None]])
    assert np.array_equal(scaler._read(frame, reset=True).array, alone)
    assert np.array_equal(scaler._read(mixed, reset=True).array[:-1], alone)
    assert math.isnan(scaler._read(mixed, reset=True).array[-1, 1])
    table = np.array([[True], [False], [True], [None]] * 500, dtype=object)
    filled = PrivateImputer(10.0, strategy="most_frequent", random_state=0).fit_transform(table)
    scaler = PrivateScaler(10.0, feature_ranges=(0, 1), random_state=0).fit(filled)
    assert scaler.mean_[0] == pytest.approx(0.75, abs=0.05)
