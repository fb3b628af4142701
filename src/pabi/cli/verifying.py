"""`pabi verify` and `pabi sign`: what a certificate proves, of which model, and who stands behind it."""

from __future__ import annotations

import math
import os
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pabi.cli.predicting import read_skops
from pabi.cli.reading import (
    SIGNATURES,
    Seconds,
    notes_of,
    notes_text,
    read_bytes,
    read_delta,
    read_epsilon,
    read_text,
    required,
    stated_besides,
    stranger,
    text_of,
    verdict_on_text,
    within_seconds,
)
from pabi.cli.writing import emit, emit_json, one_line, partial_files, shape
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.showing import shown

if TYPE_CHECKING:
    from pabi.show.attesting import Signed
    from pabi.show.report import Source
    from pabi.tradeoff import TradeOff
    from pabi.verification import Verdict

_MODEL = "a model (skops, a state that torch saved, or arrays that numpy.savez did)"
_SCOPES = {
    "run": "run (slopes, sensitivities and noises derived again from the description)",
    "iteration": "iteration (arithmetic only; the steps are taken as stated)",
}


def verify(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A certificate, a guarantee, or what account --json prints; - is standard input.",
        ),
    ],
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon", metavar="E", help="Read delta at E; with --delta: is (E, D) implied?"
        ),
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="Read epsilon at this delta.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="FILE",
            help="A model (skops, a state that torch saved, or arrays that numpy.savez did): is it the one "
            "whose SHA-256 the guarantee notes?",
        ),
    ] = None,
    signer: Annotated[
        str | None,
        typer.Option(
            "--signer",
            metavar="KEY",
            help="A public key, or its file: did its owner sign this very file (pabi sign)?",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Compose the stated epsilon of random batches once more, by other code than read it. Of "
            "full shuffles that takes minutes: state --seconds.",
        ),
    ] = False,
    seconds: Seconds = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Whether a certificate proves what it claims.

    It is checked without the code that found it, in exact and ball arithmetic.

    Exit 1 if it is refused, if the privacy asked for by --epsilon and --delta is not implied, if the model
    has other parameters, or if the key has not signed this file.

    \b
    Examples:
      pabi account run.toml --delta 1e-5 --json | pabi verify -
      pabi verify guarantee.json --epsilon 1 --delta 1e-5
      pabi verify guarantee.json --model model.skops
      pabi verify guarantee.json --model head.pt
      pabi verify guarantee.json --signer ada.key.pub
    """
    limit, at = read_epsilon(epsilon), read_delta(delta)
    raw = stranger(file)
    text = text_of(file, raw, "a certificate or guarantee (JSON)")
    signed = None if signer is None else by_signer(file, raw, signer)
    if model is not None:  # before what takes seconds
        require(os.path.exists(model), model, f"expected {_MODEL}: No such file or directory")
    with within_seconds(seconds) as limits:
        verdict, data, stated_at = verdict_on_text(file, text, again=again, **limits)
        if not verdict.ok:
            if as_json:
                emit_json({"ok": False, "reason": one_line(verdict.reason)})
            else:
                emit(f"verdict      refused: {one_line(verdict.reason)}")
            raise typer.Exit(1)
        reading = _reading(verdict, stated_at, limit, at)
        mu = "" if as_json else _mu(verdict)
    comparison = None if model is None else _compared(model, data)
    if as_json:
        by_key = {} if signed is None else _signers_table(signed)
        emit_json(_table(verdict, data, reading, comparison) | by_key)
    else:
        compared = [] if signed is None else _signers(signed, beside(file))
        compared += [] if comparison is None else comparison.lines
        emit("\n".join(_lines(verdict, data, reading, compared, mu)))
    if reading.met is False or (comparison is not None and not comparison.same) or signed == ():
        raise typer.Exit(1)


# What is proven at one δ.


@dataclass(frozen=True)
class _Reading:
    """A proven (ε, δ). `of_delta`: whether δ was read at ε. `limit`: the target, `met`: whether it is."""

    epsilon: float
    delta: float
    of_delta: bool = False
    limit: float | None = None
    met: bool | None = None

    @property
    def text(self) -> str:
        if self.of_delta:
            return f"delta {shown(self.delta)} at epsilon {self.epsilon!r}"
        return f"epsilon {shown(self.epsilon)} at delta {self.delta!r}"


def _reading(verdict: Verdict, stated_at: float, limit: float | None, at: float | None) -> _Reading:
    if limit is not None and at is None:
        return _Reading(limit, _proven(verdict).delta(limit), of_delta=True)
    default = stated_at if verdict.reading is None else verdict.reading[1]
    where = default if at is None else at
    cost = _epsilon_of(verdict, where)
    return _Reading(cost, where, limit=limit, met=None if limit is None else cost <= limit)


def _epsilon_of(verdict: Verdict, delta: float) -> float:
    """A proven ε at `delta`: as it is stated, where that is less than is read of the function."""
    stated, at = verdict.reading or (math.inf, None)
    read = _proven(verdict).epsilon(delta)
    return min(read, stated) if at == delta else read


def _proven(verdict: Verdict) -> TradeOff:
    """The trade-off function that the verdict's bounds prove."""
    from pabi.tradeoff import TradeOff
    from pabi.verification.bounds import best_curve

    return TradeOff.from_dict(best_curve(verdict.bounds))


