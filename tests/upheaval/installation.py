"""What the proof needs of an installation, whatever it runs on."""

from collections.abc import Sequence
from typing import Protocol

from tests.upheaval.plan import Upheaval


class Broken(Exception):
    """The installation cannot be hit, or did not come back."""


class Installation(Protocol):
    """A running installation. `upheavals`: what can happen to it. `urls`: where clients and writers go, evenly spread
    where there are several.
    """

    upheavals: Sequence[Upheaval]
    urls: Sequence[str]

    async def hit(self, upheaval: Upheaval) -> None:
        """Lets it happen; returns once every process runs and is ready again. Raises `Broken`."""
