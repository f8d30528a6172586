"""Peers that are not Python: compiled, or installed, into the cache when they are wanted."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.bench.process import ROOT, output_of

CACHE = ROOT / ".cache" / "bench"
SOURCES = Path(__file__).parent / "peers"
LOCK = "package-lock.json"


class Unavailable(Exception):
    """A peer cannot run on this machine; the text says why, and what to do."""


async def compiled(name: str) -> str:
    """The program made of `peers/{name}.c`. Raises Unavailable without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Unavailable(f"{name} is written in C, and there is no compiler. Install one (Debian: apt install gcc).")
    CACHE.mkdir(parents=True, exist_ok=True)
    program = CACHE / name
    options = ["-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror"]
    await output_of([compiler, *options, "-o", str(program), str(SOURCES / f"{name}.c")], {})
    return str(program)


async def node_server() -> Sequence[str]:
    """The command of the server that uses the npm package `ws`, but for its port. Raises Unavailable without Node."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("the peer `ws` needs Node.js and npm (Debian: apt install nodejs npm).")
    folder = CACHE / "node"
    if not _is_installed(folder):
        shutil.copytree(SOURCES / "node", folder, dirs_exist_ok=True)
        try:
            await output_of([npm, "ci", "--silent", "--ignore-scripts", "--prefix", str(folder)], {})
        except RuntimeError as error:
            raise Unavailable(f"the peer `ws` could not be installed: {error}") from error
    shutil.copy(SOURCES / "node" / "server.js", folder)
    return (node, str(folder / "server.js"))


def _is_installed(folder: Path) -> bool:
    """Whether what the lock names was installed from this lock. npm leaves its own lock where it has finished."""
    lock = folder / LOCK
    finished = folder / "node_modules" / ".package-lock.json"
    return finished.exists() and lock.exists() and lock.read_bytes() == (SOURCES / "node" / LOCK).read_bytes()
