"""Accounts, as administrators manage them."""

import asyncio

import pytest

from shared.contracts import streams
from shared.contracts.control import AccountChanged
from tests.integration.identity.people import PASSWORD, SECOND, People, Person, sign_in
from tests.support.stack import Stack
from tests.support.waiting import eventually

USERS = "/api/v1/users"


async def test_only_administrators_manage_accounts(guarded: Stack, person: Person) -> None:
    refused = (403, {"error": "only an administrator may do this"})
    body = {"username": "x", "password": PASSWORD}
    for method, path in (("GET", USERS), ("POST", USERS), ("PATCH", f"{USERS}/{person.id}")):
        assert await guarded.call(method, path, json=body, headers=person.bearer) == refused
        assert (await guarded.call(method, path, json=body))[0] == 401


async def test_an_account_is_added_listed_and_changed(guarded: Stack, administrator: Person) -> None:
    body = {"username": " Carol ", "password": PASSWORD, "display_name": "Carol C."}
    status, made = await guarded.call("POST", USERS, json=body, headers=administrator.bearer)
    assert status == 201
    assert made == {
        "id": made["id"],
        "username": "Carol",
        "display_name": "Carol C.",
        "administrator": False,
        "disabled": False,
        "created_at": made["created_at"],
    }
    taken = await guarded.call("POST", USERS, json={**body, "username": "CAROL"}, headers=administrator.bearer)
    assert taken == (409, {"error": "this username is taken"})
    _, listed = await guarded.call("GET", USERS, headers=administrator.bearer)
    assert made in listed["users"]  # type: ignore[operator] # a list, or the test fails
    await sign_in(guarded, "carol")
    path = f"{USERS}/{made['id']}"
    changes = {"display_name": "", "administrator": True, "password": "another horse"}
    changed = await guarded.call("PATCH", path, json=changes, headers=administrator.bearer)
    assert changed == (200, {**made, "display_name": "", "administrator": True})
    await sign_in(guarded, "carol", "another horse")
    assert await guarded.call("PATCH", path, json={}, headers=administrator.bearer) == changed


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"username": "", "password": PASSWORD},
        {"username": "   ", "password": PASSWORD},
        {"username": "a\nb", "password": PASSWORD},
        {"username": "a\x00b", "password": PASSWORD},
        {"username": "a" * 101, "password": PASSWORD},
        {"username": "dave", "password": "seven77"},
        {"username": "dave", "password": "ä" * 513},
        {"username": "dave", "password": PASSWORD, "administrator": "yes"},
        {"username": "dave", "password": PASSWORD, "display_name": "a\x00b"},
    ],
)
async def test_an_account_that_cannot_be(guarded: Stack, administrator: Person, body: dict[str, object]) -> None:
    assert (await guarded.call("POST", USERS, json=body, headers=administrator.bearer))[0] == 400


@pytest.mark.parametrize("user_id", ["nobody", "%00", "x" * 400, "%ED%A0%80"])
async def test_who_is_not_there(guarded: Stack, administrator: Person, user_id: str) -> None:
    missing = (404, {"error": "there is no such user"})
    changes = {"display_name": "x"}
    assert await guarded.call("PATCH", f"{USERS}/{user_id}", json=changes, headers=administrator.bearer) == missing


async def test_who_is_no_administrator_any_more_is_none_at_once(guarded: Stack, people: People) -> None:
    """Here without looking, and every other gateway is told."""
    first, second = await people.add(administrator=True), await people.add(administrator=True)
    for gateway in ("gateway", SECOND):
        assert (await guarded.call("GET", USERS, gateway=gateway, headers=second.bearer))[0] == 200
    path = f"{USERS}/{second.id}"
    assert (await guarded.call("PATCH", path, json={"administrator": False}, headers=first.bearer))[0] == 200
    assert (await guarded.call("GET", USERS, headers=second.bearer))[0] == 403
    entries = await guarded.redis.xrevrange(streams.CONTROL, count=20)
    assert entries is not None
    told = [AccountChanged(user=second.id).model_dump_json() in str(fields) for _, fields in entries]
    assert any(told)
    await eventually(
        lambda: guarded.call("GET", USERS, gateway=SECOND, headers=second.bearer), lambda found: found[0] == 403
    )


async def test_the_last_active_administrator_stays_one(guarded: Stack, people: People) -> None:
    """Also where the two that are left are demoted at the same moment."""
    await guarded.pool.execute("UPDATE gateway.users SET is_admin = false")
    first, second = await people.add(administrator=True), await people.add(administrator=True)
    demoted = await asyncio.gather(
        *(
            guarded.call("PATCH", f"{USERS}/{who.id}", json=change, headers=who.bearer)
            for who, change in ((first, {"administrator": False}), (second, {"disabled": True}))
        )
    )
    assert sorted(status for status, _ in demoted) == [200, 409]
    active = await guarded.pool.fetch("SELECT id FROM gateway.users WHERE is_admin AND disabled_at IS NULL")
    assert len(active) == 1
