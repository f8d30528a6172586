"""Packages unpacked on this machine, by the hash of their archive. Several gateway processes may share the folder.

An entry appears by one rename, complete. What was unpacked by another process, or in an earlier life, is compared with
its own checksums before the first use here, and made anew if it differs. A file that is another one than was compared
is not opened.
"""

import asyncio
import hashlib
import logging
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import TypeVar

import orjson

from services.gateway.plugins.archive import inspect, unpack
from services.gateway.plugins.store import Store

logger = logging.getLogger(__name__)

MAX_BYTES = 2 << 30
"""Bytes of the disk that all entries may take. Beyond, those go first whose last first use by a process lies furthest
back; a process that still needs one unpacks it again.
"""

ABANDONED_SECONDS = 3600.0
"""An unfinished entry of this age was left by a process that died."""

_UNFINISHED = ".unfinished"
_BLOCK = 512
_INDEX, _FILES = "index.json", "files"


_Done = TypeVar("_Done")

Stamp = tuple[int, int, int, int]
"""Inode, size, and when content and entry changed last: another file, or another content, has another one."""


class CacheUnusable(Exception):
    """The folder cannot be used at the moment, which says nothing of the package."""


class PackageDamaged(Exception):
    """The stored archive is not the one whose hash names it."""


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of an unpacked package. `sha256` in hex."""

    path: Path
    sha256: str
    stamp: Stamp

    def open(self) -> BufferedReader:
        """The file. Raises OSError where it is gone, or not the one that was looked at."""
        file, stamp = _opened(self.path)
        if stamp != self.stamp:
            file.close()
            raise OSError("changed since it was looked at")
        return file


Files = Mapping[str, CachedFile]
"""The files of one package, by their path in it. Nothing outside of this mapping is ever opened for a request."""


@contextmanager
def cache_folder(chosen: Path | None) -> Iterator[Path]:
    """The folder to unpack below: the one chosen, or one that is gone afterwards."""
    if chosen is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="kandev-plugins-") as folder:
        yield Path(folder)


class Cache:
    """Unpacked packages below one folder, which is the gateway's own."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._store = store
        self._known: dict[str, Files] = {}
        self._unpacking = asyncio.Lock()
        self._unusable = False

    async def files(self, package_hash: str) -> Files:
        """The files of a package, unpacked if they are not yet. Raises PackageMissing, PackageDamaged, PackageRefused,
        CacheUnusable, and what asyncpg raises.
        """
        known = self._known.get(package_hash)
        if known is not None:
            return known
        # One at a time: unpacking costs processor time and disk, and most who wait want the same one.
        async with self._unpacking:
            if (known := self._known.get(package_hash)) is None:
                known = self._known[package_hash] = await self._provided(package_hash)
        return known

    def forget(self, package_hash: str) -> None:
        """An entry did not hold what it should: the next who asks has it looked at, and made anew."""
        self._known.pop(package_hash, None)

    async def _provided(self, package_hash: str) -> Files:
        try:
            files = await self._provide(package_hash)
        except CacheUnusable as unusable:
            if not self._unusable:
                logger.warning("%s", unusable)
            self._unusable = True
            raise
        self._unusable = False
        return files

    async def _provide(self, package_hash: str) -> Files:
        entry = self._folder / package_hash
        files = await _on_disk(partial(_looked_at, entry))
        if files is not None:
            return files
        work = self._folder / f"{package_hash}.{secrets.token_hex(8)}{_UNFINISHED}"
        await _on_disk(partial(work.mkdir, mode=0o700, parents=True))
        try:
            await self._fetch(package_hash, work / "package")
            await _on_disk(partial(_settle, package_hash, work, entry))
            files = await _on_disk(partial(_looked_at, entry))
        finally:
            await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
        if files is None:
            raise CacheUnusable("the folder of unpacked plugins does not keep what is put there")
        await asyncio.to_thread(_sweep, self._folder, entry)
        return files

    async def _fetch(self, package_hash: str, target: Path) -> None:
        file = await _on_disk(partial(_created, target))
        try:
            async for part in self._store.package(package_hash):
                await _on_disk(partial(file.write, part))
        finally:
            await _on_disk(file.close)


async def _on_disk(work: Callable[[], _Done]) -> _Done:
    """What the work gives. Raises CacheUnusable for what the disk refuses: of the database it would mean another."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CacheUnusable(f"the folder of unpacked plugins cannot be used: {reason}") from None


def _created(target: Path) -> BufferedWriter:
    return target.open("xb")


def _settle(package_hash: str, work: Path, entry: Path) -> None:
    """Unpacks the fetched package, and puts it in the place of whatever damaged entry is there."""
    package = inspect(work / "package", None)
    if package.hash != package_hash:
        raise PackageDamaged("the stored package is not the one that was installed")
    fresh = work / "fresh"
    fresh.mkdir()
    unpack(work / "package", fresh / _FILES)
    index = {file.path: file.sha256 for file in package.files}
    (fresh / _INDEX).write_bytes(orjson.dumps(index))
    # A damaged entry is moved out of the way. One that another process puts there meanwhile is as good as this one.
    with suppress(FileNotFoundError):
        entry.rename(work / "replaced")
    with suppress(OSError):
        fresh.rename(entry)


def _looked_at(entry: Path) -> Files | None:
    """The files of an entry, if each is still what it was when it was unpacked."""
    try:
        with _opened(entry / _INDEX)[0] as file:
            index = orjson.loads(file.read())
        files = {name: _looked_at_file(entry / _FILES / name, sha256) for name, sha256 in index.items()}
        os.utime(entry)
    except (OSError, ValueError, AttributeError, TypeError):  # whatever stands in the place of the index
        return None
    return files


def _looked_at_file(path: Path, sha256: str) -> CachedFile:
    file, stamp = _opened(path)
    with file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise ValueError
    return CachedFile(path, sha256, stamp)


def _opened(path: Path) -> tuple[BufferedReader, Stamp]:
    """The regular file of this name, and its stamp. Nothing else is followed, nor waited for. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise OSError("no regular file")
    return os.fdopen(descriptor, "rb"), (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _sweep(folder: Path, keep: Path) -> None:
    """Removes what was abandoned, and entries beyond `MAX_BYTES`."""
    entries = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process sweeps, too
            used = path.stat().st_mtime
            if not path.name.endswith(_UNFINISHED):
                entries.append((used, _size(path), path))
            elif used < time.time() - ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total > MAX_BYTES and path != keep:
            shutil.rmtree(path, ignore_errors=True)
            total -= size


def _size(folder: Path) -> int:
    """Bytes of the disk: folders take some, and files whole blocks."""
    found = (path.lstat() for path in (folder, *folder.rglob("*")))
    return sum(max(each.st_size, each.st_blocks * _BLOCK) for each in found)
