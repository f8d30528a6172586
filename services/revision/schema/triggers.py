"""Triggers of the application whose tables these are: those that count revisions are replaced, and remembered."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from services.revision.schema.catalogue import Entry, remember
from services.revision.schema.inventory import Inventory
from services.revision.schema.statements import briefly

SOURCE_TABLES: Final = (
    "task_sessions",
    "task_session_turns",
    "task_session_messages",
    "conversation_session_revisions",
)
"""The tables that our triggers stand on, in the order of their locks."""

REVISION_TRIGGERS: Final = frozenset(
    (table, f"conversation_source_{entity}_{what}")
    for table, entity in (("task_session_messages", "message"), ("task_session_turns", "turn"))
    for what in ("insert", "update", "delete")
)
"""The names that the application gives its own."""

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_COUNTS = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE|MERGE\s+INTO)\s+(?:ONLY\s+)?(?:\"?public\"?\.)?\"?conversation_session_revisions\b",
    re.IGNORECASE,
)

_FOREIGN = """
SELECT c.relname::text AS relation, g.tgname::text AS name, pg_get_triggerdef(g.oid) AS definition,
       g.tgenabled::text AS enabled, quote_literal(obj_description(g.oid, 'pg_trigger')) AS comment,
       p.oid::regprocedure::text AS function, p.prosrc AS body
  FROM pg_catalog.pg_trigger g
  JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
  JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid
 WHERE NOT g.tgisinternal AND g.tgparentid = 0 AND c.relnamespace = 'public'::regnamespace
   AND ($1::text[] IS NULL OR c.relname = ANY ($1))
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.oid = p.pronamespace AND n.nspname = 'conversation')
 ORDER BY 1, 2
"""
_BODY = "SELECT prosrc FROM pg_catalog.pg_proc WHERE oid = to_regprocedure($1)"
_FORGET = "DELETE FROM conversation.before WHERE kind = 'replaced' AND relation = $1 AND name = $2"
_CALLED = re.compile(r'.*?\bEXECUTE FUNCTION ((?:"(?:[^"]|"")+"|[^"(])+)\(', re.DOTALL)
_ENABLING = {"D": "DISABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA"}


@dataclass(frozen=True)
class ForeignTrigger:
    """A trigger whose function is not ours. `enabled`: as in pg_trigger. `comment`: a literal. `body`: that of its
    function.
    """

    relation: str
    name: str
    definition: str
    enabled: str
    comment: str | None
    function: str
    body: str

    @property
    def counts_revisions(self) -> bool:
        """Whether it does what ours do: with both, every change would count twice."""
        return (self.relation, self.name) in REVISION_TRIGGERS or _COUNTS.search(
            _COMMENT.sub(" ", self.body)
        ) is not None

    @property
    def restoring(self) -> str:
        """The SQL that makes it again, as it was."""
        name, table = quoted(self.name), f"public.{quoted(self.relation)}"
        statements = [self.definition]
        if (enabling := _ENABLING.get(self.enabled)) is not None:
            statements.append(f"ALTER TABLE {table} {enabling} TRIGGER {name}")
        if self.comment is not None:
            statements.append(f"COMMENT ON TRIGGER {name} ON {table} IS {self.comment}")
        return "; ".join(statements)

    @property
    def dropping(self) -> str:
        """The SQL that takes it away."""
        return f"DROP TRIGGER {quoted(self.name)} ON public.{quoted(self.relation)}"


async def foreign_triggers(
    connection: asyncpg.Connection, tables: Sequence[str] | None = SOURCE_TABLES
) -> tuple[ForeignTrigger, ...]:
    """All triggers of others on these tables of the schema `public`; `None`: on all there."""
    return tuple(ForeignTrigger(**row) for row in await connection.fetch(_FOREIGN, tables))


async def replace_counting(connection: asyncpg.Connection, inventory: Inventory) -> tuple[ForeignTrigger, ...]:
    """Makes our triggers in place of others that count revisions, in one transaction: no change is left uncounted.

    Returns those that were replaced. Without any nothing is locked.
    """
    if not any(trigger.counts_revisions for trigger in await foreign_triggers(connection)):
        return ()

    async def work() -> tuple[ForeignTrigger, ...]:
        await install_capture(connection, inventory)
        counting = [trigger for trigger in await foreign_triggers(connection) if trigger.counts_revisions]
        return await take_away(connection, counting)

    return await briefly(connection, "replacing the triggers that count revisions", work)


async def install_capture(connection: asyncpg.Connection, inventory: Inventory) -> None:
    """Makes every trigger of ours that is missing; each exists once, whatever was there."""
    for table in SOURCE_TABLES:
        await connection.execute(f"LOCK TABLE public.{table} IN SHARE ROW EXCLUSIVE MODE")
    for statement in inventory.capture:
        await connection.execute(statement)


async def take_away(connection: asyncpg.Connection, triggers: Iterable[ForeignTrigger]) -> tuple[ForeignTrigger, ...]:
    """Drops triggers, and remembers them for `detach`. To be called in a transaction."""
    taken = tuple(triggers)
    await remember(
        connection, (Entry("replaced", trigger.relation, trigger.name, trigger.restoring) for trigger in taken)
    )
    for trigger in taken:
        await connection.execute(trigger.dropping)
    return taken


async def bodies(connection: asyncpg.Connection, replaced: Iterable[Entry]) -> dict[Entry, str | None]:
    """By trigger that was replaced, what its function does now; `None` where that function is gone."""
    return {entry: await connection.fetchval(_BODY, f"{_called(entry.definition)}()") for entry in replaced}


def _called(definition: str) -> str:
    """The function that a trigger's definition calls, as SQL writes it."""
    match = _CALLED.match(definition)
    return match[1] if match else ""


async def forget(connection: asyncpg.Connection, replaced: Entry) -> None:
    """Has `detach` not make a replaced trigger again."""
    await connection.execute(_FORGET, replaced.relation, replaced.name)


def quoted(name: str) -> str:
    """An identifier as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
