"""`--query`: the rows that a database answers are those of a file, and nothing of it is shown or changed."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import warnings
from pathlib import Path
from urllib.parse import quote

import pytest

from pabi.cli.predicting import load_model
from pabi.cli.schema_file import read_encoded
from pabi.cli.table_files import answer, tables
from pabi.cli.training import ASKED
from pabi.learn import SchemaEncoder
from pabi.numbers.errors import InvalidInput
from support.tables import SCHEMA, assert_one_line, files, people, run, train

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[train]'")
pytest.importorskip("skops", reason="needs skops: pip install '.[train]'")

PASSWORD = "s3cr:et word@x"
ALL = "SELECT * FROM people"


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The URI of a PostgreSQL of its own, which listens on a socket in a folder alone."""
    dbapi = pytest.importorskip(
        "adbc_driver_postgresql.dbapi", reason="needs ADBC: pip install '.[query]'"
    )
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    binaries = folders[-1] if folders else Path(shutil.which("initdb") or "/none").parent
    if not (binaries / "initdb").exists():
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    home = Path("/tmp") / f"pabi-postgres-{os.getpid()}"  # names of sockets are short
    home.mkdir()
    unprivileged = []
    if os.getuid() == 0:  # it refuses to run as root
        unprivileged = ["runuser", "-u", "postgres", "--"]
        shutil.chown(home, "postgres")
    (home / "password").write_text(PASSWORD, "utf-8")
    (home / "password").chmod(0o644)

    def do(program, *words):
        command = [*unprivileged, str(binaries / program), "-D", str(home / "data"), *words]
        subprocess.run(command, check=True, capture_output=True, cwd=home)

    try:
        do("initdb", "-U", "ward", f"--pwfile={home}/password", "-A", "scram-sha-256", "--no-sync")
        options = f"-c listen_addresses='' -c fsync=off -k {home}"
        do("pg_ctl", "start", "-w", "-o", options, "-l", str(home / "log"))
        uri = f"postgresql://ward:{quote(PASSWORD, safe='')}@/postgres?host={home}"
        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            rows = pyarrow.Table.from_pandas(people(), preserve_index=False)
            cursor.adbc_ingest("people", rows)
            connection.commit()
        yield uri
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            do("pg_ctl", "stop", "-m", "immediate")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def database(request, tmp_path, monkeypatch):
    """A database with the table of people, in a folder with their schema."""
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, "utf-8")
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    if request.param == "sqlite":
        with contextlib.closing(sqlite3.connect("people.db")) as connection:
            people().to_sql("people", connection, index=False)
        return "people.db"
    duckdb = pytest.importorskip("duckdb", reason="needs DuckDB: pip install '.[query]'")
    with duckdb.connect("people.db") as connection:
        connection.register("frame", pyarrow.Table.from_pandas(people(), preserve_index=False))
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    return "people.db"


def test_the_rows_are_those_of_a_file(database):
    people().to_csv("people.csv", index=False)
    encoder = SchemaEncoder.from_toml("schema.toml")
    files = tables([], None, query=ALL, database=database), ["people.csv"]
    one, other = (read_encoded(some, encoder, ["rich", "id"]) for some in files)
    assert (one.features != other.features).nnz == 0
    for name in ("rich", "id"):
        assert list(map(str, one.others[name])) == list(map(str, other.others[name]))


@pytest.mark.parametrize("scratch", [(), ("--scratch", ".")])
def test_a_model_of_a_query_assumes_what_a_row_is(database, scratch):
    asked = ("--query", f"{ALL} WHERE id < 1000", "--database", database)
    said = train(more=(*asked, *scratch))
    assert "records      1000\n" in said.out
    assert ASKED in load_model("model.skops").last.guarantee_.assumptions
    assert run("verify", "g.json", "--model", "model.skops").status == 0
    out = run("predict", "model.skops", *asked, "--id", "id", "--out", "-").out.splitlines()
    assert out[0] == "id,prediction"
    assert sorted(int(line.partition(",")[0]) for line in out[1:]) == list(range(1000))
    held = [Path(name).read_bytes() for name in files()]
    assert not any(b"s3cr" in raw for raw in [*held, (said.out + said.err).encode()])


