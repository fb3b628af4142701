"""What is wrong with data or clusters is one line, shows nothing, and releases nothing."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import pabi
from pabi.integrations.dask import partitions, tasks, train, workers
from pabi.integrations.dask.blocks import blocks_of
from pabi.integrations.dask.partitions import Declared, PartialSum, Recipe
from pabi.integrations.dask.sums import ClusterGradients
from pabi.integrations.dask.values import Hidden
from pabi.numbers.errors import InvalidInput
from support.clusters import IN_PROCESS
from support.large import features, frame_of, labels, package, write_parts

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
N = 600
X = features(N)
Y = labels(X)
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0),
    n=N,
    batches=pabi.ShuffleOnce(200),
    epochs=1,
    step_size=0.5,
    noise_std=0.1,
)
OWN = pabi.NoisySGD(
    pabi.Loss.unknown(),
    n=N,
    batches=pabi.Cyclic(300),
    epochs=1,
    step_size=0.5,
    noise_std=0.1,
    clip_norm=1.0,
)
SECRET = 4321.125


def array(table, rows=200):
    return package("dask.array").from_array(table, chunks=(rows, -1)[: table.ndim])


def frame(**others):
    return package("dask.dataframe").from_pandas(frame_of(X, **others), npartitions=3)


def refused(client, X, y, run=RUN, **options):
    """The one line of a refusal."""
    with pytest.raises(InvalidInput) as no:
        train(run, X, y, client=client, **options)
    assert "\n" not in str(no.value)
    return str(no.value)


def with_nan(table):
    table = table.copy()
    table[-1, 2] = np.nan
    return table


def narrow_at_the_end(frame, partition_info=None):
    return frame.drop(columns="x3") if partition_info["number"] == 2 else frame


def words_at_the_end(frame, partition_info=None):
    return (
        frame.astype({"x3": object}).assign(x3="word") if partition_info["number"] == 2 else frame
    )


def dates_at_the_end(frame, partition_info=None):
    return frame.astype({"x3": "M8[s]"}) if partition_info["number"] == 2 else frame


def changed(function):
    data = frame(y=Y)
    return data.map_partitions(function, meta=data._meta, enforce_metadata=False)


def blocks(*tables):
    """An array whose blocks are other than it says."""
    dask, arrays = package("dask"), package("dask.array")
    parts = [
        arrays.from_delayed(
            dask.delayed(table), (200, 5), np.float64, name=f"block-{i}-{id(table)}"
        )
        for i, table in enumerate(tables)
    ]
    return arrays.concatenate(parts)


BAD_ROWS = {
    "NaN in the last partition": (lambda: (array(with_nan(X)), Y), "X: .*NaN.*partition 2"),
    "NaN in the last part of a frame": (
        lambda: (
            package("dask.dataframe").from_pandas(frame_of(with_nan(X), y=Y), npartitions=3),
            "y",
        ),
        "X: .*NaN.*partition 2",
    ),
    "a column is missing in a partition": (
        lambda: (changed(narrow_at_the_end), "y"),
        "X: .*columns.*partition 2",
    ),
    "words in a partition": (lambda: (changed(words_at_the_end), "y"), "X: .*numbers.*partition 2"),
    "dates in a partition": (lambda: (changed(dates_at_the_end), "y"), "X: .*numbers.*partition 2"),
    "a block is narrower": (
        lambda: (blocks(X[:200], X[200:400], X[400:, :4]), Y),
        "X: .*partition 2",
    ),
    "a block is shorter": (
        lambda: (blocks(X[:200], X[200:400], X[400:-1]), Y),
        "y: .*rows.*partition 2",
    ),
    "other labels in a partition": (
        lambda: (array(X), np.where(np.arange(N) < 400, Y, 2 * Y - 1)),
        "y: .*all in",
    ),
    "labels that are none": (lambda: (array(X), 2 * Y), "y: .*partition 0"),
    "fewer targets": (lambda: (array(X), Y[:-1]), "y: .*as many rows"),
    "fewer targets in a collection": (lambda: (array(X), array(Y[:-1])), "y: .*as many rows"),
    "other partitions": (lambda: (frame(), array(Y, 150)), "y: expected 3 partitions.*got 4"),
    "targets in memory beside a frame": (lambda: (frame(), Y), "y: expected the name of a column"),
    "no such column": (lambda: (frame(y=Y), "z"), "y: .*one column.*'z'"),
    "a name beside an array": (lambda: (array(X), "y"), "y: .*without names"),
    "words as a feature": (lambda: (frame(y=Y, z=["word"] * N), "y"), "X: .*'z'"),
    "rows in memory": (lambda: (X, Y), "X: .*from_array.*ndarray"),
    "no file": (lambda: ("nowhere/*.parquet", "y"), "X: .*nothing at"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_refused(client, case):
    make, line = BAD_ROWS[case]
    got = refused(client, *make())

    assert re.search(line, got), got


def test_files_that_differ_are_refused(client, tmp_path):
    parts = write_parts(tmp_path / "parts", frame_of(X, y=Y))
    last = frame_of(X[:10], y=Y[:10])
    last.drop(columns="x2").to_parquet(parts / "part-2.parquet")
    line = refused(client, str(parts), "y")
    assert "part-2.parquet: expected one column 'x2'" in line
    last.assign(x2="word").to_parquet(parts / "part-2.parquet")
    assert "part-2.parquet: expected" in refused(client, str(parts), "y")
    last.assign(x2=np.nan).astype({"x2": "f4"}).to_parquet(parts / "part-2.parquet")
    assert "NaN" in refused(client, str(parts), "y")
    (parts / "part-2.parquet").write_bytes(b"PAR1")
    assert "part-2.parquet: cannot be read" in refused(client, str(parts), "y")


RUNS = {
    "another n": (
        {
            "run": pabi.NoisySGD(
                RUN.loss, n=N + 1, batches=pabi.FullBatch(), epochs=1, step_size=0.5, noise_std=0.1
            )
        },
        "n: expected 600",
    ),
    "no gradients": ({"run": OWN}, "per_record_gradients: missing"),
    "no callable": (
        {"run": OWN, "per_record_gradients": 1},
        "per_record_gradients: expected a callable",
    ),
    "no classes": (
        {
            "run": pabi.NoisySGD(
                pabi.Loss.softmax(1.0),
                n=N,
                batches=pabi.FullBatch(),
                epochs=1,
                step_size=0.5,
                noise_std=0.1,
            )
        },
        "x0: expected shape",
    ),
    "an intercept alone": ({"intercept_scaling": 1.0}, "feature_norm: missing"),
    "longer rows": (
        {"feature_norm": 1.0, "intercept_scaling": 1.0},
        "feature_norm: expected at least",
    ),
    "another start": ({"x0": np.zeros(4)}, "theta: expected shape"),
    "no users": (
        {
            "run": pabi.NoisySGD(
                RUN.loss,
                n=50,
                batches=pabi.FullBatch(),
                epochs=1,
                step_size=0.5,
                noise_std=0.1,
                unit="user",
            )
        },
        "groups: missing",
    ),
    "weights of gradients of one's own": (
        {"run": OWN, "per_record_gradients": len, "weights": np.ones(N)},
        "weights: expected None",
    ),
    "weights above 1": ({"weights": np.full(N, 1.5)}, "weights: expected numbers in [0, 1]"),
    "fewer weights": ({"weights": np.ones(N - 1)}, "weights: expected as many rows"),
    "a name of weights beside an array": ({"weights": "w"}, "weights: expected cells"),
    "two ways": (
        {"run": OWN, "per_record_gradients": len, "ranges": (0, 1)},
        "ranges: expected None",
    ),
}


@pytest.mark.parametrize("case", RUNS)
def test_bad_settings_are_refused(client, case):
    options, line = RUNS[case]
    assert refused(client, array(X), Y, **options).startswith(line)


def test_bad_clients_are_refused(client, monkeypatch):
    assert refused(None, array(X), Y) == "client: expected a distributed.Client, got a NoneType"
    monkeypatch.setattr(workers, "__version__", "0.0.9")
    assert "client: expected pabi 0.0.9 on every worker" in refused(client, array(X), Y)


def test_workers_that_compute_in_other_ways_are_refused(client, monkeypatch):
    results = iter(["sums 1"] * 3 + ["sums 2"] * 3)
    monkeypatch.setattr(partitions, "arithmetic", partial(next, results))
    assert "client: expected workers that compute alike" in refused(client, array(X), Y)


def test_arithmetic_is_the_same_in_another_process():
    script = "from pabi.integrations.dask.workers import arithmetic; print(arithmetic())"
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == workers.arithmetic()


def gradients_of(client, table, y):
    """The gradients of the loss, from partitions of a cluster."""
    blocks = blocks_of(table, y)
    loss = pabi.describe.linear_losses.executable("logistic")
    return ClusterGradients(client, Recipe(RUN, blocks.columns, Declared(1.0), loss=loss), blocks)


def lose_the_holder(cluster, client):
    """Closes the worker that holds the only partition."""
    holder = next(address for address, keys in client.has_what().items() if keys)
    worker = next(one for one in cluster.workers.values() if one.address == holder)
    client.sync(worker.close, nanny=False, reason="it is lost")


def test_rows_that_change_are_refused(tmp_path):
    """A worker is lost, and its partition is read again."""
    distributed = package("distributed")
    np.save(tmp_path / "X.npy", X)
    with (
        distributed.LocalCluster(n_workers=3, **IN_PROCESS) as cluster,
        distributed.Client(cluster) as client,
    ):
        total = gradients_of(client, str(tmp_path / "X.npy"), Y).sum_for(RUN, None)
        before = total(np.zeros(5), slice(0, N))
        lose_the_holder(cluster, client)
        assert np.array_equal(total(np.zeros(5), slice(0, N)), before)
        np.save(tmp_path / "X.npy", 0.5 * X)
        lose_the_holder(cluster, client)
        with pytest.raises(InvalidInput, match="^X: it changed while it was read.*partition 0"):
            total(np.zeros(5), slice(0, N))


def test_a_cluster_that_is_gone_is_one_line():
    distributed = package("distributed")
    with distributed.LocalCluster(n_workers=1, **IN_PROCESS) as cluster:
        client = distributed.Client(cluster)
        gradients = gradients_of(client, array(X), Y)
        client.close()
    with pytest.raises(InvalidInput, match="^client: "):
        gradients.sum_for(RUN, None)(np.zeros(5), slice(0, N))


@pytest.mark.parametrize("name", ["training", "chain"])
def test_workers_that_are_all_gone_are_waited_for_so_long(name, monkeypatch):
    """They were there when they were looked for; nobody makes the rest of the work."""
    monkeypatch.setattr(workers, "_PATIENCE", 0.2)
    monkeypatch.setattr(workers, "_LOOK", 0.1)
    distributed = package("distributed")
    with (
        distributed.LocalCluster(n_workers=1, **IN_PROCESS) as cluster,
        distributed.Client(cluster) as client,
    ):
        if name == "training":
            ask = partial(gradients_of(client, array(X), Y).sum_for(RUN, None), np.zeros(5))
            lose_the_holder(cluster, client)
            with pytest.raises(InvalidInput, match=r"^client: expected workers, got none for 0.2"):
                ask(slice(0, N))
        else:
            parts = tasks.Cluster(client, "part", "nothing")
            (worker,) = cluster.workers.values()
            client.sync(worker.close, nanny=False, reason="it is lost")
            with pytest.raises(InvalidInput, match=r"^client: expected workers, got none for 0.2"):
                list(parts.results(abs, [1, 2]))


def test_clients_that_are_closed_are_said_to_be():
    distributed = package("distributed")
    with distributed.LocalCluster(n_workers=1, **IN_PROCESS) as cluster:
        client = distributed.Client(cluster)
        client.close()
        line = "client: expected one that is connected, got one that is closed"
        assert refused(client, array(X), Y) == line


def test_no_workers_at_all(monkeypatch):
    monkeypatch.setattr(workers, "_PATIENCE", 0.2)
    distributed = package("distributed")
    with (
        distributed.LocalCluster(n_workers=0, **IN_PROCESS) as cluster,
        distributed.Client(cluster) as client,
    ):
        line = "client: expected a worker within 0.2 seconds, got none"
        assert refused(client, array(X), Y) == line


def fails(x, rows, targets):
    raise ValueError(f"the iterate is {SECRET + x[0]}, the row {rows[0]}")


def too_few(x, rows, targets):
    return rows[1:]


def without_end(x, rows, targets):
    return rows * np.inf


@pytest.mark.parametrize("own", [fails, too_few, without_end])
def test_failing_gradients_show_nothing(client, own, caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        line = refused(
            client,
            array(X),
            Y,
            OWN,
            per_record_gradients=own,
            x0=np.full(5, SECRET),
            random_state=0,
        )
    shown = line + caplog.text + "".join(capfd.readouterr())
    assert str(SECRET) not in shown
    assert str(2 * SECRET) not in shown
    assert "array(" not in caplog.text


def test_nothing_of_a_task_shows():
    point, part = Hidden(np.full(3, SECRET)), PartialSum(("a", 1, 2), 3, 4, "b", np.full(3, SECRET))
    assert str(SECRET) not in repr([point, part])


@pytest.mark.parametrize(
    "change",
    [
        lambda place: (place[0], place[1] - 1, place[2]),
        lambda place: (place[0], place[1], place[2] + 1),
        lambda place: ("another training", *place[1:]),
    ],
    ids=["late", "another partition", "another training"],
)
def test_the_sum_of_another_step_is_never_counted(client, monkeypatch, change):
    """What a worker returns says what it is a part of."""
    gradients = gradients_of(client, array(X), Y)
    made = partitions.partial_sum

    def other(partition, place, rows, point):
        return made(partition, change(place), rows, point)

    monkeypatch.setattr("pabi.integrations.dask.sums.partial_sum", other)
    with pytest.raises(InvalidInput, match="^client: a worker answered another question"):
        gradients.sum_for(RUN, None)(np.zeros(5), slice(0, N))


def test_every_row_is_in_one_part(client):
    """The parts of random batches are the batch: none is missing, none is twice."""
    gradients = gradients_of(client, array(X, 170), Y)
    total = gradients.sum_for(RUN, None)
    rng = np.random.default_rng(0)
    for size in (1, 7, 300, N):
        batch = rng.permutation(N)[:size]
        rows = [
            first + np.r_[own] if isinstance(own, slice) else first + own
            for part, own, _ in total._parts(batch)
            for first in [int(gradients.ends[part] - np.diff(gradients.ends, prepend=0)[part])]
        ]
        assert np.array_equal(np.sort(np.concatenate(rows)), np.sort(batch))
