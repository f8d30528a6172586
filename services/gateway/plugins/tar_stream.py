"""Reading a compressed tar that nobody vouches for, in order, once, and in constant memory.

`tarfile` is not used for this: it reads extension headers whole, however long they say they are, repairs names before
anybody can look at them, and takes a damaged header for the end.
"""

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from services.gateway.plugins.refusals import PackageRefused

LARGEST_CONTENT = 200 * 1024 * 1024
"""Bytes of all files together, and so of one."""

MOST_HEADERS = 10_000
"""Of files, folders and extensions."""

MOST_MEMBERS = 4096
"""Gzip streams behind each other: as many as the largest package has when it is compressed in blocks of 64 KiB."""

_LARGEST_STREAM = LARGEST_CONTENT + 16 * 1024 * 1024
"""Bytes with headers and padding."""

_LARGEST_EXTENSION = 64 * 1024
_BLOCK = 512
_GZIP = 16 + zlib.MAX_WBITS
_CHUNK = 64 * 1024
_ZERO_BLOCK = bytes(_BLOCK)
_OCTAL = re.compile(rb"[0-7]+")
_RECORD = re.compile(rb"(\d{1,6}) ([^=\n]+)=")

_FILE = frozenset({b"0", b"\x00"})
_FOLDER = b"5"
_PAX, _PAX_GLOBAL, _GNU_LONG_NAME = b"x", b"g", b"L"
_OTHERS = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a pipe"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder as its header tells of it. `size` in bytes."""

    path: str
    size: int
    folder: bool


class TarStream:
    """The entries of a gzipped tar. The content of an entry is read, as far as it is wanted, before the next entry."""

    def __init__(self, file: BinaryIO) -> None:
        self._content = io.BufferedReader(_Inflated(file), _CHUNK)
        self._read_so_far = 0
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[Entry]:
        """Every entry. Raises `PackageRefused`."""
        extensions: dict[str, str] = {}
        for _ in range(MOST_HEADERS):
            block = self._read(_BLOCK)
            if not block or block == _ZERO_BLOCK:
                if extensions:
                    raise _malformed("an extension header has no file")
                self._expect_end()
                return
            kind, name, size = _header(block)
            if kind in {_PAX, _PAX_GLOBAL, _GNU_LONG_NAME}:
                self._extend(extensions, kind, self._extension(size))
                continue
            entry = _entry(kind, extensions.pop("path", name), int(extensions.pop("size", size)))
            self._open(entry.size)
            yield entry
            for _chunk in self.chunks():
                pass
            self._exactly(self._padding)
        raise PackageRefused("too_large", f"the archive has more than {MOST_HEADERS:,} entries")

    def chunks(self) -> Iterator[bytes]:
        """The content of the entry that was told last."""
        while self._left:
            chunk = self._exactly(min(self._left, _CHUNK))
            self._left -= len(chunk)
            yield chunk

    def _open(self, size: int) -> None:
        if size > LARGEST_CONTENT:
            raise _too_large()
        self._left, self._padding = size, -size % _BLOCK

    def _extension(self, size: int) -> bytes:
        if size > _LARGEST_EXTENSION:
            raise PackageRefused("too_large", f"an extension header is larger than {_LARGEST_EXTENSION:,} bytes")
        content = self._exactly(size)
        self._exactly(-size % _BLOCK)
        return content

    @staticmethod
    def _extend(extensions: dict[str, str], kind: bytes, content: bytes) -> None:
        found = {"path": _text(content.rstrip(b"\x00"))} if kind == _GNU_LONG_NAME else _records(content)
        if kind == _PAX_GLOBAL and found:
            raise _malformed("a global header names or sizes files")
        if not found.keys().isdisjoint(extensions):
            raise _malformed("a file is named or sized twice")
        extensions.update(found)

    def _expect_end(self) -> None:
        while chunk := self._read(_CHUNK):
            if chunk.count(0) != len(chunk):
                raise _malformed("something follows the end of the archive")

    def _exactly(self, size: int) -> bytes:
        content = self._read(size)
        if len(content) != size:
            raise _malformed("the archive ends within a file")
        return content

    def _read(self, size: int) -> bytes:
        try:
            content = self._content.read(size)
        except (EOFError, zlib.error):
            raise _malformed("the archive is no complete gzip file") from None
        self._read_so_far += len(content)
        if self._read_so_far > _LARGEST_STREAM:
            raise _too_large()
        return content


