"""The dashboard and the alerts name only what the services tell, and every alert has its section in the runbook.

`python -m deploy.checks.dashboard` prints what does not fit, and ends with code 1 when anything does not.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.checks.links import anchors
from deploy.checks.metrics import SERVICES
from deploy.checks.promql import labels_of, matchers_of, metrics_of

ROOT: Final = Path(__file__).parents[2]
ALERTS: Final = ROOT / "deploy" / "observability" / "prometheus" / "alerts.yml"
SCRAPING: Final = ROOT / "deploy" / "observability" / "prometheus" / "prometheus.yml"
DASHBOARDS: Final = ROOT / "deploy" / "observability" / "grafana" / "dashboards"

TARGETS: Final = frozenset({"job", "instance"})
"""Labels that Prometheus gives each series."""

_PLACES = re.compile(r"\{\{\s*\$labels\.(\w+)\s*\}\}|\{\{\s*(\w+)\s*\}\}")

Labels = Mapping[str, frozenset[str]]
"""The values that a metric's labels may have, by name."""
Json = dict[str, Any]  # any: what stands in a file, looked at field by field


def told() -> Mapping[str, Labels]:
    """What can be asked for: every name under which a service tells a series, with its labels."""
    jobs: Labels = {"job": frozenset(SERVICES)}
    found: dict[str, dict[str, frozenset[str]]] = {"up": dict(jobs)}
    for metrics in SERVICES.values():
        for family in metrics.registry.collect():
            if family.name.startswith("process_"):
                found |= {sample.name: dict(jobs) for sample in family.samples}
        for declared in metrics.declared:
            labels = {name: frozenset(values) for name, values in declared.labels.items()}
            endings = ("_bucket", "_sum", "_count") if declared.kind == "histogram" else ("",)
            for ending in endings:
                known = found.setdefault(declared.name + ending, dict(jobs))
                for name, values in labels.items():
                    known[name] = known.get(name, frozenset()) | values
    return found


def problems_of(expression: str, known: Mapping[str, Labels]) -> Iterator[str]:
    """What an expression names that nobody tells."""
    names = metrics_of(expression)
    yield from (f"no service tells {name}" for name in sorted(names - known.keys()))
    if not names:
        yield "it names no metric"
    for metric, label, values in matchers_of(expression):
        if metric not in known or label in {"instance", "le"}:
            continue
        if label not in known[metric]:
            yield f"{metric} has no label {label}"
        else:
            yield from (
                f"{label} of {metric} is never {value}" for value in values if value not in known[metric][label]
            )
    grouped = labels_of(expression) - TARGETS - {"le"}
    yield from (
        f"nothing that it names has a label {label}"
        for label in sorted(grouped)
        if not any(label in known.get(name, {}) for name in names)
    )


def problems_of_alerts(text: str, runbook: str, known: Mapping[str, Labels]) -> Iterator[str]:
    """What does not fit in the alerts. `runbook`: the document that tells what to do."""
    headings = anchors(runbook)
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    yield from (f"alert {name} is there {count} times" for name, count in _repeated(rule["alert"] for rule in rules))
    for rule in rules:
        name, notes = rule["alert"], rule["annotations"]
        yield from (f"alert {name}: {problem}" for problem in problems_of(rule["expr"], known))
        document, _, anchor = notes["runbook"].partition("#")
        if document != "docs/operations.md" or anchor not in headings:
            yield f"alert {name}: its runbook {notes['runbook']} is not there"
        if rule["labels"].get("severity") not in {"critical", "warning"}:
            yield f"alert {name}: its severity is neither critical nor warning"


def problems_of_dashboard(text: str, known: Mapping[str, Labels]) -> Iterator[str]:
    """What does not fit in a dashboard."""
    dashboard: Json = json.loads(text)
    panels: list[Json] = dashboard["panels"]
    if not dashboard.get("uid") or not dashboard.get("title"):
        yield "the dashboard has no uid or no title"
    yield from (f"panel id {each} is there {count} times" for each, count in _repeated(panel["id"] for panel in panels))
    for panel in panels:
        title = panel.get("title", "")
        if panel["type"] == "row":
            continue
        if not title or not panel.get("description"):
            yield f"panel {panel['id']}: it has no title or no description"
        if not panel.get("targets"):
            yield f"panel {title}: it shows nothing"
        yield from (f"panel {title}: {problem}" for problem in _problems_of_targets(panel.get("targets", []), known))
    yield from _overlaps(panels)


def _problems_of_targets(targets: list[Json], known: Mapping[str, Labels]) -> Iterator[str]:
    yield from (
        f"reference {name} is there {count} times" for name, count in _repeated(each["refId"] for each in targets)
    )
    for target in targets:
        yield from problems_of(target["expr"], known)
        shown = {name for pair in _PLACES.findall(target.get("legendFormat", "")) for name in pair if name}
        grouped = labels_of(target["expr"])
        lost = shown - grouped if grouped else shown - _all_labels(target["expr"], known)
        yield from (f"its legend shows {name}, which its series do not have" for name in sorted(lost))


def _all_labels(expression: str, known: Mapping[str, Labels]) -> set[str]:
    return set(TARGETS).union(*(known.get(name, {}) for name in metrics_of(expression)))


def _overlaps(panels: list[Json]) -> Iterator[str]:
    taken: dict[tuple[int, int], int] = {}
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if (x, y) in taken:
                    yield f"panel {panel['id']} lies on panel {taken[x, y]}"
                    return
                taken[x, y] = panel["id"]
        if place["x"] + place["w"] > 24:
            yield f"panel {panel['id']} is wider than the dashboard"


def _repeated(names: Iterator[Any]) -> Iterator[tuple[Any, int]]:  # any: names and numbers
    return ((name, count) for name, count in Counter(names).items() if count > 1)


def problems(root: Path = ROOT) -> list[str]:
    """Everything that does not fit."""
    known = told()
    runbook = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    found = list(problems_of_alerts(ALERTS.read_text(encoding="utf-8"), runbook, known))
    for path in sorted(DASHBOARDS.glob("*.json")):
        found += [f"{path.name}: {each}" for each in problems_of_dashboard(path.read_text(encoding="utf-8"), known)]
    jobs = {each["job_name"] for each in yaml.safe_load(SCRAPING.read_text(encoding="utf-8"))["scrape_configs"]}
    if jobs != set(SERVICES):
        found.append(f"Prometheus asks {', '.join(sorted(jobs))}, and the services are {', '.join(sorted(SERVICES))}")
    return found


def main() -> None:
    """Checks this repository."""
    found = problems()
    print("\n".join(found) or "The dashboard and the alerts name only what is told.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
