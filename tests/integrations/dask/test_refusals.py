"""What is wrong with data or clusters is one line, shows nothing, and releases nothing."""

import logging
import os
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import pabi
from pabi.integrations.dask import sums, tasks, train
from pabi.integrations.dask.blocks import blocks_of, read_at_once
from pabi.integrations.dask.sums import ClusterGradients, Declared, PartialSum, Recipe
from pabi.integrations.dask.tasks import Hidden
from pabi.numbers.errors import InvalidInput
from support.clusters import small_cluster
from support.every_case import every, refused
from support.large import features, frame_of, labels, package, write_parts

N = 600
X = features(N)
Y = labels(X)


def run_of(loss, batches, n=N, **options):
    return pabi.NoisySGD(loss, n, batches, 1, step_size=0.5, noise_std=0.1, **options)


LOGISTIC, FULL = pabi.Loss.logistic(feature_norm=1.0), pabi.FullBatch()
RUN = run_of(LOGISTIC, pabi.ShuffleOnce(200))
OWN = run_of(pabi.Loss.unknown(), pabi.Cyclic(300), clip_norm=1.0)
SECRET = 4321.125


def array(table, rows=200):
    return package("dask.array").from_array(table, chunks=(rows, -1)[: table.ndim])


def frame(X=X, **others):
    return package("dask.dataframe").from_pandas(frame_of(X, **others), npartitions=3)


def with_nan(table):
    table = table.copy()
    table[-1, 2] = np.nan
    return table


def masked(table):
    """Its last cell is missing, and there is a number below the mask."""
    cells = np.ma.array(table, mask=np.arange(table.size).reshape(table.shape) == table.size - 1)
    chunks = (200, -1)[: table.ndim]
    return package("dask.array").from_array(cells, chunks=chunks, asarray=False)


def refusal_of(client, X, y, run=RUN, **options):
    """The one line of a refusal."""
    with pytest.raises(InvalidInput) as no:
        train(run, X, y, client=client, **options)
    assert "\n" not in str(no.value)
    return str(no.value)


def changed_at_the_end(change):
    """A frame whose last partition is other than it says."""
    data = frame(y=Y)

    def own(frame, partition_info=None):
        return change(frame) if partition_info["number"] == 2 else frame

    return data.map_partitions(own, meta=data._meta, enforce_metadata=False)


def blocks(*tables):
    """An array whose blocks are other than it says."""
    dask, arrays = package("dask"), package("dask.array")

    def block(i, table):
        name = f"block-{i}-{id(table)}"
        return arrays.from_delayed(dask.delayed(table), (200, 5), np.float64, name=name)

    return arrays.concatenate([block(i, table) for i, table in enumerate(tables)])


def last_partition(change):
    return lambda: (changed_at_the_end(change), "y")


# (rows and targets, the words of their refusal)
BAD_ROWS = [
    (lambda: (array(with_nan(X)), Y), "X: .*NaN.*partition 2"),
    (lambda: (frame(with_nan(X), y=Y), "y"), "X: .*NaN.*partition 2"),
    (lambda: (masked(X), Y), "X: .*NaN.*partition 2"),
    (lambda: (array(X), masked(Y)), "y: .*other objects.*partition 2"),
    (last_partition(lambda rows: rows.drop(columns="x3")), "X: .*columns.*partition 2"),
    (last_partition(lambda rows: rows.assign(x3="word")), "X: .*numbers.*partition 2"),
    (last_partition(lambda rows: rows.astype({"x3": "M8[s]"})), "X: .*numbers.*partition 2"),
    (lambda: (blocks(X[:200], X[200:400], X[400:, :4]), Y), "X: .*partition 2"),
    (lambda: (blocks(X[:200], X[200:400], X[400:-1]), Y), "y: .*rows.*partition 2"),
    (lambda: (array(X), np.where(np.arange(N) < 400, Y, 2 * Y - 1)), "y: .*all in"),
    (lambda: (array(X), 2 * Y), "y: .*partition 0"),
    (lambda: (array(X), Y[:-1]), "y: .*as many rows"),
    (lambda: (array(X), array(Y[:-1])), "y: .*as many rows"),
    (lambda: (frame(), array(Y, 150)), "y: expected 3 partitions.*got 4"),
    (lambda: (frame(), Y), "y: expected the name of a column"),
    (lambda: (frame(y=Y), "z"), "y: .*one column.*'z'"),
    (lambda: (array(X), "y"), "y: .*without names"),
    (lambda: (frame(y=Y, z=["word"] * N), "y"), "X: .*'z'"),
    (lambda: (X, Y), "X: .*from_array.*ndarray"),
    (lambda: ("nowhere/*.parquet", "y"), "X: .*nothing at"),
]


