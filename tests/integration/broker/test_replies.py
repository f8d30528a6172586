"""Requests and replies on a real Redis."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from deploy.local.redis import RedisServer
from services.gateway.source.outgoing import Outgoing
from services.gateway.source.positions import KnownPositions
from services.gateway.source.requests import Source
from shared.broker import replies
from shared.broker.connection import connect
from shared.broker.replies import REMOVE_BYTES, ReplyInbox, ReplyWriter, deadline_ms, is_past
from shared.contracts import streams
from shared.contracts.commands import CreateMessage
from shared.contracts.errors import Failure, RequestFailed
from shared.contracts.identity import LOCAL_USER
from shared.contracts.reads import MessagesPage, ReadRequest, RevisionAnswer, TurnsPage
from tests.support.waiting import PATIENCE, eventually

ANSWER = RevisionAnswer(epoch="e", primary=True, revisions={"s": 7}, tasks={"s": "t"})


@dataclass
class Asking:
    """One asking process, and somebody who answers it."""

    inbox: ReplyInbox
    writer: ReplyWriter
    client: Redis
    asked: list[str] = field(default_factory=list)

    async def note(self, request_id: str) -> None:
        """Sends nothing: notes that it was asked."""
        self.asked.append(request_id)

    async def until_asked(self, times: int) -> str:
        """Waits until it was asked that often; the last request's id."""
        await eventually(lambda: asyncio.sleep(0, len(self.asked) >= times))
        return self.asked[-1]


@pytest.fixture
async def asking(redis_server: RedisServer) -> AsyncIterator[Asking]:
    clients = [connect(SecretStr(redis_server.url)) for _ in range(2)]
    inbox = ReplyInbox(clients[0])
    running = asyncio.create_task(inbox.run())
    yield Asking(inbox, ReplyWriter(clients[1]), clients[1])
    running.cancel()
    await asyncio.wait([running])
    for client in clients:
        await client.aclose()


async def test_each_reply_reaches_its_asker(asking: Asking) -> None:
    deadline = time.monotonic() + 30
    asks = [asyncio.create_task(asking.inbox.ask(asking.note, deadline)) for _ in range(10)]
    await asking.until_asked(10)
    for place, request_id in reversed(list(enumerate(asking.asked))):
        await asking.writer.answer(asking.inbox.name, request_id, ANSWER.model_copy(update={"revisions": {"s": place}}))
    found = [RevisionAnswer.model_validate_json(body).revisions["s"] for body in await asyncio.gather(*asks)]
    assert found == list(range(10))


async def test_a_typed_error_is_raised_as_it_was_sent(asking: Asking) -> None:
    ask = asyncio.create_task(asking.inbox.ask(asking.note, time.monotonic() + 30))
    request_id = await asking.until_asked(1)
    failure = Failure(code="conflict", message="longer", details={"length": 7})
    await asking.writer.refuse(asking.inbox.name, request_id, failure)
    with pytest.raises(RequestFailed) as failed:
        await ask
    assert failed.value.failure == failure


async def test_a_reply_that_is_lost_is_asked_for_again(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "ATTEMPT_SECONDS", 0.1)
    ask = asyncio.create_task(asking.inbox.ask(asking.note, time.monotonic() + 30))
    request_id = await asking.until_asked(3)
    assert set(asking.asked) == {request_id}, "a reader that has the first attempt in hand knows the next ones by it"
    await asking.writer.answer(asking.inbox.name, request_id, ANSWER)
    assert RevisionAnswer.model_validate_json(await ask) == ANSWER


async def test_nobody_answers(asking: Asking) -> None:
    with pytest.raises(RequestFailed) as failed:
        await asking.inbox.ask(asking.note, time.monotonic() + 0.05)
    assert failed.value.failure.code == "unavailable"
    assert failed.value.failure.retryable


