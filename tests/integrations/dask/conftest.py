"""One small cluster in this process for all tests."""

from __future__ import annotations

import pytest

from support.large import package


@pytest.fixture(scope="session")
def client():
    distributed = package("distributed")
    options = {"processes": False, "dashboard_address": None, "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
