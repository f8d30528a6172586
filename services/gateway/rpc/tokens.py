"""Tokens of plugins' own processes: `kandev_plugin_<8 hexadecimal digits>_<secret>`, one for each plugin.

Their form is that of all tokens (`services.gateway.token_text`). One is as good as its plugin: whether that is in use
is asked of the registry, each time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from services.gateway.plugins.registry import ActivePlugin, Registry
from services.gateway.token_text import new_token, token_from
from shared.contracts.errors import RequestFailed

PREFIX = "kandev_plugin_"

KEPT_SECONDS = 5.0
"""For how long a token that was looked up is taken on trust: another gateway may have replaced it."""

_FIND = "SELECT plugin_id, secret_hash FROM gateway.plugin_tokens WHERE id = $1"
_PUT = """
INSERT INTO gateway.plugin_tokens (plugin_id, id, secret_hash)
SELECT p.id, $2, $3 FROM gateway.plugins p WHERE p.id = $1
    ON CONFLICT (plugin_id) DO UPDATE
       SET id = excluded.id, secret_hash = excluded.secret_hash, created_at = clock_timestamp()
"""
_GIVE = """
INSERT INTO gateway.plugin_tokens (plugin_id, id, secret_hash)
SELECT p.id, $2, $3 FROM gateway.plugins p WHERE p.id = $1
    ON CONFLICT (plugin_id) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class _Known:
    plugin_id: str
    secret_hash: bytes
    until: float


class PluginTokens:
    """The tokens. `clock`: seconds that only go on."""

    def __init__(self, database: asyncpg.Pool, registry: Registry, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._registry = registry
        self._clock = clock
        self._known: dict[str, _Known] = {}
        registry.listen(self._forget)

    async def replace(self, plugin_id: str) -> str:
        """A new token of a plugin, whose earlier one has ended. Nobody can read it again. Raises RequestFailed."""
        token = await self._store(_PUT, plugin_id) if "\x00" not in plugin_id else None
        if token is None:
            raise RequestFailed("not_found", "there is no such plugin")
        return token

    async def give(self, plugin_id: str) -> str | None:
        """The first token of a plugin; `None` where it has one."""
        return await self._store(_GIVE, plugin_id)

    async def plugin(self, token: str) -> ActivePlugin | None:
        """The plugin that a token stands for, if it is in use."""
        shown = token_from(PREFIX, token)
        if shown is None:
            return None
        known = await self._find(shown.id)
        if known is None or not shown.is_of(known.secret_hash):
            return None
        return self._registry.active(known.plugin_id)

    def _forget(self, plugins: frozenset[str]) -> None:
        """These are not what they were: one that was removed and has come back has no token."""
        self._known = {name: known for name, known in self._known.items() if known.plugin_id not in plugins}

    async def _store(self, statement: str, plugin_id: str) -> str | None:
        while True:
            token = new_token(PREFIX)
            try:
                done = await self._database.execute(statement, plugin_id, token.id, token.secret_hash)
            except asyncpg.UniqueViolationError:
                continue
            self._forget(frozenset({plugin_id}))
            return str(token) if done.endswith(" 1") else None

    async def _find(self, token_id: str) -> _Known | None:
        now = self._clock()
        known = self._known.get(token_id)
        if known is not None and now < known.until:
            return known
        row = await self._database.fetchrow(_FIND, token_id)
        # One for each plugin, and those that were replaced within the last seconds.
        self._known = {name: each for name, each in self._known.items() if now < each.until and name != token_id}
        if row is None:
            return None
        found = self._known[token_id] = _Known(row["plugin_id"], row["secret_hash"], now + KEPT_SECONDS)
        return found
