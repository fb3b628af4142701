"""Disks that are full, folders that cannot be written, writes that are cut short, clocks that jump.

Of ledgers, checkpoints, models and guarantees nothing that was there is lost, and one line says what went
wrong. The faults are the system's own where a test can bring them about: a small disk that is full, a
limit on the size of files, rights that are missing, processes that are killed.
"""

import contextlib
import datetime
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import pabi
from pabi.budget import ledger as ledgers
from pabi.cli import main
from pabi.cli.writing import partial_files
from pabi.execute import checkpoint
from pabi.execute.checkpoint import Checkpoint, State
from pabi.learn import PrivateLogisticRegression, StateFile, forgetting
from pabi.numbers import locking
from support.ledgers import DELTA, release

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and flock")
EPSILON, MU = 1.0, 0.01
NOBODY = 65534


@contextlib.contextmanager
def files_at_most(size):
    """Within it no file grows beyond so many bytes: writes are cut short there, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a cut module is one for all
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = writes


@contextlib.contextmanager
def read_only(folder):
    """Within it nobody makes, changes or removes files in the folder, not even the system's owner."""
    folder.chmod(0o555)
    everybody = os.geteuid() == 0
    if everybody:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if everybody:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def folder():
    """A folder that others can read, as those of pytest are not."""
    path = Path(tempfile.mkdtemp(prefix="pabi-faults-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


SMALL = 256  # KiB, of a disk


@pytest.fixture
def disk():
    """A disk of its own, which soon is full. Without the right to mount one tests are skipped."""
    path = Path(tempfile.mkdtemp(prefix="pabi-disk-"))
    options = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}k", "tmpfs", str(path)]
    mounting = shutil.which("mount") and subprocess.run(options, capture_output=True, check=False)
    if not mounting or mounting.returncode:
        path.rmdir()
        pytest.skip("needs the right to mount a disk (tmpfs)")
    yield path
    subprocess.run(["umount", str(path)], check=True)
    path.rmdir()


@contextlib.contextmanager
def full(disk, *, but=0):
    """Within it nothing is left of the disk but so many pages."""
    page = 4096
    with (disk / "filled").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * page):
            pass
    os.truncate(disk / "filled", (disk / "filled").stat().st_size - but * page)
    try:
        yield
    finally:
        (disk / "filled").unlink()


def refused(call, *words):
    """One line that has these words."""
    with pytest.raises(pabi.InvalidInput) as caught:
        call()
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def refusal_of(call):
    """What the refusal says; None if there is none."""
    try:
        call()
    except pabi.InvalidInput as bad:
        return str(bad)
    return None


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Ledgers.


@pytest.fixture
def ledger(folder):
    book = pabi.Ledger(folder / "a.ledger", EPSILON, DELTA)
    book.spend(release(MU))
    return book


@pytest.mark.parametrize("more", [0, 1, 300])
def test_a_full_disk_grants_nothing(ledger, more):
    before = contents(ledger.path.parent)
    with files_at_most(ledger.path.stat().st_size + more):
        refused(lambda: ledger.spend(release(MU)), "cannot be written", "File too large")
    assert contents(ledger.path.parent) == before
    ledger.spend(release(MU))
    assert len(ledger.report().entries) == 2
    new = ledger.path.parent / "new.ledger"
    with files_at_most(10):
        refused(lambda: pabi.Ledger(new, EPSILON, DELTA), "cannot be written")
    assert pabi.Ledger(new, EPSILON, DELTA).report().entries == ()


@pytest.mark.parametrize("pages", [0, 1, 3])
def test_a_disk_that_is_full_grants_nothing(disk, pages):
    """What still fits into the last pages is granted, the rest is not, and all that was granted is there."""
    book, granted = pabi.Ledger(disk / "a.ledger", EPSILON, DELTA), 0
    with full(disk, but=pages):
        for _ in range(40):
            before, told = contents(disk), refusal_of(lambda: book.spend(release(MU)))
            if told is not None:
                break
            granted += 1
        assert told == "ledger: cannot be written: No space left on device"
        assert contents(disk) == before
        assert len(pabi.Ledger(book.path, EPSILON, DELTA).report().entries) == granted
        refused(
            lambda: [pabi.Ledger(disk / f"{i}.ledger", EPSILON, DELTA) for i in range(40)],
            "cannot be written: No space left on device",
        )
    for made in disk.glob("?.ledger"):
        assert len(pabi.Ledger(made, EPSILON, DELTA).report().entries) in (0, granted)
    book.spend(release(MU))
    assert len(book.report().entries) == granted + 1


