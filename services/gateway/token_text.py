"""The text of a token that is shown once: a prefix, eight hexadecimal digits, and a secret (pure but for its chance).

The digits are the token's id; of the secret only its SHA-256 is stored: it is random and long, so that nothing slower
protects it better.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

_ID_BYTES, _SECRET_BYTES = 4, 32
_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9_-]{20,128}", re.ASCII)
_NO_HASH = bytes(32)


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token with its secret, which no representation shows."""

    prefix: str
    id: str
    secret: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.prefix}{self.id}_{self.secret}"

    @property
    def secret_hash(self) -> bytes:
        """What is stored."""
        return hashlib.sha256(self.secret.encode()).digest()

    def is_of(self, stored: bytes | None) -> bool:
        """Whether this is the stored hash's secret; none is that of `None`, which takes as long to tell."""
        matches = hmac.compare_digest(_NO_HASH if stored is None else stored, self.secret_hash)
        return matches and stored is not None


def new_token(prefix: str) -> TokenText:
    """A token that nobody has, unless its id is taken."""
    return TokenText(prefix, secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))


def token_from(prefix: str, text: str) -> TokenText | None:
    """The token that a client shows; `None` for what has another form."""
    if not text.startswith(prefix):
        return None
    token_id, separator, secret = text[len(prefix) :].partition("_")
    if not separator or not is_token_id(token_id) or _SECRET.fullmatch(secret) is None:
        return None
    return TokenText(prefix, token_id, secret)


def is_token_id(text: str) -> bool:
    """Whether this may be a token's id."""
    return _ID.fullmatch(text) is not None
