"""What was counted meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

from shared.metrics.declaring import Metrics


class Counted:
    """What grew within a block, by metric and the values of its labels; known at its end."""

    def __init__(self) -> None:
        self.grown: dict[tuple[str, ...], float] = {}

    def __getitem__(self, series: str | tuple[str, ...]) -> float:
        """How much a series grew. `series`: a name, and the values of the labels in their order, if it has any."""
        return self.grown.get((series,) if isinstance(series, str) else series, 0.0)


@contextmanager
def counting(metrics: Metrics) -> Iterator[Counted]:
    """Notes what a service of this process counts within the block."""
    before, counted = _figures(metrics), Counted()
    yield counted
    after = _figures(metrics)
    counted.grown = {series: value - before.get(series, 0.0) for series, value in after.items()}


def _figures(metrics: Metrics) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        if family.name.startswith("kandev_")
        for sample in family.samples
    }
