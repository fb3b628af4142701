"""Processes that are killed while a model forgets: the state is the old one or the new one, whole.

A child is forked and killed without warning, at random moments, and at every call of the system that writing
a state makes. Whatever it leaves is read with the key, and gone on from.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pabi
from pabi.execute import checkpoint
from pabi.execute.state_files import locked, state_in
from pabi.learn import PrivateLogisticRegression, StateFile

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked"),
]

N, DELTA, FIRST, ROWS = 400, 1e-4, [5], [7, 11, 13]
TABLE = np.random.default_rng(1).standard_normal((N, 4))
X = TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)
Y = (X[:, 0] > 0).astype(int)


def model() -> PrivateLogisticRegression:
    return PrivateLogisticRegression(
        5.0,
        DELTA,
        classes=[0, 1],
        cooldown_epochs=0,
        precondition=None,
        l2=0.05,
        batches=pabi.ShuffleOnce(40),
        epochs=5,
        step_size=1.0,
    )


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> StateFile:
    """A state that has forgotten once."""
    state = StateFile(tmp_path_factory.mktemp("state") / "state", StateFile.new_key())
    fitted = model().fit(X, Y, keep_state=state)
    fitted.forget(X, Y, FIRST, 1.0, DELTA, state=state, accept_loss=True)
    return state


def forget(state: StateFile) -> None:
    model().forget(X, Y, ROWS, 1.0, DELTA, state=state, accept_loss=True)


def killed(work: Callable[[], None], after: float | None) -> int:
    """What becomes of a process that does this, killed after so many seconds; None: it ends by itself."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def copy_of(begun: StateFile, folder: Path) -> StateFile:
    for left in folder.glob(".state*"):
        left.unlink()
    shutil.copy(begun.path, folder / "state")
    return StateFile(folder / "state", begun.key)


def is_new(begun: StateFile, state: StateFile) -> bool:
    """Whether it is the new state rather than the old one. It has to be one of them, to the last byte or as a
    whole."""
    old, held = state_in(begun), state_in(state)
    rows = [list(line.rows) for line in held.log]
    if rows == [FIRST]:
        assert Path(state.path).read_bytes() == Path(begun.path).read_bytes()
        return False
    assert rows == [FIRST, ROWS]
    taken = held.log[-1].steps
    assert taken > 0
    assert held.walk.step == old.walk.step + taken
    assert np.array_equal(held.walk.secret, old.walk.secret)
    assert not np.any(held.digests[FIRST + ROWS])
    others = np.setdiff1d(np.arange(N), FIRST + ROWS)
    assert np.array_equal(held.digests[others], old.digests[others])
    proven = held.log[-1].guarantee
    assert pabi.verify(proven.to_json()).ok
    assert model().restored(state).unlearning_guarantee_.epsilon(DELTA) == proven.epsilon(DELTA)
    return True


@pytest.mark.parametrize("count", [15, pytest.param(300, marks=pytest.mark.nightly)])
def test_killed_at_random_moments(begun, tmp_path, count):
    """Old or new, the log as long as it should be; who goes on afterwards uses noise of its own."""
    started = time.perf_counter()
    killed(lambda: forget(copy_of(begun, tmp_path)), None)
    whole = time.perf_counter() - started
    ends: list[Any] = []
    for _ in range(count):
        state = copy_of(begun, tmp_path)
        killed(lambda s=state: forget(s), random.uniform(0.0, 1.2 * whole))
        if not is_new(begun, state):
            forget(state)  # no lock is left behind, and nothing that was half written is in the way
            assert is_new(begun, state)
        ends.append(state_in(state).walk.x.ravel())
        assert {path.name for path in tmp_path.iterdir()} <= {"state", ".state.lock"}
    ends = np.array(ends)
    assert len(np.unique(ends)) == ends.size  # of continuous noise no draw comes twice


@pytest.mark.parametrize("name", ["open", "fsync", "replace"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_killed_at_every_call_that_writes(begun, tmp_path, name, before):
    """New from the moment at which the file takes its name, and old until then."""
    state = copy_of(begun, tmp_path)
    call = getattr(checkpoint.os, name)

    def work() -> None:
        def deadly(*arguments: Any) -> Any:
            if before and ".partial" in str(arguments[0]) + " .partial" * (name == "fsync"):
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*arguments)
            if ".partial" in str(arguments[0]) + " .partial" * (name == "fsync"):
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(checkpoint.os, name, deadly)
        forget(state)

    assert killed(work, None) == signal.SIGKILL
    assert is_new(begun, state) is (name == "replace" and not before)
    if name != "replace" or before:
        forget(state)
        assert is_new(begun, state)


def test_two_at_once_are_refused(begun, tmp_path):
    state = copy_of(begun, tmp_path)
    with locked(state), pytest.raises(pabi.InvalidInput, match="^state: another process"):
        forget(state)
    forget(state)
    assert is_new(begun, state)


def test_a_full_disk_leaves_the_old_state(begun, tmp_path, monkeypatch):
    state = copy_of(begun, tmp_path)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    with pytest.raises(pabi.InvalidInput, match="^state: cannot write .*No space"):
        forget(state)
    monkeypatch.undo()
    assert not is_new(begun, state)
    assert {path.name for path in tmp_path.iterdir()} <= {"state", ".state.lock"}
