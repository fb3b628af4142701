"""The readers of files, each with honest files to begin with, and what must come of any bytes.

A reader returns, or raises one InvalidInput of one line. Seals are put right after a mutation, hashes of
ledgers and checksums of archives, as whoever writes a file would do it: behind them is what reads.
"""

import functools
import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

import pabi
from pabi.budget.files import read_book
from pabi.budget.filters import _TAIL, START, _digest
from pabi.budget.ledger import report_of
from pabi.cli import predicting
from pabi.cli.reading import described, kind_of
from pabi.cli.schema_file import MODELS, schema_of, schema_text
from pabi.cli.tables import frames, names_of
from pabi.cli.writing import one_line
from pabi.describe.files import to_dict
from pabi.execute.checkpoint import Checkpoint, State
from support.falsification.altered_oracle import _about, wrong_with
from support.falsification.honest_files import (
    SAMPLED,
    SLOW,
    _descriptions,
    certificate_in,
    honest_files,
)

DELTA = 1e-3


class Wrong(AssertionError):
    """An answer that must not be given."""


@dataclass(frozen=True)
class Target:
    """A reader. `seeds`: honest files. `read`: returns or raises InvalidInput for any bytes."""

    seeds: Callable[[], tuple[bytes, ...]]
    read: Callable[[bytes], object]


def answer(target: Target, data: bytes) -> str:
    """Whether it is "read" or "refused". Raises what else the reader raises, and Wrong for several lines."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outcome = target.read(data)
    except pabi.InvalidInput as bad:
        _one_line(str(bad))
        return "refused"
    return "refused" if outcome is False else "read"


def _one_line(text: str) -> None:
    if not text or "\n" in text:
        raise Wrong(f"no line, or several: {text[:300]!r}")


@functools.cache
def _folder() -> Path:
    """Where what is read lies; in memory where the system has such a folder."""
    memory = Path("/dev/shm")
    home = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
    _folder.keep = home  # removed with this process
    return Path(home.name)


def _at(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    path.with_name(f".{name}.lock").unlink(missing_ok=True)  # of a ledger that was there before
    return path


# Guarantees and certificates.


@functools.cache
def _guarantees() -> tuple[bytes, ...]:
    """Those that are checked quickly."""
    return tuple(
        text.encode()
        for name, text in honest_files().items()
        if name not in SLOW | SAMPLED and len(text) < 20_000
    )


@functools.cache
def _by_proof() -> Mapping[str, dict]:
    """An honest file for what it is about."""
    files = [json.loads(text) for text in honest_files().values()]
    return {_about(certificate_in(file)): file for file in files}


def _guarantee(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    verdict = pabi.verify(text)
    _one_line(verdict.reason)
    if not verdict.ok:
        return False
    parsed = json.loads(text)
    honest = _by_proof().get(_about(certificate_in(parsed)), {})
    if not honest and None in certificate_in(parsed).get("moduli", ()):
        return True  # functions that are stated by their values: only an honest file could tell
    problem = wrong_with(parsed, honest, verdict)
    if problem is not None:
        raise Wrong(f"accepted: {problem}")
    return True


def _stated() -> tuple[bytes, ...]:
    """Guarantees, certificates alone left out."""
    return tuple(text for text in _guarantees() if b'"pabi.guarantee"' in text)


def _unchecked(data: bytes) -> object:
    """What is read without being checked has to print."""
    return str(pabi.Guarantee.from_json(data.decode("utf-8", "replace")))[:0]


# Files of a user's own: runs and schemas.


@functools.cache
def _run_files() -> tuple[bytes, ...]:
    import tomli_w

    from pabi.describe.files import _toml_ready

    tables = [_toml_ready(to_dict(run)) for run in _descriptions().values()]
    return tuple(tomli_w.dumps(table).encode() for table in tables)


def _run_file(data: bytes) -> object:
    return described("run.toml", data.decode("utf-8", "replace"))


SCHEMA = b"""[columns.age]
kind = "numeric"
range = [0, 120]

[columns.job]
kind = "categorical"
levels = ["clerk", "nurse", "cook"]

