"""What goes wrong while writers write. Every fault ends what it began: afterwards all processes run again."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import asyncpg
from redis.typing import EncodableT, FieldT

from shared.contracts import streams
from tests.convergence.cluster import Cluster, Name, Replica
from tests.convergence.statements import Place
from tests.support.waiting import eventually

PARTITIONS = 8
STANDSTILL_SECONDS = 2.0
"""Longest standstill of a process that writers wait for."""
TRIMS_APART = 0.002
"""Seconds between the trims of a stream that is to lose what its readers have not read yet."""


@dataclass(frozen=True, slots=True)
class Blow:
    """What a fault strikes. `written` is set once the writers have finished."""

    cluster: Cluster
    place: Place
    chance: random.Random
    written: asyncio.Event


Fault = Callable[[Blow], Awaitable[None]]


async def _again(replica: Replica, number: signal.Signals = signal.SIGKILL) -> None:
    await replica.end(number)
    await replica.start()


async def leader_killed(blow: Blow) -> None:
    await _again(await blow.cluster.leader())


async def leader_ended(blow: Blow) -> None:
    """A planned handover: the epoch stays."""
    await _again(await blow.cluster.leader(), signal.SIGTERM)


async def standby_killed(blow: Blow) -> None:
    await _again(await blow.cluster.standby())


async def all_trackers_killed(blow: Blow) -> None:
    for replica in blow.cluster.replicas["revision"]:
        await _again(replica)


async def leader_stopped(blow: Blow) -> None:
    """A leader that stands still until the writers are done: its lock outlives it for a while, its commits wait."""
    leader = await blow.cluster.leader()
    leader.signal(signal.SIGSTOP)
    try:
        await blow.written.wait()
    finally:
        leader.signal(signal.SIGCONT)


async def zombie_leader(blow: Blow) -> None:
    """A leader that stands still, is replaced, and goes on with what it had in hand."""
    leader = await blow.cluster.leader()
    leader.signal(signal.SIGSTOP)
    try:
        holder = await blow.cluster.lock_holder()
        if holder is not None:
            await blow.cluster.pool.execute("SELECT pg_terminate_backend($1)", holder[0])

        async def replaced() -> bool:
            now = await blow.cluster.lock_holder()
            return now is not None and now != holder

        await eventually(replaced)
        await blow.written.wait()
    finally:
        leader.signal(signal.SIGCONT)


def one_killed(name: Name) -> Fault:
    async def fault(blow: Blow) -> None:
        await _again(blow.chance.choice(blow.cluster.replicas[name]))

    return fault


def all_killed(name: Name) -> Fault:
    async def fault(blow: Blow) -> None:
        for replica in blow.cluster.replicas[name]:
            await replica.end(signal.SIGKILL)
        for replica in blow.cluster.replicas[name]:
            await replica.start()

    return fault


async def gateway_stopped(blow: Blow) -> None:
    """A gateway that stands still, and then finds everything that came meanwhile."""
    gateway = blow.chance.choice(blow.cluster.replicas["gateway"])
    gateway.signal(signal.SIGSTOP)
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(blow.written.wait(), STANDSTILL_SECONDS)
    finally:
        gateway.signal(signal.SIGCONT)


async def redis_flushed(blow: Blow) -> None:
    await blow.cluster.redis.flushall()


async def redis_killed(blow: Blow) -> None:
    """Its successor is empty."""
    server = blow.cluster.redis_server
    await blow.cluster.blocking(server.kill)
    await blow.cluster.blocking(server.start)


async def postgres_restarted(blow: Blow) -> None:
    server = blow.cluster.postgres
    await blow.cluster.blocking(server.stop)
    await blow.cluster.blocking(server.start)


async def postgres_crashed(blow: Blow) -> None:
    """Every server process ends at once; the log is replayed at the start."""
    server = blow.cluster.postgres

    def crash() -> None:
        server.stop_signal = signal.SIGQUIT
        try:
            server.stop()
        finally:
            del server.stop_signal

    await blow.cluster.blocking(crash)
    await blow.cluster.blocking(server.start)


async def walsenders_ended(blow: Blow) -> None:
    await blow.cluster.pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'"
    )


async def backends_ended(blow: Blow) -> None:
    """Every connection of the services is lost; those of the writers stay."""
    await blow.cluster.pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'kandev-conversation%'"
    )


async def epoch_minted(blow: Blow) -> None:
    await blow.cluster.pool.execute("SELECT conversation.mint_epoch('asked for by a test')")


async def restored(blow: Blow) -> None:
    """A session goes back to what it might have been, as by a logical restore, and the epoch is minted with that."""
    session = blow.chance.choice(blow.place.sessions)
    async with blow.cluster.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            "UPDATE conversation_session_revisions SET revision = revision / 2 WHERE session_id = $1", session
        )
        await connection.execute(
            "DELETE FROM task_session_messages WHERE task_session_id = $1 AND right(md5(id), 1) < '6'", session
        )
        await connection.execute("SELECT conversation.mint_epoch('restored by a test')")


async def triggers_off(blow: Blow) -> None:
    """T4: rows change without their revision. The tracker notices and mints."""
    session = blow.chance.choice(blow.place.sessions)
    async with blow.cluster.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            "UPDATE task_session_messages SET content = 'unnoticed' WHERE task_session_id = $1", session
        )


async def receipts_lost(blow: Blow) -> None:
    """The streams lose their entries as soon as they have them; a reader that is not quick sees a hole."""
    while not blow.written.is_set():
        for partition in range(PARTITIONS):
            await blow.cluster.redis.xtrim(streams.receipts(partition), maxlen=0, approximate=False)
        await asyncio.sleep(TRIMS_APART)


async def receipts_replayed(blow: Blow) -> None:
    """Everything that the streams still hold comes again, as from a leader that sends it twice."""
    await blow.written.wait()
    for partition in range(PARTITIONS):
        for _, fields in await blow.cluster.redis.xrange(streams.receipts(partition)) or ():
            again: dict[FieldT, EncodableT] = dict((fields or {}).items())
            await blow.cluster.redis.xadd(streams.receipts(partition), again)


FAULTS: Mapping[str, Fault] = {
    "leader killed": leader_killed,
    "leader ended": leader_ended,
    "standby killed": standby_killed,
    "all trackers killed": all_trackers_killed,
    "leader stopped": leader_stopped,
    "zombie leader": zombie_leader,
    "a reader killed": one_killed("reader"),
    "all readers killed": all_killed("reader"),
    "a gateway killed": one_killed("gateway"),
    "all gateways killed": all_killed("gateway"),
    "a gateway stopped": gateway_stopped,
    "redis flushed": redis_flushed,
    "redis killed": redis_killed,
    "postgres restarted": postgres_restarted,
    "postgres crashed": postgres_crashed,
    "walsenders ended": walsenders_ended,
    "backends ended": backends_ended,
    "epoch minted": epoch_minted,
    "restored": restored,
    "triggers off": triggers_off,
    "receipts lost": receipts_lost,
    "receipts replayed": receipts_replayed,
}


async def strike(name: str, blow: Blow) -> None:
    """Lets a fault happen and waits until everything runs again. One that needs the database waits for it."""
    while True:
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await FAULTS[name](blow)
            break
    await blow.cluster.ready()
