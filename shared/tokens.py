"""Signed tokens: claims that the gateway gives to a client and believes when they come back (pure).

A token is `base64url(claims as JSON) "." base64url(HMAC-SHA256 of the part before the dot)`, without padding. What is
signed is the text itself, and the signature is compared as text: there is one form of a token, and no other one
verifies. Claims are readable by whoever holds the token; they hold no secret.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Literal, TypeVar

import orjson
from pydantic import ConfigDict, Field, ValidationError

from shared.contracts.base import Contract
from shared.contracts.reads import Keyset

LIFETIME_SECONDS = 600
"""How long a token is believed after it was issued."""

KEY_BYTES = 32
"""Size of a signing key."""

MAX_TOKEN_CHARACTERS = 8192
"""Nothing longer is looked at: ids of the greatest length, in any alphabet, stay below it."""

MICROSECONDS = 1_000_000


class TokenInvalid(Exception):
    """A token that is not believed: its form, its signature, its age, or its kind. Which one is nobody's business."""


def _nonce() -> str:
    return secrets.token_hex(16)


class Claims(Contract):
    """What every token says. `generation` is the installation of the plugin that it was issued for.

    `expires_at`: microseconds since 1970; from then on it is not believed. `nonce`: 16 random bytes in hex, which make
    any two tokens differ.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    v: Literal[1] = 1
    kind: str
    plugin_id: str
    user_id: str
    generation: int
    expires_at: int
    nonce: str = Field(default_factory=_nonce, pattern="^[0-9a-f]{32}$")


class BindingClaims(Claims):
    """A user's browser may read conversations through a plugin."""

    kind: Literal["binding"] = "binding"


class CursorClaims(Claims):
    """Where a plugin's next page begins.

    `fingerprint`: the session and the query that the page belongs to (see the gateway's `plugins/cursors.py`).
    `epoch`: of the page that it continues. `position`: keyset of that page's last row, which may be gone by now.
    """

    kind: Literal["cursor"] = "cursor"
    fingerprint: str
    epoch: str
    position: Keyset


ClaimsT = TypeVar("ClaimsT", bound=Claims)


def sign(claims: Claims, key: bytes) -> str:
    """The token of these claims."""
    payload = _encoded(orjson.dumps(claims.model_dump()))
    return f"{payload}.{_signature(payload, key)}"


def is_signed(token: str, keys: Iterable[bytes]) -> bool:
    """Whether one of the keys signed the token. It may have expired, and may be of any kind."""
    if len(token) > MAX_TOKEN_CHARACTERS or not token.isascii():
        return False
    payload, _, signature = token.partition(".")
    # Every key is tried: which one signed must not show in the time it takes.
    matches = [hmac.compare_digest(_signature(payload, key), signature) for key in keys]
    return any(matches)


def verify(token: str, keys: Iterable[bytes], now: int, kind: type[ClaimsT]) -> ClaimsT:
    """The claims of a token that one of the keys signed, that is of this kind, and that has not expired at `now`
    (microseconds since 1970). Raises TokenInvalid.
    """
    if not is_signed(token, keys):
        raise TokenInvalid
    try:
        claims = kind.model_validate_json(_decoded(token.partition(".")[0]))
    except (ValidationError, binascii.Error):
        raise TokenInvalid from None
    if claims.expires_at <= now:
        raise TokenInvalid
    return claims


def new_key() -> bytes:
    """A signing key."""
    return secrets.token_bytes(KEY_BYTES)


def _signature(payload: str, key: bytes) -> str:
    return _encoded(hmac.digest(key, payload.encode(), hashlib.sha256))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
