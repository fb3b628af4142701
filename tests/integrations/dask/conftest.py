"""One small cluster in this process for all tests."""

import pytest

from support.clusters import small_cluster


@pytest.fixture(scope="session")
def client():
    with small_cluster(2) as (_, client):
        yield client
