"""Plugin packages: what an archive holds, and putting that into a folder. Nothing in an archive is believed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from services.gateway.plugins.manifest import Manifest

Kind = Literal[
    "malformed",
    "too_large",
    "path_traversal",
    "missing_checksums",
    "unlisted_file",
    "checksum_mismatch",
    "manifest_invalid",
    "platform_not_supported",
    "version_exists",
]
"""Why a package is refused. All but `version_exists` are faults of the package."""


class PackageRefused(Exception):
    """The archive is no package that can be installed. `message` is for the person who offered it."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file in a package. `path` is relative, with `/` between its parts; `size` in bytes; `sha256` in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Package:
    """What an archive holds. `hash` is the SHA-256 of the archive itself, in hex, and names it in every cache."""

    manifest: Manifest
    hash: str
    signed: bool
    files: tuple[PackageFile, ...]


def inspect(archive: Path) -> Package:
    """What the archive holds. Raises `PackageRefused`."""
    raise NotImplementedError


def unpack(archive: Path, folder: Path) -> None:
    """Puts the files into `folder`, which must not exist: all of them, or nothing. Raises `PackageRefused`."""
    raise NotImplementedError
