"""Two people with a workspace each, two plugins, and what it takes to follow a conversation as one of them."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from services.gateway.control import Control
from shared.broker.guarded import open_broker
from shared.contracts.control import Change, PluginChanged
from shared.database import open_pool
from tests.conftest import new_database
from tests.integration.identity.people import SECOND, People, Person
from tests.support.plugins import install, known, set_status
from tests.support.socket_client import SocketClient
from tests.support.stack import Stack
from tests.support.waiting import eventually

GATEWAYS = ("gateway", SECOND)

PluginChange = Callable[["House", str], Awaitable[None]]
"""Something that is done to a plugin, by SQL."""

Json = dict[str, Any]  # Any: what came from the wire

_names = itertools.count()


@dataclass(frozen=True)
class Room:
    """Somebody's workspace, with a task and a session."""

    owner: Person
    workspace: str
    task: str
    session: str


class House:
    """The services with authentication enabled and two gateways, and who lives there."""

    def __init__(self, stack: Stack, people: People, control: Control, first: Person) -> None:
        self.stack = stack
        self.people = people
        self.control = control
        self.first = first

    @classmethod
    @asynccontextmanager
    async def open(cls, postgres_url: str, template: str, redis_url: str, number: int) -> AsyncIterator[Self]:
        """Starts everything, on a database of its own and Redis's database of this number."""
        address = urlunsplit(urlsplit(redis_url)._replace(path=f"/{number}"))
        with new_database(postgres_url, template=template) as url:
            async with Stack(url, address, auth="enabled") as stack, open_broker(SecretStr(address)) as broker:
                await stack.start_all()
                await stack.start("gateway", name=SECOND)
                await stack.ready(SECOND)
                pool = await open_pool(SecretStr(url), 4, "test")
                people = People(pool)
                house = cls(stack, people, Control(broker), await people.add(administrator=True))
                await house.listening()
                yield house
                await pool.close()

    async def room(self, owner: Person | None = None) -> Room:
        """A workspace of somebody new, or of `owner`."""
        owner = owner or await self.people.add()
        number = next(_names)
        workspace, task, session = f"workspace{number}", f"task{number}", f"session{number}"
        pool = self.stack.pool
        await pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ($1, $2)", workspace, owner.id)
        await pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, $2)", task, workspace)
        await self.stack.session(session, task)
        return Room(owner, workspace, task, session)

    async def guest(self, room: Room) -> Person:
        """A member of a workspace."""
        person = await self.people.add()
        await self.stack.pool.execute(
            "INSERT INTO workspace_members (workspace_id, user_id) VALUES ($1, $2)", room.workspace, person.id
        )
        return person

    async def plugin(self, plugin_id: str | None = None, **more: Any) -> str:
        """Installs a plugin, or upgrades it, tells of it, and waits until both gateways know; its id."""
        plugin_id = plugin_id or f"plugin-{next(_names)}"
        generation = await install(self.stack, plugin_id, gateways=(), **more)
        await self.announce(PluginChanged(plugin_id=plugin_id))
        active = more.get("status", "active") == "active"
        for gateway in GATEWAYS:
            await known(self.stack, plugin_id, gateway, generation if active else None, self.first.bearer)
        return plugin_id

    async def listening(self) -> None:
        """Waits until both gateways hear what is announced: an entry from before is none for them."""
        await install(self.stack, "heard", gateways=())

        async def heard() -> bool:
            await self.announce(PluginChanged(plugin_id="heard"))
            path = "/api/plugins/heard/conversation/binding"
            answers = [await self.stack.call("GET", path, gateway=name, headers=self.first.bearer) for name in GATEWAYS]
            return all(status == 200 for status, _ in answers)

        await eventually(heard)

    async def announce(self, change: Change) -> None:
        """Tells the gateways, as one of them would."""
        await self.control.announce(change)

    async def connect(self, person: Person, gateway: str = SECOND) -> SocketClient:
        """Somebody's WebSocket."""
        return await self.stack.connect(gateway, headers=person.bearer)

    async def bound(self, person: Person, plugin_id: str, gateway: str = SECOND) -> Json:
        """What a plugin's browser part adds to a subscription."""
        path = f"/api/plugins/{plugin_id}/conversation/binding"
        status, body = await self.stack.call("GET", path, gateway=gateway, headers=person.bearer)
        assert status == 200, body
        return {
            "consumer_kind": "plugin",
            "plugin_id": plugin_id,
            "generation": body["generation"],
            "binding_token": body["bindingToken"],
        }