# What is printed.


def _mu(verdict: Verdict) -> str:
    if verdict.product is not None and verdict.product.size > 1:
        return f"none (a product of {verdict.product.size} factors)"
    return shape(_proven(verdict))


def _lines(
    verdict: Verdict,
    data: dict[str, Any],
    reading: _Reading,
    compared: list[str],
    mu: str,
) -> list[str]:
    lines = [f"WARNING      {one_line(text)}" for text in _warnings(verdict, data)]
    lines.append("verdict      accepted: the certificate proves what it claims")
    if reading.met is not None:
        says = "implied: at most" if reading.met else "NOT implied: exceeds"
        lines.append(f"target       {says} epsilon {reading.limit!r} at delta {reading.delta!r}")
    lines += compared
    derived, listed = parted(verdict, data)
    lines += [
        f"proven       {reading.text}; mu {mu}",
        f"scope        {_SCOPES.get(verdict.scope or '', verdict.scope)}",
        f"adjacency    {verdict.adjacency}",
        "assumptions",
        *_sentences(derived),
        "assumptions that only the file's word adds",
        *_sentences(listed),
    ]
    if further := stated_besides(data, verdict):
        lines += ["assumptions that the guarantee adds to its certificate", *_sentences(further)]
    if notes := notes_of(data):
        lines += ["notes that the file adds, checked by nobody", *_sentences(notes_text(notes))]
    return lines


def _warnings(verdict: Verdict, data: dict[str, Any]) -> tuple[str, ...]:
    """The assumptions that tell of other uses of the same data, which no proof can cover; and whom alone the
    numbers protect."""
    from pabi.learn.plans import not_covered
    from pabi.tradeoff.guarantee import limits

    every = (*verdict.assumptions, *stated_besides(data, verdict))
    return (*not_covered(every), *(f"it protects {limit}" for limit in limits(every)))


def _sentences(texts: Any) -> list[str]:
    return [f"  - {one_line(text)}" for text in texts] or ["  (none)"]


def _table(
    verdict: Verdict, data: dict[str, Any], reading: _Reading, comparison: _Comparison | None
) -> dict[str, Any]:
    derived, listed = parted(verdict, data)
    target = {"epsilon": reading.limit, "delta": reading.delta, "implied": reading.met}
    return {
        "ok": True,
        "reason": verdict.reason,
        "warnings": list(_warnings(verdict, data)),
        "epsilon": reading.epsilon,
        "delta": reading.delta,
        "mu": verdict.mu,
        "scope": verdict.scope,
        "adjacency": verdict.adjacency,
        "unit": data.get("unit", "record"),
        "target": None if reading.met is None else target,
        "model": None if comparison is None else comparison.same,
        "compared": None if comparison is None else list(comparison.names),
        "assumptions": {
            "derived": derived,
            "listed": listed,
            "added": stated_besides(data, verdict),
        },
        "notes": notes_of(data),
    }