class _Inflated(io.RawIOBase):
    """What a gzip file holds. The library's own reader takes any number of empty members."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pending = b""
        self._members = 0
        # Any: the type of a decompressor has no public name.
        self._member: Any = None

    def readable(self) -> bool:
        """It is, and nothing else."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills at most the buffer; 0 at the end. Raises EOFError, zlib.error, PackageRefused."""
        while self._member is not None or self._begins():
            given = self._pending or self._file.read(_CHUNK)
            content: bytes = self._member.decompress(given, len(buffer))
            if not (given or content or self._member.eof):
                raise EOFError
            self._pending = self._member.unconsumed_tail
            if self._member.eof:
                self._pending, self._member = self._member.unused_data, None
            if content:
                buffer[: len(content)] = content
                return len(content)
        return 0

    def _begins(self) -> bool:
        """Whether another member follows. Zeros behind one are padding."""
        if self._members:
            self._pending = self._pending.lstrip(b"\x00")
            while not self._pending:
                chunk = self._file.read(_CHUNK)
                if not chunk:
                    return False
                self._pending = chunk.lstrip(b"\x00")
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise PackageRefused("too_large", f"the archive is made of more than {MOST_MEMBERS:,} gzip streams")
        self._member = zlib.decompressobj(_GZIP)
        return True


def _header(block: bytes) -> tuple[bytes, str, int]:
    """Kind, name and size."""
    if len(block) != _BLOCK:
        raise _malformed("the archive ends within a header")
    if sum(block[:148]) + sum(block[156:]) + 8 * ord(" ") != _number(block[148:156]):
        raise _malformed("a header is damaged, or the archive is no tar")
    name, _, _ = block[:100].partition(b"\x00")
    prefix, _, _ = block[345:500].partition(b"\x00")
    # GNU's own format keeps times where POSIX has the beginning of the name.
    if prefix and block[257:263] == b"ustar\x00":
        name = prefix + b"/" + name
    return block[156:157], _text(name), _number(block[124:136])


def _entry(kind: bytes, name: str, size: int) -> Entry:
    if kind not in _FILE and kind != _FOLDER:
        what = _OTHERS.get(kind, "no regular file")
        raise PackageRefused("path_traversal", f"{name!r} is {what}: a package holds files and folders alone")
    # In the oldest archives a folder is a file whose name ends with a slash.
    folder = kind == _FOLDER or name.endswith("/")
    if folder and size:
        raise _malformed(f"the folder {name!r} has content")
    return Entry(name.removeprefix("./").removesuffix("/"), size, folder)


def _records(content: bytes) -> dict[str, str]:
    """The records of a POSIX extension that say where a file is and how long."""
    found: dict[str, str] = {}
    while content:
        head = _RECORD.match(content)
        length = int(head[1]) if head else 0
        if head is None or length <= head.end() or content[length - 1 : length] != b"\n":
            raise _malformed("an extension header is damaged")
        key, value = head[2].decode("utf-8", "replace"), content[head.end() : length - 1]
        if key.startswith("GNU.sparse."):
            raise PackageRefused("path_traversal", "a sparse file: a package holds files and folders alone")
        if key == "path":
            found[key] = _text(value)
        elif key == "size":
            if not value.isdigit() or len(value) > 18:
                raise _malformed("an extension header is damaged")
            found[key] = value.decode()
        content = content[length:]
    return found


def _number(field: bytes) -> int:
    digits = field.strip(b" \x00")
    if not digits:
        return 0
    if not _OCTAL.fullmatch(digits):
        raise _malformed("a header is damaged, or tells of a file of many gigabytes")
    return int(digits, 8)


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise PackageRefused("path_traversal", "the name of a file is not UTF-8") from None


def _malformed(problem: str) -> PackageRefused:
    return PackageRefused("malformed", problem)


def _too_large() -> PackageRefused:
    return PackageRefused("too_large", f"the package unpacks to more than {LARGEST_CONTENT:,} bytes")
