"""The proof: crowds in processes of their own, and one upheaval after the other."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from tests.bench.process import AnsweringProgram, raise_file_limit
from tests.upheaval.crowd import Order
from tests.upheaval.figures import Figures, Row, line, together
from tests.upheaval.installation import Broken, Installation
from tests.upheaval.plan import Upheaval


@dataclass(frozen=True, slots=True)
class Load:
    """Who follows and writes: in all, spread over so many processes. `rate`: writes a second."""

    clients: int
    sessions: int
    processes: int
    rate: float
    patience: float


@dataclass(frozen=True, slots=True)
class Result:
    """What came out. `equal`: clients that equalled the source at the end, of `clients`. `messages`: that were written
    and acknowledged. `wrong`: what must not be, in sentences; empty when the proof holds.
    """

    rows: Sequence[Row]
    clients: int
    equal: int
    messages: int
    wrong: Sequence[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether every client came back every time and equals the source."""
        return not self.wrong and self.equal == self.clients


async def prove(
    installation: Installation,
    upheavals: Sequence[Upheaval],
    load: Load,
    *,
    token: str | None = None,
    tell: Callable[[str], None] = print,
) -> Result:
    """Lets the installation go through all upheavals under the load; none follows one that it does not
    survive.
    """
    raise_file_limit()
    rows: list[Row] = []
    wrong: list[str] = []
    async with AsyncExitStack() as ending:
        crowds = [
            await ending.enter_async_context(
                AnsweringProgram(sys.executable, "-m", "tests.upheaval.crowd", order.model_dump_json())
            )
            for order in orders(load, installation.urls, token)
        ]
        await _asked(crowds, "open")
        tell(f"{load.clients:,} clients follow {load.sessions:,} sessions, {load.rate:g} writes a second")
        for upheaval in (None, *upheavals):
            await _asked(crowds, "mark")
            began = time.monotonic()
            if upheaval is not None:
                try:
                    await installation.hit(upheaval)
                except Broken as broken:
                    wrong.append(f"{upheaval.name}: {broken}")
                    break
            settled = await _asked(crowds, "settle")
            figures = together([Figures.model_validate(each["figures"]) for each in settled])
            rows.append(Row("opening" if upheaval is None else upheaval.name, figures, time.monotonic() - began))
            tell(line(rows[-1]))
            wrong += [f"after {rows[-1].name}: {each}" for part in settled for each in part["wrong"]]
        finished = await _asked(crowds, "finish")
    wrong += [each for part in finished for each in part["wrong"]]
    return Result(
        rows,
        load.clients,
        sum(part["equal"] for part in finished),
        sum(part["messages"] for part in finished),
        wrong,
    )


def orders(load: Load, urls: Sequence[str], token: str | None) -> list[Order]:
    """The load, spread evenly over its processes; none is without a session."""
    parts = min(load.processes, load.sessions)
    return [
        Order(
            urls=tuple(urls),
            token=token,
            clients=_part(load.clients, number, parts),
            sessions=_part(load.sessions, number, parts),
            rate=load.rate / parts,
            patience=load.patience,
        )
        for number in range(parts)
    ]


def _part(whole: int, number: int, parts: int) -> int:
    return whole // parts + (number < whole % parts)


async def _asked(crowds: Sequence[AnsweringProgram], what: str) -> list[dict[str, Any]]:
    return await asyncio.gather(*(crowd.ask(do=what) for crowd in crowds))
