"""One cluster for all the runs: starting it takes longer than most of them."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.conftest import server_folder
from tests.convergence.cluster import Cluster


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster() -> AsyncIterator[Cluster]:
    """PostgreSQL, Redis and two processes of each service. A test may break anything, and leaves it running."""
    with server_folder() as folder:
        async with Cluster(folder) as cluster:
            yield cluster
