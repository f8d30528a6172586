"""Pages of messages and turns: one statement that gives the snapshot's head and the rows.

Rows are ordered by (time, id), and the same key stands in the predicate and in the order: rows of one microsecond are
never split wrongly. A page walks away from its position in one direction ("scan"), and is returned in the order asked
for. Around a row it walks in both.

The byte cap is kept twice. The database adds up the sizes of the rows that it walks and withholds the text of the
first row that no longer fits, which stays as the mark of more to come; so neither the connection nor this process ever
holds more than a page. Of these rows a page has as many as fit in the cap as they are encoded: a control character is
one byte in the source and six in JSON.
"""

# ruff: noqa: S608 - statements are put together from the literals of this module; every value is a parameter

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from services.reader.rows import Columns, EncodedRow, message_row, turn_row
from services.reader.snapshot import HEAD
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import MAX_PAGE_BYTES, After, Around, Before, Keyset, MessagesPage, TurnsPage

ROW_BYTES = 512
"""What a row weighs besides its content and metadata: its ids, times and field names as JSON, rounded up."""

MOST_ROWS = MAX_PAGE_BYTES // ROW_BYTES
"""A page without a limit cannot have more rows than this before its bytes end it: bounds the walk."""

Entity = Literal["messages", "turns"]
Author = Literal["user", "agent"]
Place = Literal["edge", "keyset", "row", "around"]

_AUTHORED: dict[Author, str] = {"user": "= 'user'", "agent": "<> 'user'"}
"""As `shared.contracts.rows.author_of`. The first is the predicate of the prompts' index."""

_MESSAGE_TEXTS = ("content", "metadata")
_MESSAGE_COLUMNS = (
    *("id", "task_id", "turn_id", "author_type", "author_id", "requests_input", "type"),
    *("created_at", "updated_at", "prompt_seq"),
)
_TURN_COLUMNS = (
    *("id", "task_id", "started_at", "completed_at", "execution_profile_id", "route_generation"),
    *("created_at", "updated_at"),
)


@dataclass(frozen=True, slots=True)
class Table:
    """What a page needs to know of its table. A row is `columns` and `texts`; beyond the cap `texts` are withheld.
    `encode`: a row as it is told, of a session.
    """

    name: str
    time: str
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    encode: Callable[[Columns, str], EncodedRow]


TABLES: dict[Entity, Table] = {
    "messages": Table("public.task_session_messages", "created_at", _MESSAGE_COLUMNS, _MESSAGE_TEXTS, message_row),
    "turns": Table("public.task_session_turns", "started_at", _TURN_COLUMNS, ("metadata",), turn_row),
}


ORDER_ID = '{}.id COLLATE "C"'
"""Ids in the order of their bytes, which every client can compute; a database's own collation differs from server to
server. The keyset indexes are made in this order.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a page's query decides its statement's text; everything else is a parameter.

    `newer`: the walk leads to newer rows (around a row: unused, it leads both ways). `by_task`: rows of one task only.
    `author` stands in the text, because only then is the index of the prompts usable.
    """

    entity: Entity
    place: Place
    newer: bool
    by_task: bool
    author: Author | None


@dataclass(frozen=True, slots=True)
class Query:
    """A page's statement with its parameters. Without a page in it the head is still there: one row, `n` null."""

    shape: Shape
    statement: str
    parameters: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of a page, encoded, in the order asked for, and what lies beyond its edges.

    `has_older`, `has_newer`: further rows beyond that edge. At the edge where a page was entered by a position nothing
    is looked up, and `True` says that rows may be there. `end`: keyset position of the last row.
    """

    rows: tuple[EncodedRow, ...]
    has_more: bool
    has_older: bool
    has_newer: bool
    end: Keyset | None


def query_of(read: MessagesPage | TurnsPage, most_bytes: int = MAX_PAGE_BYTES) -> Query:
    """The query of a page. Raises `invalid_cursor` for a position that cannot be one."""
    shape = shape_of(read)
    rows = MOST_ROWS if read.limit is None else read.limit
    parameters: list[object] = [read.session_id, read.identity.user, read.identity.unscoped]
    match read.position:
        case None:
            parameters += [most_bytes, rows]
        case Around(row=row):
            # Half of the bytes for each side; the row itself is the first of the newer one.
            parameters += [most_bytes // 2, rows // 2, row, rows - rows // 2]
        case Before(row=Keyset() as keyset) | After(row=Keyset() as keyset):
            parameters += [most_bytes, rows, keyset.time, keyset.id]
        case Before(row=str(row)) | After(row=str(row)):
            parameters += [most_bytes, rows, row]
    if shape.by_task:
        parameters.append(read.task_id)
    return Query(shape, statement_of(shape), tuple(parameters))


def shape_of(read: MessagesPage | TurnsPage) -> Shape:
    """The shape of a page's statement."""
    entity: Entity = "messages" if isinstance(read, MessagesPage) else "turns"
    authors = set(read.authors) if isinstance(read, MessagesPage) else set()
    # There is no third author: a filter for both is none.
    author = authors.pop() if len(authors) == 1 else None
    place: Place = "edge"
    newer = read.sort == "asc"
    match read.position:
        case Around():
            place, newer = "around", True
        case Before(row=row):
            place, newer = ("row" if isinstance(row, str) else "keyset"), False
        case After(row=row):
            place, newer = ("row" if isinstance(row, str) else "keyset"), True
    return Shape(entity, place, newer, read.task_id is not None, author)


