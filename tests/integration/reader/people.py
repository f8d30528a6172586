"""Who reads in these tests, what they may read, and the pools of a reader."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from services.reader.pools import Sources, open_source
from shared.contracts.identity import Identity

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
