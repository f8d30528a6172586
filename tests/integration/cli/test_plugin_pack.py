"""`plugin pack` and `plugin check` as a person runs them."""

import json
import os
import re
from pathlib import Path

import pytest

from cli.main import main
from services.gateway.plugins.archive import inspect
from tests.integration.cli.command import run
from tests.unit.plugins.making import BROWSER_ONLY, package_files, packed, sealed, text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, content in package_files().items():
        (tmp_path / "notes" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / path).write_bytes(content)
    return tmp_path / "notes"


async def test_the_group_names_its_commands() -> None:
    shown = await run("plugin", "--help")
    assert shown.code == 0
    assert re.search(r"^ +pack  ", shown.out, re.MULTILINE)
    assert re.search(r"^ +check  ", shown.out, re.MULTILINE)
    unknown = await run("plugin", "nonsense")
    assert (unknown.code, unknown.out) == (2, "")
    assert "There is no command 'nonsense'" in unknown.err


async def test_the_manifest_that_the_help_shows_is_one_that_can_be_packed(folder: Path) -> None:
    shown = await run("plugin", "pack", "--help")
    _, _, rest = shown.out.partition("A manifest.yaml to begin with:\n")
    example = "".join(line[4:] + "\n" for line in rest.partition("\n\n")[0].splitlines())
    (folder / "manifest.yaml").write_text(example)
    ended = await run("plugin", "pack", folder, "-o", folder.parent / "p.tar.gz")
    assert (ended.code, ended.err) == (0, "")
    assert inspect(folder.parent / "p.tar.gz").manifest.id == "my-plugin"


async def test_packing_tells_what_was_made(folder: Path) -> None:
    target = folder.parent / "p.tar.gz"
    ended = await run("plugin", "pack", folder, "-o", target)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"{target}: notes 1.0.0, 3 files, {target.stat().st_size:,} bytes\nSHA-256 {inspect(target).hash}\n"
    )
    checked = await run("plugin", "check", target)
    told = ended.out.replace("p.tar.gz: ", "p.tar.gz can be installed: ")
    assert (checked.code, checked.out, checked.err) == (0, told, "")


async def test_both_tell_programs_the_same(folder: Path) -> None:
    target = folder.parent / "p.tar.gz"
    made = await run("plugin", "pack", folder, "-o", target, "--json")
    checked = await run("plugin", "check", target, "--json")
    assert made.out == checked.out
    assert json.loads(made.out) == {
        "ok": True,
        "notes": [],
        "file": str(target),
        "id": "notes",
        "version": "1.0.0",
        "size": target.stat().st_size,
        "sha256": inspect(target).hash,
        "files": ["checksums.txt", "manifest.yaml", "ui/bundle.js"],
    }


def test_without_a_name_the_package_has_the_plugin_s(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(["plugin", "pack", "."])
        assert ended.value.code == 0
    assert len(inspect(folder / "notes-1.0.0.tar.gz").files) == 3


async def test_every_problem_of_a_folder_is_named_and_nothing_written(folder: Path) -> None:
    (folder / "manifest.yaml").write_text("id: A\napi_version: 2\n")
    (folder / "link").symlink_to("/")
    target = folder.parent / "p.tar.gz"
    ended = await run("plugin", "pack", folder, "-o", target)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        f"Error: {folder} cannot be installed:",
        "  'link' is no regular file",
        '  invalid plugin id "A": must match ^[a-z0-9][a-z0-9._-]*$',
        "  version must not be empty",
    ]
    assert not target.exists()


async def test_a_package_that_an_installation_would_refuse_is_refused(tmp_path: Path) -> None:
    archive = packed(tmp_path / "p.tar.gz", {**sealed(package_files()), "extra": b""})
    ended = await run("plugin", "check", archive)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"Error: {archive} cannot be installed:\n  not listed in checksums.txt: 'extra'\n"


