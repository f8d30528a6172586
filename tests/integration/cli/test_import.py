import asyncio
import gzip
import json
import signal
from pathlib import Path

import pytest

from tests.integration.cli.command import ended, run, started
from tests.integration.cli.write_routes import WriteRoutes, serving
from tests.unit.cli.recording import SESSION, example, prompt, result, said, tool, write


async def test_a_file_becomes_a_session_and_a_second_import_changes_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "t.jsonl", [*example(), b"{broken", b"x" * (50 << 20), prompt(90, "last")])
    async with serving(WriteRoutes()) as routes:
        first = await run("import", file, "--url", routes.url, "--json")
        state = routes.snapshot()
        second = await run("import", file, "--url", routes.url)

    assert first.code == second.code == 0
    report = json.loads(first.out)
    (session,) = report["sessions"]
    assert (session["session_id"], session["messages"], session["turns"]) == (SESSION, 9, 3)
    assert session["created"] == 12
    assert [skip["line"] for skip in report["files"][0]["skipped"]] == [14, 15]
    assert f"{file}:14: is not JSON; skipped" in first.err
    assert f"{file}:15: is longer than 8 MiB" in first.err
    assert "0 rows new, 0 completed, 0 left as stored, 0 refused" in second.out
    assert routes.snapshot() == state
    held = routes.sessions[SESSION]
    assert all("completed_at" in turn for turn in held.turns.values())
    assert [row["content"] for row in held.messages.values() if row["author_type"] == "user"] == [
        "Make the lamp green",
        "Thanks",
        "last",
    ]


async def test_answers_that_get_lost_change_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "t.jsonl", example())
    async with serving(WriteRoutes()) as steady, serving(WriteRoutes(trouble=3)) as troubled:
        assert (await run("import", file, "--url", steady.url)).code == 0
        assert (await run("import", file, "--url", troubled.url)).code == 0
    assert rows(troubled) == rows(steady)


async def test_an_interrupted_import_leaves_a_beginning_that_the_next_one_completes(tmp_path: Path) -> None:
    file = write(tmp_path / "t.jsonl", [prompt(second, f"prompt {second}") for second in range(300)])
    async with serving(WriteRoutes(watched=60)) as routes:
        process = await started("import", file, "--url", routes.url)
        await routes.reached.wait()
        process.send_signal(signal.SIGINT)
        stopped = await ended(process)
        left = [row["content"] for row in routes.sessions[SESSION].messages.values()]
        again = await run("import", file, "--url", routes.url)

    assert stopped.code == 130
    assert "Traceback" not in stopped.err
    assert left == [f"prompt {second}" for second in range(len(left))]
    assert len(left) < 300
    assert again.code == 0
    held = routes.sessions[SESSION]
    assert [row["content"] for row in held.messages.values()] == [f"prompt {second}" for second in range(300)]


async def test_a_file_that_has_grown_completes_what_was_unfinished(tmp_path: Path) -> None:
    early = [prompt(0, "go"), said(1, "I ", "r"), tool(2, "t", "Bash", command="ls")]
    late = [result(3, "t", "a file"), said(4, "see", "r"), prompt(5, "good")]
    async with serving(WriteRoutes()) as grown, serving(WriteRoutes()) as whole:
        await run("import", write(tmp_path / "t", early), "--url", grown.url)
        second = await run("import", write(tmp_path / "t", [*early, *late]), "--url", grown.url)
        await run("import", tmp_path / "t", "--url", whole.url)

    assert second.code == 0
    assert "2 rows new, 2 completed, 0 left as stored, 0 refused" in second.out
    assert rows(grown) == rows(whole)


async def test_an_older_copy_takes_nothing_back(tmp_path: Path) -> None:
    """What it knows less of is what an earlier file said, seen from the other side: a beginning."""
    early = [prompt(0, "go"), said(1, "I ", "r"), tool(2, "t", "Bash", command="ls")]
    late = [result(3, "t", "a file"), said(4, "see", "r"), prompt(5, "good")]
    async with serving(WriteRoutes()) as routes:
        await run("import", write(tmp_path / "whole", [*early, *late]), "--url", routes.url)
        state = rows(routes)
        older = await run("import", write(tmp_path / "older", early), "--url", routes.url)
        assert rows(routes) == state
    assert older.code == 0
    assert "0 rows new, 0 completed, 2 left as stored, 0 refused" in older.out
    assert older.err == f"{tmp_path / 'older'}: what is stored differs from lines 2, 3; left as it is\n"


async def test_edits_stay_and_what_is_missing_is_completed(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [prompt(0, "go"), said(1, "yes"), said(2, "done"), prompt(3, "ok"), said(4, "bye")])
    async with serving(WriteRoutes()) as routes:
        await run("import", file, "--url", routes.url)
        messages, turns = routes.sessions[SESSION].messages, routes.sessions[SESSION].turns
        by_content = {row["content"]: row for row in messages.values()}
        by_content["go"]["content"] = "go!"
        by_content["yes"]["content"] = "yes!"
        by_content["done"]["metadata"] = {"by": "hand"}
        list(turns.values())[1]["started_at"] = "2026-01-01T00:00:00Z"
        del messages[by_content["bye"]["id"]]
        told = await run("import", file, "--url", routes.url, "--json")
    (session,) = json.loads(told.out)["sessions"]
    assert (session["created"], session["updated"], session["kept"]) == (1, 0, [1, 2, 3, 4])
    assert [row["content"] for row in messages.values()] == ["go!", "yes!", "done", "ok", "bye"]
    assert by_content["done"]["metadata"] == {"by": "hand"}
    assert "what is stored differs from lines 1, 2, 3, 4; left as it is" in told.err


