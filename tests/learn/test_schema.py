"""Rows from declared columns: what each cell becomes, and that no other row has a say in it."""

import contextlib
import math
import warnings
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone

from pabi.learn import SchemaEncoder
from pabi.learn.columns import read_range
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused

AGE = {"kind": "numeric", "range": [20, 60]}
GAIN = {"kind": "numeric", "range": [0, 99], "transform": "log1p"}
JOB = {"kind": "categorical", "levels": ["clerk", "smith"]}
RANK = {"kind": "categorical", "levels": [1, 2], "other": "level"}
CITIZEN = {"kind": "boolean"}
STAY = {"kind": "date", "range": ["2024-01-01", "2024-01-11"]}
WAVES = STAY | {"cycles": ["month", "weekday", "hour"]}
ALL = {"age": AGE, "gain": GAIN, "job": JOB, "rank": RANK, "citizen": CITIZEN}


def encoded(column, cells):
    """The features of one column, without the warning to the holder of the data."""
    features = SchemaEncoder({"x": column}).fit_transform({"x": cells})
    return features.toarray() if hasattr(features, "toarray") else features


def test_cells_become_features():
    numbers = encoded(AGE, [20.0, 30.0, 40.0, 60.0, 0.0, 1e300, math.inf, -math.inf])
    assert numbers.ravel().tolist() == [-1.0, -0.5, 0.0, 1.0, -1.0, 1.0, 1.0, -1.0]
    # log 1, log 10 and log 100 lie evenly.
    assert encoded(GAIN, [0.0, 9.0, 99.0, 1e6]).ravel() == pytest.approx([-1.0, 0.0, 1.0, 1.0])
    assert encoded(JOB, ["smith", "clerk", "baker"]).tolist() == [[0, 1], [1, 0], [0, 0]]
    assert encoded(RANK, [2, 1, 7]).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    for cells in (["1", " 2 "], [1, 2], [1.0, 2.0], np.array([1, 2], np.int8)):
        assert encoded(RANK, cells).tolist() == [[1, 0, 0], [0, 1, 0]]
    truth = np.array([True, "Yes", "1", 1.0, False, "no", "f", 0], dtype=object)
    assert encoded(CITIZEN, truth).ravel().tolist() == [1.0] * 4 + [-1.0] * 4
    for missing in ("", " ", "?", "NA", "nan", "NULL", None, math.nan):
        cells = np.array([missing], dtype=object)
        assert encoded(AGE, cells).tolist() == [[0.0]]
        assert encoded(CITIZEN, cells).tolist() == [[0.0]]
        assert encoded(JOB, cells).tolist() == [[0.0, 0.0]]
        assert encoded(RANK, cells).tolist() == [[0.0, 0.0, 1.0]]


DAY, NOON = date(2024, 1, 11), datetime(2024, 1, 6, 12, 30)


def test_dates_become_their_place_in_the_range_and_in_cycles():
    days = ["2024-01-01", DAY, "2024-01-06", "2023-05-01", np.datetime64("2030-01-01"), "20240106"]
    assert encoded(STAY, days).ravel().tolist() == [-1.0, 1.0, 0.0, -1.0, 1.0, 0.0]
    # The sixth of January 2024 is a Saturday; clocks are taken as written.
    turns = np.array([0 / 12, 5 / 7, 12 / 24]) * 2 * math.pi
    waves = np.stack([np.sin(turns), np.cos(turns)], axis=1).ravel()
    noons = [NOON, "2024-01-06T12:30:00+05:00", np.datetime64(NOON), f" {NOON} "]
    for cells in (noons, np.array([NOON] * 4, "datetime64[ns]")):
        rows = encoded(WAVES, cells)
        np.testing.assert_allclose(rows, [[12.5 / 120, *waves]] * 4, rtol=0.0, atol=8e-16)
    # A cell that is no date is 0 in all features, as a missing one is, and has no say in another's.
    odd = [
        *("", "NA", None, math.nan, np.datetime64("NaT"), "31.12.2024", "2024-02-30", 7),
        *(1e300, b"x"),
    ]
    assert not encoded(WAVES, [*odd, "x" * 10**6, "10000-01-01", "\0"]).any()
    year_9999 = np.array([2**62, 2**40, -(2**40), 5], "datetime64[D]")
    assert encoded(WAVES, year_9999)[3].tolist() == encoded(WAVES, ["1970-01-06"])[0].tolist()
    encoder = SchemaEncoder({"x": WAVES, "age": AGE})
    assert encoder.get_feature_names_out()[[0, 1, 6]].tolist() == [
        "x",
        "x: month sine",
        "x: hour cosine",
    ]
    assert encoder.feature_norm == 2.237  # √5, rounded up
    longest = encoder.transform({"x": ["2024-01-11"], "age": [60]})
    assert np.linalg.norm(longest) == pytest.approx(math.sqrt(5))


