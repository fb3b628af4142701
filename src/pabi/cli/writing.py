"""What the command line prints and writes: plain text, JSON, and files, all of them or none."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pabi.numbers import locking, showing
from pabi.numbers.errors import InvalidInput, extra, require
from pabi.numbers.showing import shown

if TYPE_CHECKING:
    from pabi.tradeoff import TradeOff
    from pabi.tradeoff.guarantee import Guarantee

# Files that commands write: all of them or none, and never over one that is there unless asked.


_LOCK = ".pabi-lock"


@contextlib.contextmanager
def partial_files(
    files: Sequence[str], force: bool, *, unlike: Sequence[str]
) -> Iterator[list[Path]]:
    """Paths to write to, which take the names in `files` all together, once nothing went wrong.

    `unlike`: files that are read.
    """
    paths = [locking.only_name(file) for file in files]  # an old model would stay behind a link
    for path in paths:
        require(path.parent.is_dir(), str(path), "expected a file in an existing folder")
    _refuse_existing(paths, force)
    used = [os.path.realpath(name) for name in (*unlike, *files)]
    require(
        len(set(used)) == len(used),
        "--out",
        "expected files of their own for all that is read or written",
    )
    # Names that nobody else has: the number of a process may be that of one which was killed before.
    parts = [path.with_name(f".{path.name}.{secrets.token_hex(4)}.part") for path in paths]
    try:
        for part in parts:
            part.touch(exist_ok=False)
        yield parts
        for part in parts:  # a loss of power must not leave a name without what it names
            _sync(part)
    except OSError as bad:
        _remove(parts)
        raise InvalidInput(
            " and ".join(files), f"cannot be written: {bad.strerror or bad}"
        ) from None
    except BaseException:
        _remove(parts)
        raise
    _name(parts, paths, force)


def _name(parts: Sequence[Path], paths: Sequence[Path], force: bool) -> None:
    """Gives complete files their names. What it took to make them may be spent: they are never removed.

    Raises InvalidInput, also where it was interrupted, which says what they are called then.
    """
    from pabi.budget.files import sync_folder

    folders = sorted({path.parent.resolve() for path in paths})
    try:
        with contextlib.ExitStack() as alone:
            for folder in folders:
                alone.enter_context(_locked(folder))
            _refuse_existing(paths, force)  # another command may have written them meanwhile
            for part, path in zip(parts, paths, strict=True):
                os.replace(part, path)
    except (OSError, InvalidInput, KeyboardInterrupt) as bad:
        names = " and ".join(str(part) for part in parts if part.exists())
        why = "interrupted" if isinstance(bad, KeyboardInterrupt) else bad
        raise InvalidInput(names, f"complete, and kept under this name: {why}") from None
    for folder in folders:
        sync_folder(folder)


def _remove(parts: Sequence[Path]) -> None:
    for part in parts:
        part.unlink(missing_ok=True)


def _refuse_existing(paths: Sequence[Path], force: bool) -> None:
    for path in paths:
        require(
            force or not path.exists(), str(path), "exists already: expected a new name, or --force"
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """No other command gives names in the folder meanwhile, where the system can lock.

    So files that belong together are never those of two commands.
    """
    lock = folder / _LOCK
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # disks that lock nothing
            held.enter_context(locking.alone(lock, folder.stat()))
            held.callback(lock.unlink, missing_ok=True)
        yield


def _sync(path: Path) -> None:
    """Makes what was written to a file survive a loss of power."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_LONGEST_LINE = 700


def one_line(text: object) -> str:
    """`text` without line breaks and control characters, shortened in the middle."""
    line = showing.one_line(text)
    if len(line) <= _LONGEST_LINE:
        return line
    half = _LONGEST_LINE // 2
    return f"{line[:half]} … {line[-half:]}"


def complain(kind: str, text: object) -> None:
    """Print one line to standard error: `kind`, such as "error", and `text`."""
    with contextlib.suppress(OSError):
        print(f"{kind}: {one_line(text)}", file=sys.stderr)


def emit(text: str) -> None:
    """Print to standard output; a reader that has left early is no error.

    A terminal gets no control characters: what a stranger's file names could command it.
    """
    text = text.rstrip("\n")
    if sys.stdout is not None and sys.stdout.isatty():
        text = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Or the interpreter complains when it flushes at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as bad:
        raise InvalidInput("standard output", f"cannot be written: {bad.strerror}") from None


def emit_json(value: dict[str, Any]) -> None:
    """Print `value` as JSON to standard output, in ASCII where its encoding is not UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    plain = not encoding.lower().replace("-", "").startswith("utf8")
    emit(json_text(value, plain))


def json_text(value: dict[str, Any], plain: bool = False) -> str:
    """`value` as JSON; `plain`: in ASCII only."""
    return json.dumps(_json_ready(value), ensure_ascii=plain, allow_nan=False)


def reading(guarantee: Guarantee, epsilon: float, delta: float, **notes: Any) -> dict[str, Any]:
    """A guarantee with its certificate, what it says at one δ, and notes beside it."""
    from pabi.tradeoff.certificate import stamp

    table = guarantee.to_dict(certificate=True)
    table["notes"] = table.get("notes", {}) | notes | {"written": stamp()}
    return table | {"epsilon": epsilon, "delta": delta}


def write_model(model: Any, promised: Guarantee, delta: float, files: Sequence[Path]) -> Guarantee:
    """Writes a model and what is promised of it; returns the promise, with a note of the whole model."""
    from pabi.learn.pipelines import note_of_whole

    promised = promised.noting(note_of_whole(model))
    extra("skops.io", "train").dump(model, files[0])
    text = json_text(reading(promised, promised.epsilon(delta), delta))
    files[1].write_text(f"{text}\n", encoding="utf-8")
    return promised


def _json_ready(value: Any) -> Any:
    """`value` with infinities as "inf", which JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _json_ready(v) for k, v in value.items()}
    return [_json_ready(v) for v in value] if isinstance(value, (list, tuple)) else value


def basis(guarantee: Guarantee) -> list[str]:
    """Lines of what a reading means nothing without: adjacency and assumptions."""
    sentences = [f"  - {one_line(sentence)}" for sentence in guarantee.assumptions]
    return [f"adjacency    {guarantee.adjacency}", "assumptions", *(sentences or ["  (none)"])]


def origin(guarantee: Guarantee) -> list[str]:
    """Lines of what a guarantee is and rests on: μ, the method and its source. Raises InvalidInput."""
    return [
        f"mu           {shape(guarantee.curve)}",
        f"method       {guarantee.method}",
        f"source       {guarantee.source}",
    ]


def shape(curve: TradeOff) -> str:
    """μ of a Gaussian curve; of any other kind that there is none, and what it is. Raises InvalidInput."""
    from pabi.tradeoff import Best, Gaussian, Mixture, RenyiDP
    from pabi.tradeoff.certificate import curve_in_words
    from pabi.tradeoff.kinds import known_curve

    curve = known_curve(curve)
    if isinstance(curve, Best):
        return "none (the best of " + ", ".join(map(curve_in_words, curve.parts)) + ")"
    if isinstance(curve, Gaussian):
        return shown(curve.mu)
    if isinstance(curve, Mixture):
        mus = [part.mu for part in curve.parts]
        return f"none (a mixture of {len(mus)} Gaussians, mu from {shown(min(mus))} to {shown(max(mus))})"
    if isinstance(curve, RenyiDP):
        return f"none ({curve_in_words(curve)})"
    return f"none ({curve.kind})"
