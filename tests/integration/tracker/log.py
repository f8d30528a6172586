"""The log of a database as the tracker reads it."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from services.revision.epoch import read_epoch
from services.revision.tracker.assembly import Assembler
from services.revision.tracker.drafts import DraftOperation, SessionChange, Transaction
from services.revision.tracker.prerequisites import blockers
from services.revision.tracker.receipts import encode
from services.revision.tracker.stream import ReplicationStream
from shared.contracts.receipts import RECEIPT, Receipt

FENCE = "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ($1, 'fence', 't')"


@dataclass(frozen=True, slots=True)
class Log:
    """One slot's stream. `since` returns what was committed since the last call, in order."""

    stream: ReplicationStream
    writer: asyncpg.Connection
    epoch: str

    async def since(self) -> list[Transaction]:
        fence = uuid.uuid4().hex
        await self.writer.execute(FENCE, fence)
        seen: list[Transaction] = []
        async with asyncio.timeout(30):
            while not (seen and names(seen[-1], fence)):
                seen += await self.stream.take(None)
        return seen[:-1]

    async def changes(self, *statements: str) -> list[Transaction]:
        """What these statements, each a transaction of its own, say in the log."""
        for statement in statements:
            await self.writer.execute(statement)
        return await self.since()

    async def change(self, statement: str) -> Transaction:
        """What one transaction says in the log."""
        [transaction] = await self.changes(statement)
        return transaction


@asynccontextmanager
async def followed(database_url: str, writer: asyncpg.Connection) -> AsyncIterator[Log]:
    """The log from now on."""
    stream = await ReplicationStream.connect(database_url)
    try:
        await stream.create_slot(20, lambda: blocking(writer, stream))
        epoch = await read_epoch(writer)
        await stream.start(Assembler(epoch))
        yield Log(stream, writer, epoch)
    finally:
        await stream.close()


async def blocking(connection: asyncpg.Connection, stream: ReplicationStream) -> str:
    """What keeps the stream from its slot."""
    return (await blockers(connection, stream.backend_pid)).text


def names(transaction: Transaction, row_id: str) -> bool:
    """Whether any operation of the transaction concerns this row."""
    changes = [draft for draft in transaction.drafts if isinstance(draft, SessionChange)]
    return any(operation.id == row_id for change in changes for operation in change.operations or ())


def change_of(transaction: Transaction, session_id: str) -> SessionChange:
    """The transaction's change of one session."""
    [change] = [
        draft for draft in transaction.drafts if isinstance(draft, SessionChange) and draft.session_id == session_id
    ]
    return change


def receipts_of(transaction: Transaction) -> list[Receipt]:
    """The transaction's receipts as a gateway parses them."""
    return [RECEIPT.validate_json(entry.payload) for entry in encode(transaction)]


def said(transaction: Transaction, session_id: str) -> list[tuple[str, str]]:
    """Kind and id of the operations of one session's complete change."""
    operations = change_of(transaction, session_id).operations
    assert operations is not None
    return [("remove" if operation.image is None else "upsert", operation.id) for operation in operations]


def operation_of(transaction: Transaction, session_id: str, row_id: str) -> DraftOperation:
    """The operation of one row in one session."""
    [operation] = [found for found in change_of(transaction, session_id).operations or () if found.id == row_id]
    return operation


def intervals(transaction: Transaction) -> dict[str, tuple[int, int]]:
    """Base and revision of each session that the transaction touched."""
    return {draft.session_id: (draft.base, draft.revision) for draft in transaction.drafts}


def content_of(operation: DraftOperation) -> object:
    """The content that an upsert carries."""
    assert operation.image is not None
    return dict(zip(operation.image.names, operation.image.values, strict=True))["content"]
