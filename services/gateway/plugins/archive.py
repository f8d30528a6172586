"""Plugin packages: what an archive holds, and putting that into a folder. Nothing that an archive says is believed."""

import errno
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from services.gateway.plugins.checksums import CHECKSUMS, SIGNATURE, verify_checksums
from services.gateway.plugins.manifest import LARGEST_MANIFEST, Manifest, ManifestInvalid, parse_manifest
from services.gateway.plugins.paths import Spellings, path_problem
from services.gateway.plugins.refusals import PackageRefused
from services.gateway.plugins.tar_stream import TarStream

__all__ = [
    "HOST_PLATFORM",
    "LARGEST_ARCHIVE",
    "MANIFEST",
    "Package",
    "PackageFile",
    "PackageRefused",
    "inspect",
    "unpack",
]

MANIFEST = "manifest.yaml"

LARGEST_ARCHIVE = 100 * 1024 * 1024
"""Bytes, compressed."""

_OPERATING_SYSTEMS = {"win32": "windows"}
_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}

HOST_PLATFORM = "-".join(
    (
        _OPERATING_SYSTEMS.get(sys.platform, sys.platform),
        _PROCESSORS.get(platform.machine().lower(), platform.machine().lower()),
    )
)
"""This machine as manifests name it: `linux-amd64`."""


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file in a package. `path` is relative, with `/` between its parts; `size` in bytes; `sha256` in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Package:
    """What an archive holds. `hash` is the SHA-256 of the archive itself, in hex, and names it in every cache.

    `signed`: whether a signature was verified. This host has no key to verify one with, so none ever is.
    """

    manifest: Manifest
    hash: str
    signed: bool
    files: tuple[PackageFile, ...]


def inspect(archive: Path, host: str = HOST_PLATFORM) -> Package:
    """What the archive holds, for a host of that platform. Raises `PackageRefused`."""
    with archive.open("rb") as file:
        return _read(file, host, None)


def unpack(archive: Path, folder: Path) -> None:
    """Puts the files into `folder`, which must not exist: all of them, or nothing. Raises `PackageRefused`.

    The archive is verified while it is unpacked, so it need not be the one that was inspected. Executables that the
    manifest names have mode 0755, other files 0644.
    """
    if folder.exists():
        raise _exists(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Its own name, in the same folder: a rename there is atomic.
    temporary = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        with archive.open("rb") as file:
            package = _read(file, HOST_PLATFORM, temporary)
        _set_modes(temporary, package.manifest)
        temporary.rename(folder)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            raise _exists(folder) from None
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _read(file: BufferedReader, host: str, target: Path | None) -> Package:
    """Reads everything once, and verifies it; files go into `target` on the way, if there is one."""
    if file.seek(0, 2) > LARGEST_ARCHIVE:
        raise PackageRefused("too_large", f"the archive is larger than {LARGEST_ARCHIVE:,} bytes")
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    contents = _Contents(target)
    contents.take(TarStream(file))
    return Package(contents.verified(host), digest, signed=False, files=tuple(contents.files.values()))


class _Contents:
    """The files of an archive as they pass. The two that tell of the others are kept in memory."""

    def __init__(self, target: Path | None) -> None:
        self.files: dict[str, PackageFile] = {}
        self._target = target
        self._spellings = Spellings()
        self._kept: dict[str, bytes] = {}

    def take(self, stream: TarStream) -> None:
        for entry in stream:
            if entry.folder and entry.path in {"", "."}:
                continue
            if problem := path_problem(entry.path):
                raise PackageRefused("path_traversal", f"the path {entry.path!r} {problem}")
            if problem := self._spellings.clash(entry.path, folder=entry.folder):
                raise PackageRefused("path_traversal", problem)
            if not entry.folder:
                self._file(entry.path, entry.size, stream.chunks())

    def verified(self, host: str) -> Manifest:
        """The manifest, once it and every file are what they should be."""
        if CHECKSUMS not in self._kept:
            raise PackageRefused("missing_checksums", f"the package has no {CHECKSUMS}")
        sums = {path: file.sha256 for path, file in self.files.items() if path not in {CHECKSUMS, SIGNATURE}}
        verify_checksums(self._kept[CHECKSUMS], sums)
        if MANIFEST not in self._kept:
            raise PackageRefused("manifest_invalid", f"the package has no {MANIFEST} at its root")
        try:
            manifest = parse_manifest(self._kept[MANIFEST])
        except ManifestInvalid as error:
            raise PackageRefused("manifest_invalid", *error.problems) from None
        self._expect_assets(manifest)
        self._expect_executable(manifest, host)
        return manifest

    def _file(self, path: str, size: int, chunks: Iterator[bytes]) -> None:
        keep = path in {MANIFEST, CHECKSUMS}
        if keep and size > LARGEST_MANIFEST:
            raise PackageRefused("too_large", f"{path} is larger than {LARGEST_MANIFEST:,} bytes")
        kept = bytearray()
        digest = hashlib.sha256()
        with self._place(path).open("wb") as sink:
            for chunk in chunks:
                digest.update(chunk)
                sink.write(chunk)
                if keep:
                    kept += chunk
        if keep:
            self._kept[path] = bytes(kept)
        self.files[path] = PackageFile(path, size, digest.hexdigest())

    def _place(self, path: str) -> Path:
        if self._target is None:
            return Path(os.devnull)
        place = self._target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def _expect_assets(self, manifest: Manifest) -> None:
        declared = {"ui.bundle": [manifest.ui.bundle] if manifest.ui.bundle else [], "ui.styles": manifest.ui.styles}
        missing = [
            f"{field} names {path}, which is not in the package"
            for field, paths in declared.items()
            for path in paths
            if path.removeprefix("/") not in self.files
        ]
        if missing:
            raise PackageRefused("manifest_invalid", *missing)

    def _expect_executable(self, manifest: Manifest, host: str) -> None:
        if manifest.runtime is None:
            return
        path = manifest.runtime.executables.get(host)
        if path is None or path not in self.files:
            raise PackageRefused("platform_not_supported", f"the package has no executable for the platform {host}")


def _set_modes(folder: Path, manifest: Manifest) -> None:
    """Modes that do not depend on this process's mask, nor on the archive."""
    executables = (
        set() if manifest.runtime is None else {folder / path for path in manifest.runtime.executables.values()}
    )
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path in executables else 0o644)


def _exists(folder: Path) -> PackageRefused:
    return PackageRefused("version_exists", f"{folder.name} is there already")
