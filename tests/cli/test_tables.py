"""What `pabi train` reads: each way to keep a table gives the same rows, and no record is read twice."""

import contextlib
import gzip
import io
import itertools
import tracemalloc
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from pabi.cli import tables
from pabi.cli.schema_file import read_encoded
from pabi.cli.table_files import table_files
from pabi.learn import LargeTable, SchemaEncoder
from pabi.numbers.errors import InvalidInput
from support.every_case import every
from support.tables import SCHEMA, assert_one_line, files, people, run, train

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[train]'")
pytest.importorskip("skops", reason="needs skops: pip install '.[train]'")

COLUMNS = ["age", "job", "rich"]
ENDS = ["\n", "\r\n", "\r"]
SIZES = [1, 3, 1 << 16]
ENCODER = SchemaEncoder({"age": {"kind": "numeric", "range": [20, 60]}})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, "utf-8")


def write(frame, name):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    if name.endswith((".csv", ".csv.gz")):
        frame.to_csv(name, index=False)
    elif name.endswith((".parquet", ".pq")):
        frame.to_parquet(name)
    elif name.endswith(".feather"):
        frame.to_feather(name)
    else:
        table = pyarrow.Table.from_pandas(frame)
        with pyarrow.ipc.new_stream(name, table.schema) as stream:
            stream.write_table(table)


def rows_of(*names):
    """All rows of these tables, as text."""
    joined = pandas.concat(tables.frames(table_files(names), COLUMNS))
    return joined.astype(str).reset_index(drop=True)


def test_every_kind_of_file_gives_the_same_rows_and_names(monkeypatch):
    monkeypatch.setattr(tables, "ROWS", 7)  # so that there are many parts
    frame = people(100)
    for name in ["a.csv", "a.csv.gz", "a.parquet", "a.pq", "a.feather", "a.arrow", "A.CSV.GZ"]:
        write(frame, name.lower())
        Path(name.lower()).rename(name)
        assert max(map(len, tables.frames([name], COLUMNS))) <= 7, name
        assert rows_of(name).equals(frame[COLUMNS].astype(str)), name
        assert tables.names_of(name) == list(frame.columns), name


def test_several_files_folders_and_patterns_are_one_table():
    frame = people(90)
    write(frame[:30], "parts/1.csv")
    write(frame[30:50].reset_index(drop=True), "parts/2.parquet")
    write(frame[50:], "parts/below/3.csv.gz")
    for other in ("parts/_SUCCESS", "parts/.hidden.csv", "parts/notes.txt", "parts/_tmp/4.csv"):
        Path(other).parent.mkdir(exist_ok=True)
        Path(other).write_text("nothing like a table", "utf-8")
    whole = frame[COLUMNS].astype(str)
    assert rows_of("parts").equals(whole)
    assert rows_of("parts/1.csv", "parts/2.parquet", "parts/below/3.csv.gz").equals(whole)
    assert rows_of("parts/[12].*", "parts/**/3*").equals(whole)
    # A label that is a number in one file and text in the other is the same label.
    labels = (frame.rich == "yes").astype(int)
    write(frame[:30].assign(rich=labels), "1.parquet")
    write(frame[30:].assign(rich=labels), "2.csv")
    read = read_encoded(["1.parquet", "2.csv"], ENCODER, ["rich"]).others["rich"]
    assert [str(label) for label in read] == labels.astype(str).tolist()


def test_standard_input_is_a_csv(monkeypatch):
    text = people(500).to_csv(index=False)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "records      500\n" in train("-").out
    assert_one_line(train("-", "a.csv"), "a.csv", "no such file")
    write(people(5), "a.csv")
    assert_one_line(train("-", "a.csv"), "standard input alone")
    monkeypatch.setattr("sys.stdin", None)
    assert_one_line(train("-", more=("--force",)), "standard input", "closed")


