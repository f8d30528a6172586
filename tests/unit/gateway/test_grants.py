"""What plugins are granted, in every order in which an installation can change (G10)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from services.gateway.identity.caller import LOCAL_CALLER
from services.gateway.plugins.bindings import Bindings
from services.gateway.plugins.keyring import Keyring
from services.gateway.plugins.registry import Registry
from services.gateway.plugins.store import Record, Store
from services.gateway.scopes.grants import Grants, Refused
from services.gateway.scopes.scope import Grant, Phase, Scope
from services.gateway.websocket.backlog import Owner
from services.gateway.websocket.connection import Connection
from services.gateway.websocket.subscriptions import Subscriptions
from shared.contracts.base import Contract
from shared.contracts.wire import SUBSCRIBE, ClientMessage, Subscribed, SubscribeRefused
from tests.support.plugins import manifest
from tests.unit.gateway.in_memory import Gateway, place
from tests.unit.gateway.memory_source import settled
from tests.unit.gateway.receipts import change

KEY = bytes(32)


class MemoryStore(Store):
    """Installed plugins in memory."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    async def stamp(self) -> str:
        return repr(self.records)

    async def all(self) -> list[Record]:
        return list(self.records.values())


class MemoryKeyring(Keyring):
    """One key, which is looked for again whenever a token comes; `gate` holds that back until it is opened."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0

    @property
    def signing(self) -> bytes:
        return KEY

    @property
    def verifying(self) -> tuple[bytes, ...]:
        return (KEY,)

    async def learn(self, token: str) -> None:
        self.asked += 1
        await self.gate.wait()


class Replies(Connection):
    """A connection of the local user; what it is sent is noted."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(LOCAL_CALLER, gateway.hub, {}, place(100))
        self.consumer = gateway.consumer
        self.replies: list[Contract] = []

    def offer(self, frame: bytes | bytearray, owner: Owner) -> bool:
        assert isinstance(owner, Scope)
        return self.consumer.offer(frame, owner)

    def has_room(self, frames: int, size: int) -> bool:
        return self.consumer.has_room(frames, size)

    def gather(self) -> None:
        self.consumer.gather()

    def send_gathered(self) -> None:
        self.consumer.send_gathered()

    def deliver(self, text: bytes) -> None:
        self.consumer.deliver(text)

    def respond(self, request: ClientMessage, payload: Any) -> None:
        self.replies.append(payload)


