"""Doing the pieces of work: each once, in parallel, and never again while its description stays the same."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pabi
from pabi.literature.papers import work
from pabi.literature.papers.artefact import Part


def run_parts(
    parts: Iterable[Part],
    folder: Path,
    jobs: int = 1,
    fresh: bool = False,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The results of `parts` by `key`.

    `folder`: of earlier results, one file a part, which are not read with `fresh`.
    """
    missing = {key(part): part for part in parts}
    results: dict[str, Any] = {}

    def take(name: str, result: Any) -> None:
        results[name] = result
        advance()

    for name in [] if fresh else list(missing):
        if (earlier := read(folder / f"{name}.json")) is not None:
            del missing[name]
            take(name, earlier["result"])
    for name, result in _computed(missing, jobs):
        part = missing[name]
        record = {"function": part.function, "arguments": dict(part.arguments), "result": result}
        write(folder / f"{name}.json", record)
        take(name, result)
    return results


def _computed(parts: Mapping[str, Part], jobs: int) -> Iterable[tuple[str, Any]]:
    if jobs == 1 or len(parts) <= 1:
        yield from ((name, _call(part)) for name, part in parts.items())
        return
    # New processes, not forks of one that may hold locks; one thread each, as there is one a core.
    context = get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(parts)), context, _one_thread) as pool:
        futures = {pool.submit(_call, part): name for name, part in parts.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _call(part: Part) -> Any:
    return getattr(work, part.function)(**part.arguments)


def _one_thread() -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def key(part: Part) -> str:
    """A name for the result: what is computed, from which data, by which code."""
    arguments = dict(part.arguments)
    if arguments.get("mnist") is not None:
        arguments["mnist"] = _contents(arguments["mnist"])
    return _digest(_this_pabi(), [part.function, arguments])


@cache
def _contents(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return file  # reading it will say what is wrong


def stamp(parts: Iterable[Part], look: str) -> str:
    """A name for all that is written of an artefact: its work, the code of its page, and `look`."""
    return _digest(_this_pabi(whole=True), [sorted(key(part) for part in parts), look])


def _digest(code: str, data: Any) -> str:
    text = json.dumps(data, sort_keys=True)
    return hashlib.sha256(f"{code}\n{text}".encode()).hexdigest()[:32]


COMPUTING = ("work.py", "writing.py")  # files of this folder: the work, and what reads its data


@cache
def _this_pabi(whole: bool = False) -> str:
    """The digest of what computes: a number that other code computed is not shown as this code's.

    `whole`: with what only tabulates and draws.
    """
    root = Path(pabi.__file__).parent
    papers = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        if whole or papers not in file.parents or file.name in COMPUTING:
            digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()


def read(file: Path) -> Any:
    """What is kept in a file, None where it is not there or not whole."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write(file: Path, data: Any) -> None:
    """Keeps plain data in a file, at once: a call that is stopped leaves no half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(data), encoding="utf-8")
    draft.replace(file)