@every(
    "text, ends",
    list(
        itertools.product(
            ['a,b\n"1,2\n3",4\n5,6\n', 'a,b\n1,2\n3,"x\ny"\n', 'a\n"1\n\n"\n\n\n'], ENDS
        )
    ),
)
def test_a_record_that_would_swallow_others_is_refused(text, ends):
    Path("a.csv").write_bytes(text.replace("\n", ends).encode())
    with pytest.raises(InvalidInput, match=r"a\.csv: expected one record in each line"):
        list(tables.frames(["a.csv"], ["a"]))


@pytest.mark.parametrize("ends", ENDS)
@every("rows, last", list(itertools.product([701, 1 << 14], ["3", ""])))
def test_a_blank_line_is_a_missing_cell_wherever_it_is(monkeypatch, ends, rows, last):
    """Also at the end: a last record without a cell had taken the blank ones before it along."""
    monkeypatch.setattr(tables, "ROWS", rows)
    cells = ["1", "", "", "2", *map(str, range(30_000)), "", "", last]
    Path("a.csv").write_bytes(ends.join(["", "a", *cells, ""]).encode())
    assert [cell for frame in tables.frames(["a.csv"], ["a"]) for cell in frame["a"]] == cells


class Sipping(io.BytesIO):
    """Bytes of which no more than so many are read at once."""

    def __init__(self, content, size):
        super().__init__(content)
        self._size = size

    def read(self, size=-1):
        return super().read(min(size, self._size))


def test_a_line_that_would_become_two_is_refused(monkeypatch):
    """A carriage return within a cell; whatever parts the file is read in."""
    texts = ["a,b\n1,x\r2\n3,4\n", "a,b\r\n1,2\r\r\n3,4\r\n", "a\r1\n2\r"]
    for text, size in itertools.product(texts, SIZES):
        file = contextlib.nullcontext(Sipping(text.encode(), size))
        monkeypatch.setattr(tables, "_binary", lambda _, file=file: file)
        with pytest.raises(InvalidInput, match=r"a\.csv: expected lines that all end alike"):
            list(tables.frames(["a.csv"], ["a"]))


