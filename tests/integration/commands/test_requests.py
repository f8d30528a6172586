"""Commands over Redis: answered, refused, dropped, claimed; and going on after Redis or a replica was lost."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from deploy.local.redis import RedisServer
from services.revision.commands import consumers
from services.revision.commands.boundary import WriteBoundary
from services.revision.commands.requests import CommandRequests
from shared.broker.connection import connect
from shared.broker.guarded import open_broker
from shared.broker.replies import ReplyInbox, deadline_ms
from shared.contracts.commands import Command, CommandRequest, CommandResult, CreateMessage, DeleteMessage
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import LOCAL_USER
from shared.contracts.streams import COMMANDS, REVISION_GROUP
from tests.integration.commands.conftest import PATIENCE, Source
from tests.support.programs import python

ROOT = Path(__file__).parents[3]


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Returns once the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


class Asker:
    """A gateway's side: publishes commands as FastStream does, and reads its replies."""

    def __init__(self, url: str) -> None:
        self.client: Redis = connect(SecretStr(url))
        self.broker = open_broker(SecretStr(url))
        self.replies: Redis = connect(SecretStr(url))
        self.inbox = ReplyInbox(self.replies)

    async def ask(self, command: Command, seconds: float = PATIENCE) -> CommandResult:
        async def send(request_id: str) -> object:
            return await self.publish(command, request_id, seconds)

        return CommandResult.model_validate_json(await self.inbox.ask(send, time.monotonic() + seconds))

    async def publish(self, command: Command, request_id: str, seconds: float) -> object:
        request = CommandRequest(
            request_id=request_id,
            reply_to=self.inbox.name,
            deadline=deadline_ms(seconds),
            identity=LOCAL_USER,
            command=command,
        )
        return await self.broker.publish(request, stream=COMMANDS, maxlen=1000)

    async def consumers(self) -> dict[str, int]:
        """Names of the group's consumers, with the number of entries pending for each."""
        found = await self.client.xinfo_consumers(COMMANDS, REVISION_GROUP)
        return {one["name"].decode(): one["pending"] for one in found}

    async def nothing_pending(self) -> bool:
        return sum((await self.consumers()).values()) == 0


@asynccontextmanager
async def asking(url: str) -> AsyncIterator[Asker]:
    asker = Asker(url)
    await asker.client.flushall()
    await asker.broker.connect()
    reading = asyncio.create_task(asker.inbox.run())
    try:
        yield asker
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await asker.broker.stop()
        await asker.client.aclose()
        await asker.replies.aclose()


@asynccontextmanager
async def serving(url: str, source: Source, claim_after_ms: int = 10_000) -> AsyncIterator[CommandRequests]:
    boundary = WriteBoundary(source.pool)
    requests = CommandRequests(SecretStr(url), boundary, claim_after_ms)
    running = asyncio.create_task(requests.run())

    async def connected() -> bool:
        return requests.connected

    try:
        await until(connected)
        yield requests
    finally:
        running.cancel()
        async with asyncio.timeout(2 * PATIENCE):
            await asyncio.gather(running, return_exceptions=True)
            await boundary.close()


@pytest_asyncio.fixture
async def asker(redis_url: str) -> AsyncIterator[Asker]:
    async with asking(redis_url) as asker:
        yield asker


def message(message_id: str) -> CreateMessage:
    return CreateMessage(message_id=message_id, session_id="s", author_type="agent", content="é")


async def test_a_command_is_answered_and_acknowledged(asker: Asker, redis_url: str, source: Source) -> None:
    async with serving(redis_url, source):
        begun = await source.revision()
        results = await asyncio.gather(*(asker.ask(message(f"m{number}")) for number in range(50)))
        assert await source.revision() == begun + 50
        # One that was asked for twice, on a slow machine, was done before.
        assert all(begun < result.revision and result.base_revision >= result.revision - 1 for result in results)
        await until(asker.nothing_pending)


async def test_a_refusal_keeps_its_code_and_details(asker: Asker, redis_url: str, source: Source) -> None:
    async with serving(redis_url, source):
        with pytest.raises(RequestFailed) as refused:
            await asker.ask(DeleteMessage(message_id="m", session_id="nobody"))
        assert refused.value.failure.code == "not_found"


async def test_a_consumer_that_stops_in_order_leaves_nothing(asker: Asker, redis_url: str, source: Source) -> None:
    async with serving(redis_url, source) as first, serving(redis_url, source) as second:
        await asker.ask(message("m"))
        assert first.consumer != second.consumer
        assert set(await asker.consumers()) <= {first.consumer, second.consumer}
    assert await asker.consumers() == {}


async def test_a_command_past_its_deadline_is_dropped(asker: Asker, redis_url: str, source: Source) -> None:
    await asker.publish(message("late"), "late", -1)
    async with serving(redis_url, source):
        await asker.ask(message("m"))
        await until(asker.nothing_pending)
    assert await source.pool.fetchval("SELECT count(*) FROM task_session_messages WHERE id = 'late'") == 0
    assert await asker.client.xlen(asker.inbox.name) == 1


