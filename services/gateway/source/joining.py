"""Page reads that several callers share (G8).

A caller joins a read that has not begun, never one that has: so every answer is at least as new as its request. Of one
page, one read is under way and at most one waits behind it. A page that was read is kept for a moment, and the next
read of it asks only whether its session still stands where it was read; so however many ask for a page, its rows are
read once per revision.

Callers with different rights share a read as well: it then names each user, and the snapshot that gives the page, or
says that it is unchanged, decides for every one of them. Whoever it does not admit, and everybody when it fails in a
way that could tell something of the session, reads alone and is told what that read says.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic

from services.gateway.source.kept import AnswerT, KeptPages, PageT
from services.gateway.source.room import Room
from shared.contracts.errors import ErrorCode, Failure, RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import Bound, UnchangedAnswer

GATEWAY = Identity(user="", unscoped=True, credential="gateway")
"""The gateway's own identity, for reads that decide for each of those who are named in them."""

COMMON_FAILURES: frozenset[ErrorCode] = frozenset({"unavailable", "behind", "limit_exceeded"})
"""What concerns everyone who shares a read, and tells nothing of the session."""

Ask = Callable[[PageT, float], Awaitable[tuple[AnswerT | UnchangedAnswer, int]]]
"""Has a reader answer within so many seconds; the answer, and its bytes."""


@dataclass(slots=True, eq=False)
class _Shared(Generic[AnswerT]):
    """A read for whoever joins it before it begins."""

    first: Identity
    outcome: "asyncio.Future[AnswerT | Failure]"
    users: set[str] = field(default_factory=set)
    unscoped: bool = False
    callers: int = 0

    @property
    def alike(self) -> bool:
        """Whether the callers have the same rights: then the first one's decide."""
        return len(self.users) + self.unscoped == 1

    def join(self, identity: Identity) -> None:
        self.callers += 1
        if identity.unscoped:
            self.unscoped = True
        else:
            self.users.add(identity.user)


class Joining(Generic[PageT, AnswerT]):
    """Pages of one kind. `least`: what a read of this session must have reached (G2). `room`: for one read each."""

    def __init__(
        self, ask: Ask[PageT, AnswerT], least: Callable[[str], Bound | None], room: Room, timeout: float
    ) -> None:
        self._ask = ask
        self._least = least
        self._room = room
        self._timeout = timeout
        self._kept: KeptPages[PageT, AnswerT] = KeptPages()
        self._waiting: dict[PageT, _Shared[AnswerT]] = {}
        self._under_way: dict[PageT, _Shared[AnswerT]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, page: PageT) -> AnswerT:
        """The page as this caller may see it. Raises RequestFailed."""
        deadline = time.monotonic() + self._timeout
        shared = self._joined(page)
        try:
            outcome = await _outcome_of(shared, deadline)
        finally:
            shared.callers -= 1
        if isinstance(outcome, Failure):
            if shared.alike or outcome.code in COMMON_FAILURES:
                raise RequestFailed(outcome.code, outcome.message, **outcome.details)
        elif shared.alike or page.identity.unscoped or page.identity.user in outcome.admitted:
            return outcome
        async with self._room.taken(1, deadline):
            alone = page.model_copy(update={"least": self._least(page.session_id)})
            answer, _ = await self._ask(alone, deadline - time.monotonic())
        return _whole(answer, None)

    async def close(self) -> None:
        """Drops what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _joined(self, page: PageT) -> _Shared[AnswerT]:
        """The read that this caller shares; it has not begun."""
        key = page.model_copy(update={"identity": GATEWAY, "least": None})
        shared = self._waiting.get(key)
        if shared is None:
            loop = asyncio.get_running_loop()
            shared = self._waiting[key] = _Shared(page.identity, loop.create_future())
            task = loop.create_task(self._carry_out(key, shared, self._under_way.get(key)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        shared.join(page.identity)
        return shared

    async def _carry_out(self, key: PageT, shared: _Shared[AnswerT], before: _Shared[AnswerT] | None) -> None:
        outcome: AnswerT | Failure = Failure(code="unavailable", message="the gateway could not read; see its log")
        try:
            if before is not None:
                await asyncio.wait([before.outcome])
            async with self._room.taken(1, time.monotonic() + self._timeout):
                del self._waiting[key]
                self._under_way[key] = shared
                outcome = await self._read(key, shared)
        except RequestFailed as failed:
            outcome = failed.failure
        finally:
            for reads in (self._waiting, self._under_way):
                if reads.get(key) is shared:
                    del reads[key]
            shared.outcome.set_result(outcome)

    async def _read(self, key: PageT, shared: _Shared[AnswerT]) -> AnswerT:
        if shared.callers == 0:
            raise RequestFailed("unavailable", "everybody who asked has gone")
        least = self._least(key.session_id)
        kept = self._kept.find(key)
        if kept is not None and least is not None and (kept.epoch, kept.revision) != (least.epoch, least.revision):
            kept = None
        read = key.model_copy(
            update={
                "identity": shared.first if shared.alike else GATEWAY,
                "readers": () if shared.alike else tuple(sorted(shared.users)),
                "least": least,
                "held": None if kept is None else Bound(epoch=kept.epoch, revision=kept.revision),
            }
        )
        answer, size = await self._ask(read, self._timeout)
        if isinstance(answer, UnchangedAnswer):
            self._kept.renew(key)
        else:
            self._kept.keep(key, answer, size)
        return _whole(answer, kept)


async def _outcome_of(shared: _Shared[AnswerT], deadline: float) -> AnswerT | Failure:
    """What a shared read comes to. A caller that leaves, or has waited long enough, leaves it to the others."""
    done, _ = await asyncio.wait([shared.outcome], timeout=deadline - time.monotonic())
    if not done:
        raise RequestFailed("unavailable", "no service answered in time; ask again")
    return shared.outcome.result()


def _whole(answer: AnswerT | UnchangedAnswer, kept: AnswerT | None) -> AnswerT:
    """The page, with the rows that were kept where they are unchanged."""
    if not isinstance(answer, UnchangedAnswer):
        return answer
    if kept is None:
        raise RequestFailed("unavailable", "the answer cannot be read; ask again")
    return kept.model_copy(update={"primary": answer.primary, "task_id": answer.task_id, "admitted": answer.admitted})