class Plugins:
    """A gateway with two plugins, `one` and `two`."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.store = MemoryStore()
        self.keyring = MemoryKeyring()
        self.registry = Registry(self.store)
        self.bindings = Bindings(self.keyring)
        self.grants = Grants(self.registry, self.bindings, gateway.hub)
        self.connection = Replies(gateway)
        self.subscriptions = Subscriptions(gateway.hub, self.grants)

    async def install(self, plugin_id: str, generation: int = 1, reads: tuple[str, ...] = ("messages",)) -> None:
        """Installs or upgrades."""
        told: Any = manifest(plugin_id, reads=reads)
        self.store.records[plugin_id] = Record(
            plugin_id, "1.0.0", f"{generation}", told, "active", False, generation, 0, None, None
        )
        await self.registry.refresh()

    async def change(self, plugin_id: str, **fields: Any) -> None:
        """Changes what is stored of it."""
        self.store.records[plugin_id] = replace(self.store.records[plugin_id], **fields)
        await self.registry.refresh()

    def token(self, plugin_id: str) -> str:
        """A binding of the local user."""
        plugin = self.registry.active(plugin_id)
        assert plugin is not None
        return self.bindings.issue(LOCAL_CALLER, plugin).token

    async def opened(self, plugin_id: str, scope_id: str) -> Scope:
        """A scope of a plugin that is open."""
        plugin = self.registry.active(plugin_id)
        assert plugin is not None
        return await self.gateway.opened(scope_id, grant=Grant(plugin_id, plugin.generation))

    def subscribing(self, plugin_id: str, scope_id: str = "scope", **more: Any) -> asyncio.Task[None]:
        """A subscription to session `s` that is under way, with a binding of now."""
        payload = {
            "session_id": "s",
            "scope_id": scope_id,
            "consumer_kind": "plugin",
            "plugin_id": plugin_id,
            "generation": 1,
            "binding_token": self.token(plugin_id),
            **more,
        }
        request = ClientMessage(id="1", type="request", action=SUBSCRIBE, payload=payload)
        return asyncio.create_task(self.subscriptions.subscribe(self.connection, request))

    def codes(self) -> list[str]:
        """The replies so far: `ok`, or the code of a refusal."""
        return [_code(reply) for reply in self.connection.replies]


def _code(reply: Contract) -> str:
    if isinstance(reply, SubscribeRefused):
        return reply.error.code
    assert isinstance(reply, Subscribed)
    return "ok"


@pytest.fixture
async def plugins(gateway: Gateway) -> Plugins:
    plugins = Plugins(gateway)
    await plugins.install("one")
    await plugins.install("two")
    return plugins


ENDINGS: dict[str, dict[str, Any]] = {
    "disabled": {"status": "disabled"},
    "broken": {"status": "error"},
    "upgraded": {"installed_at": 2},
    "without the capability": {"manifest": manifest("one", reads=())},
}

CODES = {"upgraded": "generation_superseded"}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_what_was_granted_ends_with_what_it_was_granted_to(plugins: Plugins, ending: str) -> None:
    """One terminal frame for each scope of that plugin; nobody else notices."""
    for number in range(2):
        await plugins.opened("one", f"one{number}")
    await plugins.opened("two", "two")
    await plugins.gateway.opened("core")
    await plugins.change("one", **ENDINGS[ending])
    plugins.gateway.receive(change(5))
    consumer = plugins.gateway.consumer
    assert [consumer.log(scope_id) for scope_id in ("one0", "one1")] == [["terminal"]] * 2
    assert [consumer.log(scope_id) for scope_id in ("two", "core")] == [["5-6"]] * 2
    assert consumer.removals == 0


@pytest.mark.parametrize("fields", [{"package_hash": "other"}, {"updated_at": 9}, {"version": "1.0.1"}], ids=str)
async def test_other_changes_end_nothing(plugins: Plugins, fields: dict[str, Any]) -> None:
    await plugins.opened("one", "scope")
    await plugins.change("one", **fields)
    assert plugins.gateway.consumer.log() == []


@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_installation_that_changes_while_the_session_is_read(plugins: Plugins, ending: str) -> None:
    """Registered, and then looked at again: nothing is missed between the two."""
    plugins.gateway.source.gate.clear()
    opening = plugins.subscribing("one")
    await settled(lambda: plugins.gateway.hub.follows("s"))
    await plugins.change("one", **ENDINGS[ending])
    plugins.gateway.source.gate.set()
    await opening
    assert plugins.codes() == [CODES.get(ending, "not_found")]
    assert not plugins.gateway.hub.follows("s")
    assert plugins.connection.scopes == {}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_installation_that_changes_while_the_keys_are_read(plugins: Plugins, ending: str) -> None:
    plugins.keyring.gate.clear()
    opening = plugins.subscribing("one")
    await settled(lambda: plugins.keyring.asked == 1)
    await plugins.change("one", **ENDINGS[ending])
    plugins.keyring.gate.set()
    await opening
    assert plugins.codes() == [CODES.get(ending, "not_found")]
    assert plugins.connection.scopes == {}


async def test_a_scope_that_is_replaced_while_the_keys_are_read(plugins: Plugins) -> None:
    """The later request has the place, whichever is admitted first."""
    plugins.keyring.gate.clear()
    first = plugins.subscribing("one")
    second = plugins.subscribing("two")
    await settled(lambda: plugins.keyring.asked == 2)
    reads = plugins.gateway.source.reads
    plugins.keyring.gate.set()
    await asyncio.gather(first, second)
    assert plugins.gateway.source.reads == reads + 1
    assert plugins.codes() == ["invalid_request", "ok"]
    [scope] = plugins.gateway.hub.scopes()
    assert scope.grant == Grant("two", 1)
    assert plugins.connection.scopes == {"scope": scope}


async def test_a_task_that_is_not_the_sessions(plugins: Plugins) -> None:
    await plugins.subscribing("one", "wrong", task_id="u")
    await plugins.subscribing("one", "right", task_id="t")
    await plugins.subscribing("one", "every")
    assert plugins.codes() == ["invalid_request", "ok", "ok"]
    assert plugins.connection.scopes.keys() == {"right", "every"}


async def test_another_generation_is_told_before_the_session_is_looked_at(plugins: Plugins) -> None:
    del plugins.gateway.source.revisions["s"]
    await plugins.subscribing("one", generation=2)
    assert plugins.codes() == ["generation_superseded"]


async def test_a_plugin_that_is_unknown_is_looked_for_before_its_token(plugins: Plugins) -> None:
    with pytest.raises(Refused) as refused:
        await plugins.grants.admit(LOCAL_CALLER, Grant("nowhere", 1), "x")
    assert (refused.value.code, plugins.keyring.asked) == ("not_found", 0)


async def test_a_scope_of_a_plugin_is_reset_and_ended_like_any_other(plugins: Plugins) -> None:
    scope = await plugins.opened("one", "scope")
    plugins.gateway.hub.reset([scope])
    await settled(lambda: scope.phase is Phase.LIVE)
    del plugins.gateway.source.revisions["s"]
    await plugins.gateway.check()
    assert plugins.gateway.consumer.log() == ["reset", "terminal"]
    assert plugins.gateway.consumer.removals == 1
