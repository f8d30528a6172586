"""Commands against a gateway where people sign in: they prove themselves with `KANDEV_TOKEN`."""

from pathlib import Path

import pytest

from tests.integration.cli.command import ended, run, started
from tests.integration.identity.people import People, Person
from tests.support.stack import Stack
from tests.unit.cli.recording import SESSION, example, prompt, said, write


async def test_a_token_lets_commands_in(guarded: Stack, person: Person, people: People, tmp_path: Path) -> None:
    transcript = write(tmp_path / "session.jsonl", example())
    given = {"KANDEV_URL": guarded.url, "KANDEV_TOKEN": person.token}
    imported = await run("import", transcript, "--workspace", "ours", **given)
    assert imported.code == 0, imported.err
    listed = await run("sessions", **given)
    assert (listed.code, SESSION in listed.out) == (0, True)
    verified = await run("verify", SESSION, **given)
    assert verified.code == 0, verified.err
    stranger = await people.add()
    hidden = await run("sessions", **{**given, "KANDEV_TOKEN": stranger.token})
    assert (hidden.code, SESSION in hidden.out) == (0, False)


async def test_everybody_writes_to_a_workspace_of_their_own(guarded: Stack, people: People, tmp_path: Path) -> None:
    """By default, and by any name; a member can also name one that is shared with them."""
    seen = []
    for name in ("first", "second"):
        person = await people.add()
        given = {"KANDEV_URL": guarded.url, "KANDEV_TOKEN": person.token}
        file = write(tmp_path / name, [prompt(0, "go", sessionId=f"own-{name}")])
        assert (await run("import", file, **given)).code == 0
        assert (await run("replay", file, "--speed", "1000", **given)).code == 0
        assert (await run("replay", file, "--speed", "1000", "--workspace", "Mine", **given)).code == 0
        rows = await guarded.pool.fetch("SELECT id, name FROM workspaces WHERE owner_id = $1", person.id)
        owned = {row["name"]: row["id"] for row in rows}
        assert set(owned) == {"Imported transcripts", "Replays", "Mine"}
        seen.append((person, owned, given, file))
    (owner, owned, _, _), (member, _, given, file) = seen
    path = f"/api/v1/workspaces/{owned['Mine']}/members/{member.username}"
    assert (await guarded.call("PUT", path, headers=owner.bearer))[0] == 200
    assert (await run("replay", file, "--speed", "1000", "--workspace", owned["Mine"], **given)).code == 0
    _, tasks = await guarded.call("GET", f"/api/v1/tasks?workspace_id={owned['Mine']}", headers=owner.bearer)
    assert tasks["total"] == 2


async def test_an_import_that_is_refused_leaves_nothing_behind(guarded: Stack, people: People, tmp_path: Path) -> None:
    file = write(tmp_path / "session.jsonl", [prompt(0, "go", sessionId="somebody's")])
    first, second = await people.add(), await people.add()
    assert (await run("import", file, KANDEV_URL=guarded.url, KANDEV_TOKEN=first.token)).code == 0
    refused = await run("import", file, KANDEV_URL=guarded.url, KANDEV_TOKEN=second.token)
    assert (refused.code, refused.out) == (2, "")
    assert "--workspace" in refused.err
    owned = await guarded.pool.fetchval("SELECT count(*) FROM workspaces WHERE owner_id = $1", second.id)
    assert owned == 0