def test_a_reservation_stays_if_its_commit_cannot_be_written(ledger):
    reservation = ledger.reserve(release(MU))
    with files_at_most(ledger.path.stat().st_size):
        refused(reservation.commit, "cannot be written")
    assert [entry.committed for entry in ledger.report().entries] == [True, False]
    reservation.commit()
    assert [entry.committed for entry in ledger.report().entries] == [True, True]


def test_a_ledger_in_a_folder_that_is_read_only(ledger):
    before, guarantee = contents(ledger.path.parent), release(MU)
    ledger.path.chmod(0o444)
    with read_only(ledger.path.parent):
        refused(lambda: ledger.spend(guarantee), "expected a ledger: Permission denied")
        refused(
            lambda: pabi.Ledger(ledger.path.parent / "b.ledger", EPSILON, DELTA),
            "expected a ledger: Permission denied",
        )
        assert len(ledger.report().entries) == 1
    assert contents(ledger.path.parent) == before


def test_a_ledger_does_not_go_by_the_clock(ledger, monkeypatch):
    """Entries are in the order of their numbers, whatever the clock said; none is lost or counted less."""
    left = [ledger.remaining()]
    for at in ("9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2026-02-29T00:00:00Z"):
        monkeypatch.setattr(ledgers, "now", lambda at=at: at)
        ledger.spend(release(MU))
        left.append(pabi.Ledger(ledger.path, EPSILON, DELTA).remaining())
    assert [entry.number for entry in ledger.report().entries] == [1, 2, 3, 4]
    assert left == sorted(left, reverse=True)
    assert len(set(left)) == 4


# Checkpoints.


RUN = pabi.NoisySGD(
    pabi.Loss.convex(1.0), n=40, batches=pabi.ShuffleOnce(8), epochs=4, step_size=0.3, noise_std=1.0,
    clip_norm=1.0,
)  # fmt: skip
SECRET = np.arange(40)


def state(step, size=4):
    return State(step, np.full(size, float(step)), SECRET)


def checkpointed(folder, size=4):
    file = Checkpoint(folder / "a.ckpt", RUN, np.zeros(size), 0.0)
    file.write(state(3, size))
    return file


def test_a_checkpoint_that_cannot_be_written_stays_the_last_one(folder):
    file = checkpointed(folder)
    before = contents(folder)
    faults = [(files_at_most(size), "File too large") for size in (0, 1, 500)]
    for fault, reason in [*faults, (read_only(folder), "Permission denied")]:
        with fault:
            refused(lambda: file.write(state(7)), "checkpoint: cannot write", reason)
        assert contents(folder) == before
        assert file.read().step == 3
    file.write(state(7))
    assert file.read().step == 7


def test_a_checkpoint_on_a_disk_that_is_full_stays_the_last_one(disk):
    file, words = checkpointed(disk, 2_000), ("checkpoint: cannot write", "No space left")
    before = (disk / "a.ckpt").read_bytes()
    for pages in (0, 1, 3):
        with full(disk, but=pages):
            refused(lambda: file.write(state(7, 2_000)), *words)
            assert {path.name for path in disk.iterdir()} == {"a.ckpt", "filled"}
        assert (disk / "a.ckpt").read_bytes() == before
    file.write(state(7, 2_000))
    assert file.read().step == 7


def test_checkpoints_are_due_by_a_clock_that_does_not_jump(folder, monkeypatch):
    file = Checkpoint(folder / "a.ckpt", RUN, np.zeros(4), 100.0)
    for jump in (-1e9, 1e9):
        monkeypatch.setattr(time, "time", lambda jump=jump: jump)
        file.write_if_due(state(3))
    assert contents(folder) == {}
    later = time.monotonic() + 101.0
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: later)
    file.write_if_due(state(3))
    assert file.read().step == 3


