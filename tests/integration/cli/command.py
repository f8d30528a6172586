"""The command as a person starts it: a process of its own."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).parents[3]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


async def started(
    *arguments: str | Path,
    stdout: int = asyncio.subprocess.PIPE,
    stdin: int = asyncio.subprocess.DEVNULL,
    **environment: str,
) -> asyncio.subprocess.Process:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KANDEV_")}
    for name in ("PORT", "DATABASE_URL", "REDIS_URL"):
        inherited.pop(name, None)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cli.main",
        *map(str, arguments),
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
    return await ended(
        await started(*arguments, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, **environment)
    )
