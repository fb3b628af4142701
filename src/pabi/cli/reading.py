"""What the command line reads: options, run files, certificates; every mistake is one InvalidInput."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pabi.describe.accounted import USUAL_DELTA as USUAL_DELTA
from pabi.describe.files import Description, description_in, tables_in
from pabi.describe.runs import NoisySGD
from pabi.numbers.encoding import parse_json
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.showing import exact

if TYPE_CHECKING:
    from pabi.account.targets import Target
    from pabi.verification import Verdict

# What kind of file this is, so that one given to the wrong command says to which it belongs.
#
# It is told by how files begin and which keys they have. Nothing that stands in a file is shown.


_MOST = 1 << 24  # bytes that are parsed to find out


@dataclass(frozen=True)
class FileKind:
    """A kind of file. `name`: with its article. `use`: what takes it."""

    name: str
    use: str


GUARANTEE = FileKind("a guarantee", "pabi verify or pabi report")
CERTIFICATE = FileKind("a certificate", "pabi verify or pabi report")
LEDGER = FileKind("a ledger", "pabi ledger or pabi report")
RUN = FileKind("a run file", "pabi account, explain, calibrate or report")
SCHEMA = FileKind("a schema", "pabi train --schema")
MODEL = FileKind("a model", "pabi predict, or pabi verify GUARANTEE --model")
TABLE = FileKind("a table", "pabi train")
SIGNATURES = FileKind("statements about a file", "the file that it is named after")
STATE = FileKind("a secret state", "pabi forget --key-file")

_FORMATS = {
    "pabi.guarantee": GUARANTEE,
    "pabi.certificate": CERTIFICATE,
    "pabi.ledger": LEDGER,
    "pabi.signatures": SIGNATURES,
}
_FORMAT = re.compile(r'\s*\{\s*"format"\s*:\s*"([^"\\]*)"')
_OF_RUNS = {
    "loss",
    "batches",
    "step_size",
    "contraction",
    "inverse_temperature",
    "noise_std",
    "requests",
}


def refuse_another(file: str, raw: bytes, *expected: FileKind) -> None:
    """Raises InvalidInput naming `file` where it begins with `raw` and is of a kind that is not expected."""
    kind = kind_of(raw)
    if kind is not None and kind not in expected:
        raise InvalidInput(file, f"this is {kind.name}: use {kind.use}")


def refuse_other_kinds(path: Path, *expected: FileKind) -> None:
    """`refuse_another` for the file at `path`; one that cannot be read is left to whoever reads it."""
    refuse_another(str(path), _beginning(path), *expected)


def is_ledger(file: str) -> bool:
    """Whether there is a ledger of this name."""
    return kind_of(_beginning(Path(file), 1 << 10)) is LEDGER


def _beginning(path: Path, most: int = _MOST) -> bytes:
    """How the file at `path` begins, nothing of one that cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as stream:
            return stream.read(most)
    except (OSError, ValueError):
        return b""


def kind_of(raw: bytes) -> FileKind | None:
    """The kind of a file that begins with these bytes; None for what is none of them."""
    if raw.startswith(b"PK\x03\x04"):
        return MODEL if b"schema.json" in raw else None
    if raw.startswith((b"PAR1", b"\x93NUMPY")):
        return TABLE
    if raw.startswith(b"pabi.state."):
        return STATE
    text = raw.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] == "{":
        return _of_json(text)
    return _of_toml(text) or (TABLE if _is_csv(text) else None)


def _of_json(text: str) -> FileKind | None:
    first = _FORMAT.match(text)
    if first is not None:
        return _FORMATS.get(first[1])
    try:
        data = json.loads(text) if len(text) <= _MOST else None
    except (ValueError, RecursionError):
        return None
    form = data.get("format") if isinstance(data, dict) else None
    return _FORMATS.get(form) if isinstance(form, str) else None


def _of_toml(text: str) -> FileKind | None:
    import tomllib

    try:
        tables = tomllib.loads(text) if len(text) <= _MOST else {}
    except (ValueError, RecursionError):
        return None
    if isinstance(tables.get("columns"), dict):
        return SCHEMA
    return RUN if _OF_RUNS & tables.keys() else None


def _is_csv(text: str) -> bool:
    """Whether the first two lines have cells, and equally many."""
    lines = text.split("\n", 2)[:2]
    counts = {line.count(",") for line in lines}
    names = not lines[0].startswith("#") and "=" not in lines[0]
    return names and len(lines) == 2 and len(counts) == 1 and 0 not in counts


# Options that several commands have.


