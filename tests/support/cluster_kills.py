"""Trainings on a cluster whose workers and coordinators are killed at random, and what came out of them.

    PYTHONPATH=src:tests python -m support.cluster_kills --kills 200 --seed 0

Every record's gradient is a row of integers, the noise is switched off and steps are sums over a power of
two, so that all arithmetic is exact: after whole epochs the iterate says how often every record was counted.
Noise is drawn all the same, and every draw is written down before it is used. The order is secret, drawn
once, and after a kill it has to be the one before. Killed are processes of workers, which their nannies start
again, and processes that train, which are started again to go on from their checkpoints.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

ROWS, COLUMNS, SIZE, EPOCHS, PARTS = 480, 6, 32, 3, 4
STEPS = ROWS // SIZE * EPOCHS
PAUSE = 0.02  # seconds that a part of a sum takes at least, so that kills meet one
SETTINGS = {
    "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver",  # starts workers faster
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10000",
    "DASK_LOGGING__DISTRIBUTED": "error",
    "OMP_NUM_THREADS": "1",
}


@dataclass
class Counts:
    """What happened."""

    workers_killed: int = 0
    coordinators_killed: int = 0
    trainings: int = 0
    exact: int = 0  # of the trainings, those whose iterate counts every record once an epoch
    steps: int = 0  # that the trainings consist of
    draws: int = 0  # of noise, one a step that was begun
    draws_used_twice: int = 0
    refusals: list[str] = field(default_factory=list)  # of coordinators that nobody killed

    @property
    def kills(self) -> int:
        return self.workers_killed + self.coordinators_killed


def rows():
    """Integers whose column sums tell the rows apart: (480, 6)."""
    return np.random.default_rng(0).integers(-(2**20), 2**20, (ROWS, COLUMNS)).astype(np.float64)


def own_rows(x, features, targets):
    """Each record's gradient: its row."""
    time.sleep(PAUSE)
    return features


def coordinate(address: str, folder: str) -> None:
    """Trains from the checkpoint in the folder if there is one, and saves the iterate."""
    warnings.simplefilter("ignore")
    from distributed import Client

    import pabi
    from pabi.execute import engine, randomness
    from pabi.integrations.dask import blocks, train

    home = Path(folder)
    secret_generator = randomness.secret_generator

    class Recorded(np.random.Generator):
        def standard_normal(self, *args, **options):
            noise = super().standard_normal(*args, **options)
            with (home / "draws").open("a") as file:
                file.write(hashlib.sha256(noise.tobytes()).hexdigest() + "\n")
            return noise

    randomness.secret_generator = lambda: Recorded(secret_generator().bit_generator)
    engine.noise_factor = lambda run: 0.0
    blocks._TOGETHER = ROWS * COLUMNS * 8 // PARTS
    run = pabi.NoisySGD(
        pabi.Loss.unknown(),
        n=ROWS,
        batches=pabi.ShuffleOnce(SIZE),
        epochs=EPOCHS,
        step_size=1.0,
        noise_std=1.0,
        gradient_sensitivity=1.0,
    )
    file = home / "checkpoint"
    keep = {"resume" if file.exists() else "checkpoint": file, "checkpoint_seconds": 0.0}
    try:
        with Client(address) as client:
            trained = train(
                run,
                str(home / "X.npy"),
                str(home / "y.npy"),
                client=client,
                per_record_gradients=own_rows,
                x0=np.zeros(COLUMNS),
                **keep,
            )
    except pabi.InvalidInput as no:
        (home / "refusal").write_text(str(no))
        sys.exit(3)
    np.save(home / "result.npy", trained.x)


def campaign(kills: int, seed: int, home: Path) -> Counts:
    """So many kills over as many trainings as it takes."""
    from distributed import LocalCluster

    rng, counts = np.random.default_rng(seed), Counts()
    start = multiprocessing.get_context("forkserver")
    start.set_forkserver_preload(["distributed", "pabi.integrations.dask.sums", __name__])
    draws: list[str] = []
    options = {"processes": True, "dashboard_address": ":0", "threads_per_worker": 1}
    with LocalCluster(n_workers=2, **options) as cluster:
        while counts.kills < kills:
            folder = home / str(counts.trainings)
            folder.mkdir()
            np.save(folder / "X.npy", rows())
            np.save(folder / "y.npy", np.zeros(ROWS))
            while not (folder / "result.npy").exists():
                process = start.Process(
                    target=coordinate, args=(cluster.scheduler_address, str(folder))
                )
                process.start()
                _disturbed(process, cluster, rng, counts, kills)
                if process.exitcode == 3:
                    counts.refusals.append((folder / "refusal").read_text())
            expected = -EPOCHS * rows().sum(axis=0) / SIZE
            counts.exact += bool(np.array_equal(np.load(folder / "result.npy"), expected))
            counts.trainings += 1
            counts.steps += STEPS
            draws += (folder / "draws").read_text().split()
    counts.draws, counts.draws_used_twice = len(draws), len(draws) - len(set(draws))
    return counts


def _disturbed(process, cluster, rng: np.random.Generator, counts: Counts, kills: int) -> None:
    """Waits for a coordinator to end, and kills it or workers meanwhile."""
    while process.is_alive():
        process.join(rng.uniform(0.1, 2.0))
        if counts.kills >= kills or not process.is_alive():
            continue
        if rng.random() < 0.5:
            process.kill()
            process.join()
            counts.coordinators_killed += 1
        elif pids := _pids(cluster):
            os.kill(pids[rng.integers(len(pids))], signal.SIGKILL)
            counts.workers_killed += 1


def _pids(cluster) -> list[int]:
    """The processes of the workers that have begun: a nanny whose worker never does gives up."""
    begun = set(cluster.scheduler.workers)
    return [nanny.pid for nanny in cluster.workers.values() if nanny.worker_address in begun]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        os.execve(sys.executable, [*sys.orig_argv], os.environ | SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        counts = campaign(arguments.kills, arguments.seed, Path(folder))
    print(json.dumps(asdict(counts)))


if __name__ == "__main__":
    main()
