"""Every pair of commands and plain statements at once: nobody meets a deadlock, and afterwards followers are right.

Commands go through gateways and come back to them; statements are single ones, as any other writer sends them.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import asyncpg
import pytest

from client.writers import NewMessage, WriteRefused, Writers
from deploy.local.ports import Ports
from tests.convergence.cluster import Cluster
from tests.convergence.followers import Followers
from tests.convergence.network import Network
from tests.convergence.statements import Place, rebuilt

ROUNDS = 2
"""Of each pair; its two sides start at the same moment."""

ANSWERS = {"not_found", "conflict"}
"""What a command may be told when the other side was first."""

ROWS = """
WITH t AS (INSERT INTO task_session_turns (id, task_session_id, task_id)
           SELECT 'turn-' || s, s, $2 FROM unnest($1::text[]) s ON CONFLICT DO NOTHING)
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content)
SELECT s || n, s, $2, CASE n % 2 WHEN 0 THEN 'user' ELSE 'agent' END, repeat(md5(s), CASE n WHEN 3 THEN 1000 ELSE 1 END)
  FROM unnest($1::text[]) s, generate_series(1, 5) n ORDER BY s, n ON CONFLICT DO NOTHING
"""

REVISION = "SELECT revision FROM conversation_session_revisions WHERE session_id = $1"

MESSAGE = "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type)"


@dataclass(slots=True)
class Ring(Place):
    """`revision`: of the first session before the race, which is what an update expects."""

    revision: int = 0


Statement = Callable[[Ring], tuple[object, ...]]
Command = Callable[[Writers, Ring], Awaitable[object]]

STATEMENTS: Mapping[str, Statement] = {
    "prompt": lambda p: (f"{MESSAGE} VALUES ($1, $2, $3, 'user')", p.new_id(), p.sessions[0], p.tasks[0]),
    "reply": lambda p: (f"{MESSAGE} VALUES ($1, $2, $3, 'agent')", p.new_id(), p.sessions[0], p.tasks[0]),
    "prompts of several sessions": lambda p: (
        f"{MESSAGE} SELECT i, s, $3, 'user' FROM unnest($1::text[], $2::text[]) r (i, s)",
        *([p.new_id() for _ in p.sessions], list(p.sessions), p.tasks[0]),
    ),
    "content": lambda p: ("UPDATE task_session_messages SET content = 'x' WHERE id = $1", f"{p.sessions[0]}1"),
    "metadata of a large one": lambda p: (
        "UPDATE task_session_messages SET metadata = '{\"n\":1}' WHERE id = $1",
        f"{p.sessions[0]}3",
    ),
    "author": lambda p: ("UPDATE task_session_messages SET author_type = 'user' WHERE id = $1", f"{p.sessions[0]}1"),
    "all, in order": lambda p: (
        """UPDATE task_session_messages SET type = 'status'
            WHERE id IN (SELECT id FROM task_session_messages WHERE task_session_id = ANY ($1)
                         ORDER BY id FOR NO KEY UPDATE)""",
        list(p.sessions),
    ),
    "moved": lambda p: (
        "UPDATE task_session_messages SET task_session_id = $2 WHERE id = $1",
        *(f"{p.sessions[0]}2", p.sessions[1]),
    ),
    "deleted": lambda p: ("DELETE FROM task_session_messages WHERE id = $1", f"{p.sessions[0]}4"),
    "turn": lambda p: (
        "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ($1, $2, $3)",
        *(p.new_id(), p.sessions[0], p.tasks[0]),
    ),
    "turn completed": lambda p: (
        "UPDATE task_session_turns SET completed_at = clock_timestamp() WHERE id = $1",
        f"turn-{p.sessions[0]}",
    ),
    "session deleted": lambda p: ("DELETE FROM task_sessions WHERE id = $1", p.sessions[0]),
    "session made": lambda p: (
        "INSERT INTO task_sessions (id, task_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        *(p.sessions[0], p.tasks[0]),
    ),
    "messages truncated": lambda _: ("TRUNCATE task_session_messages",),
    "turns truncated": lambda _: ("TRUNCATE task_session_turns",),
}

COMMANDS: Mapping[str, Command] = {
    "create a prompt": lambda w, p: w.create_message(p.sessions[0], NewMessage(p.new_id(), "user", "hi")),
    "create a reply": lambda w, p: w.create_message(p.sessions[0], NewMessage(p.new_id(), "agent", "hi")),
    "append": lambda w, p: w.append(p.sessions[0], f"{p.sessions[0]}1", 32, "more"),
    "update": lambda w, p: w.update_message(
        p.sessions[0], f"{p.sessions[0]}3", {"metadata": {"n": 2}}, expected_revision=p.revision
    ),
    "delete": lambda w, p: w.delete_message(p.sessions[0], f"{p.sessions[0]}5"),
    "start a turn": lambda w, p: w.start_turn(p.sessions[0], p.new_id()),
    "complete a turn": lambda w, p: w.complete_turn(p.sessions[0], f"turn-{p.sessions[0]}"),
    "create the session": lambda w, p: w.create_session(p.sessions[0], p.tasks[0]),
    "delete the session": lambda w, p: w.delete_session(p.sessions[0]),
    "delete the task": lambda w, p: w.delete_task(p.tasks[0]),
}


@dataclass(frozen=True, slots=True)
class Arena:
    """A followed place, a writer at each gateway, and two connections for statements."""

    cluster: Cluster
    place: Ring
    network: Network
    followers: Followers
    commands: list[Writers]
    connections: list[asyncpg.Connection]

    async def race(self, first: str, second: str) -> None:
        """Both at once, several times, each time with every session and row there."""
        for _ in range(ROUNDS):
            await self.cluster.pool.execute(*rebuilt(self.place))
            await self.cluster.pool.execute(ROWS, list(self.place.sessions), self.place.tasks[0])
            self.place.revision = await self.cluster.pool.fetchval(REVISION, self.place.sessions[0])
            await asyncio.gather(self._do(0, first), self._do(1, second))

    async def settle(self) -> None:
        """Waits until every scope equals the source. Fails for what no scope may have gone through."""
        await self.followers.arrive()
        wrong = [*self.followers.wrong(), *self.network.ledger.violations]
        assert not wrong, "\n".join(wrong[:20])

    async def _do(self, side: int, name: str) -> None:
        try:
            if name in COMMANDS:
                await COMMANDS[name](self.commands[side], self.place)
            else:
                await self.connections[side].execute(*STATEMENTS[name](self.place))
        except WriteRefused as refused:
            if refused.code not in ANSWERS:
                raise
        except asyncpg.ForeignKeyViolationError:
            return


@pytest.fixture
async def arena(cluster: Cluster, ports: Ports, request: pytest.FixtureRequest) -> AsyncIterator[Arena]:
    place = Ring(f"race-{request.node.name}", endangered=True)
    await place.make(cluster.pool)
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(Network(cluster.gateway_urls(), ports, 1))
        commands = [await stack.enter_async_context(Writers(url)) for url in cluster.gateway_urls()]
        connections = []
        for _ in range(2):
            connections.append(await asyncpg.connect(cluster.postgres.url))
            stack.callback(connections[-1].terminate)
        followers = await stack.enter_async_context(Followers(network, cluster.pool, place))
        await followers.arrive()
        yield Arena(cluster, place, network, followers, commands, connections)
    await cluster.pool.execute("DELETE FROM tasks WHERE id = ANY ($1)", list(place.tasks))


async def test_every_pair_of_commands(arena: Arena) -> None:
    for first, second in itertools.combinations_with_replacement(COMMANDS, 2):
        await arena.race(first, second)
    await arena.settle()


async def test_every_command_beside_every_statement(arena: Arena) -> None:
    for first, second in itertools.product(COMMANDS, STATEMENTS):
        await arena.race(first, second)
    await arena.settle()


async def test_every_pair_of_statements(arena: Arena) -> None:
    for first, second in itertools.combinations_with_replacement(STATEMENTS, 2):
        await arena.race(first, second)
    await arena.settle()
