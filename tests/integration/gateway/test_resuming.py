"""Going on where a client stopped, on real services (G6)."""

import itertools
from typing import Any

import pytest

from client.connection import Connection
from client.follower import Follower
from client.state import State
from shared.contracts.streams import DEFAULT_PARTITIONS, partition_of
from tests.support.line import Line
from tests.support.plugins import install
from tests.support.socket_client import SocketClient
from tests.support.stack import Stack
from tests.support.waiting import eventually

Json = dict[str, Any]  # Any: what came from the wire

_numbers = itertools.count()


async def new_session(stack: Stack, beside: str | None = None) -> str:
    """A session; `beside`: in the partition of this one, so that their receipts come in the order of the commits."""
    names = (f"resumed{number}" for number in _numbers)
    name = next(
        name
        for name in names
        if beside is None or partition_of(name, DEFAULT_PARTITIONS) == partition_of(beside, DEFAULT_PARTITIONS)
    )
    await stack.session(name)
    return name


async def position(stack: Stack, session_id: str) -> Json:
    """Where the source stands."""
    epoch = await stack.pool.fetchval("SELECT epoch FROM conversation.epoch")
    return {"epoch": epoch, "revision": str(await stack.revision(session_id))}


async def follower(stack: Stack, session_id: str, gateway: str = "gateway") -> SocketClient:
    """A connection with a scope."""
    client = await stack.connect(gateway)
    assert (await client.subscribe(session_id))["success"]
    return client


def ids(frames: list[Json]) -> list[str]:
    """The rows that frames name."""
    return [operation["id"] for frame in frames for operation in frame["operations"]]


def leads(frames: list[Json], revision: str, reached: int) -> bool:
    """Whether frames lead from one revision to another, each beginning where the one before it ends."""
    places = [revision, *(frame["revision"] for frame in frames)]
    return [frame["base_revision"] for frame in frames] == places[:-1] and places[-1] == str(reached)


async def test_a_client_that_was_away_is_told_what_it_missed(shared_stack: Stack) -> None:
    session = await new_session(shared_stack)
    first, watching = await follower(shared_stack, session), await follower(shared_stack, session)
    held = await position(shared_stack, session)
    await first.close()
    for number in range(5):
        await shared_stack.add(session, f"{session}-{number}", author="user" if number % 2 else "agent")
    revision = await shared_stack.revision(session)
    await watching.until(lambda: f"{session}-4" in ids(watching.told()))
    again = await shared_stack.connect()
    for scope, numbers in (("all", range(5)), ("prompts", (1, 3))):
        more: Json = {"authors": ["user"]} if scope == "prompts" else {}
        reply = await again.subscribe(session, scope, resume=held, **more)
        assert (reply["success"], reply["resumed"], reply["revision"]) == (True, True, held["revision"])
        await again.reached(revision, scope)
        assert leads(again.told(scope), held["revision"], revision)
        assert ids(again.told(scope)) == [f"{session}-{number}" for number in numbers]
    await shared_stack.add(session, f"{session}-more")
    await again.reached(revision + 1, "all")
    assert leads(again.told("all"), held["revision"], revision + 1)


async def test_a_session_is_followed_on_when_its_last_client_is_away(shared_stack: Stack) -> None:
    session = await new_session(shared_stack)
    beside = await new_session(shared_stack, session)
    first, marking = await follower(shared_stack, session), await follower(shared_stack, beside)
    held = await position(shared_stack, session)
    await first.close()
    await shared_stack.add(session, f"{session}-missed")
    await shared_stack.add(beside, f"{beside}-mark")
    await marking.until(lambda: ids(marking.told()) == [f"{beside}-mark"])
    again = await shared_stack.connect()
    assert (await again.subscribe(session, resume=held))["resumed"] is True
    await again.until(lambda: ids(again.told()) == [f"{session}-missed"])


