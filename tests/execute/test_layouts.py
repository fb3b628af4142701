"""Rows on a disk in the order of a run: what is trained on them is what is trained in memory."""

import os
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

import pabi
from pabi import learn
from pabi.execute import batches as secret_orders
from pabi.execute import layouts as module
from pabi.execute.batches import drawn_order, whole_order
from pabi.execute.blocks import block_length
from pabi.execute.large_records import LargeRecords
from pabi.execute.layouts import Layout, home_of, reserve, scratch_file
from pabi.execute.records import MOST_ROWS
from pabi.execute.sources import Parts, ahead
from pabi.learn import train
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused
from support.execution import Crash
from support.large import features, frame_of, labels, package, table_in, write_parts

from .losses import FAMILY

N, B = 9_000, 700
X = features(N)
Y = labels(X)
LOGISTIC = pabi.Loss.logistic(feature_norm=1.0)
SCHEMES = [
    *(pabi.ShuffleOnce(B), pabi.Reshuffle(B), pabi.FullBatch(), pabi.Cyclic(B), pabi.FixedSize(B)),
    *(pabi.Poisson(B), pabi.BallsInBins(B, cap=2 * B), pabi.BallsInBins(B, redraw="epoch")),
    *(pabi.ShuffleOnce(B, 1), pabi.ShuffleOnce(B, 3 * B), pabi.Reshuffle(B, N % B)),
]


@pytest.fixture
def small_buckets(monkeypatch):
    """Orders of 9 000 records are drawn in buckets of about a thousand."""
    monkeypatch.setattr(secret_orders, "BUCKET", 1000)
    monkeypatch.setattr(module, "BUCKET", 1000)
    monkeypatch.setattr(module, "_SORTED", 100_000)


def run_of(loss=LOGISTIC, batches=SCHEMES[0], **options):
    options = {"n": N, "epochs": 2, "step_size": 0.5, "noise_std": 0.1} | options
    return pabi.NoisySGD(loss, batches=batches, **options)


def trained(run, gradients, **options):
    return train(run, gradients, np.zeros(gradients.shape), 3, delta=1e-6, **options).x


def in_memory(run, **options):
    return trained(run, learn.LogisticGradients(learn.Records(X, 1.0), Y), **options)


def assert_same(one, other):
    assert np.max(np.abs(one - other)) <= 1e-12 * np.max(np.abs(other))


def is_empty(folder):
    return not any("scratch" in path.name for path in folder.iterdir())


def laid_out(folder, form="npy", norm=1.0):
    large = learn.LargeRecords(table_in(form, X, folder, scratch=folder), norm)
    return learn.LogisticGradients(large, Y)


@pytest.mark.parametrize("batches", SCHEMES, ids=lambda scheme: scheme.kind)
def test_every_scheme_trains_the_same(unpriced, tmp_path, small_buckets, batches):
    run = run_of(batches=batches)
    assert_same(trained(run, laid_out(tmp_path)), in_memory(run))
    assert is_empty(tmp_path)


def own_residual(predictor, target):
    return np.tanh(predictor - target)


OTHERS = {
    "a residual of one's own": (
        pabi.Loss.squared(1.0, residual_bound=1.0),
        lambda records: learn.LinearGradients(records, X[:, 3], own_residual),
    ),
    "weights": (
        LOGISTIC,
        lambda records: learn.LogisticGradients(records, Y).weighted(np.linspace(0.0, 1.0, N)),
    ),
}


@pytest.mark.parametrize("name", [*FAMILY, *OTHERS])
def test_every_loss_trains_the_same(unpriced, tmp_path, small_buckets, name):
    if name in OTHERS:
        loss, gradients = OTHERS[name]
    else:
        one = FAMILY[name]
        loss, gradients = one.describe(1.0), lambda records: one.build(records, one.some(N))
    run = run_of(loss, step_size=0.1)
    large = learn.LargeRecords(table_in("npy", X, tmp_path), 1.0)
    assert_same(trained(run, gradients(large)), trained(run, gradients(learn.Records(X, 1.0))))


def test_clipped_coordinates_and_users_train_the_same(tmp_path, small_buckets):
    coordinates = run_of(clip_norm=0.3, clipping="coordinates"), None
    users = np.random.default_rng(1).integers(0, 500, N)
    by_users = run_of(batches=pabi.ShuffleOnce(50), n=500, unit="user"), users
    for run, groups in (coordinates, by_users):
        found = trained(run, laid_out(tmp_path), groups=groups)
        assert_same(found, in_memory(run, groups=groups))


