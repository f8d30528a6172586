"""Runs schemathesis, as a program of its own, over the document of a running gateway, and reads what it met."""

import asyncio
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import orjson

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


@dataclass(frozen=True, slots=True)
class Exploration:
    """`failures`: what the program printed, where it found any. `statuses`: how often each operation, by method and
    path, answered with what.
    """

    failures: str
    statuses: Mapping[str, Counter[int]]


async def explore(url: str, folder: Path, ids: Mapping[str, str], *options: str) -> Exploration:
    """Asks every operation, for what it allows and for what it does not; first the cases that follow from its schema,
    then some that are made up. `ids`: what the configuration names. `folder` takes configuration and reports.
    """
    failures: list[str] = []
    statuses: dict[str, Counter[int]] = defaultdict(Counter)
    for phase in ("coverage", "fuzzing"):
        found = await _run(url, folder, phase, _configuration(ids, phase), options)
        failures.append(found.failures)
        for name, counted in found.statuses.items():
            statuses[name] += counted
    return Exploration("\n".join(filter(None, failures)), statuses)


def _configuration(ids: Mapping[str, str], phase: str) -> str:
    template = Template(CONFIGURATION.read_text())
    if phase == "coverage":  # it takes no values from dictionaries
        values = {name: json.dumps(value) for name, value in ids.items()}
    else:
        values = {name: f'{{ dictionary = "{name}", probability = 0.8 }}' for name in ids}
    dictionaries = [f"{name}.values = [{json.dumps(value)}]" for name, value in ids.items()]
    return "\n".join((template.substitute(values), "[dictionaries]", *dictionaries, ""))


async def _run(url: str, folder: Path, phase: str, configuration: str, options: Sequence[str]) -> Exploration:
    configured, report = folder / f"{phase}.toml", folder / f"{phase}.ndjson"
    configured.write_text(configuration)
    program = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("schemathesis"),
        *("--config-file", str(configured), "run", f"{url}/api/openapi.json", "--no-color", "--phases", phase),
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
    if not report.exists():  # it did not start; what it printed says why
        return statuses
    for line in report.read_bytes().splitlines():
        for event in orjson.loads(line).values():
            recorder = event.get("recorder", {})
            for interaction in recorder.get("interactions", {}).values():
                if interaction["response"] is not None:
                    statuses[recorder["label"]][interaction["response"]["status_code"]] += 1
    return statuses
