"""G2 on a replica that lags: nothing older than known, and "not found" only from the primary."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest
from pydantic import SecretStr

from deploy.local.ports import Ports
from deploy.local.postgres import PostgresServer
from services.gateway.source.joining import GATEWAY
from services.reader.availability import Availability
from services.reader.pools import Sources, open_source
from services.revision.schema.migrate import migrate
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import Bound, MessagesAnswer, MessagesPage, RevisionAnswer, RevisionCheck
from shared.settings import Settings
from tests.conftest import server_folder
from tests.integration.reader.people import OWNER, PEOPLE, Reading
from tests.integration.reader.standby import Standby


@dataclass(frozen=True)
class Lagging:
    """A primary with what its halted replica does not show: session `new`, one more turn in `s`, and member `late`."""

    reader: Reading
    sources: Sources
    epoch: str
    shown: int
    """Revision of `s` on the replica; the primary's is one more."""
    standby: Standby


@pytest.fixture
async def lagging(postgres_server: PostgresServer) -> AsyncIterator[Lagging]:
    """The replica has replayed the schema and the sessions of the other tests, and was halted there."""
    await migrate(postgres_server.url)
    writer = await asyncpg.connect(postgres_server.url)
    await writer.execute(PEOPLE)
    with (
        server_folder() as folder,
        Ports() as ports,
        Standby(folder / "standby", ports.private(), postgres_server) as standby,
    ):
        control = await asyncpg.connect(standby.url)
        await control.execute("SELECT pg_wal_replay_pause()")
        while await control.fetchval("SELECT pg_get_wal_replay_pause_state()") != "paused":
            pass
        shown = await control.fetchval("SELECT revision FROM conversation_session_revisions WHERE session_id = 's'")
        await writer.execute("INSERT INTO task_sessions (id, task_id) VALUES ('new', 'task')")
        await writer.execute("INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('t', 's', 'task')")
        await writer.execute("INSERT INTO workspace_members (workspace_id, user_id) VALUES ('shared', 'late')")
        sources = Sources(
            await open_source(SecretStr(postgres_server.url), 2, "reader"),
            await open_source(SecretStr(standby.url), 2, "reader"),
        )
        epoch = await writer.fetchval("SELECT epoch FROM conversation.epoch")
        yield Lagging(Reading(sources), sources, epoch, shown, standby)
        assert sources.replica is not None
        await sources.primary.close()
        sources.replica.terminate()
        await control.close()
        await writer.close()


async def test_a_replica_that_lags(lagging: Lagging) -> None:
    reader, epoch, shown = lagging.reader, lagging.epoch, lagging.shown

    page = MessagesPage(identity=OWNER, session_id="s")
    plain = await reader.answer(page)
    assert isinstance(plain, MessagesAnswer)
    assert (plain.primary, plain.revision) == (False, shown)

    authoritative = await reader.answer(page.model_copy(update={"authoritative": True}))
    assert isinstance(authoritative, MessagesAnswer)
    assert (authoritative.primary, authoritative.revision) == (True, shown + 1)

    for readers, admitted, primary in (
        (("member",), ("member",), False),
        (("late", "member", "x"), ("late", "member"), True),
    ):
        joined = await reader.answer(page.model_copy(update={"identity": GATEWAY, "readers": readers}))
        assert isinstance(joined, MessagesAnswer)
        assert (joined.primary, joined.admitted) == (primary, admitted), "only the primary says that somebody may not"

    with pytest.raises(RequestFailed) as refused:
        await reader.answer(page.model_copy(update={"least": Bound(epoch=epoch, revision=shown + 1)}))
    assert refused.value.failure.code == "behind"

    unseen = await reader.answer(MessagesPage(identity=OWNER, session_id="new"))
    assert isinstance(unseen, MessagesAnswer)
    assert unseen.primary

    with pytest.raises(RequestFailed) as refused:
        await reader.answer(MessagesPage(identity=OWNER, session_id="absent"))
    assert refused.value.failure.code == "not_found"

    checked = await reader.answer(RevisionCheck(identity=OWNER, sessions=("s",)))
    assert isinstance(checked, RevisionAnswer)
    assert (checked.primary, checked.revisions) == (False, {"s": shown})
    whole = await reader.answer(RevisionCheck(identity=OWNER, sessions=("s", "new")))
    assert isinstance(whole, RevisionAnswer)
    assert whole.primary
    assert set(whole.revisions) == {"s", "new"}

    for as_found, primary in ((True, False), (False, True)):
        users = ("late", "member")
        check = RevisionCheck(
            identity=GATEWAY, sessions=("s", "new"), readers={"s": users, "new": users}, as_found=as_found
        )
        looked = await reader.answer(check)
        assert isinstance(looked, RevisionAnswer)
        assert (looked.primary, "new" in looked.revisions) == (primary, primary)
        assert ("late" in looked.refused.get("s", ())) == as_found
    refusing = await reader.answer(RevisionCheck(identity=GATEWAY, sessions=("s",), readers={"s": ("late",)}))
    assert isinstance(refusing, RevisionAnswer)
    assert (refusing.primary, refusing.refused) == (True, {}), "only the primary says that somebody may not"

    # A standby that is addressed as the primary never says that something is not there.
    only_standby = Reading(Sources(lagging.sources.serving(authoritative=False)))
    with pytest.raises(RequestFailed) as refused:
        await only_standby.answer(MessagesPage(identity=OWNER, session_id="absent"))
    assert refused.value.failure.code == "behind"


async def test_a_replica_that_stops_leaves_its_reads_to_the_primary(
    lagging: Lagging, postgres_server: PostgresServer
) -> None:
    settings = Settings(
        database_url=SecretStr(postgres_server.url), replica_url=SecretStr(lagging.standby.url), database_pool=2
    )
    availability = Availability(settings)
    sources = await availability.open()
    assert availability.waits == {}
    assert sources.serving(authoritative=False) is sources.replica
    lagging.standby.kill()
    await availability.look(sources)
    assert set(availability.waits) == {"degraded"}
    found = await Reading(sources).answer(MessagesPage(identity=OWNER, session_id="s"))
    assert isinstance(found, MessagesAnswer)
    assert found.primary
    availability.close(sources)
