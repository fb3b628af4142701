"""`pabi sign`: who stands behind a guarantee, and what they attest; and what others read of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pabi.cli.reading import (
    SIGNATURES,
    Seconds,
    read_bytes,
    read_text,
    required,
    stranger,
    text_of,
    verdict_on_text,
    within_seconds,
)
from pabi.cli.writing import emit, one_line, partial_files
from pabi.numbers.errors import InvalidInput, require

if TYPE_CHECKING:
    from pabi.show.attesting import Signed
    from pabi.show.report import Source

_MOST_OF_A_KEY = 1 << 14  # bytes


def sign(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="A guarantee or certificate (JSON), as a file."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="N", help="Who signs. Required.")
    ] = None,
    role: Annotated[
        str,
        typer.Option("--role", metavar="R", help="officer, engineer or publisher."),
    ] = "publisher",
    attest: Annotated[
        list[str] | None,
        typer.Option(
            "--attest",
            metavar="K",
            help="The number of a sentence in the report, an officer's in part 1, an engineer's in part 2, "
            "or all. May be given several times.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="FILE", help="A private key (PEM). Without one a name is only typed."
        ),
    ] = None,
    new_key: Annotated[
        str | None,
        typer.Option(
            "--new-key", metavar="FILE", help="Make a private key, and FILE.pub beside it."
        ),
    ] = None,
    seconds: Seconds = None,
) -> None:
    """Sign a guarantee, and attest what it rests on.

    A statement is added to FILE.sig: the SHA-256 of the file, a name, a role, the date and the sentences that
    are attested, signed with Ed25519 where a key is given. pabi report shows them, pabi verify --signer
    checks them. The certificate is verified first. Exit 1 if it is refused: then nothing is signed.

    \b
    Examples:
      pabi sign --new-key ada.key
      pabi sign guarantee.json --name "Ada Lovelace" --role engineer --attest all --key ada.key
      pabi sign guarantee.json --name "Grace Hopper" --role officer --attest 1 --attest 2
      pabi verify guarantee.json --signer ada.key.pub
    """
    from pabi.show.attesting import write_new_key

    if new_key is not None:
        alone = file is None and name is None and not attest and key is None
        require(alone, "--new-key", "expected alone: it only makes a key")
        public = write_new_key(new_key)
        emit(f"private key  {new_key}: keep it, and show it to nobody\npublic key   {public}")
        return
    path = required("FILE", file)
    require(path != "-", "FILE", "expected a file: the statements are written beside it")
    signed = _signed(
        path, required("--name", name), role, attest=attest or [], key=key, seconds=seconds
    )
    one = signed[-1]
    count = len(one.statement.sentences)
    emit(
        f"statement    added to {beside(path)}, {len(signed)} in all\n"
        f"file         SHA-256 {one.statement.sha256}\n"
        f"attests      {count} sentence{'s' * (count != 1)}, as {one.statement.role}\n"
        f"standing     {one.standing}"
    )


def beside(file: str) -> str:
    """The name of the file with the statements about another."""
    from pabi.show.attesting import SUFFIX

    return f"{file}{SUFFIX}"


def _signed(
    file: str, name: str, role: str, *, attest: list[str], key: str | None, seconds: str | None
) -> tuple[Signed, ...]:
    """Adds a statement to those beside the file, and returns them all."""
    from pabi.show import attesting as signatures

    private = None
    if key is not None:
        private = signatures.read_private(read_bytes(key, "a private key", _MOST_OF_A_KEY), key)
    raw = stranger(file)
    statement = signatures.stated(raw, name, role, _attested(file, raw, role, attest, seconds))
    before = statements_beside(file, raw)
    for one in before:
        if one.trouble is not None:
            raise InvalidInput(
                beside(file),
                f"holds a statement that is not valid ({one.trouble}): expected this file to be moved away",
            )
    new = signatures.Signed(statement) if private is None else signatures.sign(statement, private)
    every = (*before, new)
    with partial_files((beside(file),), True, unlike=(file,)) as (part,):
        part.write_text(signatures.signatures_text(every), encoding="utf-8")
    return every


def _attested(
    file: str, raw: bytes, role: str, attest: list[str], seconds: str | None
) -> tuple[str, ...]:
    """The exact sentences that are attested, of a file whose proof is accepted."""
    from pabi.show.report import stated_in, tickable

    text = text_of(file, raw, "a certificate or guarantee (JSON)")
    with within_seconds(seconds) as limits:
        verdict, *_ = verdict_on_text(file, text, **limits)
        if not verdict.ok:
            emit(f"verdict      refused, and not signed: {one_line(verdict.reason)}")
            raise typer.Exit(1)
        guarantee = stated_in(text, verdict)
        assert guarantee is not None
        every = tickable(guarantee, verdict, role)
    if not attest:
        return ()
    require(every, "--role", "expected officer or engineer: a publisher attests no sentence")
    numbers = (
        range(len(every)) if attest == ["all"] else [_number(one, len(every)) for one in attest]
    )
    return tuple(dict.fromkeys(s for k in numbers for s in every[k].exact))


def _number(text: str, most: int) -> int:
    whole = text.isascii() and text.isdigit() and 1 <= int(text) <= most
    require(whole, "--attest", f"expected all, or numbers from 1 to {most}, got {text!r}")
    return int(text) - 1


# What was signed, for those who read it.


def statements_beside(file: str, raw: bytes) -> tuple[Signed, ...]:
    """The statements beside a file with these bytes; none where there is no such file."""
    return source_of(file, raw).signed


def source_of(file: str, raw: bytes) -> Source:
    """A file with these bytes, and the statements beside it. Raises InvalidInput for what are none."""
    from pabi.show.attesting import MOST, read_signatures
    from pabi.show.report import Source

    where = beside(file)
    if file == "-" or not os.path.lexists(where):
        return Source(raw)
    text = read_text(where, "statements about a file (JSON)", MOST, kinds=(SIGNATURES,))
    try:
        return Source(raw, read_signatures(text, raw), text)
    except InvalidInput as bad:
        raise InvalidInput(where, f"expected statements about a file: {bad}") from None


def by_signer(file: str, raw: bytes, signer: str) -> tuple[Signed, ...]:
    """The valid statements about a file that were signed with a public key, given as digits or as a file."""
    from pabi.show.attesting import read_public

    # Digits are a key whatever lies here under their name: a folder may be somebody else's.
    try:
        digits = read_public(signer, "--signer")
    except InvalidInput:
        if not Path(signer).is_file():
            raise
        digits = read_public(read_text(signer, "a public key", _MOST_OF_A_KEY), "--signer")
    require(file != "-", "--signer", "expected a file: the statements are read beside it")
    every = statements_beside(file, raw)
    return tuple(one for one in every if one.key == digits and one.trouble is None)