TargetEpsilon = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        metavar="E",
        help="The target: the largest epsilon at --delta. Or another target.",
    ),
]
TargetDelta = Annotated[
    str | None,
    typer.Option(
        "--delta",
        metavar="D",
        help="The delta of --epsilon, and at which a guarantee is chosen. Required.",
    ),
]
TargetMu = Annotated[
    str | None,
    typer.Option("--mu", metavar="M", help="Or the largest mu of Gaussian differential privacy."),
]
TargetAdvantage = Annotated[
    str | None,
    typer.Option(
        "--advantage", metavar="A", help="Or the largest TPR - FPR of a membership attack."
    ),
]
TargetTpr = Annotated[
    str | None,
    typer.Option("--tpr", metavar="T", help="Or the largest true-positive rate of one, at --fpr."),
]
TargetFpr = Annotated[
    str | None, typer.Option("--fpr", metavar="F", help="The false-positive rate of --tpr.")
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="M",
        help="logistic, svc or kernel for labels; linear, huber, poisson, gamma or kernel-regression for "
        "amounts.",
    ),
]
Adjacency = Annotated[
    str | None,
    typer.Option("--adjacency", metavar="A", help="replace_one (default) or zero_out."),
]
FeatureNorm = Annotated[
    str | None,
    typer.Option(
        "--feature-norm",
        metavar="R",
        help="Scale longer rows down to this norm; by default no row is longer.",
    ),
]
OneRowEach = Annotated[
    bool,
    typer.Option("--one-row-each", help="Nobody has several rows: do not ask whose a row is."),
]
Epochs = Annotated[str | None, typer.Option("--epochs", metavar="N", help="Passes over the data.")]

Data = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA",
        help="Tables with the same columns: CSV with a header line (also .csv.gz), Parquet, Feather or Arrow "
        "files, folders of them, patterns in quotes; .npy files and Zarr arrays, of columns x0, x1, …; - is "
        "a CSV on standard input.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="What the text of a CSV is in, such as latin-1 or cp1252; UTF-8 if it is left out.",
    ),
]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="SQL", help="In place of tables: the answer to it is one."),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URI",
        help="What is asked: postgresql://…, its password in PGPASSWORD, or a file of DuckDB or SQLite.",
    ),
]

T = TypeVar("T")

SECONDS = 9.0  # of processor time for a stranger's file, if not stated: those of `pabi.verify`
_MOST_BYTES = 1 << 29  # of a file; stops at once on an endless one
# Of a certificate: twice what the characters that `verify` reads take in any script.
MOST_OF_A_STRANGER = 1 << 26
_STRANGER = "a certificate or guarantee (JSON)"


def file_name(file: str) -> str:
    """The name of `file` in messages, where - is standard input."""
    return "standard input" if file == "-" else file


def read_text(
    file: str, what: str, most: int = _MOST_BYTES, *, kinds: tuple[FileKind, ...] = ()
) -> str:
    """The text of a file of at most `most` bytes.

    `kinds`: what it may be; one of pabi's other files is told where it belongs. None: whatever it is.
    """
    return text_of(file, read_bytes(file, what, most, kinds=kinds), what)


def read_bytes(
    file: str, what: str, most: int = _MOST_BYTES, *, kinds: tuple[FileKind, ...] = ()
) -> bytes:
    """The bytes of such a file."""
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(most + 1)
        else:
            with open(file, "rb") as stream:
                raw = stream.read(most + 1)
    except (OSError, ValueError, AttributeError) as bad:
        reason = "it is closed" if sys.stdin is None and file == "-" else str(bad)
        reason = getattr(bad, "strerror", None) or reason
        raise InvalidInput(file_name(file), f"expected {what}: {reason}") from None
    require(len(raw) <= most, file_name(file), f"expected {what} of at most {most >> 20} MiB")
    if kinds:
        refuse_another(file_name(file), raw, *kinds)
    return raw


def text_of(file: str, raw: bytes, what: str) -> str:
    """The text that the bytes of a file are."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        raise InvalidInput(
            file_name(file),
            f"expected {what} in UTF-8, got {bad.object[bad.start]:#04x} at byte {bad.start}",
        ) from None


def describe(file: str) -> Description:
    """The description in a run file."""
    return described(file, read_text(file, "a run file (TOML)", kinds=(RUN,)))


def noisy_sgd(file: str, what: str) -> Any:
    """The run of noisy SGD in a file, which alone is "audited" or "made to forget"."""
    run = describe(file)
    require(
        type(run) is NoisySGD, file_name(file), f'kind: expected "noisy_sgd", which alone is {what}'
    )
    return run


def described(file: str, text: str) -> Description:
    """The description in the text of a run file."""
    table = tables_in(text, file_name(file))
    try:
        return description_in(table)
    except InvalidInput as bad:
        raise InvalidInput(file_name(file), str(bad)) from None


def _option(name: str, text: str | None, kind: str, ok: Callable[[float], bool]) -> float | None:
    """The number given for an option, None if it was not given."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    must_be(ok(value), name, kind, text)
    return value


def read_delta(text: str | None) -> float | None:
    """The option --delta as a number, None where it is left out. Raises InvalidInput."""
    return _option("--delta", text, "a number ≥ 0 and < 1", lambda x: 0.0 <= x < 1.0)


def read_epsilon(text: str | None) -> float | None:
    """The option --epsilon as a number, None where it is left out. Raises InvalidInput."""
    return _option("--epsilon", text, "a finite number ≥ 0", lambda x: 0.0 <= x < math.inf)


