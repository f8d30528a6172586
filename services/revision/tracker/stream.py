"""The stream of commits: logical decoding over the replication protocol, on a temporary slot.

The slot dies with its connection, so the server keeps no log for a dead tracker. libpq does the connecting (TLS,
SCRAM, several hosts); its socket is read on the event loop.
"""

import asyncio
import os
import re
import secrets
import socket
import struct
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from services.revision.tracker.assembly import Assembler
from services.revision.tracker.drafts import Transaction
from services.revision.tracker.pgoutput import Decoder

PUBLICATION: Final = "conversation_receipts"

QUEUE_TRANSACTIONS: Final = 4096
"""Transactions decoded but not taken yet, at most: a second of the fastest writers measured. Then reading pauses:
the log waits on the server's side, where it costs no memory."""

QUEUE_BYTES: Final = 32 << 20
"""The same for their rows (32 MiB); a single transaction may exceed it by its own budget."""

TAKE: Final = 1024
"""Most transactions handed over at once, so that a leader that lost its lock notices."""

DRAIN: Final = 500
"""Most messages decoded before other work of the event loop gets its turn (about 5 ms)."""

FEEDBACK_SECONDS: Final = 1.0
"""Feedback goes out this often, idle or not, read or paused: well below any sensible `wal_sender_timeout`."""

SILENCE_SECONDS: Final = 30.0
"""Each feedback asks for an answer; a server that gives none for so long is taken for lost."""

REPORT_SECONDS: Final = 1.0
"""Slot creation that takes longer than this is reported with the transactions that block it."""

_EPOCH_2000: Final = 946_684_800
_FEEDBACK: Final = struct.Struct("!cQQQqB")
_DATA: Final = struct.Struct("!cQQq")
_KEEPALIVE: Final = struct.Struct("!cQqB")


class StreamEnded(Exception):
    """The server closed the stream, or went silent. Names what it said."""


class SlotBlocked(Exception):
    """The slot could not be made in time: open transactions that have written must end first. Says which."""