async def test_a_request_that_cannot_be_sent_ends_at_its_deadline(asking: Asking) -> None:
    """A server that takes the connection and says nothing: the deadline holds all the same."""

    async def never(_: str) -> None:
        await asyncio.Event().wait()

    with pytest.raises(RequestFailed):
        await asking.inbox.ask(never, time.monotonic() + 0.05)


async def test_a_cancellation_that_is_lost_keeps_nobody_waiting(asking: Asking) -> None:
    """As redis-py can lose it: the time-out of a send ends nothing a second time."""

    async def swallowing(_: str) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    ask = asyncio.create_task(asking.inbox.ask(swallowing, time.monotonic() + 0.2))
    done, _ = await asyncio.wait([ask], timeout=PATIENCE)
    assert done
    assert isinstance(ask.exception(), RequestFailed)


async def test_a_reply_that_comes_while_its_send_fails_counts(asking: Asking) -> None:
    sent = 0

    async def failing(request_id: str) -> None:
        nonlocal sent
        sent += 1
        await asking.writer.answer(asking.inbox.name, request_id, ANSWER)
        await eventually(lambda: asking.client.xlen(asking.inbox.name), lambda length: length == 0)
        raise ConnectionError

    body = await asking.inbox.ask(failing, time.monotonic() + 30)
    assert RevisionAnswer.model_validate_json(body) == ANSWER
    assert sent == 1


async def test_a_redis_that_comes_back_empty_and_behind(asking: Asking, redis_server: RedisServer) -> None:
    await asking.client.xadd(asking.inbox.name, {"i": "x", "o": "1", "b": "{}"}, id=f"{1 << 50}-0")
    ask = asyncio.create_task(asking.inbox.ask(asking.note, time.monotonic() + 40))
    await asking.until_asked(1)
    await asyncio.to_thread(redis_server.kill)
    await asyncio.to_thread(redis_server.start)
    times = len(asking.asked)
    while not ask.done():
        request_id = await asking.until_asked(times)
        await asking.writer.answer(asking.inbox.name, request_id, ANSWER)
        await asyncio.wait([ask], timeout=0.05)
    assert RevisionAnswer.model_validate_json(await ask) == ANSWER


async def answered(asking: Asking) -> None:
    """One request, asked and answered as often as it takes."""
    ask = asyncio.create_task(asking.inbox.ask(asking.note, time.monotonic() + 40))
    times = len(asking.asked) + 1
    while not ask.done():
        await asking.writer.answer(asking.inbox.name, await asking.until_asked(times), ANSWER)
        await asyncio.wait([ask], timeout=0.05)
    assert RevisionAnswer.model_validate_json(await ask) == ANSWER


@pytest.mark.parametrize("forget", ["flush", "delete", "expiry"])
async def test_a_reply_stream_that_begins_anew_while_the_connection_stays_up(asking: Asking, forget: str) -> None:
    """G9."""
    await answered(asking)
    await asking.client.xadd(asking.inbox.name, {"i": "x", "o": "1", "b": "{}"}, id=f"{1 << 50}-0")
    await answered(asking)
    if forget == "flush":
        await asking.client.flushall()
    elif forget == "delete":
        await asking.client.delete(asking.inbox.name)
    else:
        await asking.client.pexpire(asking.inbox.name, 1)
        await eventually(lambda: asking.client.exists(asking.inbox.name), lambda found: not found)
    await answered(asking)


