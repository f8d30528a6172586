"""My daily standup: what was talked about on each task since yesterday 00:00, from a plugin's own process.

Install a plugin that may read messages, give it a token, and run this:

    kandev-conversation plugin pack docs/examples/daily-standup
    kandev-conversation plugin install daily-standup-1.0.0.tar.gz
    export KANDEV_PLUGIN_TOKEN="$(kandev-conversation plugin token daily-standup)"
    export KANDEV_RPC_ADDRESS=127.0.0.1:8081        # "Host RPC" in what `make up` prints
    python docs/examples/daily_standup.py --since 2026-01-31

It needs nothing that was kept while it did not run: what happened then is read now.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kandev_plugin_sdk import Host, HostError, Message, MessageFilter

MOST_LINES = 5
WIDTH = 100


@dataclass
class TaskDigest:
    """What a task's conversations were about."""

    prompts: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    last_answer: str = ""

    def note(self, message: Message) -> None:
        """Takes one message, oldest first."""
        self.sessions.add(message.session_id)
        kind = "prompt" if message.author_type == "user" else message.type
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if message.author_type == "user":
            self.prompts.append(message.content)
        elif message.type == "message" and message.content:
            self.last_answer = message.content


async def digests(host: Host, since: datetime, until: datetime, task_ids: Sequence[str]) -> dict[str, TaskDigest]:
    """A digest for each task that was talked about between two moments."""
    found: dict[str, TaskDigest] = {}
    async for message in host.messages().all(MessageFilter(task_ids=tuple(task_ids), since=since, until=until)):
        found.setdefault(message.task_id or "(no task)", TaskDigest()).note(message)
    return found


def told(task_id: str, digest: TaskDigest) -> str:
    """A digest as lines of text."""
    counts = ", ".join(f"{count} x {kind}" for kind, count in sorted(digest.counts.items(), key=lambda each: -each[1]))
    asked = [f"  > {_line(prompt)}" for prompt in digest.prompts[:MOST_LINES]]
    if len(digest.prompts) > MOST_LINES:
        asked.append(f"  > ... and {len(digest.prompts) - MOST_LINES} more")
    answer = [f"  = {_line(digest.last_answer)}"] if digest.last_answer else []
    sessions = f"{len(digest.sessions)} session{'' if len(digest.sessions) == 1 else 's'}"
    return "\n".join([f"{task_id}: {sessions}; {counts}", *asked, *answer])


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


async def standup(since: datetime, until: datetime, task_ids: Sequence[str]) -> int:
    """Prints the digests; the exit code."""
    try:
        async with Host.from_environment() as host:
            found = await digests(host, since, until, task_ids)
    except KeyError:
        print("Set KANDEV_PLUGIN_TOKEN: `kandev-conversation plugin token ID` makes one.", file=sys.stderr)
        return 2
    except HostError as error:
        print(f"The host cannot be asked: {error}", file=sys.stderr)
        return 2
    print("\n\n".join(told(task_id, found[task_id]) for task_id in sorted(found)) or "Nothing was talked about.")
    return 0


def main() -> None:
    """The command."""
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    parser = argparse.ArgumentParser(description="What was talked about, task by task.")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="only these tasks")
    parser.add_argument("--since", type=_day, default=midnight - timedelta(days=1), help="a day [default: yesterday]")
    parser.add_argument("--until", type=_day, default=midnight + timedelta(days=1), help="a day [default: tomorrow]")
    given = parser.parse_args()
    sys.exit(asyncio.run(standup(given.since, given.until, given.tasks)))


def _day(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError("expected a day such as 2026-01-31") from None


if __name__ == "__main__":
    main()
