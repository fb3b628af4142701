"""Training on a cluster is training in memory, whatever the source, the batches and the loss."""

from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi import learn
from pabi.execute.large_tables import APART
from pabi.integrations.dask import train
from pabi.integrations.dask.blocks import blocks_of
from pabi.integrations.dask.sums import (
    TRUSTED,
    Declared,
    _ClusterSum,
    _of_callable,
    _of_loss,
    held,
)
from pabi.learn import train as train_in_memory
from pabi.numbers.errors import InvalidInput
from support.clusters import assert_forgotten
from support.every_case import every
from support.large import NAMES, features, frame_of, labels, package, write_parts

N, B = 1_500, 300
X = features(N)
Y = labels(X)
CLASSES = np.digitize(X[:, 0], [-0.2, 0.2])
USERS = np.random.default_rng(1).integers(0, 300, N)
W = np.random.default_rng(4).uniform(0.0, 1.0, N)
LOGISTIC = pabi.Loss.logistic(feature_norm=1.0)


def run_of(loss=LOGISTIC, **options):
    fields = {"n": N, "batches": pabi.ShuffleOnce(B), "epochs": 1}
    return pabi.NoisySGD(loss, **{**fields, "step_size": 0.5, "noise_std": 0.1, **options})


def array(table, rows=450, columns=-1):
    """An array of dask's in blocks that end in odd places."""
    return package("dask.array").from_array(table, chunks=(rows, columns)[: table.ndim])


def frame(partitions=3, **others):
    return package("dask.dataframe").from_pandas(frame_of(X, **others), npartitions=partitions)


def of_logistic(**declared):
    return learn.LogisticGradients(learn.Records(X, **{"feature_norm": 1.0} | declared), Y)


def in_memory(run, gradients=None, **options):
    own = of_logistic() if gradients is None else gradients
    return train_in_memory(run, own, np.zeros(own.shape), 3, **options).x


def assert_same(one, other):
    assert np.max(np.abs(one - other)) <= 1e-12 * np.max(np.abs(other))


def saved(folder, name, table):
    np.save(folder / name, table)
    return str(folder / name)


def parts(folder, ending="parquet", **others):
    return write_parts(folder / "parts", frame_of(X, y=Y, **others), ending)