def test_targets_in_a_column_or_of_dask_and_factors_beside_rows(tmp_path, small_buckets):
    parts = write_parts(tmp_path / "parts", frame_of(X, y=Y))
    run = run_of(pabi.Loss.logistic(4.0), clip_norm=1.0)
    large = learn.LogisticGradients(learn.LargeTable(parts), "y")
    assert_same(trained(run, large), trained(run, learn.LogisticGradients(X, Y)))
    array = package("dask.array")
    rows = learn.LargeRecords(array.from_array(X, chunks=(2000, 5)), 1.0)
    large = learn.LogisticGradients(rows, array.from_array(Y, chunks=1777))
    assert_same(trained(run_of(), large), in_memory(run_of()))
    for norm in (0.5, 100.0):
        run = run_of(pabi.Loss.logistic(feature_norm=norm))
        own = trained(run, learn.LogisticGradients(learn.Records(X, norm), Y))
        assert_same(trained(run, laid_out(tmp_path, norm=norm)), own)


def test_a_run_goes_on_after_a_crash(tmp_path, small_buckets):
    """In the same order: a resumed run ends where the same one in memory does."""

    def crash(step, x):
        if step == 9:
            raise Crash

    run, file = run_of(noise_std=0.1, release="path"), tmp_path / "run.checkpoint"
    ends = []
    for train_it in (in_memory, lambda run, **files: trained(run, laid_out(tmp_path), **files)):
        with pytest.raises(Crash):
            train_it(run, checkpoint=file, watch=crash)
        assert is_empty(tmp_path)
        ends.append(train_it(run, resume=file))
    assert_same(*ends)


@pytest.fixture
def arranged(tmp_path, small_buckets):
    """(a layout, the order in which rows are, a secret)"""
    layout = Layout(learn.LargeRecords(table_in("npy", X, tmp_path)), Parts.of(np.arange(N)), None)
    secret = drawn_order(N, np.random.default_rng(4))
    yield layout, whole_order(secret, N), secret
    layout.close()


def assert_block(layout, part, order):
    (block,) = layout.blocks(part)
    assert np.array_equal(block.target, order[part])
    assert np.array_equal(block.features, X[order[part]])


@pytest.mark.parametrize("gathered", [1, 3_000, 1 << 20])
def test_rows_lie_in_the_secret_order(arranged, monkeypatch, gathered):
    """However many of them are gathered at a time."""
    monkeypatch.setattr(module, "_GATHERED", gathered)
    layout, order, secret = arranged
    layout.arrange(secret)
    found = np.concatenate([block.target for block in layout.blocks(slice(0, N))])
    assert np.array_equal(found, order)
    for part in (slice(3000, 3007), slice(0, 2500), slice(8990, N)):  # back and forth
        assert_block(layout, part, order)


@pytest.mark.parametrize("again", [False, True])
def test_rows_are_in_the_same_order_in_every_epoch(arranged, monkeypatch, again):
    """Of an order that is read again, every bucket is put into its own once."""
    sorted_buckets, inside = [], secret_orders.Buckets.inside

    def counted(self, bucket, size):
        sorted_buckets.append(bucket)
        return inside(self, bucket, size)

    monkeypatch.setattr(secret_orders.Buckets, "inside", counted)
    layout, expected, secret = arranged
    layout.arrange(secret, again)
    for step in (N, 701, 1000, 3):
        parts = (slice(first, min(first + step, N)) for first in range(0, N, step))
        blocks = [block for part in parts for block in layout.blocks(part)]
        assert np.array_equal(np.concatenate([block.target for block in blocks]), expected)
        assert np.array_equal(np.concatenate([block.features for block in blocks]), X[expected])
    layout.close()
    assert sorted(sorted_buckets) == list(range(9)) if again else len(sorted_buckets) > 4 * 9 - 1


@pytest.mark.parametrize(
    ("batches", "epochs", "again"),
    [
        (pabi.ShuffleOnce(B), 3, True),
        (pabi.ShuffleOnce(B), 1, False),
        (pabi.Reshuffle(B), 3, False),
    ],
)
def test_orders_that_are_read_once_are_not_written_twice(
    unpriced, tmp_path, small_buckets, monkeypatch, batches, epochs, again
):
    asked, arrange = set(), Layout.arrange

    def noted(self, secret, *arguments):
        asked.update(arguments)
        arrange(self, secret, *arguments)

    monkeypatch.setattr(Layout, "arrange", noted)
    trained(run_of(batches=batches, epochs=epochs), laid_out(tmp_path))
    assert asked == {again}