[columns.height]
kind = "numeric"
range = [0.5, 2.5]

[target]
levels = ["no", "yes"]
range = [0, 1200]

[model]
l2 = 0.01
epochs = 10
fit_intercept = true
batches = {kind = "shuffle_once", size = 64}
"""


def _schemas() -> tuple[bytes, ...]:
    return (
        SCHEMA.replace(b"range = [0, 1200]\n", b""),
        SCHEMA.replace(b'levels = ["no", "yes"]\n', b""),
        SCHEMA.replace(b'{kind = "shuffle_once", size = 64}', b'"auto"').replace(
            b"range = [0, 1200]\n", b""
        ),
    )


def _schema(data: bytes) -> bool:
    path, read = _at("schema.toml", data), 0
    for model in MODELS:
        try:
            _ = schema_of(str(path), schema_text(str(path)), model).encoder
            read += 1
        except pabi.InvalidInput as bad:
            _one_line(str(bad))
    return read > 0


# Ledgers.


@functools.cache
def _ledgers() -> tuple[bytes, ...]:
    guarantee = pabi.NoisySecondMoments(1000, 3, 1.0, noise_std=20.0).guarantee(DELTA)
    contents = []
    for name, order in (("mu", None), ("renyi", 8.0)):
        ledger = pabi.Ledger(_folder() / f"{name}.ledger", 1.0, DELTA, order=order)
        contents.append(ledger.path.read_bytes())
        ledger.reserve(guarantee).commit()
        ledger.spend(guarantee, testing=True)
        contents.append(ledger.path.read_bytes())
    return tuple(contents)


def resealed(data: bytes) -> bytes:
    """Lines with hashes that are right."""
    seal, lines = START, []
    for line in data.split(b"\n")[:-1]:
        text = line.decode("utf-8", "replace")[:-_TAIL] + "}"
        seal = _digest(seal, text)
        lines.append(f'{text[:-1]},"hash":"{seal}"}}\n'.encode())
    return b"".join(lines)


def _ledger(data: bytes) -> object:
    for content in (data, resealed(data)):
        try:
            read_book(_at("raw.ledger", content))
        except pabi.InvalidInput as bad:
            _one_line(str(bad))
    book = read_book(_at("a.ledger", resealed(data)))
    opening = book.opening
    before = (_folder() / "a.ledger").read_bytes()
    ledger = pabi.Ledger(
        _folder() / "a.ledger",
        opening.epsilon,
        opening.delta,
        order=opening.order,
        unit=opening.unit,
    )
    # A last line with zeros in it is what a loss of power left, and is taken off.
    if b"\0" not in before and (_folder() / "a.ledger").read_bytes() != before:
        raise Wrong("a ledger that was read whole was changed")
    _spent_is_counted(book)
    return str(report_of(book)), ledger.remaining(), book.granted and ledger.guarantee


def _spent_is_counted(book) -> None:
    sizes = sum(book.opening.filter.size(line.charge) for line in book.granted)
    if sizes != book.spent:
        raise Wrong("an entry does not count")


# Archives: checkpoints and models.


@contextmanager
def _checksums_right() -> Iterator[None]:
    """Archives are read as if their checksums had been put right."""
    with mock.patch.object(zipfile.ZipExtFile, "_update_crc", return_value=None):
        yield


@functools.cache
def _checkpointed() -> tuple[pabi.NoisySGD, ...]:
    run = _descriptions()["new shuffle once"]
    return run, _descriptions()["new cyclic"]


def _checkpoints() -> tuple[bytes, ...]:
    contents = []
    for i, run in enumerate(_checkpointed()):
        secret = np.random.default_rng(0).permutation(run.n) if i == 0 else None
        path = _folder() / "honest.ckpt"
        Checkpoint(path, run, np.zeros(3), 0.0).write(State(2, np.ones(3), secret, ("a", "b")))
        contents.append(path.read_bytes())
    return tuple(contents)


def _checkpoint(data: bytes) -> bool:
    read = 0
    path = _at("run.ckpt", data)
    for run in _checkpointed():
        try:
            with _checksums_right():
                state = Checkpoint(path, run, np.zeros(3), 0.0).read()
        except pabi.InvalidInput as bad:
            _one_line(str(bad))
        else:
            read += 1
            if not (0 <= state.step < run.steps and np.all(np.isfinite(state.x))):
                raise Wrong(f"a state that no run can be in: {state}")
    return read > 0


@functools.cache
def _models() -> tuple[bytes, ...]:
    import skops.io
    from sklearn.pipeline import make_pipeline

    from pabi.learn import PrivateLogisticRegression, SchemaEncoder

    pandas = __import__("pandas")
    table = pandas.DataFrame({"age": np.arange(40.0), "job": ["clerk", "nurse"] * 20})
    columns = {
        "age": {"kind": "numeric", "range": [0, 120]},
        "job": {"kind": "categorical", "levels": ["clerk", "nurse"]},
    }
    model = PrivateLogisticRegression(1.0, DELTA, 2.0, classes=[0, 1], epochs=2)
    encoder = SchemaEncoder(columns).fit(table)
    model.fit(encoder.transform(table), np.arange(40) % 2)
    whole = make_pipeline(SchemaEncoder(columns), model)
    whole.steps[0] = (whole.steps[0][0], encoder)
    return tuple(skops.io.dumps(thing) for thing in (whole, model))


def _model(data: bytes) -> bool:
    path, read = str(_at("a.skops", data)), 0
    for load in (predicting.load_model, lambda file: predicting.read_skops(file, str, one_line)):
        try:
            with _checksums_right():
                load(path)
            read += 1
        except pabi.InvalidInput as bad:
            _one_line(str(bad))
    return read > 0


# Tables.

CSV = b'age,job,"a, b"\n1,clerk,2\n3.5,nurse,"x"\n,none,\n'


def _csv(data: bytes) -> object:
    return _table("a.csv", data)


def _gzip(data: bytes) -> object:
    return _table("a.csv.gz", data)


def _parquet(data: bytes) -> object:
    return _table("a.parquet", data)


def _arrow(data: bytes) -> object:
    return _table("a.feather", data)


def _table(name: str, data: bytes) -> object:
    path = str(_at(name, data))
    return names_of(path), sum(len(frame) for frame in frames([path], ["age", "job"]))


def _small_table():
    return __import__("pyarrow").table({"age": [1.0, None, 3.5], "job": ["clerk", "nurse", None]})


def _csvs() -> tuple[bytes, ...]:
    return CSV, b"\xef\xbb\xbf" + CSV.replace(b"\n", b"\r\n"), b"age,job\n1,\n"


def _gzips() -> tuple[bytes, ...]:
    import gzip

    return tuple(gzip.compress(content) for content in _csvs())


def _parquets() -> tuple[bytes, ...]:
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(_small_table(), stream)
    return (stream.getvalue(),)


def _arrows() -> tuple[bytes, ...]:
    from pyarrow import feather, ipc

    file, stream = io.BytesIO(), io.BytesIO()
    feather.write_feather(_small_table(), file, compression="uncompressed")
    with ipc.new_stream(stream, _small_table().schema) as writer:
        writer.write_table(_small_table())
    return file.getvalue(), stream.getvalue()


def _any_kind() -> tuple[bytes, ...]:
    return (*_guarantees()[:5], *_run_files()[:5], *_schemas(), *_ledgers(), *_models(), *_csvs())


TARGETS = {
    "guarantee": Target(_guarantees, _guarantee),
    "unchecked guarantee": Target(_stated, _unchecked),
    "run file": Target(_run_files, _run_file),
    "schema": Target(_schemas, _schema),
    "ledger": Target(_ledgers, _ledger),
    "checkpoint": Target(_checkpoints, _checkpoint),
    "model": Target(_models, _model),
    "CSV": Target(_csvs, _csv),
    "packed CSV": Target(_gzips, _gzip),
    "Parquet": Target(_parquets, _parquet),
    "Arrow": Target(_arrows, _arrow),
    "any kind": Target(_any_kind, kind_of),
}