@pytest.mark.parametrize(
    "garbage",
    [{"x": "y"}, {b"i": b"\xff", "o": "1", "b": ""}, {"i": "x"}, {b"\xff": b"\xff"}],
)
async def test_an_entry_that_is_no_reply_costs_a_line(
    asking: Asking, garbage: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    await asking.client.xadd(asking.inbox.name, garbage)  # type: ignore[arg-type] # redis-py's parameter is invariant
    await answered(asking)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("ok", ["1", "0"])
async def test_an_answer_that_is_none_may_be_asked_for_again(asking: Asking, ok: str) -> None:
    source = Source(Outgoing(asking.client), asking.inbox, KnownPositions(), request_timeout=30)
    reading = asyncio.create_task(source.check(("s",)))

    async def asked() -> str | None:
        found = await asking.client.xrange(streams.READS)
        text = repr(found)
        return text[text.index('"request_id":"') + 14 :].split('"')[0] if found else None

    request_id = await eventually(asked)
    await asking.client.xadd(asking.inbox.name, {"i": request_id or "", "o": ok, "b": '{"no":"answer"}'})
    with pytest.raises(RequestFailed) as failed:
        await reading
    assert failed.value.failure.code == "unavailable"


async def test_what_was_read_is_removed(asking: Asking) -> None:
    large = ANSWER.model_copy(update={"revisions": {f"session{number}": number for number in range(50_000)}})
    size = len(large.model_dump_json())
    for _ in range(2 * REMOVE_BYTES // size + 2):
        await asking.writer.answer(asking.inbox.name, "nobody", large)
    await eventually(lambda: asking.client.xlen(asking.inbox.name), lambda length: length * size <= REMOVE_BYTES)
    await asking.writer.answer(asking.inbox.name, "nobody", ANSWER)
    await eventually(lambda: asking.client.xlen(asking.inbox.name), lambda length: length == 0)
    await answered(asking)


async def test_what_nobody_reads_is_bounded_in_bytes(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "KEEP_BYTES", 1 << 20)
    large = ANSWER.model_copy(update={"epoch": "x" * 100_000})
    for _ in range(40):
        await asking.writer.answer("conversation:replies:gone", "nobody", large)
        used = await asking.client.memory_usage("conversation:replies:gone")
        assert used is not None
        assert used < (1 << 20) + 4 * 100_000
    assert await asking.client.xlen("conversation:replies:gone") >= 10


async def test_a_command_that_nobody_answers_is_taken_back(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "ATTEMPT_SECONDS", 0.05)
    source = Source(Outgoing(asking.client), asking.inbox, KnownPositions(), request_timeout=0.3)
    command = CreateMessage(message_id="m", session_id="s", author_type="user", content="x" * 1000)
    asks = [asyncio.create_task(source.command(LOCAL_USER, command)) for _ in range(10)]
    longest = 0
    while not all(ask.done() for ask in asks):
        longest = max(longest, await asking.client.xlen(streams.COMMANDS))
    for ask in asks:
        with pytest.raises(RequestFailed):
            await ask
    assert 0 < longest <= 10
    assert await asking.client.xlen(streams.COMMANDS) == 0


def test_deadlines() -> None:
    assert is_past(deadline_ms(-1))
    assert not is_past(deadline_ms(60))


@pytest.mark.parametrize("read", ["messages", "turns"])
async def test_every_page_read_names_the_least_revision_that_is_known(asking: Asking, read: str) -> None:
    """G2."""
    positions = KnownPositions()
    positions.enter("e")
    positions.note("s", "e", 41)
    positions.note("s", "e", 40)
    positions.note("s", "other", 99)
    source = Source(Outgoing(asking.client), asking.inbox, positions, request_timeout=0.2)
    asks: dict[str, Callable[[], Awaitable[object]]] = {
        "messages": lambda: source.messages(MessagesPage(identity=LOCAL_USER, session_id="s")),
        "turns": lambda: source.turns(TurnsPage(identity=LOCAL_USER, session_id="s")),
    }
    with pytest.raises(RequestFailed):
        await asks[read]()
    found = await asking.client.xrange(streams.READS)
    assert found
    text = repr(found[0])
    asked, _ = json.JSONDecoder().raw_decode(text[text.index('{"request_id"') :])
    request = ReadRequest.model_validate(asked)
    assert '"least":{"epoch":"e","revision":41}' in request.model_dump_json()