@pytest.mark.parametrize("kills", [6, pytest.param(300, marks=pytest.mark.nightly)])
def test_a_checkpoint_survives_kills(folder, kills):
    """At any moment the file is an old one or a new one, whole."""
    size, chance, last = 20_000, random.Random(0), 3
    file = checkpointed(folder, size)
    for _ in range(kills):
        process = os.fork()
        if process == 0:
            try:
                for step in (*range(3, 19),) * 10_000:
                    file.write(state(step, size))
            finally:
                os._exit(1)
        time.sleep(chance.uniform(0.01, 0.1))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        last = file.read()
        assert np.array_equal(last.x, np.full(size, float(last.step)))
        assert np.array_equal(last.secret, SECRET)
    file.write(state(5, size))  # over what the last kill left of a part
    assert {path.name for path in folder.iterdir()} == {"a.ckpt"}


# Models and guarantees, as commands write them.


def written(folder, content):
    """Writes both files as `pabi train` does."""
    names = [str(folder / name) for name in ("model.skops", "guarantee.json")]
    with partial_files(names, True, unlike=()) as parts:
        for part in parts:
            part.write_bytes(content)


def test_models_and_guarantees_that_cannot_be_written_stay_as_they_were(folder):
    written(folder, b"old")
    faults = (files_at_most(1000), "File too large"), (read_only(folder), "Permission denied")
    for fault, reason in faults:
        with fault:
            refused(lambda: written(folder, b"n" * 2000), f"cannot be written: {reason}")
        assert contents(folder) == {"model.skops": b"old", "guarantee.json": b"old"}
    names = [str(folder / name) for name in contents(folder)]
    with pytest.raises(KeyboardInterrupt), partial_files(names, True, unlike=()) as parts:
        parts[0].write_bytes(b"new")
        raise KeyboardInterrupt
    assert contents(folder) == {"model.skops": b"old", "guarantee.json": b"old"}


def test_models_and_guarantees_on_a_disk_that_is_full_stay_as_they_were(disk):
    written(disk, b"old")
    for pages in (0, 1, 3):
        with full(disk, but=pages):
            refused(lambda: written(disk, b"n" * 20_000), "cannot be written: No space left on")
        assert contents(disk) == {"model.skops": b"old", "guarantee.json": b"old"}


# Secret states.


def forgetter(batches):
    given = {"precondition": None, "l2": 0.3, "batches": batches, "epochs": 2, "step_size": 1.0}
    return PrivateLogisticRegression(5.0, 1e-4, classes=[0, 1], cooldown_epochs=0, **given)


def test_a_secret_state_on_a_disk_that_is_full_stays_as_it_was(disk):
    pytest.importorskip("cryptography")
    file = StateFile(disk / "state", StateFile.new_key())
    X, y = np.tile(np.eye(4), (250, 1)), np.arange(1000) % 2
    model = forgetter(pabi.FullBatch()).fit(X, y, keep_state=file)
    before = (disk / "state").read_bytes()

    def forget():
        return model.forget(X, y, [3], 2.0, 1e-4, state=file, accept_loss=True)

    with full(disk, but=1):
        refused(forget, "state: cannot write", "No space")
        assert file.requests() == ()
    assert (disk / "state").read_bytes() == before
    forget()
    assert [line.rows for line in file.requests()] == [(3,)]


def test_requests_are_in_their_order_whatever_the_clock_said(folder, monkeypatch):
    pytest.importorskip("cryptography")
    file = StateFile(folder / "state", StateFile.new_key())
    X, y = np.eye(8), np.arange(8) % 2
    model = forgetter(pabi.ShuffleOnce(4)).fit(X, y, keep_state=file)
    for row, year in enumerate((9999, 1970, 2026)):

        class Jumping(datetime.datetime):
            @classmethod
            def now(cls, zone=None, year=year):
                return cls(year, 1, 1, tzinfo=zone)

        monkeypatch.setattr(forgetting.datetime, "datetime", Jumping)
        model = model.forget(X, y, [row], 5.0, 1e-4, state=file, accept_loss=True)
    assert [line.rows for line in file.requests()] == [(0,), (1,), (2,)]


