"""What writers do to a handful of sessions: statements of every kind, transactions of them, and commands."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import asyncpg

from client.writers import NewMessage, Unreachable, WriteRefused, Writers

LARGE = 100_000
"""Characters of a large content: stored out of line, so that the log leaves it out of an update of other columns."""


@dataclass(slots=True)
class Place:
    """The tasks and sessions of one run. `endangered`: a statement may have deleted a session or made it anew."""

    name: str
    endangered: bool = False
    outcomes: Counter[str] = field(default_factory=Counter)
    _ids: "count[int]" = field(default_factory=count)

    @property
    def tasks(self) -> tuple[str, str]:
        return f"{self.name}-t1", f"{self.name}-t2"

    @property
    def sessions(self) -> tuple[str, str, str]:
        return f"{self.name}-a", f"{self.name}-b", f"{self.name}-c"

    def new_id(self) -> str:
        return f"{self.name}-{next(self._ids):04d}"

    async def make(self, executor: "asyncpg.Connection | asyncpg.Pool") -> None:
        """Makes what is not there: every session belongs to the first task but the last one."""
        await executor.execute(*rebuilt(self))


class Draw:
    """What one step is about, drawn by its number."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self.place, self.chance = place, chance
        self.session, self.other = chance.sample(place.sessions, 2)
        self.task = chance.choice(place.tasks)
        self.author = chance.choice(("user", "agent"))
        self.salt = str(chance.random())
        self.few = chance.choice((1, 1, 2, 5))

    def id(self) -> str:
        return self.place.new_id()

    def text(self) -> str:
        return f"text {self.chance.random()} é\u2028😀"

    def metadata(self) -> str:
        return self.chance.choice(
            ("", "null", "{}", "[1]", json.dumps({"n": self.chance.random(), "o": {"p": [None]}}))
        )


Statement = tuple[object, ...]
"""SQL, then its parameters."""

INSERT = "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, metadata)"
SOME = "(SELECT id FROM task_session_messages WHERE task_session_id = $1 ORDER BY md5(id || $2) LIMIT $3)"
SOME_TURNS = SOME.replace("task_session_messages", "task_session_turns")


def rebuilt(place: Place) -> Statement:
    """Makes the tasks and sessions that are not there."""
    sql = """
    WITH w AS (INSERT INTO workspaces (id) VALUES ('w') ON CONFLICT DO NOTHING),
         t AS (INSERT INTO tasks (id, workspace_id) SELECT id, 'w' FROM unnest($1::text[]) id ON CONFLICT DO NOTHING)
    INSERT INTO task_sessions (id, task_id)
    SELECT id, ($1::text[])[1 + (place > 2)::int] FROM unnest($2::text[]) WITH ORDINALITY AS s (id, place)
    ON CONFLICT DO NOTHING
    """
    return sql, list(place.tasks), list(place.sessions)