async def test_a_plugin_goes_on_too_and_sees_its_own_rows(shared_stack: Stack) -> None:
    await install(shared_stack, "resuming")
    status, body = await shared_stack.call("GET", "/api/plugins/resuming/conversation/binding")
    assert status == 200
    plugin: Json = {"plugin_id": "resuming", "generation": body["generation"], "binding_token": body["bindingToken"]}
    session = await new_session(shared_stack)
    watching = await follower(shared_stack, session)
    held = await position(shared_stack, session)
    await shared_stack.add(session, f"{session}-missed", content="<kandev-system>x</kandev-system>seen")
    await watching.until(lambda: bool(ids(watching.told())))
    client = await shared_stack.connect()
    reply = await client.subscribe(session, consumer_kind="plugin", resume=held, **plugin)
    assert reply["resumed"] is True
    await client.until(lambda: bool(client.told()))
    shown = client.told()[0]["operations"][0]["message"]
    assert (shown["content"], "metadata" in shown) == ("seen", False)
    other: Json = {**plugin, "generation": int(str(body["generation"])) + 1}
    refused = await client.subscribe(session, consumer_kind="plugin", resume=held, **other)
    assert refused["error"]["code"] == "generation_superseded"


async def test_another_gateway_finds_what_was_told_elsewhere(shared_stack: Stack) -> None:
    """Also one that was started after it was told."""
    session = await new_session(shared_stack)
    watching = await follower(shared_stack, session)
    held = await position(shared_stack, session)
    for number in range(3):
        await shared_stack.add(session, f"{session}-{number}")
    revision = await shared_stack.revision(session)
    await watching.reached(revision)
    await shared_stack.start("gateway", name="second")
    await shared_stack.ready("second")
    client = await shared_stack.connect("second")
    reply = await client.subscribe(session, resume=held)
    assert (reply["success"], reply["resumed"], reply["revision"]) == (True, True, held["revision"])
    await client.reached(revision)
    assert leads(client.told(), held["revision"], revision)
    assert ids(client.told()) == [f"{session}-{number}" for number in range(3)]
    await shared_stack.add(session, f"{session}-more")
    await client.reached(revision + 1)
    assert leads(client.told(), held["revision"], revision + 1)
    await shared_stack.stop("second")


async def test_another_gateway_needs_nothing_for_the_newest_revision(shared_stack: Stack) -> None:
    await shared_stack.start("gateway", name="second")
    await shared_stack.ready("second")
    session = await new_session(shared_stack)
    client = await shared_stack.connect("second")
    reply = await client.subscribe(session, resume=await position(shared_stack, session))
    assert (reply["resumed"], reply["revision"]) == (True, str(await shared_stack.revision(session)))
    assert client.told() == []
    await shared_stack.stop("second")


async def test_who_does_not_ask_is_not_told(shared_stack: Stack) -> None:
    client = await shared_stack.connect()
    assert "resumed" not in await client.subscribe(await new_session(shared_stack))


@pytest.mark.parametrize(
    "resume",
    [
        7,
        {},
        {"epoch": "e"},
        {"epoch": "e", "revision": 5},
        {"epoch": "e", "revision": "-1"},
        {"epoch": "e", "revision": "05"},
        {"epoch": "e", "revision": "9" * 20},
        {"epoch": "e", "revision": "9" * 10_000},
        {"epoch": None, "revision": "5"},
    ],
)
async def test_what_is_no_position_is_refused(shared_stack: Stack, resume: object) -> None:
    session = await new_session(shared_stack)
    client = await shared_stack.connect()
    refused = await client.subscribe(session, resume=resume)
    assert (refused["success"], refused["error"]["code"]) == (False, "invalid_request")


@pytest.mark.parametrize("epoch", ["", "elsewhere", "x" * 10_000, "\x00"])
async def test_a_position_that_never_was_is_read_instead(shared_stack: Stack, epoch: str) -> None:
    session = await new_session(shared_stack)
    client = await shared_stack.connect()
    for resume in ({"epoch": epoch, "revision": "0"}, {**await position(shared_stack, session), "revision": "9" * 19}):
        reply = await client.subscribe(session, resume=resume)
        assert (reply["success"], reply["resumed"]) == (True, False)


async def test_what_another_user_may_not_read_is_not_resumed(accounts_stack: Stack, people: Any) -> None:
    stranger = await people.add()
    owner = await people.add()
    await accounts_stack.pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ('mine', $1)", owner.id)
    await accounts_stack.pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ('mine', 'mine')")
    await accounts_stack.session("mine", "mine")
    held = await position(accounts_stack, "mine")
    for person, success in ((owner, True), (stranger, False)):
        client = await accounts_stack.connect(headers=person.bearer)
        reply = await client.subscribe("mine", resume=held)
        assert reply["success"] is success
        assert success or reply["error"]["code"] == "not_found"


