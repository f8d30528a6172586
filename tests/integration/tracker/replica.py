"""A replica as a process of its own: it prints its state whenever that changes, until it is killed."""

import asyncio
import os
import sys

from pydantic import SecretStr

from services.revision.tracker.tracker import Tracker
from shared.broker.connection import connect
from shared.broker.receipts import ReceiptWriter


async def main() -> None:
    async with connect(SecretStr(os.environ["REDIS_URL"])) as client:
        tracker = Tracker(SecretStr(os.environ["DATABASE_URL"]), ReceiptWriter(client, 8))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(tracker.run())
            shown = ""
            while True:
                state = f"{tracker.status.state} {tracker.status.term is not None}"
                if state != shown:
                    print(state, flush=True)
                    shown = state
                await asyncio.sleep(0.01)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
