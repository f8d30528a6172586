"""`kandev-conversation keys rotate`."""

import asyncpg

from tests.integration.cli.command import run


async def test_a_key_is_made_and_none_is_shown(database_url: str) -> None:
    for count in (1, 2):
        ended = await run("keys", "rotate", KANDEV_DATABASE_URL=database_url)
        assert (ended.code, ended.out) == (0, "")
        assert "signs in 60 seconds" in ended.err
        connection = await asyncpg.connect(database_url)
        secrets = [row["secret"] for row in await connection.fetch("SELECT secret FROM gateway.token_keys")]
        await connection.close()
        assert len(set(secrets)) == count
        assert not any(secret.hex() in ended.err for secret in secrets)


async def test_a_database_without_the_tables(empty_database_url: str) -> None:
    ended = await run("keys", "rotate", KANDEV_DATABASE_URL=empty_database_url)
    assert ended.code != 0
    assert "kandev-conversation migrate" in ended.err