async def test_an_entry_that_is_no_command_is_refused_where_its_asker_can_be_told(
    asker: Asker, redis_url: str, source: Source
) -> None:
    async with serving(redis_url, source):
        await asker.broker.publish(b"not json", stream=COMMANDS)
        await asker.broker.publish({"command": {"kind": "secret"}}, stream=COMMANDS)

        async def send(request_id: str) -> object:
            return await asker.broker.publish(
                {
                    "request_id": request_id,
                    "reply_to": asker.inbox.name,
                    "deadline": deadline_ms(PATIENCE),
                    "identity": LOCAL_USER.model_dump(),
                    "command": {"kind": "create_message", "content": "secret", "author_type": "nobody"},
                },
                stream=COMMANDS,
            )

        with pytest.raises(RequestFailed) as refused:
            await asker.inbox.ask(send, time.monotonic() + PATIENCE)
        assert refused.value.failure.code == "invalid_query"
        assert "secret" not in refused.value.failure.message
        assert "author_type" in refused.value.failure.message
        await asker.ask(message("m"))


async def test_commands_go_on_after_a_flush(asker: Asker, redis_url: str, source: Source) -> None:
    async with serving(redis_url, source) as first, serving(redis_url, source) as second:
        for number in range(3):
            await asker.client.flushall()
            await asker.ask(message(f"m{number}"))
        await until(lambda: both_read(asker, first.consumer, second.consumer))


async def both_read(asker: Asker, *names: str) -> bool:
    return set(await asker.consumers()) == set(names)


async def test_commands_go_on_when_another_process_made_the_lost_group_again(
    asker: Asker, redis_url: str, source: Source
) -> None:
    async with serving(redis_url, source):
        for number in range(3):
            await asker.ask(message(f"m{number}"))
            # One after the other, as two processes would: the waiting read fails in between.
            pipeline = asker.client.pipeline(transaction=False)
            pipeline.xgroup_destroy(COMMANDS, REVISION_GROUP)
            pipeline.xgroup_create(COMMANDS, REVISION_GROUP, id="0")
            await pipeline.execute()
        await asker.ask(message("m"))


async def test_commands_go_on_after_redis_was_killed_and_started(redis_server: RedisServer, source: Source) -> None:
    async with asking(redis_server.url) as asker, serving(redis_server.url, source):
        await asker.ask(message("before"))
        redis_server.kill()
        waiting = asyncio.create_task(asker.ask(message("during")))
        await asyncio.to_thread(redis_server.start)
        await waiting
        await asker.ask(message("after"))
    assert await source.pool.fetchval("SELECT count(*) FROM task_session_messages") == 3


@asynccontextmanager
async def replica(redis_url: str, database_url: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A replica process and its consumer's name."""
    process = await asyncio.create_subprocess_exec(
        *python("-m", "tests.integration.commands.replica"),
        cwd=ROOT,
        env={**os.environ, "KANDEV_DATABASE_URL": database_url, "KANDEV_REDIS_URL": redis_url},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            name = (await process.stdout.readline()).decode().strip()
        yield process, name
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_what_a_killed_replica_held_is_claimed_and_answered(
    asker: Asker, redis_url: str, database_url: str, source: Source
) -> None:
    await source.do(message("m"))
    async with source.pool.acquire() as connection, replica(redis_url, database_url) as (process, dead):
        async with connection.transaction():
            await connection.execute("UPDATE task_session_messages SET content = 'held' WHERE id = 'm'")
            await asker.publish(DeleteMessage(message_id="m", session_id="s"), "held", 60)

            async def taken() -> bool:
                try:
                    return (await asker.consumers()).get(dead) == 1
                except ResponseError:  # the replica has not made the group yet
                    return False

            await until(taken)
            process.send_signal(signal.SIGKILL)
            await process.wait()
            assert await consumers.remove_dead(asker.client, after_ms=0) == 0
        async with serving(redis_url, source, claim_after_ms=100):
            await until(asker.nothing_pending)
            assert await source.pool.fetchval("SELECT count(*) FROM task_session_messages") == 0
            assert await asker.client.xlen(asker.inbox.name) == 1
            await until(lambda: removed(asker, dead))


async def test_what_a_dead_consumer_held_past_its_deadline_is_dropped(
    asker: Asker, redis_url: str, source: Source
) -> None:
    await asker.client.xgroup_create(COMMANDS, REVISION_GROUP, id="0", mkstream=True)
    await asker.publish(message("late"), "late", -1)
    assert await asker.client.xreadgroup(REVISION_GROUP, "dead", {COMMANDS: ">"})
    async with serving(redis_url, source, claim_after_ms=100):
        await until(asker.nothing_pending)
        await until(lambda: removed(asker, "dead"))
    assert await asker.client.xlen(asker.inbox.name) == 0
    assert await source.pool.fetchval("SELECT count(*) FROM task_session_messages") == 0


async def removed(asker: Asker, consumer: str) -> bool:
    """Whether the dead consumer is gone, after one more look for such."""
    await consumers.remove_dead(asker.client, after_ms=0)
    return consumer not in await asker.consumers()
