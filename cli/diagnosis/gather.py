"""Gathers the facts: one short, read-only look at each part."""

import asyncio
import time
from typing import Any

import aiohttp
import asyncpg
import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

from cli.database import CONNECT_ERRORS, place
from cli.diagnosis.facts import DatabaseFacts, Facts, GatewayFacts, RedisFacts, Slot
from client.reasons import reason as gateway_reason
from services.gateway.identity.accounts import ADMINISTRATED
from services.revision.schema.migrate import status
from services.revision.schema.suitability import unreadable
from services.revision.tracker.prerequisites import breach
from shared.broker.cursor import entry_key
from shared.broker.presence import present
from shared.contracts.streams import COMMANDS, READS
from shared.database import CONNECT_TIMEOUT
from shared.reasons import reason

LOOK_SECONDS = 10.0
"""Longest look at one part; a part that takes longer counts as unreachable."""

_SERVER = """
SELECT current_setting('server_version_num')::int AS version,
       current_setting('wal_level') AS wal_level,
       current_setting('max_wal_senders')::int AS max_senders,
       (SELECT count(*)::int FROM pg_stat_replication) AS senders,
       current_setting('max_replication_slots')::int AS max_slots,
       (SELECT count(*)::int FROM pg_replication_slots) AS slots,
       (SELECT setting::int FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS slot_limit,
       (SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout') AS idle_timeout,
       (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user) AS replication_right,
       extract(epoch FROM clock_timestamp())::float8 AS clock
"""
_SLOTS = """
SELECT slot_name::text AS name, active, temporary,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint AS retained,
       coalesce(wal_status = 'lost', false) AS lost
  FROM pg_replication_slots WHERE NOT pg_is_in_recovery()
"""
_PUBLISHED = """
SELECT CASE schemaname WHEN 'public' THEN tablename::text ELSE schemaname || '.' || tablename END AS name
  FROM pg_publication_tables WHERE pubname = 'conversation_receipts'
"""
_TRIGGERS = """
SELECT c.relname || '.' || t.tgname AS name, t.tgenabled IN ('O', 'A') AS enabled
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'public' AND t.tgname LIKE 'conversation\\_%'
"""
_IDENTITIES = """
SELECT c.relname::text AS name, c.relreplident::text AS kind
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'public'
   AND c.relname IN ('task_session_messages', 'task_session_turns', 'conversation_session_revisions')
"""
_LACKING = """
SELECT format('%s.%s', n.nspname, c.relname) AS name
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE (n.nspname = 'public' AND c.relname IN ('task_sessions', 'task_session_messages', 'task_session_turns',
                                               'conversation_session_revisions')
        OR n.nspname = 'conversation' AND c.relname = 'epoch')
   AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
            AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')
            AND has_table_privilege(c.oid, 'DELETE'))
 ORDER BY name
"""
_HEARTBEAT = "SELECT extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 FROM conversation.epoch"


async def gather(database_url: str, redis_url: str, gateway_url: str) -> Facts:
    """Looks at all parts at once. What cannot be reached is a fact, not an error."""
    database, redis, gateway = await asyncio.gather(
        look_at_database(database_url), look_at_redis(redis_url), look_at_gateway(gateway_url)
    )
    return Facts(database, redis, gateway)


