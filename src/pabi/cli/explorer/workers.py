"""Processes that compute for the page, and the calculations by name.

A job is a generator of events. Where nobody waits for it any more it stops at its next event, or its process
is ended. The first process is made at once and loads what the first answer needs. All others are forked from
a server that has loaded everything and has accounted for runs of each kind. That server begins when the first
answer is given, because both would want the same processors.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping
from importlib import import_module
from multiprocessing.connection import Connection
from time import monotonic
from types import MappingProxyType
from typing import Any

import anyio
import numpy as np
from anyio.to_thread import run_sync

from pabi.cli.explorer.state import Event, label_of
from pabi.numbers.errors import (
    BudgetExceeded,
    InvalidInput,
    NotApplicable,
    PrivacyWarning,
    TargetUnreachable,
)
from pabi.numbers.showing import shown

# A new process imports again what was started; that is free where it was preloaded.
_PRELOAD = ["__main__", "pabi.cli", "pabi.cli.explorer.readiness"]
END, STOP = "end", "stop"
_LOOK = 0.05  # seconds between two looks at whether somebody left
_PATIENCE = 0.3  # seconds that a job may take to notice that nobody waits for it


class _Process:
    """One process, and the pipe to it."""

    def __init__(self, context: Any, *, knows_all: bool = True) -> None:
        self.knows_all = knows_all
        self.pipe, other = context.Pipe()
        # A fork has this side of the pipe as well, and would never see it close.
        extra = (self.pipe,) if context.get_start_method() == "fork" else ()
        self._process = context.Process(target=serve, args=(other, *extra), daemon=True)
        with _deaf():
            self._process.start()
        other.close()

    def alive(self) -> bool:
        return bool(self._process.is_alive())

    def end(self) -> None:
        self._process.kill()
        self._process.join()  # the pipe closes when nobody waits at it any more


class Workers:
    """Processes on demand, at most `most`; idle ones wait for the next job."""

    def __init__(self, most: int = 6, spare: int = 2) -> None:
        methods = multiprocessing.get_all_start_methods()
        self._context = multiprocessing.get_context(
            "forkserver" if "forkserver" in methods else "spawn"
        )
        if "forkserver" in methods:
            self._context.set_forkserver_preload(_PRELOAD)
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._lock, self._filling = threading.Lock(), threading.Lock()
        self._places = anyio.Semaphore(most)
        self._spare, self._ended = spare, False

    def begin(self) -> None:
        """Makes the first process, out of this one where that can be done, before there are threads."""
        # Elsewhere system libraries do not survive a fork.
        method = "fork" if sys.platform == "linux" else "spawn"
        self._idle.append(_Process(multiprocessing.get_context(method), knows_all=False))

    def warm(self) -> None:
        """Starts the spare processes, in the background."""
        if not self._filling.locked():
            threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self) -> None:
        with self._filling:
            while not self._ended and self._wanting():
                process = _Process(self._context)
                with self._lock:
                    self._idle.append(process)
        with self._lock:
            first = [process for process in self._idle if not process.knows_all]
            self._idle = [process for process in self._idle if process.knows_all]
        for process in first:
            process.end()

    def _wanting(self) -> bool:
        """Whether there are fewer idle processes that know all than there shall be."""
        with self._lock:
            return sum(process.knows_all for process in self._idle) < self._spare

    def _taken(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.alive():
                    self._busy.add(process)
                    return process
        process = _Process(self._context)
        with self._lock:
            self._busy.add(process)
        return process

    async def events(
        self, job: str, request: dict[str, Any], seconds: float
    ) -> AsyncGenerator[Event, None]:
        """What the job of this name yields for a request; it ends after so many seconds, come what may.

        Whoever leaves the iteration ends the job.
        """
        async with self._places:
            with anyio.CancelScope(shield=True):
                process = await run_sync(self._taken)
            finished = False
            try:
                process.pipe.send((job, request))
                deadline = anyio.current_time() + seconds
                while not finished:
                    event = await _received(process.pipe, deadline)
                    if not process.knows_all:
                        self.warm()
                    if isinstance(event, str):
                        yield "error", {"message": event}
                        return
                    finished = event[0] == END
                    yield event
            finally:
                with anyio.CancelScope(shield=True):
                    await run_sync(self._put_back, process, finished)

    def _put_back(self, process: _Process, finished: bool) -> None:
        """Keeps a process that is idle; ends one that goes on working for nobody."""
        free = finished or (not self._ended and _stopped(process.pipe))
        with self._lock:
            self._busy.discard(process)
            room = len(self._idle) < self._spare if process.knows_all else not self._idle
            if free and room and process.alive() and not self._ended:
                self._idle.append(process)
                return
        process.end()
        if not self._ended:
            self.warm()

    def end(self) -> None:
        """Ends all processes."""
        self._ended = True
        with self._lock:
            processes = [*self._idle, *self._busy]
            self._idle.clear()
        for process in processes:
            with contextlib.suppress(Exception):
                process.end()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Processes that are made meanwhile do not hear Ctrl-C: it is for the server, which ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _received(pipe: Connection, deadline: float) -> Event | str:
    """The next event from a process, or why there is none."""
    try:
        while not await run_sync(pipe.poll, _LOOK):
            if anyio.current_time() > deadline:
                return "this took too long and was stopped"
        event: Event = await run_sync(pipe.recv)
    except (EOFError, OSError):
        return "the calculation ended early, perhaps for want of memory"
    return event


def _stopped(pipe: Connection) -> bool:
    """Whether a process that was asked to stop has done so."""
    deadline = monotonic() + _PATIENCE
    try:
        pipe.send(STOP)
        while pipe.poll(max(0.0, deadline - monotonic())):
            if pipe.recv()[0] == END:
                return True
    except (EOFError, OSError):
        pass
    return False


def serve(pipe: Connection, other: Connection | None = None) -> None:
    """What a process does: one job after another, until the pipe closes. `other`: the far side of it."""
    if other is not None:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where `_deaf` can do nothing

    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            message = pipe.recv()
            if message == STOP:  # it came after the end of what it was to stop
                continue
            for event in events(*message):
                pipe.send(event)
                if pipe.poll():
                    break
            pipe.send((END, {}))


# The calculations by name, and their errors as events: what a process of `pabi.cli.explorer.workers`
# runs.


# The module and the function of each. A module is loaded when its job is first asked for, so that the first
# picture does not wait for those of other views.
_JOBS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "run": ("run_view", "events"),
        "schemes": ("run_view", "scheme_events"),
        "plan": ("run_view", "plan_events"),
        "compare": ("run_view", "comparison"),
        "check": ("views", "check_events"),
        "budget": ("views", "budget_events"),
        "forget": ("views", "forget_events"),
        "demo": ("views", "demo_events"),
        "export": ("views", "exported"),
        "report": ("views", "reported"),
        "import": ("views", "imported"),
    }
)
NAMES = frozenset(_JOBS)


def calculation(job: str) -> Any:
    """The function of a job, from a request to its events."""
    module, function = _JOBS[job]
    return getattr(import_module(f"pabi.cli.explorer.{module}"), function)


def events(job: str, request: dict[str, Any]) -> Iterator[Event]:
    """What a job yields; an error ends it with one event that says why in a sentence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PrivacyWarning)
        try:
            with np.errstate(all="ignore"):
                yield from calculation(job)(request)
        except Exception as bad:
            yield "error", _problem(bad)
        texts = list(dict.fromkeys(str(warning.message) for warning in caught))
    if texts:
        yield "warning", {"messages": texts}


def _problem(bad: Exception) -> dict[str, Any]:
    """An error for the page: which control, its label, and the sentence."""
    match bad:
        case InvalidInput():
            reason = str(bad).removeprefix(f"{bad.field}: ")
            control, label = label_of(bad.field)
            return {"control": control, "message": f"{label}: {reason}"}
        case TargetUnreachable():
            best = "" if "best" in str(bad) else f"; the best reachable ε is {shown(bad.best)}"
            return {"message": f"{bad}{best}"}
        case NotApplicable() | BudgetExceeded():
            return {"message": str(bad)}
        case MemoryError():
            return {"message": "there is not enough memory for this description"}
        case _:
            name = type(bad).__name__
            return {"message": f"unexpected {name}: {bad}; please report this as a defect of pabi"}
