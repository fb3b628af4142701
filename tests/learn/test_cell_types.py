"""The type of one record's cell changes nothing of what is made of the others, in memory and in files."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pabi.cli.schema_file import read_encoded
from pabi.execute.cells import text_of, texts_of
from pabi.learn import LargeTable, PrivateCategories, PrivateImputer, PrivateScaler, SchemaEncoder
from pabi.learn.imputer import level_counters
from support.large import package

pytestmark = [
    pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore:some cells are outside"),
]
BIG = 2**60 + 1
M = 600
STRANGERS = {
    "bool": (True, [None, 2, "x"]),
    "int": (1, [None, 0.5, True, "x"]),
    "big": (BIG, [None, 0.5, "x"]),
    "float": (1.0, ["x", None, 7]),
    "text": ("a", [1, 2.5, None]),
}


def rows(usual: Any, first: Any) -> list[list[Any]]:
    return [[first, 0.5], *([usual, 0.5] for _ in range(M - 1))]


FORMS = {
    "list": lambda table: table,
    "frame": lambda table: pd.DataFrame(
        {"a": [row[0] for row in table], "b": [row[1] for row in table]}
    ),
    "objects": lambda table: np.array([*table, [None, None]], dtype=object)[:-1],
}


def levels_stay(make: Any, usual: Any, odd: Any) -> None:
    for model in (PrivateCategories(1.0), PrivateImputer(1.0, strategy="most_frequent")):
        for first in (usual, odd):
            counts = level_counters(model._read(make(rows(usual, first)), None, reset=True), [0])[0]
            assert counts[text_of(usual)] == M - 1 + (text_of(first) == text_of(usual))


def features_stay(make: Any, usual: Any, odd: Any) -> None:
    levels = {"kind": "categorical", "levels": [text_of(usual), "other"]}
    encoder, both = SchemaEncoder({"a": levels}, sparse_output=False), []
    for first in (usual, odd):
        table = make(rows(usual, first))
        column = table["a"] if make is FORMS["frame"] else [row[0] for row in table]
        both.append(encoder.fit({"a": column}).transform({"a": column})[1:])
    assert np.array_equal(*both)
    assert np.all(both[0][:, 0] == 1.0)


def texts_stay_where_gaps_are_filled(make: Any, usual: Any, odd: Any) -> None:
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
def test_cells_of_others_stay(form: str, stay: Any, kind: str) -> None:
    """A frame makes doubles of integers beside a gap before anyone sees them: large ones are lost."""
    usual, strangers = STRANGERS[kind]
    for odd in strangers:
        if form != "frame" or usual != BIG or odd == "x":
            stay(FORMS[form], usual, odd)


def parquet(path: Any, cells: list[Any], kind: str) -> str:
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
def test_one_null_in_a_file_changes_no_other_row(tmp_path: Any, kind: str) -> None:
    usual, arrow = FILES[kind]
    expected, seen = text_of(usual), []
    for name, first in (("whole", usual), ("gap", None)):
        file = parquet(tmp_path / f"{name}.parquet", [first, *[usual] * (M - 1)], arrow)
        large = LargeTable(file, columns=["a", "b"])
        for make in (PrivateCategories(1.0), PrivateImputer(1.0, strategy="most_frequent")):
            counts = level_counters(make._read(large, "y", reset=True), [0])[0]
            assert counts[expected] == M - (first is None)
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
def test_partitions_of_a_cluster_keep_types_of_cells(kind: str) -> None:
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
