"""Writes `docs/metrics.md`, which tells every metric of the services; with `--check`, compares it."""

import sys
from collections.abc import Mapping
from typing import Final

from deploy.checks.generated import settle
from services.gateway.metrics import METRICS as GATEWAY
from services.reader.metrics import METRICS as READER
from services.revision.metrics import METRICS as REVISION
from shared.metrics.declaring import Declared, Metrics

SERVICES: Final[Mapping[str, Metrics]] = {"revision": REVISION, "reader": READER, "gateway": GATEWAY}

MOST_VALUES: Final = 7
"""A label with more values is told by the first of them and by how many they are."""

_HEAD: Final = """# Metrics

Made from the code by `python -m deploy.checks.metrics`. Each process tells its own on its metrics port, at `/metrics`;
beside these stand the `process_…` metrics of the Prometheus client. A label has no other values than those that are
declared: none holds an id, a name or content. How to read them: [operations](operations.md#metrics).
"""

_COLUMNS: Final = "| metric | kind | labels | what it tells |\n|---|---|---|---|\n"


def rendered() -> bytes:
    """The document."""
    everybodys = set.intersection(*({each.name for each in metrics.declared} for metrics in SERVICES.values()))
    parts = [_HEAD, _section("Every service", [each for each in REVISION.declared if each.name in everybodys])]
    for service, metrics in SERVICES.items():
        own = [each for each in metrics.declared if each.name not in everybodys]
        parts.append(_section(f"`services/{service}`", own))
    return "\n".join(parts).encode()


def _section(title: str, metrics: list[Declared]) -> str:
    return f"## {title}\n\n{_COLUMNS}" + "".join(map(_row, metrics))


def _row(declared: Declared) -> str:
    labels = "; ".join(f"`{name}`: {_values(name, values)}" for name, values in declared.labels.items())
    return f"| `{declared.name}` | {declared.kind} | {labels} | {declared.text} |\n"


def _values(name: str, values: tuple[str, ...]) -> str:
    if name in {"service", "version", "pool"}:
        return "its own"
    return ", ".join(values) if len(values) <= MOST_VALUES else f"{', '.join(values[:3])}, … ({len(values)} in all)"


if __name__ == "__main__":
    sys.exit(settle("metrics.md", rendered(), "deploy.checks.metrics", sys.argv[1:]))