@every("ends, size, end", list(itertools.product(ENDS, SIZES, ["", "\n", "\n\n"])))
def test_lines_are_counted_whatever_parts_they_are_read_in(ends, size, end):
    text = f"\n\na,b\n1,2\n\n3,4{end}".replace("\n", ends).encode()
    lines = tables._Lines(Sipping(text, size))
    assert lines.read() == text.lstrip(b"\r\n")
    assert (lines.count, lines.mixed) == (4 + len(end) // 2, False)


def cells_in(raw, columns=("a", "b"), encoding=None):
    """The cells of a CSV of these bytes."""
    Path("a.csv").write_bytes(raw)
    read = tables.frames(table_files(["a.csv"], encoding), columns)
    return [row for frame in read for row in frame.to_numpy().tolist()]


@every("mark", [",", ";", "\t", "|"])
def test_the_header_says_what_stands_between_cells(mark):
    text = f'a{mark} b {mark}c,d\n1{mark}"x{mark}y"\n{mark} z\n'
    assert tables.names_of("a.csv" if cells_in(text.encode(), ["a"]) else "") == (
        ["a", "b", "c,d"] if mark != "," else ["a", "b", "c", "d"]
    )
    assert cells_in(text.encode()) == [["1", f"x{mark}y"], ["", "z"]]
    # What a record has in it says nothing: here a comma is the better guess of most readers.
    odd = f"a{mark}b\n1{mark}2,3,4\n".encode() if mark != "," else b"a,b\n1;2;3,4\n"
    assert cells_in(odd) == ([["1", "2,3,4"]] if mark != "," else [["1;2;3", "4"]])
    # A blank line is missing cells.
    blank = f'a{mark}b\n1{mark}"x ""y""{mark} z"\n\n3{mark}4\n'
    assert cells_in(blank.encode()) == [["1", f'x "y"{mark} z'], ["", ""], ["3", "4"]]


def test_bytes_that_are_no_text_are_one_missing_cell():
    raw = "a;b\n1;ü\n2;x\n3;é\n4;€".encode()
    for bad in (b"\xfc", b"\xe2\x82", b"\xc3", b"\xff\xfe"):
        with pytest.warns(UserWarning, match=r"no text in utf-8 .* --encoding; .* to yourself"):
            cells = cells_in(raw.replace(b"x", bad))
        assert cells == [["1", "ü"], ["2", ""], ["3", "é"], ["4", "€"]]
    assert cells_in("a,b\nß,\x00é\n".encode("cp1252"), encoding="cp1252") == [["ß", "\x00é"]]
    assert cells_in("\ufeffä,b\n1,2\n".encode(), ["ä"]) == [["1"]]
    assert cells_in("ä,b\n1,2\n".encode("latin-1"), ["ä"], "latin-1") == [["1"]]
    for text, encoding, message in [
        ("ä,b\n1,2\n".encode("latin-1"), None, "first line in utf-8: .* --encoding"),
        ("a,b\n1,2\n".encode("utf-16"), None, "this is UTF-16"),
        *((b"a,b\n1,2\n", odd, "--encoding: expected utf-8") for odd in ("gbk", "x", "utf-7")),
    ]:
        with pytest.raises(InvalidInput, match=message):
            cells_in(text, encoding=encoding)


def test_a_date_or_text_that_is_none_changes_no_other():
    when = pyarrow.array([19_723, 2**31 - 1, None], pyarrow.int32()).view(pyarrow.date32())
    text = pyarrow.array([b"smith", b"\xff", b"clerk"]).cast(pyarrow.string(), safe=False)
    table = pyarrow.table({"when": when, "age": [30, None, 50], "job": text})
    pyarrow.parquet.write_table(table, "a.parquet")
    (frame,) = tables.frames(["a.parquet"], ["when", "age", "job"])
    cells = {"when": [date(2024, 1, 1), 2**31 - 1, None], "job": ["smith", None, "clerk"]}
    for name, expected in cells.items():
        assert frame[name].tolist() == expected
        for data in ("a.parquet", table):
            assert LargeTable(data).column(name).together().tolist() == expected
    assert frame["age"].tolist() == [30, None, 50]


def test_no_record_is_read_twice():
    write(people(50), "a.csv")
    write(people(50), "a.parquet")
    Path("link.csv").symlink_to("a.csv")
    Path("hard.csv").hardlink_to("a.csv")
    for again in ["a.csv", "./a.csv", "link.csv", "hard.csv", "a.parquet", "*.csv"]:
        said = train("a.csv", again)
        assert_one_line(said, "expected every table once", "twice the influence")
        assert "model.skops" not in files()


def test_copies_are_refused_and_empty_tables_are_not():
    frame = people(300)
    write(frame[:150], "a.parquet")
    Path("b.parquet").write_bytes(Path("a.parquet").read_bytes())
    with pytest.raises(InvalidInput, match=r"b\.parquet: .* got a copy of a\.parquet"):
        table_files(["a.parquet", "b.parquet"])
    for name in ("c.csv", "d.csv"):
        Path(name).write_text("a\n\n1\n", "utf-8")  # with a blank record
    with pytest.raises(InvalidInput, match="a copy of"):
        table_files(["c.csv", "d.csv"])
    for one, other in ((frame[:0], frame[:0]), (frame[:150], frame[150:].assign(age=30))):
        write(one, "c.csv")
        write(other, "d.csv")
        assert table_files(["c.csv", "d.csv"]) == ["c.csv", "d.csv"]
    with pytest.raises(InvalidInput, match=r"nobody\.csv: expected a file named .*: no such file"):
        table_files(["nobody.csv"])


def test_bad_tables():
    frame = people(300)
    write(frame, "good.csv")
    write(frame.drop(columns="citizen"), "lacks.csv")
    write(frame.drop(columns="citizen"), "lacks.feather")
    write(frame.assign(age="secret-7"), "text.feather")
    write(frame.assign(age=pandas.Timestamp("2020-01-01")), "dates.parquet")
    write(frame[:0], "header.csv")
    text = frame.to_csv(index=False)
    Path("headless.csv").write_text(text.partition("\n")[2], "utf-8")
    Path("long.csv").write_text(text.replace("\n1,", "\n1,,", 1), "utf-8")
    Path("broken.csv.gz").write_bytes(b"not packed")
    Path("cut.csv.gz").write_bytes(gzip.compress(text.encode())[:-20])
    for name in ("broken.feather", "broken.parquet"):
        Path(name).write_bytes(b"nothing like it")
    Path("empty").mkdir()
    before = files()
    for data, *mentions in [
        ("none.csv", "none.csv", "no such file"),
        ("none", "none", "named .csv"),
        ("*.pq", "*.pq", "a pattern that some files match"),
        ("*", "schema.toml", "named .csv"),
        ("empty", "empty", "a folder with tables in it"),
        ("good.csv lacks.csv", "lacks.csv", "'citizen'"),
        ("good.csv headless.csv", "headless.csv", "the first line looks like data"),
        ("good.csv header.csv long.csv", "long.csv", "expected a CSV table", "line 3"),
        ("header.csv", "header.csv", "at least one row"),
        ("broken.csv.gz", "broken.csv.gz", "expected a CSV table"),
        ("cut.csv.gz", "cut.csv.gz", "expected a CSV table"),
        ("broken.feather", "broken.feather", "expected a Feather or Arrow table"),
        ("broken.parquet", "broken.parquet", "expected a Parquet table"),
        ("lacks.feather", "lacks.feather", "'citizen'"),
        ("text.feather", "age", "numeric column"),
        ("dates.parquet", "age", "numbers or text"),
    ]:
        result = train(*data.split())
        assert_one_line(result, *mentions)
        assert "secret-7" not in result.err
        assert files() == before


@every(
    "line",
    ["39, State-gov, 77516", "a, 2020-01-01", "x, $1,000", "a, b@c.de", "a, -3e4", "a, 12:30"],
)
def test_a_first_line_of_data_is_not_shown(line):
    cells = [cell.strip() for cell in line.split(", ")]
    Path("a.csv").write_text(",".join(f'"{cell}"' for cell in cells) + "\n", "utf-8")
    for result in (train("a.csv"), run("schema", "a.csv")):
        assert_one_line(result, "a.csv", "the first line looks like data")
        assert not [cell for cell in cells[1:] if cell in result.err]


def test_memory_is_that_of_encoded_rows(monkeypatch):
    """Text takes some fifty bytes a cell: 12 columns of 20 000 rows are 12 MB, of which two are used."""
    monkeypatch.setattr(tables, "ROWS", 1000)
    n = 20_000
    wide = pandas.DataFrame(np.arange(10 * n).reshape(n, 10)).add_prefix("c")
    wide.assign(age=30, rich="no").to_csv("a.csv", index=False)
    list(tables.frames(["a.csv"], ["age"]))  # what importing takes is not counted
    tracemalloc.start()
    table = read_encoded(["a.csv"], ENCODER, ["rich"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.records == n
    # Of all rows a number and a reference, twice; of a part 12 cells a row of at most 200 bytes, and pandas'
    # own buffer of 256 KB.
    assert peak < 2 * 16 * n + 200 * 12 * 1000 + (1 << 19)


def test_a_bit_that_flipped_in_a_page_with_a_checksum_is_no_number():
    numbers = np.arange(20.0, 60.0)
    frame = pandas.DataFrame({"age": numbers, "smokes": np.arange(40) % 2})
    frame.to_parquet(
        "a.parquet", write_page_checksum=True, compression="none", use_dictionary=False
    )
    whole = Path("a.parquet").read_bytes()
    at = whole.index(numbers.tobytes()) + 45
    Path("a.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(InvalidInput, match=r"a\.parquet: expected a Parquet table"):
        list(tables.frames(["a.parquet"], ["age"]))
    with pytest.raises(InvalidInput, match="a file is damaged"):
        list(LargeTable("a.parquet").column("age").chunks())
