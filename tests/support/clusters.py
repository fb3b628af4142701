"""Small clusters for tests."""

from __future__ import annotations

import time

# Of LocalCluster: all workers are threads of this process, and no port is asked for that others may have.
IN_PROCESS = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}


def assert_forgotten(client) -> None:
    """Workers are told when to forget, and do so a little later."""
    deadline = time.monotonic() + 20.0
    while (
        left := [keys for keys in client.has_what().values() if keys]
    ) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left
