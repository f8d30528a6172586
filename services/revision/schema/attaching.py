"""What is done before the first file when the tables are there already: the application's own database is attached.

The files are written for tables as they make them. Where those of the application differ in what matters, it is
settled here, beforehand; where that cannot be, nothing is written and the sentence says why.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import asyncpg

from services.revision.schema.catalogue import MEMORY, Catalogue, Entry, found, remember
from services.revision.schema.inventory import IdentityIndex, Inventory
from services.revision.schema.numbered import SchemaError
from services.revision.schema.statements import briefly, run_alone

KNOWN: Final = "conversation_task_id_known"
"""The constraint that proves that every row has its task, for as long as that takes."""

_NEEDED: Final = {
    "workspaces": ("id",),
    "tasks": ("id", "workspace_id"),
    "task_sessions": ("id", "task_id"),
    "task_session_turns": ("id", "task_session_id", "task_id", "started_at"),
    "task_session_messages": ("id", "task_session_id", "task_id", "author_type", "created_at", "updated_at"),
    "task_session_prompt_seq": ("task_session_id", "last_seq"),
    "conversation_session_revisions": ("session_id", "revision"),
}
"""Columns of tables that are there which triggers and indexes are made on, and no file adds."""

_IDENTIFYING: Final = frozenset({"id", "task_session_id", "author_type"})
"""Columns that the log has to tell of every row. A task may be unknown: then the session is read again."""

TASK: Final = "task_id"

_TASKLESS: Final = "SELECT EXISTS (SELECT FROM public.{table} WHERE task_id IS NULL)"


class Unsuitable(SchemaError):
    """The tables that are there cannot be attached."""


@dataclass(frozen=True)
class Attachment:
    """How the tables that are there are taken. `nullable`: by table, columns of its identity index that may be NULL."""

    nullable: dict[str, frozenset[str]]

    def statements(self, identities: tuple[IdentityIndex, ...]) -> tuple[str, ...]:
        """The identity indexes that have to leave columns out; the others are made by the files."""
        return tuple(
            index.without(self.nullable[index.relation]) for index in identities if self.nullable.get(index.relation)
        )


def judge(catalogue: Catalogue, inventory: Inventory) -> Attachment:
    """What has to be settled before the first file. Raises `Unsuitable`."""
    for table, needed in _NEEDED.items():
        lacking = [column for column in needed if catalogue.get("column", table, column) is None]
        if catalogue.holds(table) and lacking:
            raise Unsuitable(f"the table {table} is there without the columns {', '.join(lacking)}: add them first")
    nullable = {}
    for index in inventory.identities:
        missing = catalogue.nullable(index.relation) & frozenset(index.columns)
        if untold := sorted(missing & _IDENTIFYING):
            raise Unsuitable(
                f"{', '.join(untold)} of {index.relation} may be NULL, and the log has to tell it of every row: "
                + "; ".join(f"ALTER TABLE {index.relation} ALTER COLUMN {column} SET NOT NULL" for column in untold)
            )
        nullable[index.relation] = missing
    return Attachment(nullable)


async def begin(connection: asyncpg.Connection, inventory: Inventory) -> None:
    """Remembers what stands there, before anything is changed: all of it or nothing, and once."""
    if await connection.fetchval("SELECT to_regclass('conversation.before') IS NOT NULL"):
        return
    async with connection.transaction():
        fresh = not await connection.fetchval("SELECT to_regclass('conversation.migrations') IS NOT NULL")
        await connection.execute(MEMORY)
        if fresh:
            standing = await found(connection, inventory.tables)
            await remember(connection, (Entry(*key, definition) for key, definition in standing.entries.items()))


async def require_tasks(connection: asyncpg.Connection, catalogue: Catalogue, inventory: Inventory) -> None:
    """Makes `task_id` NOT NULL where the log should tell it; writers go on meanwhile. Raises `Unsuitable` where a row
    has none.
    """
    for index in inventory.identities:
        table = index.relation
        if TASK not in catalogue.nullable(table):
            continue
        if await connection.fetchval(_TASKLESS.format(table=table)):
            raise _taskless(table)
        # The check is proven while others write; SET NOT NULL then needs no look at the rows.
        alter = f"ALTER TABLE public.{table}"
        for statement in (
            f"{alter} DROP CONSTRAINT IF EXISTS {KNOWN}",
            f"{alter} ADD CONSTRAINT {KNOWN} CHECK ({TASK} IS NOT NULL) NOT VALID",
            f"{alter} VALIDATE CONSTRAINT {KNOWN}",
        ):
            try:
                await run_alone(connection, f"requiring {TASK} of {table}", statement)
            except asyncpg.CheckViolationError:
                await require_no_longer(connection, await found(connection, (table,)), inventory)
                raise _taskless(table) from None
        settled = f"{alter} ALTER COLUMN {TASK} SET NOT NULL, DROP CONSTRAINT {KNOWN}"
        await briefly(connection, f"requiring {TASK} of {table}", partial(connection.execute, settled))
    await _drop_narrower(connection, await found(connection, inventory.tables), inventory)


async def require_no_longer(connection: asyncpg.Connection, catalogue: Catalogue, inventory: Inventory) -> None:
    """Takes back what a run that required tasks has left when it was ended."""
    for index in inventory.identities:
        if catalogue.get("constraint", index.relation, KNOWN) is not None:
            statement = f"ALTER TABLE public.{index.relation} DROP CONSTRAINT IF EXISTS {KNOWN}"
            await run_alone(connection, f"requiring {TASK} of {index.relation} no longer", statement)


async def _drop_narrower(connection: asyncpg.Connection, catalogue: Catalogue, inventory: Inventory) -> None:
    """Identity indexes without a task that an earlier run has built, and that nothing goes by yet: the files build
    them whole.
    """
    for index in inventory.identities:
        definition = catalogue.get("index", index.relation, index.name)
        used = catalogue.get("identity", index.relation, index.name) is not None
        if definition is not None and not used and TASK not in definition:
            await run_alone(
                connection, f"building {index.name} anew", f"DROP INDEX CONCURRENTLY IF EXISTS public.{index.name}"
            )


def _taskless(table: str) -> Unsuitable:
    return Unsuitable(f"rows of {table} have no task_id: give them their session's, or attach without requiring it")
