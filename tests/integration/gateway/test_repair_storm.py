"""Very many clients that lose their connection at once (G8), and who sees what they share."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import asyncpg
import pytest

from client.connection import Connection
from client.follower import Follower
from client.state import Live, State
from services.gateway.source import standings
from services.gateway.source.standings import Standings
from services.reader import answers, checks, pages
from shared.contracts.identity import Identity
from shared.contracts.reads import MessagesPage, RevisionAnswer, RevisionCheck, TurnsPage
from tests.integration.identity.people import People, Person
from tests.support.line import Line
from tests.support.stack import Stack
from tests.support.waiting import eventually

CLIENTS = 200
LOST_CLIENTS, LOST_SESSIONS = 300, 5
ROWS = 20

Counted = list[tuple[str, str, int]]
"""Pages whose rows were read: the session, the kind of page and the revision."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """What the reader of the stack reads in this test. The readers' own function goes on doing its work."""
    reads: Counted = []
    original = pages.page_of

    def noting(read: MessagesPage | TurnsPage, *others: object) -> object:
        page = original(read, *others)  # type: ignore[arg-type] # passed on as they came
        found: Sequence[dict[str, int]] = others[1]  # type: ignore[assignment] # rows of the statement
        reads.append((read.session_id, read.kind, found[0]["revision"]))
        return page

    monkeypatch.setattr(answers, "page_of", noting)
    return reads


def messages(session: str) -> str:
    return f"/api/v1/task-sessions/{session}/messages?limit={ROWS}&sort=desc"


def at_least(revision: int) -> Callable[[State], bool]:
    """Whether a follower shows this revision, or a later one."""
    return lambda state: state.live and (state.applied or 0) >= revision


async def filled(stack: Stack, session: str, task: str = "t") -> None:
    await stack.session(session, task)
    for number in range(ROWS):
        await stack.add(session, f"{session}-{number}", task_id=task)


