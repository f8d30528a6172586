"""Making a package of a folder. What comes out has passed what an installation asks of it."""

import errno
import gzip
import hashlib
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from services.gateway.plugins.archive import HOST_PLATFORM, MANIFEST, Package, inspect
from services.gateway.plugins.checksums import CHECKSUMS, SIGNATURE, checksum_text
from services.gateway.plugins.manifest import LARGEST_MANIFEST, Manifest, ManifestInvalid, parse_manifest
from services.gateway.plugins.paths import Spellings, path_problem


class FolderRefused(Exception):
    """No package can be made of the folder. `problems`: a sentence for each reason."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_folder(folder: Path) -> tuple[Manifest, dict[str, Path]]:
    """The manifest and the files that belong in the package, by their paths in it. Raises `FolderRefused` with every
    problem of names and manifest.

    Hidden files, earlier packages at the top and what packing writes itself are left out.
    """
    problems: list[str] = []
    files: dict[str, Path] = {}
    spellings = Spellings()
    for file in _files(folder):
        path = file.relative_to(folder).as_posix()
        problem = path_problem(path)
        if problem is not None:
            problems.append(f"{path!r} {problem}")
        elif file.is_symlink() or not file.is_file():
            problems.append(f"{path!r} is no regular file")
        elif clash := spellings.clash(path):
            problems.append(clash)
        else:
            files[path] = file
    try:
        manifest = parse_manifest(_start_of(files[MANIFEST]))
    except KeyError:
        problems.append(f"there is no file {MANIFEST}")
    except ManifestInvalid as error:
        problems += error.problems
    else:
        if not problems:
            return manifest, files
    raise FolderRefused(tuple(problems))


def write_package(manifest: Manifest, files: Mapping[str, Path], target: Path) -> Package:
    """Makes the package and puts it at `target` once it has passed. The same files give the same bytes, as far as zlib
    is the same. Raises `PackageRefused`, and `OSError`: also where something stands at `target` that is no file.
    """
    if os.path.lexists(target) and not stat.S_ISREG(target.lstat().st_mode):
        raise FileExistsError(errno.EEXIST, "it is there already and is no regular file", target)
    descriptor, name = tempfile.mkstemp(prefix=".packing-", dir=target.parent)
    made = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as output:
            _write(manifest, files, output)
        package = inspect(made, _platform(manifest, files))
        made.chmod(0o644)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)
    return package


def _files(folder: Path) -> Iterator[Path]:
    written = {folder / CHECKSUMS, folder / SIGNATURE}
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(base)
        # A link to a folder is listed among folders, and not followed.
        yield from (here / name for name in folders if (here / name).is_symlink())
        for file in (here / name for name in sorted(names) if not name.startswith(".")):
            earlier = here == folder and file.name.endswith(".tar.gz")
            if file not in written and not earlier:
                yield file


def _platform(manifest: Manifest, files: Mapping[str, Path]) -> str:
    """A platform that the package can serve: it need not be the one on which it is made."""
    executables = {} if manifest.runtime is None else manifest.runtime.executables
    return next((platform for platform, path in executables.items() if path in files), HOST_PLATFORM)


def _write(manifest: Manifest, files: Mapping[str, Path], output: BinaryIO) -> None:
    executables = set() if manifest.runtime is None else set(manifest.runtime.executables.values())
    sums = {path: _sha256(file) for path, file in files.items()}
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=output, mtime=0) as packed,
        tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as tar,
    ):
        listing = checksum_text(sums)
        tar.addfile(_header(CHECKSUMS, len(listing), executable=False), io.BytesIO(listing))
        for path, file in sorted(files.items()):
            with file.open("rb") as content:
                size = os.fstat(content.fileno()).st_size
                tar.addfile(_header(path, size, executable=path in executables), content)


def _header(path: str, size: int, *, executable: bool) -> tarfile.TarInfo:
    # Everything else keeps its neutral default: owner 0 without a name, and the beginning of time.
    header = tarfile.TarInfo(path)
    header.size = size
    header.mode = 0o755 if executable else 0o644
    return header


def _start_of(manifest: Path) -> bytes:
    """As much of it as any manifest has, and one byte more."""
    with manifest.open("rb") as content:
        return content.read(LARGEST_MANIFEST + 1)


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
