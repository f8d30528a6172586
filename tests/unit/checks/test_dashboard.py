"""What does not fit in a dashboard and in alerts."""

import json
from typing import Any

import pytest
import yaml

from deploy.checks.dashboard import problems, problems_of, problems_of_alerts, problems_of_dashboard, told

KNOWN = {"up": {"job": frozenset({"a"})}, "kandev_x_total": {"job": frozenset({"a"}), "kind": frozenset({"k"})}}


def test_what_is_here_fits() -> None:
    assert problems() == []


def test_histograms_are_told_by_their_parts_and_processes_by_their_client() -> None:
    known = told()
    assert known["kandev_gateway_delivery_seconds_bucket"].keys() == {"job"}
    assert "kandev_gateway_delivery_seconds" not in known
    assert {"kandev_revision_commits_total", "process_resident_memory_bytes", "up"} <= known.keys()
    assert known["kandev_database_connections"]["pool"] == {"primary", "replica", "gateway"}


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("kandev_y_total", "no service tells kandev_y_total"),
        ("1 > 0", "it names no metric"),
        ('kandev_x_total{other="k"}', "kandev_x_total has no label other"),
        ('kandev_x_total{kind=~"k|l"}', "kind of kandev_x_total is never l"),
        ('up{job="b"}', "job of up is never b"),
        ("sum by (kinds) (kandev_x_total)", "nothing that it names has a label kinds"),
    ],
)
def test_an_expression_that_nobody_answers(expression: str, problem: str) -> None:
    assert list(problems_of(expression, KNOWN)) == [problem]


@pytest.mark.parametrize("expression", ["up", 'sum by (kind, job, instance) (kandev_x_total{kind!="k"}) > 0'])
def test_an_expression_that_is_answered(expression: str) -> None:
    assert list(problems_of(expression, KNOWN)) == []


def alert(**change: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {"alert": "A", "expr": "up == 0", "labels": {"severity": "warning"}}
    return {**rule, "annotations": {"summary": "s", "runbook": "docs/operations.md#a"}, **change}


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ([alert()], None),
        ([alert(), alert()], "alert A is there 2 times"),
        ([alert(expr="nothing")], "alert A: no service tells nothing"),
        ([alert(labels={})], "alert A: its severity is neither critical nor warning"),
        (
            [alert(annotations={"runbook": "docs/operations.md#b"})],
            "alert A: its runbook docs/operations.md#b is not there",
        ),
    ],
)
def test_an_alert_that_does_not_fit(rules: list[dict[str, Any]], problem: str | None) -> None:
    text = yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]})
    assert list(problems_of_alerts(text, "### A\n", KNOWN)) == ([] if problem is None else [problem])


def panel(**change: Any) -> dict[str, Any]:
    place = {"x": 0, "y": 0, "w": 8, "h": 8}
    targets = [{"refId": "A", "expr": "up", "legendFormat": "{{job}}"}]
    return {"id": 1, "type": "stat", "title": "t", "description": "d", "gridPos": place, "targets": targets, **change}


@pytest.mark.parametrize(
    ("panels", "problem"),
    [
        ([panel()], None),
        ([panel(), panel(gridPos={"x": 8, "y": 0, "w": 8, "h": 8})], "panel id 1 is there 2 times"),
        ([panel(), panel(id=2, gridPos={"x": 7, "y": 7, "w": 8, "h": 8})], "panel 2 lies on panel 1"),
        ([panel(gridPos={"x": 20, "y": 0, "w": 8, "h": 8})], "panel 1 is wider than the dashboard"),
        ([panel(title="")], "panel 1: it has no title or no description"),
        ([panel(targets=[])], "panel t: it shows nothing"),
        ([panel(targets=[{"refId": "A", "expr": "nothing"}])], "panel t: no service tells nothing"),
        ([panel(targets=[{"refId": "A", "expr": "up"}] * 2)], "panel t: reference A is there 2 times"),
        (
            [panel(targets=[{"refId": "A", "expr": "sum by (job) (up)", "legendFormat": "{{instance}}"}])],
            "panel t: its legend shows instance, which its series do not have",
        ),
    ],
)
def test_a_panel_that_does_not_fit(panels: list[dict[str, Any]], problem: str | None) -> None:
    text = json.dumps({"uid": "u", "title": "t", "panels": panels})
    assert list(problems_of_dashboard(text, KNOWN)) == ([] if problem is None else [problem])
