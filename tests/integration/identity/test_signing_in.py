"""Signing in with a password, what its cookie proves and for how long, and how often it may fail."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from argon2 import PasswordHasher

from services.gateway.identity.accounts import Accounts
from services.gateway.identity.passwords import Passwords
from shared.contracts.errors import RequestFailed
from tests.integration.identity.people import (
    PASSWORD,
    SECOND,
    People,
    Person,
    cookie_name,
    sign_in,
    with_cookie,
)
from tests.support.stack import Stack
from tests.support.waiting import eventually

LOGIN = "/api/v1/auth/login"
ME = "/api/v1/auth/me"
NOBODY = (200, {"mode": "enabled", "user": None})
WRONG = (401, {"error": "wrong username or password"})


async def login(stack: Stack, username: str, password: str, gateway: str = "gateway") -> tuple[int, dict[str, object]]:
    """Status and body of a sign-in."""
    return await stack.call("POST", LOGIN, gateway=gateway, json={"username": username, "password": password})


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client without a memory for cookies."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session


async def test_the_cookie_proves_who_it_is(guarded: Stack, person: Person) -> None:
    value = await sign_in(guarded, f"  {person.username.upper()} ")
    user = {"id": person.id, "username": person.username, "display_name": "", "administrator": False}
    for gateway in ("gateway", SECOND):
        headers = with_cookie(guarded, value, gateway)
        assert await guarded.call("GET", ME, gateway=gateway, headers=headers) == (
            200,
            {"mode": "enabled", "user": user},
        )
    assert await guarded.call("GET", ME) == NOBODY
    row = await guarded.pool.fetchrow("SELECT id, token_hash FROM gateway.login_sessions WHERE user_id = $1", person.id)
    assert value not in row["id"]
    assert value.encode() not in row["token_hash"]


async def test_the_cookies_attributes(guarded: Stack, person: Person, http: aiohttp.ClientSession) -> None:
    """A forged X-Forwarded-Proto changes nothing: no proxy is trusted here."""
    body = {"username": person.username, "password": PASSWORD}
    async with http.post(guarded.url + LOGIN, json=body, headers={"X-Forwarded-Proto": "https"}) as answer:
        cookie = answer.cookies[cookie_name(guarded)]
        assert answer.headers["Cache-Control"] == "no-store"
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["max-age"]) == (True, "Lax", "/", "2592000")
    assert not cookie["secure"]


@pytest.mark.parametrize(
    ("username", "password"),
    [("{name}", "wrong horse battery"), ("nobody", PASSWORD), ("{name}", ""), ("{name}", PASSWORD + " ")],
)
async def test_what_was_wrong_is_not_told(guarded: Stack, person: Person, username: str, password: str) -> None:
    assert await login(guarded, username.format(name=person.username), password) == WRONG


async def test_an_account_without_a_password_is_signed_in_by_none(guarded: Stack, person: Person) -> None:
    await guarded.pool.execute("UPDATE gateway.users SET password_hash = NULL WHERE id = $1", person.id)
    assert await login(guarded, person.username, PASSWORD) == WRONG


async def test_a_disabled_account_is_nobody(guarded: Stack, person: Person) -> None:
    await guarded.pool.execute("UPDATE gateway.users SET disabled_at = now() WHERE id = $1", person.id)
    assert await login(guarded, person.username, PASSWORD) == WRONG
    assert await guarded.call("GET", ME, headers=person.bearer) == NOBODY


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"username": 1, "password": "x"}',
        b'{"username": "a"}',
        b'{"username": "a\\u0000b", "password": "x"}',
        b'{"username": "\\ud800", "password": "x"}',
        b'{"username": "' + b"a" * 101 + b'", "password": "x"}',
        b'{"username": "a", "password": "' + b"x" * 1025 + b'"}',
    ],
)
async def test_a_body_that_is_no_sign_in(guarded: Stack, body: bytes) -> None:
    status, _ = await guarded.call("POST", LOGIN, data=body)
    assert status == 400


async def test_a_large_body_is_not_read(guarded: Stack) -> None:
    assert (await guarded.call("POST", LOGIN, data=b'{"username":"' + b"a" * 100_000))[0] == 413


async def test_ten_failures_of_a_name_are_the_limit_of_all_gateways(guarded: Stack, person: Person) -> None:
    """However many are made at the same time, and wherever."""
    statuses = [
        status
        for status, _ in await asyncio.gather(
            *(
                login(
                    guarded, person.username.upper() if n % 3 else person.username, "wrong", ("gateway", SECOND)[n % 2]
                )
                for n in range(14)
            )
        )
    ]
    assert sorted(statuses) == [401] * 10 + [429] * 4
    await guarded.pool.execute("DELETE FROM gateway.login_attempts WHERE subject LIKE 'address:%'")
    body = {"username": person.username, "password": PASSWORD}
    async with guarded.http.post(guarded.url_of(SECOND) + LOGIN, json=body) as answer:
        assert answer.status == 429
        assert 200 < int(answer.headers["Retry-After"]) <= 300
    await guarded.pool.execute("UPDATE gateway.login_attempts SET attempted_at = attempted_at - interval '5 minutes'")
    assert (await login(guarded, person.username, PASSWORD))[0] == 200


async def test_ten_failures_of_an_address_are_the_limit(guarded: Stack, person: Person) -> None:
    for number in range(10):
        assert await login(guarded, f"guess{number}", "wrong") == WRONG
    assert (await login(guarded, person.username, PASSWORD))[0] == 429
    assert await guarded.pool.fetchval("SELECT count(*) FROM gateway.login_attempts") == 20


async def test_a_success_clears_the_names_failures_and_not_the_addresss(guarded: Stack, person: Person) -> None:
    for _ in range(4):
        await login(guarded, person.username, "wrong")
    assert (await login(guarded, person.username, PASSWORD))[0] == 200
    counted = await guarded.pool.fetch(
        "SELECT split_part(subject, ':', 1) AS kind, count(*) FROM gateway.login_attempts GROUP BY 1"
    )
    assert [tuple(row) for row in counted] == [("address", 4)]


async def test_a_hash_of_other_parameters_is_replaced(guarded: Stack, person: Person) -> None:
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    await guarded.pool.execute("UPDATE gateway.users SET password_hash = $2 WHERE id = $1", person.id, cheap)
    value = await sign_in(guarded, person.username)
    assert (await guarded.call("GET", ME, headers=with_cookie(guarded, value)))[1]["user"] is not None
    stored = await guarded.pool.fetchval("SELECT password_hash FROM gateway.users WHERE id = $1", person.id)
    assert stored != cheap
    assert stored.startswith("$argon2id$")
    await sign_in(guarded, person.username)


async def test_signing_out_ends_this_session_alone(guarded: Stack, person: Person, http: aiohttp.ClientSession) -> None:
    value, other = await sign_in(guarded, person.username), await sign_in(guarded, person.username)
    async with http.post(
        guarded.url + "/api/v1/auth/logout", headers={**with_cookie(guarded, value), **person.bearer}
    ) as answer:
        assert answer.status == 200
        assert answer.cookies[cookie_name(guarded)].value == ""
    assert await guarded.call("GET", ME, headers=with_cookie(guarded, value)) == NOBODY
    for headers in (with_cookie(guarded, other), person.bearer):
        assert (await guarded.call("GET", ME, headers=headers))[1]["user"] is not None
    assert (await guarded.call("POST", "/api/v1/auth/logout"))[0] == 200


async def test_a_session_slides_and_is_touched_once_a_minute(
    guarded: Stack, person: Person, http: aiohttp.ClientSession
) -> None:
    value = await sign_in(guarded, person.username)
    age = "UPDATE gateway.login_sessions SET seen_at = now() - interval '61 seconds', expires_at = now() + '1 hour'"
    await guarded.pool.execute(age + " WHERE user_id = $1", person.id)
    renewed = []
    for gateway in ("gateway", SECOND):
        headers = with_cookie(guarded, value, gateway)
        async with http.get(guarded.url_of(gateway) + "/api/v1/workspaces", headers=headers) as answer:
            assert answer.status == 200
            renewed += [cookie.value for cookie in answer.cookies.values()]
    assert renewed == [value]
    left = await guarded.pool.fetchval(
        "SELECT extract(epoch FROM expires_at - now()) / 3600 FROM gateway.login_sessions WHERE user_id = $1", person.id
    )
    assert 719 < left <= 720


async def test_an_expired_session_proves_nothing(guarded: Stack, person: Person) -> None:
    value = await sign_in(guarded, person.username)
    await guarded.pool.execute("UPDATE gateway.login_sessions SET expires_at = now() WHERE user_id = $1", person.id)
    assert await guarded.call("GET", ME, headers=with_cookie(guarded, value)) == NOBODY


async def test_changing_ones_password_ends_the_other_sessions(guarded: Stack, person: Person) -> None:
    own, other = await sign_in(guarded, person.username), await sign_in(guarded, person.username)
    assert (await guarded.call("GET", ME, headers=with_cookie(guarded, other)))[1]["user"] is not None
    wanted = {"current_password": PASSWORD, "new_password": "another horse"}
    changed = await guarded.call("PUT", "/api/v1/auth/password", json=wanted, headers=with_cookie(guarded, own))
    assert changed == (200, {"status": "ok"})
    assert await guarded.call("GET", ME, headers=with_cookie(guarded, other)) == NOBODY
    for headers in (with_cookie(guarded, own), person.bearer):
        assert (await guarded.call("GET", ME, headers=headers))[1]["user"] is not None
    assert await login(guarded, person.username, PASSWORD) == WRONG
    await sign_in(guarded, person.username, "another horse")


async def test_an_administrators_reset_is_not_undone_with_the_old_password(guarded: Stack, person: Person) -> None:
    """It comes between the comparison with the old hash and the change: what was compared is no password any more."""
    reset = await Passwords().hashed("an administrator's word")
    own = with_cookie(guarded, await sign_in(guarded, person.username))
    wanted = {"current_password": PASSWORD, "new_password": "the attacker's word"}
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')"
    async with guarded.pool.acquire() as connection:
        async with connection.transaction():
            await connection.execute("UPDATE gateway.users SET password_hash = $2 WHERE id = $1", person.id, reset)
            changing = asyncio.create_task(guarded.call("PUT", "/api/v1/auth/password", json=wanted, headers=own))
            await eventually(lambda: guarded.pool.fetchval(waiting))
        status, _ = await changing
    assert status == 409
    stored = await guarded.pool.fetchval("SELECT password_hash FROM gateway.users WHERE id = $1", person.id)
    assert stored == reset


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM gateway.login_sessions WHERE user_id = $1",
        "UPDATE gateway.login_sessions SET expires_at = now() WHERE user_id = $1",
        "UPDATE gateway.users SET disabled_at = now() WHERE id = $1",
    ],
)
async def test_a_session_that_has_ended_changes_no_password(guarded: Stack, person: Person, statement: str) -> None:
    await sign_in(guarded, person.username)
    session = await guarded.pool.fetchval("SELECT id FROM gateway.login_sessions WHERE user_id = $1", person.id)
    stored = await guarded.pool.fetchval("SELECT password_hash FROM gateway.users WHERE id = $1", person.id)
    await guarded.pool.execute(statement, person.id)
    with pytest.raises(RequestFailed) as refused:
        await Accounts(guarded.pool).replace_password(person.id, stored, "another hash", session=session)
    assert refused.value.failure.code == "conflict"
    assert await guarded.pool.fetchval("SELECT password_hash FROM gateway.users WHERE id = $1", person.id) == stored


@pytest.mark.parametrize(
    ("failed", "age", "told"),
    [
        (False, 0, ("too many sign-ins at once; try again in a moment", 1)),
        (True, 0, ("too many failed sign-ins; wait and try again", 300)),
        (False, 60, ("too many failed sign-ins; wait and try again", 240)),
    ],
    ids=["under way", "failed", "given up"],
)
async def test_a_refusal_says_what_there_is_too_much_of(
    guarded: Stack, person: Person, failed: bool, age: int, told: tuple[str, int]
) -> None:
    await guarded.pool.execute(
        "INSERT INTO gateway.login_attempts (subject, attempted_at, failed) "
        "SELECT 'name:' || $1, now() - make_interval(secs => $2), $3 FROM generate_series(1, 10)",
        person.username,
        age,
        failed,
    )
    body = {"username": person.username, "password": PASSWORD}
    async with guarded.http.post(guarded.url + LOGIN, json=body) as answer:
        sentence, longest = told
        assert (answer.status, await answer.json()) == (429, {"error": sentence})
        assert longest / 2 <= int(answer.headers["Retry-After"]) <= longest


async def test_one_name_is_one_limit_however_it_is_composed(guarded: Stack, people: People) -> None:
    forms = ("Ren\u00e9 Stra\u00dfe", "RENE\u0301 STRASSE", "\uff32en\u00e9 stra\u00dfe")
    await Accounts(guarded.pool).add(forms[0], await Passwords().hashed(PASSWORD))
    for form in forms[1:]:
        with pytest.raises(RequestFailed) as refused:
            await Accounts(guarded.pool).add(form, "")
        assert refused.value.failure.code == "conflict"
        await sign_in(guarded, form)
    for number in range(10):
        assert await login(guarded, forms[number % 3], "wrong") == WRONG
    assert await guarded.pool.fetchval("SELECT count(DISTINCT subject) FROM gateway.login_attempts") == 2


async def test_guesses_of_the_current_password_count_as_failures(guarded: Stack, person: Person) -> None:
    wanted = {"current_password": "wrong", "new_password": "another horse"}
    for _ in range(10):
        refused = await guarded.call("PUT", "/api/v1/auth/password", json=wanted, headers=person.bearer)
        assert refused == (403, {"error": "the current password is another one"})
    assert (await guarded.call("PUT", "/api/v1/auth/password", json=wanted, headers=person.bearer))[0] == 429


async def test_nobody_is_told_how_to_sign_in(guarded: Stack, people: People) -> None:
    for path in ("/api/v1/workspaces", "/api/v1/task-sessions/x/turns", "/api/v1/users", "/api/v1/auth/tokens"):
        async with guarded.http.get(guarded.url + path) as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert await answer.json() == {"error": "authentication required"}