class Followers:
    """A room's owner and a guest, each on the second gateway: as core consumers, and for two plugins."""

    def __init__(self, house: House, room: Room, guest: Person, plugins: tuple[str, str]) -> None:
        self.house = house
        self.room = room
        self.guest = guest
        self.plugins = plugins
        self.clients: dict[str, SocketClient] = {}

    async def subscribe(self) -> None:
        """Opens every scope."""
        for name, person in (("owner", self.room.owner), ("guest", self.guest)):
            client = self.clients[name] = await self.house.connect(person)
            assert (await client.subscribe(self.room.session, "core"))["success"]
            for plugin in self.plugins:
                bound = await self.house.bound(person, plugin)
                assert (await client.subscribe(self.room.session, plugin, **bound))["success"]

    async def left(self, ended: set[tuple[str, str]]) -> None:
        """Waits until these scopes have ended; sees that each was told so once, and that all others go on."""
        for name, scope_id in ended:
            client = self.clients[name]
            await client.until(lambda client=client, scope=scope_id: client.terminals(scope) == 1)  # type: ignore[misc] # bound
        await self.house.stack.add(self.room.session, f"m-{self.room.session}", task_id=self.room.task)
        revision = await self.house.stack.revision(self.room.session)
        for name, client in self.clients.items():
            for scope_id in ("core", *self.plugins):
                if (name, scope_id) in ended:
                    continue
                await client.reached(revision, scope_id)
                assert client.terminals(scope_id) == 0
        for name, scope_id in ended:
            frames = self.clients[name].frames(scope_id)
            assert [("terminal" in frame) for frame in frames].count(True) == 1
            assert "terminal" in frames[-1]
            assert all(
                operation["id"] != f"m-{self.room.session}" for each in frames for operation in each["operations"]
            )
        assert all(client.removals(self.room.session) == 0 for client in self.clients.values())


async def followers(house: House) -> Followers:
    """Everybody follows."""
    room = await house.room()
    plugins = (await house.plugin(), await house.plugin())
    found = Followers(house, room, await house.guest(room), plugins)
    await found.subscribe()
    return found


async def disable(house: House, plugin: str) -> None:
    """By SQL."""
    await set_status(house.stack, plugin, "disabled", gateways=())


async def remove(house: House, plugin: str) -> None:
    """By SQL."""
    await house.stack.pool.execute("DELETE FROM gateway.plugins WHERE id = $1", plugin)


async def upgrade(house: House, plugin: str) -> None:
    """By SQL."""
    await install(house.stack, plugin, "1.0.1", gateways=())


async def take_capability(house: House, plugin: str) -> None:
    """An upgrade, by SQL, to a manifest that no longer asks for messages."""
    await install(house.stack, plugin, "1.0.1", reads=(), gateways=())


CHANGES: tuple[PluginChange, ...] = (disable, remove, upgrade, take_capability)
"""What ends the scopes of a plugin."""


async def refused_as_if_there_were_none(found: Followers, name: str) -> None:
    """Lost access and a session that never was look alike."""
    client = found.clients[name]
    refused = await client.subscribe(found.room.session, "again")
    absent = await client.subscribe("nowhere", "again")
    assert refused["error"] == absent["error"]
    assert refused["error"]["code"] == "not_found"


async def ended_with_a_word_each(found: Followers) -> None:
    """The guest's connection is closed, every scope having been told; the owner's goes on."""
    guest = found.clients.pop("guest")
    assert await guest.ended() == 4401
    assert [guest.terminals(scope_id) for scope_id in ("core", *found.plugins)] == [1, 1, 1]
    assert guest.removals(found.room.session) == 0
    await found.left(set())
