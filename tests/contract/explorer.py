"""Runs schemathesis, as a program of its own, over the document of a running gateway, and reads what it met."""

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


@dataclass(frozen=True, slots=True)
class Exploration:
    """`failures`: what the program printed, where it found any. `statuses`: how often an operation, by method and path,
    answered with each.
    """

    failures: str
    statuses: Mapping[str, Counter[int]]


async def explore(url: str, folder: Path, *options: str) -> Exploration:
    """Asks every operation, with what it allows and with what it does not. `folder` takes the report."""
    report = folder / "report.ndjson"
    program = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("schemathesis"),
        *("--config-file", str(CONFIGURATION), "run", f"{url}/api/openapi.json", "--no-color"),
        *("--report", "ndjson", "--report-ndjson-path", str(report), *options),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    return Exploration(printed.decode() if program.returncode else "", _statuses(report))


def _statuses(report: Path) -> Mapping[str, Counter[int]]:
    statuses: dict[str, Counter[int]] = defaultdict(Counter)
    for line in report.read_bytes().splitlines():
        for event in orjson.loads(line).values():
            recorder = event.get("recorder", {})
            for interaction in recorder.get("interactions", {}).values():
                if interaction["response"] is not None:
                    statuses[recorder["label"]][interaction["response"]["status_code"]] += 1
    return statuses
