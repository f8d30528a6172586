"""Packages made of folders."""

import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from services.gateway.plugins.archive import HOST_PLATFORM, Package, PackageRefused, inspect, unpack
from services.gateway.plugins.packing import FolderRefused, read_folder, write_package
from tests.unit.plugins.making import BROWSER_ONLY, changed, package_files, sealed, text


def laid_out(folder: Path, files: Mapping[str, bytes]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def made(folder: Path, target: Path) -> Package:
    return write_package(*read_folder(folder), target)


def managed(**executables: str) -> dict[str, Any]:
    return {**BROWSER_ONLY, "runtime": {"type": "binary", "executables": executables}}


def test_a_folder_becomes_the_package_that_unpacks_to_it(tmp_path: Path) -> None:
    manifest = managed(**{HOST_PLATFORM: "server/plugin"})
    files = package_files(manifest, **{"server/plugin": b"\x7fELF", "ui/a b/é.svg": b"", "x" * 150 + "/y": b"z"})
    package = made(laid_out(tmp_path / "f", files), tmp_path / "p.tar.gz")
    assert inspect(tmp_path / "p.tar.gz") == package
    unpack(tmp_path / "p.tar.gz", tmp_path / "out")
    sealed_files = sealed(dict(sorted(files.items())))
    out = tmp_path / "out"
    assert {p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("*") if p.is_file()} == sealed_files
    with tarfile.open(tmp_path / "p.tar.gz") as archive:
        assert {member.name for member in archive if member.mode == 0o755} == {"server/plugin"}


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    files = package_files(**{"ui/a.css": b"a", "b": b"b"})
    made(laid_out(tmp_path / "one", files), tmp_path / "one.tar.gz")
    again = laid_out(tmp_path / "two", dict(reversed(files.items())))
    for path in again.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    before = os.umask(0o077)
    try:
        made(again, tmp_path / "two.tar.gz")
    finally:
        os.umask(before)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    assert (tmp_path / "two.tar.gz").stat().st_mode & 0o777 == 0o644


def test_what_is_not_of_the_plugin_is_left_out(tmp_path: Path) -> None:
    others = {".git/config": b"", "ui/.DS_Store": b"", ".env": b"", "notes-0.9.tar.gz": b"", "checksums.txt.sig": b""}
    kept = {"ui/data.tar.gz": b"", "ui/checksums.txt": b""}
    folder = laid_out(tmp_path / "f", package_files(**others, **kept, **{"checksums.txt": b"stale"}))
    package = made(folder, folder / "notes-1.0.0.tar.gz")
    assert {file.path for file in package.files} == {"checksums.txt", *package_files(), *kept}
    assert made(folder, folder / "notes-1.0.0.tar.gz") == package


def test_everything_that_is_wrong_with_a_folder_is_told(tmp_path: Path) -> None:
    folder = laid_out(tmp_path / "f", {"manifest.yaml": b"id: A", "ui/b\\c": b"", "ui/x": b"", "UI/y": b""})
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "linked").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    with pytest.raises(FolderRefused) as refused:
        read_folder(folder)
    problems = refused.value.problems
    assert {"'link' is no regular file", "'linked' is no regular file", "'pipe' is no regular file"} <= set(problems)
    assert "'ui/b\\\\c' must not contain a backslash or a colon" in problems
    assert "'ui' and 'UI' are one name on some systems" in problems
    assert 'invalid plugin id "A": must match ^[a-z0-9][a-z0-9._-]*$' in problems
    assert "version must not be empty" in problems


def test_a_folder_without_a_manifest_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(FolderRefused, match=r"there is no file manifest\.yaml"):
        read_folder(tmp_path)


def test_what_cannot_be_installed_is_not_written(tmp_path: Path) -> None:
    folder = laid_out(tmp_path / "f", package_files(changed(BROWSER_ONLY, "ui.styles", ["/ui/none.css"])))
    target = tmp_path / "p.tar.gz"
    target.write_bytes(b"an earlier one")
    with pytest.raises(PackageRefused) as refused:
        made(folder, target)
    assert refused.value.kind == "manifest_invalid"
    assert target.read_bytes() == b"an earlier one"
    assert {path.name for path in tmp_path.iterdir()} == {"f", "p.tar.gz"}


def test_a_package_may_be_made_for_another_platform_but_not_for_none(tmp_path: Path) -> None:
    manifest = managed(**{"plan9-386": "server/a", "plan9-arm": "server/b"})
    folder = laid_out(tmp_path / "f", package_files(manifest, **{"server/b": b""}))
    assert made(folder, tmp_path / "p.tar.gz").manifest.runtime is not None
    (folder / "server/b").unlink()
    with pytest.raises(PackageRefused) as refused:
        made(folder, tmp_path / "p.tar.gz")
    assert refused.value.kind == "platform_not_supported"


def test_a_manifest_is_packed_as_it_was_written(tmp_path: Path) -> None:
    written = b"# by hand\n" + text(BROWSER_ONLY)
    made(laid_out(tmp_path / "f", {**package_files(), "manifest.yaml": written}), tmp_path / "p.tar.gz")
    unpack(tmp_path / "p.tar.gz", tmp_path / "out")
    assert (tmp_path / "out/manifest.yaml").read_bytes() == written
