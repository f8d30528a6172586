"""The source's rows as HTTP pages show them, and how what a client shows differs from them."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from client.connection import Connection
from client.http_pages import MessagesPage, TurnsPage, messages_page, turns_page
from client.range import Body, Filter, Key, Row, row_of
from shared.contracts.rows import Entity

READ_AGAIN_AFTER = 0.05
"""Seconds until pages of differing revisions are read again, all of them."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Every message and turn of a session at one revision."""

    epoch: str
    revision: int
    rows: tuple[Row, ...]

    def within(self, scope_filter: Filter, low: Key | None) -> tuple[Row, ...]:
        """Those that a scope must show: admitted by its filter, messages from its boundary on."""
        return tuple(
            row
            for row in self.rows
            if scope_filter.admits(row.body) and (row.entity == "turn" or low is None or row.key >= low)
        )


async def read_source(connection: Connection, session_id: str) -> SourceRows:
    """Reads every page, and all of them again until they show one revision. Raises `PageRefused`."""
    while True:
        messages, turns = await asyncio.gather(_messages(connection, session_id), _turns(connection, session_id))
        pages: tuple[MessagesPage | TurnsPage, ...] = (*messages, *turns)
        if len({(page.epoch, page.revision) for page in pages}) == 1:
            bodies: list[Body] = [body for page in messages for body in page.messages]
            bodies += [body for page in turns for body in page.turns]
            return SourceRows(pages[0].epoch, int(pages[0].revision), tuple(row_of(body) for body in bodies))
        await asyncio.sleep(READ_AGAIN_AFTER)


async def _messages(connection: Connection, session_id: str) -> list[MessagesPage]:
    pages = [await messages_page(connection, session_id, Filter())]
    while pages[-1].has_more and pages[-1].revision == pages[0].revision:
        pages.append(await messages_page(connection, session_id, Filter(), before=pages[-1].messages[-1].id))
    return pages


async def _turns(connection: Connection, session_id: str) -> list[TurnsPage]:
    pages = [await turns_page(connection, session_id, Filter())]
    while pages[-1].has_more and pages[-1].revision == pages[0].revision:
        pages.append(await turns_page(connection, session_id, Filter(), after=pages[-1].turns[-1].id))
    return pages


@dataclass(frozen=True, slots=True)
class Differing:
    """One field of a row that the source and the client show differently, as text."""

    entity: Entity
    id: str
    field: str
    expected: str
    shown: str


@dataclass(frozen=True, slots=True)
class Difference:
    """`missing`: rows of the source that are not shown. `extra`: rows that are shown and should not be. False when
    empty.
    """

    missing: tuple[Row, ...] = ()
    extra: tuple[Row, ...] = ()
    differing: tuple[Differing, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.differing)


def difference(expected: Iterable[Row], shown: Iterable[Row]) -> Difference:
    """What must change in `shown` to make it equal to `expected`, in the order of the rows."""
    wanted = {(row.entity, row.id): row for row in expected}
    found = {(row.entity, row.id): row for row in shown}
    return Difference(
        tuple(row for name, row in wanted.items() if name not in found),
        tuple(row for name, row in found.items() if name not in wanted),
        tuple(
            field
            for name, row in wanted.items()
            if name in found and found[name] != row
            for field in _fields(row, found[name])
        ),
    )


def _fields(expected: Row, shown: Row) -> Iterable[Differing]:
    before, after = expected.body.model_dump(mode="json"), shown.body.model_dump(mode="json")
    for name in before:
        if before[name] != after.get(name):
            yield Differing(expected.entity, expected.id, name, str(before[name]), str(after.get(name)))
