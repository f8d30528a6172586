"""Takes everything of ours out of a database again: its tables are as they were, and their rows stay as they are.

What was there is remembered in `conversation.before`. First, in one transaction, our triggers end and those that they
replaced begin; then the indexes go, one by one, while others write; the schemas, and with them the memory, go last. So
whatever ends it half-way, the next run goes on.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import asyncpg

from services.revision.schema.attaching import KNOWN, TASK
from services.revision.schema.catalogue import Catalogue, Entry, found, remembered
from services.revision.schema.inventory import Inventory, Thing
from services.revision.schema.migrate import alone
from services.revision.schema.numbered import SchemaError, known_migrations
from services.revision.schema.statements import briefly, run_alone
from services.revision.schema.triggers import bodies, quoted
from services.revision.tracker.stream import PUBLICATION

_ROWS: Final = "task_session_messages"
_DERIVED: Final = frozenset({"task_session_prompt_seq", "conversation_session_revisions"})
"""Tables that hold nothing but what follows from the others, where those are ours as well."""

_IDENTITIES = {"d": "DEFAULT", "n": "NOTHING", "f": "FULL"}

_ATTACHED = "SELECT to_regnamespace('conversation') IS NOT NULL"

_AT_WORK = """
SELECT format('%s (process %s)', application_name, pid) FROM pg_catalog.pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND starts_with(application_name, 'kandev-conversation')
 ORDER BY 1
"""
_SLOTS = """
SELECT slot_name::text FROM pg_catalog.pg_replication_slots
 WHERE database = current_database() AND plugin = 'pgoutput' AND NOT active
   AND slot_name ~ '^kandev_.*_[0-9]+_[0-9a-f]{8}$'
"""

# Whatever elsewhere uses something in one of our schemas, and would go with it.
_DEPENDENTS = """
WITH ours AS (
    SELECT 'pg_class'::regclass AS classid, c.oid FROM pg_catalog.pg_class c
     WHERE c.relnamespace = ANY ($1::regnamespace[])
    UNION ALL
    SELECT 'pg_proc'::regclass, p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = ANY ($1::regnamespace[])
    UNION ALL
    SELECT 'pg_type'::regclass, t.oid FROM pg_catalog.pg_type t WHERE t.typnamespace = ANY ($1::regnamespace[])),
users AS (
    SELECT r.classid, r.oid, c.relnamespace AS namespace, c.relname::text AS relation
      FROM (SELECT 'pg_rewrite'::regclass AS classid, oid, ev_class AS relation FROM pg_catalog.pg_rewrite
            UNION ALL SELECT 'pg_constraint'::regclass, oid, conrelid FROM pg_catalog.pg_constraint
            UNION ALL SELECT 'pg_attrdef'::regclass, oid, adrelid FROM pg_catalog.pg_attrdef
            UNION ALL SELECT 'pg_policy'::regclass, oid, polrelid FROM pg_catalog.pg_policy
            UNION ALL SELECT 'pg_trigger'::regclass, oid, tgrelid FROM pg_catalog.pg_trigger
            UNION ALL SELECT 'pg_class'::regclass, oid, oid FROM pg_catalog.pg_class) r
      JOIN pg_catalog.pg_class c ON c.oid = r.relation
    UNION ALL SELECT 'pg_proc'::regclass, oid, pronamespace, '' FROM pg_catalog.pg_proc
    UNION ALL SELECT 'pg_type'::regclass, oid, typnamespace, '' FROM pg_catalog.pg_type)
SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid)
  FROM pg_catalog.pg_depend d
  JOIN ours o ON o.classid = d.refclassid AND o.oid = d.refobjid
  JOIN users u ON u.classid = d.classid AND u.oid = d.objid
 WHERE u.namespace <> ALL ($1::regnamespace[]) AND d.deptype IN ('n', 'a')
   AND NOT (d.classid = 'pg_trigger'::regclass AND u.relation = ANY ($2))
 ORDER BY 1
