"""A process full of clients, and the writers of the sessions that they follow: `python -m tests.upheaval.crowd ORDER`.

Whoever started it asks one thing at a time, on standard input. `ORDER` is the JSON of an `Order`.
"""

import asyncio
import random
import sys
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from client.comparison import Outcome, compare
from client.connection import LONGEST_DELAY, Connection, ConnectionFailed
from client.http_pages import PageRefused
from client.source import read_source
from client.writers import Writers
from shared.contracts.wire import CoreMessage
from tests.bench.peers.answering import Answer, serve
from tests.upheaval.client import KINDS, Client
from tests.upheaval.conversation import Conversation, Tally, until_done
from tests.upheaval.figures import Figures

AT_ONCE = 25
"""Clients that open, or are compared, at a time."""

LOOKS_APART = 0.05

READ_AGAIN_AFTER = 0.5

LAST_MOMENT = 1.0
"""Seconds that a client has for being compared when the time for all of them is over."""

SHOWN = 20
"""Sentences about what is wrong that are told; the rest is counted."""

T = TypeVar("T")


class Order(BaseModel):
    """How many follow and write, and where. `rate`: writes a second of all sessions together. `patience`: seconds
    after which a client counts as one that does not come back.
    """

    model_config = ConfigDict(frozen=True)

    urls: tuple[str, ...]
    token: str | None
    clients: int
    sessions: int
    rate: float
    patience: float