@every("make, line", BAD_ROWS)
def test_bad_rows_are_refused(client, make, line):
    got = refusal_of(client, *make())
    assert re.search(line, got), got


def test_files_that_differ_are_refused(client, tmp_path):
    parts = write_parts(tmp_path / "parts", frame_of(X, y=Y))
    last, file = frame_of(X[:10], y=Y[:10]), parts / "part-2.parquet"
    for change, words in (
        (last.drop(columns="x2"), "part-2.parquet: expected one column 'x2'"),
        (last.assign(x2="word"), "part-2.parquet: expected"),
        (last.assign(x2=np.nan).astype({"x2": "f4"}), "NaN"),
    ):
        change.to_parquet(file)
        assert words in refusal_of(client, str(parts), "y")
    file.write_bytes(b"PAR1")
    assert "part-2.parquet: cannot be read" in refusal_of(client, str(parts), "y")


def written_again(file):
    """The same rows, in another order, at another time."""
    package("pandas").read_parquet(file).iloc[::-1].to_parquet(file)
    os.utime(file, ns=(0, 0))


def test_features_and_targets_of_a_partition_are_of_one_state_of_its_file(tmp_path):
    """A worker reads one after the other: records would have the targets of others."""
    file = write_parts(tmp_path / "parts", frame_of(X, y=Y)) / "part-0.parquet"
    (cells, *_) = blocks_of(str(file), "y").parts
    assert len(read_at_once(cells)[1]) == 200

    def and_then(path):
        read = cells[0]()
        written_again(path)
        return read

    assert "it changed while it was read" in refused(
        "X", read_at_once, [partial(and_then, cells[0].args[0]), *cells[1:]]
    )


@every("kind", ["files", "features", "targets"])
def test_partitions_are_of_one_state_of_their_files(client, tmp_path, monkeypatch, kind):
    """A record that is moved to another file meanwhile would be read from both."""
    files = write_parts(tmp_path / kind, frame_of(X, y=Y))
    np.save(files / "X.npy", X)
    np.save(files / "y.npy", Y)
    names = {"files": "part-2.parquet", "features": "X.npy", "targets": "y.npy"}
    table = str(files) if kind == "files" else str(files / "X.npy")
    targets = "y" if kind == "files" else str(files / "y.npy")
    summarised = ClusterGradients._summarised

    def and_then(gradients):
        os.utime(files / names[kind], ns=(0, 0))
        return summarised(gradients)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ClusterGradients, "_summarised", and_then)
        assert "it changed while it was read" in refusal_of(client, table, targets)


OWN_GRADIENTS = {"run": OWN, "per_record_gradients": len}
# (settings, how the refusal begins)
BAD_SETTINGS = [
    ({"run": run_of(LOGISTIC, FULL, N + 1)}, "n: expected 600"),
    ({"run": OWN}, "per_record_gradients: missing"),
    ({"run": OWN, "per_record_gradients": 1}, "per_record_gradients: expected a callable"),
    ({"run": run_of(pabi.Loss.softmax(1.0), FULL)}, "x0: expected shape"),
    ({"intercept_scaling": 1.0}, "feature_norm: missing"),
    ({"feature_norm": 1.0, "intercept_scaling": 1.0}, "feature_norm: expected at least"),
    ({"x0": np.zeros(4)}, "theta: expected shape"),
    ({"run": run_of(LOGISTIC, FULL, 50, unit="user")}, "groups: missing"),
    ({**OWN_GRADIENTS, "weights": np.ones(N)}, "weights: expected None"),
    ({"weights": np.full(N, 1.5)}, "weights: expected numbers in [0, 1]"),
    ({"weights": np.ones(N - 1)}, "weights: expected as many rows"),
    ({"weights": "w"}, "weights: expected cells"),
    ({"groups": array(Y)}, "groups: expected ids in memory"),
    ({**OWN_GRADIENTS, "ranges": (0, 1)}, "ranges: expected None"),
]


@every("options, line", BAD_SETTINGS)
def test_bad_settings_are_refused(client, options, line):
    assert refusal_of(client, array(X), Y, **options).startswith(line)


def test_bad_clients_are_refused(client, monkeypatch):
    assert refusal_of(None, array(X), Y) == "client: expected a distributed.Client, got a NoneType"
    monkeypatch.setattr(tasks, "__version__", "0.0.9")
    assert "client: expected pabi 0.0.9 on every worker" in refusal_of(client, array(X), Y)


def test_workers_that_compute_in_other_ways_are_refused(client, monkeypatch):
    results = iter(["sums 1"] * 3 + ["sums 2"] * 3)
    monkeypatch.setattr(sums, "arithmetic", partial(next, results))
    assert "client: expected workers that compute alike" in refusal_of(client, array(X), Y)