"""


class StillInUse(SchemaError):
    """Something works with what would be taken away."""


@dataclass(frozen=True)
class Step:
    """A sentence without its full stop, and the statement that does it."""

    text: str
    statement: str


@dataclass(frozen=True)
class Detachment:
    """`at_once`: in one transaction. `apart`: each alone, while others write. `last`: in one transaction again.
    `obstacles`: what has to be ended first.
    """

    at_once: tuple[Step, ...] = ()
    apart: tuple[Step, ...] = ()
    last: tuple[Step, ...] = ()
    obstacles: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """All of it, in order."""
        return (*self.at_once, *self.apart, *self.last)


async def planned(connection: asyncpg.Connection) -> Detachment:
    """What would be taken away and made again; without a step where nothing of ours is there. Changes nothing."""
    inventory = Inventory(known_migrations())
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        if not await connection.fetchval(_ATTACHED):
            return Detachment()
        await connection.execute("SET LOCAL search_path = public")
        obstacles = await _obstacles(connection, inventory)
        before = await remembered(connection)
        now = await found(connection, inventory.tables)
        called_by = await bodies(connection, before.of_kind("replaced"))
        gone = frozenset(entry for entry, body in called_by.items() if body is None)
        slots = [row[0] for row in await connection.fetch(_SLOTS)]
    return replace(detachment(inventory, before, now, slots, gone), obstacles=obstacles)


async def detach(connection: asyncpg.Connection, progress: Callable[[Step], None] | None = None) -> Detachment:
    """Does what `planned` says; `progress` is called before each step. Returns what was done.

    Raises `StillInUse` while services of ours are connected, or objects of others use ours; and `SchemaError` for
    locks that stay taken.
    """

    async def in_order(steps: tuple[Step, ...]) -> None:
        for step in steps:
            if progress is not None:
                progress(step)
            await _done(connection.execute(step.statement))

    async with alone(connection):
        plan = await planned(connection)
        if plan.obstacles:
            raise StillInUse("; ".join(plan.obstacles))
        if plan.at_once:
            await briefly(connection, "taking the triggers away", lambda: in_order(plan.at_once))
        for step in plan.apart:
            if progress is not None:
                progress(step)
            await _done(run_alone(connection, step.text, step.statement))
        if plan.last:
            await briefly(connection, "dropping the schemas", lambda: in_order(plan.last))
    return plan


async def _done(work: Awaitable[object]) -> None:
    try:
        await work
    except asyncpg.DependentObjectsStillExistError as error:
        needing = "; ".join((error.detail or "see pg_depend").splitlines())
        raise StillInUse(f"drop first what needs what would go: {needing}") from None


def detachment(
    inventory: Inventory, before: Catalogue, now: Catalogue, slots: list[str], uncallable: frozenset[Entry]
) -> Detachment:
    """The way from what stands there now to what stood there before. `uncallable`: triggers that were replaced, whose
    function is there no longer: the application has given them up itself.

    Where the tables of conversations are our own, nothing stood there: those with rows that are nobody else's stay.
    """
    attached = before.holds(_ROWS)
    gone = [
        table
        for table in reversed(inventory.tables)
        if now.holds(table) and not before.holds(table) and (attached or table in _DERIVED)
    ]
    kept = [table for table in inventory.tables if now.holds(table) and table not in gone]
    at_once = [
        *_triggers(inventory, before, now),
        Step(f"drop the publication {PUBLICATION}", f"DROP PUBLICATION IF EXISTS {PUBLICATION}"),
        *_identities(kept, before, now),
        *(_restored(inventory, kept, before, now) if attached else ()),
        *(Step(f"drop the table {table}, which was not there", f"DROP TABLE public.{table}") for table in gone),
        *(
            Step(f"make the trigger {entry.name} of {entry.relation} again", entry.definition)
            for entry in before.of_kind("replaced")
            if entry not in uncallable and now.get("trigger", entry.relation, entry.name) is None
        ),
    ]
    indexes = [
        Step(f"drop the index {thing.name}", f"DROP INDEX CONCURRENTLY IF EXISTS public.{thing.name}")
        for thing in inventory.things
        if attached and thing.kind == "index" and thing.relation in kept and thing in now and thing not in before
    ]
    dropped = [
        Step(f"drop the slot {slot}, which nobody reads", f"SELECT pg_drop_replication_slot('{slot}')")
        for slot in slots
    ]
    schemas = [
        Step(f"drop the schema {schema} with all that is in it", f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        for schema in reversed(inventory.schemas)
    ]
    return Detachment(tuple(at_once), (*dropped, *indexes), tuple(schemas))


def _triggers(inventory: Inventory, before: Catalogue, now: Catalogue) -> Iterator[Step]:
    for thing in inventory.things:
        if thing.kind == "trigger" and thing in now and thing not in before:
            yield Step(
                f"drop the trigger {thing.name} of {thing.relation}",
                f"DROP TRIGGER {thing.name} ON public.{thing.relation}",
            )


def _identities(kept: list[str], before: Catalogue, now: Catalogue) -> Iterator[Step]:
    then = {entry.relation: entry for entry in before.of_kind("identity")}
    for entry in now.of_kind("identity"):
        was = then.get(entry.relation)
        kind, name = ("d", "") if was is None else (was.definition, was.name)
        if entry.relation in kept and (entry.definition, entry.name) != (kind, name):
            form = f"USING INDEX {quoted(name)}" if kind == "i" else _IDENTITIES[kind]
            yield Step(
                f"set the replica identity of {entry.relation} back to {form}",
                f"ALTER TABLE public.{entry.relation} REPLICA IDENTITY {form}",
            )


def _restored(inventory: Inventory, kept: list[str], before: Catalogue, now: Catalogue) -> Iterator[Step]:
    """Constraints, options and columns of tables that were there."""
    for thing in inventory.things:
        alter = f"ALTER TABLE public.{thing.relation}"
        if thing.relation not in kept or thing not in now:
            continue
        if thing.kind == "column" and thing not in before:
            yield Step(f"drop the column {thing.name} of {thing.relation}", f"{alter} DROP COLUMN {thing.name}")
        if thing.kind == "constraint":
            yield from _constraint(thing, before, now)
    for table in inventory.options:
        was, present = before.get("options", table), now.get("options", table)
        if table in kept and was != present:
            yield Step(f"set the storage options of {table} back", _options(table, was, present))
    for index in inventory.identities:
        if index.relation in kept and now.get("constraint", index.relation, KNOWN) is not None:
            yield Step(
                f"drop the constraint {KNOWN} of {index.relation}",
                f"ALTER TABLE public.{index.relation} DROP CONSTRAINT {KNOWN}",
            )
        if index.relation in kept and TASK in before.nullable(index.relation) - now.nullable(index.relation):
            yield Step(
                f"let {TASK} of {index.relation} be NULL again",
                f"ALTER TABLE public.{index.relation} ALTER COLUMN {TASK} DROP NOT NULL",
            )


def _constraint(thing: Thing, before: Catalogue, now: Catalogue) -> Iterator[Step]:
    alter = f"ALTER TABLE public.{thing.relation}"
    was, comment = before.get(*thing), before.get("comment", thing.relation, thing.name)
    if was != now.get(*thing):
        yield Step(
            f"{'drop' if was is None else 'set back'} the constraint {thing.name} of {thing.relation}",
            f"{alter} DROP CONSTRAINT {thing.name}" + (f", ADD CONSTRAINT {thing.name} {was}" if was else ""),
        )
    if was is not None and comment is not None:
        yield Step(
            f"comment on the constraint {thing.name} of {thing.relation} again",
            f"COMMENT ON CONSTRAINT {thing.name} ON public.{thing.relation} IS {comment}",
        )


def _options(table: str, was: str | None, present: str | None) -> str:
    """All of them anew: a dump writes them in the order in which they were set."""
    reset = [option.partition("=")[0] for option in present.split(", ")] if present else []
    actions = [f"RESET ({', '.join(reset)})"] if reset else []
    if was:
        actions.append(f"SET ({was})")
    return f"ALTER TABLE public.{table} {', '.join(actions)}"


async def _obstacles(connection: asyncpg.Connection, inventory: Inventory) -> tuple[str, ...]:
    obstacles = []
    if at_work := [row[0] for row in await connection.fetch(_AT_WORK)]:
        obstacles.append(f"stop what works on this database first: {', '.join(at_work)}")
    present = [
        schema
        for schema in inventory.schemas
        if await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema)
    ]
    dependents = [row[0] for row in await connection.fetch(_DEPENDENTS, present, list(inventory.tables))]
    if dependents:
        obstacles.append(f"drop first what uses our schemas: {', '.join(dependents)}")
    return tuple(obstacles)
