"""Who may do what with plugins where there are accounts."""

import itertools
from typing import Any

import pytest

from tests.integration.identity.people import SECOND, People, Person
from tests.support.plugins import install, known, manifest, package, upload
from tests.support.stack import Stack

_numbers = itertools.count()

MANAGEMENT = (
    ("POST", "/api/plugins/install"),
    ("POST", "/api/plugins/{}/enable"),
    ("POST", "/api/plugins/{}/disable"),
    ("DELETE", "/api/plugins/{}"),
    ("GET", "/api/plugins/{}/config"),
    ("PATCH", "/api/plugins/{}/config"),
)
READING = ("/api/plugins", "/api/plugins/{}", "/api/plugins/{}/bundle", "/api/plugins/{}/ui/ui/bundle.js")


@pytest.fixture
async def plugin_id(guarded: Stack, person: Person) -> str:
    name = f"rights{next(_numbers)}"
    await install(guarded, name, gateways=("gateway", SECOND), headers=person.bearer)
    return name


async def test_managing_is_for_administrators_and_refused_before_anything_is_read(
    guarded: Stack, person: Person, plugin_id: str
) -> None:
    for method, path in MANAGEMENT:
        for name in (plugin_id, "unknown"):
            status, _ = await guarded.call(method, path.format(name), data=b"\x00 no body that is one")
            assert status == 401
            status, _ = await guarded.call(method, path.format(name), headers=person.bearer, data=b"\x00 no body")
            assert status == 403
    row = await guarded.pool.fetchrow("SELECT status, version FROM gateway.plugins WHERE id = $1", plugin_id)
    assert tuple(row) == ("active", "1.0.0")


async def test_reading_is_for_whoever_is_signed_in(guarded: Stack, person: Person, plugin_id: str) -> None:
    for path in READING:
        assert (await guarded.call("GET", path.format(plugin_id)))[0] == 401
        url = guarded.url + path.format(plugin_id)
        async with guarded.http.get(url, headers=person.bearer) as answer:
            assert answer.status == 200
    assert (await guarded.call("GET", "/api/plugins/unknown", headers=person.bearer))[0] == 404


async def test_an_administrator_manages(guarded: Stack, person: Person, administrator: Person) -> None:
    name = f"managed{next(_numbers)}"
    assert (await upload(guarded, package(manifest(name)), headers=person.bearer))[0] == 403
    status, body = await upload(guarded, package(manifest(name)), headers=administrator.bearer)
    assert status == 201
    await known(guarded, name, SECOND, body["plugin"]["generation"], person.bearer)
    assert (await guarded.call("DELETE", f"/api/plugins/{name}", headers=administrator.bearer))[0] == 200
    await known(guarded, name, SECOND, None, person.bearer)


async def test_state_is_each_users_own(guarded: Stack, people: People, plugin_id: str) -> None:
    one, other = await people.add(), await people.add(administrator=True)
    path = f"/api/plugins/{plugin_id}/user-state/task/t"
    assert (await guarded.call("GET", path))[0] == 401
    await guarded.call("PUT", f"{path}/mine", headers=one.bearer, json={"value": "planted-secret"})
    assert (await guarded.call("GET", f"{path}/mine", headers=other.bearer))[0] == 404
    assert await guarded.call("GET", path, headers=other.bearer) == (200, {"entries": []})
    assert (await guarded.call("DELETE", f"{path}/mine", headers=other.bearer))[0] == 200
    status, _ = await guarded.call(
        "PUT", f"{path}/mine", headers=other.bearer, json={"value": 1, "ifUnmodifiedSince": "2100-01-01T00:00:00Z"}
    )
    assert status == 409
    _, found = await guarded.call("GET", f"{path}/mine", headers=one.bearer)
    assert found["value"] == "planted-secret"


async def test_a_change_is_told_to_the_user_alone_on_every_gateway(
    guarded: Stack, people: People, plugin_id: str
) -> None:
    one, other = await people.add(), await people.add(administrator=True)
    mine = [await guarded.connect(gateway, headers=one.bearer) for gateway in ("gateway", SECOND)]
    theirs = [await guarded.connect(gateway, headers=other.bearer) for gateway in ("gateway", SECOND)]
    path = f"/api/plugins/{plugin_id}/user-state/task/t"

    def keys(messages: list[dict[str, Any]]) -> list[str]:
        return [each["payload"]["key"] for each in messages if each["action"] == "plugin.user-state.updated"]

    await guarded.call("PUT", f"{path}/mine", headers=one.bearer, json={"value": 1})
    await guarded.call("PUT", f"{path}/theirs", headers=other.bearer, json={"value": 1})
    for client in mine:
        await client.until(lambda client=client: keys(client.messages) != [])  # type: ignore[misc] # its default is the client
    for client in theirs:
        # Entries come in the order in which they were announced: nothing of the first is still under way.
        await client.until(lambda client=client: keys(client.messages) != [])  # type: ignore[misc] # as above
        assert keys(client.messages) == ["theirs"]
    assert all(keys(client.messages) == ["mine"] for client in mine)
