"""What every connection of a service asks of the server."""

from pydantic import SecretStr

from shared.database import IDLE_IN_TRANSACTION_SECONDS, connect, open_pool

_SETTING = "SELECT setting::bigint / 1000 FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"


async def test_a_process_that_stands_still_in_a_transaction_lets_go_of_its_locks(empty_database_url: str) -> None:
    """Otherwise one suspended replica would hold up every writer of the rows that it was changing."""
    url = SecretStr(empty_database_url)
    async with await open_pool(url, 1, "test") as pool:
        assert await pool.fetchval(_SETTING) == IDLE_IN_TRANSACTION_SECONDS
    connection = await connect(url, "test")
    try:
        assert await connection.fetchval(_SETTING) == IDLE_IN_TRANSACTION_SECONDS
    finally:
        await connection.close()
