"""The write boundary: takes any command, and answers once it is committed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import asyncpg

from services.revision.commands.appends import Appends
from services.revision.commands.messages import create_message, delete_message, update_message
from services.revision.commands.sessions import create_session, delete_session, update_session
from services.revision.commands.transaction import Transactions
from services.revision.commands.turns import complete_turn, start_turn
from services.revision.commands.workspaces import create_task, create_workspace, delete_task, remove_member, set_member
from shared.contracts.base import Contract
from shared.contracts.commands import (
    AppendMessage,
    Command,
    CommandResult,
    CompleteTurn,
    CreateMessage,
    CreateSession,
    CreateTask,
    CreateWorkspace,
    DeleteMessage,
    DeleteSession,
    DeleteTask,
    RemoveMember,
    SetMember,
    StartTurn,
    UpdateMessage,
    UpdateSession,
)
from shared.contracts.identity import Identity

# Any: each handler takes the one command that it stands beside.
Handler = Callable[[asyncpg.Connection, Identity, Any], Awaitable[CommandResult]]

_HANDLERS: Mapping[type[Contract], Handler] = {
    CreateWorkspace: create_workspace,
    SetMember: set_member,
    RemoveMember: remove_member,
    CreateTask: create_task,
    DeleteTask: delete_task,
    CreateSession: create_session,
    UpdateSession: update_session,
    DeleteSession: delete_session,
    CreateMessage: create_message,
    UpdateMessage: update_message,
    DeleteMessage: delete_message,
    StartTurn: start_turn,
    CompleteTurn: complete_turn,
}


class WriteBoundary:
    """Executes commands against the source that `pool` reaches. Close it before the pool."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._transactions = Transactions(pool)
        self._appends = Appends(self._transactions)

    async def execute(self, identity: Identity, command: Command, deadline: float) -> CommandResult:
        """Commits a command and tells its interval. `deadline` is in the event loop's seconds.

        Raises RequestFailed with the typed reason, or DeadlinePassed (it may have been committed: ask again).
        """
        if isinstance(command, AppendMessage):
            return await self._appends.append(identity, command, deadline)
        handler = _HANDLERS[type(command)]

        async def work(connection: asyncpg.Connection) -> CommandResult:
            return await handler(connection, identity, command)

        return await self._transactions.run(work, deadline)

    async def close(self) -> None:
        """Gives up appends that are not written yet."""
        await self._appends.close()
