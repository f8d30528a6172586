"""Decision by decision: what a transcript becomes."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.errors import CommandFailed
from cli.transcripts.contents import MAX_METADATA_CHARACTERS, Transcript
from cli.transcripts.lines import MAX_LINE_BYTES, Place
from cli.transcripts.parsing import BadLine, parse_line
from cli.transcripts.plan import PlannedSession, plan_lines, tool_type
from tests.unit.cli.recording import SESSION, example, line, opened, prompt, result, said, tool, write


def the_session(transcript: Transcript) -> PlannedSession:
    (session,) = transcript.plan.sessions
    return session


def rows(transcript: Transcript) -> list[tuple[str, str, str]]:
    return [
        (message.author, message.type, transcript.contents(message).content)
        for message in the_session(transcript).messages
    ]


def test_a_session_becomes_prompts_replies_thinking_and_tools_in_order(tmp_path: Path) -> None:
    with opened(tmp_path / "t", example()) as transcript:
        assert rows(transcript) == [
            ("user", "message", "Make the lamp green"),
            ("agent", "message", "I will look at the lamp."),
            ("agent", "thinking", "Where is the lamp?"),
            ("agent", "tool_edit", "Edit: lamp.py\n\nno such file"),
            ("agent", "tool_execute", "Bash: ls\n\nlamp.txt\n[image]"),
            ("agent", "message", "It is a text file."),
            ("user", "message", "Thanks"),
            ("agent", "message", "You are welcome."),
        ]
        assert the_session(transcript).session_id == SESSION
        assert the_session(transcript).facts == {"cwd": "/home/x", "git_branch": "main", "agent_version": "1.0"}
        assert transcript.plan.not_stored == {"file-history-snapshot": 1, "progress": 1}
        assert transcript.plan.skipped == ()


def test_each_prompt_starts_a_turn_that_ends_with_its_last_message(tmp_path: Path) -> None:
    with opened(tmp_path / "t", example()) as transcript:
        session = the_session(transcript)
        start = session.messages[0].created_at
        assert [message.turn for message in session.messages] == [0, 0, 0, 0, 0, 0, 1, 1]
        assert [((turn.started_at - start) / 1e6, (turn.completed_at - start) / 1e6) for turn in session.turns] == [
            (0, 10),
            (60, 61),
        ]


def test_a_result_that_comes_after_the_next_prompt_does_not_stretch_the_turn(tmp_path: Path) -> None:
    lines = [prompt(0, "one"), tool(1, "t", "Task"), prompt(5, "two"), result(9, "t", "late")]
    with opened(tmp_path / "t", lines) as transcript:
        first, second = the_session(transcript).turns
        assert first.completed_at == second.started_at == the_session(transcript).messages[2].created_at


def test_a_tool_keeps_name_input_and_result(tmp_path: Path) -> None:
    with opened(tmp_path / "t", example()) as transcript:
        edit = transcript.contents(the_session(transcript).messages[3])
    about = {
        "tool_name": "Edit",
        "tool_use_id": "t-1",
        "input": {"file_path": "lamp.py", "old_string": "red", "new_string": "green"},
    }
    assert edit.metadata == {**about, "result": "no such file", "is_error": True}
    assert (edit.call, edit.call_metadata) == ("Edit: lamp.py", about)


def test_a_large_result_is_whole_in_the_content_and_cut_in_the_metadata(tmp_path: Path) -> None:
    text = "x" * (MAX_METADATA_CHARACTERS + 1)
    with opened(tmp_path / "t", [prompt(0, "go"), tool(1, "t", "Bash"), result(2, "t", text)]) as transcript:
        contents = transcript.contents(the_session(transcript).messages[1])
    assert contents.content == f"Bash\n\n{text}"
    assert contents.metadata["result"] == text[:-1] + "…"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Edit", "tool_edit"),
        ("Write", "tool_edit"),
        ("NotebookEdit", "tool_edit"),
        ("Read", "tool_read"),
        ("Grep", "tool_read"),
        ("Bash", "tool_execute"),
        ("Task", "tool_call"),
        ("mcp__server__anything", "tool_call"),
    ],
)
def test_the_type_of_a_tool_follows_from_its_name(name: str, expected: str) -> None:
    assert tool_type(name) == expected


@pytest.mark.parametrize(
    "status",
    [
        prompt(1, "Summary of what was said", isCompactSummary=True),
        prompt(1, "A caveat", isMeta=True),
        prompt(1, "\n<task-notification>done</task-notification>"),
        {**line("system", 1), "content": "a command", "isMeta": True},
    ],
)
def test_summaries_meta_lines_and_notifications_are_statuses_and_start_no_turn(
    tmp_path: Path, status: dict[str, object]
) -> None:
    with opened(tmp_path / "t", [prompt(0, "go"), status]) as transcript:
        session = the_session(transcript)
        assert [(message.author, message.type) for message in session.messages] == [
            ("user", "message"),
            ("agent", "status"),
        ]
        assert len(session.turns) == 1


def test_every_text_block_of_a_user_is_a_prompt(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "image", "source": {}}, {"type": "text", "text": "two"}]
    with opened(tmp_path / "t", [line("user", 0, blocks)]) as transcript:
        session = the_session(transcript)
        assert rows(transcript) == [("user", "message", "one"), ("user", "message", "two")]
        assert [message.turn for message in session.messages] == [0, 1]
        assert transcript.plan.not_stored == {"block": 1}


def test_order_is_by_time_then_line_and_times_grow_strictly(tmp_path: Path) -> None:
    lines = [prompt(5, "late"), prompt(1, "a"), prompt(1, "b"), said(1, "c"), prompt(1, "d")]
    with opened(tmp_path / "t", lines) as transcript:
        session = the_session(transcript)
        assert [content for _, _, content in rows(transcript)] == ["a", "b", "c", "d", "late"]
        first = session.messages[0].created_at
        assert [message.created_at - first for message in session.messages] == [0, 1, 2, 3, 4_000_000]


def test_ids_are_the_same_at_every_reading_and_when_the_file_has_grown(tmp_path: Path) -> None:
    with opened(tmp_path / "a", example()[:-2]) as before, opened(tmp_path / "b", example()) as after:
        old, new = the_session(before), the_session(after)
        assert [message.id for message in old.messages] == [message.id for message in new.messages][:-2]
        assert old.turns == new.turns[:1]
        assert old.facts == new.facts


def test_a_uuid_that_comes_twice_loses_no_line(tmp_path: Path) -> None:
    with opened(tmp_path / "t", [prompt(0, "a", uuid="u"), prompt(1, "b", uuid="u")]) as transcript:
        ids = {message.id for message in the_session(transcript).messages}
        assert len(ids) == 2


def test_a_file_may_hold_several_sessions(tmp_path: Path) -> None:
    lines = [
        prompt(0, "one"),
        prompt(1, "two", sessionId="other"),
        said(2, "three"),
        said(3, "four", sessionId="other"),
    ]
    with opened(tmp_path / "t", lines) as transcript:
        held = {session.session_id: len(session.messages) for session in transcript.plan.sessions}
        assert held == {SESSION: 2, "other": 2}


def test_words_without_words_are_not_stored(tmp_path: Path) -> None:
    lines = [prompt(0, "  \n"), said(1, "\n\n", "r"), line("assistant", 2, [{"type": "thinking", "thinking": ""}])]
    with opened(tmp_path / "t", [*lines, prompt(3, "go")]) as transcript:
        assert rows(transcript) == [("user", "message", "go")]
        assert transcript.plan.not_stored == {"empty": 3}


def test_what_postgresql_cannot_store_is_replaced(tmp_path: Path) -> None:
    raw = json.dumps(prompt(0, "nul \0 half \ud83d pair \U0001f600")).encode()
    with opened(tmp_path / "t", [raw]) as transcript:
        assert rows(transcript) == [("user", "message", "nul \ufffd half \ufffd pair \U0001f600")]


BAD_LINES = {
    "is not JSON": b'{"type": "user",',
    "is not UTF-8": b'{"type": "user\xff"}',
    "expected a JSON object": b"[1, 2]",
    "has no type": b'{"message": {}}',
    "has no message": json.dumps(line("user", 0) | {"message": 3}).encode(),
    "neither a string nor a list": json.dumps(line("user", 0, 7)).encode(),
    "not an object": json.dumps(line("user", 0, ["x"])).encode(),
    "not a string": json.dumps(line("user", 0, [{"type": "text", "text": 1}])).encode(),
    "tool block without a usable id": json.dumps(line("assistant", 0, [{"type": "tool_use", "name": "x"}])).encode(),
    "no usable sessionId": json.dumps(prompt(0, "x", sessionId="a\nb")).encode(),
    "has no timestamp": json.dumps(prompt(0, "x", timestamp=None)).encode(),
    "not RFC 3339": json.dumps(prompt(0, "x") | {"timestamp": "yesterday"}).encode(),
    "outside the years": json.dumps(prompt(0, "x") | {"timestamp": "0001-01-01T00:00:00Z"}).encode(),
    "nested deeper": json.dumps(prompt(0, "x")).encode()[:-1] + b', "x": ' + b"[" * 200 + b"]" * 200 + b"}",
    "not JSON": b'"\\u0041' + b"[" * 100_000,
}


@pytest.mark.parametrize(("reason", "raw"), BAD_LINES.items())
def test_a_bad_line_is_skipped_by_number_and_the_rest_is_kept(tmp_path: Path, reason: str, raw: bytes) -> None:
    with opened(tmp_path / "t", [prompt(0, "one"), raw, said(2, "two")]) as transcript:
        (skip,) = transcript.plan.skipped
        assert skip.line == 2
        assert reason in skip.reason
        assert len(the_session(transcript).messages) == 2


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path) -> None:
    with opened(tmp_path / "t", [prompt(0, "one"), b"x" * (MAX_LINE_BYTES + 1), said(2, "two")]) as transcript:
        (skip,) = transcript.plan.skipped
        assert (skip.line, skip.reason) == (2, f"is longer than 8 MiB ({MAX_LINE_BYTES + 2:,} bytes)")
        assert len(the_session(transcript).messages) == 2


def test_results_that_answer_nothing_or_again_and_repeated_uses_are_reported(tmp_path: Path) -> None:
    lines = [
        prompt(0, "go"),
        tool(1, "t", "Bash"),
        result(2, "t", "first"),
        result(3, "t", "second"),
        result(4, "unknown", "x"),
        tool(5, "t", "Bash"),
    ]
    with opened(tmp_path / "t", lines) as transcript:
        assert rows(transcript)[1][2] == "Bash\n\nfirst"
        assert len(rows(transcript)) == 2
        assert [skip.line for skip in transcript.plan.skipped] == [4, 5, 6]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no transcript"),
        (b"hello\nworld\n", "no transcript"),
        (b'{"type": "system"}\n{"a": 1}\n', "no transcript"),
        (b"\x1f\x8b\x08\0rest", "gunzip"),
    ],
)
def test_a_file_without_one_transcript_line_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(CommandFailed, match=says):
        Transcript(path)


def test_a_directory_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="is a directory"):
        Transcript(tmp_path)
    with pytest.raises(CommandFailed, match="cannot be read"):
        Transcript(tmp_path / "missing")


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    with opened(tmp_path / "t", example()) as transcript:
        write(tmp_path / "t", [b"x" * 10_000])
        with pytest.raises(CommandFailed, match="was changed"):
            transcript.contents(the_session(transcript).messages[0])


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["user", "assistant", "system", "progress"]) | JSON,
        "sessionId": st.just(SESSION) | JSON,
        "timestamp": st.just("2026-01-01T12:00:00Z") | JSON,
        "uuid": JSON,
        "isMeta": JSON,
        "content": JSON,
        "message": JSON
        | st.fixed_dictionaries(
            {"content": JSON | st.lists(st.dictionaries(st.sampled_from(["type", "text", "id", "name"]), JSON))}
        ),
    },
)


@given(st.binary() | FIELDS.map(lambda fields: json.dumps(fields).encode()))
def test_no_bytes_crash_the_reading(raw: bytes) -> None:
    with suppress(BadLine):
        parse_line(raw)


@given(st.lists(st.sampled_from([json.dumps(one).encode() for one in example()]) | st.binary(), max_size=30))
def test_every_plan_is_ordered_and_complete(raw: list[bytes]) -> None:
    plan = plan_lines((Place(number, 0, len(one)), one) for number, one in enumerate(raw, 1))
    assert plan.lines == len(raw)
    for session in plan.sessions:
        times = [message.created_at for message in session.messages]
        assert times == sorted(set(times))
        assert len({message.id for message in session.messages}) == len(session.messages)
        assert sum(message.author == "user" for message in session.messages) == len(session.turns)
        assert all(turn.started_at <= turn.completed_at for turn in session.turns)
