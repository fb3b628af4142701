"""Training on a cluster is training in memory, whatever the source, the batches and the loss."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi.integrations.dask import train
from pabi.integrations.dask.sums import TRUSTED, _ClusterSum
from pabi.learn import (
    LargeTable,
    LogisticGradients,
    Records,
    SoftmaxGradients,
    VectorHuberGradients,
)
from pabi.learn import train as train_in_memory
from pabi.numbers.errors import InvalidInput
from support.clusters import assert_forgotten
from support.large import NAMES, features, frame_of, labels, package, write_parts

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
N, B = 2_000, 300
X = features(N)
Y = labels(X)
CLASSES = np.digitize(X[:, 0], [-0.2, 0.2])
LOGISTIC = pabi.Loss.logistic(feature_norm=1.0)
SCHEMES = [
    pabi.ShuffleOnce(B),
    pabi.Reshuffle(B),
    pabi.FullBatch(),
    pabi.Cyclic(B),
    pabi.FixedSize(B),
    pabi.Poisson(B),
    pabi.BallsInBins(B, cap=2 * B),
]


def run_of(loss=LOGISTIC, batches=SCHEMES[0], **options):
    options = {"n": N, "epochs": 1, "step_size": 0.5, "noise_std": 0.1} | options
    return pabi.NoisySGD(loss, batches=batches, **options)


def array(table, rows=450, columns=-1):
    """An array of dask's in blocks that end in odd places."""
    return package("dask.array").from_array(table, chunks=(rows, columns)[: table.ndim])


def frame(partitions=3, **others):
    return package("dask.dataframe").from_pandas(frame_of(X, **others), npartitions=partitions)


def in_memory(run, gradients=None, **options):
    own = LogisticGradients(Records(X, 1.0), Y) if gradients is None else gradients
    return train_in_memory(run, own, np.zeros(own.shape), 3, **options).x


def assert_same(one, other):
    assert np.max(np.abs(one - other)) <= 1e-12 * np.max(np.abs(other))


def saved(folder, name, table):
    np.save(folder / name, table)
    return str(folder / name)


def parts(folder, ending="parquet"):
    return write_parts(folder / "parts", frame_of(X, y=Y), ending)


