"""Where reads go: the primary, and a replica where one is configured and answers."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
from pydantic import SecretStr

from shared.database import open_pool

# Every statement here walks an index in the order of its page, whatever the size of the session. A plan made for the
# average session would sort a small one, and the same plan would then sort a million rows: plans that sort or read
# whole tables are left to statements that have no other. One plan serves every call, so none is made per call.
PLANNER = {
    "enable_sort": "off",
    "enable_bitmapscan": "off",
    "enable_seqscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "default_transaction_read_only": "on",
}


@dataclass(slots=True)
class Sources:
    """The open pools. `replica` is there only while it answers."""

    primary: asyncpg.Pool
    replica: asyncpg.Pool | None = None

    def serving(self, *, authoritative: bool) -> asyncpg.Pool:
        """The pool for a read that must, or need not, be answered by the primary."""
        return self.primary if authoritative or self.replica is None else self.replica


async def open_source(url: SecretStr, size: int, role: str) -> asyncpg.Pool:
    """A pool whose sessions are read-only and planned for pages. Raises what asyncpg raises when the server is away."""
    return await open_pool(SecretStr(_with_settings(url.get_secret_value())), size, role, _as_it_is)


async def _as_it_is(_: asyncpg.Connection) -> None:
    """Reads set nothing for longer than their transaction: there is nothing to ask the server to undo."""


def _with_settings(url: str) -> str:
    """Unknown parameters of the address are what asyncpg sends as the session's settings."""
    parts = urlsplit(url)
    query = [*parse_qsl(parts.query, keep_blank_values=True), *PLANNER.items()]
    return urlunsplit(parts._replace(query=urlencode(query)))