def test_dates_in_every_container_are_the_same():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    stamps = pandas.Series(["2024-01-06 12:30", None]).astype("datetime64[s]")
    arrow = pyarrow.array([NOON, None])
    zoned = stamps.dt.tz_localize("Europe/Berlin")
    columns = [stamps, zoned, stamps.astype(object), arrow, pandas.Series(arrow.to_pylist())]
    with contextlib.suppress(ImportError):
        import polars

        columns.append(polars.Series([NOON, None]))
    expected = encoded(WAVES, [NOON, None])
    assert all(np.array_equal(encoded(WAVES, column), expected) for column in columns)
    frame = pyarrow.table({"x": arrow, "age": [20, 60]})
    rows = SchemaEncoder({"x": WAVES, "age": AGE}).transform(frame)
    assert np.array_equal(rows, np.column_stack([expected, [-1.0, 1.0]]))


def test_a_date_is_read_alike_whatever_stands_before_it():
    """Noon in London and one in Berlin are one instant, equal and of one hash; their clocks are not."""
    noon = datetime(2024, 1, 6, 12, tzinfo=UTC)
    later = noon.astimezone(timezone(timedelta(hours=1)))
    assert noon == later
    alone = [encoded(WAVES, np.array([one], object))[0] for one in (noon, later)]
    assert not np.array_equal(*alone)
    for order in ([0, 1], [1, 0]):
        cells = np.array([(noon, later)[k] for k in order], object)
        assert np.array_equal(encoded(WAVES, cells), [alone[k] for k in order])


def test_levels_of_any_case_and_decimal_commas():
    ward = {"kind": "categorical", "levels": ["Straße", "ward 7"], "case": "any"}
    cells = ["STRASSE ", "  straße", "Ward 7", "ward  7"]
    assert encoded(ward, cells).tolist() == [[1, 0], [1, 0], [0, 1], [0, 0]]
    same = ward | {"case": "same"}
    assert encoded(same, cells).tolist() == [[0, 0]] * 4
    comma = AGE | {"decimal": ","}
    assert encoded(comma, ["27,5", " 60", 20, "?", None]).ravel().tolist() == [-0.625, 1, -1, 0, 0]
    assert "expected numbers" in refused("x", encoded, AGE, ["27,5"])
    with pytest.raises(
        InvalidInput, match=r"^columns\.age\.range: missing: expected \[low, high\]$"
    ):
        read_range("columns.age.range", None)


CELLS = st.one_of(
    st.none(), st.integers(-(10**6), 10**6), st.floats(), st.sampled_from(["smith", "?", "", "7"])
)
WORDS = st.one_of(CELLS, st.booleans(), st.text(max_size=5))


@given(st.lists(st.tuples(CELLS, WORDS, WORDS), min_size=1, max_size=6))
def test_a_row_depends_on_itself_alone_and_has_bounded_norm(rows):
    rows = [(None if a == "smith" else a, b, c, b) for a, b, c in rows]
    encoder = SchemaEncoder({"age": AGE, "job": JOB, "rank": RANK, "day": STAY})

    def features(chosen):
        columns = {
            name: np.array([*cells, None], dtype=object)[:-1]
            for name, cells in zip(encoder.columns, zip(*chosen, strict=True), strict=True)
        }
        return encoder.transform(columns).toarray()

    together = features(rows)
    assert np.array_equal(together, np.vstack([features([row]) for row in rows]))
    assert np.all(np.count_nonzero(together, axis=1) <= 4)
    assert np.all(np.abs(together) <= 1.0)


