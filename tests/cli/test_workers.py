"""Processes that calculate: beside one another, ended when nobody waits, replaced when they die."""

import os
import signal
from contextlib import aclosing

import pytest

pytest.importorskip("anyio")

import anyio

from pabi.cli.explorer.workers import END, Workers

# Every proof of these batches takes tenths of a second and more.
SLOW = {"state": {"batches": "poisson", "epochs": "400", "n": "600000"}}
QUICK = {"state": {"epochs": "3"}}


@pytest.fixture(scope="module")
def workers():
    pool = Workers(most=4, spare=2)
    pool.warm()
    yield pool
    pool.end()


def first(workers, job, request):
    async def ask():
        async with aclosing(workers.events(job, request, 60.0)) as events:
            async for event in events:
                return event

    return anyio.run(ask)


def test_a_slow_job_does_not_hold_up_another(workers):
    async def ask():
        order = []

        async def one(name, request):
            async with aclosing(workers.events("run", request, 60.0)) as events:
                async for event, data in events:
                    if event == "number" and data["final"]:
                        order.append(name)
                        break

        async with anyio.create_task_group() as group:
            group.start_soon(one, "slow", SLOW)
            await anyio.sleep(0.2)
            group.start_soon(one, "quick", QUICK)
            with anyio.fail_after(60.0):
                while not order:
                    await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        return order

    assert anyio.run(ask) == ["quick"]


def test_whoever_leaves_ends_the_job(workers):
    """Its process is free again, or gone; nothing goes on calculating."""

    async def ask():
        for _ in range(6):  # more than there are places
            async with aclosing(workers.events("run", SLOW, 60.0)) as events:
                async for _ in events:
                    break
        return [name async for name, _ in workers.events("export", QUICK, 60.0)]

    assert anyio.run(ask)[-1] == END
    assert not workers._busy


def test_a_job_that_takes_too_long_is_stopped(workers):
    async def ask():
        return [event async for event in workers.events("run", SLOW, 0.0)]

    *_, (name, data) = anyio.run(ask)
    assert name == "error"
    assert "too long" in data["message"]
    assert first(workers, "export", QUICK)[0] == "file"


def test_a_process_that_dies_is_an_error_and_is_replaced(workers):
    async def ask():
        found = []
        async with aclosing(workers.events("run", SLOW, 60.0)) as events:
            async for event in events:
                found.append(event)
                if len(found) == 1:
                    (process,) = workers._busy
                    os.kill(process._process.pid, signal.SIGKILL)
        return found

    *_, (name, data) = anyio.run(ask)
    assert name == "error"
    assert "ended early" in data["message"]
    assert first(workers, "export", QUICK)[0] == "file"


def test_the_end_ends_every_process():
    pool = Workers(most=2, spare=1)

    async def ask():
        return [name async for name, _ in pool.events("export", QUICK, 60.0)]

    assert anyio.run(ask)[-1] == END
    processes = [each._process for each in (*pool._idle, *pool._busy)]
    pool.end()
    assert processes
    assert not any(process.is_alive() for process in processes)
