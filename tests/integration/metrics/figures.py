"""What a service tells Prometheus, read as Prometheus would."""

from collections.abc import Callable, Iterable

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.stack import Stack
from tests.support.waiting import eventually


class Figures:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: list[Sample] = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def __getitem__(self, wanted: str | tuple[str, str]) -> float:
        """The sum of a metric's series; of those with a label of this value where one is named. 0: there is none."""
        name, value = wanted if isinstance(wanted, tuple) else (wanted, None)
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and (value is None or value in sample.labels.values())
        )

    def names(self) -> set[str]:
        """Everything that was told."""
        return {sample.name for sample in self.samples}


async def scrape(stack: Stack, name: str) -> Figures:
    """What a service tells now."""
    async with stack.http.get(f"http://127.0.0.1:{stack.metrics_of(name)}/metrics") as answer:
        assert answer.status == 200
        return Figures(await answer.text())


async def figure(stack: Stack, name: str, wanted: str | tuple[str, str], met: Callable[[float], bool]) -> float:
    """A service's figure, once it meets the condition."""

    async def look() -> float:
        return (await scrape(stack, name))[wanted]

    return await eventually(look, met)


def values(figures: Iterable[Figures]) -> set[str]:
    """Every name of a label and every value of one."""
    return {text for each in figures for sample in each.samples for pair in sample.labels.items() for text in pair}
