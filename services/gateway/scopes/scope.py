"""One consumer's subscription, and what it is told."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import orjson

from services.gateway.scopes import frames
from services.gateway.scopes.projection import Projection, View
from shared.contracts.identity import Identity
from shared.contracts.receipts import ChangeReceipt, RemovedReceipt

FRESH_SECONDS = 1.0
"""For this long after it opens, a scope gets every interval by itself: its client is reading pages at revisions in
between (G5).
"""

MAX_HELD = 1024
"""Receipts held for a scope while its revision is read. More than that in one read means the read is lost; it is made
again.
"""


class Phase(Enum):
    """Where a scope stands.

    OPENING: its revision is being read, receipts are held. LIVE: it is told everything above `sent`. AWAITING_RESET: it
    is told nothing until a
    reset, which is due after an epoch change or once its consumer has room again. CLOSED: it is told nothing any more.
    """

    OPENING = "opening"
    LIVE = "live"
    AWAITING_RESET = "awaiting reset"
    CLOSED = "closed"


Offer = Callable[[bytes | bytearray, "Scope"], bool]
"""Sends or queues a WebSocket frame of a scope, of which a copy is kept if any; `False` when there is no room, and then
the scope must be reset later. So must those that had to make room for it, which are told.
"""


_LIVE = Phase.LIVE  # looking it up by its name costs more than sending a frame costs besides its system call


class Consumer(Protocol):
    """Where a scope's frames go: a connection."""

    @property
    def offer(self) -> Offer:
        """What takes the frames. It stays the same while there are scopes."""

    def has_room(self, frames: int, size: int) -> bool:
        """Whether that many frames of `size` bytes in all could be offered now."""

    def gather(self) -> None:
        """Keeps frames that could go out at once, until `send_gathered`: more of them are about to be offered."""

    def send_gathered(self) -> None:
        """Sends what was gathered in as few writes as possible."""

    def deliver(self, text: bytes) -> None:
        """Sends or queues what must not be lost: terminal frames and removals are few and survive overflow (G3)."""

    def forget(self, scope: "Scope") -> None:
        """The scope has ended on the gateway's side."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The installation of a plugin that a scope was granted to. Another installation has another generation."""

    plugin_id: str
    generation: int


@dataclass(eq=False, slots=True)
class Scope:
    """A subscription. `sent` is the highest revision its client was told of, the reply's at first (G1).

    `grant`: the plugin that asked for it; `None` for first-party consumers.
    """

    id: str
    view: View
    identity: Identity
    consumer: Consumer
    grant: Grant | None = None
    phase: Phase = Phase.OPENING
    epoch: str = ""
    sent: int = 0
    opened_at: float = 0.0
    held: list[ChangeReceipt | RemovedReceipt] = field(default_factory=list)
    encoded_id: bytes = b""
    offer: Offer = field(init=False, repr=False)
    """The consumer's, kept here because it is needed for every frame."""
    owes_removal: bool = False
    """Its consumer is to be told that the session is gone, unless this scope opens on the session made again."""
    task_id: str = ""
    """The session's own task, as it was when the revision was read."""
    access_changed: bool = False
    """Who may read the session has changed since its revision was last asked for: the answer may be from before."""

    def __post_init__(self) -> None:
        # Copied: what the encoder returns keeps the 4 KiB that it was written into.
        self.encoded_id = bytes(memoryview(orjson.dumps(self.id)))
        self.offer = self.consumer.offer

    @property
    def session_id(self) -> str:
        """The session that is followed."""
        return self.view.session_id

    @property
    def reader(self) -> str | None:
        """The user whose access the scope depends on; `None`: it is one who may read everything."""
        return None if self.identity.unscoped else self.identity.user

    @property
    def has_opened(self) -> bool:
        """Whether its client was ever told that it is open."""
        return self.epoch != ""

    def open_at(self, epoch: str, revision: int, now: float) -> list[ChangeReceipt | RemovedReceipt]:
        """Goes live at a revision just read; returns what was held meanwhile and is still to be looked at."""
        self.phase, self.epoch, self.sent, self.opened_at = Phase.LIVE, epoch, revision, now
        self.owes_removal = False
        held, self.held = self.held, []
        return held

    def hold(self, receipt: ChangeReceipt | RemovedReceipt) -> None:
        """Keeps a receipt until the scope opens. Past the limit the oldest go: the client sees a gap and repairs it."""
        if len(self.held) == MAX_HELD:
            del self.held[0]
        self.held.append(receipt)

    def let_go_of_held_changes(self) -> None:
        """The read that they were held for failed. The next one shows them: it is no older than what is known (G2)."""
        self.held = [receipt for receipt in self.held if isinstance(receipt, RemovedReceipt)]

    def is_fresh(self, now: float) -> bool:
        """Whether intervals must still reach it unjoined."""
        return now - self.opened_at < FRESH_SECONDS

    def tell(self, change: Projection, frame: frames.Frame) -> None:
        """Sends a change that is above what was sent; anything else it has already, or had better not see."""
        if self.phase is _LIVE and change.revision > self.sent:
            self.sent = change.revision
            offer = self.offer  # called by its own name: what a slot holds is not looked up as quickly as a method
            if not offer(frame.framed_for_scope(self.encoded_id), self):
                self.await_reset()

    def tell_check(self, revision: int) -> None:
        """Tells the source's revision, never less than what was sent (G4)."""
        if self.phase is Phase.LIVE:
            self._offer(frames.check(self.session_id, self.epoch, max(revision, self.sent)))

    def tell_reset(self) -> None:
        """Tells the client to read again."""
        self._offer(frames.reset(self.session_id, self.epoch))

    def end(self) -> None:
        """Sends the terminal frame and closes."""
        if self.phase is not Phase.CLOSED:
            self.consumer.deliver(frames.terminal(self.session_id, self.epoch).for_scope(self.encoded_id))
            self.close()

    def close(self) -> None:
        """Closes without a word."""
        self.phase = Phase.CLOSED
        self.held.clear()

    def await_reset(self) -> None:
        """Tells nothing more until a reset."""
        self.phase = Phase.AWAITING_RESET
        self.held.clear()

    def lose_backlog(self) -> None:
        """What it was sent did not all go out."""
        if self.phase is Phase.LIVE:
            self.await_reset()

    def _offer(self, frame: frames.Frame) -> None:
        if not self.offer(frame.framed_for_scope(self.encoded_id), self):
            self.await_reset()


def readers_of(scopes: Iterable[Scope]) -> dict[str, tuple[str, ...]]:
    """By session, the users who must be able to read it, each once."""
    readers: dict[str, dict[str, None]] = {}
    for scope in scopes:
        if (reader := scope.reader) is not None:
            readers.setdefault(scope.session_id, {})[reader] = None
    return {session_id: tuple(users) for session_id, users in readers.items()}
