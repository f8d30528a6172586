"""Commands against a gateway where people sign in: they prove themselves with `KANDEV_TOKEN`."""

from pathlib import Path

import pytest

from tests.integration.cli.command import run
from tests.integration.identity.people import People, Person
from tests.support.stack import Stack
from tests.unit.cli.recording import SESSION, example, write


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
