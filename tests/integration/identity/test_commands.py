"""Commands against a gateway where people sign in: they prove themselves with `KANDEV_TOKEN`."""

from pathlib import Path

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


async def test_without_one_they_say_what_is_missing(guarded: Stack) -> None:
    for arguments in (["sessions"], ["tail", "x"]):
        for token in ({}, {"KANDEV_TOKEN": "kandev_pat_00000000_hunter2"}):
            refused = await run(*arguments, KANDEV_URL=guarded.url, **token)
            assert refused.code == 2
            assert "set KANDEV_TOKEN to an access token" in refused.err
            assert "hunter2" not in refused.err
