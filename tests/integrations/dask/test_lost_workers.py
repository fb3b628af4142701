"""Workers that die, and workers without pabi, are processes here: what they cost is time, or one line.

So do those, and coordinators, that are killed at random.
"""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pabi
from pabi import sampling
from pabi.execute.checkpoint import Randomness, keyed_generator
from pabi.integrations.dask import fit_search, langevin, train
from pabi.learn import PrivateLogisticRegression, PrivateSearchCV
from pabi.numbers.errors import InvalidInput
from support.cluster_kills import SETTINGS, work
from support.clusters import assert_forgotten
from support.computed_once import computed_once
from support.large import package

SEED, PATIENCE = 5, 60.0
ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 3))
LABELS = (ROWS[:, 0] > 0.0).astype(int)
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.1)
CHAIN = pabi.LangevinChain(
    LOSS, n=200, inverse_temperature=200.0, step_size=1e-3, steps=20, chains=3
)
# A worker whose imports of pabi fail.
WITHOUT = (
    "import sys; sys.modules['pabi'] = None; from distributed.cli.dask_worker import main; main()"
)


@pytest.fixture
def scheduler():
    distributed = package("distributed")
    settings = {"n_workers": 0, "protocol": "tcp://", "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, **settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def with_pabi(address):
    """A process that works, until it is killed."""
    start = multiprocessing.get_context("forkserver")
    start.set_forkserver_preload(["distributed", "pabi.integrations.dask", "support.cluster_kills"])
    process = start.Process(target=work, args=(address,), daemon=True)
    process.start()
    return process


def without_pabi(address):
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-c", WITHOUT, address, *options], **silent)


@pytest.fixture
def start(scheduler):
    """Starts workers, and waits for them."""
    processes = []

    def starting(*kinds):
        processes.extend(kind(scheduler.scheduler.address) for kind in kinds)
        scheduler.wait_for_workers(len(processes), timeout=PATIENCE)

    yield starting
    for process in processes:
        process.kill()
        process.wait() if isinstance(process, subprocess.Popen) else process.join()


def killing(file, function):
    """The function, which kills the process that calls it, once."""

    def once(*arguments):
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return function(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return once


def search(scoring):
    fixed = {"batches": pabi.FullBatch(), "epochs": 3, "classes": [0, 1]}
    estimator = PrivateLogisticRegression(adjacency="zero_out", **fixed)
    settings = {"clip_norm": [0.1, 0.5], "precondition": [None]}
    stated = {"epsilon": 4.0, "delta": 1e-5, "shape": 1.0, "mean_trials": 6.0}
    return PrivateSearchCV(estimator, settings, **stated, scoring=scoring, random_state=SEED)


def test_a_lost_worker_changes_nothing(scheduler, start, tmp_path, monkeypatch):
    """A chain, and then a trial, die with one of three workers, and come out as their keys say."""
    computed_once(monkeypatch)
    start(*[with_pabi] * 3)
    gradient, chain = sampling.mean_gradient(ROWS, LABELS, LOSS), tmp_path / "chain"
    draws = langevin(CHAIN, killing(str(chain), gradient), np.zeros(3), 1, SEED, client=scheduler)
    # At the temperature, and with the rounding, of all: through `killing` the gradient is somebody's own.
    one, own = replace(draws.chain, chains=1), lambda x: gradient(x)
    alone = [
        sampling.langevin(one, own, np.zeros(3), random_state=keyed_generator(key)).values
        for key in Randomness(SEED).keys(3)
    ]
    assert chain.exists()
    assert np.array_equal(draws.values, np.concatenate(alone))

    def score(model, X, y):
        return float(model.score(X, y))

    public = {"X_public": ROWS, "y_public": LABELS}
    there = search(killing(str(tmp_path / "trial"), score))
    fit_search(there, ROWS, LABELS, client=scheduler, **public)
    here = search(score).fit(ROWS, LABELS, **public)
    assert (tmp_path / "trial").exists()
    assert np.array_equal(there.best_estimator_.coef_, here.best_estimator_.coef_)
    assert_forgotten(scheduler)


def trained(client, **options):
    table = package("dask.array").from_array(ROWS, chunks=(50, -1))
    loss = pabi.Loss.logistic(feature_norm=1.0)
    run = pabi.NoisySGD(loss, 200, pabi.FullBatch(), 2, step_size=0.5, noise_std=0.1)
    return train(run, table, LABELS, client=client, **options)


def sampled(client, **options):
    own = sampling.mean_gradient(ROWS, LABELS, LOSS)
    return langevin(CHAIN, own, np.zeros(3), client=client, **options)


def test_workers_without_pabi_are_refused(scheduler, start, tmp_path, monkeypatch):
    """Alone and beside others. One that comes later is lost, and the others do its work."""
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", epsilon=50.0, delta=1e-3)
    line = f"^client: expected pabi {pabi.__version__} on every worker, got none that loads at tcp:"
    for kind in (without_pabi, with_pabi):
        start(kind)
        for release in (trained, sampled):
            with pytest.raises(InvalidInput, match=line):
                release(scheduler, ledger=ledger)
    assert ledger.report().entries == ()
    for home in ("sums", "tasks"):
        monkeypatch.setattr(f"pabi.integrations.dask.{home}.check_client", lambda client: None)
    assert trained(scheduler).x.shape == (3,)
    assert sampled(scheduler).values.shape == (3, 1, 3)


TESTS = Path(__file__).parents[2]


def counted(kills, seed, seconds):
    """What happened in a campaign, which has processes of its own."""
    package("distributed")
    path = os.pathsep.join([str(Path(pabi.__file__).parents[1]), str(TESTS)])
    command = [sys.executable, "-W", "ignore", "-m", "support.cluster_kills"]
    finished = subprocess.run(
        [*command, "--kills", str(kills), "--seed", str(seed)],
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds,
        env=os.environ | SETTINGS | {"PYTHONPATH": path},
    )
    return json.loads(finished.stdout)


def assert_whole(counts, kills):
    assert counts["workers_killed"] + counts["coordinators_killed"] == kills
    assert counts["trainings"] == counts["exact"] >= 1
    assert counts["draws"] >= counts["steps"]
    assert counts["draws_used_twice"] == 0
    assert counts["refusals"] == []


def test_kills_lose_nothing():
    assert_whole(counted(6, seed=2, seconds=600), 6)


@pytest.mark.nightly
def test_many_kills_lose_nothing():
    counts = counted(40, seed=0, seconds=3600)
    assert_whole(counts, 40)
    assert min(counts["workers_killed"], counts["coordinators_killed"]) >= 8
