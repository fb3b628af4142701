"""Random requests to forget, kills, copies and wrong keys, against a list of what was forgotten."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import pabi
from pabi.execute import engine
from pabi.execute.state_files import locked, state_in
from pabi.learn import PrivateLogisticRegression, StateFile
from support.interrupted import killed_at, with_a_bit_changed

pytest.importorskip("cryptography")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
ROWS, DELTA = 12, 1e-3
X = np.eye(ROWS, 3)
X[3:] = 0.5
Y = np.arange(ROWS) % 2
REQUESTS = st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=3).map(sorted)


def model():
    given = {"classes": [0, 1], "cooldown_epochs": 0, "precondition": None, "l2": 0.3}
    batches = pabi.ShuffleOnce(4)
    return PrivateLogisticRegression(5.0, DELTA, batches=batches, epochs=2, step_size=1.0, **given)


class ForgetMachine(RuleBasedStateMachine):
    """The model is the list of requests that were met."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="pabi-state-"))
        self.file = StateFile(self.folder / "state", StateFile.new_key())
        self.met, self.ends, self.written = [], set(), []

    def teardown(self):
        shutil.rmtree(self.folder)

    @initialize()
    def fitted(self):
        model().fit(X, Y, keep_state=self.file)
        self.order = state_in(self.file).walk.secret
        self.fresh(self.file)

    @property
    def forgotten(self):
        return {row for rows in self.met for row in rows}

    def fresh(self, file):
        """The state has an iterate that no state had before."""
        end = state_in(file).walk.x.tobytes()
        assert end not in self.ends, "two states have one noise"
        self.ends.add(end)

    def agrees(self):
        """Whether the file has all that was met, in order, whole."""
        held = state_in(self.file)
        assert [list(line.rows) for line in held.log] == self.met
        assert np.array_equal(held.walk.secret, self.order)
        assert held.walk.step == held.run.steps + sum(line.steps for line in held.log)
        gone = sorted(self.forgotten)
        assert not np.any(held.digests[gone])
        assert np.all(np.any(held.digests[np.setdiff1d(np.arange(ROWS), gone)], axis=1))
        assert {path.name for path in self.folder.iterdir()} <= {"state", ".state.lock"}
        return held

    # Requests.

    @rule(rows=REQUESTS)
    def forget(self, rows):
        before = Path(self.file.path).read_bytes()
        try:
            newer = model().forget(X, Y, rows, 2.0, DELTA, state=self.file, accept_loss=True)
        except pabi.InvalidInput:
            assert set(rows) & self.forgotten
            assert Path(self.file.path).read_bytes() == before
            return
        assert not set(rows) & self.forgotten
        self.met.append(rows)
        self.fresh(self.file)
        assert newer.unlearning_guarantee_.epsilon(DELTA) <= 2.0
        self.agrees()

    @rule(rows=REQUESTS)
    def forget_in_a_copy(self, rows):
        """Two models go on from one state: with noise of their own, and this file does not change."""
        copy = StateFile(self.folder / "copy", self.file.key)
        shutil.copy(self.file.path, copy.path)
        if not set(rows) & self.forgotten:
            model().forget(X, Y, rows, 2.0, DELTA, state=copy, accept_loss=True)
            self.fresh(copy)
        for left in self.folder.glob("*copy*"):
            left.unlink()
        self.agrees()

    @rule()
    def forget_with_another_key(self):
        other = StateFile(self.file.path, StateFile.new_key())
        with pytest.raises(pabi.InvalidInput, match="^key: "):
            model().forget(X, Y, [0], 2.0, DELTA, state=other, accept_loss=True)
        self.agrees()

    @rule()
    def forget_of_another_table(self):
        """A row that is not forgotten was changed."""
        left = sorted(set(range(ROWS)) - self.forgotten)
        if len(left) < 2:
            return
        table = X.copy()
        table[left[-1]] = 0.25
        with pytest.raises(pabi.InvalidInput, match="^X: "):
            model().forget(table, Y, [left[0]], 2.0, DELTA, state=self.file, accept_loss=True)
        self.agrees()

    @rule()
    def forget_while_another_does(self):
        with locked(self.file), pytest.raises(pabi.InvalidInput, match="^state: another process"):
            model().forget(X, Y, [0], 2.0, DELTA, state=self.file, accept_loss=True)
        self.agrees()

    @rule()
    def restored(self):
        held = self.agrees()
        again = model().restored(self.file)
        assert np.array_equal(np.ravel(again.coef_), np.ravel(held.shown)[: again.coef_.size])
        if self.met:
            assert pabi.verify(again.unlearning_guarantee_).ok

    @rule(
        rows=REQUESTS, call=st.sampled_from(["open", "fsync", "replace"]), after=st.integers(0, 2)
    )
    def killed(self, rows, call, after):
        """At a call of the system that writes: the old state or the new one."""
        if set(rows) & self.forgotten:
            return
        options = {"state": self.file, "accept_loss": True}
        killed_at(call, after, lambda: model().forget(X, Y, rows, 2.0, DELTA, **options))
        (self.folder / ".state.partial").unlink(missing_ok=True)  # as the next request does
        if len(state_in(self.file).log) > len(self.met):
            self.met.append(rows)
            self.fresh(self.file)
        self.agrees()

    @rule(place=st.floats(0.0, 1.0, exclude_max=True), bit=st.integers(0, 7))
    def changed(self, place, bit):
        """A bit of the file: it is not opened."""
        whole = Path(self.file.path).read_bytes()
        Path(self.file.path).write_bytes(with_a_bit_changed(whole, place, bit))
        with pytest.raises(pabi.InvalidInput) as caught:
            state_in(self.file)
        assert "\n" not in str(caught.value)
        Path(self.file.path).write_bytes(whole)

    @rule()
    def restored_from_a_backup(self):
        """An older copy in the place of the state: whoever reads it is told."""
        whole = Path(self.file.path).read_bytes()
        older = [content for content in self.written if content != whole]
        self.written.append(whole)
        if not older:
            return
        Path(self.file.path).write_bytes(older[-1])
        with pytest.raises(pabi.InvalidInput, match="written here last"):
            model().forget(X, Y, [0], 2.0, DELTA, state=self.file, accept_loss=True)
        Path(self.file.path).write_bytes(whole)
        self.agrees()


TestForgetMachine = ForgetMachine.TestCase
TestForgetMachine.settings = settings(
    max_examples=settings().max_examples // 10, stateful_step_count=8, deadline=None
)


def test_the_machine_notices_noise_that_is_used_again(monkeypatch):
    monkeypatch.setattr(engine, "secret_generator", lambda: np.random.default_rng(7))
    machine = ForgetMachine()
    machine.fitted()
    machine.forget_in_a_copy(rows=[1])
    with pytest.raises(AssertionError, match="one noise"):
        machine.forget(rows=[1])
    machine.teardown()
