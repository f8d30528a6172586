"""How metrics are declared, counted and read."""

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from services.gateway.metrics import CLOSE_CODES
from shared.metrics.declaring import Metrics, Read


def scraped(metrics: Metrics) -> list[str]:
    """The lines of what is scraped, without what the system says of the process."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    return [line for line in lines if line.startswith("probe_")]


def test_every_declared_series_is_there_before_anything_is_counted() -> None:
    metrics = Metrics("probe")
    counted = metrics.counter("probe_things_total", "Things.", kind=("a", "b"), outcome=("good", "bad"))
    assert scraped(metrics) == [
        f'probe_things_total{{kind="{kind}",outcome="{outcome}"}} 0.0' for kind in "ab" for outcome in ("good", "bad")
    ]
    counted.labels("a", "bad").inc(2)
    assert 'probe_things_total{kind="a",outcome="bad"} 2.0' in scraped(metrics)


def test_readings_are_read_when_somebody_asks_and_added_up() -> None:
    metrics = Metrics("probe")
    reading = metrics.reading("probe_open", "Open.", state=("in", "out"))
    held = [1, 2]

    def read() -> list[Read]:
        return [reading.of(len(held), "in")]

    assert scraped(metrics) == []
    with metrics.reads(read), metrics.reads(read):
        assert scraped(metrics) == ['probe_open{state="in"} 4.0']
        held.append(3)
        assert scraped(metrics) == ['probe_open{state="in"} 6.0']
    assert scraped(metrics) == []


def test_a_value_that_is_not_declared_is_no_label() -> None:
    reading = Metrics("probe").reading("probe_open", "Open.", state=("in",))
    with pytest.raises(ValueError, match="not declared"):
        reading.of(1, "somebody's id")
    with pytest.raises(ValueError, match="shorter"):
        reading.of(1)


def test_everything_is_named_in_order_with_what_its_labels_may_be() -> None:
    metrics = Metrics("probe")
    metrics.histogram("probe_seconds", "How long.", kind=("a",))
    metrics.gauge("probe_figure", "One figure.")
    found = {each.name: (each.kind, each.labels) for each in metrics.declared}
    assert list(found) == ["kandev_build_info", "probe_figure", "probe_seconds"]
    assert found["probe_seconds"] == ("histogram", {"kind": ("a",)})


def test_every_close_code_that_is_counted_is_explained() -> None:
    table = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| ((?:\d{4})(?:, \d{4})*) \|", table, re.MULTILINE)
    assert {code for codes in explained for code in codes.split(", ")} == set(CLOSE_CODES)
