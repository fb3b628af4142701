"""Who stands behind a guarantee: the sentences that it rests on, and signed statements about its file.

A sentence is known by how it begins. One that is not known here stands as it is, and is attested by the
person who runs the training: whoever adds a sentence need not come here to be safe.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from pabi.execute.engine import CLIPS_ITSELF
from pabi.numbers.encoding import parse_json
from pabi.numbers.errors import InvalidInput, extra, must_be, require
from pabi.numbers.locking import only_name

# The sentences, for people: in plain words, and who stands behind each.


class Attests(Enum):
    """Who stands behind an assumption."""

    ACCOUNTANT = "the accountant: it says what was proven, or follows from the description"
    TRAINER = "pabi, where pabi executes the run; otherwise the person who runs it"
    PERSON = "the person who runs it"


# Beginnings of sentences, as regular expressions, with what they mean. The first that fits counts.
_PLAIN: dict[Attests, tuple[tuple[str, str], ...]] = {
    Attests.ACCOUNTANT: (
        (
            "adjacent data sets differ in",
            "Two data sets are compared that differ in what is protected, and in nothing else.",
        ),
        (
            "the model is compared with one retrained",
            "This model is compared with one that never saw the forgotten records.",
        ),
        ("every iterate may be released", "The models on the way may be published, too."),
        ("the whole path may be released", "The whole path may be published, too."),
    ),
    Attests.TRAINER: (
        (
            "one permutation is drawn uniformly",
            "The records were shuffled once, at random, and nobody knows their order.",
        ),
        (
            "a fresh permutation is drawn uniformly",
            "The records were shuffled at random before every pass, and nobody knows their orders.",
        ),
        (
            "every step draws its batch uniformly",
            "Every step drew its records at random, so many each time, and nobody knows which.",
        ),
        (
            "every step includes each record independently",
            "Every step drew each record by a coin of its own, and nobody knows which were drawn.",
        ),
        (
            "every record is put into one of the batches",
            "Each record was put into one batch at random, and nobody knows into which.",
        ),
        ("every step uses all records", "Every step used all records."),
        ("a batch of more than", "A batch that came out too large was left out as a whole."),
        (
            "every batch sum of gradients",
            "What a batch adds up to was divided by the stated number, however many records it had.",
        ),
        (
            "noise on the accuracy is Gaussian",
            "Fresh noise of the stated size was added to every accuracy, and nobody knows it.",
        ),
        (
            "noise is Gaussian",
            "Fresh noise of the stated size was added every time. Nobody knows it, nor its seed.",
        ),
        (
            "each step depends on the data only through",
            "The data came into the training through sums with noise, and in no other way.",
        ),
        (
            "each record's gradient is clipped|each record's loss is clipped convexly",
            "What one record adds to a step was cut to the stated size.",
        ),
        (
            "each record's gradient has norm at most",
            "One record adds no more to a step than the stated size.",
        ),
        (
            "each record's vector has norm at most",
            "No record has features that are longer, as a vector, than stated.",
        ),
        ("the regulariser ", "The regulariser, a pull towards zero, was applied as stated."),
        (
            "the number of trials is drawn in secret",
            "How many trials there were was drawn at random, and nobody knows it.",
        ),
        (
            "every trial draws one of",
            "Every trial drew its settings at random, each with the same chance.",
        ),
        (
            "which records train and which records score",
            "No record was used both to train and to score, and the data did not decide which.",
        ),
        (
            "nothing but the noisy",
            "Of sums and accuracies nothing left the computation but the values with noise.",
        ),
        ("the last ", "The last steps did not look at the data."),
        (
            "the ledger refused every release",
            "A ledger refused whatever would have cost more than the budget.",
        ),
    ),
    Attests.PERSON: (
        (
            "only the last iterate is released",
            "Only the final model is given away: no earlier version, no checkpoint, no loss curve.",
        ),
        ("only the point at the end is released", "Only the end of the path is given away."),
        (
            "the partition into batches and their order do not depend",
            "Nobody looked at the data to decide which records come together, and in what order.",
        ),
        (
            "the starting point, ",
            "Where the training starts, and all settings, were chosen without looking at these data.",
        ),
        (
            "each record's loss \\(",
            "The loss function is the stated one, and curves no more and no less than stated.",
        ),
        (
            "the proximal map ",
            "What is done to the model after each step brings no two models further apart, and does not look "
            "at the data.",
        ),
        (
            "the range of ",
            "What is done to the model after each step keeps it within the stated size.",
        ),
        (
            "draws are exact",
            "The draws are exact. What they are off by is not part of the numbers.",
        ),
        (
            "nothing but the draw is released|nothing but the rounds' draws is released",
            "Only the draw is given away: not how long it took, nor how many attempts.",
        ),
        (
            "the draw is from a convex set|the first set is convex",
            "The draw is from the stated set, which was fixed without looking at the data.",
        ),
        (
            "the first \\d+ records are used by the rounds",
            "Which records are used when was fixed beforehand, and does not depend on the data.",
        ),
        (
            "the \\d+ chains use independent noise",
            "The chains had noise of their own each, and no other chain is given away.",
        ),
        (
            "the releases are computed with independent noise",
            "The releases that are counted together had noise and orders of their own each.",
        ),
        ("the diffusion is followed exactly", "The path is followed exactly, not in steps."),
        (
            "the diffusion is reflected|every map ends in a nonexpansive map|any two iterates are at most",
            "No model on the way lies further away than stated.",
        ),
        (
            "the mean loss includes the regulariser",
            "The regulariser, a pull towards zero, is part of the loss.",
        ),
        (
            "moduli of continuity",
            "The numbers of every step are true as they stand in the file: nothing derives them.",
        ),
        (
            "the gradients of two adjacent|one record moves a batch's gradient sum",
            "One record changes a step by no more than stated.",
        ),
        (
            "preprocessing used no private data, or through",
            "What was done to the data beforehand did not look at private records, or is counted here.",
        ),
        (
            "preprocessing used no private data",
            "What was done to the data beforehand did not look at private records.",
        ),
        (
            "every release is one fit|one fit;",
            "This counts one training. Other trainings on these data, and searches, cost extra.",
        ),
        (
            "the label set is public",
            "Which labels there are was known without looking at the data.",
        ),
        (
            "the starting points are at most",
            "The starting points lie no further apart than stated.",
        ),
        (
            "the (record|user) is one of batch",
            "This speaks of the records of one batch only. Nobody else is protected by these numbers.",
        ),
        (
            "every record has one label",
            "A record's label and features stayed the same during the training.",
        ),
        ("its gradients g satisfy", "Far out the loss pulls back as stated."),
        (
            "the number of (records|users) and",
            "How many there are, and all settings, may be known: nobody looked at the data to choose them.",
        ),
        (
            "n and batches count enrolled users|n counts enrolled users",
            "Everything counts people, not rows. How many people enrolled may be known.",
        ),
        ("each of the \\d+", "Each one that is scored adds one hit or none."),
        (
            "at most \\d+ times a column|each record adds x and",
            "What one record, or one user, adds to the numbers of a column is limited as stated.",
        ),
        (
            "nothing but these noisy numbers",
            "Of the columns nothing is given away but these numbers with noise.",
        ),
        (
            "each record has one level in each column",
            "A level is shown only where enough records have it, by a count with noise.",
        ),
        (
            "the order in which levels are shown",
            "The order in which levels are shown says nothing of the data.",
        ),
        (
            "every release from the same data was entered",
            "Whatever was computed from these data was entered in one ledger before.",
        ),
        (
            "the features are centred without the data",
            "The features were centred by numbers that were known without looking at the data.",
        ),
        (
            "the trials are independent runs",
            "The trials were independent, and the best was found by what they gave away alone.",
        ),
        (
            "only the best trial is released",
            "Only the best trial is given away: not the others, nor their number or their times.",
        ),
        (
            "the model is looked at by itself",
            "Whoever has this model has no earlier version of it.",
        ),
        (
            "which (records|users) are forgotten, and when",
            "Nobody asked to be forgotten because of what an earlier model showed.",
        ),
        (
            "learning takes|request \\d+ withdraws|the later steps go on",
            "The training, the requests and the steps after them were as stated.",
        ),
        (
            "every model handed out before may be known",
            "Earlier models that were handed out may be known, but no step between them.",
        ),
        (
            "all parts of an interrupted run",
            "After an interruption the same records were used, and nothing of the checkpoints got out.",
        ),
        (
            "clipped_gradient_sum",
            "The program's own function limits what one record adds to a step.",
        ),
        (
            "gradients are computed to within",
            "The computer follows each step to within a stated, tiny distance.",
        ),
        (
            "the rounding of steps, which nothing bounds",
            "What a computer rounds tells nobody anything. Nothing bounds that here.",
        ),
        (
            "the device multiplies and adds doubles",
            "The processor computes as its standard says, and the same from the same numbers.",
        ),
        (
            "what the module holds and does not train",
            "The parts of the network that are not trained were not made from these records.",
        ),
        (
            "what the dataset, the module and the loss make of a record|per_record_gradients, or",
            "What the program makes of a record depends on that record alone, and it keeps nothing of it.",
        ),
        (
            "gradient returns that of the mean loss",
            "The program's own gradient is that of the stated loss.",
        ),
        (
            "loss_value returns the mean loss",
            "The program's own loss is the stated one, averaged over as many records as stated.",
        ),
        (
            "the mean loss changes by at most",
            "The loss is nowhere steeper than stated, whatever the data.",
        ),
        (
            "the mechanism ",
            "Somebody states how private this is. Nothing derives it, and nobody can check it.",
        ),
    ),
}
_RULES = [
    (re.compile(beginning), who, plain) for who, rows in _PLAIN.items() for beginning, plain in rows
]
_STEPS_AS_STATED = "moduli of continuity (slopes), step sensitivities and noises are as stated"
_CLIPPING = ("each record's gradient", "each record's loss is clipped", "every batch sum")

# What a sentence says has to stay hidden, by a part of it.
_HIDDEN: tuple[tuple[str, str], ...] = (
    (
        "no model handed out before it, and no earlier iterate, is known",
        "every earlier model and iterate, and what was computed from them: checkpoints, training losses, "
        "gradients",
    ),
    (
        "no iterate in between is",
        "every iterate between the models that were handed out, and what was computed from it",
    ),
    (
        "every earlier iterate stays hidden",
        "every iterate but the last, and what was computed from it: checkpoints, training losses, gradients",
    ),
    ("the path before it stays hidden", "the path before its end, and what was computed from it"),
    ("stays secret", "the order of the records: which of them was in which batch"),
    ("stay secret", "the batches: which record was drawn when"),
    ("never revealed", "the noise, and every seed or state of the generator it was drawn from"),
    (
        "no normalising constant, cost or number of attempts",
        "normalising constants, costs and the number of attempts of the sampler",
    ),
    (
        "the number of trials, their times and all others stay hidden",
        "every trial but the best, their number and how long they took",
    ),
    ("no others are released", "every other draw"),
    ("nothing but the noisy sum", "the sum without noise"),
    ("nothing but the noisy accuracy", "the accuracy without noise"),
    ("checkpoints is released", "checkpoints of the interrupted run"),
)


def attesting(sentence: str, every: Sequence[str]) -> Attests:
    """Who stands behind a sentence of a guarantee that rests on `every` one of these."""
    if sentence.startswith(_CLIPPING) and CLIPS_ITSELF in every:
        return Attests.PERSON
    if any(s.startswith(_STEPS_AS_STATED) for s in every) and sentence.startswith("noise"):
        return Attests.PERSON
    return _rule(sentence)[0]


def plain(sentence: str) -> str:
    """What a sentence means, without a term of the field; the sentence itself where that is not known."""
    return _rule(sentence)[1]


def _rule(sentence: str) -> tuple[Attests, str]:
    fitting = ((who, words) for beginning, who, words in _RULES if beginning.match(sentence))
    return next(fitting, (Attests.PERSON, sentence))


def hidden(sentences: Sequence[str]) -> tuple[str, ...]:
    """What must stay hidden for these sentences to be true."""
    return tuple(what for part, what in _HIDDEN if any(part in s for s in sentences))


@dataclass(frozen=True)
class Attestable:
    """Sentences that mean the same in plain words, and have the same people behind them.

    `own`: whether only the word of the file adds them, as no description implies them.
    """

    text: str
    exact: tuple[str, ...]
    who: Attests
    own: bool = False


def points(every: Sequence[str], own: Iterable[str] = ()) -> tuple[Attestable, ...]:
    """All sentences of a guarantee, in their order. `own`: those that only the word of the file adds."""
    added = set(own)
    groups: dict[tuple[str, Attests, bool], list[str]] = {}
    for sentence in dict.fromkeys(every):
        key = plain(sentence), attesting(sentence, every), sentence in added
        groups.setdefault(key, []).append(sentence)
    return tuple(
        Attestable(text, tuple(exact), who, alone) for (text, who, alone), exact in groups.items()
    )


# Sentences that differ in one number as one sentence: what differs between settings or releases.


_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def folded(sentences: Sequence[str]) -> tuple[str, ...]:
    """The sentences in their order, those that differ in one number alone joined where the first one stands.

    The numbers of a joined sentence stand ascending, as "2, 3 or 5".
    """
    alike: dict[str, list[str]] = {}
    for sentence in sentences:
        alike.setdefault(_NUMBER.sub("#", sentence), []).append(sentence)
    return tuple(text for group in alike.values() for text in _joined(group))


def _joined(group: list[str]) -> list[str]:
    """One sentence where the group differs at one place, otherwise the group."""
    columns = list(zip(*map(_NUMBER.findall, group), strict=True))
    different = [place for place, values in enumerate(columns) if len(set(values)) > 1]
    if len(different) != 1:
        return group
    (place,) = different
    *others, last = sorted(columns[place], key=float)
    values = f"{', '.join(others)} or {last}"
    start, end = [match.span() for match in _NUMBER.finditer(group[0])][place]
    return [group[0][:start] + values + group[0][end:]]


# Statements about the bytes of a file, and signatures under them.


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
    return str(private.public_key().public_bytes_raw().hex())


def read_private(raw: bytes, file: str) -> Any:
    """The private key in a file of PEM. Raises InvalidInput, which shows nothing of what stands in it."""
    expected = "expected a private Ed25519 key in PEM without a password, as of pabi sign --new-key"
    try:
        private = _serialization().load_pem_private_key(raw, None)
    except (ValueError, TypeError, extra("cryptography.exceptions", "sign").UnsupportedAlgorithm):
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
