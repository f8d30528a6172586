"""Writes that take more than one request."""

from collections.abc import Mapping
from dataclasses import replace

from client.writers import NewMessage, WriteRefused, Writers, Written

CONFLICT = 409
TOO_LARGE = 413

PART_CHARACTERS = 128 << 10
"""A message that is too large for one request is sent in parts of this many characters: at most 512 KiB of UTF-8."""

_UPDATE_ATTEMPTS = 4


async def create_in_parts(writers: Writers, session_id: str, message: NewMessage) -> Written:
    """Creates a message; one that the gateway finds too large for one request grows by appends."""
    try:
        return await writers.create_message(session_id, message)
    except WriteRefused as refused:
        if refused.status != TOO_LARGE or len(message.content) <= PART_CHARACTERS:
            raise
    first = replace(message, content=message.content[:PART_CHARACTERS])
    try:
        written = await writers.create_message(session_id, first)
    except WriteRefused as refused:
        # It has grown since it was created: what is there already answers every append as done.
        if refused.status != CONFLICT:
            raise
        written = None
    for offset in range(PART_CHARACTERS, len(message.content), PART_CHARACTERS):
        part = await writers.append(session_id, message.id, offset, message.content[offset : offset + PART_CHARACTERS])
        base = part.base_revision if written is None else written.base_revision
        written = Written(session_id, base, part.revision)
    if written is None:
        raise ValueError("a message of one part has no parts to append")
    return written


async def update_message(
    writers: Writers, session_id: str, message_id: str, changes: Mapping[str, object], revision: int
) -> Written:
    """Replaces fields of a message that only this program writes.

    `revision`: the session's last one known here. Where another writer has moved on, the conflict tells the row's
    `updated_at`, and that is expected next.
    """
    expected: str | None = None
    for attempt in range(_UPDATE_ATTEMPTS):
        try:
            return await writers.update_message(
                session_id,
                message_id,
                changes,
                expected_updated_at=expected,
                expected_revision=revision if expected is None else None,
            )
        except WriteRefused as refused:
            told = refused.details.get("updated_at")
            if refused.status != CONFLICT or not isinstance(told, str) or attempt == _UPDATE_ATTEMPTS - 1:
                raise
            expected = told
    raise AssertionError("the last attempt returns or raises")