@pytest.mark.parametrize(
    ("query", "mentions"),
    [
        ("SELECT agee FROM people", ["agee"]),
        ("SELECT age FROM people; SELECT 1", []),
        ("DELETE FROM people RETURNING *", []),
        ("", []),
        ("SELECT age, job, citizen FROM people", ["'rich'"]),
        ("SELECT * FROM people WHERE id < 0", ["at least one row"]),
        ("SELECT *, age FROM people", ["'age'", "several of that name"]),
    ],
)
def test_bad_queries(database, query, mentions):
    before = files()
    said = train(more=("--query", query, "--database", database))
    assert_one_line(said, "--query", *mentions)
    assert files() == before
    assert answer(database, ALL, None).count_rows() == 1200


def test_no_value_is_shown(database):
    """Of a cast that fails on the last row."""
    cast = "json_extract('{}', job || '-7')" if database == "people.db" else "(job || '-7')::int"
    if Path(database).exists() and Path(database).read_bytes()[8:12] == b"DUCK":
        cast = "(job || '-7')::int"
    said = train(more=("--query", f"SELECT {cast} AS age FROM people", "--database", database))
    assert_one_line(said, "--query: fails on records of the data")
    assert "smith" not in said.err
    assert "clerk" not in said.err


def test_which_databases_are_asked(postgres, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, "utf-8")
    people(5).to_csv("a.csv", index=False)
    for uri, *mentions in [
        ("a.csv", "postgresql://", "DuckDB or SQLite"),
        ("none.db", "DuckDB or SQLite"),
        (postgres.replace("s3cr", "s3cret"), "OperationalError"),
        (postgres.replace("s3cr%3Aet%20", "s3cret s3cret"), "OperationalError"),
        ("postgresql:///postgres?password=s3cret word&host=/none", "OperationalError"),
        ("postgresql:///postgres?host=/none", "/none"),
    ]:
        said = train(more=("--query", ALL, "--database", uri))
        assert_one_line(said, "--database", *mentions)
        assert "s3c" not in said.err
    secret = "SELECT * FROM people WHERE 'password=s3cret' = s3cret"
    assert_one_line(train(more=("--query", secret, "--database", postgres)), "ProgrammingError")
    asked = ("--query", ALL, "--database", postgres)
    assert_one_line(train("a.csv", more=asked), "--query: expected either tables or a query")
    assert_one_line(train(more=asked[:2]), "--database: missing")
    assert_one_line(train(more=asked[2:]), "--query: missing")
    assert_one_line(train(), "DATA: missing")
    kept = ("--keep-state", "s", "--key-file", "k", *asked)
    assert_one_line(train(more=kept), "--query: expected none with --keep-state")


def test_dates_and_numbers_of_postgres(postgres):
    """A date beyond all others, and numbers that it has as text."""
    query = (
        "SELECT date '2024-01-01' + i AS day, i / 4.0 AS share FROM generate_series(0, 1) i UNION ALL SELECT "
        "date '20244-01-01', NULL UNION ALL SELECT 'infinity', 'NaN' ORDER BY 1"
    )
    when = {"kind": "date", "range": ["2024-01-01", "2024-01-03"]}
    encoder = SchemaEncoder({"day": when, "share": {"kind": "numeric", "range": [0, 0.5]}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = read_encoded(tables([], None, query=query, database=postgres), encoder, []).features
    assert rows.tolist() == [[-1.0, -1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_value_of_another_type_changes_no_other(tmp_path):
    """SQLite has a type for each value; drivers that look at the first rows make doubles of all."""
    file = str(tmp_path / "people.db")
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE people (x)")
        values = [2**60 + 1, 0.1, "seven", None, b"\xff", 1e300]
        connection.executemany("INSERT INTO people VALUES (?)", [(value,) for value in values])
        connection.execute("INSERT INTO people VALUES (CAST(x'ff41' AS TEXT))")
        connection.commit()
    (batch,) = answer(file, ALL, None).to_batches()
    read = ["1152921504606846977", "0.1", "seven", None, r"b'\xff'", "1e+300", None]
    assert batch.column(0).to_pylist() == read
    with pytest.raises(InvalidInput, match="--query: no such table: nobody"):
        answer(file, "SELECT * FROM nobody", None)