class Crowd:
    """The clients and writers of one process."""

    def __init__(self, order: Order, ending: AsyncExitStack) -> None:
        self._order = order
        self._ending = ending
        self._tally = Tally()
        self._marked = Tally()
        self._conversations: list[Conversation] = []
        self._clients: list[Client] = []
        self._stop = asyncio.Event()
        self._writing: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Makes the sessions, follows them, and begins to write."""
        order = self._order
        writers = [
            await self._ending.enter_async_context(Writers(url, token=order.token, attempts=1)) for url in order.urls
        ]
        name = f"upheaval-{uuid.uuid4().hex[:12]}"
        await until_done(lambda: writers[0].create_workspace(name, "Upheaval"))
        await until_done(lambda: writers[0].create_task(name, name, "Upheaval"))
        for number in range(order.sessions):
            writer = writers[number % len(writers)]
            self._conversations.append(Conversation(f"{name}.{number}", writer, self._tally))
        await _each(conversation.create(name) for conversation in self._conversations)
        for number in range(order.clients):
            # Every kind meets every session and every gateway.
            turn, place = divmod(number, order.sessions)
            url, kind = order.urls[(number + turn) % len(order.urls)], KINDS[(place + turn) % len(KINDS)]
            self._clients.append(Client(url, order.token, self._conversations[place], kind))
        await _each(self._follow(client) for client in self._clients)
        self._writing = [
            asyncio.create_task(conversation.write(order.sessions / order.rate, self._stop))
            for conversation in self._conversations
        ]

    def mark(self) -> None:
        """Forgets what clients and writers went through so far."""
        self._marked = Tally(**asdict(self._tally))
        for client in self._clients:
            client.mark()

    async def settle(self) -> dict[str, Any]:
        """Waits until every writer got through once more, and every client is live at what was written until then; what
        they went through since the mark, and who does not come back.
        """
        before = {conversation.session_id: len(conversation.acknowledged) for conversation in self._conversations}

        def unwritten() -> list[str]:
            return [
                conversation.session_id
                for conversation in self._conversations
                if not self._stop.is_set() and len(conversation.acknowledged) == before[conversation.session_id]
            ]

        stuck = await self._until_none(unwritten)
        newest = {conversation.session_id: conversation.acknowledged.newest for conversation in self._conversations}
        late = await self._until_none(
            lambda: [
                _described(client)
                for client in self._clients
                if not client.has_reached(newest[client.conversation.session_id])
            ]
        )
        wrong = [f"{session}: its writer does not get through" for session in stuck]
        wrong += [f"a writer gave up: {error!r}" for error in self._failures()]
        wrong += [f"{client}: not live at the newest revision" for client in late]
        return {"figures": self._figures().model_dump(), "wrong": _at_most(wrong)}

    async def finish(self) -> dict[str, Any]:
        """Ends the writers and compares every client, and what was acknowledged, with the source; what differs."""
        self._stop.set()
        _, unanswered = await asyncio.wait(self._writing, timeout=self._order.patience)
        for writing in unanswered:
            writing.cancel()
        await asyncio.wait(self._writing)
        settled = await self.settle()
        until = asyncio.get_running_loop().time() + self._order.patience
        compared = await _each(self._difference(client, until) for client in self._clients)
        kept = await _each(self._lost_writes(conversation, until) for conversation in self._conversations)
        wrong = [*settled["wrong"], *filter(None, (*compared, *kept))]
        return {
            "wrong": _at_most(wrong),
            "equal": sum(not found for found in compared),
            "messages": sum(len(conversation.texts) for conversation in self._conversations),
        }

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Does what is asked."""
        match question["do"]:
            case "open":
                await self.open()
                return {}
            case "mark":
                self.mark()
                return {}
            case "settle":
                return await self.settle()
            case "finish":
                return await self.finish()
        raise ValueError(f"asked for {question['do']}")

    async def _follow(self, client: Client) -> None:
        """Opens a client: as often as that takes, like one that reconnects. Raises TimeoutError when patience ends."""
        async with asyncio.timeout(self._order.patience):
            while True:
                try:
                    await self._ending.enter_async_context(client)
                except ConnectionFailed:
                    await asyncio.sleep(LONGEST_DELAY * random.random())
                else:
                    return

    def _failures(self) -> list[BaseException]:
        ended = [writing for writing in self._writing if writing.done() and not writing.cancelled()]
        return [error for writing in ended if (error := writing.exception()) is not None]

    def _figures(self) -> Figures:
        troubles = [client.trouble() for client in self._clients]
        return Figures(
            clients=len(troubles),
            live=sum(client.live for client in self._clients),
            gaps=sum(each.gaps for each in troubles),
            resets=sum(each.resets for each in troubles),
            repairs=sum(each.repairs for each in troubles),
            most_repairs=max((each.repairs for each in troubles), default=0),
            most_excess=max((each.excess for each in troubles), default=0),
            resumes=sum(each.resumes for each in troubles),
            lost=sum(each.lost for each in troubles),
            behind=max((each.behind for each in troubles), default=0.0),
            not_live=max((each.not_live for each in troubles), default=0.0),
            writes=self._tally.writes - self._marked.writes,
            retries=self._tally.retries - self._marked.retries,
            done=self._tally.done - self._marked.done,
        )

    async def _until_none(self, look: Callable[[], Sequence[str]]) -> Sequence[str]:
        """Looks until nothing is found, or patience ends; what was found last."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._order.patience
        while (found := look()) and clock() < until:  # noqa: ASYNC110 - every step of every client could be the last
            await asyncio.sleep(LOOKS_APART)
        return found

    async def _difference(self, client: Client, until: float) -> str:
        """How a client differs from the source; empty when it does not."""
        found = await compare(client.connection, client.follower, _left(until))
        if found.outcome is Outcome.EQUAL:
            return ""
        differs = found.difference
        counts = f"missing {len(differs.missing)}, not there {len(differs.extra)}, differing {len(differs.differing)}"
        return f"{_described(client)}: {found.outcome.value} at the source's revision {found.revision}, {counts}"

    async def _lost_writes(self, conversation: Conversation, until: float) -> str:
        """How the source differs from what was acknowledged; empty when it does not."""
        connection = self._clients[self._conversations.index(conversation) % len(self._clients)].connection
        try:
            async with asyncio.timeout(_left(until)):
                stored = await _stored(connection, conversation.session_id)
        except TimeoutError:
            return f"{conversation.session_id}: cannot be read"
        lost = [message for message, text in conversation.texts.items() if stored.get(message) != text]
        unknown = stored.keys() - conversation.texts.keys()
        if not lost and not unknown:
            return ""
        return f"{conversation.session_id}: acknowledged, and not so in the source {lost}; never written {unknown}"


async def _stored(connection: Connection, session_id: str) -> dict[str, str]:
    """Texts of a session's messages in the source, by their ids."""
    while True:
        try:
            source = await read_source(connection, session_id)
        except PageRefused:
            await asyncio.sleep(READ_AGAIN_AFTER)
        else:
            return {row.id: row.body.content for row in source.rows if isinstance(row.body, CoreMessage)}


def _at_most(wrong: Sequence[str]) -> list[str]:
    left = len(wrong) - SHOWN
    return list(wrong) if left <= 0 else [*wrong[:SHOWN], f"… and {left} more"]


def _left(until: float) -> float:
    """Seconds until then, and a moment at least for those who come last."""
    return max(LAST_MOMENT, until - asyncio.get_running_loop().time())


async def _each(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Does everything, a bounded number at a time; results in order. Raises what the first to fail raised."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def gated(each: Coroutine[None, None, T]) -> T:
        async with gate:
            return await each

    return await asyncio.gather(*(gated(each) for each in work))


def _described(client: Client) -> str:
    state = client.follower.state
    return f"{client.conversation.session_id} ({client.kind.name}), {state.status} at {state.applied}"


async def main(answer_all: Callable[[Answer], Awaitable[None]]) -> None:
    """Carries the crowd that the first argument orders."""
    order = Order.model_validate_json(sys.argv[1])
    async with AsyncExitStack() as ending:
        await answer_all(Crowd(order, ending).answer)


if __name__ == "__main__":
    serve(main)
