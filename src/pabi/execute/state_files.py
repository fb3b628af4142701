"""The file of a secret state: encrypted with the holder's key, and at any moment the old one or the new one.

ChaCha20-Poly1305 of the package `cryptography`, with a key and a nonce for every writing that HKDF-SHA256
derives from the holder's key and fresh random salt. What is not encrypted, the format and the salt, is
authenticated with the rest: a byte that changed is noticed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pabi.budget.ledger import Ledger, entries_noting, name_of
from pabi.execute.checkpoint import write_secret
from pabi.execute.hiding import unseen
from pabi.execute.states import FORMAT, ForgottenRequest, SecretState, read_state, written
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra, require
from pabi.numbers.locking import fcntl, only_name
from pabi.tradeoff.guarantee import Guarantee

KEY_BYTES = 32
_SALT, _NONCE = 32, 12  # bytes
_NAMES = 100  # characters: two names, and room
_BEGINNING, _LINE = b"pabi.state.", f"{FORMAT}\n".encode()


@dataclass(frozen=True, repr=False)
class StateFile:
    """A file that keeps what forgetting records later takes: `fit(…, keep_state=…)` writes it.

    It holds the hidden iterate, the secret order of the records and what was forgotten so far. Whoever reads
    it knows more of the records than any guarantee allows. So it is encrypted, and readable by its owner
    only. Keep the key elsewhere: who has both has the secrets. Neither belongs into backups that outlive the
    records.

    Parameters
    ----------
    path : path
        The file. Next to it are written `.NAME.lock`, which keeps processes apart and tells the last state
        from older copies, and, for a moment, `.NAME.partial`. A file that has
        several names (hard links) is refused.
    key : bytes, 32 of them
        A secret from a good source of randomness, such as `StateFile.new_key()`.
    note : str
        A text that is kept with the state, encrypted as well.

    Raises
    ------
    InvalidInput
        For a `key` that is not 32 bytes, and where the package `cryptography` is missing (extra `forget`).

    References
    ----------
    docs, "Forget records".
    """

    path: str | os.PathLike[str]
    key: bytes
    note: str = ""

    def __post_init__(self) -> None:
        require(
            isinstance(self.key, bytes) and len(self.key) == KEY_BYTES,
            "key",
            f"expected {KEY_BYTES} bytes, as of StateFile.new_key()",
        )
        validate.instance("note", self.note, str, "a text")
        extra("cryptography", "forget")

    @staticmethod
    def new_key() -> bytes:
        """A key from the operating system's entropy.

        Returns
        -------
        bytes
            32 of them.
        """
        return os.urandom(KEY_BYTES)

    def requests(self) -> tuple[ForgottenRequest, ...]:
        """The log: every request that was met, in order.

        Returns
        -------
        tuple of ForgottenRequest
            Rows, time, steps and guarantee of each.

        Raises
        ------
        InvalidInput
            For a file that cannot be read with this key.
        """
        return state_in(self).log

    def __repr__(self) -> str:
        return f"StateFile({os.fspath(self.path)!r})"


def refuse_existing(file: StateFile) -> None:
    """Raises InvalidInput where a file is in the way: it may be the only copy of a state."""
    require(
        not Path(file.path).exists(),
        "keep_state",
        f"{file.path} exists: give another name, or remove it to start over",
    )


def state_in(file: StateFile) -> SecretState:
    """The state. Raises InvalidInput for a wrong key, a changed file, another version, and for one that is
    not the last that was written here."""

    def read() -> SecretState:
        before = _names(file)
        state = read_state(_decrypted(file, _content(file)))
        after = _names(file)  # another process may have written in between
        if after and state.turn not in (*before, *after):
            raise InvalidInput(
                "state",
                f"{file.path} is not the state that was written here last: an older copy, or one of another "
                f"model; if it is the one you want, remove {_beside(file)}",
            )
        return state

    return unseen(read)


def write_state(file: StateFile, state: SecretState, before: SecretState | None = None) -> None:
    """Writes `state`, in one step, in the place of the one `before`. Raises InvalidInput; the file is then
    as it was."""
    try:
        content = _encrypted(file.key, written(state))
        # Either may be in the file if this process ends in between.
        _note_names(file, *([] if before is None else [before.turn]), state.turn)
        write_secret(only_name(file.path), content)
    except OSError as bad:
        raise InvalidInput("state", f"cannot write {file.path}: {bad.strerror}") from None
    with contextlib.suppress(OSError):
        _note_names(file, state.turn)


def _beside(file: StateFile) -> Path:
    """The file that keeps processes apart, and the names of the states that may have been written last."""
    path = only_name(file.path)
    return path.with_name(f".{path.name}.lock")


def _names(file: StateFile) -> tuple[str, ...]:
    """The names of the states that may have been written last; none where nobody noted them."""
    try:
        words = _beside(file).read_bytes().split()
    except OSError:
        return ()
    return tuple(word.decode("ascii", "replace") for word in words)


def _note_names(file: StateFile, *names: str) -> None:
    """Notes them, such that they survive a loss of power. Raises OSError."""
    handle = os.open(_beside(file), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Over what is there, in one piece: a crash must not leave none of them.
        os.pwrite(handle, f"{' '.join(names):<{_NAMES}}\n".encode(), 0)
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(file: StateFile) -> Iterator[None]:
    """Nobody else changes the state meanwhile. Raises InvalidInput where somebody is at it."""
    if fcntl is None:  # two processes at once are not kept apart there
        yield
        return
    try:
        lock = os.open(_beside(file), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as bad:
        raise InvalidInput("state", f"cannot lock {file.path}: {bad.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidInput(
                "state", f"another process is at work on {file.path}: wait for it"
            ) from None
        yield
    finally:
        os.close(lock)


def _content(file: StateFile) -> bytes:
    try:
        return only_name(file.path).read_bytes()
    except OSError as bad:
        raise InvalidInput("state", f"cannot read {file.path}: {bad.strerror}") from None


def _encrypted(key: bytes, content: bytes) -> bytes:
    salt = os.urandom(_SALT)
    cipher, nonce = _cipher(key, salt)
    head = _LINE + salt
    return head + bytes(cipher.encrypt(nonce, content, head))


def _decrypted(file: StateFile, content: bytes) -> bytes:
    require(content.startswith(_BEGINNING), "state", f"{file.path} is not a state of pabi")
    require(
        content.startswith(_LINE),
        "state",
        f"{file.path} is of another version: this one reads {FORMAT}",
    )
    head, rest = content[: len(_LINE) + _SALT], content[len(_LINE) + _SALT :]
    cipher, nonce = _cipher(file.key, head[len(_LINE) :])
    try:
        return bytes(cipher.decrypt(nonce, rest, head))
    except extra("cryptography.exceptions", "forget").InvalidTag:
        raise InvalidInput(
            "key", f"it does not open {file.path}: another key, or the file was changed"
        ) from None


def _cipher(key: bytes, salt: bytes) -> tuple[Any, bytes]:
    """(the cipher, the nonce) of one writing."""
    aead = extra("cryptography.hazmat.primitives.ciphers.aead", "forget")
    kdf = extra("cryptography.hazmat.primitives.kdf.hkdf", "forget")
    hashes = extra("cryptography.hazmat.primitives.hashes", "forget")
    derived = kdf.HKDF(hashes.SHA256(), KEY_BYTES + _NONCE, salt, _LINE).derive(key)
    return aead.ChaCha20Poly1305(derived[:KEY_BYTES]), derived[KEY_BYTES:]


# Which state is the last one: every state that is written has a random name, and who keeps the names of
# what was written last can tell it from older copies, and from states of other models.
#
# A ledger keeps them, in the notes of the releases that it grants: it tells wherever the file lies.
# Without one the file beside the state does, which is lost with the folder.


_NOTE = "state"  # the key under the notes of an entry


def first_name(ledger: Ledger | None) -> dict[str, Any]:
    """The facts of the first state of a model: its name, and the ledger that knows it."""
    turn = os.urandom(16).hex()
    return {"first": turn, "turn": turn, "ledger": None if ledger is None else name_of(ledger)}


def named_after(state: SecretState, ledger: Ledger | None) -> dict[str, Any]:
    """The facts of the state that takes the place of another; `ledger`: which it is entered in."""
    turn = os.urandom(16).hex()
    owner = state.facts.get("ledger") if ledger is None else name_of(ledger)
    return {"first": state.facts.get("first", turn), "turn": turn, "ledger": owner}


def noted_name(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the entry of a ledger notes of the state that is written after it was granted."""
    return {_NOTE: {name: facts[name] for name in ("first", "turn")}}


