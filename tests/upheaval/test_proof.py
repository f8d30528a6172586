"""The proof of a small installation without containers, and what it says of one that is not as it must be."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import asyncpg
import pytest
import pytest_asyncio

from deploy.local.running import RunningStack
from tests.conftest import server_folder
from tests.support.waiting import eventually
from tests.upheaval.embedded import SERVICES, EmbeddedInstallation
from tests.upheaval.installation import Broken
from tests.upheaval.plan import Upheaval
from tests.upheaval.proof import Load, Result, prove

pytestmark = pytest.mark.xdist_group("upheaval")

LOAD = Load(clients=30, sessions=5, processes=2, rate=20.0, patience=120.0)
FLUSH = Upheaval("flush", "redis")

CHANGE = """
UPDATE task_session_messages SET content = 'other' WHERE id = (
    SELECT id FROM task_session_messages WHERE id LIKE '%prompt' AND id <> ALL ($1) LIMIT 1) RETURNING id
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def installation() -> AsyncIterator[EmbeddedInstallation]:
    with server_folder() as folder:
        async with EmbeddedInstallation(folder) as installation:
            yield installation


class Tampered:
    """An installation to which something else happens than what it is told."""

    def __init__(self, installation: EmbeddedInstallation, instead: Callable[[RunningStack], Awaitable[None]]) -> None:
        self.upheavals: Sequence[Upheaval] = installation.upheavals
        self.urls: Sequence[str] = installation.urls
        self._installation = installation
        self._instead = instead

    async def hit(self, upheaval: Upheaval) -> None:
        await self._instead(self._installation.stack())


async def proven(installation: EmbeddedInstallation | Tampered, *upheavals: Upheaval, load: Load = LOAD) -> Result:
    return await prove(installation, upheavals, load, tell=lambda _: None)


async def test_every_client_equals_the_source_whatever_was_killed(installation: EmbeddedInstallation) -> None:
    upheavals = [*(Upheaval("kill", service) for service in SERVICES), FLUSH, Upheaval("roll", "gateway")]
    result = await proven(installation, *upheavals)
    assert result.wrong == []
    assert result.holds
    assert result.equal == result.clients == LOAD.clients
    assert [row.name for row in result.rows] == ["opening", *(upheaval.name for upheaval in upheavals)]
    by_name = {row.name: row.figures for row in result.rows}
    assert all(figures.live == figures.clients == LOAD.clients for figures in by_name.values())
    # Every session is written to before a row ends.
    assert all(figures.writes >= LOAD.sessions for figures in by_name.values())
    assert by_name["kill:gateway"].lost >= LOAD.clients
    assert by_name["roll:gateway"].lost >= LOAD.clients
    # A gateway that was killed remembers nothing, and a client in four asks for nothing to be remembered.
    assert by_name["kill:gateway"].repairs >= LOAD.clients // 4
    assert result.messages > 0


async def test_an_acknowledged_write_that_is_not_in_the_source_is_named(installation: EmbeddedInstallation) -> None:
    changed: list[str] = []
    connection = await asyncpg.connect(installation.stack().database_url)
    # Writers begin with turns, and an earlier proof has left its prompts here.
    earlier = await connection.fetchval("SELECT array_agg(id) FROM task_session_messages")

    async def change_a_prompt(_: RunningStack) -> None:
        changed.append(await eventually(lambda: connection.fetchval(CHANGE, earlier or []), bool))

    try:
        result = await proven(Tampered(installation, change_a_prompt), FLUSH)
    finally:
        await connection.close()
    assert result.equal == result.clients
    assert not result.holds
    assert [each for each in result.wrong if changed[0] in each]


async def test_clients_that_do_not_come_back_are_counted_and_named() -> None:
    with server_folder() as folder:
        async with EmbeddedInstallation(folder) as installation:

            async def end(_: RunningStack) -> None:
                await installation.end()

            result = await proven(
                Tampered(installation, end),
                FLUSH,
                load=Load(clients=4, sessions=2, processes=1, rate=8.0, patience=2.0),
            )
    assert not result.holds
    assert [(row.name, row.figures.live) for row in result.rows] == [("opening", 4), ("flush:redis", 0)]
    assert result.equal == 0
    assert sum("not live at the newest revision" in each for each in result.wrong if "after flush:redis" in each) == 4
    assert any("its writer does not get through" in each for each in result.wrong)


async def test_nothing_is_done_to_an_installation_that_did_not_survive(installation: EmbeddedInstallation) -> None:
    async def break_it(_: RunningStack) -> None:
        raise Broken("it is gone")

    result = await proven(Tampered(installation, break_it), FLUSH, Upheaval("kill", "reader"))
    assert [row.name for row in result.rows] == ["opening"]
    assert result.wrong == ["flush:redis: it is gone"]
    assert not result.holds
