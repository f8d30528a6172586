"""A write boundary on a fresh database, with a task and a session to write to, and plain SQL beside it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest_asyncio
from pydantic import SecretStr

from services.revision.commands.boundary import WriteBoundary
from shared.contracts.commands import Command, CommandResult, CreateSession, CreateTask, CreateWorkspace
from shared.contracts.errors import Failure, RequestFailed
from shared.contracts.identity import LOCAL_USER, Identity
from shared.database import open_pool

PATIENCE = 20.0
"""Seconds that a test allows a command: long beyond what any takes, so that none fails by the clock."""


@dataclass(slots=True)
class Source:
    """What tests do to the source: commands, and SQL on connections of their own."""

    boundary: WriteBoundary
    pool: asyncpg.Pool

    async def do(self, command: Command, identity: Identity = LOCAL_USER) -> CommandResult:
        """Executes a command, within a deadline that no test reaches."""
        return await self.boundary.execute(identity, command, asyncio.get_running_loop().time() + PATIENCE)

    async def refusal(self, command: Command, identity: Identity = LOCAL_USER) -> Failure:
        """The typed error of a command that must fail."""
        try:
            result = await self.do(command, identity)
        except RequestFailed as failed:
            return failed.failure
        raise AssertionError(f"{command.kind} was done: {result}")

    async def revision(self, session_id: str = "s") -> int:
        """The session's revision; 0 without a row."""
        found = await self.pool.fetchval(
            "SELECT revision FROM conversation_session_revisions WHERE session_id = $1", session_id
        )
        return found or 0

    async def state(self) -> tuple[object, ...]:
        """Everything that a command could change."""
        tables = (
            "workspaces",
            "tasks",
            "task_sessions",
            "task_session_turns",
            "task_session_messages",
            "task_session_prompt_seq",
            "conversation_session_revisions",
        )
        return tuple([await self.pool.fetch(f"SELECT * FROM {table} ORDER BY 1") for table in tables])


@pytest_asyncio.fixture
async def source(database_url: str) -> AsyncIterator[Source]:
    """Workspace `w`, task `t` and session `s`, everyone's."""
    pool = await open_pool(SecretStr(database_url), 24, "test")
    boundary = WriteBoundary(pool)
    source = Source(boundary, pool)
    await source.do(CreateWorkspace(workspace_id="w", name="W"))
    await source.do(CreateTask(task_id="t", workspace_id="w", title="T"))
    await source.do(CreateSession(session_id="s", task_id="t"))
    yield source
    async with asyncio.timeout(PATIENCE):
        await boundary.close()
        await pool.close()
