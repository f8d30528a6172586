"""Bindings: who gets one, how long it is good, and at which gateways."""

import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import pytest
import pytest_asyncio

from services.gateway.identity.caller import LOCAL_CALLER
from services.gateway.plugins.bindings import Bindings
from services.gateway.plugins.cursors import Cursors, Selection
from services.gateway.plugins.keyring import Keyring, now_microseconds
from shared.contracts.reads import Keyset
from shared.times import microseconds
from shared.tokens import LIFETIME_SECONDS, MICROSECONDS
from tests.conftest import new_database
from tests.integration.plugin_conversation.plugins import Installed, Plugin, installed
from tests.support.plugins import install, set_status
from tests.support.stack import Stack
from tests.support.waiting import eventually

PLUGIN_NOT_FOUND = (404, "not_found", "plugin not found", False)
NOT_BOUND = (401, "unauthenticated", "invalid conversation binding", False)
UNAVAILABLE = (500, "upstream_failure", "conversation service unavailable", True)


async def test_a_binding(shared_stack: Stack, plugin: Plugin) -> None:
    answer = await plugin.get("/binding")
    latest = time.time_ns() // 1000 + LIFETIME_SECONDS * MICROSECONDS
    assert answer.status == 200
    assert set(answer.body) == {"bindingToken", "generation", "expiresAt"}
    installed_at = await shared_stack.pool.fetchval("SELECT installed_at FROM gateway.plugins WHERE id = 'reader'")
    assert answer.body["generation"] == round(installed_at.timestamp() * MICROSECONDS)
    assert microseconds(answer.body["expiresAt"]) <= latest
    assert re.fullmatch(r"[\w-]+\.[\w-]{43}", answer.body["bindingToken"])
    assert answer.body["bindingToken"] != (await plugin.get("/binding")).body["bindingToken"]


@pytest.mark.parametrize("plugin_id", ["unknown", "a" * 3000, "\u0645", "\x01", "..%2f", "a/b", "a b", "a?b"])
async def test_an_unknown_plugin(shared_stack: Stack, plugin_id: str) -> None:
    assert (await Plugin(shared_stack, plugin_id).get("/binding")).error == PLUGIN_NOT_FOUND


@pytest.mark.parametrize(
    "path", ["/binding", *(f"/v2/task-sessions/s/{each}" for each in ("messages", "turns", "revision"))]
)
async def test_a_plugin_that_may_not_read_is_like_none(shared_stack: Stack, plugin: Plugin, path: str) -> None:
    """Whether it is unknown, not active, or not entitled."""
    await install(shared_stack, "mute", reads=("tasks",))
    for status in ("registered", "disabled", "error"):
        await install(shared_stack, status, status=status)
    for plugin_id in ("unknown", "mute", "registered", "disabled", "error"):
        assert (await Plugin(shared_stack, plugin_id, plugin.binding).get(path)).error == PLUGIN_NOT_FOUND


async def test_a_plugin_that_is_disabled_reads_no_more(shared_stack: Stack) -> None:
    await shared_stack.session("disabling")
    bound = await installed(shared_stack, "disabling")
    assert (await bound.read("disabling")).status == 200
    await set_status(shared_stack, "disabling", "disabled")
    assert (await bound.read("disabling")).error == PLUGIN_NOT_FOUND
    await set_status(shared_stack, "disabling", "active")
    assert (await bound.read("disabling")).status == 200


async def test_an_upgrade_ends_the_bindings_before_it(shared_stack: Stack) -> None:
    await shared_stack.session("upgrading")
    bound = await installed(shared_stack, "upgrading")
    await install(shared_stack, "upgrading", "2.0.0")
    assert (await bound.read("upgrading")).error == NOT_BOUND
    assert (await (await bound.bound()).read("upgrading")).status == 200


@pytest.mark.parametrize("what", ["messages", "turns", "revision"])
async def test_a_read_needs_a_binding(shared_stack: Stack, plugin: Plugin, keyring: Keyring, what: str) -> None:
    """Of this plugin, this user, this installation, this kind, signed here, and alive."""
    await shared_stack.session("needs" + what)
    installation = Installed("reader", (await plugin.get("/binding")).body["generation"])
    stranger = replace(LOCAL_CALLER, identity=LOCAL_CALLER.identity.model_copy(update={"user": "stranger"}))
    now = now_microseconds()
    issuing = Bindings(keyring)
    token = plugin.binding or ""
    cursors, selection = Cursors(keyring), Selection("messages", "s", None, (), "desc", 20)
    for wrong in (
        None,
        "",
        "x",
        token[:-1],
        token + "A",
        token.swapcase(),
        "A" * 7000,
        issuing.issue(LOCAL_CALLER, replace(installation, id="other")).token,
        issuing.issue(LOCAL_CALLER, replace(installation, generation=installation.generation - 1)).token,
        issuing.issue(stranger, installation).token,
        Bindings(keyring, lambda: now - LIFETIME_SECONDS * MICROSECONDS).issue(LOCAL_CALLER, installation).token,
        cursors.issue(LOCAL_CALLER, installation, selection, "e", Keyset(time=0, id="m")),
    ):
        assert (await replace(plugin, binding=wrong).read("needs" + what, what)).error == NOT_BOUND, wrong
    good = issuing.issue(LOCAL_CALLER, installation).token
    assert (await replace(plugin, binding=good).read("needs" + what, what)).status == 200


