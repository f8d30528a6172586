"""The life of signing keys: made once for all gateways, known to all before they sign, kept while needed."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from pydantic import SecretStr

from services.gateway.plugins.keyring import (
    LEAD_SECONDS,
    REFRESH_SECONDS,
    REREAD_SECONDS,
    RETIRED_SECONDS,
    ROTATION_SECONDS,
    Keyring,
)
from shared.contracts.errors import RequestFailed
from shared.database import open_pool
from shared.tokens import KEY_BYTES, LIFETIME_SECONDS, BindingClaims, is_signed, sign
from tests.support.waiting import eventually

CLAIMS = BindingClaims(plugin_id="p", user_id="u", generation=1, expires_at=1)


class Clock:
    """Time that a test lets pass."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Counted:
    """A pool that counts what is looked up in it."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool
        self.count = 0

    async def fetch(self, *query: object) -> object:
        self.count += 1
        return await self.pool.fetch(*query)

    def acquire(self) -> object:
        return self.pool.acquire()


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A database of the test's own, as gateways use it."""
    pool = await open_pool(SecretStr(database_url), 8, "test")
    yield pool
    await pool.close()


async def secrets_of(pool: asyncpg.Pool) -> list[bytes]:
    """The keys there are, newest first."""
    return [row["secret"] for row in await pool.fetch("SELECT secret FROM gateway.token_keys ORDER BY id DESC")]


async def age(pool: asyncpg.Pool, seconds: float) -> None:
    """Lets time pass for every key."""
    await pool.execute("UPDATE gateway.token_keys SET created_at = created_at - make_interval(secs => $1)", seconds)


async def test_gateways_that_start_at_once_make_one_key(pool: asyncpg.Pool) -> None:
    keyrings = [Keyring(pool) for _ in range(8)]
    await asyncio.gather(*(keyring.refresh() for keyring in keyrings))
    (secret,) = await secrets_of(pool)
    assert len(secret) == KEY_BYTES
    assert {keyring.signing for keyring in keyrings} == {secret}


async def test_nothing_is_signed_without_a_key(pool: asyncpg.Pool) -> None:
    keyring = Keyring(pool)
    with pytest.raises(RequestFailed) as refused:
        _ = keyring.signing
    assert refused.value.failure.retryable
    assert keyring.verifying == ()


async def test_a_key_verifies_at_once_and_signs_once_all_know_it(pool: asyncpg.Pool) -> None:
    assert LEAD_SECONDS > 2 * REFRESH_SECONDS
    keyring = Keyring(pool)
    await keyring.refresh()
    first = keyring.signing
    await keyring.rotate()
    await keyring.refresh()
    second, _ = await secrets_of(pool)
    assert keyring.signing == first
    assert keyring.verifying == (second, first)
    await age(pool, LEAD_SECONDS - 5)
    await keyring.refresh()
    assert keyring.signing == first
    await age(pool, 5)
    await keyring.refresh()
    assert keyring.signing == second
    assert keyring.verifying == (second, first)


async def test_a_key_goes_when_all_that_it_signed_has_expired(pool: asyncpg.Pool) -> None:
    keyring = Keyring(pool)
    await keyring.refresh()
    await keyring.rotate()
    await age(pool, LEAD_SECONDS + LIFETIME_SECONDS)
    await keyring.refresh()
    assert len(keyring.verifying) == 2
    await age(pool, RETIRED_SECONDS - LEAD_SECONDS - LIFETIME_SECONDS)
    await keyring.refresh()
    assert keyring.verifying == tuple(await secrets_of(pool))
    assert len(keyring.verifying) == 1


async def test_a_key_is_followed_by_another_in_time_and_by_one_alone(pool: asyncpg.Pool) -> None:
    keyrings = [Keyring(pool) for _ in range(4)]
    await asyncio.gather(*(keyring.refresh() for keyring in keyrings))
    await age(pool, ROTATION_SECONDS - 60)
    await asyncio.gather(*(keyring.refresh() for keyring in keyrings))
    assert len(await secrets_of(pool)) == 1
    await age(pool, 60)
    await asyncio.gather(*(keyring.refresh() for keyring in keyrings))
    _, old = await secrets_of(pool)
    assert {keyring.signing for keyring in keyrings} == {old}


async def test_a_token_of_an_unknown_key_makes_one_look_a_second(pool: asyncpg.Pool) -> None:
    clock, counted = Clock(), Counted(pool)
    keyring = Keyring(counted, clock)
    await keyring.refresh()
    await asyncio.gather(*(keyring.learn(f"garbage{number}.x") for number in range(50)))
    assert counted.count == 1
    await keyring.rotate()
    new, _ = await secrets_of(pool)
    token = sign(CLAIMS, new)
    clock.seconds += REREAD_SECONDS / 2
    await keyring.learn(token)
    assert (counted.count, is_signed(token, keyring.verifying)) == (1, False)
    clock.seconds += REREAD_SECONDS / 2
    await asyncio.gather(*(keyring.learn(token) for _ in range(50)))
    assert (counted.count, is_signed(token, keyring.verifying)) == (2, True)
    clock.seconds += REREAD_SECONDS
    await keyring.learn(token)
    assert counted.count == 2


async def test_keys_that_cannot_be_looked_at(pool: asyncpg.Pool) -> None:
    """Whether a token is good cannot be told: that is no refusal."""
    keyring = Keyring(pool)
    await keyring.refresh()
    good = sign(CLAIMS, keyring.signing)
    await pool.execute("ALTER TABLE gateway.token_keys RENAME TO away")
    await keyring.learn(good)
    with pytest.raises(RequestFailed) as refused:
        await keyring.learn("unknown.x")
    assert refused.value.failure.code == "unavailable"


async def test_a_gateway_goes_on_with_the_keys_it_knows(pool: asyncpg.Pool, caplog: pytest.LogCaptureFixture) -> None:
    keyring = Keyring(pool)
    await keyring.refresh()
    known = keyring.signing
    await pool.execute("ALTER TABLE gateway.token_keys RENAME TO away")
    running = asyncio.create_task(keyring.run())

    async def told() -> bool:
        return "could not be read" in caplog.text

    try:
        await eventually(told)
    finally:
        running.cancel()
    assert keyring.signing == known
