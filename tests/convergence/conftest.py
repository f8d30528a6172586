"""One cluster for all the runs: starting it takes longer than most of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conftest import server_folder
from tests.convergence.cluster import Cluster

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps these tests on one worker of a parallel run: a cluster each would starve them all."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.xdist_group("convergence"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster() -> AsyncIterator[Cluster]:
    """PostgreSQL, Redis and two processes of each service. A test may break anything, and leaves it running."""
    with server_folder() as folder:
        async with Cluster(folder) as cluster:
            yield cluster
