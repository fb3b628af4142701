"""Who stands behind a guarantee: statements about the bytes of its file, and signatures under them.

A statement is a text of a few lines: the SHA-256 of a file, a name, a role, a date, and the sentences that
this person attests. Its signature is Ed25519 over these very bytes, by the package `cryptography`. Statements
about `guarantee.json` stand in `guarantee.json.sig`, one after another. One without a signature is a name
that somebody typed.

Why so: the bytes of the file are signed, so that there is no canonical form of JSON in which a key that comes
twice, or 1 and 1.0, could be read in two ways. A file beside it leaves the bytes as they were. The text is
signed as it stands, so that what was verified is what is read. Nothing else begins with its first line, so
that no signature under something else is one of these. It holds the sentences, and the file by its hash, so
that neither can be exchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pabi.numbers.encoding import parse_json
from pabi.numbers.errors import InvalidInput, extra, must_be, require
from pabi.numbers.locking import only_name

FORMAT, VERSION = "pabi.signatures", 1
SUFFIX = ".sig"
Role = Literal["officer", "engineer", "publisher"]
ROLES: tuple[Role, ...] = ("officer", "engineer", "publisher")
MOST = 1 << 22  # bytes of a file of statements
_MOST_STATEMENTS = 64
_LONGEST_NAME = 200
_KEY, _SIGNATURE = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{128}")
_TEXT = re.compile(
    r"pabi\.statement 1\n"
    r"file sha256 ([0-9a-f]{64})\n"
    r"name ([^\n]+)\n"
    rf"role ({'|'.join(ROLES)})\n"
    r"date ([0-9]{4}-[0-9]{2}-[0-9]{2})\n"
    r"((?:sentence [^\n]+\n)*)"
)


@dataclass(frozen=True)
class Statement:
    """What somebody says of a file.

    `sha256`: of the file's bytes. `sentences`: those that the person attests, none of a publisher.
    """

    sha256: str
    name: str
    role: Role
    date: str
    sentences: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text that is signed."""
        lines = (
            "pabi.statement 1",
            f"file sha256 {self.sha256}",
            f"name {self.name}",
            f"role {self.role}",
            f"date {self.date}",
            *(f"sentence {sentence}" for sentence in self.sentences),
        )
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Signed:
    """A statement with the key under it. `key`, `signature`: in hexadecimal digits; None where it was typed.

    `trouble`: why it counts for nothing, None where it counts.
    """

    statement: Statement
    key: str | None = None
    signature: str | None = None
    trouble: str | None = None

    @property
    def standing(self) -> str:
        """What stands behind the name, in words."""
        if self.trouble is not None:
            return f"NOT VALID: {self.trouble}"
        if self.key is None:
            return "typed, not signed: anybody can have written this"
        return f"signed with the key {self.key}"


def digest(raw: bytes) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    return hashlib.sha256(raw).hexdigest()


def stated(raw: bytes, name: str, role: str, sentences: Sequence[str]) -> Statement:
    """A statement of today about the file with these bytes. Raises InvalidInput."""
    must_be(role in ROLES, "--role", f"one of {', '.join(ROLES)}", role)
    name = name.strip()
    fits = 0 < len(name) <= _LONGEST_NAME and name.isprintable()
    must_be(fits, "--name", f"a name of at most {_LONGEST_NAME} letters in one line", name)
    for sentence in sentences:
        must_be(sentence.isprintable(), "sentence", "one line of printable text", sentence)
    today = datetime.now(UTC).date().isoformat()
    own: Role = next(one for one in ROLES if one == role)
    return Statement(digest(raw), name, own, today, tuple(sentences))


def read_statement(text: str) -> Statement:
    """The statement in a text that was signed. Raises InvalidInput for any other text."""
    match = _TEXT.fullmatch(text)
    require(
        match is not None and text.replace("\n", "").isprintable(),
        "statement",
        "expected a statement of pabi, of version 1",
    )
    assert match is not None
    sha256, name, role, date, lines = match.groups()
    sentences = tuple(line.removeprefix("sentence ") for line in lines.splitlines())
    own: Role = next(one for one in ROLES if one == role)
    return Statement(sha256, name, own, date, sentences)


# The file of statements.


def signatures_text(signed: Sequence[Signed]) -> str:
    """The text of the file that holds these."""
    rows: list[dict[str, str | None]] = [
        {"statement": one.statement.text, "key": one.key, "signature": one.signature}
        if one.key
        else {"statement": one.statement.text}
        for one in signed
    ]
    table = {"format": FORMAT, "version": VERSION, "statements": rows}
    return json.dumps(table, ensure_ascii=False, indent=1) + "\n"


