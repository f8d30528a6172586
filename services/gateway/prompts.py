"""Prompts that a user keeps by name: every statement on `gateway.custom_prompts`. Each user has only their own."""

import uuid
from dataclasses import dataclass

import asyncpg

from shared.contracts.errors import RequestFailed

MOST_PROMPTS = 200
"""Prompts of one user: a list that a person still looks through, and one short answer."""

_COLUMNS = "id, name, content, created_at, updated_at"

# By (user_id, name); the others by primary key.
_ALL = f"SELECT {_COLUMNS} FROM gateway.custom_prompts WHERE user_id = $1 ORDER BY lower(name), name"  # noqa: S608

# One addition at a time for each user: two at once could both find room for the last.
_ALONE = "SELECT pg_advisory_xact_lock(7205, hashtext($1))"
_COUNT = "SELECT count(*) FROM gateway.custom_prompts WHERE user_id = $1"
_ADD = f"""
INSERT INTO gateway.custom_prompts (id, user_id, name, content) VALUES ($1, $2, $3, $4) RETURNING {_COLUMNS}
"""  # noqa: S608 - literals
_CHANGE = f"""
UPDATE gateway.custom_prompts
   SET name = coalesce($3, name), content = coalesce($4, content),
       updated_at = greatest(clock_timestamp(), updated_at + interval '1 microsecond')
 WHERE id = $1 AND user_id = $2
RETURNING {_COLUMNS}
"""  # noqa: S608 - literals
_REMOVE = "DELETE FROM gateway.custom_prompts WHERE id = $1 AND user_id = $2 RETURNING id"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt. Times in microseconds since 1970."""

    id: str
    name: str
    content: str
    created_at: int
    updated_at: int


class Prompts:
    """The prompts of whoever is named. Raises RequestFailed: `not_found` for another's, `conflict` for a name twice."""

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database

    async def all(self, user: str) -> tuple[Prompt, ...]:
        """By name."""
        return tuple(Prompt(*row) for row in await self._database.fetch(_ALL, user))

    async def add(self, user: str, name: str, content: str) -> Prompt:
        """Keeps a prompt."""
        try:
            async with self._database.acquire() as connection, connection.transaction():
                await connection.execute(_ALONE, user)
                if await connection.fetchval(_COUNT, user) >= MOST_PROMPTS:
                    raise RequestFailed("conflict", f"a user may keep {MOST_PROMPTS} prompts; delete one first")
                return Prompt(*await connection.fetchrow(_ADD, str(uuid.uuid4()), user, name, content))
        except asyncpg.UniqueViolationError:
            raise _taken() from None

    async def change(self, user: str, prompt_id: str, name: str | None, content: str | None) -> Prompt:
        """Replaces what is given."""
        try:
            row = await self._database.fetchrow(_CHANGE, prompt_id, user, name, content)
        except asyncpg.UniqueViolationError:
            raise _taken() from None
        if row is None:
            raise _unknown()
        return Prompt(*row)

    async def remove(self, user: str, prompt_id: str) -> None:
        """Forgets a prompt."""
        if await self._database.fetchval(_REMOVE, prompt_id, user) is None:
            raise _unknown()


def _taken() -> RequestFailed:
    return RequestFailed("conflict", "a prompt of this name is kept already")


def _unknown() -> RequestFailed:
    return RequestFailed("not_found", "prompt not found")
