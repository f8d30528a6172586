"""`kandev-conversation tail`: a conversation in the terminal, as it happens."""

import asyncio
import signal
import sys
from contextlib import ExitStack
from typing import Literal, Protocol

import click
from rich.live import Live

from cli.options import SESSION, TASK, url_option
from cli.tail_lines import AppendedLines, JsonLines
from cli.tail_screen import Screen
from cli.target import identity_ended, not_followed, not_reached, target_token, target_url
from client.connection import Connection, ConnectionFailed
from client.events import CloseReason
from client.follower import Follower
from client.http_pages import PAGE_ROWS
from client.range import Filter, RowChange
from client.state import State

ACCESS_LOST = 1
"""Exit code when the session was followed and then was no longer this reader's to see."""


class View(Protocol):
    """What shows a conversation. `show` gets each state in turn, with the rows that changed."""

    def show(self, state: State, changes: tuple[RowChange, ...]) -> None:
        """Shows what is new."""


@click.command()
@click.argument("session", type=SESSION)
@url_option
@click.option("--author", type=click.Choice(["user", "agent"]), help="Only messages by this author.")
@click.option("--task", type=TASK, help="Only rows of this task.")
@click.option(
    "--limit", type=click.IntRange(1, PAGE_ROWS), default=20, show_default=True, help="Rows to begin with, the newest."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each change, for programs.")
def tail(
    *,
    session: str,
    url: str | None,
    author: Literal["user", "agent"] | None,
    task: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Follow a conversation until ctrl-c, or until it is removed.

    Times are those of this machine's zone. `kandev-conversation sessions` lists what can be followed.

    \b
    Exit codes: 0 stopped, or the session was removed; 1 access was lost: the
    token or its user ended, or the session is no longer yours to read; 2 there is
    no such session, nothing answers at the URL, or it refuses.
    """
    scope_filter = Filter(task, () if author is None else (author,))
    with ExitStack() as stack:
        view: View
        if as_json:
            view = JsonLines(click.echo)
        elif sys.stdout.isatty():
            screen = Screen(session, limit)
            stack.enter_context(Live(get_renderable=screen.render, auto_refresh=True, refresh_per_second=8))
            view = screen
        else:
            view = AppendedLines(click.echo)
        try:
            reason = asyncio.run(follow(target_url(url), session, scope_filter, limit, view))
        except ConnectionFailed as error:
            raise not_reached(error) from error
    raise SystemExit(_ended(session, reason))


def _ended(session: str, reason: CloseReason | None) -> int:
    match reason:
        case None:
            return 0
        case CloseReason.REMOVED:
            click.echo(f"Session {session} was removed.", err=True)
            return 0
        case CloseReason.ENDED:
            click.echo(f"Session {session} is no longer yours to read, or was removed.", err=True)
            return ACCESS_LOST
        case CloseReason.UNAUTHENTICATED:
            click.echo(f"Signed out: {identity_ended()}", err=True)
            return ACCESS_LOST
        case CloseReason.NOT_FOUND | CloseReason.REFUSED:
            raise not_followed(session, reason)


async def follow(url: str, session: str, scope_filter: Filter, limit: int, view: View) -> CloseReason | None:
    """Shows the session until it closes, and says why, or until it is told to stop. Raises ConnectionFailed."""
    news: list[tuple[State, tuple[RowChange, ...]]] = []
    arrived = asyncio.Event()

    def observe(state: State, changes: tuple[RowChange, ...]) -> None:
        # Shown outside the socket's reader. The list is as long as what one wake-up of the reader brings.
        news.append((state, changes))
        arrived.set()

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with (
        Connection(url, token=target_token()) as connection,
        Follower(connection, session, scope_filter=scope_filter, limit=limit, observer=observe) as follower,
    ):
        stopping = asyncio.create_task(stopped.wait(), name="stopping")
        try:
            while not stopping.done():
                arriving = asyncio.create_task(arrived.wait(), name="arriving")
                await asyncio.wait({arriving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                arriving.cancel()
                arrived.clear()
                closed = await follower.why_closed()
                if _is_told(follower.state):
                    for state, changes in news:
                        view.show(state if state.closed is None else follower.state, changes)
                    news.clear()
                if closed is not None:
                    return closed
        finally:
            stopping.cancel()
    return None


def _is_told(state: State) -> bool:
    """Nothing is, until there are rows, or these take more than one attempt: there may be no such session."""
    return state.held is not None or state.counters.repairs > 0
