import json
import signal
from pathlib import Path

from tests.integration.cli.command import ended, run, started
from tests.integration.cli.write_routes import WriteRoutes, serving
from tests.unit.cli.recording import SESSION, example, prompt, said, write

LONG = "This is a longer reply that has to be streamed in several portions. " * 20


async def test_a_replay_is_a_new_live_session_with_its_id_first(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [*example(), said(62, LONG)])
    async with serving(WriteRoutes()) as routes:
        once = await run("replay", file, "--url", routes.url, "--speed", "1000")
        again = await run("replay", file, "--url", routes.url, "--speed", "1000", "--json")

    assert once.code == again.code == 0
    first_id = once.out.splitlines()[0]
    begun, done = map(json.loads, again.out.splitlines())
    assert begun == {"event": "session", "session_id": done["session_id"]}
    assert set(routes.sessions) == {first_id, begun["session_id"]}
    assert SESSION not in routes.sessions
    assert (done["messages"], done["updates"], done["turns"]) == (9, 2, 2)
    assert done["appends"] >= 3
    for session in routes.sessions.values():
        assert session.request["state"] == "COMPLETED"
        messages = list(session.messages.values())
        assert [row["content"] for row in messages] == [
            "Make the lamp green",
            "I will look at the lamp.",
            "Where is the lamp?",
            "Edit: lamp.py\n\nno such file",
            "Bash: ls\n\nlamp.txt\n[image]",
            "It is a text file.",
            "Thanks",
            "You are welcome.",
            LONG,
        ]
        assert not any("created_at" in row for row in messages)
        assert all(turn["completed_at"] == "now" for turn in session.turns.values())
        assert messages[3]["metadata"]["is_error"] is True


async def test_answers_that_get_lost_repeat_no_text(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [prompt(0, "go"), said(1, LONG)])
    async with serving(WriteRoutes(trouble=3)) as routes:
        assert (await run("replay", file, "--url", routes.url, "--speed", "1000")).code == 0
    (session,) = routes.sessions.values()
    assert [row["content"] for row in session.messages.values()] == ["go", LONG]


async def test_ctrl_c_stops_where_it_is_and_completes_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [prompt(0, "go"), *(said(second, f"{second}") for second in range(1, 600))])
    async with serving(WriteRoutes(watched=8)) as routes:
        process = await started("replay", file, "--url", routes.url, "--speed", "20")
        await routes.reached.wait()
        process.send_signal(signal.SIGINT)
        stopped = await ended(process)
    assert stopped.code == 0
    assert stopped.err.startswith("Stopped: ")
    (session,) = routes.sessions.values()
    assert 1 <= len(session.messages) < 600
    assert session.request["state"] == "RUNNING"
    assert not any("completed_at" in turn for turn in session.turns.values())


async def test_a_session_of_the_file_can_be_chosen(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [prompt(0, "a"), prompt(1, "b", sessionId="other")])
    async with serving(WriteRoutes()) as routes:
        chosen = await run("replay", file, "--url", routes.url, "--session", "other")
        unknown = await run("replay", file, "--url", routes.url, "--session", "nobody's")
    (session,) = routes.sessions.values()
    assert chosen.code == 0
    assert [row["content"] for row in session.messages.values()] == ["b"]
    assert unknown.code == 2
    assert "other" in unknown.err


async def test_lines_that_cannot_be_used_are_named_and_one_is_one(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [prompt(0, "a"), b"{broken"])
    async with serving(WriteRoutes()) as routes:
        played = await run("replay", file, "--url", routes.url)
    assert played.code == 0
    assert f"{file}:2: is not JSON; skipped" in played.err
    assert "1 message, 0 appends, 0 updates, 1 turn" in played.err


async def test_ctrl_c_before_there_is_a_session_is_an_interruption(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [prompt(0, "a")])
    async with serving(WriteRoutes(trouble=1, watched=1)) as routes:
        process = await started("replay", file, "--url", routes.url)
        await routes.reached.wait()
        process.send_signal(signal.SIGINT)
        stopped = await ended(process)
    assert (stopped.code, stopped.out) == (130, "")
