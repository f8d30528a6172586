"""How much of a database pool is in use."""

from collections.abc import Iterable

import asyncpg

from shared.metrics.declaring import Metrics, Read, Reading

STATES = ("used", "idle", "free")


def pool_reading(metrics: Metrics, pools: Iterable[str]) -> Reading:
    """Declares the figure, for the pools of these names."""
    text = "Database connections of this process: in use, open and idle, and those that it may open still."
    return metrics.reading("kandev_database_connections", text, pool=pools, state=STATES)


def pool_reads(reading: Reading, name: str, pool: asyncpg.Pool) -> Iterable[Read]:
    """The present figures of one pool."""
    size, idle = pool.get_size(), pool.get_idle_size()
    yield reading.of(size - idle, name, "used")
    yield reading.of(idle, name, "idle")
    yield reading.of(pool.get_max_size() - size, name, "free")