async def test_a_package_is_checked_for_a_platform(tmp_path: Path) -> None:
    manifest = {**BROWSER_ONLY, "runtime": {"type": "binary", "executables": {"plan9-386": "server/plugin"}}}
    archive = packed(tmp_path / "p.tar.gz", sealed(package_files(manifest, **{"server/plugin": b""})))
    assert (await run("plugin", "check", archive)).code == 2
    assert (await run("plugin", "check", archive, "--platform", "plan9-386")).code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pack", "/nowhere"], "/nowhere is not a folder"),
        (["check", "/nowhere.tar.gz"], "/nowhere.tar.gz cannot be read: No such file or directory."),
        (["check", "/"], "/ cannot be read: it is no regular file."),
        (["check", "/dev/zero"], "/dev/zero cannot be read: it is no regular file."),
        (["install", "/dev/zero", "--url", "http://127.0.0.1:1"], "/dev/zero cannot be read: it is no regular file."),
        (["pack"], "Missing argument 'FOLDER'"),
    ],
)
async def test_what_is_not_there_is_told(arguments: list[str], says: str) -> None:
    ended = await run("plugin", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


async def test_a_place_that_cannot_be_written_is_told(folder: Path) -> None:
    ended = await run("plugin", "pack", folder, "-o", "/nowhere/p.tar.gz")
    assert (ended.code, ended.out) == (2, "")
    assert "/nowhere" in ended.err
    assert "No such file or directory" in ended.err


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
async def test_nothing_but_a_file_is_replaced(folder: Path, kind: str) -> None:
    target = folder.parent / "target"
    elsewhere = folder.parent / "elsewhere"
    elsewhere.write_bytes(b"kept")
    match kind:
        case "folder":
            target.mkdir()
        case "pipe":
            os.mkfifo(target)
        case _:
            target.symlink_to(elsewhere)
    before = target.lstat()
    ended = await run("plugin", "pack", folder, "-o", target)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"Error: {target} cannot be used: it is there already and is no regular file.\n"
    assert (target.lstat().st_ino, target.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert elsewhere.read_bytes() == b"kept"


async def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    pipe = folder.parent / "pipe"
    os.mkfifo(pipe)
    for arguments in (("check", pipe), ("install", pipe, "--url", "http://127.0.0.1:1")):
        ended = await run("plugin", *arguments)
        assert (ended.code, ended.err) == (2, f"Error: {pipe} cannot be read: it is no regular file.\n")
    (folder / "manifest.yaml").unlink()
    os.mkfifo(folder / "manifest.yaml")
    ended = await run("plugin", "pack", folder)
    assert ended.code == 2
    assert "'manifest.yaml' is no regular file" in ended.err


async def test_names_that_are_no_text_are_told_as_far_as_they_are(folder: Path) -> None:
    odd = os.fsdecode(os.fsencode(folder.parent) + b"/\xff.tar.gz")
    made = await run("plugin", "pack", folder, "-o", odd, "--json")
    assert (made.code, made.err) == (0, "")
    assert json.loads(made.out)["file"].endswith("/\ufffd.tar.gz")
    for form in ((), ("--json",)):
        assert (await run("plugin", "check", odd, *form)).code == 0
    (folder / os.fsdecode(b"\xfe")).write_bytes(b"")
    for arguments in (("pack", folder), ("pack", odd), ("check", odd + "x"), ("check", odd + "x", "--json")):
        ended = await run("plugin", *arguments)
        assert ended.code == 2
        assert "Traceback" not in ended.err


async def test_programs_are_told_why_a_package_is_refused(tmp_path: Path) -> None:
    archive = packed(tmp_path / "p.tar.gz", {**sealed(package_files()), "extra": b""})
    for file, kind, problem in (
        (archive, "unlisted_file", "not listed in checksums.txt: 'extra'"),
        (tmp_path, "unreadable", f"{tmp_path} cannot be read: it is no regular file."),
    ):
        ended = await run("plugin", "check", file, "--json")
        assert ended.code == 2
        assert json.loads(ended.out) == {"ok": False, "kind": kind, "problems": [problem]}
        assert problem in ended.err


async def test_what_is_probably_misspelt_is_noted(folder: Path) -> None:
    (folder / "manifest.yaml").write_bytes(text({**BROWSER_ONLY, "capabilites": {}}))
    target = folder.parent / "p.tar.gz"
    note = 'the key "capabilites" is unknown here and counts for nothing; did you mean capabilities?'
    for arguments in (("pack", folder, "-o", target), ("check", target)):
        told = await run("plugin", *arguments)
        assert (told.code, told.err) == (0, f"Note: {note}.\n")
        assert json.loads((await run("plugin", *arguments, "--json")).out)["notes"] == [note]
