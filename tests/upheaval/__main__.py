"""`python -m tests.upheaval --project NAME --url URL`, or `--embedded`: restarts and kills each service of a running
installation while clients follow and writers write, and compares every client with the source at the end.

Exit codes: 0 every client equals the source, 1 one does not or did not come back, 2 could not run.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop

from tests.conftest import server_folder
from tests.upheaval.compose import ComposeInstallation
from tests.upheaval.embedded import EmbeddedInstallation
from tests.upheaval.figures import table, verdict
from tests.upheaval.installation import Broken, Installation
from tests.upheaval.plan import PLANNED, chosen
from tests.upheaval.proof import Load, Result, prove

CANNOT_RUN = 2


@asynccontextmanager
async def _installation(given: argparse.Namespace) -> AsyncIterator[Installation]:
    if not given.embedded:
        yield ComposeInstallation(given.project, given.url)
        return
    with server_folder() as folder:
        async with EmbeddedInstallation(folder) as installation:
            yield installation


async def run(given: argparse.Namespace) -> Result:
    """Proves the installation that the command line names. Raises ValueError for an upheaval that it does not have."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    load = Load(given.clients, given.sessions, given.processes, given.rate, given.patience)
    async with _installation(given) as installation:
        return await prove(
            installation,
            chosen(installation.upheavals, given.only),
            load,
            token=os.environ.get("KANDEV_TOKEN") or None,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
        )


def report(result: Result) -> None:
    """Prints the table, what is asked of a rolling restart, and what is wrong."""
    print(table(result.rows))
    print()
    for row in result.rows:
        if row.name in PLANNED:
            print(verdict(row))
    print(
        f"{result.equal:,} of {result.clients:,} clients equal the source, which has all {result.messages:,} messages"
    )
    for each in result.wrong:
        print(f"WRONG {each}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.upheaval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--project", default="kandev-conversation", help="project of Docker Compose (%(default)s)")
    parser.add_argument("--url", default="http://localhost:8080", help="of its load balancer (%(default)s)")
    parser.add_argument("--embedded", action="store_true", help="start an installation without containers instead")
    parser.add_argument("--clients", type=int, default=1500)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2, help="that carry the clients (%(default)s)")
    parser.add_argument("--rate", type=float, default=40.0, help="writes a second, all together (%(default)s)")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds for which a client is waited for (%(default)s)"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="MANNER:SERVICE", help="these upheavals, such as kill:redis"
    )
    given = parser.parse_args()
    try:
        result = uvloop.run(run(given))
    except ValueError as error:
        parser.error(str(error))
    except Broken as broken:
        print(broken, file=sys.stderr)
        sys.exit(CANNOT_RUN)
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
    report(result)
    sys.exit(0 if result.holds else 1)


if __name__ == "__main__":
    main()
