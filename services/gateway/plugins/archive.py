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

from services.gateway.plugins.checksums import CHECKSUMS, SIGNATURE, checksum_faults
from services.gateway.plugins.manifest import LARGEST_MANIFEST, Manifest, ManifestInvalid, read_manifest
from services.gateway.plugins.paths import Spellings, path_problem
from services.gateway.plugins.refusals import Fault, PackageRefused
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

MOST_NAMES = 20_000
"""Files and folders, those included that only paths name."""

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
    `notes`: a sentence for everything in the manifest that is probably not what its author meant.
    """

    manifest: Manifest
    hash: str
    signed: bool
    files: tuple[PackageFile, ...]
    notes: tuple[str, ...] = ()


def inspect(archive: Path, host: str | None = HOST_PLATFORM) -> Package:
    """What the archive holds, for a host of that platform, or, with `None`, of whichever. Raises `PackageRefused`."""
    with archive.open("rb") as file:
        return _read(file, host, None)


def unpack(archive: Path, folder: Path) -> None:
    """Puts the files into `folder`, which must not exist: all of them, or nothing. Raises `PackageRefused`. For which
    platform the package is does not matter.

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
            package = _read(file, None, temporary)
        _set_modes(temporary, package.manifest)
        temporary.rename(folder)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            raise _exists(folder) from None
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _read(file: BufferedReader, host: str | None, target: Path | None) -> Package:
    """Reads everything once, and verifies it; files go into `target` on the way, if there is one."""
    if file.seek(0, 2) > LARGEST_ARCHIVE:
        raise PackageRefused("too_large", f"the archive is larger than {LARGEST_ARCHIVE:,} bytes")
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    contents = _Contents(target)
    contents.take(TarStream(file))
    manifest, notes = contents.verified(host)
    return Package(manifest, digest, signed=False, files=tuple(contents.files.values()), notes=notes)


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
            if len(self._spellings) > MOST_NAMES:
                raise PackageRefused("too_large", f"the package has more than {MOST_NAMES:,} files and folders")
            if not entry.folder:
                self._file(entry.path, entry.size, stream.chunks())

    def verified(self, host: str | None) -> tuple[Manifest, tuple[str, ...]]:
        """The manifest and the notes on it, once it and every file are what they should be."""
        if CHECKSUMS not in self._kept:
            raise PackageRefused("missing_checksums", f"the package has no {CHECKSUMS}")
        sums = {path: file.sha256 for path, file in self.files.items() if path not in {CHECKSUMS, SIGNATURE}}
        faults = list(checksum_faults(self._kept[CHECKSUMS], sums))
        try:
            manifest, notes = read_manifest(self._kept[MANIFEST])
        except KeyError:
            faults.append(("manifest_invalid", f"the package has no {MANIFEST} at its root"))
        except ManifestInvalid as error:
            faults += (("manifest_invalid", problem) for problem in error.problems)
        else:
            faults += (*self._missing_assets(manifest), *self._missing_executable(manifest, host))
            if not faults:
                return manifest, notes
        raise PackageRefused(faults[0][0], *(problem for _, problem in faults))

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

    def _missing_assets(self, manifest: Manifest) -> Iterator[Fault]:
        declared = {"ui.bundle": [manifest.ui.bundle] if manifest.ui.bundle else [], "ui.styles": manifest.ui.styles}
        for field, paths in declared.items():
            for path in paths:
                if path.removeprefix("/") not in self.files:
                    yield "manifest_invalid", f"{field} names {path}, which is not in the package"

    def _missing_executable(self, manifest: Manifest, host: str | None) -> Iterator[Fault]:
        if manifest.runtime is None or host is None:
            return
        if manifest.runtime.executables.get(host) not in self.files:
            yield "platform_not_supported", f"the package has no executable for the platform {host}"


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