SOURCES = {
    "array and array": lambda folder: (array(X, 450, 2), array(Y)),
    "array and other chunks": lambda folder: (array(X), array(Y, 777)),
    "array and memory": lambda folder: (array(X), Y),
    "frame and column": lambda folder: (frame(y=Y), "y"),
    "frame and series": lambda folder: (frame(), frame(y=Y)["y"]),
    "frame and array": lambda folder: (frame(5), array(Y, 300)),
    "a large table": lambda folder: (learn.LargeTable(frame(y=Y, z=Y), columns=NAMES), "y"),
    "parquet": lambda folder: (str(parts(folder)), "y"),
    "pattern": lambda folder: (f"{parts(folder, 'feather')}/*.feather", "y"),
    "dataset": lambda folder: (package("pyarrow.dataset").dataset(parts(folder)), "y"),
    "npy": lambda folder: (saved(folder, "X.npy", X), saved(folder, "y.npy", Y)),
    "mapped": lambda folder: (np.load(saved(folder, "X.npy", X), mmap_mode="r"), Y),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_trains_the_same(unpriced, client, tmp_path, kind, monkeypatch):
    several_parts_of_a_file = 10_000
    monkeypatch.setattr("pabi.integrations.dask.blocks._TOGETHER", several_parts_of_a_file)
    table, targets = SOURCES[kind](tmp_path)
    run = run_of()
    assert_same(train(run, table, targets, client=client, random_state=3).x, in_memory(run))


DECLARED = {"feature_norm": 0.7, "intercept_scaling": 0.6, "ranges": (-2.0, 2.0)}
OF_USERS = {"n": 300, "unit": "user"}


def case(targets=Y, gradients=of_logistic, options=None, **described):
    return targets, gradients, options or {}, described


# A loss and batches of which rows; logistic and in a shuffled order where nothing is said.
RUNS = {
    "full": case(batches=pabi.FullBatch()),
    "Poisson": case(batches=pabi.Poisson(B)),
    "bins afresh": case(batches=pabi.BallsInBins(B, redraw="epoch"), epochs=2),
    "spare": case(batches=pabi.Reshuffle(B, N % B), epochs=2),
    "momentum": case(update=pabi.updates.Momentum(0.9), batches=pabi.Poisson(B)),
    "coordinates": case(clip_norm=0.3, clipping="coordinates"),
    "softmax": case(
        CLASSES,
        lambda: learn.SoftmaxGradients(learn.Records(X, 1.0), CLASSES, 3),
        {"x0": np.zeros((5, 3))},
        loss=pabi.Loss.softmax(1.0),
        clip_norm=0.5,
        clipping="residual",
    ),
    "several targets": case(
        lambda: array(X[:, 2:4], 450, 1),
        lambda: learn.VectorHuberGradients(learn.Records(X, 1.0), X[:, 2:4], 1.0),
        loss=pabi.Loss.vector_huber(1.0, threshold=1.0),
    ),
    "declared": case(gradients=lambda: of_logistic(**DECLARED), options=DECLARED),
    "users in order": case(batches=pabi.ShuffleOnce(50), **OF_USERS),
    "users afresh": case(batches=pabi.Poisson(50), **OF_USERS),
    "weights of users": case(
        gradients=lambda: of_logistic().weighted(W),
        options={"weights": W},
        batches=pabi.ShuffleOnce(50),
        **OF_USERS,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_run_trains_the_same(unpriced, client, name):
    targets, gradients, options, described = RUNS[name]
    run = run_of(**described)
    users = {"groups": USERS} if run.unit == "user" else {}
    targets = targets() if callable(targets) else targets
    trained = train(run, array(X), targets, client=client, random_state=3, **users, **options)
    assert_same(trained.x, in_memory(run, gradients(), **users))


def test_gradients_of_ones_own_train_the_same(unpriced, client):
    def own(x, rows, targets):
        return np.tanh(rows @ x - targets)[:, None] * rows

    run = run_of(pabi.Loss.unknown(), clip_norm=0.2)
    given = {"per_record_gradients": own, "x0": np.zeros(5), "random_state": 3}
    trained = train(run, array(X), X[:, 1].copy(), client=client, **given)

    def in_memory(x, rows):
        return own(x, X[rows], X[rows, 1])

    assert_same(trained.x, train_in_memory(run, in_memory, np.zeros(5), 3).x)


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_a_part_without_rows_is_nothing(unpriced, client, tmp_path, empty):
    folder = tmp_path / "parts"
    write_parts(folder, frame_of(X, y=Y), parts=2)
    for number in (1, 0):
        if number >= empty:
            (folder / f"part-{number}.parquet").rename(folder / f"part-{number + 1}.parquet")
    frame_of(X, y=Y).iloc[:0].to_parquet(folder / f"part-{empty}.parquet")
    run = run_of(batches=pabi.Poisson(B))
    assert_same(train(run, str(folder), "y", client=client, random_state=3).x, in_memory(run))


@every("kind", ["Int64", "Float64", "boolean"])
def test_a_part_without_rows_goes_with_targets_of_a_type_of_pandas(kind):
    """Its cells do not say what they are."""
    declared = frame(y=Y).astype({"y": kind})
    columns = blocks_of(declared, "y").columns
    nothing = frame_of(X, y=Y).astype({"y": kind}).iloc[:0]
    for recipe in (
        _of_loss(run_of(), Declared(), columns, None),
        _of_callable(run_of(), {}, columns, of_logistic()),
    ):
        assert held(recipe, 0, nothing, None, None).summary.rows == 0


@every("rows", [N, 1])  # one partition, one row each
def test_batches_of_users_without_rows_train_as_any_other(client, rows, tmp_path_factory):
    """Nine of ten users have no rows: most batches are of them alone, and are charged as any other."""
    few, users = slice(0, 4), np.array([3, 3, 17, 30])
    run = run_of(n=40, batches=pabi.ShuffleOnce(2), unit="user")
    file = tmp_path_factory.mktemp("ledger") / "a.ledger"
    ledger = pabi.Ledger(file, 1e4, 1e-5, unit="user")
    given = {"random_state": 3, "groups": users, "ledger": ledger}
    trained = train(run, array(X[few], rows), Y[few], client=client, **given)
    gradients = learn.LogisticGradients(learn.Records(X[few], 1.0), Y[few])
    assert_same(trained.x, in_memory(run, gradients, groups=users))
    assert len(ledger.report().entries) == 1


WEIGHTED = {
    "array": lambda folder: (array(X), Y, array(W, 700)),
    "column of a frame": lambda folder: (frame(y=Y, w=W), "y", "w"),
    "series": lambda folder: (frame(y=Y), "y", frame(w=W)["w"]),
    "column of files": lambda folder: (str(parts(folder, w=W)), "y", "w"),
}


@pytest.mark.parametrize("kind", WEIGHTED)
def test_weights_train_the_same(unpriced, client, tmp_path, kind):
    table, targets, weights = WEIGHTED[kind](tmp_path)
    run = run_of(batches=pabi.Poisson(B))
    trained = train(run, table, targets, client=client, weights=weights, random_state=3)
    assert_same(trained.x, in_memory(run, of_logistic().weighted(W)))
    assert np.max(np.abs(trained.x - in_memory(run))) > 1e-3


def block_of(table, dtype=np.float32):
    """An array of one block, which is of another type than it says."""
    dask, arrays = package("dask"), package("dask.array")
    return arrays.from_delayed(dask.delayed(table), table.shape, dtype)


def of_stated_types(x, features, targets):
    assert (features.dtype, targets.dtype) == (np.float32, np.int64)
    return np.zeros((len(features), *x.shape))


def test_gradients_see_one_type_whatever_a_part_has(unpriced, client):
    """One record may make doubles of the numbers of all others in its part."""
    run = pabi.NoisySGD(
        pabi.Loss.unknown(), 9, pabi.FullBatch(), 1, step_size=0.5, noise_std=0.1, clip_norm=1.0
    )
    own = {"client": client, "per_record_gradients": of_stated_types, "x0": [0.0]}
    integers = np.arange(9)
    for kind in ("u1", "f4", "f8"):
        features = block_of(integers[:, None].astype(kind))
        assert train(run, features, block_of(integers % 2, np.int64), **own).x.shape == (1,)
    halves = block_of(integers / 2.0, np.int64)
    with pytest.raises(InvalidInput, match="y: expected int64, as the collection says"):
        train(run, features, halves, **own)


def nth(part):
    """The rows of a source that yields others whenever it is asked: each has the number of the time."""
    TIMES.append(None)
    return part * 0.0 + len(TIMES)


TIMES = []


def apart(frame):
    return frame[["x0"]], frame["x1"]


@every("split", [apart, lambda frame: (frame.values[:, :1], frame.values[:, 1])])
def test_collections_of_one_source_are_computed_from_one_reading_of_it(client, split):
    """Records would have the targets of others where a source yields its rows in another order each time."""
    table = frame().map_partitions(nth, meta=frame()._meta)
    features, targets = split(table)
    parts = blocks_of(features, targets).parts
    held = client.gather(client.compute([cell for part in parts for cell in part[:2]]))
    for rows, cells in zip(held[::2], held[1::2], strict=True):
        assert len({*np.ravel(rows), *np.ravel(cells)}) == 1


def test_collections_of_their_own_are_an_assumption(tmp_path):
    of_its_own = ("frame and series", "frame and array", "array and array")
    assert all(blocks_of(*SOURCES[kind](tmp_path)).assumed == (APART,) for kind in of_its_own)
    together = ("frame and column", "array and memory", "parquet", "npy")
    assert not any(blocks_of(*SOURCES[kind](tmp_path)).assumed for kind in together)


def test_a_run_goes_on_from_its_checkpoint(unpriced, client, tmp_path, monkeypatch):
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
    assert_same(train(run, array(X, 700), Y, client=client, resume=file).x, in_memory(run))
    assert not file.exists()


def test_a_release_is_charged_once_and_leaves_nothing_on_workers(client, tmp_path):
    """Nor does what was refused, whose traceback still knows what the workers were asked for."""
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", epsilon=50.0, delta=1e-3)
    run = run_of(noise_std=1.0, batches=pabi.Cyclic(B))
    guarantee = train(run, array(X), array(Y), client=client, ledger=ledger).guarantee
    assert {APART, TRUSTED} <= set(guarantee.assumptions)
    cost = run.guarantee(1e-5).epsilon(1e-5)
    assert guarantee.epsilon(1e-5) == pytest.approx(cost, rel=1e-4)
    assert len(ledger.report().entries) == 1
    assert_forgotten(client)
    broken = X.copy()
    broken[-1] = np.nan
    with pytest.raises(InvalidInput, match="X: .*partition 3") as refusal:
        train(run, array(broken), Y, client=client, ledger=ledger)
    assert len(ledger.report().entries) == 1
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
