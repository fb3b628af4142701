"""Guarantees of known μ for tests of ledgers, and processes that spend and are killed."""

import functools
import math
import os
import random
import signal
import time
import warnings
from pathlib import Path

import pabi
from pabi.budget import files
from pabi.tradeoff import Product

DELTA = 1e-5


@functools.cache
def release(mu: float, adjacency: str = "zero_out") -> pabi.Guarantee:
    """A verified guarantee of this μ: second moments of rows of norm 1, which one record moves by 1."""
    move = 1.0 if adjacency == "zero_out" else math.sqrt(2.0)
    moments = pabi.NoisySecondMoments(1000, 3, 1.0, noise_std=move / mu, adjacency=adjacency)
    guarantee = moments.guarantee(DELTA)
    assert pabi.verify(guarantee).ok
    return guarantee


def that_may_fail() -> pabi.Guarantee:
    """A verified guarantee whose curve holds but for a small probability: no finite charge bounds it."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0, l2=0.05),
        n=1000,
        batches=pabi.BallsInBins(100),
        epochs=200,
        step_size=3.0,
        noise_std=0.05,
    )
    guarantee = run.guarantee(DELTA)
    assert isinstance(guarantee.curve, Product)
    assert guarantee.curve.failure > 0.0
    assert pabi.verify(guarantee).ok
    return guarantee


def spender(path: Path, epsilon: float, guarantee: pabi.Guarantee, reports: Path) -> None:
    """Reserves and commits until nothing is left, and writes down every number that it was told.

    Lines are written in pieces, as a system may do, so that a kill leaves parts of them.
    """
    whole = os.write
    files.os.write = lambda file, data: whole(file, bytes(data[:400]))  # type: ignore[assignment]
    warnings.simplefilter("ignore")
    ledger = pabi.Ledger(path, epsilon, DELTA)
    out = os.open(reports, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while True:
            reservation = ledger.reserve(guarantee)
            whole(out, f"reserved {reservation.number}\n".encode())
            reservation.commit()
            whole(out, f"committed {reservation.number}\n".encode())
    except pabi.BudgetExceeded:
        whole(out, b"refused 0\n")


def forked(*arguments: object) -> int:
    """The id of a process that spends and ends."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            spender(*arguments)  # type: ignore[arg-type]
            status = 0
        finally:
            os._exit(status)
    return process


def spent_by_killed_processes(
    path: Path, epsilon: float, guarantee: pabi.Guarantee, *, kills: int, processes: int = 8
) -> list[list[str]]:
    """All that the processes were told, word by word, after so many of them were killed at random."""
    folder = path.parent
    chance, alive, born = random.Random(0), set(), 0

    def start() -> None:
        nonlocal born
        born += 1
        alive.add(forked(path, epsilon, guarantee, folder / f"reports-{born}"))

    for _ in range(processes):
        start()
    while alive:
        ended, status = os.waitpid(-1, os.WNOHANG) if kills else os.wait()
        if ended in alive:
            alive.discard(ended)
            assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
        elif kills and alive:
            time.sleep(chance.uniform(0.0, 0.03))
            victim = chance.choice(sorted(alive))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            alive.discard(victim)
            kills -= 1
            start()
    texts = [(folder / f"reports-{i + 1}") for i in range(born)]
    return [
        line.split() for text in texts if text.exists() for line in text.read_text().splitlines()
    ]