class ReplicationStream:
    """One connection with one slot. `connect`, `create_slot`, `start`, then `take` until it raises; `close` in any
    case.
    """

    def __init__(
        self, connection: psycopg.AsyncConnection[tuple[object, ...]], system_identifier: str, timeline: int
    ) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self.system_identifier = system_identifier
        self.timeline = timeline
        self.slot = slot_name()
        self._decoder = Decoder()
        self._assembler: Assembler | None = None
        self._queue: deque[Transaction] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._failure: Exception | None = None
        self._reading = False
        self._watched = -1
        self._received = 0
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def connect(cls, dsn: str) -> "ReplicationStream":
        """Connects and asks which server this is (R3). Raises psycopg's errors."""
        connection = await psycopg.AsyncConnection.connect(_conninfo(dsn), autocommit=True)
        try:
            async with await connection.execute("IDENTIFY_SYSTEM") as cursor:
                [(system_identifier, timeline, *_)] = await cursor.fetchall()
        except BaseException:
            await connection.close()
            raise
        return cls(connection, str(system_identifier), int(str(timeline)))

    @property
    def backend_pid(self) -> int:
        """Process id of the server's end."""
        return self._pg.backend_pid

    @property
    def paused(self) -> bool:
        """Whether reading waits for decoded transactions to be taken."""
        return not self._reading

    async def create_slot(self, seconds: float, report: Callable[[], Awaitable[str]]) -> None:
        """Makes the temporary slot, which waits for every transaction of the cluster that has written and is still
        open.

        `report` is awaited each second of the wait and names them. Raises SlotBlocked after `seconds`, or what psycopg
        raises.
        """
        command = f'CREATE_REPLICATION_SLOT "{self.slot}" TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT'
        creating = asyncio.ensure_future(self._connection.execute(command.encode()))
        blocked, until = "", time.monotonic() + seconds
        try:
            while not (await asyncio.wait([creating], timeout=min(REPORT_SECONDS, seconds)))[0]:
                blocked = await report()
                if time.monotonic() >= until:
                    raise SlotBlocked(f"no slot after {seconds:g} s: {blocked}")
            await creating
        finally:
            if not creating.done():
                creating.cancel()
                with suppress(asyncio.CancelledError, psycopg.Error):
                    await creating

    async def start(self, assembler: Assembler) -> None:
        """Begins to stream into the assembler, whose epoch must be the one behind the slot's place. Raises psycopg's
        errors.
        """
        self._assembler = assembler
        options = f"proto_version '1', publication_names '{PUBLICATION}'"
        command = f'START_REPLICATION SLOT "{self.slot}" LOGICAL 0/0 ({options})'
        await self._connection.execute(command.encode())
        self._pg.nonblocking = 1
        self._heard = time.monotonic()
        self._resume()
        self._on_timer()

    async def take(self, timeout: float | None) -> list[Transaction]:  # noqa: ASYNC109 - an empty answer, not an error
        """The next committed transactions in order; none when woken or after `timeout` seconds.

        Raises what ended the stream, once everything decoded before it has been taken.
        """
        if not self._queue and self._failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
        self._wake.clear()
        if not self._queue and self._failure is not None:
            raise self._failure
        taken = [self._queue.popleft() for _ in range(min(TAKE, len(self._queue)))]
        self._size -= sum(transaction.size for transaction in taken)
        if not self._reading and self._failure is None and not self._full(QUEUE_TRANSACTIONS // 2, QUEUE_BYTES // 2):
            self._resume()
        return taken

    def wake(self) -> None:
        """Makes a waiting `take` return."""
        self._wake.set()

    async def close(self) -> None:
        """Ends the connection, and with it the slot."""
        if self._timer is not None:
            self._timer.cancel()
        self._pause()
        await self._connection.close()

    def _full(self, transactions: int, size: int) -> bool:
        return len(self._queue) >= transactions or self._size >= size

    def _resume(self) -> None:
        loop = asyncio.get_running_loop()
        self._reading = True
        self._watched = self._pg.socket
        loop.add_reader(self._watched, self._on_readable)
        # libpq may hold messages already, of which the socket says nothing more.
        loop.call_soon(self._on_readable)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            # Not asked of libpq again: after a loss it no longer knows, and a descriptor that stays with the loop would
            # deafen the next socket that gets its number.
            asyncio.get_running_loop().remove_reader(self._watched)

    def _on_readable(self) -> None:
        if not self._reading:
            return
        try:
            self._drain()
        except Exception as error:  # noqa: BLE001 - a callback has no caller: whoever takes next must hear of it
            self._fail(error)
        if self._queue:
            self._wake.set()

    def _drain(self) -> None:
        self._pg.consume_input()
        for _ in range(DRAIN):
            size, buffer = self._pg.get_copy_data(1)
            if size == 0:
                return
            if size < 0:
                result = self._pg.get_result()
                said = result.get_error_message() if result is not None else self._pg.get_error_message()
                raise StreamEnded(said.partition("\n")[0] or "the server ended the stream")
            self._on_message(bytes(buffer))
            if self._full(QUEUE_TRANSACTIONS, QUEUE_BYTES):
                self._pause()
                return
        asyncio.get_running_loop().call_soon(self._on_readable)

    def _on_message(self, message: bytes) -> None:
        self._heard = time.monotonic()
        if message[:1] == b"w":
            _, start, _, _ = _DATA.unpack_from(message)
            decoded = self._decoder.decode(message[_DATA.size :])
            self._received = max(self._received, start)
            if decoded is not None and self._assembler is not None:
                transaction = self._assembler.feed(decoded)
                if transaction is not None:
                    self._received = max(self._received, transaction.end_lsn)
                    if transaction.drafts or transaction.minted or transaction.broken is not None:
                        self._queue.append(transaction)
                        self._size += transaction.size
        elif message[:1] == b"k":
            _, end, _, wanted = _KEEPALIVE.unpack_from(message)
            self._received = max(self._received, end)
            if wanted:
                self._feedback(ask=False)

    def _on_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FEEDBACK_SECONDS, self._on_timer)
        if self._reading and time.monotonic() - self._heard > SILENCE_SECONDS:
            self._fail(StreamEnded(f"the server has been silent for {SILENCE_SECONDS:g} s"))
            return
        try:
            self._feedback(ask=True)
        except psycopg.Error as error:
            self._fail(error)

    def _feedback(self, *, ask: bool) -> None:
        at = int((time.time() - _EPOCH_2000) * 1_000_000)
        self._pg.put_copy_data(_FEEDBACK.pack(b"r", self._received, self._received, self._received, at, ask))
        self._pg.flush()

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        if self._timer is not None:
            self._timer.cancel()
        self._pause()
        self._wake.set()


def slot_name() -> str:
    """A name that tells people whose slot it is: host, process, and something random."""
    host = re.sub(r"[^a-z0-9]", "_", socket.gethostname().lower())[:30]
    return f"kandev_{host}_{os.getpid()}_{secrets.token_hex(4)}"


def _conninfo(dsn: str) -> str:
    """Whatever the server's and the role's defaults: UTF-8, UTC, ISO, which is what the log is read as."""
    given = conninfo_to_dict(dsn)
    options = (
        f"{given.get('options') or ''} -c client_encoding=UTF8 -c TimeZone=UTC -c DateStyle=ISO -c bytea_output=hex"
    )
    defaults = {"connect_timeout": 10, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
    merged = {name: value for name, value in defaults.items() if name not in given}
    return make_conninfo(
        dsn,
        **merged,
        options=options.strip(),
        client_encoding="UTF8",
        replication="database",
        application_name="kandev-conversation tracker stream",
    )
