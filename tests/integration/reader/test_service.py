"""The whole process: requests over Redis, and what happens when a server goes away."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import pytest
from faststream.redis import RedisBroker
from pydantic import SecretStr, TypeAdapter
from redis.asyncio import Redis

from deploy.local.ports import Ports
from deploy.local.postgres import PostgresServer
from deploy.local.redis import RedisServer
from services.reader import requests
from services.reader.admission import cost_of
from services.reader.answers import MIGRATE
from services.reader.main import serve
from services.revision.schema.migrate import migrate
from shared.broker.connection import connect
from shared.broker.guarded import open_broker
from shared.broker.replies import ReplyInbox, deadline_ms
from shared.contracts import streams
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import Answer, MessagesAnswer, MessagesPage, Read, ReadRequest, RevisionCheck, SessionList
from shared.contracts.replies import Refusal
from shared.settings import Settings
from tests.integration.reader.people import OWNER, PEOPLE, STRANGER
from tests.support.waiting import eventually

ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
PAGE = MessagesPage(identity=OWNER, session_id="s")
PATIENCE = 20.0


class Asker:
    """What a gateway does to have a read answered."""

    def __init__(self, redis_url: str) -> None:
        self._url = SecretStr(redis_url)
        self.client: Redis = connect(self._url)
        self._broker: RedisBroker = open_broker(self._url)
        self._inbox_client: Redis = connect(self._url)
        self._inbox = ReplyInbox(self._inbox_client)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Asker"]:
        await self._broker.connect()
        reading = asyncio.create_task(self._inbox.run())
        try:
            yield self
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self._broker.stop()
            await self._inbox_client.aclose()
            await self.client.aclose()

    async def ask(self, read: Read, seconds: float = PATIENCE) -> Answer:
        deadline = time.monotonic() + seconds

        async def send(request_id: str) -> None:
            left = deadline - time.monotonic()
            due = deadline_ms(left)
            await self.send(ReadRequest(request_id=request_id, reply_to=self._inbox.name, deadline=due, read=read))

        return ANSWER.validate_json(await self._inbox.ask(send, deadline))

    async def send(self, request: ReadRequest) -> None:
        await self._broker.publish(request, stream=streams.READS, maxlen=1000)

    async def until_answered(self, read: Read) -> Answer:
        """Asks again after every retryable refusal."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await self.ask(read)
                except RequestFailed as refused:
                    if not refused.failure.retryable:
                        raise


