"""The tracker: connects, decodes, leads or stands by, publishes, and starts anew whenever something breaks."""

import asyncio
import logging
import time
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import asyncpg
import psycopg
from pydantic import SecretStr

from services.revision.epoch import FIRST, mint, mint_for_breach, read_epoch, settle_epoch
from services.revision.tracker.assembly import Assembler
from services.revision.tracker.backoff import Backoff
from services.revision.tracker.counting import count_commits, time_published
from services.revision.tracker.drafts import Transaction
from services.revision.tracker.filling import Filler
from services.revision.tracker.leadership import Leadership
from services.revision.tracker.pgoutput import DecodingError
from services.revision.tracker.prerequisites import blockers, breach, explain, missing
from services.revision.tracker.publisher import Entry, Everywhere, Publisher, Writer
from services.revision.tracker.receipts import encode, encode_epoch
from services.revision.tracker.reminders import Reminders
from services.revision.tracker.ring import Ring
from services.revision.tracker.stream import ReplicationStream, SlotBlocked, StreamEnded
from shared.broker.connection import stop_if_cancelled
from shared.database import LOST

State: TypeAlias = Literal["starting", "standby", "leading", "degraded"]

SLOT_SECONDS: Final = 10.0
"""How long one attempt waits for a slot before it starts anew."""

REDIS_SECONDS: Final = 0.075
"""Pause between attempts to open a term while Redis does not answer."""

TRIM_SECONDS: Final = 5.0

BREACH_SECONDS: Final = 5.0
"""A leader looks this often whether changes still reach the revisions and the log: as often as gateways check."""

DOUBT_SECONDS: Final = 1.0
"""It looks at once where a transaction leaves something open, though not more often than this."""

_log = logging.getLogger(__name__)


class Unready(Exception):
    """PostgreSQL lacks something that has to be set; the text says what."""


@dataclass(frozen=True, slots=True)
class TrackerStatus:
    """What `/ready` and the doctor show. `reason` says what to set or wait for; `term` is the leader's, while Redis
    takes it.
    """

    state: State
    reason: str | None = None
    term: int | None = None


