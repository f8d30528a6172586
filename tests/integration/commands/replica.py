"""A replica of the write boundary as a process of its own: `python -m tests.integration.commands.replica`.

Reads the settings from the environment and prints its consumer's name.
"""

import asyncio

from services.revision.commands.boundary import WriteBoundary
from services.revision.commands.requests import CommandRequests
from shared.database import open_pool
from shared.settings import Settings


async def main() -> None:
    settings = Settings()
    pool = await open_pool(settings.database_url, 4, "replica")
    requests = CommandRequests(settings.redis_url, WriteBoundary(pool))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(requests.run())
        print(requests.consumer, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