async def look_at_database(url: str) -> DatabaseFacts:
    """Reads settings, catalogues and the epoch."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            connection = await _connect(url)
            try:
                return await _database(connection, place(url))
            finally:
                connection.terminate()
    except CONNECT_ERRORS as error:
        return DatabaseFacts(place(url), error=reason(error))


async def _connect(url: str) -> asyncpg.Connection:
    """With no settings of its own: what it finds is what others get."""
    return await asyncpg.connect(
        url, timeout=CONNECT_TIMEOUT, server_settings={"application_name": "kandev-conversation/doctor"}
    )


async def _database(connection: asyncpg.Connection, name: str) -> DatabaseFacts:
    server = await connection.fetchrow(_SERVER)
    skew = server["clock"] - time.time()
    schema = await status(connection)
    lacking = tuple(row["name"] for row in await connection.fetch(_LACKING))
    usable = schema.current == schema.latest and not lacking
    return DatabaseFacts(
        place=name,
        version=server["version"],
        wal_level=server["wal_level"],
        senders=(server["senders"], server["max_senders"]),
        slots_used=(server["slots"], server["max_slots"]),
        slot_limit=server["slot_limit"],
        idle_timeout=server["idle_timeout"],
        replication_right=server["replication_right"],
        lacking=lacking,
        breach=(await breach(connection) or "") if usable else "",
        unreadable=tuple(await unreadable(connection)) if schema.current else (),
        current=schema.current,
        latest=schema.latest,
        published=frozenset(row["name"] for row in await connection.fetch(_PUBLISHED)),
        triggers={row["name"]: row["enabled"] for row in await connection.fetch(_TRIGGERS)},
        identities={row["name"]: row["kind"] for row in await connection.fetch(_IDENTITIES)},
        heartbeat_age=await connection.fetchval(_HEARTBEAT) if schema.current and not lacking else None,
        administrated=await connection.fetchval(ADMINISTRATED) if usable else None,
        slots=tuple(Slot(**row) for row in await connection.fetch(_SLOTS)),
        clock_skew=skew,
    )


async def look_at_redis(url: str) -> RedisFacts:
    """Reads version, clock, and which groups read the request streams."""
    try:
        async with asyncio.timeout(LOOK_SECONDS), _client(url) as client:
            return await _redis(client, place(url))
    except (OSError, TimeoutError, RedisError, ValueError) as error:
        return RedisFacts(place(url), error=reason(error))


def _client(url: str) -> Redis:
    """Whatever stands in a stream is read, be it no text."""
    client: Redis = Redis.from_url(url, decode_responses=True, encoding_errors="replace")
    return client


async def _redis(client: Redis, name: str) -> RedisFacts:
    server = await client.info("server")
    memory = await client.info("memory")
    seconds, microseconds = await client.time()
    clock = seconds + microseconds / 1_000_000
    groups = {
        stream: frozenset(str(group["name"]) for group in await client.xinfo_groups(stream))
        for stream in (READS, COMMANDS)
        if await client.exists(stream)
    }
    oldest = {stream: await client.xrange(stream, count=1) for stream in groups}
    receipts = 0
    async for _ in client.scan_iter(match="conversation:receipts:*", count=1000):
        receipts += 1
    return RedisFacts(
        place=name,
        version=str(server.get("redis_version", "unknown")),
        groups=groups,
        waiting={
            stream: clock - entry_key(str(entries[0][0]).encode())[0] / 1000
            for stream, entries in oldest.items()
            if entries
        },
        receipt_streams=receipts,
        eviction=str(memory.get("maxmemory_policy", "noeviction")),
        present=await present(client),
        clock_skew=clock - time.time(),
    )


async def look_at_gateway(url: str) -> GatewayFacts:
    """Asks the gateway whether it is ready, and whether people sign in there."""
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LOOK_SECONDS)) as http:
            status, body = await _answer(http, f"{url.rstrip('/')}/ready")
            _, asker = await _answer(http, f"{url.rstrip('/')}/api/v1/auth/me")
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return GatewayFacts(url, error=gateway_reason(error))
    if body is None:
        return GatewayFacts(url, error="something else than a gateway answers there")
    reasons = body.get("reasons")
    named = {str(part): str(reason) for part, reason in reasons.items()} if isinstance(reasons, dict) else {}
    mode = "" if asker is None else str(asker.get("mode", ""))
    return GatewayFacts(url, "", status, str(body.get("status", "")), named, mode)


# Any: whatever answers there.
async def _answer(http: aiohttp.ClientSession, url: str) -> tuple[int, dict[str, Any] | None]:
    async with http.get(url) as answer:
        content = await answer.read()
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = None
    return answer.status, body if isinstance(body, dict) else None