def test_going_back_and_forth_in_an_order_that_is_read_again(arranged):
    """Buckets are read ahead into the same few arrays, whichever of them is asked for next."""
    (layout, expected, secret), rng = arranged, np.random.default_rng(0)
    layout.arrange(secret, True)
    for _ in range(240):
        first, length = int(rng.integers(N - 1)), int(rng.choice([1, 50, 1500, 4096]))
        assert_block(layout, slice(first, min(first + length, N)), expected)


def test_nothing_is_left_where_training_fails(tmp_path, small_buckets):
    gradients = laid_out(tmp_path)
    np.save(tmp_path / "X.npy", X + 1.0)
    assert "it changed while it was read" in refused("X", trained, run_of(), gradients)
    assert is_empty(tmp_path)


@pytest.mark.parametrize("where", ["reserve", "_Shelf._put", "_Shelf._write_back"])
def test_a_full_disk_is_one_line(tmp_path, small_buckets, monkeypatch, where):
    """Before anything is written, later, and in the first epoch."""

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"pabi.execute.layouts.{where}", full)
    gradients = laid_out(tmp_path)
    with pytest.raises(InvalidInput, match="scratch: cannot write to .*: No space left on device"):
        trained(run_of(), gradients)
    assert is_empty(tmp_path)


def last_is(label):
    return np.where(np.arange(N) == N - 1, label, Y)


@every(
    "cells, message",
    [(Y[:-1], "as many rows as X"), *((last_is(k), "all in {0, 1} or") for k in (2, -1))],
)
def test_bad_targets(tmp_path, cells, message):
    large = learn.LargeRecords(table_in("npy", X, tmp_path))
    assert message in refused("y", learn.LogisticGradients, large, cells)


@every("argument", ["target", "weight"])
@every("change", [lambda cells: cells[::-1].copy(), lambda cells: np.append(cells, 1.0)])
def test_cells_beside_rows_that_are_whole_blocks_are_those_of_the_pass_before(argument, change):
    """Records would have the targets of others. Of whole blocks nobody asks for more rows than there are."""
    whole = X[: 2 * block_length(5, MOST_ROWS)]
    cells, passes = np.arange(len(whole)) / len(whole), []

    def read():
        passes.append(None)
        yield cells if len(passes) == 1 else change(cells)

    beside = Parts(read, argument).counted(len(whole))
    targets, weights = (beside, None) if argument == "target" else (Parts.of(cells), beside)
    layout = Layout(LargeRecords(package("dask.array").from_array(whole)), targets, weights)
    with pytest.raises(InvalidInput, match=f"{argument}: it changed while it was read"):
        layout.arrange(None)
    layout.close()


# The file of secret rows, which is gone with its process whatever ends that, and reading ahead of it.


# A shell has what it starts in the background ignore SIGINT.
WAITS = """
import signal, sys
from pabi.execute.layouts import home_of, scratch_file
signal.signal(signal.SIGINT, signal.default_int_handler)
file = scratch_file(home_of(sys.argv[1]))
file.write(b"secret"); file.flush()
print("ready", flush=True); sys.stdin.read()
"""


def test_nobody_else_can_open_it(tmp_path):
    """And what is reserved is of that size, where the system can."""
    before = os.umask(0)
    try:
        file = scratch_file(home_of(tmp_path))
    finally:
        os.umask(before)
    file.write(b"secret")
    file.flush()
    assert list(tmp_path.iterdir()) == []
    about = os.fstat(file.fileno())
    assert (stat.S_IMODE(about.st_mode), about.st_size) == (0o600, 6)
    reserve(file.fileno(), 1000)
    assert os.fstat(file.fileno()).st_size in (6, 1000)
    file.close()
    with pytest.raises(InvalidInput, match="scratch: cannot write to .*nowhere"):
        scratch_file(home_of(tmp_path / "nowhere"))


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_the_end_of_a_process_removes_it_whatever_ended_it(tmp_path, ended):
    command = [sys.executable, "-c", WAITS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        other.send_signal(ended)
    assert other.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_the_next_is_read_while_one_is_used():
    read = [threading.Event() for _ in range(3)]

    def values():
        for event in read:
            event.set()
            yield event

    rest = ahead(values())
    assert next(rest) is read[0]
    assert read[1].wait(5.0)
    assert not read[2].is_set()


def test_what_reading_ahead_raises():
    def values():
        yield 1
        raise OSError("gone")

    rest = ahead(values())
    assert next(rest) == 1
    with pytest.raises(OSError, match="gone"):
        next(rest)
