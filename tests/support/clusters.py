"""Small clusters for tests."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.large import package

# Of LocalCluster: all workers are threads of this process, and no port is asked for that others may have.
IN_PROCESS = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}


@contextmanager
def small_cluster(count: int) -> Iterator[Any]:
    """(cluster, client) of so many workers in this process."""
    distributed = package("distributed")
    with (
        distributed.LocalCluster(n_workers=count, **IN_PROCESS) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


def assert_forgotten(client) -> None:
    """Workers and scheduler are told when to forget, and do so a little later."""
    deadline = time.monotonic() + 20.0
    while (left := _left(client)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left


def _left(client) -> list[str]:
    """What workers hold, and the tasks that the scheduler knows, with their arguments."""
    held = [str(key) for keys in client.has_what().values() for key in keys]
    return held + client.run_on_scheduler(
        lambda dask_scheduler: list(map(str, dask_scheduler.tasks))
    )
