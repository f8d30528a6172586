"""The messages of logical decoding with `pgoutput`, protocol version 1, as small immutable objects.

Strict on purpose: a message that is unknown, short or too long says that stream and decoder no longer agree,
and whatever followed would be guessed.
"""

import struct
from collections.abc import Callable
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias


class Unchanged(Enum):
    """The mark of a large value that an update did not change and the log therefore leaves out (T3)."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED

Value: TypeAlias = bytes | Literal[Unchanged.UNCHANGED] | None
"""A column as the log carries it: PostgreSQL's text output, `None` for NULL, or the mark of an unchanged large value.
"""

Values: TypeAlias = tuple[Value, ...]


class DecodingError(Exception):
    """The stream held a message that this decoder does not know, or not in this shape. Names bytes and sizes, never
    values.
    """


class Column(NamedTuple):
    """A column of a relation. `key`: part of the replica identity."""

    name: str
    key: bool


class Relation(NamedTuple):
    """A table as the log describes it before its first row, and again after each change of its definition."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]


class Begin(NamedTuple):
    """Opens a transaction. `committed_at`: microseconds since 2000-01-01 UTC, by the server's clock. `xid`: 32 bits,
    without epoch.
    """

    commit_lsn: int
    committed_at: int
    xid: int


class Commit(NamedTuple):
    """Closes a transaction; `end_lsn` is the place behind it in the log."""

    commit_lsn: int
    end_lsn: int
    committed_at: int


class Insert(NamedTuple):
    """A new row."""

    relation: Relation
    new: Values


class Update(NamedTuple):
    """A changed row. `old` is there only if the replica identity says so: under an index, when one of its columns
    changed.
    """

    relation: Relation
    old: Values | None
    new: Values


class Delete(NamedTuple):
    """A deleted row; under an index identity only that index's columns are set in `old`."""

    relation: Relation
    old: Values


class Truncate(NamedTuple):
    """Tables emptied by one statement. No row of them is named."""

    relations: tuple[Relation, ...]


Message: TypeAlias = Begin | Commit | Relation | Insert | Update | Delete | Truncate

_BEGIN = struct.Struct("!QqI")
_COMMIT = struct.Struct("!BQQq")
_U16 = struct.Struct("!H")
_U32 = struct.Struct("!I")
_IGNORED = frozenset(b"YOM")


class Decoder:
    """Decodes the messages of one connection, whose relations it remembers as they are announced."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}
        self._handlers: dict[int, Callable[[bytes], Message]] = {
            ord("B"): _begin,
            ord("C"): _commit,
            ord("R"): self._announce,
            ord("I"): self._insert,
            ord("U"): self._update,
            ord("D"): self._delete,
            ord("T"): self._truncate,
        }

    def decode(self, message: bytes) -> Message | None:
        """One message; `None` for those that say nothing about rows (type, origin, logical message). Raises
        DecodingError.
        """
        try:
            return self._decode(message)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            kind = chr(message[0]) if message else ""
            raise DecodingError(
                f"message {kind!r} of {len(message)} bytes is not as long or not built as it says"
            ) from error

    def _decode(self, message: bytes) -> Message | None:
        handler = self._handlers.get(message[0])
        if handler is not None:
            return handler(message)
        if message[0] in _IGNORED:
            return None
        raise DecodingError(f"unknown message {message[0]:#04x} of {len(message)} bytes")

    def _insert(self, message: bytes) -> Insert:
        relation = self._relation(message, 1)
        _expect(message, 5, b"N")
        new, end = _values(message, 6, relation)
        _end(message, end)
        return Insert(relation, new)

    def _update(self, message: bytes) -> Update:
        relation = self._relation(message, 1)
        old, at = None, 5
        if message[at] in b"KO":
            old, at = _values(message, at + 1, relation)
        _expect(message, at, b"N")
        new, end = _values(message, at + 1, relation)
        _end(message, end)
        return Update(relation, old, new)

    def _delete(self, message: bytes) -> Delete:
        relation = self._relation(message, 1)
        _expect(message, 5, b"KO")
        old, end = _values(message, 6, relation)
        _end(message, end)
        return Delete(relation, old)

    def _truncate(self, message: bytes) -> Truncate:
        (count,) = _U32.unpack_from(message, 1)
        _end(message, 6 + 4 * count)
        return Truncate(tuple(self._relation(message, 6 + 4 * index) for index in range(count)))

    def _announce(self, message: bytes) -> Relation:
        (oid,) = _U32.unpack_from(message, 1)
        schema, at = _text(message, 5)
        name, at = _text(message, at)
        (count,) = _U16.unpack_from(message, at + 1)
        at += 3
        columns = []
        for _ in range(count):
            flags = message[at]
            column, at = _text(message, at + 1)
            at += 8
            columns.append(Column(column, bool(flags & 1)))
        _end(message, at)
        # An empty schema name stands for pg_catalog.
        relation = self._relations[oid] = Relation(oid, schema or "pg_catalog", name, tuple(columns))
        return relation

    def _relation(self, message: bytes, at: int) -> Relation:
        (oid,) = _U32.unpack_from(message, at)
        relation = self._relations.get(oid)
        if relation is None:
            raise DecodingError(f"message {chr(message[0])!r} names relation {oid}, which was not announced")
        return relation


def _begin(message: bytes) -> Begin:
    return Begin(*_whole(_BEGIN, message))


def _commit(message: bytes) -> Commit:
    _, commit_lsn, end_lsn, committed_at = _whole(_COMMIT, message)
    return Commit(commit_lsn, end_lsn, committed_at)


def _values(message: bytes, at: int, relation: Relation) -> tuple[Values, int]:
    (count,) = _U16.unpack_from(message, at)
    if count != len(relation.columns):
        raise DecodingError(
            f"a row of relation {relation.oid} has {count} columns, announced were {len(relation.columns)}"
        )
    at += 2
    values: list[Value] = []
    for _ in range(count):
        kind = message[at]
        at += 1
        if kind == 0x74:
            (length,) = _U32.unpack_from(message, at)
            at += 4
            value = message[at : at + length]
            if len(value) != length:
                raise DecodingError(
                    f"a column of relation {relation.oid} should have {length} bytes, {len(value)} are left"
                )
            values.append(value)
            at += length
        elif kind == 0x6E:
            values.append(None)
        elif kind == 0x75:
            values.append(UNCHANGED)
        else:
            raise DecodingError(f"a column of relation {relation.oid} is of unknown kind {kind:#04x}")
    return tuple(values), at


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.find(b"\0", at)
    if end < 0:
        raise DecodingError(f"message {chr(message[0])!r} holds a name without its end")
    return message[at:end].decode(), end + 1


def _whole(layout: struct.Struct, message: bytes) -> tuple[int, ...]:
    _end(message, 1 + layout.size)
    return layout.unpack_from(message, 1)


def _expect(message: bytes, at: int, kinds: bytes) -> None:
    if message[at] not in kinds:
        raise DecodingError(f"message {chr(message[0])!r} holds {message[at]:#04x} where one of {kinds!r} was expected")


def _end(message: bytes, at: int) -> None:
    if len(message) != at:
        raise DecodingError(f"message {chr(message[0])!r} has {len(message)} bytes, {at} were expected")
