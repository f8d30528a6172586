"""`kandev-conversation replay`: a recorded transcript happens again, live."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import click
import orjson

from cli.counting import counted
from cli.errors import CommandFailed
from cli.importing import sentence
from cli.options import Finite, url_option, workspace_option
from cli.skips import report_skips
from cli.target import target_token, target_url
from cli.transcripts.contents import Transcript
from cli.transcripts.plan import PlannedMessage, PlannedSession, stable_id
from cli.transcripts.timeline import Moment, Step, portions, timeline
from cli.workspaces import Workspace, chosen_workspace, make_workspace
from cli.writing import create_in_parts, update_message
from client.writers import NewMessage, WriteError, Writers, Written

WORKSPACE = "Replays"
STREAMED = frozenset({"message", "thinking"})


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@url_option
@click.option("--speed", type=Finite(min=0, min_open=True), default=1.0, show_default=True, help="Times as fast.")
@click.option(
    "--max-gap",
    type=Finite(min=0),
    default=2.0,
    show_default=True,
    help="Longest pause, in recorded seconds.",
)
@click.option("--session", "chosen", help="Which session of the file. [default: its first]")
@workspace_option(WORKSPACE)
@click.option("--json", "as_json", is_flag=True, help="JSON lines on standard output: the session, then the end.")
def replay(
    *,
    file: Path,
    url: str | None,
    speed: float,
    max_gap: float,
    chosen: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Play a transcript as a new, live conversation.

    The new session's id is printed first, so that it can be followed from the start. Replies are streamed in small
    appends, tools get their results when they had them. At the end the session is COMPLETED; ctrl-c leaves it RUNNING
    where it is, with exit code 0. A line of the file that cannot be used is named on standard error and left out.

    \b
    Example:
      kandev-conversation replay session.jsonl --speed 10
    """
    with Transcript(file) as transcript:
        report_skips(transcript.path, transcript.plan.skipped)
        planned = _choose(transcript, chosen)
        session_id = str(uuid.uuid4())

        def announce() -> None:
            click.echo(orjson.dumps({"event": "session", "session_id": session_id}) if as_json else session_id)

        replaying = Replay(transcript, planned, session_id, speed=speed, max_gap=max_gap, announce=announce)
        end = "done"
        try:
            asyncio.run(_replay(replaying, target_url(url), workspace))
        except KeyboardInterrupt:
            if not replaying.announced:
                raise
            end = "stopped"
        if as_json:
            counts = {f"{what}s": count for what, count in replaying.counts.items()}
            click.echo(orjson.dumps({"event": end, "session_id": session_id, **counts}))
        else:
            told = ", ".join(counted(count, what) for what, count in replaying.counts.items())
            click.echo(told if end == "done" else f"Stopped: {told}", err=True)


def _choose(transcript: Transcript, chosen: str | None) -> PlannedSession:
    sessions = transcript.plan.sessions
    if not sessions:
        raise CommandFailed(f"{transcript.path} holds no message. Choose a transcript with at least one prompt.")
    if chosen is None:
        if len(sessions) > 1:
            click.echo(
                f"{transcript.path} holds {len(sessions)} sessions; playing the first. --session chooses.", err=True
            )
        return sessions[0]
    for session in sessions:
        if session.session_id == chosen:
            return session
    held = ", ".join(session.session_id for session in sessions[:10])
    raise CommandFailed(f"{transcript.path} does not hold the session {chosen}. It holds: {held}")


async def _replay(replaying: "Replay", url: str, workspace: str | None) -> None:
    async with Writers(url, token=target_token()) as writers:
        try:
            await writers.reach()
            await replaying.run(writers, await chosen_workspace(writers, workspace, WORKSPACE))
        except WriteError as error:
            raise CommandFailed(sentence(error)) from None