def test_reports_on_a_full_disk_stay_as_they_were(folder, capsys):
    (folder / "g.json").write_text(release(MU).to_json())
    (folder / "report.md").write_bytes(b"old")
    before = contents(folder)
    words = ["report", str(folder / "g.json"), "--out", str(folder / "report.md"), "--force"]
    with files_at_most(100):
        assert main(words) == 2
    assert capsys.readouterr().err.endswith("report.md: cannot be written: File too large\n")
    assert contents(folder) == before
    assert main(words) == 0


def test_two_commands_at_once_do_not_write_over_one_another(folder):
    """What was not there at the beginning may be at the end: the first one's files stay, both of them."""
    names = [str(folder / name) for name in ("model.skops", "guarantee.json")]

    def late():
        with partial_files(names, False, unlike=()) as parts:
            for part in parts:
                part.write_bytes(b"late")
            with partial_files(names[1:], False, unlike=()) as earlier:
                earlier[0].write_bytes(b"early")

    refused(late, "guarantee.json: exists already")
    kept = contents(folder)
    assert kept.pop("guarantee.json") == b"early"
    assert list(kept.values()) == [b"late", b"late"]
    assert all(name.endswith(".part") for name in kept)


@pytest.mark.parametrize("stopped", ["held", "interrupted"])
def test_files_that_are_complete_are_kept_whoever_holds_the_folder(folder, monkeypatch, stopped):
    """What they took may be spent already."""
    fcntl = locking.fcntl
    reader = os.open(folder, os.O_RDONLY)
    fcntl.flock(reader, fcntl.LOCK_EX)  # whoever can read the folder can do this
    written(folder, b"old")
    os.close(reader)
    monkeypatch.setattr(locking, "PATIENCE", 0.05)
    with locking.alone(folder / ".pabi-lock", folder.stat()):
        assert (folder / ".pabi-lock").stat().st_mode & 0o077 == folder.stat().st_mode & 0o022
        if stopped == "interrupted":

            def interrupt():
                raise KeyboardInterrupt

            monkeypatch.setattr(locking, "tick", interrupt)
        words = "interrupted" if stopped == "interrupted" else "another process has held this lock"
        refused(lambda: written(folder, b"new"), "complete, and kept under this name: ", words)
    kept = contents(folder)
    assert kept.pop("model.skops") == kept.pop("guarantee.json") == b"old"
    kept.pop(".pabi-lock", None)
    assert list(kept.values()) == [b"new", b"new"]
    written(folder, b"new")


def test_what_a_killed_command_left_stops_no_other_one_of_its_number(folder):
    """In a container every command may be process 1."""
    process = os.fork()
    if process == 0:
        with partial_files([str(folder / "a.csv")], False, unlike=()):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)
    (left,) = folder.iterdir()
    numbered = left.with_name(left.name.replace(left.name.split(".")[-2], str(os.getpid())))
    left.rename(numbered)
    with partial_files([str(folder / "a.csv")], False, unlike=()) as (part,):
        part.write_bytes(b"new")
    assert contents(folder) == {"a.csv": b"new", numbered.name: b""}


def test_devices_and_links_are_not_replaced_by_files(folder):
    """A pipe stands for it: as the system's owner one would have lost /dev/null."""
    os.mkfifo(folder / "a")
    refused(lambda: partial_files([str(folder / "a")], True, unlike=()).__enter__(), "got a device")
    # An old model there would be the one that records were forgotten from.
    real, link = folder / "real", folder / "link"
    real.write_text("old")
    link.symlink_to(real)
    with partial_files([str(link)], True, unlike=()) as (part,):
        part.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    os.link(real, folder / "other")
    refused(lambda: partial_files([str(link)], True, unlike=()).__enter__(), "hard links")


def test_models_and_guarantees_are_on_the_disk_before_they_take_their_names(folder, monkeypatch):
    """Or a loss of power could leave a name with nothing in it, where an old model was."""
    order, replace, sync = [], os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda *names: (order.append("named"), replace(*names)))
    monkeypatch.setattr(os, "fsync", lambda file: (order.append("synced"), sync(file)))
    written(folder, b"new")
    assert order[:3] == ["synced", "synced", "named"]
