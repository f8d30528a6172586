"""The command as a person starts it: a process of its own."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import python

TREE = Path(__file__).parents[3]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


async def started(
    *arguments: str | Path, stdout: int = asyncio.subprocess.PIPE, **environment: str
) -> asyncio.subprocess.Process:
    return await _started(arguments, stdout, asyncio.subprocess.DEVNULL, environment)


async def _started(
    arguments: Sequence[str | Path], stdout: int, stdin: int, environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KANDEV_")}
    for name in ("PORT", "DATABASE_URL", "REDIS_URL"):
        inherited.pop(name, None)
    return await asyncio.create_subprocess_exec(
        *python("-m", "cli.main", *arguments),
        cwd=TREE,
        env={**inherited, "COLUMNS": "200", **environment},
        stdin=stdin,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: asyncio.subprocess.Process, given: bytes | None = None) -> Ended:
    out, err = await process.communicate(given)
    assert process.returncode is not None
    return Ended(process.returncode, (out or b"").decode(), err.decode())


async def run(*arguments: str | Path, **environment: str) -> Ended:
    return await ended(await started(*arguments, stdout=asyncio.subprocess.PIPE, **environment))


async def run_with_input(given: bytes, *arguments: str | Path, **environment: str) -> Ended:
    """Runs a command to its end with this on its standard input."""
    return await ended(await _started(arguments, asyncio.subprocess.PIPE, asyncio.subprocess.PIPE, environment), given)