@asynccontextmanager
async def serving(database_url: str, redis_url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """A running reader; what is yielded asks its `/ready`."""
    ports = Ports()
    port = ports.private()
    settings = Settings(
        database_url=SecretStr(database_url), redis_url=SecretStr(redis_url), metrics_port=port, database_pool=2
    )
    task = asyncio.create_task(serve(settings))

    async def ready() -> tuple[int, str]:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://127.0.0.1:{port}/ready") as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectionError:
                return 0, ""

    try:
        yield ready
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        ports.close()
        assert task.cancelled()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 - the condition is another process's
            await asyncio.sleep(0.01)


async def consumers(client: Redis) -> set[bytes]:
    return {found["name"] for found in await client.xinfo_consumers(streams.READS, streams.READERS_GROUP)}


async def test_answers_and_refuses(db: asyncpg.Connection, database_url: str, redis_server: RedisServer) -> None:
    async with serving(database_url, redis_server.url), Asker(redis_server.url).listening() as asker:
        assert isinstance(await asker.until_answered(PAGE), MessagesAnswer)
        with pytest.raises(RequestFailed) as refused:
            await asker.ask(PAGE.model_copy(update={"identity": STRANGER}))
        assert refused.value.failure.code == "not_found"
        many = await asyncio.gather(*(asker.ask(PAGE) for _ in range(200)))
        assert len(many) == 200


async def test_two_readers_share_the_work_and_leave_no_name_behind(
    db: asyncpg.Connection, database_url: str, empty_database_url: str, redis_server: RedisServer
) -> None:
    """Each has a database of its own, so that the epoch of an answer tells who gave it."""
    await migrate(empty_database_url)
    await settle(empty_database_url)
    async with Asker(redis_server.url).listening() as asker:
        async with serving(database_url, redis_server.url):
            await asker.until_answered(PAGE)
            async with serving(empty_database_url, redis_server.url) as ready:
                await until(lambda: is_ready(ready))
                epochs: set[str] = set()

                async def both_have_answered() -> bool:
                    answers = await asyncio.gather(*(asker.ask(PAGE) for _ in range(20)))
                    epochs.update(answer.epoch for answer in answers if isinstance(answer, MessagesAnswer))
                    return len(epochs) == 2

                await until(both_have_answered)
                assert len(await consumers(asker.client)) == 2
            assert len(await consumers(asker.client)) == 1
            await asker.ask(PAGE)
        assert await consumers(asker.client) == set()


async def settle(url: str) -> None:
    """Puts the people and sessions of these tests into a migrated database."""
    connection = await asyncpg.connect(url)
    await connection.execute(PEOPLE)
    await connection.close()


async def is_ready(ready: Callable[[], Awaitable[tuple[int, str]]]) -> bool:
    status, _ = await ready()
    return status == 200


async def test_a_request_past_its_deadline_is_never_answered(
    db: asyncpg.Connection, database_url: str, redis_server: RedisServer
) -> None:
    async with serving(database_url, redis_server.url), Asker(redis_server.url).listening() as asker:
        await asker.until_answered(PAGE)
        reply_to = streams.replies("late")
        await asker.send(ReadRequest(request_id="late", reply_to=reply_to, deadline=deadline_ms(-1), read=PAGE))
        await asker.send(ReadRequest(request_id="due", reply_to=reply_to, deadline=deadline_ms(10), read=PAGE))

        async def answered() -> bool:
            return await asker.client.xlen(reply_to) > 0

        await until(answered)
        await asker.ask(PAGE)
        replies: list[tuple[bytes, dict[bytes, bytes]]] = await asker.client.xrange(reply_to)  # type: ignore[assignment]  # bytes, as the connection does not decode
        assert [fields[b"i"] for _, fields in replies] == [b"due"]


async def test_a_request_that_waits_for_the_database_is_not_answered_late(
    db: asyncpg.Connection, database_url: str, redis_server: RedisServer
) -> None:
    """A lock makes the read wait past its deadline; once that is free, other requests are answered and this one not."""
    async with serving(database_url, redis_server.url), Asker(redis_server.url).listening() as asker:
        await asker.until_answered(PAGE)
        reply_to = streams.replies("late")
        async with db.transaction():
            await db.execute("LOCK TABLE conversation.epoch")
            with pytest.raises(RequestFailed) as refused:
                await asker.ask(PAGE, seconds=0.3)
            assert refused.value.failure.code == "unavailable"
            await asker.send(ReadRequest(request_id="late", reply_to=reply_to, deadline=deadline_ms(0.2), read=PAGE))

            async def waiting() -> bool:
                found: int = await db.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
                return found > 0

            async def given_up() -> bool:
                return not await waiting()

            await until(waiting)
            await until(given_up)
        await asker.ask(PAGE)
        assert await asker.client.xlen(reply_to) == 0


@asynccontextmanager
async def standing_still(db: asyncpg.Connection) -> AsyncIterator[None]:
    """Inside, every read waits."""
    async with db.transaction():
        await db.execute("LOCK TABLE conversation.epoch")
        yield


def page_for(request_id: str, reply_to: str) -> ReadRequest:
    return ReadRequest(request_id=request_id, reply_to=reply_to, deadline=deadline_ms(PATIENCE), read=PAGE)


async def replies_at(asker: Asker, reply_to: str) -> list[dict[bytes, bytes]]:
    found = cast("list[tuple[bytes, dict[bytes, bytes]]]", await asker.client.xrange(reply_to))  # nothing is decoded
    return [fields for _, fields in found]


async def test_a_read_that_is_asked_for_again_while_it_is_in_hand_is_read_once(
    db: asyncpg.Connection, database_url: str, redis_server: RedisServer
) -> None:
    async with serving(database_url, redis_server.url), Asker(redis_server.url).listening() as asker:
        await asker.until_answered(PAGE)
        reply_to = streams.replies("twice")
        async with standing_still(db):
            for request_id in ("one", "one", "two", "one"):
                await asker.send(page_for(request_id, reply_to))
            with pytest.raises(RequestFailed):
                await asker.ask(PAGE, seconds=0.3)

        async def answered() -> list[bytes]:
            return [each[b"i"] for each in await replies_at(asker, reply_to)]

        # Each is answered by a task of its own: neither need be the first.
        await eventually(answered, lambda found: len(found) == 2)
        await asker.send(page_for("one", reply_to))
        found = await eventually(answered, lambda found: len(found) == 3)
        assert sorted(found[:2]) == [b"one", b"two"]
        assert found[2] == b"one", "what was answered is read again for whoever asks again"


async def test_what_a_reader_has_no_room_for_is_refused_at_once(
    db: asyncpg.Connection, database_url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "WAITING", 3 * cost_of(PAGE))
    monkeypatch.setattr(requests, "PAGES_AT_WORK", cost_of(PAGE))
    async with serving(database_url, redis_server.url), Asker(redis_server.url).listening() as asker:
        await asker.until_answered(PAGE)
        storm, calm = streams.replies("storm"), streams.replies("calm")
        async with standing_still(db):
            for number in range(10):
                await asker.send(page_for(str(number), storm))

            async def refused() -> bool:
                return len(await replies_at(asker, storm)) >= 6

            await until(refused)
            await asker.send(page_for("0", calm))
            told = await replies_at(asker, storm)
            assert {each[b"i"] for each in told} == {b"%d" % number for number in range(4, 10)}
            for each in told:
                failure = Refusal.model_validate_json(each[b"b"]).error
                assert failure.code == "unavailable"
                assert failure.details == {"retry_after": 1}

        async def all_answered() -> bool:
            return len(await replies_at(asker, storm)) == 10 and len(await replies_at(asker, calm)) == 1

        await until(all_answered)
        assert [each[b"o"] for each in (await replies_at(asker, storm))[6:]] == [b"1"] * 4
        assert [each[b"o"] for each in await replies_at(asker, calm)] == [b"1"]


async def test_checks_pass_by_a_storm_of_pages(
    db: asyncpg.Connection, database_url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "PAGES_AT_WORK", cost_of(PAGE))
    async with serving(database_url, redis_server.url), Asker(redis_server.url).listening() as asker:
        await asker.until_answered(PAGE)
        async with db.transaction():
            await db.execute("LOCK TABLE task_session_messages")
            for number in range(100):
                await asker.send(page_for(str(number), streams.replies("storm")))
            await asker.ask(RevisionCheck(identity=OWNER, sessions=("s",)))


async def test_an_entry_that_is_no_request_is_passed_over(
    db: asyncpg.Connection, database_url: str, redis_server: RedisServer
) -> None:
    async with serving(database_url, redis_server.url), Asker(redis_server.url).listening() as asker:
        await asker.until_answered(PAGE)
        await asker.client.xadd(streams.READS, {"data": b"{"})
        await asker.client.xadd(streams.READS, {"data": b'{"request_id": 5}'})
        await asker.client.xadd(streams.READS, {"other": b"1"})
        for _ in range(10):
            await asker.ask(PAGE)


class TestRedis:
    @pytest.mark.parametrize("readers", [1, 2])
    async def test_flushed(
        self, db: asyncpg.Connection, database_url: str, redis_server: RedisServer, readers: int
    ) -> None:
        """Also when another reader has made the group again first."""
        async with Asker(redis_server.url).listening() as asker, serving(database_url, redis_server.url) as first:
            if readers == 1:
                await self._flush(asker, 1)
            else:
                async with serving(database_url, redis_server.url) as second:
                    await until(lambda: is_ready(first))
                    await until(lambda: is_ready(second))
                    await self._flush(asker, 2)

    async def _flush(self, asker: Asker, readers: int) -> None:
        await asker.until_answered(PAGE)
        for _ in range(5):

            async def all_read() -> bool:
                await asker.until_answered(PAGE)
                return len(await consumers(asker.client)) == readers

            await until(all_read)
            await asker.client.flushall()
            await asker.until_answered(PAGE)

    @pytest.mark.parametrize("how", ["kill", "stop"])
    async def test_gone_and_back(
        self, db: asyncpg.Connection, database_url: str, redis_server: RedisServer, how: str
    ) -> None:
        async with Asker(redis_server.url).listening() as asker, serving(database_url, redis_server.url) as ready:
            await asker.until_answered(PAGE)
            if how == "kill":
                await asyncio.to_thread(redis_server.kill)
            else:
                await asyncio.to_thread(redis_server.stop)

            async def noticed() -> bool:
                status, text = await ready()
                return status == 503 and "redis" in text

            await until(noticed)
            await asyncio.to_thread(redis_server.start)
            await asker.until_answered(PAGE)
            assert (await ready())[0] == 200


class TestPostgres:
    @pytest.mark.parametrize("how", ["kill", "stop"])
    async def test_gone_and_back(self, postgres_server: PostgresServer, redis_server: RedisServer, how: str) -> None:
        await migrate(postgres_server.url)
        await settle(postgres_server.url)
        async with (
            Asker(redis_server.url).listening() as asker,
            serving(postgres_server.url, redis_server.url) as ready,
        ):
            await asker.until_answered(PAGE)
            if how == "kill":
                await asyncio.to_thread(postgres_server.kill)
            else:
                await asyncio.to_thread(postgres_server.stop)
            with pytest.raises(RequestFailed) as refused:
                await asker.ask(PAGE)
            assert refused.value.failure.code == "unavailable"

            async def noticed() -> bool:
                status, text = await ready()
                return status == 503 and "postgresql" in text

            await until(noticed)
            await asyncio.to_thread(postgres_server.start)
            await asker.until_answered(PAGE)
            await until(lambda: is_ready(ready))

    async def test_absent_at_the_start_then_empty_then_migrated(
        self, postgres_server: PostgresServer, redis_server: RedisServer
    ) -> None:
        url = postgres_server.url
        assert urlsplit(url).port == postgres_server.port
        await asyncio.to_thread(postgres_server.stop)
        async with Asker(redis_server.url).listening() as asker, serving(url, redis_server.url) as ready:

            async def says(part: str) -> bool:
                status, text = await ready()
                return status == 503 and part in text

            await until(lambda: says("postgresql"))
            await asyncio.to_thread(postgres_server.start)
            await until(lambda: says(MIGRATE))
            with pytest.raises(RequestFailed) as refused:
                await asker.ask(PAGE)
            assert refused.value.failure.message == MIGRATE
            await migrate(url)
            await settle(url)
            await until(lambda: is_ready(ready))
            await asker.ask(SessionList(identity=OWNER))
            await asker.ask(PAGE)