def test_arithmetic_is_the_same_in_another_process():
    script = "from pabi.integrations.dask.tasks import arithmetic; print(arithmetic())"
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == tasks.arithmetic()


def gradients_of(client, table, y):
    """The gradients of the loss, from partitions of a cluster."""
    blocks = blocks_of(table, y)
    loss = pabi.describe.vector_losses.executable("logistic")
    return ClusterGradients(client, Recipe(RUN, blocks.columns, Declared(1.0), loss=loss), blocks)


def lose_the_holder(cluster, client):
    """Closes the worker that holds the only partition."""
    holder = next(address for address, keys in client.has_what().items() if keys)
    worker = next(one for one in cluster.workers.values() if one.address == holder)
    client.sync(worker.close, nanny=False, reason="it is lost")


def test_rows_that_change_are_refused(tmp_path):
    """A worker is lost, and its partition is read again."""
    np.save(tmp_path / "X.npy", X)
    with small_cluster(3) as (cluster, client):
        total = gradients_of(client, str(tmp_path / "X.npy"), Y).sum_for(RUN, None)
        before = total(np.zeros(5), slice(0, N))
        lose_the_holder(cluster, client)
        assert np.array_equal(total(np.zeros(5), slice(0, N)), before)
        np.save(tmp_path / "X.npy", 0.5 * X)
        lose_the_holder(cluster, client)
        with pytest.raises(InvalidInput, match="^X: it changed while it was read.*partition 0"):
            total(np.zeros(5), slice(0, N))


def test_a_cluster_that_is_gone_is_one_line():
    with small_cluster(1) as (_, client):
        gradients = gradients_of(client, array(X), Y)
        client.close()
        line = "client: expected one that is connected, got one that is closed"
        assert refusal_of(client, array(X), Y) == line
    refused("client", gradients.sum_for(RUN, None), np.zeros(5), slice(0, N))


def test_workers_that_are_all_gone_are_waited_for_so_long(monkeypatch):
    """They were there when they were looked for; nobody makes the rest of the work."""
    monkeypatch.setattr(tasks, "_PATIENCE", 0.2)
    monkeypatch.setattr(tasks, "_LOOK", 0.1)
    line = r"^client: expected workers, got none for 0.2"
    with small_cluster(1) as (cluster, client):
        parts = tasks.Cluster(client, "part", "nothing")
        total = gradients_of(client, array(X), Y).sum_for(RUN, None)
        lose_the_holder(cluster, client)
        with pytest.raises(InvalidInput, match=line):
            total(np.zeros(5), slice(0, N))
        with pytest.raises(InvalidInput, match=line):
            list(parts.results(abs, [1, 2]))
        line = "client: expected a worker within 0.2 seconds, got none"
        assert refusal_of(client, array(X), Y) == line


def fails(x, rows, targets):
    raise ValueError(f"the iterate is {SECRET + x[0]}, the row {rows[0]}")


@every("own", [fails, lambda x, rows, y: rows[1:], lambda x, rows, y: rows * np.inf])
def test_failing_gradients_show_nothing(client, own, caplog, capfd):
    given = {"per_record_gradients": own, "x0": np.full(5, SECRET), "random_state": 0}
    with caplog.at_level(logging.DEBUG):
        line = refusal_of(client, array(X), Y, OWN, **given)
    shown = line + caplog.text + "".join(capfd.readouterr())
    assert str(SECRET) not in shown
    assert str(2 * SECRET) not in shown
    assert "array(" not in caplog.text


def test_nothing_of_a_task_shows():
    point, part = Hidden(np.full(3, SECRET)), PartialSum(("a", 1, 2), 3, 4, "b", np.full(3, SECRET))
    assert str(SECRET) not in repr([point, part])


OTHER_PLACES = [  # late, of another partition, of another training
    lambda place: (place[0], place[1] - 1, place[2]),
    lambda place: (place[0], place[1], place[2] + 1),
    lambda place: ("another training", *place[1:]),
]


def test_the_sum_of_another_step_is_never_counted(client, monkeypatch):
    """What a worker returns says what it is a part of."""
    gradients = gradients_of(client, array(X), Y)
    made = sums.partial_sum
    for change in OTHER_PLACES:

        def other(partition, place, rows, point, change=change):
            return made(partition, change(place), rows, point)

        monkeypatch.setattr("pabi.integrations.dask.sums.partial_sum", other)
        with pytest.raises(InvalidInput, match="^client: a worker answered another question"):
            gradients.sum_for(RUN, None)(np.zeros(5), slice(0, N))