def read_positive(name: str, text: str | None) -> float | None:
    """The option `name` as a positive number, None where it is left out. Raises InvalidInput."""
    return _option(name, text, "a finite number > 0", lambda x: 0.0 < x < math.inf)


def read_whole(name: str, text: str, at_least: int) -> int:
    """The option `name` as an integer of at least so much. Raises InvalidInput."""
    must_be(
        text.isascii() and text.isdigit() and int(text) >= at_least,
        name,
        f"an integer ≥ {at_least}",
        text,
    )
    return int(text)


def required(name: str, value: T | None) -> T:
    """The value of the option `name`. Raises InvalidInput where it is left out."""
    if value is None:
        raise InvalidInput(name, "missing: this command needs it")
    return value


def read_target(epsilon: str | None, delta: str | None) -> tuple[float, float]:
    """(ε, δ) to aim for, both given and above 0."""
    target = required("--epsilon", read_epsilon(epsilon))
    at = required("--delta", read_delta(delta))
    for name, text, value in (("--epsilon", epsilon, target), ("--delta", delta, at)):
        must_be(value != 0.0, name, "a number > 0", text)
    return target, at


def read_any_target(
    *,
    epsilon: str | None,
    delta: str | None,
    mu: str | None,
    advantage: str | None,
    tpr: str | None,
    fpr: str | None,
) -> Target:
    """The target that the options state. Raises InvalidInput."""
    from pabi.account.targets import Target

    others = {"mu": mu, "advantage": advantage, "tpr": tpr, "fpr": fpr}
    if all(text is None for text in others.values()):
        limit, at = read_target(epsilon, delta)
        return Target(epsilon=limit, delta=at)
    every = {"epsilon": epsilon, "delta": delta, **others}
    required("--delta", delta)
    numbers = {name: read_positive(f"--{name}", text) for name, text in every.items()}
    try:
        return Target(**numbers)
    except InvalidInput as bad:
        option = "--epsilon" if bad.field == "target" else f"--{bad.field}"
        raise InvalidInput(option, str(bad).removeprefix(f"{bad.field}: ")) from None


Seconds = Annotated[
    str | None,
    typer.Option(
        "--seconds", metavar="S", help="Of processor time that checking may take; default 9."
    ),
]


@contextmanager
def within_seconds(text: str | None) -> Iterator[dict[str, Any]]:
    """The limits of a verification that --seconds states, on a clock that goes on for all that is read from
    the file in the body."""
    from pabi.numbers.locking import OutOfTime, until

    seconds = read_positive("--seconds", text) or SECONDS
    try:
        with until(seconds):
            yield {} if text is None else {"seconds": seconds}
    except OutOfTime:
        raise InvalidInput(
            "--seconds",
            f"expected more than {exact(seconds)}: what is asked of the file takes longer",
        ) from None


def stranger(file: str) -> bytes:
    """The bytes of a certificate or guarantee."""
    return read_bytes(file, _STRANGER, MOST_OF_A_STRANGER, kinds=(GUARANTEE, CERTIFICATE))


def verdict_on_text(file: str, text: str, **limits: Any) -> tuple[Verdict, dict[str, Any], float]:
    """The verdict on a certificate or guarantee, what stands in it, and a δ at which to read it.

    What is not of our format and version is bad input; anything wrong within is refused, and is
    not read any further. `text`: that of `file`.
    """
    from pabi.verification import verify as check

    try:
        verdict = check(text, **limits)
    except InvalidInput as bad:
        raise InvalidInput(file_name(file), _no_certificate(text, bad)) from None
    if not verdict.ok:
        return verdict, {}, USUAL_DELTA
    data = parse_json(text)
    stated = data.get("delta", 0.0) if _is_guarantee(data) else 0.0
    return verdict, data, stated if 0.0 < stated < 1.0 else USUAL_DELTA


def _is_guarantee(data: dict[str, Any]) -> bool:
    return _FORMATS[data["format"]] is GUARANTEE


def _no_certificate(text: str, bad: InvalidInput) -> str:
    """Why `text` is neither a certificate nor a guarantee."""
    reason = str(bad)
    if bad.field == "json" and "expected an object" not in reason:
        return f"malformed JSON: {reason.removeprefix('json: ')}"
    if '"format"' not in text:
        return "expected a certificate or guarantee of pabi, which has a format; got other JSON"
    return reason


def stated_besides(data: dict[str, Any], verdict: Verdict) -> list[str]:
    """The assumptions of an accepted guarantee that its description does not imply."""
    stated = data["assumptions"] if _is_guarantee(data) else ()
    return [sentence for sentence in stated if sentence not in verdict.assumptions]


def notes_of(data: dict[str, Any]) -> dict[str, Any]:
    """What a file says beside what is proven."""
    from pabi.tradeoff.guarantee import notes_in

    return notes_in(data) if _is_guarantee(data) else {}


def notes_text(notes: dict[str, Any]) -> list[str]:
    """Notes, a line each."""
    return [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in notes.items()]
