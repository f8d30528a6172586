"""The metrics of one service, declared in one module of it, with every value that a label may have.

Values that are declared cannot come from a request: no content, no id and no name of anybody gets into a label, and the
number of series is known before the first one is counted. Counters and histograms begin at zero for each of them, so
that the first thing counted is seen as an increase.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.version import VERSION

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Bounds of every histogram of durations: from an idle path to past every deadline."""

Kind = Literal["counter", "gauge", "histogram"]
_ChildrenT = TypeVar("_ChildrenT", Counter, Gauge, Histogram)

# A time of creation for every series doubles what is scraped and says nothing that the process's own does not.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library has not typed this one


@dataclass(frozen=True, slots=True)
class Declared:
    """A metric as it is documented. `name`: as it is scraped, without a histogram's endings."""

    name: str
    kind: Kind
    text: str
    labels: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Reading:
    """A gauge that is read from its object when somebody asks; nothing is counted meanwhile."""

    declared: Declared

    def of(self, value: float, *labels: str) -> "Read":
        """What was read. `labels`: in the order in which they are declared. Raises ValueError for others."""
        for (name, values), label in zip(self.declared.labels.items(), labels, strict=True):
            if label not in values:
                raise ValueError(f"{name} of {self.declared.name} has a value that is not declared")
        return self.declared.name, labels, value


Read: TypeAlias = tuple[str, tuple[str, ...], float]
"""Metric, values of its labels, and what was read."""


class Metrics(Collector):
    """The metrics of one service. `registry` holds them, and what the system knows of the process."""

    def __init__(self, service: str) -> None:
        self.registry = CollectorRegistry()
        self._declared: dict[str, Declared] = {}
        self._readings: set[str] = set()
        self._sources: list[Callable[[], Iterable[Read]]] = []
        ProcessCollector(registry=self.registry)
        self.registry.register(self)
        build = self.gauge("kandev_build_info", "1, for this version.", service=(service,), version=(VERSION,))
        build.labels(service, VERSION).set(1)

    @property
    def declared(self) -> tuple[Declared, ...]:
        """Every metric, in the order of their names."""
        return tuple(self._declared[name] for name in sorted(self._declared))

    def counter(self, name: str, text: str, **labels: Iterable[str]) -> Counter:
        """Something that is counted."""
        declared = self._declare(name, "counter", text, labels)
        return _zeroed(Counter(name, text, tuple(declared.labels), registry=self.registry), declared)

    def gauge(self, name: str, text: str, **labels: Iterable[str]) -> Gauge:
        """A figure that goes up and down, and is set when it changes."""
        declared = self._declare(name, "gauge", text, labels)
        return Gauge(name, text, tuple(declared.labels), registry=self.registry)

    def histogram(
        self, name: str, text: str, buckets: tuple[float, ...] = SECONDS, **labels: Iterable[str]
    ) -> Histogram:
        """How figures are distributed."""
        declared = self._declare(name, "histogram", text, labels)
        made = Histogram(name, text, tuple(declared.labels), buckets=buckets, registry=self.registry)
        return _zeroed(made, declared)

    def reading(self, name: str, text: str, **labels: Iterable[str]) -> Reading:
        """A figure that is read when somebody asks."""
        self._readings.add(name)
        return Reading(self._declare(name, "gauge", text, labels))

    @contextmanager
    def reads(self, source: Callable[[], Iterable[Read]]) -> Iterator[None]:
        """Has readings come from `source` within the block. What several sources tell of one series is added up."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry must not ask for figures before they are declared."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """What the readings are now."""
        figures: dict[str, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
        for source in self._sources:
            for name, labels, value in source():
                figures[name][labels] += value
        for name in sorted(self._readings):
            declared = self._declared[name]
            family = GaugeMetricFamily(name, declared.text, labels=tuple(declared.labels))
            for labels, value in figures[name].items():
                family.add_metric(labels, value)
            yield family

    def _declare(self, name: str, kind: Kind, text: str, labels: Mapping[str, Iterable[str]]) -> Declared:
        declared = Declared(name, kind, text, {label: tuple(values) for label, values in labels.items()})
        self._declared[name] = declared
        return declared


def _zeroed(made: _ChildrenT, declared: Declared) -> _ChildrenT:
    """With a child for every combination of the declared values."""
    if declared.labels:
        for values in product(*declared.labels.values()):
            made.labels(*values)
    return made
