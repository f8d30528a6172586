"""What one line of a transcript says. Pure: bytes in, an entry out, or the reason why the line is of no use."""

import json
from dataclasses import dataclass
from enum import StrEnum

import orjson

from shared.times import microseconds

# Kinds of lines that are known and hold nothing to show.
_NOT_STORED = frozenset({"progress", "file-history-snapshot", "queue-operation", "system"})
OTHER = "other"
"""How lines of kinds that this program does not know are counted."""

TASK_NOTIFICATION = "<task-notification>"
MAX_DEPTH = 100
"""Deepest nesting of a line: no recorded one passes 20, and every program on the way has a limit of its own."""

# What PostgreSQL's timestamps and Python's both hold, with room for the microseconds that ties add.
_EARLIEST = microseconds("1000-01-01T00:00:00Z")
_LATEST = microseconds("9999-01-01T00:00:00Z")
_MAX_ID = 255
_DOTS = frozenset({".", ".."})  # as segments of a path they name folders
_LARGEST_INTEGER = (1 << 53) - 1  # beyond it, JSON's other readers round
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class BadLine(Exception):
    """The line cannot be used; the text says why and quotes nothing of it."""


class Part(StrEnum):
    """What one part of a line becomes."""

    PROMPT = "prompt"
    STATUS = "status"
    TEXT = "text"
    THINKING = "thinking"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    NOT_STORED = "not_stored"


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a line. `ident`: the tool use it is or answers. `name`, `input`: of a tool use. `text`: its words."""

    part: Part
    text: str = ""
    ident: str = ""
    name: str = ""
    input: object = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A line with something to store.

    `time`: microseconds since 1970. `key`: the line's own uuid, empty for none. `reply`: the id that the pieces of one
    reply share. `facts`: where the agent worked, for the session's metadata.
    """

    session_id: str
    time: int
    key: str
    reply: str
    sidechain: bool
    blocks: tuple[Block, ...]
    facts: dict[str, str]


@dataclass(frozen=True, slots=True)
class NotStored:
    """A line that is counted by its kind and not stored. `known`: transcripts have lines of this kind."""

    kind: str
    known: bool


def parse_line(raw: bytes) -> Entry | NotStored:
    """Reads one line. Raises `BadLine`."""
    line = _clean(_decode(raw), MAX_DEPTH)
    if not isinstance(line, dict):
        raise BadLine("expected a JSON object")
    kind = line.get("type")
    if not isinstance(kind, str):
        raise BadLine("has no type")
    if kind == "system" and line.get("isMeta") is True and isinstance(line.get("content"), str):
        return _entry(line, (Block(Part.STATUS, _text(line.get("content"))),), "")
    if kind in ("user", "assistant"):
        return _said(kind, line)
    if kind not in _NOT_STORED:
        return NotStored(OTHER, known=False)
    return NotStored(kind, known=kind == "file-history-snapshot" or isinstance(line.get("sessionId"), str))


def _decode(raw: bytes) -> object:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadLine("is not UTF-8") from None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # Half of a surrogate pair, as text cut in the middle of an emoji leaves it, is valid JSON to its writer.
        if "\\u" not in text:
            raise BadLine("is not JSON") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise BadLine("is not JSON") from None


def _refuse_constant(_: str) -> object:
    raise ValueError("not JSON")


def _clean(value: object, depth: int) -> object:
    """The value without what PostgreSQL and UTF-8 refuse: NUL and halves of surrogate pairs are replaced."""
    if depth == 0:
        raise BadLine(f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_clean(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {_text(name): _clean(item, depth - 1) for name, item in value.items()}
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        return str(value)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadLine("has a text that is not a string")
    value = value.replace("\0", _REPLACEMENT)
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def _said(kind: str, line: dict[str, object]) -> Entry:
    message = line.get("message")
    if not isinstance(message, dict):
        raise BadLine("has no message")
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise BadLine("has a message.content that is neither a string nor a list")
    quiet = kind == "user" and (line.get("isMeta") is True or line.get("isCompactSummary") is True)
    reply = message.get("id")
    return _entry(
        line,
        tuple(_block(kind, quiet, block) for block in content),
        reply if kind == "assistant" and isinstance(reply, str) and len(reply) <= _MAX_ID else "",
    )


def _block(kind: str, quiet: bool, block: object) -> Block:
    if not isinstance(block, dict):
        raise BadLine("has a content block that is not an object")
    form = block.get("type")
    if form == "text":
        return _spoken(kind, quiet, _text(block.get("text")))
    if form == "thinking" and kind == "assistant":
        return Block(Part.THINKING, _text(block.get("thinking")))
    if isinstance(form, str) and form.endswith("tool_use") and kind == "assistant":
        return Block(Part.TOOL_USE, "", _named(block, "id"), _named(block, "name"), block.get("input"))
    if isinstance(form, str) and form.endswith("tool_result"):
        text = _result_text(block.get("content"))
        return Block(Part.TOOL_RESULT, text, _named(block, "tool_use_id"), is_error=block.get("is_error") is True)
    return Block(Part.NOT_STORED)


def _spoken(kind: str, quiet: bool, text: str) -> Block:
    if kind == "assistant":
        return Block(Part.TEXT, text)
    if quiet or text.lstrip().startswith(TASK_NOTIFICATION):
        return Block(Part.STATUS, text)
    return Block(Part.PROMPT, text)


def _named(block: dict[str, object], field: str) -> str:
    value = block.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ID:
        raise BadLine(f"has a tool block without a usable {field}")
    return value


def _result_text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_result_text(item) if isinstance(item, str) else _piece_text(item) for item in content)
    return orjson.dumps(content).decode()


def _piece_text(item: object) -> str:
    if isinstance(item, dict) and isinstance(item.get("type"), str):
        return item["text"] if isinstance(item.get("text"), str) else f"[{item['type']}]"
    return orjson.dumps(item).decode()


def _entry(line: dict[str, object], blocks: tuple[Block, ...], reply: str) -> Entry:
    session = line.get("sessionId")
    if not isinstance(session, str) or not 0 < len(session) <= _MAX_ID or not session.isprintable() or session in _DOTS:
        raise BadLine("has no usable sessionId")
    key = line.get("uuid")
    facts = {
        name: value
        for field, name in (("cwd", "cwd"), ("gitBranch", "git_branch"), ("version", "agent_version"))
        if isinstance(value := line.get(field), str) and value
    }
    return Entry(
        session_id=session,
        time=_time(line.get("timestamp")),
        key=key if isinstance(key, str) and len(key) <= _MAX_ID else "",
        reply=reply,
        sidechain=line.get("isSidechain") is True,
        blocks=blocks,
        facts=facts,
    )


def _time(stamp: object) -> int:
    if not isinstance(stamp, str):
        raise BadLine("has no timestamp")
    try:
        time = microseconds(stamp)
    except (ValueError, OverflowError):
        raise BadLine("has a timestamp that is not RFC 3339, as in 2026-01-31T12:00:00Z") from None
    if not _EARLIEST <= time < _LATEST:
        raise BadLine("has a timestamp outside the years 1000 to 9998")
    return time