PLAIN: Mapping[str, Callable[[Draw], Statement]] = {
    "message": lambda d: (
        f"{INSERT} VALUES ($1, $2, $3, $4, $5, $6)",
        *(d.id(), d.session, d.task, d.author, d.text(), d.metadata()),
    ),
    "prompt": lambda d: (f"{INSERT} VALUES ($1, $2, $3, 'user', $4, '')", d.id(), d.session, d.task, d.text()),
    "prompt at its time": lambda d: (
        """INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at, updated_at)
           VALUES ($1, $2, $3, 'user', clock_timestamp() + interval '1 ms', '2001-01-01')""",
        *(d.id(), d.session, d.task),
    ),
    "old reply": lambda d: (
        """INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at)
           VALUES ($1, $2, $3, 'agent', '2020-01-01Z'::timestamptz + $4 * interval '1 s')""",
        *(d.id(), d.session, d.task, d.chance.randrange(9)),
    ),
    "several rows": lambda d: (
        f"{INSERT} SELECT id, $2, $3, $4, 'one of several', '{{}}' FROM unnest($1::text[]) id",
        *([d.id() for _ in range(d.chance.choice((2, 7, 40)))], d.session, d.task, d.author),
    ),
    "several sessions": lambda d: (
        f"{INSERT} SELECT i, s, $3, $4, 'one of several', '{{}}' FROM unnest($1::text[], $2::text[]) r (i, s)",
        *([d.id() for _ in d.place.sessions], list(d.place.sessions), d.task, d.author),
    ),
    "too many rows": lambda d: (
        f"{INSERT} SELECT id, $2, $3, 'agent', 'one of many', '{{}}' FROM unnest($1::text[]) id",
        *([d.id() for _ in range(300)], d.session, d.task),
    ),
    "large": lambda d: (
        f"{INSERT} VALUES ($1, $2, $3, $4, $5, '{{}}')",
        *(d.id(), d.session, d.task, d.author, "".join(d.chance.choices("abcdefgh ", k=LARGE))),
    ),
    "copies": lambda d: (
        f"{INSERT} SELECT id || $2, task_session_id, task_id, author_type, content, metadata "
        f"FROM task_session_messages WHERE id IN {SOME}",
        *(d.session, d.id(), d.few),
    ),
    "content": lambda d: (
        f"UPDATE task_session_messages SET content = content || $4, updated_at = clock_timestamp() WHERE id IN {SOME}",
        *(d.session, d.salt, d.few, d.text()),
    ),
    "enlarged": lambda d: (
        f"UPDATE task_session_messages SET content = repeat($4, 5000) WHERE id IN {SOME}",
        *(d.session, d.salt, 1, d.salt),
    ),
    "metadata": lambda d: (
        f"UPDATE task_session_messages SET metadata = $4, type = $5 WHERE id IN {SOME}",
        *(d.session, d.salt, d.few, d.metadata(), d.chance.choice(("message", "status", "tool_call"))),
    ),
    "metadata of large ones": lambda d: (
        "UPDATE task_session_messages SET metadata = $2, requests_input = NOT requests_input "
        "WHERE task_session_id = $1 AND length(content) > 20000",
        *(d.session, d.metadata()),
    ),
    "all of a session": lambda d: (
        "UPDATE task_session_messages SET type = $2, turn_id = $3 WHERE task_session_id = $1",
        *(d.session, d.chance.choice(("message", "status")), d.id()),
    ),
    "nothing new": lambda d: (f"UPDATE task_session_messages SET type = type WHERE id IN {SOME}", d.session, d.salt, 2),
    "author": lambda d: (
        f"UPDATE task_session_messages SET author_type = $4, author_id = 'x' WHERE id IN {SOME}",
        *(d.session, d.salt, d.few, d.author),
    ),
    "task": lambda d: (
        f"UPDATE task_session_messages SET task_id = $4 WHERE id IN {SOME}",
        *(d.session, d.salt, d.few, d.task),
    ),
    "moved": lambda d: (
        f"UPDATE task_session_messages SET task_session_id = $4 WHERE id IN {SOME}",
        *(d.session, d.salt, d.few, d.other),
    ),
    "moved with its task": lambda d: (
        f"UPDATE task_session_messages SET task_session_id = $4, task_id = $5, content = 'moved' WHERE id IN {SOME}",
        *(d.session, d.salt, d.few, d.other, d.task),
    ),
    "another time": lambda d: (
        "UPDATE task_session_messages SET created_at = created_at - $4 * interval '1 s' "
        f"WHERE author_type = 'agent' AND id IN {SOME}",
        *(d.session, d.salt, d.few, d.chance.randrange(-1, 4)),
    ),
    "another id": lambda d: (
        f"UPDATE task_session_messages SET id = $4 WHERE id IN {SOME}",
        *(d.session, d.salt, 1, d.id()),
    ),
    "deleted": lambda d: (f"DELETE FROM task_session_messages WHERE id IN {SOME}", d.session, d.salt, d.few),
    "deleted by author": lambda d: (
        "DELETE FROM task_session_messages WHERE task_session_id = $1 AND author_type = $2",
        *(d.session, d.author),
    ),
    "merge": lambda d: (
        """MERGE INTO task_session_messages m
           USING (SELECT * FROM unnest($4::text[]) AS i (id)
                  UNION ALL (SELECT id FROM task_session_messages WHERE task_session_id = $1 ORDER BY md5(id || $2)
                             LIMIT 4)) s ON m.id = s.id
            WHEN MATCHED AND right(s.id, 1) < '4' THEN DELETE
            WHEN MATCHED THEN UPDATE SET content = 'merged', task_id = $3
            WHEN NOT MATCHED THEN INSERT (id, task_session_id, task_id, author_type, content)
                                  VALUES (s.id, $1, $3, 'user', 'merged')""",
        *(d.session, d.salt, d.task, [d.id(), d.id()]),
    ),
    "on conflict": lambda d: (
        f"""{INSERT} SELECT id, $1, $4, 'user', 'in conflict', '{{}}'
             FROM (SELECT $3 AS id UNION ALL (SELECT id FROM task_session_messages WHERE task_session_id = $1
                   ORDER BY md5(id || $2) LIMIT 2)) i
             ON CONFLICT (id) DO UPDATE SET content = excluded.content""",
        *(d.session, d.salt, d.id(), d.task),
    ),
    "turn": lambda d: (
        "INSERT INTO task_session_turns (id, task_session_id, task_id, metadata) VALUES ($1, $2, $3, $4)",
        *(d.id(), d.session, d.task, d.metadata()),
    ),
    "turns": lambda d: (
        """INSERT INTO task_session_turns (id, task_session_id, task_id, started_at)
           SELECT id, $2, $3, '2020-01-01Z'::timestamptz FROM unnest($1::text[]) id""",
        *([d.id() for _ in range(d.few)], d.session, d.task),
    ),
    "turn completed": lambda d: (
        "UPDATE task_session_turns SET completed_at = clock_timestamp(), route_generation = 7 "
        f"WHERE id IN {SOME_TURNS}",
        *(d.session, d.salt, d.few),
    ),
    "turn changed": lambda d: (
        "UPDATE task_session_turns SET started_at = started_at + interval '1 us', task_id = $4 "
        f"WHERE id IN {SOME_TURNS}",
        *(d.session, d.salt, d.few, d.task),
    ),
    "turn moved": lambda d: (
        f"UPDATE task_session_turns SET task_session_id = $4 WHERE id IN {SOME_TURNS}",
        *(d.session, d.salt, d.few, d.other),
    ),
    "turn deleted": lambda d: (f"DELETE FROM task_session_turns WHERE id IN {SOME_TURNS}", d.session, d.salt, d.few),
}

