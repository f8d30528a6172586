"""Personal access tokens, over HTTP and on the WebSocket's upgrade."""

import asyncio

import aiohttp
import pytest

from services.gateway.identity.tokens import MOST_TOKENS
from tests.integration.identity.people import SECOND, People, Person, sign_in, with_cookie
from tests.support.stack import Stack

ME = "/api/v1/auth/me"
TOKENS = "/api/v1/auth/tokens"


async def who(stack: Stack, headers: dict[str, str]) -> object:
    """The name of whoever these headers stand for."""
    status, body = await stack.call("GET", ME, headers=headers)
    assert status == 200
    user = body["user"]
    assert user is None or isinstance(user, dict)
    return None if user is None else user["username"]


async def test_a_token_is_made_listed_and_revoked(guarded: Stack, person: Person, people: People) -> None:
    status, made = await guarded.call(
        "POST", TOKENS, json={"name": " laptop ", "expires_in_days": 1}, headers=person.bearer
    )
    assert status == 201
    text = made.pop("token")
    assert isinstance(text, str)
    assert text.startswith(f"kandev_pat_{made['id']}_")
    assert (made["name"], made["last_used_at"]) == ("laptop", None)
    assert await who(guarded, {"Authorization": f"bearer {text}"}) == person.username
    _, body = await guarded.call("GET", TOKENS, headers=person.bearer)
    listed = body["tokens"]
    assert isinstance(listed, list)
    assert [token["id"] for token in listed] == [person.token_id, made["id"]]
    assert listed[1]["last_used_at"] is not None
    assert "token" not in listed[1]
    stranger = await people.add()
    missing = (404, {"error": "there is no such token"})
    path = f"{TOKENS}/{made['id']}"
    assert await guarded.call("DELETE", path, headers=stranger.bearer) == missing
    assert await who(guarded, {"Authorization": f"Bearer {text}"}) == person.username
    assert await guarded.call("DELETE", path, headers=person.bearer) == (200, {"status": "ok"})
    assert await who(guarded, {"Authorization": f"Bearer {text}"}) is None
    for again in (path, f"{TOKENS}/nonsense", f"{TOKENS}/%00", f"{TOKENS}/{'9' * 300}"):
        assert await guarded.call("DELETE", again, headers=person.bearer) == missing


@pytest.mark.parametrize(
    "body", [b"[]", b'{"name": 1}', b'{"name": "a\\u0000"}', b'{"expires_in_days": 0}', b'{"expires_in_days": "1"}']
)
async def test_what_is_no_token(guarded: Stack, person: Person, body: bytes) -> None:
    assert (await guarded.call("POST", TOKENS, data=body, headers=person.bearer))[0] == 400


async def test_a_user_has_a_bounded_number_of_tokens(guarded: Stack, person: Person) -> None:
    await guarded.pool.execute(
        "INSERT INTO gateway.access_tokens (id, user_id, secret_hash) "
        "SELECT 'full' || n, $1, '\\x00' FROM generate_series(1, 99) n",
        person.id,
    )
    assert (await guarded.call("POST", TOKENS, json={}, headers=person.bearer))[0] == 409


async def test_what_proves_nothing(guarded: Stack, person: Person) -> None:
    secret = person.token.rpartition("_")[2]
    for text in (
        "",
        person.token[:-1],
        person.token + "x",
        person.token.upper(),
        f"kandev_pat_00000000_{secret}",
        f"kandev_pat_{person.token_id}_",
        f"kandev_pat_{person.token_id}_{'x' * 43}",
        secret,
    ):
        assert await who(guarded, {"Authorization": f"Bearer {text}"}) is None, text
    assert await who(guarded, {"Authorization": f"Basic {person.token}"}) is None
    assert await who(guarded, {"Authorization": person.token}) is None
    stored = await guarded.pool.fetchval("SELECT secret_hash FROM gateway.access_tokens WHERE id = $1", person.token_id)
    assert secret.encode() not in stored


async def test_an_expired_token_proves_nothing(guarded: Stack, person: Person) -> None:
    await guarded.pool.execute("UPDATE gateway.access_tokens SET expires_at = now() WHERE id = $1", person.token_id)
    assert await who(guarded, dict(person.bearer)) is None


async def test_use_is_noted_once_a_minute(guarded: Stack, person: Person, people: People) -> None:
    noted = "SELECT last_used_at FROM gateway.access_tokens WHERE id = $1"
    other = await people.add()
    await guarded.pool.execute(
        "UPDATE gateway.access_tokens SET last_used_at = now() - interval '50 seconds' WHERE id = $1", person.token_id
    )
    before = await guarded.pool.fetchval(noted, person.token_id)
    await asyncio.gather(who(guarded, dict(person.bearer)), who(guarded, dict(other.bearer)))
    assert await guarded.pool.fetchval(noted, person.token_id) == before
    assert await guarded.pool.fetchval(noted, other.token_id) is not None