async def test_a_hole_refuses_and_a_change_of_tracker_alone_does_not(stack: Stack) -> None:
    """T2: a tracker that takes over leaves the intervals as they are; a commit that none has told is a hole."""
    session = await new_session(stack)
    watching = await follower(stack, session)
    before = await position(stack, session)
    await stack.add(session, "told")
    await watching.until(lambda: ids(watching.told()) == ["told"])
    held = await position(stack, session)
    await stack.stop("revision")
    await stack.start("revision")
    await told(stack, watching, session, "after")
    again = await stack.connect()
    assert (await again.subscribe(session, resume=before))["resumed"] is True
    assert (await again.subscribe(session, resume=held))["resumed"] is True
    await stack.stop("revision")
    await stack.add(session, "lost")
    await stack.start("revision")
    behind = await position(stack, session)
    await told(stack, watching, session, "later")
    assert (await again.subscribe(session, resume=held))["resumed"] is False
    assert (await again.subscribe(session, resume=behind))["resumed"] is True


async def told(stack: Stack, client: SocketClient, session_id: str, message_id: str) -> None:
    """Waits for a tracker, whose publishing shows by another session's changes, and then for a change's own frame."""
    marks = await new_session(stack)
    marking = await follower(stack, marks)

    async def publishes() -> bool:
        await stack.add(marks, f"{marks}-{next(_numbers)}")
        return bool(marking.told())

    await eventually(publishes)
    await stack.add(session_id, message_id)
    await client.until(lambda: message_id in ids(client.told()))


async def test_another_epoch_is_read(stack: Stack) -> None:
    session = await new_session(stack)
    watching = await follower(stack, session)
    held = await position(stack, session)
    epoch = await stack.pool.fetchval("SELECT conversation.mint_epoch('test')")
    await watching.until(lambda: watching.resets() == 1)
    again = await stack.connect()
    reply = await again.subscribe(session, resume=held)
    assert (reply["resumed"], reply["epoch"], reply["revision"]) == (False, epoch, held["revision"])


async def test_a_follower_that_loses_its_connection_reads_nothing_again(stack: Stack) -> None:
    """client/ asks by itself. Whatever else happens meanwhile, it ends with the source's rows."""
    session = await new_session(stack)
    await stack.add(session, "first")
    watching = await follower(stack, session)
    written = ["first"]

    async def write(count: int) -> int:
        for _ in range(count):
            written.append(f"m{next(_numbers)}")
            await stack.add(session, written[-1])
        return await stack.revision(session)

    def live_at(revision: int) -> Any:
        def met(state: State) -> bool:
            return state.live and state.applied == revision

        return met

    async with (
        Line.to(stack.url) as line,
        Connection(line.url, chance=lambda: 0.1) as connection,
        Follower(connection, session) as following,
    ):
        await following.wait_until(live_at(await stack.revision(session)))
        reads = following.counters.reads
        for number in range(3):
            line.cut()
            await following.wait_until(lambda state: state.status == "disconnected")
            revision = await write(4)
            await watching.until(lambda: written[-1] in ids(watching.told()))
            line.mend()
            await following.wait_until(live_at(revision))
            assert (following.counters.reads, following.counters.resumes) == (reads, number + 1)
        for fault in ("Redis is emptied", "the tracker loses a commit", "an epoch is minted"):
            line.cut()
            await following.wait_until(lambda state: state.status == "disconnected")
            await write(2)
            if fault == "Redis is emptied":
                await stack.redis.flushall()
            elif fault == "the tracker loses a commit":
                await stack.stop("revision")
                await write(1)
                await stack.start("revision")
            else:
                await stack.pool.execute("SELECT conversation.mint_epoch('test')")
            revision = await write(2)
            line.mend()
            await following.wait_until(live_at(revision))
            assert sorted(row.id for row in following.rows()) == sorted(written)
        assert following.counters.repairs > 0
