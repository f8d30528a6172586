"""What a gateway holds open, as figures for whoever asks."""

from collections import Counter
from collections.abc import Iterable

import asyncpg

from services.gateway.metrics import MEMORY, POOL, SCOPES, SESSIONS
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.memory import Memory
from services.gateway.scopes.scope import Phase
from services.gateway.websocket.registry import Connections
from shared.metrics.declaring import Read
from shared.metrics.pools import pool_reads


def read_open(hub: Hub, memory: Memory, connections: Connections, database: asyncpg.Pool) -> Iterable[Read]:
    """The present figures. This looks at every connection and scope: some milliseconds where there are many."""
    phases = Counter(scope.phase for scope in hub.scopes())
    for phase in Phase:
        yield SCOPES.of(phases[phase], phase.name.lower())
    yield SESSIONS.of(len(hub.sessions))
    yield MEMORY.of(memory.size)
    yield from connections.reads()
    yield from pool_reads(POOL, "gateway", database)
