"""A read that waits for its source leaves its place to others."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from pydantic import SecretStr

from services.reader.admission import cost_of
from services.reader.answers import Reader
from services.reader.metrics import METRICS
from services.reader.requests import PAGES_AT_WORK, ReadRequests
from shared.broker.guarded import open_broker
from shared.broker.replies import ReplyWriter, deadline_ms
from shared.contracts.errors import Failure
from shared.contracts.identity import LOCAL_USER
from shared.contracts.reads import Answer, ListAnswer, MessagesPage, Read, ReadRequest
from tests.support.counting import counting
from tests.support.waiting import eventually

BEHIND = MessagesPage(identity=LOCAL_USER, session_id="behind")
SHOWN = MessagesPage(identity=LOCAL_USER, session_id="shown")
PLACES = PAGES_AT_WORK // cost_of(BEHIND)
ANSWER = ListAnswer(epoch="e", primary=True)


class Source:
    """Answers a read of `shown` at once, and any other after a rest for each look that finds it `behind`."""

    def __init__(self) -> None:
        self.behind = True
        self.at_work = 0
        self.most_at_work = 0

    async def answer(self, read: Read, rest: Callable[[float], Awaitable[None]]) -> Answer:
        while True:
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            try:
                await asyncio.sleep(0)
            finally:
                self.at_work -= 1
            if not self.behind or read == SHOWN:
                return ANSWER
            await rest(0.001)


class Replies:
    """Remembers who was answered."""

    def __init__(self) -> None:
        self.answered: list[str] = []

    async def answer(self, _: str, request_id: str, __: Answer) -> None:
        self.answered.append(request_id)

    async def refuse(self, _: str, request_id: str, failure: Failure) -> None:
        raise AssertionError(f"{request_id}: {failure.code}")


def entry(request_id: str, read: Read, seconds: float = 60.0) -> bytes:
    request = ReadRequest(request_id=request_id, reply_to="g", deadline=deadline_ms(seconds), read=read)
    return request.model_dump_json().encode()


@pytest.fixture
def parts() -> tuple[ReadRequests, Source, Replies]:
    source, replies = Source(), Replies()
    broker = open_broker(SecretStr("redis://127.0.0.1:1"))
    # What it takes of a reader and of replies is what these have.
    return ReadRequests(broker, cast("Reader", source), cast("ReplyWriter", replies), "test"), source, replies


async def test_any_number_that_wait_hold_up_nobody(parts: tuple[ReadRequests, Source, Replies]) -> None:
    requests, source, replies = parts
    await requests.handle([entry(f"behind{number}", BEHIND) for number in range(3 * PLACES)])
    await requests.handle([entry("shown", SHOWN)])

    async def answered() -> list[str]:
        return list(replies.answered)

    assert await eventually(answered, bool) == ["shown"]
    source.behind = False
    assert len(await eventually(answered, lambda found: len(found) > 3 * PLACES)) == 3 * PLACES + 1
    assert 1 < source.most_at_work <= PLACES
    await requests.close()


@pytest.mark.parametrize("deadline", [10**400, 10**4000, 2**63, -(10**400)])
async def test_a_deadline_beyond_all_time_takes_no_other_read_along(
    parts: tuple[ReadRequests, Source, Replies], deadline: int
) -> None:
    requests, _, replies = parts
    await requests.handle([entry(f"behind{number}", BEHIND) for number in range(3 * PLACES)])
    strange = json.dumps({**json.loads(entry("strange", SHOWN)), "deadline": deadline}).encode()
    await requests.handle([strange, entry("shown", SHOWN)])

    async def answered() -> list[str]:
        return list(replies.answered)

    assert await eventually(answered, bool) == ["shown"]
    await requests.close()


async def test_one_whose_time_is_over_leaves_nothing_behind(parts: tuple[ReadRequests, Source, Replies]) -> None:
    requests, source, replies = parts
    await requests.handle([entry(f"late{number}", BEHIND, 0.05) for number in range(3 * PLACES)])

    async def in_hand() -> int:
        return len(asyncio.all_tasks())

    await eventually(in_hand, lambda tasks: tasks == 1)
    source.most_at_work, source.behind = 0, False
    await requests.handle([entry(str(number), BEHIND) for number in range(3 * PLACES)])

    async def answered() -> int:
        return len(replies.answered)

    await eventually(answered, lambda number: number == 3 * PLACES)
    assert source.most_at_work == PLACES
    await requests.close()


async def test_reads_are_counted_by_what_became_of_them(
    parts: tuple[ReadRequests, Source, Replies], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, _, replies = parts
    refused: list[str] = []

    async def refuse(_: str, request_id: str, __: Failure) -> None:
        refused.append(request_id)

    async def settled_requests() -> bool:
        return len(replies.answered) == 1 and not requests._tasks

    monkeypatch.setattr(replies, "refuse", refuse)
    with counting(METRICS) as counted:
        await requests.handle([entry("shown", SHOWN), entry("past", SHOWN, -1.0)])
        await eventually(settled_requests)
        await requests.handle([entry(f"late{number}", BEHIND, 0.05) for number in range(2 * PLACES)])
        await eventually(settled_requests)
        # One that begins nothing any more keeps what it takes on, and has room for one.
        await requests.close()
        monkeypatch.setattr(requests._pages, "_most_waiting", 0)
        await requests.handle([entry(f"more{number}", BEHIND) for number in range(3)])
    reads = "kandev_reader_reads_total", "messages_page"
    assert counted[*reads, "answered"] == 1
    assert counted["kandev_reader_read_seconds_count", "messages_page"] >= 1
    assert counted[*reads, "refused"] == len(refused) == 2
    assert counted[*reads, "expired"] == 1 + 2 * PLACES
    figures = {(lane, state): value for _, (lane, state), value in requests.reads()}
    assert figures.keys() == {(lane, state) for lane in ("pages", "others") for state in ("waiting", "working")}
    assert figures["pages", "waiting"] > 0
