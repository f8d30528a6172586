"""Messages of the replication protocol, made by hand."""

import struct

from services.revision.tracker.pgoutput import UNCHANGED, Value, Values

MESSAGES, TURNS, REVISIONS, EPOCH = 1, 2, 3, 4

COLUMNS = {
    MESSAGES: (
        "public", "task_session_messages",
        ("id", "task_session_id", "task_id", "turn_id", "author_type", "author_id", "content", "requests_input", "type",
         "metadata", "created_at", "updated_at", "prompt_seq"),
    ),
    TURNS: (
        "public", "task_session_turns",
        ("id", "task_session_id", "task_id", "started_at", "completed_at", "execution_profile_id", "route_generation",
         "metadata", "created_at", "updated_at"),
    ),
    REVISIONS: ("public", "conversation_session_revisions", ("session_id", "revision")),
    EPOCH: ("conversation", "epoch", ("id", "epoch", "heartbeat_at")),
}  # fmt: skip

AT = b"2026-01-02 03:04:05.6+00"


KEYS = {
    MESSAGES: frozenset(("id", "task_session_id", "task_id", "author_type", "created_at")),
    TURNS: frozenset(("id", "task_session_id", "task_id", "started_at")),
    REVISIONS: frozenset(("session_id", "revision")),
    EPOCH: frozenset(("id",)),
}
"""The columns of each table's replica identity."""


def relation(oid: int, columns: tuple[str, ...] | None = None, keys: frozenset[str] | None = None) -> bytes:
    schema, name, known = COLUMNS[oid]
    keyed = KEYS[oid] if keys is None else keys
    described = b"".join(
        bytes([column in keyed]) + column.encode() + b"\0" + struct.pack("!Ii", 25, -1) for column in columns or known
    )
    head = b"R" + struct.pack("!I", oid) + schema.encode() + b"\0" + name.encode() + b"\0i"
    return head + struct.pack("!H", len(columns or known)) + described


def begin(xid: int = 7) -> bytes:
    return b"B" + struct.pack("!QqI", 100, 1000, xid)


def commit() -> bytes:
    return b"C\0" + struct.pack("!QQq", 100, 110, 1000)


def insert(oid: int, new: Values) -> bytes:
    return b"I" + struct.pack("!I", oid) + b"N" + values(new)


def update(oid: int, new: Values, old: Values | None = None, kind: bytes = b"K") -> bytes:
    before = b"" if old is None else kind + values(old)
    return b"U" + struct.pack("!I", oid) + before + b"N" + values(new)


def delete(oid: int, old: Values, kind: bytes = b"K") -> bytes:
    return b"D" + struct.pack("!I", oid) + kind + values(old)


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack("!IB", len(oids), 0) + struct.pack(f"!{len(oids)}I", *oids)


def values(row: Values) -> bytes:
    return struct.pack("!H", len(row)) + b"".join(_value(value) for value in row)


def _value(value: Value) -> bytes:
    if value is None:
        return b"n"
    if value is UNCHANGED:
        return b"u"
    return b"t" + struct.pack("!I", len(value)) + value


def message(row_id: str, session: str = "s", content: Value = b"x", task: str = "t", author: str = "agent") -> Values:
    ids = (row_id.encode(), session.encode(), task.encode(), None, author.encode(), b"")
    return (*ids, content, b"f", b"message", b"{}", AT, AT, b"0")


def turn(row_id: str, session: str = "s") -> Values:
    return (row_id.encode(), session.encode(), b"t", AT, None, None, None, b"{}", AT, AT)


def message_key(row_id: str, session: str = "s", task: str = "t", author: str = "agent") -> Values:
    """What a replica identity by index logs of an old message."""
    row = message(row_id, session, None, task, author)
    return tuple(value if place in (0, 1, 2, 4, 10) else None for place, value in enumerate(row))


def revision(session: str, number: int) -> Values:
    return (session.encode(), str(number).encode())


def inserted(session: str, number: int) -> bytes:
    return insert(REVISIONS, revision(session, number))


def bump(session: str, old: int) -> bytes:
    return update(REVISIONS, revision(session, old + 1), revision(session, old), b"O")


def dropped(session: str, old: int) -> bytes:
    return delete(REVISIONS, revision(session, old), b"O")


def epoch(value: str) -> bytes:
    return update(EPOCH, (b"t", value.encode(), AT))