ENDING: Mapping[str, Callable[[Draw], Statement]] = {
    "session deleted": lambda d: ("DELETE FROM task_sessions WHERE id = $1", d.session),
    "task deleted": lambda d: ("DELETE FROM tasks WHERE id = $1", d.task),
    "sessions truncated": lambda d: ("TRUNCATE task_sessions CASCADE",),
    "sessions made": lambda d: rebuilt(d.place),
}
"""After these a session may be gone, or be another one of the same id."""

SWEEPING: Mapping[str, Callable[[Draw], Statement]] = {
    "messages truncated": lambda d: ("TRUNCATE task_session_messages",),
    "turns truncated": lambda d: ("TRUNCATE task_session_turns",),
    "both truncated": lambda d: ("TRUNCATE task_session_messages, task_session_turns",),
    "revisions truncated": lambda d: ("TRUNCATE conversation_session_revisions",),
    "revision rows deleted": lambda d: ("DELETE FROM conversation_session_revisions WHERE session_id = $1", d.session),
}

Act = Callable[["Writer", Draw], Awaitable[None]]


async def _copied(writer: "Writer", d: Draw) -> None:
    columns = ["id", "task_session_id", "task_id", "author_type", "content"]
    rows = [(d.id(), d.chance.choice((d.session, d.other)), d.task, d.author, d.text()) for _ in range(12)]
    await writer.connection.copy_records_to_table("task_session_messages", records=rows, columns=columns)


async def _transaction(writer: "Writer", d: Draw) -> None:
    """Several statements, some in savepoints, of which some are rolled back, or all of them are."""
    outer = writer.connection.transaction()
    await outer.start()
    try:
        for name in d.chance.choices(list(PLAIN), k=d.chance.randint(2, 5)):
            inner = Draw(d.place, d.chance)
            savepoint = writer.connection.transaction() if d.chance.random() < 0.4 else None
            if savepoint is not None:
                await savepoint.start()
            await writer.connection.execute(*PLAIN[name](inner))
            if savepoint is not None:
                await (savepoint.rollback() if d.chance.random() < 0.5 else savepoint.commit())
    except BaseException:
        with suppress(*BROKEN):
            await outer.rollback()
        raise
    await (outer.rollback() if d.chance.random() < 0.2 else outer.commit())