class Replay:
    """One replay: one write at a time, each at its moment or as soon after it as the gateway allows.

    `announced`: the session is there and its id was told. `counts`: what was written so far, by kind.
    """

    def __init__(
        self,
        transcript: Transcript,
        planned: PlannedSession,
        session_id: str,
        *,
        speed: float,
        max_gap: float,
        announce: Callable[[], None],
    ) -> None:
        self._transcript = transcript
        self._planned = planned
        self._session_id = session_id
        self._speed = speed
        self._steps = timeline(planned, max_gap)
        self._announce = announce
        self.announced = False
        self._revision = 0
        self.counts = {"message": 0, "append": 0, "update": 0, "turn": 0}

    async def run(self, writers: Writers, workspace: Workspace) -> None:
        """Makes the session, announces it and plays to the end."""
        task_id = self._new_id("task")
        await make_workspace(writers, workspace)
        await writers.create_task(task_id, workspace.id, self._transcript.title(self._planned))
        metadata = {"source": "replay", "replay_of": self._planned.session_id, **self._planned.facts}
        self._note(await writers.create_session(self._session_id, task_id, state="RUNNING", metadata=metadata))
        self.announced = True
        self._announce()
        loop = asyncio.get_running_loop()
        due = loop.time()
        for step in self._steps:
            until = max(due, loop.time()) + step.pause / self._speed
            await self._take(writers, step, until)
            await asyncio.sleep(max(0.0, until - loop.time()))
            due = until
        await writers.update_session(self._session_id, "COMPLETED")

    async def _take(self, writers: Writers, step: Step, until: float) -> None:
        message, turn = step.message, step.turn
        if turn is not None and step.moment is Moment.PROMPTS:
            self._note(await writers.start_turn(self._session_id, self._new_id(turn.id)), "turn")
        if turn is not None and step.moment is Moment.COMPLETES:
            self._note(await writers.complete_turn(self._session_id, self._new_id(turn.id)))
        if message is None:
            return
        if step.moment is Moment.RESULT:
            await self._result(writers, message)
        elif message.author == "agent" and message.type in STREAMED:
            await self._stream(writers, message, until)
        else:
            await self._whole(writers, message)

    async def _whole(self, writers: Writers, message: PlannedMessage) -> None:
        contents = self._transcript.contents(message)
        new = self._new(message, contents.call or contents.content, contents.call_metadata or contents.metadata)
        self._note(await create_in_parts(writers, self._session_id, new), "message")

    async def _result(self, writers: Writers, message: PlannedMessage) -> None:
        contents = self._transcript.contents(message)
        changes = {"content": contents.content, "metadata": contents.metadata}
        message_id = self._new_id(message.id)
        self._note(await update_message(writers, self._session_id, message_id, changes, self._revision), "update")

    async def _stream(self, writers: Writers, message: PlannedMessage, until: float) -> None:
        loop = asyncio.get_running_loop()
        contents = self._transcript.contents(message)
        begun = loop.time()
        first, *rest = portions(contents.content, until - begun)
        new = self._new(message, first, contents.metadata)
        self._note(await create_in_parts(writers, self._session_id, new), "message")
        offset = len(first)
        for number, text in enumerate(rest, 1):
            await asyncio.sleep(max(0.0, begun + (until - begun) * number / (len(rest) + 1) - loop.time()))
            self._note(await writers.append(self._session_id, new.id, offset, text), "append")
            offset += len(text)

    def _new(self, message: PlannedMessage, content: str, metadata: object) -> NewMessage:
        turn = None if message.turn is None else self._new_id(self._planned.turns[message.turn].id)
        return NewMessage(
            id=self._new_id(message.id),
            author_type=message.author,
            content=content,
            type=message.type,
            turn_id=turn,
            metadata=metadata if isinstance(metadata, dict) else {},
        )

    def _new_id(self, name: str) -> str:
        return stable_id(self._session_id, name)

    def _note(self, written: Written, kind: str | None = None) -> None:
        self._revision = written.revision
        if kind is not None:
            self.counts[kind] += 1
