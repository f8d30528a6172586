"""The journal's files: removed once its tables are gone, each only if it is a file like any other."""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

LEGACY_FILES: Final = ("session-events.sqlite", "session-events.sqlite-wal", "session-events.sqlite-shm")


class Fate(StrEnum):
    """What became of a file, or would."""

    REMOVED = "removed"
    ABSENT = "not there"
    REFUSED = "refused"


@dataclass(frozen=True)
class LegacyFile:
    """One of the three. `reason`: why it was refused, half a sentence; `size`: bytes of one that can be removed."""

    name: str
    fate: Fate
    reason: str = ""
    size: int = 0


def files_in(folder: Path) -> tuple[LegacyFile, ...]:
    """What removing would do with each, found out without removing. A folder that is not there has none of them."""
    return _each(folder, _looked_at)


def remove_files(folder: Path, progress: Callable[[str], None]) -> tuple[LegacyFile, ...]:
    """Removes each that is a regular file and leaves the others; to be repeated at the next start.

    `progress` is told each removal beforehand.
    """

    def removed(place: int, name: str) -> LegacyFile:
        found = _looked_at(place, name)
        if found.fate is not Fate.REMOVED:
            return found
        progress(f"removing {name}")
        try:
            os.unlink(name, dir_fd=place)
        except OSError as error:
            return _failed(name, error)
        return found

    return _each(folder, removed)


def _each(folder: Path, act: Callable[[int, str], LegacyFile]) -> tuple[LegacyFile, ...]:
    """Acts on each name in the opened folder: nobody can put another folder in its place meanwhile."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        return tuple(_failed(name, error) for name in LEGACY_FILES)
    try:
        return tuple(act(place, name) for name in LEGACY_FILES)
    finally:
        os.close(place)


def _looked_at(place: int, name: str) -> LegacyFile:
    try:
        status = os.lstat(name, dir_fd=place)
    except OSError as error:
        return _failed(name, error)
    if stat.S_ISREG(status.st_mode):
        return LegacyFile(name, Fate.REMOVED, size=status.st_size)
    kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
    return LegacyFile(name, Fate.REFUSED, f"it is {kind}")


def _failed(name: str, error: OSError) -> LegacyFile:
    if error.errno == errno.ENOENT:
        return LegacyFile(name, Fate.ABSENT)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return LegacyFile(name, Fate.REFUSED, "its folder is a symbolic link, or no folder")
    return LegacyFile(name, Fate.REFUSED, os.strerror(error.errno or 0).lower())