async def _remade(writer: "Writer", d: Draw) -> None:
    """A session deleted and made again, with a message, in one transaction."""
    async with writer.connection.transaction():
        await writer.connection.execute(*ENDING["session deleted"](d))
        await writer.connection.execute(*rebuilt(d.place))
        await writer.connection.execute(*PLAIN["message"](d))


async def _make_command(writer: "Writer", d: Draw) -> None:
    message = d.id()
    created = NewMessage(message, d.author, "", "message")
    await writer.commands.create_message(d.session, created)
    length = 0
    for _ in range(d.few):
        text = d.text()
        await writer.commands.append(d.session, message, length, text)
        length += len(text)


async def _change_command(writer: "Writer", d: Draw) -> None:
    message = d.id()
    made = await writer.commands.create_message(d.session, NewMessage(message, d.author, d.text()))
    changes = {"content": d.text(), "metadata": {"n": 1}}
    await writer.commands.update_message(d.session, message, changes, expected_revision=made.revision)
    if d.chance.random() < 0.5:
        await writer.commands.delete_message(d.session, message)


async def _turn_command(writer: "Writer", d: Draw) -> None:
    turn = d.id()
    await writer.commands.start_turn(d.session, turn)
    await writer.commands.complete_turn(d.session, turn)


async def _end_command(writer: "Writer", d: Draw) -> None:
    await writer.commands.delete_session(d.session)
    if d.chance.random() < 0.7:
        await writer.commands.create_session(d.session, d.task)


ACTS: Mapping[str, Act] = {
    "copy": _copied,
    "transaction": _transaction,
    "append command": _make_command,
    "change command": _change_command,
    "turn command": _turn_command,
}
ENDING_ACTS: Mapping[str, Act] = {"session remade": _remade, "session command": _end_command}

GENTLE = (*PLAIN, *ACTS, *ACTS)
"""Steps after which every session is still the same one; acts do more at once, so they come up twice as often."""
HARSH = (*ENDING, *ENDING_ACTS, *SWEEPING)

REFUSED = asyncpg.IntegrityConstraintViolationError
"""A session or id that is gone, or there already: an answer like any other."""
NOT_LATER = "KC001"
"""State of a refused prompt whose explicit time another one has passed meanwhile."""
BROKEN = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
BROKEN_TOO = (asyncpg.OperatorInterventionError, asyncpg.CannotConnectNowError)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `number` decides everything about it that its name leaves open."""

    name: str
    number: int


class Writer:
    """One connection that goes through its steps, whatever happens to the server meanwhile."""

    def __init__(self, url: str, commands: Writers, place: Place) -> None:
        self.commands = commands
        self.connection: asyncpg.Connection
        self._url = url
        self._place = place

    async def run(self, steps: Sequence[Step], done: Callable[[], None]) -> None:
        """Takes each step once; what the server refuses is noted, and nothing else is let pass."""
        self.connection = await self._connect()
        try:
            for step in steps:
                if self.connection.is_closed():
                    self.connection = await self._connect()
                self._place.outcomes[await self._take(step)] += 1
                done()
        finally:
            self.connection.terminate()

    async def _take(self, step: Step) -> str:
        draw = Draw(self._place, random.Random(step.number))
        if step.name in ENDING or step.name in ENDING_ACTS:
            self._place.endangered = True
        try:
            await self._do(step.name, draw)
        except WriteRefused as refused:
            return f"{step.name}: {refused.code}"
        except Unreachable:
            return "command: unreachable"
        except asyncpg.DeadlockDetectedError:
            return f"deadlock: {step.name}"
        except (*BROKEN, *BROKEN_TOO):
            self.connection.terminate()
            return "connection lost"
        except asyncpg.PostgresError as error:
            if isinstance(error, REFUSED) or error.sqlstate == NOT_LATER:
                return "refused by the source"
            raise
        return "done"

    async def _do(self, name: str, draw: Draw) -> None:
        act = ACTS.get(name) or ENDING_ACTS.get(name)
        if act is not None:
            await act(self, draw)
            return
        statement = PLAIN.get(name) or ENDING.get(name) or SWEEPING[name]
        await self.connection.execute(*statement(draw))

    async def _connect(self) -> asyncpg.Connection:
        while True:
            try:
                return await asyncpg.connect(self._url)
            except (*BROKEN, *BROKEN_TOO, TimeoutError):
                await asyncio.sleep(0.05)