def parted(verdict: Verdict, data: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(assumptions that follow from the description, those that certificates merely list)."""
    from pabi.show.report import assumed

    named = assumed(data)
    every = verdict.assumptions
    return [a for a in every if a not in named], [a for a in every if a in named]


# Who signed.


def _signers(signed: tuple[Signed, ...], where: str) -> list[str]:
    """Who signed with the key, in lines."""
    if not signed:
        return [
            f"signer       NOT this key: it signed no statement about this very file in {where}"
        ]
    return [
        f"signer       this key, on {s.date}, as {s.role}, under the name {one_line(s.name)}; "
        f"attests {len(s.sentences)} sentence{'s' * (len(s.sentences) != 1)}"
        for s in (one.statement for one in signed)
    ]


def _signers_table(signed: tuple[Signed, ...]) -> dict[str, Any]:
    """The same for programs."""
    names = ("name", "role", "date", "sentences")
    return {"signed": [{name: getattr(s.statement, name) for name in names} for s in signed]}


# The model.


@dataclass(frozen=True)
class _Comparison:
    """Whether a model is the one that the notes speak of, and by which names of values.

    `whole`: whether all of it was compared, or what its steps release, as files of earlier versions have it.
    `state`: whether it is a state of PyTorch's, or arrays, without the code of its layers.
    """

    reason: str | None
    names: tuple[str, ...]
    whole: bool
    state: bool = False

    @property
    def same(self) -> bool:
        return self.reason is None

    @property
    def lines(self) -> list[str]:
        which = "the one" if self.same else f"NOT the one ({one_line(self.reason)}),"
        what = "all steps, settings and fitted values, and the guarantee"
        if self.state:
            what = "parameters and buffers; not the code of the layers"
        elif not self.whole:
            listed = ", ".join(self.names) or "released values"
            what = f"{listed}; not settings, nor steps that release nothing: an earlier pabi wrote the file"
        return [
            f"model        {which} whose SHA-256 the notes have",
            f"compared     {what}; this says nothing of how the model was trained",
        ]


def _compared(file: str, data: dict[str, Any]) -> _Comparison:
    """Whether the notes have the hash of a model; earlier versions noted those of what its steps release."""
    from pabi.tradeoff.certificate import SHA256, digest, models_in, releases_in

    notes = notes_of(data)
    hashes, models = [one[SHA256] for one in releases_in(notes) if SHA256 in one], models_in(notes)
    require(hashes, "--model", "expected a guarantee that notes a hash, this file has none")
    from pabi.learn.pipelines import guarantee_of, model_hash, released_by
    from pabi.show.report import tables_in

    if (state := _state_in(file)) is not None:
        return _compared_state(state, models)
    model = read_skops(
        file,
        lambda foreign: f"expected a model of pabi's types only, got {foreign}",
        lambda bad: f"expected {_MODEL}: {one_line(bad)}",
    )
    require(hasattr(model, "fit"), file, f"expected a fitted model, got a {type(model).__name__}")
    try:
        released = released_by(model)
        others = not Counter(map(digest, released)) <= Counter(map(str, hashes))
        # Refuses what learnt without one, and steps whose values are not those that were released.
        own = [] if others else [guarantee_of(model), *_of_forgetting(model)]
        whole = model_hash(model)
    except Exception as bad:  # of whatever kind: the file may be anything
        return _Comparison(str(bad), (), bool(models))
    names = tuple(sorted({one_line(name) for values in released for name in values}))
    reason = None
    if others:
        reason = "its released values are others"
    elif models and whole not in models:
        reason = "its steps, settings or fitted values are others"
    elif models and not any(one._payload in tables_in(data) for one in own if one.certificate):
        reason = "its own guarantee is another"
    return _Comparison(reason, names, bool(models))


def _state_in(file: str) -> Mapping[str, Any] | None:
    """What `torch.save` or `numpy.savez` wrote, by the names in the archive; None of other files.

    It is loaded without running anything. Raises InvalidInput.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    if any(part.filename.endswith("/data.pkl") for part in parts):
        from pabi.integrations.torch.training import read_state

        return read_state(file)
    if not parts or not all(part.filename.endswith(".npy") for part in parts):
        return None
    # A short file could fill memory.
    plain = all(part.compress_type == zipfile.ZIP_STORED for part in parts)
    require(plain, file, "expected arrays as numpy.savez writes them, not compressed")
    import numpy as np

    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, MemoryError, zipfile.BadZipFile) as bad:
        raise InvalidInput(file, f"expected {_MODEL}: {one_line(bad)}") from None


def _compared_state(state: Mapping[str, Any], models: list[str]) -> _Comparison:
    """Whether the notes have the hash of a state."""
    from pabi.learn.pipelines import model_hash

    require(
        models, "--model", "expected a guarantee that notes the hash of a whole model, got none"
    )
    same = model_hash(state) in models
    reason = None if same else "its parameters or buffers are others"
    return _Comparison(reason, tuple(sorted(map(one_line, state))), whole=True, state=True)


def _of_forgetting(model: Any) -> list[Any]:
    """The guarantee of the requests to forget, of a model that has one."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    guarantee = getattr(last, "unlearning_guarantee_", None)
    return [] if guarantee is None else [guarantee]


# `pabi sign`: who stands behind a guarantee, and what they attest; and what others read of it.


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
    from pabi.show import attesting

    private = None
    if key is not None:
        private = attesting.read_private(read_bytes(key, "a private key", _MOST_OF_A_KEY), key)
    raw = stranger(file)
    statement = attesting.stated(raw, name, role, _attested(file, raw, role, attest, seconds))
    before = source_of(file, raw).signed
    for one in before:
        require(
            one.trouble is None,
            beside(file),
            f"holds a statement that is not valid ({one.trouble}): expected this file to be moved away",
        )
    new = attesting.Signed(statement) if private is None else attesting.sign(statement, private)
    every = (*before, new)
    with partial_files((beside(file),), True, unlike=(file,)) as (part,):
        part.write_text(attesting.signatures_text(every), encoding="utf-8")
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
    must_be(whole, "--attest", f"all, or numbers from 1 to {most}", text)
    return int(text) - 1


# What was signed, for those who read it.


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
    every = source_of(file, raw).signed
    return tuple(one for one in every if one.key == digits and one.trouble is None)