async def test_no_more_tokens_are_made_at_the_same_time(guarded: Stack, person: Person) -> None:
    await guarded.pool.execute(
        "INSERT INTO gateway.access_tokens (id, user_id, secret_hash) "
        "SELECT left(md5($1 || n), 8), $1, ''::bytea FROM generate_series(1, $2) n",
        person.id,
        MOST_TOKENS - 3,
    )
    made = await asyncio.gather(
        *(
            guarded.call("POST", TOKENS, gateway=("gateway", SECOND)[number % 2], json={}, headers=person.bearer)
            for number in range(8)
        )
    )
    assert sorted(status for status, _ in made) == [201] * 2 + [409] * 6


async def test_who_is_nobody_is_told_that_first(guarded: Stack, person: Person) -> None:
    """Before what is wrong with the request."""
    path = "/api/v1/workspaces?x=%00"
    assert (await guarded.call("GET", path))[0] == 401
    assert (await guarded.call("GET", path, headers=person.bearer))[0] == 400
    plugins = "/api/plugins/nowhere/"
    for route in ("conversation/v2/task-sessions/s/messages", "user-state/instance/default/key"):
        assert (await guarded.call("GET", f"{plugins}{route}?task_id=%00"))[0] == 401
        assert (await guarded.call("GET", f"{plugins}{route}?task_id=%00", headers=person.bearer))[0] == 404


async def test_the_cookie_comes_before_the_token(guarded: Stack, person: Person, people: People) -> None:
    other = await people.add()
    value = await sign_in(guarded, other.username)
    assert await who(guarded, {**with_cookie(guarded, value), **person.bearer}) == other.username
    assert await who(guarded, {**with_cookie(guarded, "nonsense"), **person.bearer}) == person.username


async def test_a_token_in_the_query_is_for_the_socket_alone(guarded: Stack, person: Person) -> None:
    assert (await guarded.call("GET", f"/api/v1/workspaces?token={person.token}"))[0] == 401
    status, body = await guarded.call("GET", f"{ME}?token={person.token}")
    assert (status, body["user"]) == (200, None)


async def test_who_may_connect(guarded: Stack, person: Person, people: People) -> None:
    """Refused before the upgrade, as JSON. A query's token is looked at only where nothing else proves anybody."""
    other = await people.add()
    cookie = with_cookie(guarded, await sign_in(guarded, person.username))
    for headers, query, expected in (
        ({}, "", None),
        ({}, "?token=", None),
        ({}, "?token=nonsense", None),
        ({}, f"?token={person.token[:-1]}", None),
        ({}, f"?token={person.token}", person),
        (cookie, "", person),
        (cookie, f"?token={other.token}", person),
        (cookie, "?token=nonsense", person),
        (person.bearer, "?token=nonsense", person),
        ({"Authorization": "Bearer nonsense"}, f"?token={person.token}", person),
        ({"Authorization": "Bearer nonsense"}, "", None),
        ({**cookie, "Origin": "http://evil.example.com"}, "", None),
        ({**cookie, "Origin": "null"}, "", None),
        ({**cookie, "Origin": "http://localhost:3000"}, "", person),
    ):
        if expected is None:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await guarded.connect(query=query, headers=headers)
            assert refused.value.status == (403 if "Origin" in headers else 401)
        else:
            await (await guarded.connect(query=query, headers=headers)).close()


async def test_a_foreign_origin_is_refused_on_every_method(guarded: Stack, person: Person) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        for headers in (
            {**person.bearer, "Origin": "https://evil.example.com"},
            {"Origin": "https://evil.example.com"},
        ):
            async with guarded.http.request(method, guarded.url + "/api/v1/workspaces", headers=headers) as answer:
                assert answer.status == 403


async def test_any_host_may_be_named_where_people_sign_in(guarded: Stack, person: Person) -> None:
    named = {**person.bearer, "Host": "kandev.example.com"}
    assert (await guarded.call("GET", "/api/v1/workspaces", headers=named))[0] == 200
    same, foreign = {"Origin": "https://kandev.example.com"}, {"Origin": "http://localhost"}
    assert (await guarded.call("GET", "/api/v1/workspaces", headers={**named, **same}))[0] == 200
    assert (await guarded.call("GET", "/api/v1/workspaces", headers={**named, **foreign}))[0] == 403