async def test_what_earlier_versions_had_is_not_served(shared_stack: Stack, plugin: Plugin) -> None:
    await shared_stack.session("retired")
    for path in (
        *("", "/", "/v2", "/managed/retired", "/continuation/renew"),
        *("/task-sessions/retired/messages", "/task-sessions/retired/turns", "/v2/task-sessions/retired"),
    ):
        assert (await plugin.get(path)).status == 404
    managed = {"X-Kandev-Managed-Conversation": "token"}
    refused = await plugin.get("/v2/task-sessions/retired/messages", more_headers=managed)
    assert refused.error == (400, "invalid_query", "managed conversations are not supported", False)
    old = await plugin.get("/v2/task-sessions/retired/messages", more_headers={"X-Kandev-Snapshot-Token": "token"})
    assert old.status == 200


async def test_only_reading_is_offered(shared_stack: Stack, plugin: Plugin) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        url = f"{shared_stack.url}/api/plugins/reader/conversation/binding"
        async with shared_stack.http.request(method, url) as answer:
            assert (answer.status, answer.headers["Cache-Control"]) == (405, "no-store")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[Stack]:
    """Two gateways, which a test may leave without a reader."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/3"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address, request_timeout=1) as stack:
            await stack.start_all()
            await stack.start("gateway", name="second")
            await stack.ready("second")
            yield stack


async def test_any_gateway_takes_what_another_issued(pair: Stack) -> None:
    await pair.session("pair")
    for number in range(3):
        await pair.add("pair", f"pair{number}")
    first = await installed(pair, "pair")
    second = replace(first, gateway="second")
    await eventually(lambda: second.get("/binding"), lambda found: found.status == 200)
    page = await first.read("pair", limit=2)
    assert page.ids() == ["pair2", "pair1"]
    assert (await second.read("pair", limit=2, cursor=page.body["cursor"])).ids() == ["pair0"]


async def test_a_gateway_that_starts_knows_its_plugins_before_it_answers(pair: Stack) -> None:
    """Not found is for good: a client that comes back too early must not be told so."""
    plugin = replace(await installed(pair, "restarting"), gateway="second")
    await pair.stop("second")
    await pair.start("gateway", name="second")

    async def first_answer() -> int:
        try:
            return (await plugin.get("/binding")).status
        except aiohttp.ClientConnectionError:
            return 0

    assert await eventually(first_answer) == 200
    await pair.ready("second")


async def test_a_gateway_learns_of_keys_that_replaced_its_own(pair: Stack) -> None:
    """Somebody emptied the table and another gateway, of which this one knows nothing, made a key."""
    await pair.session("relearning")
    plugin = await installed(pair, "relearning")
    generation = (await plugin.get("/binding")).body["generation"]
    await pair.pool.execute("DELETE FROM gateway.token_keys")
    secret = b"n" * 32
    await pair.pool.execute("INSERT INTO gateway.token_keys (secret) VALUES ($1)", secret)
    token = Bindings(_Signing(secret)).issue(LOCAL_CALLER, Installed("relearning", generation)).token
    async with pair.pool.acquire() as connection, connection.transaction():
        # The look that comes every twenty seconds waits for this; the one that the token causes does not.
        await connection.execute("LOCK TABLE gateway.token_keys IN SHARE ROW EXCLUSIVE MODE")
        # Any token that is unknown here may have made the gateway look less than a second ago.
        answer = await eventually(
            lambda: replace(plugin, binding=token).read("relearning"), lambda found: found.status != 401, patience=15
        )
    assert answer.status == 200
    assert (await plugin.read("relearning")).error == NOT_BOUND


async def test_a_read_that_nobody_answers_may_be_asked_again(pair: Stack) -> None:
    await pair.session("unanswered")
    plugin = await installed(pair, "unanswered")
    await pair.stop("reader")
    try:
        for what in ("messages", "turns", "revision"):
            answer = await plugin.read("unanswered", what)
            assert answer.error == UNAVAILABLE
            assert answer.headers["Retry-After"] == "1"
        assert (await plugin.read("unanswered", cursor="x")).error == UNAVAILABLE
    finally:
        await pair.start("reader")
    await eventually(lambda: plugin.read("unanswered"), lambda found: found.status == 200)


class _Signing(Keyring):
    """Keys of a gateway that is not there."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @property
    def signing(self) -> bytes:
        """The one key."""
        return self._secret
