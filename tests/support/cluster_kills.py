"""Trainings on a cluster whose workers and coordinators are killed at random, and what came out of them.

    PYTHONPATH=src:tests python -m support.cluster_kills --kills 200 --seed 0

Every record's gradient is a row of integers, the noise is switched off and steps are sums over a power of
two, so that all arithmetic is exact: after whole epochs the iterate says how often every record was counted.
Noise is drawn all the same, and every draw is written down before it is used. The order is secret, drawn
once, and after a kill it has to be the one before. Killed are processes of workers, in whose place others are
started, and processes that train, which are started again to go on from their checkpoints.
"""

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

ROWS, COLUMNS, SIZE, EPOCHS, PARTS = 480, 6, 32, 3, 4
STEPS = ROWS // SIZE * EPOCHS
WORKERS, REFUSED = 2, 3  # the latter is a status of exits
PAUSE = 0.02  # seconds that a part of a sum takes at least, so that kills meet one
SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10000",
    "DASK_LOGGING__DISTRIBUTED": "critical",
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
    from pabi.execute import engine
    from pabi.integrations.dask import blocks, train

    home = Path(folder)

    def recorded(noise_std: float, moved: float, dimension: int):
        def unheard(sums, generator):
            words = generator.integers(0, 1 << 64, dimension, np.uint64)
            with (home / "draws").open("a") as file:
                file.write(hashlib.sha256(words.tobytes()).hexdigest() + "\n")
            return sums

        return unheard

    engine.StepNoise = recorded
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
        sys.exit(REFUSED)
    np.save(home / "result.npy", trained.x)


def work(address: str) -> None:
    """A worker of one thread, without a nanny: who kills it starts another one."""
    from distributed import Worker

    async def until_killed() -> None:
        async with Worker(address, nthreads=1, dashboard_address=":0") as worker:
            await worker.finished()

    asyncio.run(until_killed())


class Campaign:
    """So many kills over as many trainings as it takes, in a folder."""

    def __init__(self, kills: int, seed: int, home: Path) -> None:
        self._kills, self._rng, self._home = kills, np.random.default_rng(seed), home
        self._start = multiprocessing.get_context("forkserver")
        self._start.set_forkserver_preload(
            ["distributed", "pabi.integrations.dask.sums", "pabi.learn", "support.cluster_kills"]
        )
        self._workers: list = []
        self.counts = Counts()

    def run(self) -> Counts:
        """What happened."""
        from distributed import LocalCluster

        counts, draws = self.counts, list[str]()
        with LocalCluster(n_workers=0, protocol="tcp://", dashboard_address=":0") as cluster:
            self._address = cluster.scheduler_address
            self._workers = [self._process(work) for _ in range(WORKERS)]
            while counts.kills < self._kills:
                folder = self._home / str(counts.trainings)
                self._train(folder)
                expected = -EPOCHS * rows().sum(axis=0) / SIZE
                counts.exact += bool(np.array_equal(np.load(folder / "result.npy"), expected))
                counts.trainings += 1
                counts.steps += STEPS
                draws += (folder / "draws").read_text().split()
                print(counts, file=sys.stderr, flush=True)
            for worker in self._workers:
                worker.kill()
        counts.draws, counts.draws_used_twice = len(draws), len(draws) - len(set(draws))
        return counts

    def _train(self, folder: Path) -> None:
        """One training, by as many coordinators as it takes."""
        folder.mkdir()
        np.save(folder / "X.npy", rows())
        np.save(folder / "y.npy", np.zeros(ROWS))
        while not (folder / "result.npy").exists():
            coordinator = self._process(coordinate, str(folder))
            self._disturb(coordinator, folder / "draws")
            if coordinator.exitcode == REFUSED:
                self.counts.refusals.append((folder / "refusal").read_text())

    def _disturb(self, coordinator, draws: Path) -> None:
        """Waits for a coordinator to end; once it takes steps, kills it or workers meanwhile."""
        before = _size(draws)
        while coordinator.is_alive():
            coordinator.join(self._rng.uniform(0.02, 0.6))
            if self.counts.kills >= self._kills or _size(draws) == before:
                continue
            if self._rng.random() < 0.5:
                coordinator.kill()
                coordinator.join()
                self.counts.coordinators_killed += 1
            else:
                place = self._rng.integers(WORKERS)
                self._workers[place].kill()
                self._workers[place] = self._process(work)
                self.counts.workers_killed += 1

    def _process(self, target, *arguments):
        process = self._start.Process(target=target, args=(self._address, *arguments), daemon=True)
        process.start()
        return process


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from support import cluster_kills  # processes that are started know it by this name

    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        os.execve(sys.executable, [*sys.orig_argv], os.environ | SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        counts = cluster_kills.Campaign(arguments.kills, arguments.seed, Path(folder)).run()
    print(json.dumps(asdict(counts)))


if __name__ == "__main__":
    main()
