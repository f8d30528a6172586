"""One session, its only writer, and what the gateway has acknowledged of it."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from client.writers import NewMessage, WriteError, WriteRefused, Writers, Written
from tests.upheaval.acknowledged import Acknowledged

PARTS = 8
"""Portions in which a reply of the agent is streamed."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds until a write is repeated at first, and at most."""

Write = Callable[[], Awaitable[Written]]
"""Sends a write once."""

WORDS = ("the", "build", "passes", "again", "after", "this", "change", "to", "one", "test", "of", "two")


@dataclass(slots=True)
class Tally:
    """What writers went through: `writes` that were acknowledged, `retries` until they were, and those of them that
    were `done` already when they came, repeated by the writer or on the way, because only the answer was lost.
    """

    writes: int = 0
    retries: int = 0
    done: int = 0


class Conversation:
    """A session that one writer fills: prompts, and replies that are streamed. `texts`: each message's acknowledged
    text, by its id. `acknowledged`: revisions by `time.monotonic`.
    """

    def __init__(self, session_id: str, writers: Writers, tally: Tally) -> None:
        self.session_id = session_id
        self.texts: dict[str, str] = {}
        self.acknowledged = Acknowledged()
        self._writers = writers
        self._tally = tally

    async def create(self, task_id: str) -> None:
        """Makes the session."""
        await until_done(partial(self._writers.create_session, self.session_id, task_id, state="RUNNING"))

    async def write(self, pause: float, stop: asyncio.Event) -> None:
        """Writes every so many seconds on average until it is told to stop; what is begun then is finished."""
        turn = 0
        while not await _stopped(stop, pause):
            turn += 1
            name = f"{self.session_id}.{turn}"
            await self._acknowledged(partial(self._writers.start_turn, self.session_id, name))
            if await _stopped(stop, pause):
                return
            await self._message(f"{name}.prompt", "user", _portion())
            await self._reply(f"{name}.reply", pause, stop)
            if await _stopped(stop, pause):
                return
            await self._acknowledged(partial(self._writers.complete_turn, self.session_id, name))

    async def _reply(self, message_id: str, pause: float, stop: asyncio.Event) -> None:
        if await _stopped(stop, pause):
            return
        await self._message(message_id, "agent", _portion())
        for _ in range(PARTS - 1):
            if await _stopped(stop, pause):
                return
            before, portion = self.texts[message_id], f" {_portion()}"
            await self._acknowledged(partial(self._writers.append, self.session_id, message_id, len(before), portion))
            self.texts[message_id] = before + portion

    async def _message(self, message_id: str, author: str, text: str) -> None:
        new = NewMessage(message_id, author, text)
        await self._acknowledged(partial(self._writers.create_message, self.session_id, new))
        self.texts[message_id] = text

    async def _acknowledged(self, write: Write) -> None:
        written, attempts = await until_done(write)
        self.acknowledged.add(written.revision, time.monotonic())
        self._tally.writes += 1
        self._tally.retries += attempts - 1
        self._tally.done += not written.changed


async def until_done(write: Write) -> tuple[Written, int]:
    """Repeats a write, with the ids that it has, until it is acknowledged; its acknowledgement, and how often it was
    sent. Raises `WriteRefused` for an answer that is final.
    """
    attempts, longest = 1, FIRST_PAUSE
    while True:
        try:
            return await write(), attempts
        except WriteError as error:
            if isinstance(error, WriteRefused) and not error.retryable:
                raise
        attempts += 1
        await asyncio.sleep(longest * random.uniform(0.5, 1.0))
        longest = min(2 * longest, LONGEST_PAUSE)


async def _stopped(stop: asyncio.Event, pause: float) -> bool:
    """Waits for a random time around `pause`; whether it is over."""
    try:
        await asyncio.wait_for(stop.wait(), pause * random.uniform(0.5, 1.5))
    except TimeoutError:
        return False
    return True


def _portion() -> str:
    return " ".join(random.choices(WORDS, k=6))
