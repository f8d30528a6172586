"""Lines of a made-up transcript."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from cli.transcripts.contents import Transcript

SESSION = "session-one"


def line(kind: str, second: float, content: object = None, **more: object) -> dict[str, object]:
    """A line `second` seconds after noon; fields given as None are left out."""
    whole = int(second)
    stamp = f"2026-01-01T12:{whole // 60:02d}:{whole % 60:02d}.{int(second * 1000) % 1000:03d}Z"
    message: dict[str, object] = {"role": kind, "content": content}
    if "reply" in more:
        message["id"] = more.pop("reply")
    fields = {"type": kind, "sessionId": SESSION, "timestamp": stamp, "message": message, **more}
    return {name: value for name, value in fields.items() if value is not None}


def prompt(second: float, text: str, **more: object) -> dict[str, object]:
    return line("user", second, text, **more)


def said(second: float, text: str, reply: str | None = None, **more: object) -> dict[str, object]:
    more = {**more, "reply": reply} if reply is not None else more
    return line("assistant", second, [{"type": "text", "text": text}], **more)


def tool(second: float, ident: str, name: str, **given: object) -> dict[str, object]:
    return line("assistant", second, [{"type": "tool_use", "id": ident, "name": name, "input": given}])


def result(second: float, ident: str, content: object, *, is_error: bool = False) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": ident, "content": content, "is_error": is_error}
    return line("user", second, [block])


def write(path: Path, lines: Iterable[dict[str, object] | bytes]) -> Path:
    raw = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def example() -> Sequence[dict[str, object]]:
    """Two prompts; a reply in two pieces around a thought; an edit that fails and a command."""
    return [
        {"type": "file-history-snapshot", "messageId": "m"},
        prompt(0, "Make the lamp green", uuid="u-1", cwd="/home/x", gitBranch="main", version="1.0"),
        line("progress", 1, data={"percent": 10}),
        said(2, "I will look ", "r-1"),
        line("assistant", 3, [{"type": "thinking", "thinking": "Where is the lamp?"}], reply="r-1"),
        said(4, "at the lamp.", "r-1"),
        tool(5, "t-1", "Edit", file_path="lamp.py", old_string="red", new_string="green"),
        result(6, "t-1", "no such file", is_error=True),
        tool(7, "t-2", "Bash", command="ls\npwd"),
        result(9, "t-2", [{"type": "text", "text": "lamp.txt"}, {"type": "image", "source": {}}]),
        said(10, "It is a text file.", "r-2"),
        prompt(60, "Thanks"),
        said(61, "You are welcome.", "r-3"),
    ]


def opened(path: Path, lines: Iterable[dict[str, object] | bytes]) -> Transcript:
    return Transcript(write(path, lines))
