"""Who reads in these tests, what they may read, and the pools of a reader."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pydantic import SecretStr, TypeAdapter

from services.reader.answers import Reader
from services.reader.pools import Sources, open_source
from shared.broker.long_texts import completed, split
from shared.contracts.identity import Identity
from shared.contracts.reads import MAX_PAGE_BYTES, Answer, HostMessages, MessagesAnswer, Read
from shared.host_rpc.generated import plugin_pb2 as wire

_ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)

OWNER = Identity(user="owner")
MEMBER = Identity(user="member")
STRANGER = Identity(user="stranger")
UNSCOPED = Identity(user="admin", unscoped=True)

PEOPLE = """
INSERT INTO public.workspaces (id, name, owner_id) VALUES ('shared', 'Shared', 'owner'), ('open', 'Open', '');
INSERT INTO public.workspace_members (workspace_id, user_id) VALUES ('shared', 'member');
INSERT INTO public.tasks (id, workspace_id, title) VALUES ('task', 'shared', 'Task'), ('public', 'open', 'Public');
INSERT INTO public.task_sessions (id, task_id) VALUES ('s', 'task'), ('other', 'task'), ('p', 'public');
"""


@asynccontextmanager
async def open_sources(database_url: str) -> AsyncIterator[Sources]:
    """The reader's pools on a database."""
    pool = await open_source(SecretStr(database_url), 4, "reader")
    try:
        yield Sources(pool)
    finally:
        await pool.close()


class Reading:
    """A reader whose answers are told as its askers understand them."""

    def __init__(self, sources: Sources, most_bytes: int = MAX_PAGE_BYTES) -> None:
        self._reader = Reader(sources, most_bytes)

    async def answer(self, read: Read, rest: Callable[[float], Awaitable[None]] = asyncio.sleep) -> Answer:
        """The answer. Raises RequestFailed."""
        document, texts = split(await self._reader.answer(read, rest))
        answer = _ANSWER.validate_json(document)
        return completed(answer, texts) if isinstance(answer, MessagesAnswer) else answer

    async def host_page(self, read: HostMessages) -> wire.ListMessagesResponse:
        """The page that Host RPC answers. Raises RequestFailed."""
        return wire.ListMessagesResponse.FromString(await self._reader.answer(read))