async def test_what_is_stored_is_completed_and_otherwise_stays(guarded: Stack, person: Person, tmp_path: Path) -> None:
    """As the source holds it, with what is hidden from those who read it."""
    hidden = "<kandev-system>for the agent</kandev-system> there"
    early = [prompt(0, hidden, sessionId="grown"), said(1, "first ", "r", sessionId="grown")]
    late = [said(2, "second", "r", sessionId="grown"), said(3, hidden, sessionId="grown")]
    given = {"KANDEV_URL": guarded.url, "KANDEV_TOKEN": person.token}
    short, whole = write(tmp_path / "short", early), write(tmp_path / "whole", [*early, *late])

    async def stored() -> list[str]:
        rows = await guarded.pool.fetch(
            "SELECT content FROM task_session_messages WHERE task_session_id = 'grown' ORDER BY created_at"
        )
        return [row["content"] for row in rows]

    assert (await run("import", short, **given)).code == 0
    grown = await run("import", whole, **given)
    assert "1 row new, 1 completed, 0 left as stored, 0 refused" in grown.out, grown.out + grown.err
    assert await stored() == [hidden, "first second", hidden]
    assert "0 completed, 1 left as stored" in (await run("import", short, **given)).out
    # Only what a reader is told of it differs: what is stored is what the file says.
    await guarded.pool.execute(
        "UPDATE task_session_messages SET type = 'status' WHERE task_session_id = 'grown' AND content = $1", hidden
    )
    assert "0 completed, 0 left as stored" in (await run("import", whole, **given)).out
    await guarded.pool.execute(
        "UPDATE task_session_messages SET content = content || '!' WHERE task_session_id = 'grown'"
    )
    edited = await stored()
    assert "0 rows new, 0 completed, 3 left as stored" in (await run("import", whole, **given)).out
    assert await stored() == edited


async def test_a_workspace_that_was_given_away_is_told(guarded: Stack, people: People, tmp_path: Path) -> None:
    owner, other = await people.add(), await people.add()
    given = {"KANDEV_URL": guarded.url, "KANDEV_TOKEN": owner.token}
    file = write(tmp_path / "session.jsonl", [prompt(0, "go", sessionId="given away")])
    assert (await run("replay", file, "--speed", "1000", **given)).code == 0
    await guarded.pool.execute("UPDATE workspaces SET owner_id = $2 WHERE owner_id = $1", owner.id, other.id)
    refused = await run("replay", file, **given)
    assert (refused.code, refused.out) == (2, "")
    assert "Your workspace 'Replays' belongs to somebody else now: choose another with --workspace." in refused.err


async def test_who_may_follow_is_decided_while_tail_runs(guarded: Stack, people: People) -> None:
    """A user who is disabled is signed out; one who is taken off a workspace learns nothing about the session."""
    for ending, says in (("user", "Signed out"), ("workspace", "is no longer yours to read, or was removed")):
        owner, reader = await people.add(), await people.add()
        name = f"followed-{ending}"
        for path, body in (
            ("workspaces", {"id": name, "name": name}),
            ("tasks", {"id": name, "workspace_id": name, "title": name}),
            ("task-sessions", {"id": name, "task_id": name}),
        ):
            assert (await guarded.call("POST", f"/api/v1/{path}", json=body, headers=owner.bearer))[0] == 200
        database = {"KANDEV_DATABASE_URL": guarded.database_url}
        assert (await run("workspace", "share", name, reader.username, **database)).code == 0
        process = await started("tail", name, "--json", KANDEV_URL=guarded.url, KANDEV_TOKEN=reader.token)
        assert process.stdout is not None
        while b'"live"' not in (line := await process.stdout.readline()):
            assert line
        acted = ["user", "disable", reader.username] if ending == "user" else ["workspace", "unshare", name, reader.id]
        assert (await run(*acted, **database)).code == 0
        stopped = await ended(process)
        assert (stopped.code, says in stopped.err) == (1, True), stopped.err


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ({}, "set KANDEV_TOKEN to an access token"),
        (
            {"KANDEV_TOKEN": "kandev_pat_00000000_hunter2"},
            "the access token in KANDEV_TOKEN is unknown, revoked or expired, or its user is disabled",
        ),
    ],
)
@pytest.mark.parametrize("command", ["sessions", "tail", "verify", "import", "replay", "plugin"])
async def test_without_a_good_one_they_say_what_is_missing(
    guarded: Stack, command: str, token: dict[str, str], says: str, tmp_path: Path
) -> None:
    file = str(write(tmp_path / "session.jsonl", example()))
    operands = {"tail": ["x"], "verify": ["x"], "import": [file], "replay": [file], "plugin": ["list"]}
    refused = await run(command, *operands.get(command, []), KANDEV_URL=guarded.url, **token)
    assert (refused.code, refused.out) == (2, "")
    assert says in refused.err
    assert "host" not in refused.err
    assert "hunter2" not in refused.err