async def test_a_workspace_is_named_by_its_id_too(tmp_path: Path) -> None:
    async with serving(WriteRoutes(workspaces={"theirs": {"id": "theirs", "name": "Team"}})) as routes:
        file = write(tmp_path / "t", [prompt(0, "a")])
        for command in ("import", "replay"):
            assert (await run(command, file, "--url", routes.url, "--workspace", "theirs")).code == 0
    assert list(routes.workspaces) == ["theirs"]
    assert {task["workspace_id"] for task in routes.tasks.values()} == {"theirs"}


async def test_the_local_users_ids_stay_what_they_were(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [prompt(0, "a")])
    async with serving(WriteRoutes()) as routes:
        for command in ("import", "replay"):
            assert (await run(command, file, "--url", routes.url)).code == 0
    assert {workspace["name"]: id_ for id_, workspace in routes.workspaces.items()} == {
        "Imported transcripts": "832e3c05-1695-5399-b093-d95e12200156",
        "Replays": "6bdf4357-cb06-5e03-96bd-c05c4ab7f6c2",
    }


async def test_a_message_too_large_for_one_request_arrives_whole_and_once(tmp_path: Path) -> None:
    text = "ä\U0001f600" * 300_000
    file = write(tmp_path / "t", [prompt(0, "go"), said(1, text)])
    async with serving(WriteRoutes(limit=1 << 20)) as routes:
        assert (await run("import", file, "--url", routes.url)).code == 0
        state = routes.snapshot()
        assert (await run("import", file, "--url", routes.url)).code == 0
    assert routes.snapshot() == state
    assert [row["content"] for row in routes.sessions[SESSION].messages.values()] == ["go", text]


async def test_several_files_and_sessions_go_to_the_named_task(tmp_path: Path) -> None:
    one = write(tmp_path / "one", [prompt(0, "a"), prompt(1, "b", sessionId="other")])
    two = write(tmp_path / "two", [prompt(0, "c", sessionId="third")])
    async with serving(WriteRoutes()) as routes:
        ended_ = await run("import", one, two, "--url", routes.url, "--task", "Mine", "--workspace", "Home", "--json")
    assert {session["session_id"] for session in json.loads(ended_.out)["sessions"]} == {SESSION, "other", "third"}
    assert [task["title"] for task in routes.tasks.values()] == ["Mine"]
    assert [workspace["name"] for workspace in routes.workspaces.values()] == ["Home"]


async def test_a_prompt_that_the_source_refuses_is_reported_and_the_rest_kept(tmp_path: Path) -> None:
    newer, older = (
        write(tmp_path / "newer", [prompt(9, "x")]),
        write(tmp_path / "older", [prompt(1, "y"), said(2, "z")]),
    )
    async with serving(WriteRoutes()) as routes:
        await run("import", newer, "--url", routes.url, "--task", "t")
        # The same session with another beginning: the session itself is in the way, and nothing is half done.
        refused = await run("import", older, "--url", routes.url, "--task", "t")
    assert refused.code == 2
    assert "is there already" in refused.err
    assert len(routes.sessions[SESSION].messages) == 1


@pytest.mark.parametrize("other", [["--workspace", "Other"], ["--task", "Other"]])
async def test_a_session_that_is_elsewhere_leaves_nothing_half_done(tmp_path: Path, other: list[str]) -> None:
    file = write(tmp_path / "t", [prompt(0, "a", sessionId="new"), prompt(1, "b")])
    known = write(tmp_path / "known", [prompt(1, "b")])
    async with serving(WriteRoutes()) as routes:
        assert (await run("import", known, "--url", routes.url)).code == 0
        state = routes.snapshot()
        refused = await run("import", file, *other, "--url", routes.url)
        assert routes.snapshot() == state
        assert (await run("import", file, "--url", routes.url)).code == 0
    assert (refused.code, refused.out) == (2, "")
    assert f"The session {SESSION} is there already" in refused.err
    assert set(routes.sessions) == {SESSION, "new"}


async def test_one_of_a_thing_is_one(tmp_path: Path) -> None:
    async with serving(WriteRoutes()) as routes:
        shown = await run("import", write(tmp_path / "t", [prompt(0, "a")]), "--url", routes.url)
    assert "1 line, 1 session\n" in shown.out
    assert "1 message, 1 turn; 2 rows new, 0 completed, 0 left as stored, 0 refused" in shown.out


async def test_one_bad_file_among_good_ones_leaves_nothing_half_done(tmp_path: Path) -> None:
    good = write(tmp_path / "good", example())
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(good.read_bytes()))
    other = tmp_path / "other"
    other.write_text("hello\n")
    async with serving(WriteRoutes()) as routes:
        for bad, says in (
            (packed, "gunzip"),
            (tmp_path, "is a directory"),
            (tmp_path / "missing", "cannot be read"),
            (other, "is no transcript"),
        ):
            refused = await run("import", good, bad, "--url", routes.url)
            assert refused.code == 2
            assert says in refused.err
            assert refused.err.count("\n") == 1
    assert routes.requests == 0


@pytest.mark.parametrize("command", ["import", "replay"])
async def test_a_gateway_that_is_not_there_is_a_sentence(tmp_path: Path, command: str) -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    refused = await run(command, write(tmp_path / "t", example()), "--url", f"http://127.0.0.1:{port}")
    assert refused.code == 2
    assert "cannot be used" in refused.err
    assert "kandev-conversation up" in refused.err
    assert refused.out == ""


def rows(routes: WriteRoutes) -> object:
    """What is stored, without what the number of updates leaves behind."""
    return [
        {
            key: {name: value for name, value in row.items() if name not in {"updated_at", "completed_at"}}
            for key, row in sorted({**session.messages, **session.turns}.items())
        }
        for session in routes.sessions.values()
    ]
