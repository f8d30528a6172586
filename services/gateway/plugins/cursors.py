"""Cursors of plugin pages: a place in one query of one user through one plugin, good for nothing else.

A cursor holds the place itself, not a row's id alone: the row may be deleted before the next page is asked for.
"""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Literal

import orjson

from services.gateway.identity.caller import Caller
from services.gateway.plugins.bindings import Installation
from services.gateway.plugins.keyring import Keyring, now_microseconds
from shared.contracts.reads import Keyset, Sort
from shared.contracts.rows import AuthorType
from shared.tokens import LIFETIME_SECONDS, MICROSECONDS, CursorClaims, TokenInvalid, sign, verify


class CursorInvalid(Exception):
    """Not a cursor of this user, plugin, session and query, or no longer."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows of a session in which order, in pages of which size: what two pages of one reading have in common.

    `task_id` None: of every task. `authors`: in one order, empty for all.
    """

    rows: Literal["messages", "turns"]
    session_id: str
    task_id: str | None
    authors: tuple[AuthorType, ...]
    sort: Sort
    limit: int

    @property
    def fingerprint(self) -> str:
        """Stands for the selection in a cursor, which it keeps short: ids can be long."""
        digest = hashlib.sha256(orjson.dumps(astuple(self))).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Cursors:
    """Issues and opens cursors. `clock`: the time in microseconds since 1970."""

    def __init__(self, keyring: Keyring, clock: Callable[[], int] = now_microseconds) -> None:
        self._keyring = keyring
        self._clock = clock

    def issue(self, caller: Caller, plugin: Installation, selection: Selection, epoch: str, end: Keyset) -> str:
        """The cursor behind a page's last row, for ten minutes. Raises RequestFailed while no key is known."""
        claims = CursorClaims(
            plugin_id=plugin.id,
            user_id=caller.identity.user,
            generation=plugin.generation,
            expires_at=self._clock() + LIFETIME_SECONDS * MICROSECONDS,
            fingerprint=selection.fingerprint,
            epoch=epoch,
            position=end,
        )
        return sign(claims, self._keyring.signing)

    def open(self, token: str, caller: Caller, plugin: Installation, selection: Selection) -> CursorClaims:
        """What a cursor says, if it belongs to this reading. Raises CursorInvalid.

        Whether its generation and epoch are still the current ones is left to who knows both.
        """
        try:
            claims = verify(token, self._keyring.verifying, self._clock(), CursorClaims)
        except TokenInvalid:
            raise CursorInvalid from None
        belongs = (claims.plugin_id, claims.user_id, claims.fingerprint)
        if belongs != (plugin.id, caller.identity.user, selection.fingerprint):
            raise CursorInvalid
        return claims
