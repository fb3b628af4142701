"""One small cluster in this process for all tests."""

from __future__ import annotations

import pytest

from support.clusters import IN_PROCESS
from support.large import package


@pytest.fixture(scope="session")
def client():
    distributed = package("distributed")
    with (
        distributed.LocalCluster(n_workers=2, **IN_PROCESS) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
