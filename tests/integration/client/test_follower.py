"""The driver over real sockets: what the pure consumer asks for is done, and what happens reaches it."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from client.connection import SIGNED_OUT, Connection, ConnectionFailed
from client.events import CloseReason
from client.follower import Follower, ScopeClosed
from client.range import Filter, RowChange
from client.state import State
from shared.contracts.wire import CoreMessage
from tests.integration.client.conftest import no_delay
from tests.integration.client.wire_server import WireServer
from tests.unit.client.source_model import SESSION, message, turn


def live_at(revision: int) -> Callable[[State], bool]:
    return lambda state: state.live and state.applied == revision


def ids(follower: Follower) -> list[str]:
    return [row.id for row in follower.rows()]


async def test_shows_the_source_and_follows_each_commit_without_reading_again(
    server: WireServer, connection: Connection
) -> None:
    await server.put(message("m1", 1), message("m2", 2, author="agent"), turn("t1", 1))
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(1))
        assert ids(follower) == ["m1", "m2", "t1"]
        for number in range(20):
            await server.put(message("m2", 2, content=f"grows {number}", author="agent"))
        await server.commit((("message", "m1"), None))
        state = await follower.wait_until(live_at(22))
        assert state.counters.reads == 2
        assert ids(follower) == ["m2", "t1"]
        body = follower.rows()[0].body
        assert isinstance(body, CoreMessage)
        assert body.content == "grows 19"


async def test_several_followers_share_a_connection_each_with_its_own_filter(
    server: WireServer, connection: Connection
) -> None:
    await server.put(message("m1", 1), message("m2", 2, author="agent"))
    async with (
        Follower(connection, SESSION) as everything,
        Follower(connection, SESSION, scope_filter=Filter(authors=("user",))) as prompts,
        Follower(connection, SESSION, scope_filter=Filter(task_id="other")) as other,
    ):
        for follower in (everything, prompts, other):
            await follower.wait_until(live_at(1))
        await server.put(message("m1", 1, task="other"))
        for follower in (everything, prompts, other):
            await follower.wait_until(live_at(2))
        assert (ids(everything), ids(prompts), ids(other)) == (["m1", "m2"], ["m1"], ["m1"])
        assert len(server.sockets) == 1
    await server.until(lambda: len(server.unsubscribed) == 3)


async def test_a_lost_change_is_a_gap_and_is_repaired(server: WireServer, connection: Connection) -> None:
    await server.put(message("m1", 1))
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(1))
        server.losing = True
        await server.put(message("m2", 2))
        server.losing = False
        await server.put(message("m3", 3))
        state = await follower.wait_until(live_at(3))
        assert (state.counters.gaps, state.counters.repairs) == (1, 1)
        assert ids(follower) == ["m1", "m2", "m3"]


async def test_a_check_tells_of_a_change_that_never_came(server: WireServer, connection: Connection) -> None:
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(0))
        server.losing = True
        await server.put(message("m1", 1))
        await server.check()
        await follower.wait_until(live_at(1))
        assert ids(follower) == ["m1"]
        assert follower.longest_behind > 0


async def test_a_lost_connection_comes_back_by_itself(server: WireServer, connection: Connection) -> None:
    await server.put(message("m1", 1))
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(1))
        await server.stop()
        await follower.wait_until(lambda state: state.status == "disconnected")
        assert ids(follower) == ["m1"]
        await server.put(message("m2", 2))
        await server.start()
        await follower.wait_until(live_at(2))
        assert ids(follower) == ["m1", "m2"]


async def test_a_gateway_that_leaves_pings_unanswered_is_left(server: WireServer) -> None:
    server.mute = True
    async with (
        Connection(server.url, heartbeat=0.1, chance=no_delay) as connection,
        Follower(connection, SESSION) as follower,
    ):
        await follower.wait_until(lambda state: state.live)
        server.mute = False
        await follower.wait_until(lambda state: state.status == "disconnected")
        await follower.wait_until(lambda state: state.live)


async def test_another_epoch_replaces_everything(server: WireServer, connection: Connection) -> None:
    await server.put(message("m1", 1))
    await server.put(message("m2", 2))
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(2))
        server.source.mint("epoch-1", 1, {("message", "m9"): message("m9", 9)})
        await server.to_all("", "", reset=True)
        await follower.wait_until(lambda state: state.live and state.held is not None and state.held.epoch == "epoch-1")
        assert ids(follower) == ["m9"]


async def test_older_pages_come_on_demand_and_meet_what_changes_meanwhile(
    server: WireServer, connection: Connection
) -> None:
    server.page_rows = 3
    await server.put(*(message(f"m{number}", number) for number in range(10)))
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(1))
        assert ids(follower) == ["m7", "m8", "m9"]

        async def write() -> None:
            server.before_page = None
            await server.put(message("m5", 5, content="new"))

        server.before_page = write
        assert await follower.load_more() == 3
        assert ids(follower) == [f"m{number}" for number in range(4, 10)]
        assert await follower.load_more() == 3
        assert await follower.load_more() == 1
        assert await follower.load_more() == 0
        assert len(follower.rows()) == 10


async def test_loads_everything_by_itself_and_stays_complete(server: WireServer, connection: Connection) -> None:
    server.page_rows = 2
    await server.put(*(message(f"m{number}", number) for number in range(15)))
    await server.put(*(turn(f"t{number}", number) for number in range(7)))
    async with Follower(connection, SESSION, everything=True) as follower:
        await follower.wait_until(lambda state: state.live and state.held is not None and not state.held.has_more)
        assert len(follower.rows()) == 22
        await server.to_all("", "", reset=True)
        await follower.wait_until(lambda state: not state.live)
        await follower.wait_until(lambda state: state.live and state.held is not None and not state.held.has_more)
        assert len(follower.rows()) == 22


@pytest.mark.parametrize("status", [503, 500, 409])
async def test_a_page_that_cannot_be_read_is_read_again(
    server: WireServer, connection: Connection, status: int
) -> None:
    server.page_status = status

    async def recover() -> None:
        if sum(action.endswith(".subscribe") for action in server.requests) > 1:
            server.page_status = 200

    server.before_page = recover
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(0))


async def test_an_older_page_that_was_refused_is_asked_for_when_the_gateway_said(
    server: WireServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        server.page_status = 200
        await sleep(0)

    server.page_rows = 2
    for number in range(5):
        await server.put(message(f"m{number}", number))
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(5))
        server.page_status, server.retry_after = 503, 7
        monkeypatch.setattr(asyncio, "sleep", noted)
        assert await follower.load_more() == 2
        monkeypatch.undo()
    assert [7 <= pause < 14 for pause in pauses] == [True]


async def test_a_refused_subscription_is_asked_for_again(server: WireServer, connection: Connection) -> None:
    server.refuse_with = "upstream_failure", True
    async with Follower(connection, SESSION) as follower:
        await server.until(lambda: len(server.requests) == 1)
        server.refuse_with = None
        await follower.wait_until(live_at(0))


async def test_a_session_that_is_not_there_ends_what_waits_for_it(server: WireServer, connection: Connection) -> None:
    async with Follower(connection, "nobody") as follower:
        with pytest.raises(ScopeClosed) as closed:
            await follower.wait_until(lambda state: state.live)
        assert closed.value.reason is CloseReason.NOT_FOUND
        with pytest.raises(ScopeClosed):
            await follower.load_more()


async def test_a_removed_session_keeps_its_rows(server: WireServer, connection: Connection) -> None:
    await server.put(message("m1", 1))
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(1))
        await server.remove_session()
        state = await follower.wait_until(lambda state: state.closed is not None)
        assert state.closed is CloseReason.REMOVED
        assert ids(follower) == ["m1"]


async def test_an_end_without_a_word_is_no_removal(
    server: WireServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client.follower.EXPLAINED_SECONDS", 0.05)
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(0))
        assert await follower.why_closed() is None
        await server.to_all("", "", terminal=True)
        await follower.wait_until(lambda state: state.closed is not None)
        assert await follower.why_closed() is CloseReason.ENDED


async def test_an_end_before_a_removal_is_a_removal(server: WireServer, connection: Connection) -> None:
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(0))
        await server.to_all("", "", terminal=True)
        await follower.wait_until(lambda state: state.closed is CloseReason.ENDED)
        asking = asyncio.create_task(follower.why_closed())
        await server.remove_session()
        assert await asking is CloseReason.REMOVED


async def test_a_connection_that_was_signed_out_is_not_opened_again(server: WireServer, connection: Connection) -> None:
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(0))
        await server.to_all("", "", terminal=True)
        (opened,) = server.sockets
        await opened.close(code=SIGNED_OUT)
        await follower.wait_until(lambda state: state.closed is not None)
        assert await follower.why_closed() is CloseReason.UNAUTHENTICATED


@pytest.mark.parametrize("status", [401, 403])
async def test_a_page_that_wants_an_identity_ends_the_scope(
    server: WireServer, connection: Connection, status: int
) -> None:
    server.page_status = status
    async with Follower(connection, SESSION) as follower:
        state = await follower.wait_until(lambda state: state.closed is not None)
        assert state.closed is CloseReason.UNAUTHENTICATED


async def test_the_observer_sees_rows_change(server: WireServer, connection: Connection) -> None:
    seen: list[tuple[str, bool]] = []

    def observe(state: State, changes: tuple[RowChange, ...]) -> None:
        seen.extend((change.id, change.row is not None) for change in changes)

    await server.put(message("m1", 1))
    async with Follower(connection, SESSION, observer=observe) as follower:
        await follower.wait_until(live_at(1))
        await server.put(message("m2", 2))
        await server.commit((("message", "m1"), None))
        await follower.wait_until(live_at(3))
    assert seen == [("m1", True), ("m2", True), ("m1", False)]


async def test_an_identity_that_is_no_longer_accepted_ends_what_is_followed(
    server: WireServer, connection: Connection
) -> None:
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(0))
        server.unauthenticated = True
        await server.sever()
        state = await follower.wait_until(lambda state: state.closed is not None)
        assert state.closed is CloseReason.UNAUTHENTICATED
    with pytest.raises(ConnectionFailed) as refused:
        async with Connection(server.url):
            pass
    assert refused.value.refused == 401


async def test_nothing_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionFailed, match="no gateway answers"):
            async with Connection(f"http://127.0.0.1:{taken.getsockname()[1]}"):
                pass


async def test_what_is_not_json_or_not_for_anyone_is_passed_over(server: WireServer, connection: Connection) -> None:
    async with Follower(connection, SESSION) as follower:
        await follower.wait_until(live_at(0))
        for text in ("no json", "[]", "{}", '{"type":"notification","action":"other","payload":{}}'):
            await server.sockets[0].send_str(text)
        await server.put(message("m1", 1))
        state = await follower.wait_until(live_at(1))
        assert state.counters.repairs == 0


async def test_a_socket_that_is_lost_while_pages_are_read_loses_nothing(
    server: WireServer, connection: Connection
) -> None:
    reading = asyncio.Event()
    answer = asyncio.Event()

    async def wait() -> None:
        reading.set()
        await answer.wait()

    server.before_page = wait
    async with Follower(connection, SESSION) as follower:
        await reading.wait()
        await server.sever()
        await server.put(message("m1", 1))
        answer.set()
        await follower.wait_until(live_at(1))
        assert ids(follower) == ["m1"]