def read_signatures(text: str, raw: bytes) -> tuple[Signed, ...]:
    """The statements in the text of such a file, each with why it counts for nothing, if it does.

    `raw`: the bytes of the file that they are about. Raises InvalidInput for what is no such text.
    """
    table = parse_json(text)
    ours = isinstance(table, dict) and table.get("format") == FORMAT
    require(ours, "format", f"expected {FORMAT!r}")
    must_be(table.get("version") == VERSION, "version", str(VERSION), table.get("version"))
    require(set(table) == {"format", "version", "statements"}, "signatures", "unknown keys")
    rows = table["statements"]
    require(
        isinstance(rows, list) and len(rows) <= _MOST_STATEMENTS,
        "statements",
        f"expected a list of at most {_MOST_STATEMENTS}",
    )
    return tuple(_read_row(row, digest(raw)) for row in rows)


def _read_row(row: Any, sha256: str) -> Signed:
    keys = set(row) if isinstance(row, dict) else set()
    whole = keys in ({"statement"}, {"statement", "key", "signature"})
    require(
        whole and all(isinstance(value, str) for value in row.values()),
        "statements",
        "expected a statement, or a statement, a key and a signature, as texts",
    )
    statement, key, signature = (
        read_statement(row["statement"]),
        row.get("key"),
        row.get("signature"),
    )
    if key is not None:
        must_be(_KEY.fullmatch(key), "key", "64 hexadecimal digits", key)
        must_be(_SIGNATURE.fullmatch(signature), "signature", "128 hexadecimal digits", signature)
    return Signed(statement, key, signature, _trouble(statement, key, signature, sha256))


def _trouble(
    statement: Statement, key: str | None, signature: str | None, sha256: str
) -> str | None:
    if statement.sha256 != sha256:
        return "it is about another file, or the file was changed"
    if key is None or signature is None:
        return None
    if not _verified(bytes.fromhex(key), bytes.fromhex(signature), statement.text.encode()):
        return "the signature is not one of this statement by this key"
    return None


# Keys. A private one is a file in PEM (PKCS #8), as other tools write them; a public one its 32 bytes as 64
# hexadecimal digits, which can be read out over the telephone.


def _ed25519() -> Any:
    return extra("cryptography.hazmat.primitives.asymmetric.ed25519", "sign")


def _serialization() -> Any:
    return extra("cryptography.hazmat.primitives.serialization", "sign")


def _verified(key: bytes, signature: bytes, message: bytes) -> bool:
    public = _ed25519().Ed25519PublicKey.from_public_bytes(key)
    try:
        public.verify(signature, message)
    except extra("cryptography.exceptions", "sign").InvalidSignature:
        return False
    return True


def sign(statement: Statement, private: Any) -> Signed:
    """The statement with a signature of a private key of `read_private`."""
    return Signed(statement, public_of(private), private.sign(statement.text.encode()).hex())


def public_of(private: Any) -> str:
    """The public key of a private one, in hexadecimal digits."""
    digits: str = private.public_key().public_bytes_raw().hex()
    return digits


def read_private(raw: bytes, file: str) -> Any:
    """The private key in a file of PEM. Raises InvalidInput, which shows nothing of what stands in it."""
    expected = "expected a private Ed25519 key in PEM without a password, as of pabi sign --new-key"
    try:
        private = _serialization().load_pem_private_key(raw, None)
    except (ValueError, TypeError):
        raise InvalidInput(file, expected) from None
    except extra("cryptography.exceptions", "sign").UnsupportedAlgorithm:
        raise InvalidInput(file, expected) from None
    require(isinstance(private, _ed25519().Ed25519PrivateKey), file, expected)
    return private


def read_public(text: str, field: str) -> str:
    """The public key in a text: 64 hexadecimal digits. Raises InvalidInput."""
    digits = text.strip().lower()
    require(
        _KEY.fullmatch(digits),
        field,
        "expected a public key: 64 hexadecimal digits, or the file that pabi sign --new-key wrote them to",
    )
    return digits


def write_new_key(file: str) -> str:
    """Writes a new private key to `file`, which its owner alone can read, and the public one to `file`.pub.

    Returns the public key. Raises InvalidInput where one of the files is there already, or cannot be written.
    """
    encodings = _serialization()
    private = _ed25519().Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        encodings.Encoding.PEM, encodings.PrivateFormat.PKCS8, encodings.NoEncryption()
    )
    public = public_of(private)
    path = only_name(file)
    beside = path.with_name(f"{path.name}.pub")
    require(not beside.exists(), str(beside), "exists already: a key is never overwritten")
    _write_new(path, pem, 0o600)
    _write_new(beside, f"{public}\n".encode(), 0o644)
    return public


def _write_new(path: Path, raw: bytes, mode: int) -> None:
    """Writes a file that is not there yet, whole and synced."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise InvalidInput(str(path), "exists already: a key is never overwritten") from None
    except OSError as bad:
        raise InvalidInput(str(path), f"cannot be written: {bad.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as bad:
        with contextlib.suppress(OSError):
            path.unlink()
        raise InvalidInput(str(path), f"cannot be written: {bad.strerror}") from None