ROW = {"age": [40], "gain": [0], "job": ["clerk"], "rank": [3], "citizen": ["no"]}


def test_names_and_columns_and_arrays_where_they_are_asked_for():
    sparse = SchemaEncoder(ALL).fit_transform(ROW)
    dense = clone(SchemaEncoder(ALL, sparse_output=False)).fit_transform(ROW)
    assert isinstance(dense, np.ndarray)
    assert np.array_equal(dense, sparse.toarray())
    assert isinstance(SchemaEncoder({"age": AGE}).transform({"age": [40]}), np.ndarray)
    with pytest.raises(InvalidInput, match="sparse_output: expected true or false, got 1"):
        SchemaEncoder(ALL, sparse_output=1).transform(ROW)
    encoder = clone(SchemaEncoder(ALL))
    expected = "age gain job=clerk job=smith rank=1 rank=2 rank:_other citizen"
    names = encoder.get_feature_names_out().tolist()
    assert [name.replace(" ", "_") for name in names] == expected.split()
    # Nothing is learned: it transforms before it is fitted.
    row = {"age": [40], "gain": [0], "job": ["clerk"], "rank": [3], "citizen": ["no"], "more": [1]}
    assert encoder.transform(row).toarray().tolist() == [[0, -1, 1, 0, 0, 0, 1, -1]]
    assert encoder.fit(row).feature_names_in_.tolist() == list(ALL)


@every("everywhere", [True, False])
def test_data_frames_where_they_are_asked_for(everywhere):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    table = pandas.DataFrame(ROW, index=[7])
    encoder = SchemaEncoder(ALL)
    with config_context(transform_output="pandas" if everywhere else "default"):
        if not everywhere:
            encoder.set_output(transform="pandas")
        frame = encoder.fit(table).transform(table)
    assert list(frame.columns) == list(encoder.get_feature_names_out())
    assert list(frame.index) == [7]
    assert np.array_equal(frame.to_numpy(), SchemaEncoder(ALL).transform(ROW).toarray())
    # What says nothing else is as it was.
    if everywhere:
        assert not isinstance(encoder.transform(table), pandas.DataFrame)


def test_data_frames_of_every_type():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(
        {
            "age": pandas.array([20, None], dtype="Int64"),
            "gain": pandas.array(["0", "99"], dtype="string"),
            "job": pandas.Categorical(["smith", None]),
            "rank": [1.0, math.nan],
            "citizen": pandas.array([True, None], dtype="boolean"),
        }
    )
    expected = [[-1, -1, 0, 1, 1, 0, 0, 1], [0, 1, 0, 0, 0, 0, 1, 0]]
    rows = SchemaEncoder(ALL).transform(frame).toarray()
    # The gain is a quotient of logarithms, each of which may be off by some units in the last place.
    np.testing.assert_allclose(rows, expected, rtol=0.0, atol=4e-15)


@every(("column", "cells"), [(AGE, [19.9]), (AGE, ["61"]), (GAIN, [-1e-9]), (JOB, ["baker"])])
def test_cells_outside_the_schema_warn_without_saying_which(column, cells):
    with pytest.warns(UserWarning, match="keep it to yourself"):
        SchemaEncoder({"x": column}).fit({"x": cells})


def test_what_is_declared_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SchemaEncoder({"x": AGE}).fit({"x": ["20", "60", "?"]})
        SchemaEncoder({"x": JOB}).fit({"x": ["smith", "?"]})
        SchemaEncoder({"x": RANK}).fit({"x": ["9"]})  # a level of its own is a place for anything


