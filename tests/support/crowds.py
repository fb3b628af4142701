"""Many commands of `pabi` at once, on the same files, and some of them killed.

Every command is a fork of this process, which has imported all that commands import. Arguments, entry point,
files, exit status and both streams are those of a command; only the interpreter does not start anew.
"""

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pabi.cli import main

PROCESSES = 8
KILLED = 0.15  # the share of commands that are killed, unless they end before
MOST_SECONDS = 300.0  # for one command, however many others have the processor


@dataclass(frozen=True)
class Ended:
    """A command that ended. `status`: as of a shell, −9 where it was killed."""

    words: tuple[str, ...]
    status: int
    out: str
    err: str

    @property
    def killed(self) -> bool:
        """Whether it came to its end by force."""
        return self.status == -signal.SIGKILL

    def option(self, name: str) -> str:
        """The word after this one."""
        return self.words[self.words.index(name) + 1]


@dataclass
class _Running:
    words: tuple[str, ...]
    streams: tuple[Path, Path]
    begin: float
    end: float  # when it is killed


def crowd(
    commands: Iterable[tuple[str, ...]], folder: Path, chance: random.Random
) -> Iterator[Ended]:
    """Runs the commands in the folder, eight at a time, and says of each how it ended."""
    # Seconds of the quickest command of a name, for kills in its middle.
    least: dict[str, float] = {}
    running: dict[int, _Running] = {}
    with tempfile.TemporaryDirectory(prefix="pabi-crowd-") as streams:
        waiting = enumerate(commands)
        while True:
            for i, words in waiting:
                begin, most = time.monotonic(), MOST_SECONDS
                if chance.random() < KILLED:
                    most = chance.random() * least.get(words[0], 0.2)
                pair = (Path(streams, f"{i}.out"), Path(streams, f"{i}.err"))
                process = _forked(words, folder, pair)
                running[process] = _Running(words, pair, begin, begin + most)
                if len(running) == PROCESSES:
                    break
            if not running:
                return
            process, status = _one_that_ends(running)
            one = running.pop(process)
            if status >= 0:
                took, name = time.monotonic() - one.begin, one.words[0]
                least[name] = min(took, least.get(name, took))
            yield Ended(one.words, status, *(_taken(stream) for stream in one.streams))


def _taken(stream: Path) -> str:
    text = stream.read_text("utf-8") if stream.exists() else ""
    stream.unlink(missing_ok=True)
    return text


def _one_that_ends(running: dict[int, _Running]) -> tuple[int, int]:
    """(its process, its status), after killing those whose time has come."""
    while True:
        now = time.monotonic()
        for late, one in running.items():
            if now >= one.end:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(late, signal.SIGKILL)
                one.end = float("inf")
        process, status = os.waitpid(-1, os.WNOHANG)
        if process in running:
            return process, os.waitstatus_to_exitcode(status)
        time.sleep(0.001)


def _forked(words: tuple[str, ...], folder: Path, streams: tuple[Path, Path]) -> int:
    process = os.fork()
    if process:
        return process
    status = 70
    try:
        os.chdir(folder)
        for number, stream in enumerate(streams, start=1):
            os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT), number)
        sys.argv = ["pabi", *words]
        sys.stdout, sys.stderr = (
            os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2)
        )
        status = main()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
