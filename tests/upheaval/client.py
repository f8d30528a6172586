"""One client: a connection of its own and one scope, and what it went through since the last mark."""

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from client.connection import Answered, Connection
from client.follower import Follower
from client.range import Filter, RowChange
from client.state import Counters, Offline, State
from tests.upheaval.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Kind:
    """How a client follows. `resumes`: it asks to go on where it was after a lost connection; others read again."""

    name: str
    scope_filter: Filter
    resumes: bool = True


KINDS = (
    Kind("all rows", Filter()),
    Kind("prompts", Filter(authors=("user",))),
    Kind("all rows, without resuming", Filter(), resumes=False),
    Kind("replies", Filter(authors=("agent",))),
)


class ForgetfulConnection(Connection):
    """A connection of a client that does not know of resuming."""

    def ask(self, action: str, payload: Mapping[str, Any], answered: Answered) -> None:
        """Sends a request without the position that would be resumed."""
        super().ask(action, {name: payload[name] for name in payload if name != "resume"}, answered)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What one client went through. `excess`: repairs for which no lost connection gave reason: a client that does not
    resume repairs once for each. `behind`: longest time for which it lacked a change that its writer knew to be
    stored; `not_live`: longest time for which it knew itself to be behind; both in seconds.
    """

    gaps: int
    resets: int
    repairs: int
    excess: int
    resumes: int
    lost: int
    behind: float
    not_live: float


class Client:
    """Follows a conversation through the gateway at `url`: `async with Client(...) as client`."""

    def __init__(self, url: str, token: str | None, conversation: Conversation, kind: Kind) -> None:
        connects: Callable[..., Connection] = Connection if kind.resumes else ForgetfulConnection
        self.conversation = conversation
        self.kind = kind
        self.connection = connects(url, token=token)
        self.follower = Follower(
            self.connection,
            conversation.session_id,
            scope_filter=kind.scope_filter,
            everything=True,
            observer=self._observe,
        )
        self._ending = AsyncExitStack()
        self._marked = Counters()
        self._applied = 0
        self._offline = False
        self._lost = 0
        self._behind = 0.0

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as ending:
            await ending.enter_async_context(self.connection)
            await ending.enter_async_context(self.follower)
            self._ending = ending.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ending.aclose()

    @property
    def live(self) -> bool:
        """Whether it shows what the gateway has told so far, all rows loaded."""
        state = self.follower.state
        return state.live and state.held is not None and not state.held.has_more

    def has_reached(self, revision: int) -> bool:
        """Whether it is live at this revision or a later one."""
        return self.live and (self.follower.state.applied or 0) >= revision

    def mark(self) -> None:
        """Forgets what it went through."""
        self._marked = self.follower.counters
        self.follower.longest_behind = 0.0
        self._lost = 0
        self._behind = 0.0

    def trouble(self) -> Trouble:
        """What it went through since the mark."""
        now, before = self.follower.counters, self._marked
        repairs = now.repairs - before.repairs
        return Trouble(
            gaps=now.gaps - before.gaps,
            resets=now.resets - before.resets,
            repairs=repairs,
            excess=max(0, repairs - (0 if self.kind.resumes else self._lost)),
            resumes=now.resumes - before.resumes,
            lost=self._lost,
            behind=max(self._behind, self._lacking()),
            not_live=self.follower.longest_behind,
        )

    def _observe(self, state: State, _: tuple[RowChange, ...]) -> None:
        offline = isinstance(state.phase, Offline)
        self._lost += offline and not self._offline and state.held is not None
        self._offline = offline
        if state.applied is not None and state.applied != self._applied:
            self._behind = max(self._behind, self._lacking())
            self._applied = state.applied

    def _lacking(self) -> float:
        """Seconds for which the rows have lacked a change that is known to be stored; none before the first rows."""
        since = self.conversation.acknowledged.first_above(self._applied) if self._applied else None
        return 0.0 if since is None else max(0.0, time.monotonic() - since)
