"""Where sessions stand, asked for by very many at once: all that is asked within a moment is one request.

Clients that lost their connections together come back together, and each of their scopes asks for its session's
revision. A caller joins a look that has not begun, never one that has, so what it is told is never older than its
question (G1). Whose rights allow what is decided by the snapshot that tells the revision, for each user by name.

A look names no least revision: a reader that waited for one session would hold up everybody else, and tell by its
waiting that it is there. Whoever finds the session older than it was known when asking looks again, with others (G2);
it is told so only if it may see the session.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.gateway.source.batches import fits
from services.gateway.source.joining import GATEWAY
from shared.contracts.errors import Failure, RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import Bound, RevisionAnswer, RevisionCheck

MOMENT_SECONDS = 0.1
"""The next look begins when the one before it is answered, or after this long: a reader that died holds nobody up."""

PAUSES = (0.002, 0.004, 0.008, 0.016, 0.030, 0.060)
"""Pauses before a session that was found older than it is known is looked at again; the last one repeats. A receipt is
ahead of its commit's visibility by a few milliseconds.
"""

Ask = Callable[[RevisionCheck], Awaitable[RevisionAnswer]]
"""Has a reader answer. Raises RequestFailed."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a look found. `refused`: by session, those of its readers who may not see it."""

    answer: RevisionAnswer
    refused: dict[str, frozenset[str]]

    def by(self, identity: Identity, session_id: str) -> RevisionAnswer:
        """The one session as this caller may see it: what it may not is as what is not there."""
        answer, revision = self.answer, self.answer.revisions.get(session_id)
        barred = not identity.unscoped and identity.user in self.refused.get(session_id, ())
        if revision is None or barred:
            return RevisionAnswer(epoch=answer.epoch, primary=answer.primary, revisions={}, tasks={})
        return RevisionAnswer(
            epoch=answer.epoch,
            primary=answer.primary,
            revisions={session_id: revision},
            tasks={session_id: answer.tasks[session_id]},
        )


@dataclass(slots=True, eq=False)
class _Look:
    """Sessions, and who asks for each of them by name; not begun while it can be joined."""

    outcome: "asyncio.Future[_Seen | Failure]"
    readers: dict[str, set[str]] = field(default_factory=dict)
    pairs: int = 0

    def takes(self, identity: Identity, session_id: str) -> bool:
        """Joins a caller, if there is room for it."""
        readers = self.readers.get(session_id, set())
        more = not identity.unscoped and identity.user not in readers
        if not fits(len(self.readers.keys() | {session_id}), self.pairs + more):
            return False
        self.readers[session_id] = readers
        if more:
            readers.add(identity.user)
            self.pairs += 1
        return True


class Standings:
    """Looks at sessions for whoever asks: in any snapshot as it is, or, where `authoritative`, in the primary's."""

    def __init__(self, ask: Ask, least: Callable[[str], Bound | None], timeout: float, *, authoritative: bool) -> None:
        self._ask = ask
        self._least = least
        self._timeout = timeout
        self._authoritative = authoritative
        self._waiting: deque[_Look] = deque()
        self._beginning: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def look(self, identity: Identity, session_id: str) -> RevisionAnswer:
        """Where the session stands, as this caller may see it, and no older than was known when it was asked for.
        What a replica does not show, the primary may. Raises RequestFailed: `behind` when only older ones were found.
        """
        deadline, least = time.monotonic() + self._timeout, self._least(session_id)
        pauses = iter(PAUSES)
        pause = 0.0
        while True:
            found = (await self._joined(identity, session_id, deadline)).by(identity, session_id)
            if not _is_behind(found, session_id, least):
                return found
            pause = next(pauses, pause)
            if time.monotonic() + pause > deadline:
                raise RequestFailed("behind", "the session was only found older than it is known; ask again")
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Drops what is under way."""
        tasks = [*self._under_way, *((self._beginning,) if self._beginning is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _joined(self, identity: Identity, session_id: str, deadline: float) -> _Seen:
        """What the next look that begins finds. A caller that leaves, or has waited long enough, leaves it be."""
        look = self._next(identity, session_id)
        done, _ = await asyncio.wait([look.outcome], timeout=deadline - time.monotonic())
        if not done:
            raise RequestFailed("unavailable", "no service answered in time; ask again")
        outcome = look.outcome.result()
        if isinstance(outcome, Failure):
            raise RequestFailed(outcome.code, outcome.message, **outcome.details)
        return outcome

    def _next(self, identity: Identity, session_id: str) -> _Look:
        loop = asyncio.get_running_loop()
        if not self._waiting or not self._waiting[-1].takes(identity, session_id):
            look = _Look(loop.create_future())
            look.takes(identity, session_id)
            self._waiting.append(look)
        if self._beginning is None or self._beginning.done():
            self._beginning = loop.create_task(self._begin())
        return self._waiting[-1]

    async def _begin(self) -> None:
        """Begins what waits, one after another: from then on nobody joins it."""
        while self._waiting:
            task = asyncio.get_running_loop().create_task(self._carry_out(self._waiting.popleft()))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            await asyncio.wait([task], timeout=MOMENT_SECONDS)

    async def _carry_out(self, look: _Look) -> None:
        outcome: _Seen | Failure = Failure(code="unavailable", message="the gateway could not read; see its log")
        try:
            check = RevisionCheck(
                identity=GATEWAY,
                sessions=tuple(look.readers),
                readers={session: tuple(users) for session, users in look.readers.items() if users},
                authoritative=self._authoritative,
                as_found=not self._authoritative,
            )
            answer = await self._ask(check)
            outcome = _Seen(answer, {session: frozenset(users) for session, users in answer.refused.items()})
        except RequestFailed as failed:
            outcome = failed.failure
        finally:
            look.outcome.set_result(outcome)


def _is_behind(found: RevisionAnswer, session_id: str, least: Bound | None) -> bool:
    """Whether a session that is there is older than it was known. Another epoch's revision says nothing."""
    revision = found.revisions.get(session_id)
    return revision is not None and least is not None and least.epoch == found.epoch and revision < least.revision