def refuse_stale(state: SecretState, ledger: Ledger | None) -> None:
    """Raises InvalidInput unless the ledger that the state was entered in, if any, knows it as the last one.

    One whose release was granted and not committed may have been written or not: either state may be the
    last one then.
    """
    owner = state.facts.get("ledger")
    if owner is None:
        return
    if ledger is None or name_of(ledger) != owner:
        raise InvalidInput(
            "ledger", "expected that of the fit: it tells the last state from older ones"
        )
    possible: list[str] = []
    for note, committed in entries_noting(ledger, _NOTE):
        if isinstance(note, dict) and note.get("first") == state.facts["first"]:
            possible = [*([] if committed else possible), str(note.get("turn"))]
    require(
        state.turn in possible,
        "state",
        "the ledger knows a later one: this is an older copy, or one of another model",
    )


class Keeping(NamedTuple):
    """What becomes of the state of a fit: what `write` does with it, and what it notes beside."""

    write: Callable[[SecretState], None]
    facts: Mapping[str, Any]


def kept_in(state: StateFile, ledger: Ledger | None) -> Keeping:
    """The first state of a model is written to this file."""
    facts = {"note": state.note, **first_name(ledger)}
    return Keeping(lambda secret: write_state(state, secret), facts)


def noting_state(guarantee: Guarantee, keeping: Keeping | None) -> Guarantee:
    """What a ledger enters of a fit, with the name of the state that it leaves."""
    return guarantee if keeping is None else guarantee.noting(noted_name(keeping.facts))
