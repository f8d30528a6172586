"""Cursors of Host RPC: the place behind a page's last row (pure).

They are not signed: whoever makes one up gets to begin somewhere else in what may be read anyway. What is no cursor is
the beginning, as clients expect.
"""

import base64
import binascii
import re

from shared.contracts.reads import Keyset

# An id of any length: in a table that another program has made, longer ones than ours may stand.
_FORM = re.compile(r"(-?\d{1,19}):([^\x00]*)", re.ASCII | re.DOTALL)

# What PostgreSQL can hold, in microseconds since 1970: moments, and its two infinities (see `shared.database`).
_EARLIEST, _LATEST = -210_866_803_200_000_000, 9_224_318_015_999_999_999
_INFINITIES = frozenset({946_684_800_000_000 - 2**63, 946_684_800_000_000 + 2**63 - 1})


def cursor_of(place: Keyset) -> str:
    """The cursor of a place."""
    return base64.urlsafe_b64encode(f"{place.time}:{place.id}".encode()).rstrip(b"=").decode()


def place_of(cursor: str) -> Keyset | None:
    """The place of a cursor; `None`, the beginning, for what is none."""
    if not cursor:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    time = int(match[1])
    if not (_EARLIEST <= time <= _LATEST or time in _INFINITIES):
        return None
    return Keyset(time=time, id=match[2])
