"""What ends with a credential: what it opened, at every gateway, with a terminal frame for each scope."""

from collections.abc import Mapping

import pytest

from tests.integration.identity.people import PASSWORD, SECOND, People, Person, sign_in, with_cookie
from tests.support.socket_client import SocketClient
from tests.support.stack import Stack
from tests.support.waiting import eventually

UNAUTHENTICATED = 4401


async def following(stack: Stack, headers: Mapping[str, str], gateway: str = SECOND) -> SocketClient:
    """A client that follows a session everyone may see."""
    client = await stack.connect(gateway, headers=headers)
    assert (await client.subscribe("everyones", "one"))["success"]
    assert (await client.subscribe("everyones", "two"))["success"]
    return client


async def ended(client: SocketClient) -> None:
    """Fails unless the connection ends as it must."""
    assert await client.ended() == UNAUTHENTICATED
    assert [client.terminals(scope) for scope in ("one", "two")] == [1, 1]


@pytest.fixture(autouse=True)
async def session(guarded: Stack) -> None:
    """The session that is followed."""
    await guarded.pool.execute(
        "INSERT INTO task_sessions (id, task_id) VALUES ('everyones', 't') ON CONFLICT DO NOTHING"
    )


async def test_signing_out_ends_its_own_connections(guarded: Stack, person: Person) -> None:
    value = await sign_in(guarded, person.username)
    other = with_cookie(guarded, await sign_in(guarded, person.username), SECOND)
    there, here = (
        await following(guarded, with_cookie(guarded, value, SECOND)),
        await following(guarded, with_cookie(guarded, value), "gateway"),
    )
    staying = [await following(guarded, other), await following(guarded, person.bearer)]
    assert (await guarded.call("POST", "/api/v1/auth/logout", headers=with_cookie(guarded, value)))[0] == 200
    await ended(there)
    await ended(here)
    for client in staying:
        assert (await client.subscribe("everyones", "three"))["success"]
    refused = await guarded.call(
        "GET", "/api/v1/workspaces", gateway=SECOND, headers=with_cookie(guarded, value, SECOND)
    )
    assert refused[0] == 401


async def test_revoking_a_token_ends_what_it_opened(guarded: Stack, person: Person) -> None:
    client = await following(guarded, person.bearer)
    assert (await guarded.call("DELETE", f"/api/v1/auth/tokens/{person.token_id}", headers=person.bearer))[0] == 200
    await ended(client)
    assert (await guarded.call("GET", "/api/v1/workspaces", gateway=SECOND, headers=person.bearer))[0] == 401


async def test_disabling_an_account_ends_everything_of_it(guarded: Stack, person: Person, people: People) -> None:
    administrator = await people.add(administrator=True)
    value = await sign_in(guarded, person.username)
    clients = [
        await following(guarded, person.bearer),
        await following(guarded, with_cookie(guarded, value, SECOND)),
        await following(guarded, person.bearer, "gateway"),
    ]
    staying = await following(guarded, administrator.bearer)
    path = f"/api/v1/users/{person.id}"
    assert (await guarded.call("PATCH", path, json={"disabled": True}, headers=administrator.bearer))[0] == 200
    for client in clients:
        await ended(client)
    assert (await staying.subscribe("everyones", "three"))["success"]
    assert (await guarded.call("GET", "/api/v1/workspaces", gateway=SECOND, headers=person.bearer))[0] == 401
    assert (await guarded.call("PATCH", path, json={"disabled": False}, headers=administrator.bearer))[0] == 200
    await eventually(
        lambda: guarded.call("GET", "/api/v1/workspaces", headers=person.bearer), lambda got: got[0] == 200
    )
    old = with_cookie(guarded, value)
    assert (await guarded.call("GET", "/api/v1/workspaces", headers=old))[0] == 401


async def test_another_password_ends_the_sessions_and_leaves_the_tokens(
    guarded: Stack, person: Person, administrator: Person
) -> None:
    value = await sign_in(guarded, person.username)
    by_session = await following(guarded, with_cookie(guarded, value, SECOND))
    by_token = await following(guarded, person.bearer)
    changed = await guarded.call(
        "PATCH", f"/api/v1/users/{person.id}", json={"password": PASSWORD + "!"}, headers=administrator.bearer
    )
    assert changed[0] == 200
    await ended(by_session)
    assert (await by_token.subscribe("everyones", "three"))["success"]


CHANGES: Mapping[str, str] = {
    "a token that is deleted": "DELETE FROM gateway.access_tokens WHERE user_id = $1",
    "a token that expires": "UPDATE gateway.access_tokens SET expires_at = now() WHERE user_id = $1",
    "an account that is disabled": "UPDATE gateway.users SET disabled_at = now() WHERE id = $1",
    "an account that is deleted": "DELETE FROM gateway.users WHERE id = $1",
}


async def test_what_plain_sql_changes_is_found_by_the_check(guarded: Stack, people: People) -> None:
    opened = []
    for statement in CHANGES.values():
        person = await people.add()
        opened.append((statement, person, await following(guarded, person.bearer)))
    staying = await people.add()
    client = await following(guarded, staying.bearer)
    session = await people.add()
    by_cookie = await following(guarded, with_cookie(guarded, await sign_in(guarded, session.username), SECOND))
    for statement, person, _ in opened:
        await guarded.pool.execute(statement, person.id)
    await guarded.pool.execute("UPDATE gateway.login_sessions SET expires_at = now() WHERE user_id = $1", session.id)
    for _, _, each in opened:
        await ended(each)
    await ended(by_cookie)
    assert (await client.subscribe("everyones", "three"))["success"]
