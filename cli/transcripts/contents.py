"""Contents of planned messages, read from the file when they are written and not before."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import orjson

from cli.counting import counted
from cli.errors import CommandFailed
from cli.transcripts.lines import MAX_LINE_BYTES, read_lines
from cli.transcripts.parsing import BadLine, Block, Entry, parse_line
from cli.transcripts.plan import FilePlan, Piece, PlannedMessage, PlannedSession, plan_lines
from shared.contracts.commands import MAX_CONTENT_CHARACTERS

MAX_METADATA_CHARACTERS = 256 << 10
"""Longest input or result of a tool in a message's metadata. The content holds the result whole."""

_TITLE_CHARACTERS = 80
_CALL_CHARACTERS = 200
# What says best, in one line, what a tool was asked to do.
_TELLING_INPUTS = ("command", "file_path", "notebook_path", "path", "pattern", "query", "url", "description", "skill")


@dataclass(frozen=True, slots=True)
class Contents:
    """What a message says. `call` is the content of a tool message before its result."""

    content: str
    metadata: Mapping[str, object]
    call: str = ""
    call_metadata: Mapping[str, object] | None = None


class Transcript:
    """An open transcript: its plan, and the contents of what it planned. Close it, or use it as a context."""

    def __init__(self, path: Path) -> None:
        """Reads the whole file once. Raises `CommandFailed` for what is no transcript."""
        self.path = path
        self._descriptor = _open(path)
        try:
            self.plan = self._read()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def _read(self) -> FilePlan:
        try:
            if os.pread(self._descriptor, 2, 0) == b"\x1f\x8b":
                raise CommandFailed(f"{self.path} is compressed. Unpack it first: gunzip --keep {self.path}")
            with os.fdopen(os.dup(self._descriptor), "rb", buffering=1 << 20) as file:
                plan = plan_lines(read_lines(file))
        except OSError as error:
            raise CommandFailed(f"{self.path} cannot be read: {error.strerror}. Choose a readable file.") from None
        if not plan.transcript:
            raise CommandFailed(
                f"{self.path} is no transcript ({counted(plan.lines, 'line')} read). Expected JSON lines as coding "
                "agents record them, each with type, sessionId, timestamp and message."
            )
        return plan

    def title(self, session: PlannedSession) -> str:
        """The first line of its first prompt, cut to 80 characters; the session's id where there is none."""
        for message in session.messages:
            if message.author == "user":
                line = self.contents(message).content.strip().splitlines()[0].strip()
                return line if len(line) <= _TITLE_CHARACTERS else line[: _TITLE_CHARACTERS - 1] + "…"
        return f"Transcript {session.session_id}"

    def contents(self, message: PlannedMessage) -> Contents:
        """Reads what the message says. Raises `CommandFailed` when the file was changed meanwhile."""
        blocks = [self._block(piece) for piece in message.pieces]
        about: dict[str, object] = {"sidechain": True} if message.sidechain else {}
        if not message.type.startswith("tool_"):
            return _limited("".join(block.text for block in blocks), about)
        use = blocks[0]
        call = _call(use)
        about |= {"tool_name": use.name, "tool_use_id": use.ident, "input": _short(use.input)}
        if message.result is None:
            return Contents(call, about, call, about)
        result = self._block(message.result)
        full = {**about, "result": _short(result.text), "is_error": result.is_error}
        whole = _limited(f"{call}\n\n{result.text}" if result.text.strip() else call, full)
        return Contents(whole.content, whole.metadata, call, about)

    def _block(self, piece: Piece) -> Block:
        changed = CommandFailed(f"{self.path} was changed while it was read. Run the command again.")
        if piece.place.length > MAX_LINE_BYTES + 1:
            raise changed
        try:
            read = parse_line(os.pread(self._descriptor, piece.place.length, piece.place.offset))
        except (BadLine, OSError):
            raise changed from None
        if not isinstance(read, Entry) or piece.block >= len(read.blocks):
            raise changed
        return read.blocks[piece.block]


def _open(path: Path) -> int:
    if path.is_dir():
        raise CommandFailed(f"{path} is a directory. Name the transcript files in it, as in {path}/*.jsonl")
    if path.exists() and not path.is_file():
        raise CommandFailed(f"{path} is no regular file. Save the transcript to a file first.")
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}. Choose a readable file.") from None


def _limited(content: str, metadata: Mapping[str, object]) -> Contents:
    if len(content) <= MAX_CONTENT_CHARACTERS:
        return Contents(content, metadata)
    return Contents(content[:MAX_CONTENT_CHARACTERS], {**metadata, "truncated": True})


def _call(use: Block) -> str:
    """One line that names the tool and what it was asked to do."""
    inputs = use.input if isinstance(use.input, dict) else {}
    for name in _TELLING_INPUTS:
        value = inputs.get(name)
        if isinstance(value, str) and value.strip():
            line = value.strip().splitlines()[0]
            return f"{use.name}: {line if len(line) <= _CALL_CHARACTERS else line[:_CALL_CHARACTERS] + '…'}"
    return use.name


def _short(value: object) -> object:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return value if len(text) <= MAX_METADATA_CHARACTERS else text[:MAX_METADATA_CHARACTERS] + "…"
