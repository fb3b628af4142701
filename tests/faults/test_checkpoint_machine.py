"""Random sequences of what may happen to a long training: crashes, kills, resumptions, copies of its file."""

import os
import shutil
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st

import pabi
from pabi.execute import engine
from pabi.learn import train
from support.execution import Crash
from support.interrupted import ONCE, killed_at, with_a_bit_changed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
START = np.full(3, 0.5)
ROWS, STEPS = 7, 12
BATCHES = {
    "once": pabi.ShuffleOnce(3),
    "anew": pabi.Reshuffle(3),
    "drawn": pabi.Poisson(3),
    "known": pabi.Cyclic(3),
}


class Training:
    """Gradients of zero that note where they were asked for, and crash at a call."""

    def __init__(self, crash_at):
        self.points, self.rows, self.left = [], [], crash_at

    def __call__(self, x, rows):
        if self.left == 0:
            raise Crash
        self.left -= 1
        self.points.append(np.array(x))
        self.rows.append(frozenset(rows.tolist()))
        return np.zeros((len(rows), *x.shape))


class CheckpointMachine(stateful.RuleBasedStateMachine):
    """The model is the number of steps that the file has, and every point that was ever seen.

    Whether there is a file depends on the batches that are drawn, so that no rule may: it does nothing then.
    """

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="pabi-checkpoint-"))
        self.path = self.folder / "run.ckpt"
        self.seen, self.kept = {}, {}

    def teardown(self):
        shutil.rmtree(self.folder)

    @stateful.initialize(name=st.sampled_from(sorted(BATCHES)))
    def described(self, name):
        self.run = pabi.NoisySGD(
            pabi.Loss.convex(1.0),
            n=ROWS,
            batches=BATCHES[name],
            total_steps=STEPS,
            epochs=None,
            step_size=0.3,
            noise_std=1.0,
            clip_norm=1.0,
        )

    # What a file says, and what was seen of a training.

    def content(self, path):
        with np.load(path, allow_pickle=False) as held:
            return {name: np.array(held[name]) for name in ("step", "x", "order") if name in held}

    def saw(self, training):
        """No iterate but one that a file had is ever seen twice: the noise of a step is never another's."""
        for point in training.points:
            key = point.tobytes()
            if key not in self.kept and not np.array_equal(point, START):
                assert key not in self.seen, "a step was taken twice with one noise"
            self.seen[key] = True

    def keep(self, path):
        """What the file has may be seen again: it is where a resumption begins."""
        held = self.content(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        self.kept[held["x"].tobytes()] = int(held["step"])
        return held

    # Trainings.

    def trained(self, path, crash_at, **options):
        """A training that crashes at this call, or ends; what the file has, None if it ended."""
        training = Training(crash_at)
        before = self.content(path) if path.exists() else None
        try:
            train(self.run, training, START, checkpoint_seconds=0.0, **options)
            ended = True
        except Crash:
            ended = False
        self.saw(training)
        if ended:
            assert not path.exists()
            return
        if path.exists():
            held = self.keep(path)
            if before is not None:
                assert held["step"] >= before["step"]
                if self.run.order.__class__.__name__ == "SecretOrder" and "order" in before:
                    same = np.array_equal(held["order"], before["order"])
                    assert same or not self.run.order.once, "another order"

    @stateful.rule(crash_at=st.integers(0, STEPS + 2))
    def begun(self, crash_at):
        if not self.path.exists():
            self.trained(self.path, crash_at, checkpoint=self.path)

    @stateful.rule(crash_at=st.integers(0, STEPS + 2))
    def resumed(self, crash_at):
        if not self.path.exists():
            return
        self.trained(self.path, crash_at, resume=self.path)

    @stateful.rule(crash_at=st.integers(0, STEPS + 2))
    def resumed_in_a_copy(self, crash_at):
        """Two trainings go on from one state: with noise of their own."""
        if not self.path.exists():
            return
        other = self.folder / "copy.ckpt"
        shutil.copy(self.path, other)
        os.chmod(other, 0o600)
        self.trained(other, crash_at, resume=other)
        other.unlink(missing_ok=True)

    @stateful.rule()
    def begun_over_a_file(self):
        if not self.path.exists():
            return
        before = self.path.read_bytes()
        with pytest.raises(pabi.InvalidInput):
            train(self.run, Training(-1), START, checkpoint=self.path)
        assert self.path.read_bytes() == before

    @stateful.rule(call=st.sampled_from(["open", "fsync", "replace"]), after=st.integers(0, 4))
    def killed(self, call, after):
        """At a call of the system that writes: the file has the old state or a newer one, whole."""
        if not self.path.exists():
            return
        before = self.content(self.path)
        options = {"resume": self.path, "checkpoint_seconds": 0.0}
        killed_at(call, after, lambda: train(self.run, Training(-1), START, **options))
        if self.path.exists():
            held = self.keep(self.path)
            assert held["step"] >= before["step"]
            assert held["step"] > before["step"] or np.array_equal(held["x"], before["x"])

    @stateful.rule(place=st.floats(0.0, 1.0, exclude_max=True), bit=st.integers(0, 7))
    def changed(self, place, bit):
        """A bit of the file: one line says so, or nothing depends on it."""
        if not self.path.exists():
            return
        whole, held = self.path.read_bytes(), self.content(self.path)
        self.path.write_bytes(with_a_bit_changed(whole, place, bit))
        try:
            state, told = engine.Checkpoint(self.path, self.run, START, 0.0).read(), ""
        except pabi.InvalidInput as bad:
            state, told = None, str(bad)
        assert "\n" not in told
        assert state is None or np.array_equal(state.x, held["x"])
        assert state is None or state.step == held["step"]
        self.path.write_bytes(whole)


TestCheckpointMachine = CheckpointMachine.TestCase
TestCheckpointMachine.settings = settings(
    max_examples=settings().max_examples // 5, stateful_step_count=12, deadline=None
)


@pytest.mark.nightly
def test_the_machine_notices_noise_that_is_used_again(monkeypatch):
    class Fixed:
        secret = True

        def generator(self):
            return np.random.default_rng(7)

    monkeypatch.setattr(engine, "randomness_from", lambda state, **_: Fixed())
    with pytest.raises(AssertionError, match="twice with one noise"):
        stateful.run_state_machine_as_test(CheckpointMachine, settings=ONCE)
