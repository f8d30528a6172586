"""`python -m tests.bench [NAME ...]`: measures, and prints one table."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import uvloop

from tests.bench import (
    attach,
    curves,
    fanout,
    following,
    host_list,
    large,
    live_path,
    memory,
    pages,
    repairs,
    silent,
    sources,
    storm,
)
from tests.bench.figures import Figure, table
from tests.bench.ground import Ground, prepared
from tests.bench.native import Unavailable
from tests.bench.process import raise_file_limit


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    names: Sequence[str]
    seconds: float
    messages: int
    all_peers: bool


Measure = Callable[[Ground, Options], Awaitable[Sequence[Figure]]]

# In this order: the long session is filled before anything tracks, and writers are measured before anything else reads.
GROUPS: Mapping[str, Measure] = {
    "long": lambda ground, options: pages.long_session(ground, options.messages, options.seconds),
    "writers": lambda ground, options: sources.measure(ground, options.seconds),
    "live": lambda ground, options: live_path.measure(ground, options.seconds, all_peers=options.all_peers),
    "pages": lambda ground, options: pages.first_pages(ground, options.seconds),
    "prompts": lambda ground, options: following.prompts_only(ground),
    "busy": lambda ground, options: following.staying_live(ground),
    "fanout": lambda ground, options: fanout.measure(ground, options.seconds, all_peers=options.all_peers),
    "large": lambda ground, options: large.measure(ground),
    "silent": lambda ground, options: silent.measure(ground),
    "memory": lambda ground, options: memory.measure(ground),
    "repairs": lambda ground, options: repairs.measure(ground),
    "storm": lambda ground, options: storm.measure(ground),
}

CURVES = "curves"
"""Measured only by name: takes minutes, and writes the plots of docs/performance."""

APART: Mapping[str, Measure] = {
    "host": lambda ground, options: host_list.measure(ground, options.messages),
    "attach": lambda ground, options: attach.measure(ground, options.messages),
}
"""Measured only by name: each fills tables for minutes, on servers of its own."""


async def run(options: Options) -> None:
    """Measures the groups by name, in the order of `GROUPS`, and prints their figures."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    figures: list[Figure] = []
    raise_file_limit()
    if set(options.names) - set(APART):
        async with prepared() as ground:
            for name in GROUPS:
                if name in options.names:
                    began = time.monotonic()
                    try:
                        figures += await GROUPS[name](ground, options)
                    except Unavailable as reason:
                        print(f"{name} was left out: {reason}", file=sys.stderr)
                    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
            if CURVES in options.names:
                await curves.measure(ground)
    for name in APART:
        if name in options.names:
            async with prepared() as ground:
                figures += await APART[name](ground, options)
    if figures:
        print(table(figures))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"what to measure: {', '.join(GROUPS)} (default: all of these), {CURVES}, or {' or '.join(APART)}",
    )
    parser.add_argument(
        "--seconds", type=float, default=1.5, help="length of one measurement; each is taken repeatedly"
    )
    parser.add_argument(
        "--messages",
        type=int,
        default=1_000_000,
        help="messages of the long session, or of the table of host or attach",
    )
    parser.add_argument(
        "--peers", choices=("usual", "all"), default="usual", help="all: those that are seldom installed, too"
    )
    given = parser.parse_args()
    known = (*GROUPS, CURVES, *APART)
    if unknown := set(given.names) - set(known):
        parser.error(f"expected some of {', '.join(known)}, not {', '.join(sorted(unknown))}")
    try:
        names = given.names or list(GROUPS)
        uvloop.run(run(Options(names, given.seconds, given.messages, given.peers == "all")))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)


if __name__ == "__main__":
    main()
