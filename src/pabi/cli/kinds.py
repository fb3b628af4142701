"""What kind of file this is, so that one given to the wrong command says to which it belongs.

It is told by how files begin and which keys they have. Nothing that stands in a file is shown.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from pabi.numbers.errors import InvalidInput

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
STATE = FileKind("a secret state", "pabi forget --key-file")

_FORMATS = {
    "pabi.guarantee": GUARANTEE,
    "pabi.certificate": CERTIFICATE,
    "pabi.ledger": LEDGER,
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
