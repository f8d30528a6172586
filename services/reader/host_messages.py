"""Messages of all conversations in the order (created_at, id): what Host RPC lists.

One statement, and in it one walk along an index for each value of the leading filter: the sessions, else the tasks,
else the types; without any, one through all rows. Each walk stops behind the page, so that however large the table is,
no more places are put in order than a page for each value. Other filters are looked at on the way.

The byte cap is kept by the database, as for pages of one session (`services/reader/pages.py`). Whatever of a row has no
bound of its own is counted.

A list goes through all conversations, so that one row that cannot be told would end it for all. In a table that was
there before this schema content and type may be NULL, which is none of either, and ids of any length.
"""

# ruff: noqa: S608 - statements are put together from the literals of this module; every value is a parameter

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import asyncpg

from services.reader.host_pages import response_of
from services.reader.pages import ROW_BYTES
from shared.contracts.reads import HostMessages
from shared.contracts.rows import DEFAULT_TYPE

Leader = Literal["sessions", "tasks", "types"]

_TABLE = "public.task_session_messages"
_COLUMNS = ("id", "task_session_id", "task_id", "turn_id", "author_type", "type", "created_at")
"""In the order of a `HostRow`, which ends with the content and whether it is kept."""

_TEXTS = ("content", "type", "turn_id", "id", "task_session_id", "task_id")
_WEIGHT = " + ".join((*(f"coalesce(octet_length(p.{text}), 0)" for text in _TEXTS), str(ROW_BYTES)))
_FILTERS: dict[Leader, str] = {"sessions": "task_session_id", "tasks": "task_id", "types": "type"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a query decides its statement's text.

    `given`: the filters that are set, the leading one first. `several`: the leading one has more than one value.
    """

    given: tuple[Leader, ...]
    several: bool
    since: bool
    until: bool
    after: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A page's statement with its parameters."""

    statement: str
    parameters: tuple[object, ...]


def query_of(read: HostMessages, most_bytes: int) -> Query:
    """The query of a page."""
    types = {*read.types, ""} if DEFAULT_TYPE in read.types else set(read.types)
    values: dict[Leader, list[str]] = {
        "sessions": _distinct(read.session_ids),
        "tasks": _distinct(read.task_ids),
        "types": _distinct(types),
    }
    given = tuple(name for name, wanted in values.items() if wanted)
    several = bool(given) and len(values[given[0]]) > 1
    shape = Shape(given, several, read.since is not None, read.until is not None, read.after is not None)
    parameters: list[object] = [most_bytes, read.limit]
    parameters += [values[name][0] if name == given[0] and not several else values[name] for name in given]
    parameters += [bound for bound in (read.since, read.until) if bound is not None]
    if read.after is not None:
        parameters += [read.after.time, read.after.id]
    return Query(statement_of(shape), tuple(parameters))


@cache  # bounded by the number of shapes: 120
def statement_of(shape: Shape) -> str:
    """The statement of a shape: $1 bytes, $2 rows, then the filters in their order, since, until, and the place.

    A walk goes along `task_session_messages_keyset`, `task_session_messages_task_keyset`,
    `task_session_messages_type_keyset` or, of everything, `task_session_messages_host_keyset`.
    """
    columns = ", ".join(f"m.{column}" for column in (*_COLUMNS, "content"))
    if shape.several:
        # Places first, rows afterwards, one by one by primary key: what lies behind the page is never touched, and a
        # planner who expects many places cannot have the whole table read for them.
        found = f"""
SELECT {columns}
  FROM (SELECT walk.created_at, walk.id
          FROM unnest($3::text[]) wanted(value) CROSS JOIN LATERAL ({_walks(shape, "m.created_at, m.id")}) walk
         ORDER BY walk.created_at, walk.id COLLATE "C" LIMIT $2::integer + 1) place
  CROSS JOIN LATERAL (SELECT * FROM {_TABLE} m WHERE m.id = place.id LIMIT 1) m"""
    else:
        found = _walk(shape, columns)
    # Content comes as bytes: it goes out as such, and few of it has to be looked at as a text.
    return f"""
SELECT {", ".join(f"q.{column}" for column in _COLUMNS)},
       CASE WHEN q.kept THEN convert_to(q.content, 'UTF8') END AS content, q.kept
  FROM (SELECT w.*, (w.n = 1 OR w.total <= $1::bigint) AND w.n <= $2::integer AS kept
          FROM (SELECT p.*, row_number() OVER walk AS n, sum({_WEIGHT}) OVER walk AS total
                  FROM ({found}) p
                WINDOW walk AS (ORDER BY p.created_at, p.id COLLATE "C" ROWS UNBOUNDED PRECEDING)) w) q
 ORDER BY q.n"""


def _walks(shape: Shape, columns: str) -> str:
    """The first rows of `wanted.value`."""
    walk = _walk(shape, columns)
    if shape.given[0] != "types":
        return walk
    # No row has both, and where the column is NOT NULL the second walk ends before it begins.
    return f"({walk}) UNION ALL ({_walk(shape, columns, untyped=True)})"


def _walk(shape: Shape, columns: str, *, untyped: bool = False) -> str:
    """The first rows of one value of the leading filter. `untyped`: those whose type is NULL, for the value that stands
    for no type.
    """
    # The index of everything is one of an expression, so that it serves nothing else (migration 0010).
    everything = not shape.given
    time = "(m.created_at AT TIME ZONE 'UTC')" if everything else "m.created_at"
    conditions: list[str] = []
    number = 3

    def bound(operator: str, *, place: bool = False) -> str:
        nonlocal number
        moment = f"(${number}::timestamptz AT TIME ZONE 'UTC')" if everything else f"${number}::timestamptz"
        number += 1
        if not place:
            return f"{time} {operator} {moment}"
        number += 1
        return f'({time}, m.id COLLATE "C") {operator} ({moment}, ${number - 1}::text)'

    for position, name in enumerate(shape.given):
        if position > 0:
            value = "coalesce(m.type, '')" if name == "types" else f"m.{_FILTERS[name]}"
            conditions.append(f"{value} = ANY (${number}::text[])")
        elif untyped:
            conditions.append("wanted.value = '' AND m.type IS NULL")
        else:
            conditions.append(f"m.{_FILTERS[name]} = {'wanted.value' if shape.several else f'${number}::text'}")
        number += 1
    if shape.since:
        conditions.append(bound(">="))
    if shape.until:
        conditions.append(bound("<"))
    if shape.after:
        conditions.append(bound(">", place=True))
    # The planner does not take IS NULL for a constant: named first, the order is still that of the index.
    order = f'{"m.type, " if untyped else ""}{time}, m.id COLLATE "C"'
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {columns} FROM {_TABLE} m {where} ORDER BY {order} LIMIT $2::integer + 1"


async def list_host_messages(pool: asyncpg.Pool, read: HostMessages, most_bytes: int) -> bytes:
    """The page as it goes out: at most as many rows as asked for, and fewer where their bytes reach the cap."""
    query = query_of(read, most_bytes)
    rows = await pool.fetch(query.statement, *query.parameters)
    found = len(rows)
    # The database keeps the first rows: those that it does not, one at most of nearly every page, stand behind them.
    while rows and not rows[-1]["kept"]:
        rows.pop()
    return response_of(rows, has_more=len(rows) < found)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
