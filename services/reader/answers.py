"""The answer to every kind of read."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
import orjson
from pydantic import ValidationError

from services.reader.checks import check_revisions
from services.reader.host_messages import list_host_messages
from services.reader.joined import Joined, read_joined
from services.reader.lists import list_members, list_sessions, list_tasks, list_workspaces
from services.reader.pages import Page, Query, page_of, query_of
from services.reader.patience import DATABASE_AWAY, patiently, settled, through_restart
from services.reader.pools import Sources
from services.reader.rows import Columns
from services.reader.search import search_session
from services.reader.snapshot import SessionStanding, no_session, standing_of
from shared.broker.long_texts import followed_by
from shared.contracts.base import Contract
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import (
    MAX_PAGE_BYTES,
    HostMessages,
    ListAnswer,
    MemberList,
    MessagesPage,
    Read,
    RevisionAnswer,
    RevisionCheck,
    SearchAnswer,
    SessionList,
    SessionSearch,
    TaskList,
    TurnsPage,
    UnchangedAnswer,
    WorkspaceList,
)

logger = logging.getLogger(__name__)

MIGRATE = "the database has no conversation schema; run `kandev-conversation migrate`"
"""What a person does about a database without this program's tables."""

_NO_SCHEMA = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidSchemaNameError,
)


@dataclass(frozen=True, slots=True)
class _Found:
    """A page, `None` for one that is unchanged, and the snapshot that it comes from."""

    standing: SessionStanding
    page: Page | None
    admitted: tuple[str, ...] = ()


class Reader:
    """Answers reads from the sources. Every failure is a `RequestFailed`."""

    def __init__(self, sources: Sources, most_bytes: int = MAX_PAGE_BYTES) -> None:
        self._sources = sources
        self._most_bytes = most_bytes

    async def answer(self, read: Read, rest: Callable[[float], Awaitable[None]] = asyncio.sleep) -> bytes:
        """The answer's JSON, or a raised `RequestFailed`: for what the database says, `unavailable`. `rest`: lets
        seconds pass in which nothing is done for this read.
        """
        try:
            return await patiently(lambda: through_restart(lambda: self._answer(read)), rest)
        except RequestFailed:
            raise
        except _NO_SCHEMA:
            raise RequestFailed("unavailable", MIGRATE) from None
        except asyncpg.DataError:
            raise RequestFailed("invalid_query", "a text holds a character that cannot be stored") from None
        except (asyncpg.PostgresError, *DATABASE_AWAY) as error:
            logger.warning("%s failed: %s", read.kind, type(error).__name__)
            raise RequestFailed("unavailable", "the database did not answer; ask again") from None
        except ValidationError as error:
            # Its text is left out: a row that no contract describes may hold anything.
            logger.error("%s read a row that is not as expected: %d fields", read.kind, error.error_count())  # noqa: TRY400
            raise RequestFailed("unavailable", "a stored row is not as expected; see the reader's log") from None
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker is told at once, not at its deadline
            logger.error("%s ended in a fault of the reader: %s", read.kind, type(error).__name__)  # noqa: TRY400
            raise RequestFailed("unavailable", "the reader could not answer; see its log") from None

    async def _answer(self, read: Read) -> bytes:
        if isinstance(read, MessagesPage | TurnsPage):
            return _encoded(await self._page(read), read)
        if isinstance(read, HostMessages):
            return await list_host_messages(self._sources.serving(authoritative=False), read, self._most_bytes)
        return (await self._other(read)).model_dump_json().encode()

    async def _other(
        self, read: RevisionCheck | SessionSearch | WorkspaceList | TaskList | SessionList | MemberList
    ) -> Contract:
        match read:
            case RevisionCheck():
                return await self._revisions(read)
            case SessionSearch():
                return await self._search(read)
            case WorkspaceList() | TaskList() | SessionList() | MemberList():
                return await self._list(read)

    async def _list(self, read: WorkspaceList | TaskList | SessionList | MemberList) -> ListAnswer:
        pool = self._sources.serving(authoritative=False)
        match read:
            case WorkspaceList():
                return await list_workspaces(pool, read)
            case TaskList():
                return await list_tasks(pool, read)
            case SessionList():
                return await list_sessions(pool, read)
            case MemberList():
                return await list_members(self._sources.serving(authoritative=True), read)

    async def _page(self, read: MessagesPage | TurnsPage) -> _Found:
        query = query_of(read, self._most_bytes)
        if read.readers or read.held is not None:
            found = await self._joined(read, query)
        else:
            found = await self._single(read, query)
        found.standing.require_expected(read)
        return found

    async def _single(self, read: MessagesPage | TurnsPage, query: Query) -> _Found:
        async def fetch(pool: asyncpg.Pool) -> tuple[SessionStanding, list[Columns]]:
            found = await pool.fetch(query.statement, *query.parameters)
            return standing_of(found[0] if found else None, read), found

        standing, rows = await settled(self._sources, fetch, authoritative=read.authoritative)
        standing.require_present()
        return _Found(standing, page_of(read, query.shape, rows, self._most_bytes))

    async def _joined(self, read: MessagesPage | TurnsPage, query: Query) -> _Found:
        async def fetch(pool: asyncpg.Pool) -> tuple[Joined, None]:
            return await read_joined(pool, read, query), None

        joined, _ = await settled(self._sources, fetch, authoritative=read.authoritative)
        if not joined.readable:
            raise no_session()
        page = None if joined.rows is None else page_of(read, query.shape, joined.rows, self._most_bytes)
        return _Found(joined.head, page, joined.admitted)

    async def _revisions(self, read: RevisionCheck) -> RevisionAnswer:
        _, answer = await settled(
            self._sources, lambda pool: check_revisions(pool, read), authoritative=read.authoritative
        )
        return answer

    async def _search(self, read: SessionSearch) -> SearchAnswer:
        standing, hits = await settled(
            self._sources, lambda pool: search_session(pool, read), authoritative=read.authoritative
        )
        standing.require_present()
        standing.require_expected(read)
        return SearchAnswer(epoch=standing.epoch, primary=standing.primary, hits=hits)


def _encoded(found: _Found, read: MessagesPage | TurnsPage) -> bytes:
    """A `MessagesAnswer`, `TurnsAnswer` or `UnchangedAnswer`, with the rows as they are encoded."""
    if found.page is None:
        return _unchanged(found, read).model_dump_json().encode()
    rows = found.page.rows
    long = [index for index, row in enumerate(rows) if row.long is not None]
    document = orjson.dumps(
        {
            "kind": "messages" if isinstance(read, MessagesPage) else "turns",
            "epoch": found.standing.epoch,
            "primary": found.standing.primary,
            "session_id": read.session_id,
            "task_id": found.standing.task_id,
            "revision": found.standing.revision,
            "admitted": found.admitted,
            "rows": [orjson.Fragment(row.json) for row in rows],
            "has_more": found.page.has_more,
            "has_older": found.page.has_older,
            "has_newer": found.page.has_newer,
            "end": None if found.page.end is None else {"time": found.page.end.time, "id": found.page.end.id},
            "long": long,
        }
    )
    return followed_by(document, (row.long for row in rows if row.long is not None))


def _unchanged(found: _Found, read: MessagesPage | TurnsPage) -> UnchangedAnswer:
    return UnchangedAnswer(
        epoch=found.standing.epoch,
        primary=found.standing.primary,
        session_id=read.session_id,
        task_id=found.standing.task_id,
        revision=found.standing.revision,
        admitted=found.admitted,
    )