SOURCES = {
    "array and array": lambda folder: (array(X, 450, 2), array(Y)),
    "array and other chunks": lambda folder: (array(X), array(Y, 777)),
    "array and memory": lambda folder: (array(X), Y),
    "frame and column": lambda folder: (frame(y=Y), "y"),
    "frame and series": lambda folder: (frame(), frame(y=Y)["y"]),
    "frame and array": lambda folder: (frame(5), array(Y, 400)),
    "a large table": lambda folder: (LargeTable(frame(y=Y, z=Y), columns=NAMES), "y"),
    "parquet": lambda folder: (str(parts(folder)), "y"),
    "pattern": lambda folder: (f"{parts(folder, 'feather')}/*.feather", "y"),
    "dataset": lambda folder: (package("pyarrow.dataset").dataset(parts(folder)), "y"),
    "npy": lambda folder: (saved(folder, "X.npy", X), saved(folder, "y.npy", Y)),
    "mapped": lambda folder: (np.load(saved(folder, "X.npy", X), mmap_mode="r"), Y),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_trains_the_same(client, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(
        "pabi.integrations.dask.blocks._TOGETHER", 10_000
    )  # several parts of a file
    table, targets = SOURCES[kind](tmp_path)
    run = run_of()
    trained = train(run, table, targets, client=client, random_state=3)
    assert_same(trained.x, in_memory(run))
    assert TRUSTED in trained.guarantee.assumptions
    assert trained.guarantee.assuming().curve == run.guarantee(1e-5).curve


@pytest.mark.parametrize("batches", SCHEMES, ids=lambda scheme: scheme.kind)
def test_every_scheme_trains_the_same(client, batches):
    run = run_of(batches=batches)
    assert_same(train(run, array(X), Y, client=client, random_state=3).x, in_memory(run))


def test_momentum_trains_the_same(client):
    run = run_of(update=pabi.updates.Momentum(0.9), batches=pabi.Poisson(B))
    assert_same(train(run, array(X), Y, client=client, random_state=3).x, in_memory(run))


def test_softmax_trains_the_same(client):
    run = run_of(pabi.Loss.softmax(1.0), clip_norm=0.5, clipping="residual")
    start = np.zeros((5, 3))
    trained = train(run, array(X), CLASSES, client=client, x0=start, random_state=3)
    assert_same(trained.x, in_memory(run, SoftmaxGradients(Records(X, 1.0), CLASSES, 3)))


def test_several_targets_train_the_same(client):
    run = run_of(pabi.Loss.vector_huber(1.0, threshold=1.0))
    trained = train(run, array(X), array(X[:, 2:4], 450, 1), client=client, random_state=3)
    own = VectorHuberGradients(Records(X, 1.0), X[:, 2:4], 1.0)
    assert_same(trained.x, in_memory(run, own))


def test_declared_rows_train_the_same(client):
    declared = {"feature_norm": 0.7, "intercept_scaling": 0.6, "ranges": (-2.0, 2.0)}
    run = run_of()
    trained = train(run, array(X), Y, client=client, random_state=3, **declared)
    assert_same(trained.x, in_memory(run, LogisticGradients(Records(X, **declared), Y)))


def test_clipped_coordinates_train_the_same(client):
    run = run_of(clip_norm=0.3, clipping="coordinates")
    assert_same(train(run, array(X), Y, client=client, random_state=3).x, in_memory(run))


@pytest.mark.parametrize(
    "batches", [pabi.ShuffleOnce(50), pabi.Poisson(50)], ids=["order", "fresh"]
)
def test_users_train_the_same(client, batches):
    users = np.random.default_rng(1).integers(0, 400, N)
    run = run_of(n=400, batches=batches, unit="user")
    trained = train(run, array(X), Y, client=client, random_state=3, groups=users)
    assert_same(trained.x, in_memory(run, groups=users))


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_a_part_without_rows_is_nothing(client, tmp_path, empty):
    folder = tmp_path / "parts"
    write_parts(folder, frame_of(X, y=Y), parts=2)
    for number in (1, 0):
        if number >= empty:
            (folder / f"part-{number}.parquet").rename(folder / f"part-{number + 1}.parquet")
    frame_of(X, y=Y).iloc[:0].to_parquet(folder / f"part-{empty}.parquet")
    run = run_of(batches=pabi.Poisson(B))
    trained = train(run, str(folder), "y", client=client, random_state=3)
    assert_same(trained.x, in_memory(run))


@pytest.mark.parametrize("rows", [N, 1], ids=["one partition", "one row each"])
def test_batches_of_users_without_rows_train_as_any_other(client, rows, tmp_path):
    """Nine of ten users have no rows: most batches are of them alone, and the run is charged as any other."""
    few = slice(0, 4)
    users = np.array([3, 3, 17, 30])
    run = run_of(n=40, batches=pabi.ShuffleOnce(2), unit="user")
    ledger = pabi.Ledger(tmp_path / "a.ledger", 1e4, 1e-5, unit="user")
    trained = train(
        run,
        array(X[few], rows),
        Y[few],
        client=client,
        random_state=3,
        groups=users,
        ledger=ledger,
    )
    gradients = LogisticGradients(Records(X[few], 1.0), Y[few])
    assert_same(trained.x, in_memory(run, gradients, groups=users))
    assert len(ledger.report().entries) == 1


W = np.random.default_rng(4).uniform(0.0, 1.0, N)
WEIGHTED = {
    "in memory": lambda folder: (array(X), Y, W),
    "array": lambda folder: (array(X), array(Y), array(W, 700)),
    "column of a frame": lambda folder: (frame(y=Y, w=W), "y", "w"),
    "series": lambda folder: (frame(y=Y), "y", frame(w=W)["w"]),
    "column of files": lambda folder: (
        str(write_parts(folder / "parts", frame_of(X, y=Y, w=W))),
        "y",
        "w",
    ),
    "npy": lambda folder: (
        saved(folder, "X.npy", X),
        saved(folder, "y.npy", Y),
        saved(folder, "w.npy", W),
    ),
}


@pytest.mark.parametrize("kind", WEIGHTED)
def test_weights_train_the_same(client, tmp_path, kind):
    table, targets, weights = WEIGHTED[kind](tmp_path)
    run = run_of(batches=pabi.Poisson(B))
    trained = train(run, table, targets, client=client, weights=weights, random_state=3)
    weighted = LogisticGradients(Records(X, 1.0), Y).weighted(W)
    assert_same(trained.x, in_memory(run, weighted))
    assert np.max(np.abs(trained.x - in_memory(run))) > 1e-3


def test_weights_of_users_train_the_same(client):
    users = np.random.default_rng(1).integers(0, 400, N)
    run = run_of(n=400, batches=pabi.ShuffleOnce(50), unit="user")
    trained = train(run, array(X), Y, client=client, random_state=3, groups=users, weights=W)
    weighted = LogisticGradients(Records(X, 1.0), Y).weighted(W)
    assert_same(trained.x, in_memory(run, weighted, groups=users))


def own_gradients(x, rows, targets):
    return np.tanh(rows @ x - targets)[:, None] * rows


def test_gradients_of_ones_own_train_the_same(client):
    run = run_of(pabi.Loss.unknown(), clip_norm=0.2)
    trained = train(
        run,
        array(X),
        X[:, 1].copy(),
        client=client,
        per_record_gradients=own_gradients,
        x0=np.zeros(5),
        random_state=3,
    )
    expected = train_in_memory(
        run, lambda x, rows: own_gradients(x, X[rows], X[rows, 1]), np.zeros(5), 3
    )
    assert_same(trained.x, expected.x)


def test_partitions_without_rows_are_left_out(client):
    data = frame(y=Y)
    run = run_of(n=int(np.sum(X[:, 0] > 1e3)) + N)
    joined = package("dask.dataframe").concat([data[data["x0"] > 1e3], data])
    trained = train(run, joined, "y", client=client, random_state=3)
    assert_same(trained.x, in_memory(run))


def test_a_run_goes_on_from_its_checkpoint(client, tmp_path, monkeypatch):
    """With the noise switched off, in a known order, nothing is random."""
    monkeypatch.setattr("pabi.execute.engine.noise_factor", lambda run: 0.0)
    run, file = run_of(batches=pabi.Cyclic(B), epochs=2), tmp_path / "checkpoint"

    class Stop(Exception):
        pass

    def stop(self, state):
        if self._file is not None:
            self._file.write(state)
        if state.step == 5:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("pabi.execute.engine._Aftermath.__call__", stop)
        with pytest.raises(Stop):
            train(run, array(X), Y, client=client, checkpoint=file)
    resumed = train(run, array(X, 700), Y, client=client, resume=file)
    assert_same(resumed.x, in_memory(run))
    assert not file.exists()


def test_the_release_is_charged(client, tmp_path):
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", epsilon=50.0, delta=1e-3)
    run = run_of(noise_std=1.0)
    train(run, array(X), Y, client=client, ledger=ledger)
    assert len(ledger.report().entries) == 1
    wide = np.full((N, 5), np.nan)
    with pytest.raises(InvalidInput, match="X: .*partition 0"):
        train(run, array(wide), Y, client=client, ledger=ledger)
    assert len(ledger.report().entries) == 1


def test_a_guarantee_of_a_cluster_verifies(client):
    run = run_of(noise_std=1.0)
    assert pabi.verify(train(run, array(X), Y, client=client).guarantee).ok


def test_what_workers_hold_is_gone_afterwards(client):
    train(run_of(), array(X), Y, client=client, random_state=3)
    assert_forgotten(client)


def test_what_workers_hold_is_gone_while_somebody_looks_at_the_refusal(client):
    """The frames of its traceback still know what they asked the workers for."""
    broken = X.copy()
    broken[-1] = np.nan
    with pytest.raises(InvalidInput) as refusal:
        train(run_of(), array(broken), Y, client=client)
    assert_forgotten(client)
    assert refusal.tb is not None


def test_parts_are_added_as_exactly_as_the_proof_says():
    """Theory, 9: eleven units of relative error for any number of parts; plain addition has many more."""
    count, unit = 20_000, 2.0**-53

    class Parts:
        ends = np.arange(1, count + 1)

        def partial_sums(self, x, parts, number):
            return (np.array([0.1]) for _ in parts)

    exact = count * Fraction(0.1)
    total = _ClusterSum(Parts(), None)(np.zeros(1), slice(0, count))
    assert abs(Fraction(float(total[0])) - exact) <= 11 * unit * exact
    assert abs(Fraction(sum([0.1] * count)) - exact) > 11 * unit * exact