class Tracker:
    """Turns commits of one database into receipts. `run` works until cancelled; `status` may be read at any time."""

    def __init__(self, database_url: SecretStr, writer: Writer, slot_seconds: float = SLOT_SECONDS) -> None:
        self._dsn = database_url.get_secret_value()
        self._publisher = Publisher(writer)
        self._slot_seconds = slot_seconds
        self._state: State = "starting"
        self._reason: str | None = None
        self._owed: str | None = None
        self._blocked: tuple[int, ...] = ()
        self._reminders = Reminders()
        self._doubts = Reminders()

    @property
    def status(self) -> TrackerStatus:
        """The present state."""
        if self._state == "leading" and self._publisher.failing:
            return TrackerStatus("degraded", "Redis does not answer: receipts are dropped until it does")
        return TrackerStatus(self._state, self._reason, self._publisher.term)

    async def run(self) -> None:
        """Supervises one session after another: each has its own slot, and a leader's each its own term (T2)."""
        backoff = Backoff()
        while True:
            begun = time.monotonic()
            try:
                await self._session()
            except* SlotBlocked as group:
                self._degraded(str(_first(group)), self._blocked)
            except* (Unready, StreamEnded, DecodingError) as group:
                self._degraded(str(_first(group)))
            except* (*LOST, psycopg.Error) as group:
                self._degraded(explain(_first(group)))
            self._publisher.close()
            await asyncio.sleep(backoff.after(time.monotonic() - begun))

    async def _session(self) -> None:
        control: asyncpg.Connection = await asyncpg.connect(
            self._dsn,
            timeout=10,
            command_timeout=10,
            server_settings={"application_name": "kandev-conversation tracker", "lock_timeout": "5s"},
        )
        try:
            wanting = await missing(control)
            if wanting is not None:
                raise Unready(wanting)
            await _refuse_breach(control)
            stream = await ReplicationStream.connect(self._dsn)
            try:
                await self._follow(control, stream)
            finally:
                await stream.close()
        finally:
            control.terminate()

    async def _follow(self, control: asyncpg.Connection, stream: ReplicationStream) -> None:
        async def report() -> str:
            blocked = await blockers(control, stream.backend_pid)
            self._blocked = blocked.by
            self._degraded(f"slot creation {blocked.text}", blocked.by)
            return blocked.text

        await stream.create_slot(self._slot_seconds, report)
        epoch = await read_epoch(control)
        await stream.start(Assembler(epoch))
        leadership = Leadership(self._dsn, stream.wake)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_seek(leadership), name="tracker leadership")
            tasks.create_task(self._pump(control, stream, leadership, epoch), name="tracker pump")

    async def _pump(
        self, control: asyncpg.Connection, stream: ReplicationStream, leadership: Leadership, epoch: str
    ) -> None:
        ring, filler, begin_at, trim_at = Ring(), Filler(control), 0.0, 0.0
        looked_at, doubtful = time.monotonic(), False
        self._become("standby")
        while True:
            stop_if_cancelled()
            transactions = await stream.take(self._patience(leadership))
            if transactions:
                epoch = transactions[-1].epoch
            if not await self._leads(control, stream, leadership):
                for transaction in transactions:
                    ring.add(transaction, time.monotonic())
                continue
            transactions = [*ring.drain(time.monotonic()), *transactions]
            if self._publisher.term is None and time.monotonic() >= begin_at:
                await self._publisher.begin(await _next_term(control), epoch)
                begin_at = time.monotonic() + REDIS_SECONDS
            await self._publish(filler, transactions)
            await self._mint_if_broken(control, transactions)
            doubtful = self._doubtful(transactions) or doubtful
            if time.monotonic() - looked_at >= (DOUBT_SECONDS if doubtful else BREACH_SECONDS):
                await _refuse_breach(control)
                looked_at, doubtful = time.monotonic(), False
            if time.monotonic() >= trim_at:
                await self._publisher.trim()
                trim_at = time.monotonic() + TRIM_SECONDS

    def _patience(self, leadership: Leadership) -> float | None:
        """How long to wait for commits: a leader trims, tries Redis again, tries to settle the epoch again, or looks
        whether capture is whole.
        """
        if not leadership.held:
            return None
        return REDIS_SECONDS if self._publisher.term is None else DOUBT_SECONDS

    async def _leads(self, control: asyncpg.Connection, stream: ReplicationStream, leadership: Leadership) -> bool:
        """Whether this process may publish now; on taking over, once the epoch is settled."""
        if not leadership.held:
            if self._state == "leading":
                self._publisher.close()
                self._become("standby")
            return False
        if self._state != "leading" or leadership.epoch_missing:
            await _refuse_breach(control)
            try:
                await self._settle(control, stream)
            except asyncpg.LockNotAvailableError:
                self._degraded("a transaction holds the row of conversation.epoch: end it")
                return False
            if self._state != "leading":
                self._become("leading")
        return True

    async def _settle(self, control: asyncpg.Connection, stream: ReplicationStream) -> None:
        """What a new leader owes before it publishes: the epoch's checks (R3), and a mint that failed before (T4)."""
        reason = await settle_epoch(control, stream.system_identifier, stream.timeline)
        if reason is not None:
            _log.log(logging.INFO if reason == FIRST else logging.WARNING, "a new epoch was minted: %s", reason)
        elif self._owed is not None:
            await mint(control, self._owed)
        self._owed = None

    async def _publish(self, filler: Filler, transactions: Sequence[Transaction]) -> None:
        entries: list[Entry] = []
        for transaction in transactions:
            if transaction.minted:
                entries.append(Everywhere("epoch", encode_epoch(transaction.epoch)))
            entries.extend(encode(await filler.fill(transaction)))
        await self._publisher.publish(entries)
        count_commits(transactions)
        if self._publisher.term is not None:
            time_published(transactions, time.time())

    async def _mint_if_broken(self, control: asyncpg.Connection, transactions: Sequence[Transaction]) -> None:
        """T4: one new epoch for whatever these transactions show; still owed if the database does not take it."""
        broken = [transaction.broken for transaction in transactions if transaction.broken is not None]
        if broken:
            self._owed = f"history broken: {broken[0]}"
            _log.error("%s; are the triggers disabled? A new epoch is minted", self._owed)
            await mint(control, self._owed)
            self._owed = None

    def _doubtful(self, transactions: Sequence[Transaction]) -> bool:
        """Whether the log leaves changes of these transactions open; their receipts say that much already."""
        count = sum(transaction.doubtful for transaction in transactions)
        if count and self._doubts.due("doubt", time.monotonic()):
            _log.warning(
                "%d transactions with changes that the log does not show whole: their sessions are read again", count
            )
        return count > 0

    def _become(self, state: State) -> None:
        _log.info("the tracker is %s", state)
        self._state, self._reason = state, None
        self._reminders.over()

    def _degraded(self, reason: str, about: Hashable = None) -> None:
        """`about` names the fault where the reason holds what changes by itself, as ages do."""
        if self._reminders.due(reason if about is None else about, time.monotonic()):
            _log.warning("the tracker cannot follow the commits: %s", reason)
        self._state, self._reason = "degraded", reason


async def _refuse_breach(control: asyncpg.Connection) -> None:
    """Ends the session where changes no longer reach the revisions or the log whole: its receipts would lie. Mints once
    for what they may have left out already. Raises Unready.
    """
    finding = await breach(control)
    if finding is not None:
        # An epoch that itself lacks its replica identity cannot be written; nothing else went wrong unseen then.
        with suppress(asyncpg.ObjectNotInPrerequisiteStateError):
            if await mint_for_breach(control, finding):
                _log.error("a new epoch was minted: %s", finding)
        raise Unready(finding)


async def _seek(leadership: Leadership) -> None:
    """Seeks the lead for as long as the stream lives; a lost lock connection is replaced."""
    backoff, told = Backoff(), ""
    while True:
        begun = time.monotonic()
        try:
            await leadership.run()
        except LOST as error:
            reason = explain(error)
            if reason != told:
                _log.warning("the leadership connection was lost: %s", reason)
            told = reason
        await asyncio.sleep(backoff.after(time.monotonic() - begun))


async def _next_term(control: asyncpg.Connection) -> int:
    term: int = await control.fetchval("SELECT nextval('conversation.tracker_term')")
    return term


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """The error that ended a session. Those of one session have one cause."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
