"""Peers of npm are installed once, and named where they cannot be."""

import shutil
from pathlib import Path

import pytest

from tests.bench import native

# Does nothing but note what it was asked for.
NPM = """#!/bin/sh
echo "$1" >> {calls}
exit {status}
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that alone is searched for programs; the peers go into a folder beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(native, "CACHE", tmp_path / "cache")
    return folder


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _npm(programs: Path, *, status: int) -> Path:
    """Puts an npm and a node there; returns where the calls of npm are noted."""
    calls = programs.parent / "calls"
    calls.touch()
    _program(programs / "node", "#!/bin/sh\n")
    _program(programs / "npm", NPM.format(calls=calls, status=status))
    return calls


async def test_without_node_a_peer_is_named(programs: Path) -> None:
    with pytest.raises(native.Unavailable, match=r"Rocicorp Zero.*needs Node.js"):
        await native.zero()


async def test_what_cannot_be_installed_is_named_and_tried_again(programs: Path) -> None:
    calls = _npm(programs, status=1)
    for _ in range(2):
        with pytest.raises(native.Unavailable, match=r"Rocicorp Zero.*could not be installed"):
            await native.zero()
    assert calls.read_text().split() == ["ci", "ci"]


async def test_packages_are_installed_once_for_a_lock_and_only_named_ones_are_built(programs: Path) -> None:
    calls = _npm(programs, status=0)
    await native.node_server()
    assert calls.read_text().split() == ["ci"]
    zero = await native.zero()
    assert await native.zero() == zero
    assert calls.read_text().split() == ["ci", "ci", "rebuild"]
    assert zero.node == shutil.which("node")
    assert (zero.folder / "followers.js").exists()
    (zero.folder / native.LOCK).unlink()
    (zero.folder / "installed.json").write_text("{}")
    await native.zero()
    assert calls.read_text().split() == ["ci", "ci", "rebuild", "ci", "rebuild"]


async def test_a_changed_program_is_taken_over_without_installing_anew(programs: Path) -> None:
    calls = _npm(programs, status=0)
    folder = (await native.zero()).folder
    (folder / "followers.js").write_text("changed")
    await native.zero()
    assert (folder / "followers.js").read_bytes() == (native.SOURCES / "zero" / "followers.js").read_bytes()
    assert calls.read_text().split() == ["ci", "rebuild"]
