"""What a migration would change, found out without changing anything."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import asyncpg

from services.revision.schema.attaching import TASK, Attachment, judge
from services.revision.schema.catalogue import Catalogue, found
from services.revision.schema.inventory import Inventory, Thing
from services.revision.schema.migrate import pending_migrations
from services.revision.schema.numbered import Migration, known_migrations
from services.revision.schema.suitability import refuse_unsuitable
from services.revision.schema.triggers import ForeignTrigger, foreign_triggers

_MADE = {
    "column": "add the column {name} to {relation}",
    "index": "build the index {name} on {relation}, while others write",
    "constraint": "make the constraint {name} of {relation}",
    "trigger": "make the trigger {name} on {relation}",
}
_MESSAGES = "task_session_messages"
_UNNUMBERED = "SELECT count(*) FROM public.task_session_messages WHERE author_type = 'user'"


@dataclass(frozen=True)
class Preview:
    """`version`: where the database stands. `pending`: the files that would be applied. `kept`: tables that are there
    and stay. `changes`: what would be done in the schema `public`, in sentences without their full stop.
    """

    version: int
    pending: tuple[Migration, ...]
    kept: tuple[str, ...]
    changes: tuple[str, ...]


async def preview(connection: asyncpg.Connection, *, require_task: bool = False) -> Preview:
    """Looks in one read-only snapshot. Raises what `migrate` would raise before it writes anything."""
    known = known_migrations()
    inventory = Inventory(known)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        pending = await pending_migrations(connection, known)
        standing = await found(connection, inventory.tables)
        if pending:
            judge(standing, inventory)
            await refuse_unsuitable(connection, standing, inventory, Inventory(pending), reading=True)
        foreign = await foreign_triggers(connection)
        unnumbered = await _unnumbered(connection, standing) if pending else 0
    version = known[-1].version if not pending else pending[0].version - 1
    kept = tuple(table for table in inventory.tables if standing.holds(table))
    found_changes = changes(inventory, standing, pending, foreign, unnumbered=unnumbered, require_task=require_task)
    return Preview(version, pending, kept, found_changes)


def changes(
    inventory: Inventory,
    standing: Catalogue,
    pending: Sequence[Migration],
    foreign: Sequence[ForeignTrigger],
    *,
    unnumbered: int,
    require_task: bool,
) -> tuple[str, ...]:
    """The sentences. `unnumbered`: prompts that are there without an ordinal."""
    found: list[str] = []
    if pending:
        attachment = judge(standing, inventory)
        tasks = any(TASK in columns for columns in attachment.nullable.values())
        found += _makes(Inventory(pending), standing, tasks and not require_task)
        found += _identities(inventory, standing, attachment, require_task)
    if unnumbered:
        found.append(f"give {unnumbered:,} prompts the ordinals that they lack, a hundred sessions at a time")
    found += [
        f"put our triggers in the place of {trigger.name} on {trigger.relation}, which `detach` makes again"
        for trigger in foreign
        if trigger.counts_revisions
    ]
    return tuple(found)


def _makes(pending: Inventory, standing: Catalogue, taskless: bool) -> Iterator[str]:
    new = tuple(table for table in pending.tables if not standing.holds(table))
    for table in new:
        yield f"make the table {table} with its indexes and triggers"
    for thing in pending.things:
        if thing.kind == "table" or thing.relation in new or (thing in standing and thing.kind != "constraint"):
            continue
        if taskless or not _for_taskless(thing):
            yield _MADE[thing.kind].format(name=thing.name, relation=thing.relation)


def _for_taskless(thing: Thing) -> bool:
    return thing.name == "conversation_task_changed"


def _identities(inventory: Inventory, standing: Catalogue, attachment: Attachment, require_task: bool) -> Iterator[str]:
    for index in inventory.identities:
        if not standing.holds(index.relation) or standing.get("identity", index.relation, index.name) is not None:
            continue
        nullable = attachment.nullable[index.relation]
        if TASK in nullable and require_task:
            yield f"make {TASK} of {index.relation} NOT NULL, as asked"
            nullable -= {TASK}
        left_out = f", without {', '.join(sorted(nullable))}: NULL is allowed there" if nullable else ""
        yield f"let the log tell each row of {index.relation} by {index.name}{left_out}"


async def _unnumbered(connection: asyncpg.Connection, standing: Catalogue) -> int:
    if not standing.holds(_MESSAGES):
        return 0
    numbered = standing.get("column", _MESSAGES, "prompt_seq") is not None
    return int(await connection.fetchval(f"{_UNNUMBERED} AND prompt_seq = 0" if numbered else _UNNUMBERED))
