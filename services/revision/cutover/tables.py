"""The journal's tables: dropped by their names, in the transaction in which triggers that only count take over."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from services.revision.schema.catalogue import remembered
from services.revision.schema.inventory import Inventory
from services.revision.schema.migrate import alone
from services.revision.schema.numbered import SchemaError, known_migrations
from services.revision.schema.statements import briefly
from services.revision.schema.triggers import (
    ForeignTrigger,
    bodies,
    foreign_triggers,
    forget,
    install_capture,
    quoted,
    take_away,
)
from services.revision.tracker.prerequisites import breach, missing_of_server

LEGACY_TABLES: Final = (
    "conversation_session_streams",
    "conversation_session_events",
    "conversation_message_versions",
    "conversation_turn_versions",
    "conversation_journal_meta",
)

_JOURNALS = re.compile(rf"\b(?:{'|'.join(LEGACY_TABLES)})\b")

_PRESENT = """
SELECT c.relname::text AS name, pg_total_relation_size(c.oid) AS size
  FROM pg_catalog.pg_class c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname = ANY ($1)
 ORDER BY array_position($1, c.relname::text)
"""


class NotReady(SchemaError):
    """The journal cannot be given up yet; the text says why. Nothing was changed."""


@dataclass(frozen=True)
class LegacyTable:
    """One of the five that is there. `size`: bytes, with its indexes."""

    name: str
    size: int


@dataclass(frozen=True)
class Journal:
    """What is there of it. `triggers`: those on other tables that write to it, or read it."""

    tables: tuple[LegacyTable, ...]
    triggers: tuple[ForeignTrigger, ...]

    def __bool__(self) -> bool:
        return bool(self.tables or self.triggers)


async def journal(connection: asyncpg.Connection) -> Journal:
    """Looks what is there, without changing it."""
    rows = await connection.fetch(_PRESENT, list(LEGACY_TABLES))
    triggers = tuple(
        trigger
        for trigger in await foreign_triggers(connection, None)
        if trigger.relation not in LEGACY_TABLES and _JOURNALS.search(trigger.body)
    )
    return Journal(tuple(LegacyTable(**row) for row in rows), triggers)


async def require_followable(connection: asyncpg.Connection) -> None:
    """Raises `NotReady` where no tracker could follow the commits, and so nothing would come after the journal."""
    if (wanting := await missing_of_server(connection)) is not None:
        raise NotReady(f"changes could not be followed ({wanting})")


async def drop_journal(connection: asyncpg.Connection, progress: Callable[[str], None]) -> Journal:
    """Gives the journal up, all of it or nothing, on a database that is migrated. Returns what was there.

    `progress` is told each step beforehand. Raises `NotReady`, and `SchemaError` for locks that stay taken.
    """

    async def work() -> Journal:
        progress("installing the triggers that count revisions")
        await install_capture(connection, inventory)
        there = await journal(connection)
        for trigger in there.triggers:
            progress(f"dropping the trigger {trigger.name} of {trigger.relation}, which writes to the journal")
            await connection.execute(trigger.dropping)
        counting = [trigger for trigger in await foreign_triggers(connection) if trigger.counts_revisions]
        for trigger in await take_away(connection, counting):
            progress(f"our triggers stand in the place of {trigger.name} of {trigger.relation}")
        await _forget(connection)
        await _refuse_unready(connection)
        if there.tables:
            names = [table.name for table in there.tables]
            progress(f"dropping {', '.join(names)}")
            await _drop(connection, names)
        progress("committing")
        return there

    inventory = Inventory(known_migrations())
    async with alone(connection):
        if not await journal(connection):
            return Journal((), ())
        await require_followable(connection)
        return await briefly(connection, "dropping the journal", work)


async def _forget(connection: asyncpg.Connection) -> None:
    """A trigger that was replaced, as it counts, and writes to the journal as well, would fail every writer once it is
    made again."""
    for entry, body in (await bodies(connection, (await remembered(connection)).of_kind("replaced"))).items():
        if body is not None and _JOURNALS.search(body):
            await forget(connection, entry)


async def _refuse_unready(connection: asyncpg.Connection) -> None:
    """Nobody gives up a history before the other one is kept."""
    if (finding := await breach(connection)) is not None:
        raise NotReady(f"changes would not be captured whole ({finding})")


async def _drop(connection: asyncpg.Connection, names: Sequence[str]) -> None:
    """One statement, because they may refer to each other; without CASCADE, so that nothing else goes with them."""
    try:
        await connection.execute(f"DROP TABLE {', '.join(f'public.{quoted(name)}' for name in names)}")
    except asyncpg.DependentObjectsStillExistError as error:
        raise NotReady(f"other objects need these tables: {error.detail or 'see pg_depend'}; drop them first") from None
