"""What services count while they work."""

import uuid

import aiohttp
import pytest

from services.gateway.metrics import METRICS as GATEWAY
from services.reader.metrics import METRICS as READER
from services.revision.metrics import METRICS as REVISION
from shared.contracts import streams
from shared.metrics.declaring import Declared
from tests.integration.metrics.figures import Figures, figure, scrape, values
from tests.support.counting import counting
from tests.support.stack import Stack
from tests.support.waiting import eventually

ALL = {"revision": REVISION, "reader": READER, "gateway": GATEWAY}
SECRET = "planted-secret"


def endings(declared: Declared) -> str:
    """A name under which a metric is told."""
    return f"{declared.name}_count" if declared.kind == "histogram" else declared.name


async def everything(stack: Stack) -> list[Figures]:
    """What all services tell."""
    return [await scrape(stack, name) for name in ALL]


async def test_a_commit_is_counted_on_its_whole_way(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    before = {name: await scrape(stack, name) for name in ALL}
    await client.subscribe("s")
    await stack.add("s", "a")
    await client.reached(await stack.revision("s"))

    revision, gateway = await scrape(stack, "revision"), await scrape(stack, "gateway")
    for figures, name, metric in (
        (revision, "revision", ("kandev_revision_commits_total", "whole")),
        (revision, "revision", ("kandev_revision_receipts_total", "published")),
        (revision, "revision", "kandev_revision_publish_seconds_count"),
        (gateway, "gateway", ("kandev_gateway_receipts_total", "followed")),
        (gateway, "gateway", "kandev_gateway_delivery_seconds_count"),
        (gateway, "gateway", ("kandev_gateway_subscriptions_total", "opened")),
    ):
        assert figures[metric] > before[name][metric], metric
    assert gateway["kandev_gateway_connections"] == 1
    assert gateway["kandev_gateway_scopes", "live"] == 1
    assert gateway["kandev_gateway_followed_sessions"] == 1
    assert gateway["kandev_gateway_queued_frames"] == 0
    assert gateway["kandev_gateway_remembered_bytes"] > 0


async def test_reads_and_commands_are_counted_by_kind_and_outcome_on_both_sides(stack: Stack) -> None:
    await stack.session("s")
    before = {name: await scrape(stack, name) for name in ALL}
    assert (await stack.call("GET", "/api/v1/task-sessions/s/messages?limit=5"))[0] == 200
    assert (await stack.call("GET", "/api/v1/task-sessions/nobody/messages?limit=5"))[0] == 404
    made = {"id": "m", "author_type": "user", "content": "x"}
    assert (await stack.call("POST", "/api/v1/task-sessions/s/messages", json=made))[0] in {200, 201}
    after = {name: await scrape(stack, name) for name in ALL}

    def grown(service: str, metric: str, kind: str, outcome: str) -> float:
        one, other = (
            sum(
                sample.value
                for sample in each[service].samples
                if sample.name == metric and (sample.labels["kind"], sample.labels["outcome"]) == (kind, outcome)
            )
            for each in (after, before)
        )
        return one - other

    for service in ("gateway", "reader"):
        assert grown(service, f"kandev_{service}_reads_total", "messages_page", "answered") == 1
        assert grown(service, f"kandev_{service}_reads_total", "messages_page", "not_found") == 1
    for service in ("gateway", "revision"):
        assert grown(service, f"kandev_{service}_commands_total", "create_message", "done") == 1
    pages = "kandev_gateway_pages_total", "no"
    assert after["gateway"][pages] - before["gateway"][pages] == 2
    requests = "kandev_gateway_http_requests_total", "4xx"
    assert after["gateway"][requests] - before["gateway"][requests] == 1


async def test_losses_and_what_is_done_about_them_are_counted(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    before = await scrape(stack, "gateway")
    await client.subscribe("s")
    await stack.pool.execute("SELECT conversation.mint_epoch('a test')")
    await client.until(lambda: client.resets() == 1)
    partition = streams.receipts(streams.partition_of("s", streams.DEFAULT_PARTITIONS))
    found = await stack.redis.xrevrange(partition, count=1)
    assert found, "the term's resync stands there at least"
    fields = found[0][1]
    assert fields is not None
    term, sequence = int(fields[b"t"]), int(fields[b"q"])
    await stack.redis.xadd(partition, {"s": "x", "k": "change", "t": term, "q": sequence + 5, "r": "{}"})
    await figure(stack, "gateway", ("kandev_gateway_gaps_total", "sequence"), lambda now: now > 0)
    await figure(
        stack,
        "gateway",
        ("kandev_gateway_checks_total", "answered"),
        lambda now: now > before["kandev_gateway_checks_total", "answered"],
    )
    after = await scrape(stack, "gateway")
    resets = "kandev_gateway_resets_total", "epoch"
    assert after[resets] - before[resets] == 1
    assert after["kandev_gateway_checked_sessions_total"] > before["kandev_gateway_checked_sessions_total"]
    revision = await scrape(stack, "revision")
    assert revision["kandev_revision_epochs_total"] > 0


async def test_an_incomplete_receipt_counts_there_and_here(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    before = await scrape(stack, "gateway"), await scrape(stack, "revision")
    await stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content)"
        " SELECT 'm' || n, 's', 't', 'user', '' FROM generate_series(1, 300) AS n"
    )
    await client.until(lambda: client.resets() == 1)
    after = await scrape(stack, "gateway"), await scrape(stack, "revision")
    reset = "kandev_gateway_resets_total", "incomplete"
    assert after[0][reset] - before[0][reset] == 1
    metric = "kandev_revision_incomplete_receipts_total"
    assert after[1][metric] - before[1][metric] == 1


async def test_closes_are_counted_by_code_and_foreign_codes_as_others(stack: Stack) -> None:
    for code, label in ((1000, "1000"), (4321, "other")):
        metric = "kandev_gateway_closes_total", label
        before = (await scrape(stack, "gateway"))[metric]
        client = await stack.connect()
        await client.socket.close(code=code)
        await figure(stack, "gateway", metric, lambda now, least=before: now == least + 1)  # type: ignore[misc]


async def test_the_leader_tells_its_term_and_what_the_slots_keep(stack: Stack) -> None:
    await figure(stack, "revision", "kandev_revision_leader_term", lambda term: term > 0)
    await figure(stack, "revision", ("kandev_revision_slots", "active"), lambda slots: slots >= 1)
    figures = await scrape(stack, "revision")
    assert figures["kandev_revision_tracker_state", "leading"] == 1
    assert "kandev_revision_slot_retained_bytes" in figures.names()
    assert figures["kandev_revision_slot_lag_bytes"] >= 0
    assert abs(figures["kandev_revision_clock_skew_seconds"]) < 60
    # A slot of somebody else's that nobody reads keeps the log.
    name = "kandev_metrics_idle"
    await stack.pool.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", name)
    try:
        await figure(stack, "revision", ("kandev_revision_slots", "idle"), lambda slots: slots >= 1)
        await stack.session("s")
        await stack.pool.execute("SELECT pg_switch_wal()")
        await figure(stack, "revision", "kandev_revision_slot_retained_bytes", lambda kept: kept > 1 << 20)
    finally:
        await stack.pool.execute("SELECT pg_drop_replication_slot($1)", name)


async def test_pools_and_streams_are_told(stack: Stack) -> None:
    for name, pool in (("revision", "primary"), ("reader", "primary"), ("gateway", "gateway")):
        figures = await scrape(stack, name)
        assert figures["kandev_database_connections", pool] == 8
        assert figures["process_resident_memory_bytes"] > 0
        assert figures["kandev_build_info"] == 1
    await figure(stack, "reader", "kandev_reader_stream_entries", lambda entries: entries == 0)
    await figure(stack, "revision", "kandev_revision_stream_entries", lambda entries: entries == 0)


async def test_everything_that_is_declared_is_told_and_nothing_else(stack: Stack) -> None:
    await figure(stack, "revision", ("kandev_revision_slots", "active"), lambda slots: slots >= 1)
    for name, metrics in ALL.items():
        told = {each for each in (await scrape(stack, name)).names() if each.startswith("kandev_")}
        expected = {endings(each) for each in metrics.declared}
        assert expected <= told
        assert {each.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for each in told} == {
            each.name for each in metrics.declared
        }


async def test_no_id_no_name_and_no_content_is_in_what_is_told(stack: Stack) -> None:
    session, message, scope = f"session-{SECRET}", f"message-{SECRET}", f"scope-{SECRET}"
    await stack.session(session)
    client = await stack.connect()
    await client.subscribe(session, scope)
    await stack.add(session, message, content=SECRET)
    await client.reached(await stack.revision(session), scope)
    await client.request(f"action-{SECRET}", {"session_id": session})
    await stack.call("GET", f"/api/v1/task-sessions/{session}/messages?limit=5")
    await stack.call("GET", f"/{SECRET}", headers={"X-Request-Id": SECRET, "User-Agent": SECRET})
    found = await everything(stack)
    assert not [value for value in values(found) if "planted" in value]
    assert not any("planted" in each.text for each in found)
    declared = {value for metrics in ALL.values() for each in metrics.declared for value in _labels(each)}
    told = {
        text
        for each in found
        for sample in each.samples
        if sample.name.startswith("kandev_")
        for label, value in sample.labels.items()
        if label != "le"
        for text in (label, value)
    }
    assert told <= declared


async def test_figures_are_not_on_the_public_port(stack: Stack) -> None:
    assert (await stack.call("GET", "/metrics"))[0] == 404


async def test_nothing_is_told_of_what_is_over(stack: Stack) -> None:
    await stack.stop("gateway")
    assert [family.samples for family in GATEWAY.collect()] == [[]] * len(list(GATEWAY.collect()))


def _labels(declared: Declared) -> set[str]:
    return {text for name, values in declared.labels.items() for text in (name, *values)}


async def test_changes_that_leave_together_are_counted(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    before = (await scrape(stack, "gateway"))["kandev_gateway_joined_changes_total"]

    async def joined() -> float:
        for number in range(20):
            await stack.add("s", f"{uuid.uuid4().hex}-{number}")
        return (await scrape(stack, "gateway"))["kandev_gateway_joined_changes_total"] - before

    await eventually(joined, lambda grown: grown > 0)


async def test_subscriptions_are_counted_by_how_they_begin(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    with counting(GATEWAY) as counted:
        opened = await client.subscribe("s")
        place = {"epoch": opened["epoch"], "revision": opened["revision"]}
        await client.subscribe("s", "again", resume=place)
        await client.subscribe("s", "elsewhere", resume={**place, "epoch": "another"})
        await client.subscribe("nobody", "refused")
        assert (await stack.call("GET", "/api/v1/task-sessions/s/messages?limit=5"))[0] == 200
        assert (await stack.call("GET", "/api/v1/task-sessions/s/turns"))[0] == 200
        await client.request("message.list", {"session_id": "s"})
    subscriptions = "kandev_gateway_subscriptions_total"
    found = {each: counted[subscriptions, each] for each in ("opened", "resumed", "not_resumed", "refused")}
    assert found == dict.fromkeys(found, 1)
    assert counted["kandev_gateway_pages_total", "yes"] == 3


async def test_connections_that_are_refused_are_counted_by_whose_limit_it_was(
    database_url: str, redis_url: str
) -> None:
    async with Stack(database_url, redis_url, connections=2, connections_per_address=1) as stack:
        await stack.start_all()
        await stack.connect()
        with counting(GATEWAY) as counted, pytest.raises(aiohttp.WSServerHandshakeError):
            await stack.connect()
    refused = "kandev_gateway_refused_connections_total"
    assert (counted[refused, "limit_exceeded"], counted[refused, "unavailable"]) == (1, 0)