NUMERIC, LEVELS = {"kind": "numeric"}, {"kind": "categorical"}
BAD = {
    "": [3],
    ".kind": [{}, {"kind": "number"}],
    ".range": [NUMERIC, CITIZEN | {"range": [0, 1]}, NUMERIC | {"range": [-1e308, 1e308]}],
    ".rnge": [AGE | {"rnge": 1}],
    ".transform": [AGE | {"transform": "exp"}],
    ".levels": [LEVELS, AGE | {"levels": ["a"]}],
    ".other": [JOB | {"other": "drop"}],
    ".case": [JOB | {"case": "lower"}],
    ".decimal": [AGE | {"decimal": ";"}],
    ".cycles": [STAY | {"cycles": cycles} for cycles in (["year"], ["hour", "hour"])],
}
BAD[".range"] += [NUMERIC | {"range": ends} for ends in ([3, 3], [0, math.nan])]
BAD[".range"] += [NUMERIC | {"range": [-1, 1], "transform": "log1p"}]
DAYS = (None, ["2024-01-01", "2024"], ["2024-01-01"] * 2)
BAD[".range"] += [STAY | {"range": days} for days in DAYS]
BAD[".levels"] += [JOB | {"levels": x} for x in ([], ["a", " a"], ["a", 1], ["a", " "])]
BAD[".levels"] += [JOB | {"levels": ["Clerk", "clerk "], "case": "any"}]


@every("field", BAD)
def test_bad_schemas_are_named(field):
    for column in BAD[field]:
        refused(f"columns.x{field}", SchemaEncoder({"x": column}).transform, {"x": [1]})
    for columns in ({}, [AGE]):
        refused("columns", SchemaEncoder(columns).transform, {"x": [1]})


@every(
    ("columns", "X", "field"),
    [
        ({"x": AGE}, {"y": [1]}, "X"),
        ({"x": AGE}, np.ones((1, 1)), "X"),
        ({"x": AGE, "y": AGE}, {"x": [1], "y": [1, 2]}, "X"),
        ({"x": AGE}, {"x": ["secret-7"]}, "x"),
        ({"x": AGE}, {"x": np.array(["2020-01-01"], "datetime64[D]")}, "x"),
        ({"x": CITIZEN}, {"x": ["secret-7"]}, "x"),
    ],
)
def test_bad_data_are_named_and_not_shown(columns, X, field):
    assert "secret-7" not in refused(field, SchemaEncoder(columns).transform, X)


FILE = """
[target]
levels = ["a", "b"]

[columns.age]
kind = "numeric"
range = [20, 60]
transform = "log1p"

[columns."a job"]
kind = "categorical"
levels = ["clerk", "smith"]
other = "level"

[model]
epochs = 3
"""


def test_columns_of_a_schema_file(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(FILE, "utf-8")
    columns = {"age": AGE | {"transform": "log1p"}, "a job": JOB | {"other": "level"}}
    for source in (path, str(path)):
        encoder = SchemaEncoder.from_toml(source)
        assert encoder.columns == columns == clone(encoder).columns
        assert list(encoder.columns) == list(columns)
        assert encoder.get_params() == SchemaEncoder(columns).get_params()
    table = {"age": [30.0], "a job": ["smith"]}
    dense = SchemaEncoder.from_toml(path, sparse_output=False).fit_transform(table)
    assert isinstance(dense, np.ndarray)
    assert np.array_equal(dense, SchemaEncoder(columns).fit_transform(table).toarray())


@every(
    ("content", "mentions"),
    [
        (None, "expected a schema file .TOML.: No such file"),
        *((odd, "malformed TOML") for odd in (b"[columns", b"\xff = 1")),
        (b"", r"columns: expected a table \[columns.NAME\]"),
        (b'[columns.age]\nkind = "numeric"', "columns.age.range: missing"),
        (b"columns = 3", "columns: expected a table"),
    ],
)
def test_bad_schema_files_are_named(tmp_path, content, mentions):
    path = tmp_path / "schema.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"schema.toml: {mentions}[^\n]*$"):
        SchemaEncoder.from_toml(path)