@cache  # bounded by the number of shapes: 64
def statement_of(shape: Shape) -> str:
    """The statement of a shape.

    $1 session, $2 user, $3 unscoped, $4 bytes, $5 rows, then keyset ($6 time, $7 id), or row ($6), or row and the newer
    side's rows ($6, $7), then the task.
    """
    table = TABLES[shape.entity]
    task = {"edge": 6, "keyset": 8, "row": 7, "around": 8}[shape.place]
    # As an equality it would let the planner walk the task's index, through every row of the task's other sessions.
    filters = [f"m.task_id IS NOT DISTINCT FROM ${task}::text"] if shape.by_task else []
    if shape.author is not None:
        filters.append(f"m.author_type {_AUTHORED[shape.author]}")
    edge, source, found = "", "head", "true"
    if shape.place in {"row", "around"}:
        # By primary key.
        edge = f""",
edge AS MATERIALIZED (
    SELECT m.{table.time} AS time, m.id FROM {table.name} m WHERE m.id = $6::text AND m.task_session_id = $1
)"""
        source, found = "head LEFT JOIN edge ON true", "edge.id IS NOT NULL"
    key = "($6::timestamptz, $7::text)" if shape.place == "keyset" else "(edge.time, edge.id)"
    if shape.place == "around":
        older = _side(table, filters, f"< {key}", 5, newer=False, first_always=False)
        sides = [older, _side(table, filters, f">= {key}", 7, newer=True)]
    else:
        bound = "" if shape.place == "edge" else f"{'>' if shape.newer else '<'} {key}"
        sides = [_side(table, filters, bound, 5, newer=shape.newer)]
    page = "\nUNION ALL\n".join(f"({side})" for side in sides)
    return f"""
WITH {HEAD}{edge}
SELECT head.*, {found} AS edge_found, page.*
  FROM {source} LEFT JOIN LATERAL (
{page}
) page ON true"""


def _side(
    table: Table, filters: Sequence[str], bound: str, rows: int, *, newer: bool, first_always: bool = True
) -> str:
    """One walk along (task_session_id, time, id): in `task_session_messages_keyset`, for prompts in
    `task_session_messages_prompt_keyset`, for turns in `task_session_turns_keyset`.

    `n` counts from 1. The row behind the last one kept comes too, without its texts. `first_always`: the first row is
    kept whatever its size.
    """
    direction = "ASC" if newer else "DESC"
    predicates = ["m.task_session_id = $1", "head.session_id IS NOT NULL", *filters]
    if bound:
        predicates.append(f"(m.{table.time}, {ORDER_ID.format('m')}) {bound}")
    weight = " + ".join(f"coalesce(octet_length(m.{text}), 0)" for text in table.texts)
    fits = "w.n = 1 OR w.total <= $4::bigint" if first_always else "w.total <= $4::bigint"
    columns = ", ".join(f"q.{column}" for column in table.columns)
    texts = ", ".join(f"CASE WHEN q.kept THEN q.{text} END AS {text}" for text in table.texts)
    chosen = ", ".join(f"m.{column}" for column in (*table.columns, *table.texts))
    return f"""
SELECT {"true" if newer else "false"} AS newer, q.n, q.kept, {columns}, {texts}
  FROM (SELECT w.*, ({fits}) AND w.n <= ${rows}::integer AS kept
          FROM (SELECT p.*, row_number() OVER walk AS n, sum(p.weight) OVER walk AS total
                  FROM (SELECT {chosen}, {weight} + {ROW_BYTES} AS weight
                          FROM {table.name} m
                         WHERE {" AND ".join(predicates)}
                         ORDER BY m.{table.time} {direction}, {ORDER_ID.format("m")} {direction}
                         LIMIT ${rows}::integer + 1) p
                WINDOW walk AS (ORDER BY p.{table.time} {direction}, {ORDER_ID.format("p")} {direction}
                                ROWS UNBOUNDED PRECEDING)) w
         WHERE w.n <= 2 OR w.total - w.weight <= $4::bigint) q"""


def page_of(
    read: MessagesPage | TurnsPage, shape: Shape, found: Sequence[Columns], most_bytes: int = MAX_PAGE_BYTES
) -> Page:
    """The page that the statement's rows make. Raises `invalid_cursor`, or around a row `not_found`, when the row that
    the page is placed by is not of the session.
    """
    if not found[0]["edge_found"]:
        if shape.place == "around":
            raise RequestFailed("not_found", "message not found in this task session")
        raise RequestFailed("invalid_cursor", "invalid cursor")
    around = shape.place == "around"
    room = most_bytes // 2 if around else most_bytes
    table = TABLES[shape.entity]
    older = _kept(table, read.session_id, found, room, newer=False, first_always=not around)
    newer = _kept(table, read.session_id, found, room, newer=True)
    has_older, has_newer = older.more, newer.more
    if shape.place in {"keyset", "row"}:
        has_older, has_newer = (True, newer.more) if shape.newer else (older.more, True)
    rows = [*reversed(older.rows), *newer.rows]
    if read.sort == "desc":
        rows.reverse()
    end = Keyset(time=rows[-1][0][table.time], id=rows[-1][0]["id"]) if rows else None
    return Page(tuple(encoded for _, encoded in rows), older.more or newer.more, has_older, has_newer, end)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The rows of one walk that are in the page, in its order, and whether it leads on."""

    rows: list[tuple[Columns, EncodedRow]]
    more: bool


def _kept(
    table: Table, session_id: str, found: Sequence[Columns], room: int, *, newer: bool, first_always: bool = True
) -> _Kept:
    walked = sorted((row for row in found if row["n"] is not None and row["newer"] is newer), key=_place)
    kept: list[tuple[Columns, EncodedRow]] = []
    for row in walked:
        if not row["kept"]:
            break
        encoded = table.encode(row, session_id)
        room -= encoded.weight
        if room < 0 and (kept or not first_always):
            break
        kept.append((row, encoded))
    return _Kept(kept, len(kept) < len(walked))


def _place(row: Columns) -> int:
    place: int = row["n"]
    return place
