"""A package on its way in: on disk, bounded, and gone when it was dealt with or broke off."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from shared.contracts.errors import RequestFailed

MAX_PACKAGE_BYTES = 100 << 20
"""Largest archive, however it comes."""


class Incoming:
    """A file that grows by parts."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        self._received = 0

    async def write(self, part: bytes) -> None:
        """Adds a part. Raises RequestFailed once more has come than a package may have."""
        self._received += len(part)
        check_size(self._received)
        await asyncio.to_thread(self._file.write, part)

    async def finish(self) -> Path:
        """Where the whole file is."""
        await asyncio.to_thread(self._file.flush)
        return self.path


@asynccontextmanager
async def incoming() -> AsyncIterator[Incoming]:
    """A new, empty file, which is gone afterwards."""
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="kandev-package-")
    try:
        path = Path(folder.name) / "package.tar.gz"
        file = await asyncio.to_thread(path.open, "xb")
        try:
            yield Incoming(path, file)
        finally:
            await asyncio.to_thread(file.close)
    finally:
        await asyncio.to_thread(folder.cleanup)


def check_size(size: int) -> None:
    """Raises RequestFailed for more bytes than a package may have."""
    if size > MAX_PACKAGE_BYTES:
        raise RequestFailed("too_large", f"a package is at most {MAX_PACKAGE_BYTES >> 20} MiB")
