"""Packages unpacked on this machine, by the hash of their archive. Several gateway processes may share the folder.

An entry appears by one rename, complete. What was unpacked by another process, or in an earlier life, is compared with
its own checksums before the first use here, and made anew if it differs.
"""

import asyncio
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from services.gateway.plugins.archive import inspect, unpack
from services.gateway.plugins.store import Store

MAX_BYTES = 2 << 30
"""Bytes that all entries may take. Beyond, those go first whose last first use by a process lies furthest back; a
process that still needs one unpacks it again.
"""

ABANDONED_SECONDS = 3600.0
"""An unfinished entry of this age was left by a process that died."""

_UNFINISHED = ".unfinished"
_INDEX, _FILES = "index.json", "files"


class PackageDamaged(Exception):
    """The stored archive is not the one whose hash names it."""


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of an unpacked package. `sha256` in hex."""

    path: Path
    sha256: str


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

    async def files(self, package_hash: str) -> Files:
        """The files of a package, unpacked if they are not yet. Raises PackageMissing, PackageDamaged, PackageRefused,
        and what asyncpg and the disk raise.
        """
        known = self._known.get(package_hash)
        if known is not None:
            return known
        # One at a time: unpacking costs processor time and disk, and most who wait want the same one.
        async with self._unpacking:
            if (known := self._known.get(package_hash)) is None:
                known = self._known[package_hash] = await self._provide(package_hash)
        return known

    def forget(self, package_hash: str) -> None:
        """An entry did not hold what it should: the next who asks has it looked at, and made anew."""
        self._known.pop(package_hash, None)

    async def _provide(self, package_hash: str) -> Files:
        entry = self._folder / package_hash
        files = await asyncio.to_thread(_looked_at, entry)
        if files is not None:
            return files
        work = self._folder / f"{package_hash}.{secrets.token_hex(8)}{_UNFINISHED}"
        await asyncio.to_thread(work.mkdir, mode=0o700, parents=True)
        try:
            await self._fetch(package_hash, work / "package")
            await asyncio.to_thread(_settle, package_hash, work, entry)
            files = await asyncio.to_thread(_looked_at, entry)
        finally:
            await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
        if files is None:
            raise PackageDamaged("the package was changed on disk while it was unpacked")
        await asyncio.to_thread(_sweep, self._folder, entry)
        return files

    async def _fetch(self, package_hash: str, target: Path) -> None:
        file = await asyncio.to_thread(target.open, "xb")
        try:
            async for part in self._store.package(package_hash):
                await asyncio.to_thread(file.write, part)
        finally:
            await asyncio.to_thread(file.close)


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
        index: dict[str, str] = orjson.loads((entry / _INDEX).read_bytes())
        files = {name: CachedFile(entry / _FILES / name, sha256) for name, sha256 in index.items()}
        if any(_digest(file.path) != file.sha256 for file in files.values()):
            return None
        os.utime(entry)
    except (OSError, ValueError):
        return None
    return files


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sweep(folder: Path, keep: Path) -> None:
    """Removes what was abandoned, and entries beyond `MAX_BYTES`."""
    entries = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process sweeps, too
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
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