async def test_all_of_them_read_once_per_revision_and_are_current(shared_stack: Stack, counted: Counted) -> None:
    await filled(shared_stack, "storm")
    connections = [Connection(shared_stack.url) for _ in range(CLIENTS // 20)]
    followers: list[Follower] = []

    async def all_live(revision: int) -> None:
        def current() -> bool:
            return all(
                isinstance(each.state.phase, Live)
                and each.state.held is not None
                and each.state.held.revision >= revision
                for each in followers
            )

        await eventually(lambda: asyncio.sleep(0, current()))

    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(connection.__aenter__())
    try:
        for connection in connections:
            for _ in range(20):
                follower = Follower(connection, "storm")
                followers.append(follower)
                await follower.__aenter__()
        await all_live(await shared_stack.revision("storm"))
        assert len(counted) == len(set(counted)), "no page was read twice at one revision"
        counted.clear()
        await shared_stack.stop("gateway")
        await shared_stack.add("storm", "while they were away")
        await shared_stack.start("gateway", resume_megabytes=0)
        revision = await shared_stack.revision("storm")
        await all_live(revision)
        assert sorted(counted) == [("storm", kind, revision) for kind in ("messages_page", "turns_page")]
    finally:
        for follower in followers:
            await follower.__aexit__(None, None, None)
        for connection in connections:
            await connection.__aexit__(None, None, None)
        await shared_stack.stop("gateway")
        await shared_stack.start("gateway")
        await shared_stack.ready("gateway")


@pytest.mark.parametrize("megabytes", [64, 0], ids=["told from memory", "reading again"])
async def test_what_they_missed_is_read_once_or_not_at_all(
    shared_stack: Stack, counted: Counted, megabytes: int
) -> None:
    """Very many connections, lost together while commits are made."""
    name = f"remembering {megabytes}"
    sessions = [f"lost-{megabytes}-{number}" for number in range(LOST_SESSIONS)]
    for session in sessions:
        await filled(shared_stack, session)
    await shared_stack.start("gateway", name=name, resume_megabytes=megabytes)
    await shared_stack.ready(name)
    watching = await shared_stack.connect(name)
    for session in sessions:
        assert (await watching.subscribe(session, session))["success"]
    async with AsyncExitStack() as stack:
        line = await stack.enter_async_context(Line.to(shared_stack.url_of(name)))
        followers: list[Follower] = []
        for number in range(LOST_CLIENTS):
            connection = await stack.enter_async_context(Connection(line.url))
            session = sessions[number % LOST_SESSIONS]
            followers.append(await stack.enter_async_context(Follower(connection, session)))
        for each in followers:
            await each.wait_until(lambda state: state.live)
        line.cut()
        for each in followers:
            await each.wait_until(lambda state: state.status == "disconnected")
        counted.clear()
        revisions = {}
        for session in sessions:
            await shared_stack.add(session, f"{session}-missed")
            revisions[session] = await shared_stack.revision(session)
            await watching.reached(revisions[session], session)
        line.mend()
        for each in followers:
            least = revisions[each.state.scope.session_id]
            state = await each.wait_until(at_least(least))
            assert state.applied == least
        if megabytes:
            assert counted == []
            assert [each.counters.resumes for each in followers] == [1] * LOST_CLIENTS
        else:
            kinds = ("messages_page", "turns_page")
            assert sorted(counted) == [(session, kind, revisions[session]) for session in sessions for kind in kinds]
    await watching.close()
    await shared_stack.stop(name)


async def test_a_commit_amid_a_storm_is_in_every_later_page(shared_stack: Stack) -> None:
    """Whatever is shared, no answer is older than what had been committed before it was asked for."""
    await filled(shared_stack, "amid")

    async def reading(times: int) -> None:
        for _ in range(times):
            least = await shared_stack.revision("amid")
            status, body = await shared_stack.call("GET", messages("amid"))
            assert status == 200
            assert int(str(body["revision"])) >= least

    async def writing() -> None:
        for number in range(50):
            await shared_stack.add("amid", f"amid-new-{number}")

    async with asyncio.TaskGroup() as group:
        group.create_task(writing())
        for _ in range(20):
            group.create_task(reading(20))


class Looks:
    """The looks at sessions that the stack's reader carries out, periodic checks apart. The first of them is held back
    until as many callers have asked as are expected.
    """

    def __init__(self, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.carried_out: list[RevisionCheck] = []
        self.asked = 0
        self._expected = expected
        self._all_asked = asyncio.Event()
        self._check = checks.check_revisions
        original = Standings.look

        async def counting(place: Standings, identity: Identity, session_id: str) -> RevisionAnswer:
            self.asked += 1
            if self.asked == self._expected:
                self._all_asked.set()
            return await original(place, identity, session_id)

        monkeypatch.setattr(standings, "MOMENT_SECONDS", 3600.0)
        monkeypatch.setattr(Standings, "look", counting)
        monkeypatch.setattr(answers, "check_revisions", self._holding)

    async def _holding(self, pool: asyncpg.Pool, check: RevisionCheck) -> tuple[checks.Checked, RevisionAnswer]:
        if check.as_found:
            self.carried_out.append(check)
            await self._all_asked.wait()
        return await self._check(pool, check)


async def test_all_subscriptions_of_a_moment_are_one_look(shared_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more was under way: it had begun before they asked, and so it serves none of them (G1)."""
    sessions = [f"looked-at-{number}" for number in range(20)]
    for session in sessions:
        await filled(shared_stack, session)
    clients = [await shared_stack.connect() for _ in range(10)]
    looks = Looks(1 + len(clients) * len(sessions), monkeypatch)
    first = asyncio.create_task((await shared_stack.connect()).subscribe(sessions[0]))
    await eventually(lambda: asyncio.sleep(0, len(looks.carried_out) == 1))
    replies = asyncio.gather(
        *(client.subscribe(session, f"scope of {session}") for client in clients for session in sessions)
    )
    expected = {session: str(await shared_stack.revision(session)) for session in sessions}
    for reply in (await first, *await replies):
        assert (reply["success"], reply["revision"]) == (True, expected[reply["session_id"]])
    assert [sorted(check.sessions) for check in looks.carried_out] == [[sessions[0]], sorted(sessions)]
    for client in clients:
        await client.close()


class TestAccess:
    async def test_subscriptions_of_a_moment_are_each_decided(
        self, accounts_stack: Stack, people: People, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        owner, member, stranger = [await people.add() for _ in range(3)]
        await self._room(accounts_stack, "seen", owner, member)
        clients = [await accounts_stack.connect(headers=each.bearer) for each in (owner, member, stranger) * 10]
        # The stranger's question goes on to the primary where a replica answers; here the primary has answered.
        looks = Looks(1 + len(clients), monkeypatch)
        first = asyncio.create_task((await accounts_stack.connect(headers=owner.bearer)).subscribe("seen-session"))
        await eventually(lambda: asyncio.sleep(0, len(looks.carried_out) == 1))
        replies = await asyncio.gather(*(client.subscribe("seen-session") for client in clients))
        assert (await first)["success"]
        assert [reply["success"] for reply in replies] == [True, True, False] * 10
        absent = await clients[2].subscribe("nothing-like-it")
        assert {reply["error"]["message"] for reply in (*replies[2::3], absent)} == {"session not found"}
        assert {reply["error"]["code"] for reply in (*replies[2::3], absent)} == {"not_found"}
        assert len(looks.carried_out) == 3
        for client in clients:
            await client.close()

    async def test_each_is_decided_however_many_share(self, accounts_stack: Stack, people: People) -> None:
        owner, member, stranger = [await people.add() for _ in range(3)]
        await self._room(accounts_stack, "shared", owner, member)

        async def status(person: Person) -> tuple[str, int]:
            found, body = await accounts_stack.call("GET", messages("shared-session"), headers=person.bearer)
            assert ("messages" in body) == (found == 200)
            return person.id, found

        for _ in range(3):
            asked = [status(person) for person in (owner, stranger, member) for _ in range(15)]
            assert set(await asyncio.gather(*asked)) == {(owner.id, 200), (member.id, 200), (stranger.id, 404)}

    async def test_a_page_that_was_just_read_is_not_shown_to_somebody_who_lost_access(
        self, accounts_stack: Stack, people: People
    ) -> None:
        owner, member = [await people.add() for _ in range(2)]
        await self._room(accounts_stack, "lost", owner, member)

        async def ask(person: Person) -> int:
            found, _ = await accounts_stack.call("GET", messages("lost-session"), headers=person.bearer)
            return found

        assert await asyncio.gather(*(ask(person) for person in (owner, member) * 10)) == [200] * 20
        await accounts_stack.pool.execute("DELETE FROM workspace_members WHERE user_id = $1", member.id)
        found = await asyncio.gather(*(ask(person) for person in (owner, member) * 10))
        assert found == [200, 404] * 10

    async def _room(self, stack: Stack, name: str, owner: Person, member: Person) -> None:
        await stack.pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ($1, $2)", name, owner.id)
        await stack.pool.execute(
            "INSERT INTO workspace_members (workspace_id, user_id) VALUES ($1, $2)", name, member.id
        )
        await stack.pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, $2)", f"{name}-task", name)
        await filled(stack, f"{name}-session", f"{name}-task")
