"""Installing, upgrading, switching, configuring and removing plugins."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.gateway.plugins.masking import MASK
from tests.support.plugins import known, manifest, package, sealed, upload
from tests.support.stack import Stack
from tests.support.waiting import eventually

Json = dict[str, Any]  # any: bodies are looked at field by field

_numbers = itertools.count()

SETTINGS: Json = {
    "type": "object",
    "properties": {
        "lines": {"type": "integer", "enum": [2, 3, 5]},
        "token": {"type": "string", "format": "password"},
        "old": {"type": "string"},
    },
    "required": ["lines"],
}


@pytest.fixture
def plugin_id() -> str:
    """An id that no other test of the module uses."""
    return f"plugin{next(_numbers)}"


async def record(stack: Stack, plugin_id: str, gateway: str = "gateway") -> Json:
    status, body = await stack.call("GET", f"/api/plugins/{plugin_id}", gateway=gateway)
    assert status == 200, body
    return dict(body)


async def stored(stack: Stack, plugin_id: str) -> Json | None:
    row = await stack.pool.fetchrow("SELECT * FROM gateway.plugins WHERE id = $1", plugin_id)
    return None if row is None else dict(row)


async def packages(stack: Stack, plugin_id: str) -> list[str]:
    rows = await stack.pool.fetch(
        "SELECT version FROM gateway.plugin_packages WHERE plugin_id = $1 ORDER BY version", plugin_id
    )
    return [row["version"] for row in rows]


async def post(stack: Stack, plugin_id: str, what: str) -> tuple[int, Json]:
    status, body = await stack.call("POST", f"/api/plugins/{plugin_id}/{what}")
    return status, dict(body)


async def test_an_installed_plugin_is_active_and_told_as_its_manifest_says(shared_stack: Stack, plugin_id: str) -> None:
    keys = [{"id": "open", "default": "mod+shift+K", "description": "Open"}]
    declared = manifest(plugin_id, more={"ui": {"bundle": "/ui/bundle.js", "keybindings": keys}})
    status, body = await upload(shared_stack, package(declared))
    assert status == 201, body
    plugin = body["plugin"]
    assert "warning" not in body
    assert (plugin["status"], plugin["signed"], plugin["version"]) == ("active", False, "1.0.0")
    assert plugin["ui"]["keybindings"][0]["id"] == "open"
    assert await record(shared_stack, plugin_id) == plugin
    _, listed = await shared_stack.call("GET", "/api/plugins")
    assert plugin in listed["plugins"]  # type: ignore[operator] # a list, as the document says
    row = await stored(shared_stack, plugin_id)
    assert row is not None
    assert int(row["installed_at"].timestamp() * 1_000_000) == pytest.approx(plugin["generation"], abs=1)


async def test_what_needs_a_process_is_installed_and_said_to_have_no_effect(
    shared_stack: Stack, plugin_id: str
) -> None:
    declared = manifest(plugin_id, more={"webhooks": [{"key": "in"}]})
    status, body = await upload(shared_stack, package(declared))
    assert status == 201
    assert body["warning"] == "this host runs no plugin processes; not in effect: webhooks"
    for what in ("webhooks/in", "webhooks/in/more", "actions/save"):
        assert (await post(shared_stack, plugin_id, what))[0] == 404


async def test_what_is_probably_misspelt_is_said(shared_stack: Stack, plugin_id: str) -> None:
    declared = manifest(plugin_id, reads=("messages", "mesages"), more={"webhooks": [{"key": "in", "acess": "public"}]})
    _, body = await upload(shared_stack, package(declared))
    assert body["warning"] == (
        "this host runs no plugin processes; not in effect: webhooks; "
        'the key "webhooks.acess" is unknown here and counts for nothing; did you mean access?; '
        'api_read "mesages" is nothing that plugins can read; did you mean messages?'
    )


async def test_a_plugin_that_could_not_be_asked_for_is_refused(shared_stack: Stack) -> None:
    status, body = await upload(shared_stack, package(manifest("install")))
    assert (status, "an address of the host has this name" in body["error"]) == (400, True)


async def test_the_same_version_again_is_a_conflict(shared_stack: Stack, plugin_id: str) -> None:
    assert (await upload(shared_stack, package(manifest(plugin_id))))[0] == 201
    before = await stored(shared_stack, plugin_id)
    status, body = await upload(shared_stack, package(manifest(plugin_id), **{"ui/other.js": b"1"}))
    assert (status, body) == (409, {"error": f"version 1.0.0 of plugin {plugin_id} is installed already"})
    assert await stored(shared_stack, plugin_id) == before


@pytest.mark.parametrize("version", ["2.0.0", "0.9.0"])
async def test_another_version_takes_the_place_of_the_first(shared_stack: Stack, plugin_id: str, version: str) -> None:
    _, first = await upload(shared_stack, package(manifest(plugin_id)))
    await shared_stack.call(
        "PUT", f"/api/plugins/{plugin_id}/user-state/instance/x/kept", json={"value": "still there"}
    )
    status, second = await upload(shared_stack, package(manifest(plugin_id, version)))
    assert status == 201
    assert second["plugin"]["version"] == version
    assert second["plugin"]["generation"] > first["plugin"]["generation"]
    assert await packages(shared_stack, plugin_id) == [version]
    async with shared_stack.http.get(f"{shared_stack.url}/api/plugins/{plugin_id}/bundle") as answer:
        assert await answer.text() == f'export default "{version}";\n'
    _, kept = await shared_stack.call("GET", f"/api/plugins/{plugin_id}/user-state/instance/x/kept")
    assert kept["value"] == "still there"


async def test_a_refused_upgrade_leaves_everything_as_it_was(shared_stack: Stack, plugin_id: str) -> None:
    await upload(shared_stack, package(manifest(plugin_id)))
    before = await stored(shared_stack, plugin_id)
    newer = manifest(plugin_id, "2.0.0")
    refused = (
        package(newer)[:-20],
        sealed({"manifest.yaml": b"id: x"}),
        package(manifest(plugin_id, "2.0.0", more={"min_kandev_version": "99.0.0"})),
        package(manifest(plugin_id, "2.0.0", more={"min_kandev_version": "0.91.0"})),
        b"",
    )
    for archive in refused:
        status, body = await upload(shared_stack, archive)
        assert status == 400, body
    assert await stored(shared_stack, plugin_id) == before
    assert await packages(shared_stack, plugin_id) == ["1.0.0"]


async def test_an_upgrade_that_fails_in_its_transaction_leaves_everything_as_it_was(
    shared_stack: Stack, plugin_id: str
) -> None:
    await upload(shared_stack, package(manifest(plugin_id)))
    before = await stored(shared_stack, plugin_id)
    await shared_stack.pool.execute(
        f"ALTER TABLE gateway.plugins ADD CONSTRAINT no_second CHECK (id <> '{plugin_id}' OR version = '1.0.0')"
    )
    try:
        status, _ = await upload(shared_stack, package(manifest(plugin_id, "2.0.0")))
    finally:
        await shared_stack.pool.execute("ALTER TABLE gateway.plugins DROP CONSTRAINT no_second")
    assert status == 500
    assert await stored(shared_stack, plugin_id) == before
    assert await packages(shared_stack, plugin_id) == ["1.0.0"]
    assert (await record(shared_stack, plugin_id))["version"] == "1.0.0"


async def test_what_the_host_must_be_is_compared_with_what_it_answers_to(shared_stack: Stack, plugin_id: str) -> None:
    status, body = await upload(shared_stack, package(manifest(plugin_id, more={"min_kandev_version": "0.95.1"})))
    assert (status, body) == (400, {"error": "plugins: requires kandev >= 0.95.1, running 0.95.0"})
    assert (await upload(shared_stack, package(manifest(plugin_id, more={"min_kandev_version": "v0.95"}))))[0] == 201


async def test_the_transitions(shared_stack: Stack, plugin_id: str) -> None:
    await upload(shared_stack, package(manifest(plugin_id)))
    assert await post(shared_stack, plugin_id, "enable") == (
        409,
        {"error": "the plugin is active already"},
    )
    assert await post(shared_stack, plugin_id, "disable") == (200, {"disabled": True})
    assert (await record(shared_stack, plugin_id))["status"] == "disabled"
    assert await post(shared_stack, plugin_id, "disable") == (409, {"error": "the plugin is disabled already"})
    assert await post(shared_stack, plugin_id, "enable") == (200, {"enabled": True})
    assert (await record(shared_stack, plugin_id))["status"] == "active"
    for what in ("enable", "disable"):
        for unknown in ("nobody", "%00", "a" * 5000, "%ff", "..%2f.."):
            assert (await post(shared_stack, unknown, what))[0] == 404


async def test_an_upgrade_of_a_disabled_plugin_leaves_it_disabled(shared_stack: Stack, plugin_id: str) -> None:
    await upload(shared_stack, package(manifest(plugin_id)))
    await post(shared_stack, plugin_id, "disable")
    _, body = await upload(shared_stack, package(manifest(plugin_id, "1.1.0")))
    assert body["plugin"]["status"] == "disabled"


async def test_a_package_that_cannot_be_served_is_an_error_until_another_is_installed(
    shared_stack: Stack, plugin_id: str
) -> None:
    await upload(shared_stack, package(manifest(plugin_id)))
    await post(shared_stack, plugin_id, "disable")
    await shared_stack.pool.execute(
        "UPDATE gateway.plugin_packages SET archive = 'not it' WHERE plugin_id = $1", plugin_id
    )
    status, body = await post(shared_stack, plugin_id, "enable")
    assert status == 409
    assert body["error"].startswith("the plugin cannot be enabled: ")
    found = await record(shared_stack, plugin_id)
    assert found["status"] == "error"
    assert found["last_error"] in body["error"]
    assert found["last_error_at"] is not None
    async with shared_stack.http.get(f"{shared_stack.url}/api/plugins/{plugin_id}/bundle") as answer:
        assert (answer.status, await answer.json()) == (503, {"error": "plugin is not active"})
    _, body = await upload(shared_stack, package(manifest(plugin_id, "1.0.1")))
    assert (body["plugin"]["status"], body["plugin"]["last_error"]) == ("active", None)


async def test_an_active_plugin_whose_package_is_broken_is_found_when_it_is_asked_for(
    shared_stack: Stack, plugin_id: str
) -> None:
    await upload(shared_stack, package(manifest(plugin_id)))
    await shared_stack.pool.execute(
        "UPDATE gateway.plugin_packages SET archive = 'not it' WHERE plugin_id = $1", plugin_id
    )
    async with shared_stack.http.get(f"{shared_stack.url}/api/plugins/{plugin_id}/bundle") as answer:
        assert answer.status == 503
    found = await record(shared_stack, plugin_id)
    assert found["status"] == "error"
    assert found["last_error"]


async def test_nothing_is_left_of_a_removed_plugin(shared_stack: Stack, plugin_id: str) -> None:
    await upload(shared_stack, package(manifest(plugin_id, more={"config_schema": SETTINGS})))
    path = f"/api/plugins/{plugin_id}"
    await shared_stack.call("PUT", f"{path}/user-state/instance/x/k", json={"value": 1})
    await shared_stack.call("PATCH", f"{path}/config", json={"config": {"lines": 2}})
    assert await shared_stack.call("DELETE", path) == (200, {"deleted": True})
    for method, rest in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/config"),
        ("PATCH", "/config"),
        ("GET", "/bundle"),
        ("GET", "/ui/ui/bundle.js"),
        ("GET", "/user-state/instance/x"),
        ("POST", "/enable"),
        ("POST", "/disable"),
    ):
        sent: Json | None = {"config": {}} if method == "PATCH" else None
        status, body = await shared_stack.call(method, path + rest, json=sent)
        assert status == 404, (method, rest, body)
    assert await packages(shared_stack, plugin_id) == []
    count = await shared_stack.pool.fetchval(
        "SELECT count(*) FROM gateway.plugin_user_state WHERE plugin_id = $1", plugin_id
    )
    assert count == 0


async def test_generations_never_repeat_whatever_the_clock_and_removals_do(shared_stack: Stack, plugin_id: str) -> None:
    _, body = await upload(shared_stack, package(manifest(plugin_id)))
    ahead = 10 * 365 * 86_400_000_000
    await shared_stack.pool.execute(
        "UPDATE gateway.plugins SET installed_at = installed_at + interval '3650 days' WHERE id = $1", plugin_id
    )
    _, second = await upload(shared_stack, package(manifest(plugin_id, "2.0.0")))
    assert second["plugin"]["generation"] > body["plugin"]["generation"] + ahead - 1
    await shared_stack.call("DELETE", f"/api/plugins/{plugin_id}")
    _, third = await upload(shared_stack, package(manifest(plugin_id, "2.0.0")))
    assert third["plugin"]["generation"] > second["plugin"]["generation"]


async def test_settings_are_checked_masked_and_kept(shared_stack: Stack, plugin_id: str) -> None:
    await upload(shared_stack, package(manifest(plugin_id, more={"config_schema": SETTINGS})))
    path = f"/api/plugins/{plugin_id}/config"
    assert await shared_stack.call("GET", path) == (200, {"config": {}})
    status, body = await shared_stack.call("PATCH", path, json={"config": {"lines": 4, "token": "planted-secret"}})
    assert status == 400
    assert "planted-secret" not in str(body)
    answered = await shared_stack.call("PATCH", path, json={"config": {"lines": 3, "token": "planted-secret"}})
    assert answered == (200, {"updated": True})
    assert await shared_stack.call("GET", path) == (200, {"config": {"lines": 3, "token": MASK}})
    await shared_stack.call("PATCH", path, json={"config": {"lines": 5, "token": MASK}})
    row = await stored(shared_stack, plugin_id)
    assert row is not None
    assert row["config"] == '{"lines": 5, "token": "planted-secret"}'
    assert "planted-secret" not in str(await record(shared_stack, plugin_id))


async def test_defaults_are_shown_and_count_and_are_not_kept(shared_stack: Stack, plugin_id: str) -> None:
    settings = {**SETTINGS, "properties": {**SETTINGS["properties"], "lines": {"type": "integer", "default": 3}}}
    await upload(shared_stack, package(manifest(plugin_id, more={"config_schema": settings})))
    path = f"/api/plugins/{plugin_id}/config"
    assert await shared_stack.call("GET", path) == (200, {"config": {"lines": 3}})
    assert await shared_stack.call("PATCH", path, json={"config": {"old": "o"}}) == (200, {"updated": True})
    assert await shared_stack.call("GET", path) == (200, {"config": {"lines": 3, "old": "o"}})
    row = await stored(shared_stack, plugin_id)
    assert row is not None
    assert row["config"] == '{"old": "o"}'


async def test_a_mask_that_stands_for_nothing_is_refused(shared_stack: Stack, plugin_id: str) -> None:
    await upload(shared_stack, package(manifest(plugin_id, more={"config_schema": SETTINGS})))
    status, body = await shared_stack.call(
        "PATCH", f"/api/plugins/{plugin_id}/config", json={"config": {"lines": 2, "token": MASK}}
    )
    assert status == 400
    assert "no secret is stored there" in str(body["error"])


async def test_settings_are_read_while_another_change_is_under_way(shared_stack: Stack, plugin_id: str) -> None:
    await upload(shared_stack, package(manifest(plugin_id, more={"config_schema": SETTINGS})))
    async with shared_stack.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(7205, 9)")
        await connection.execute("SELECT 1 FROM gateway.plugins WHERE id = $1 FOR UPDATE", plugin_id)
        found = await shared_stack.call("GET", f"/api/plugins/{plugin_id}/config")
    assert found == (200, {"config": {}})


async def test_a_stored_schema_outside_of_the_language_makes_everything_secret(
    shared_stack: Stack, plugin_id: str
) -> None:
    _, body = await upload(shared_stack, package(manifest(plugin_id, more={"config_schema": SETTINGS})))
    await shared_stack.pool.execute(
        """UPDATE gateway.plugins SET config = '{"a": "planted-secret"}', installed_at = installed_at + interval '1 s',
                  manifest = jsonb_set(manifest, '{config_schema}', '{"type": "object", "$recursiveRef": "#"}')
            WHERE id = $1""",
        plugin_id,
    )
    await known(shared_stack, plugin_id, "gateway", body["plugin"]["generation"] + 1_000_000)
    path = f"/api/plugins/{plugin_id}/config"
    assert await shared_stack.call("GET", path) == (200, {"config": {"a": MASK}})
    assert await shared_stack.call("PATCH", path, json={"config": {"a": MASK, "b": 1}}) == (200, {"updated": True})


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"config": []}', b'{"config": null}', b'{"config": {"lines": "2"}}', b"\xff"]
)
async def test_settings_that_are_none_are_refused(shared_stack: Stack, plugin_id: str, body: bytes) -> None:
    await upload(shared_stack, package(manifest(plugin_id, more={"config_schema": SETTINGS})))
    status, _ = await shared_stack.call("PATCH", f"/api/plugins/{plugin_id}/config", data=body)
    assert status == 400


async def test_text_that_no_row_can_hold_is_refused_in_settings(shared_stack: Stack, plugin_id: str) -> None:
    await upload(shared_stack, package(manifest(plugin_id)))
    for name, value in (("a", "\x00"), ("\x00", 1), ("a", [{"b": "x\x00"}])):
        status, body = await shared_stack.call(
            "PATCH", f"/api/plugins/{plugin_id}/config", json={"config": {name: value}}
        )
        assert status == 400, body
    status, _ = await shared_stack.call("PATCH", f"/api/plugins/{plugin_id}/config", json={"config": {"a": "\\u0000"}})
    assert status == 200


async def test_an_upgrade_keeps_settings_that_are_still_described_and_reveals_no_secret(
    shared_stack: Stack, plugin_id: str
) -> None:
    await upload(shared_stack, package(manifest(plugin_id, more={"config_schema": SETTINGS})))
    path = f"/api/plugins/{plugin_id}/config"
    await shared_stack.call("PATCH", path, json={"config": {"lines": 3, "token": "planted-secret", "old": "o"}})
    open_now = {"type": "object", "properties": {"lines": {"type": "integer"}, "token": {"type": "string"}}}
    await upload(shared_stack, package(manifest(plugin_id, "2.0.0", more={"config_schema": open_now})))
    assert await shared_stack.call("GET", path) == (200, {"config": {"lines": 3}})


async def test_two_installations_at_once_never_make_a_broken_plugin(shared_stack: Stack, plugin_id: str) -> None:
    same = await asyncio.gather(*(upload(shared_stack, package(manifest(plugin_id))) for _ in range(4)))
    assert sorted(status for status, _ in same) == [201, 409, 409, 409]
    others = [f"2.{number}.0" for number in range(4)]
    answers = await asyncio.gather(*(upload(shared_stack, package(manifest(plugin_id, version))) for version in others))
    assert [status for status, _ in answers] == [201] * 4
    generations = [body["plugin"]["generation"] for _, body in answers]
    last = await record(shared_stack, plugin_id)
    assert len(set(generations)) == 4
    assert last["generation"] == max(generations)
    assert await packages(shared_stack, plugin_id) == [last["version"]]
    async with shared_stack.http.get(f"{shared_stack.url}/api/plugins/{plugin_id}/bundle") as answer:
        assert await answer.text() == f'export default "{last["version"]}";\n'


@pytest.fixture(scope="module")
async def second(shared_stack: Stack) -> AsyncIterator[Stack]:
    """The stack with a second gateway."""
    await shared_stack.start("gateway", name="second")
    await shared_stack.ready("second")
    yield shared_stack
    await shared_stack.stop("second")


async def test_another_gateway_knows_each_change(second: Stack, plugin_id: str) -> None:
    _, body = await upload(second, package(manifest(plugin_id)))
    await known(second, plugin_id, "second", body["plugin"]["generation"])
    async with second.http.get(f"{second.url_of('second')}/api/plugins/{plugin_id}/bundle") as answer:
        assert await answer.text() == 'export default "1.0.0";\n'
    _, body = await upload(second, package(manifest(plugin_id, "2.0.0")), gateway="second")
    await known(second, plugin_id, "gateway", body["plugin"]["generation"])
    await second.call("POST", f"/api/plugins/{plugin_id}/disable", gateway="second")
    await known(second, plugin_id, "gateway", None)


async def test_a_change_whose_announcement_is_lost_acts_all_the_same(second: Stack, plugin_id: str) -> None:
    _, body = await upload(second, package(manifest(plugin_id)))
    await known(second, plugin_id, "second", body["plugin"]["generation"])
    await second.pool.execute("UPDATE gateway.plugins SET status = 'disabled' WHERE id = $1", plugin_id)
    for gateway in ("gateway", "second"):
        await known(second, plugin_id, gateway, None)
    await second.pool.execute("DELETE FROM gateway.plugins WHERE id = $1", plugin_id)

    async def gone() -> int:
        return (await second.call("GET", f"/api/plugins/{plugin_id}", gateway="second"))[0]

    await eventually(gone, lambda status: status == 404)


async def test_a_gateway_that_starts_finds_what_it_cannot_serve(shared_stack: Stack, plugin_id: str) -> None:
    _, body = await upload(shared_stack, package(manifest(plugin_id, more={"min_kandev_version": "0.95.0"})))
    await shared_stack.start("gateway", name="older", compat_version="0.94.9")
    try:
        await known(shared_stack, plugin_id, "gateway", None)
    finally:
        await shared_stack.stop("older")
    found = await record(shared_stack, plugin_id)
    assert found["status"] == "error"
    assert found["last_error"] == "plugins: requires kandev >= 0.95.0, running 0.94.9"
    assert found["generation"] == body["plugin"]["generation"]
    assert await post(shared_stack, plugin_id, "enable") == (200, {"enabled": True})
    assert (await record(shared_stack, plugin_id))["last_error"] is None
