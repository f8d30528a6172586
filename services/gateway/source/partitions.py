"""How many partitions the receipt stream has: a row in the database that every service reads."""

import asyncio
import logging

from pydantic import SecretStr

from shared.database import LOST, connect

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
"""Pause between attempts while PostgreSQL is away, or not migrated yet."""


async def read_partitions(url: SecretStr) -> int:
    """The number of partitions, as soon as the database tells it."""
    told = False
    while True:
        try:
            connection = await connect(url, "gateway")
            try:
                return int(await connection.fetchval("SELECT partitions FROM conversation.settings"))
            finally:
                await connection.close()
        except LOST as error:
            if not told:
                logger.warning("the database does not tell its settings yet (%s); waiting", type(error).__name__)
                told = True
        await asyncio.sleep(RETRY_SECONDS)
