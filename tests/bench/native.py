"""Peers that are not Python: compiled, or installed, into the cache when they are wanted."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
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


def leave_out(reason: Unavailable) -> None:
    """Says which peer is missing, and why."""
    print(f"left out: {reason}", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """Programs of Node.js with the packages that they import: the interpreter, and the folder that they are in."""

    node: str
    folder: Path


async def node_server() -> Sequence[str]:
    """The command of the server that uses the npm package `ws`, but for its port. Raises Unavailable without Node."""
    programs = await _node_programs("node", "ws")
    return (programs.node, str(programs.folder / "server.js"))


async def zero() -> NodePrograms:
    """Rocicorp Zero and its followers. Raises Unavailable without Node, or where its SQLite can be neither downloaded
    nor compiled, which takes minutes once.
    """
    return await _node_programs("zero", "Rocicorp Zero", ("@rocicorp/zero-sqlite3",))


async def _node_programs(name: str, peer: str, built: Sequence[str] = ()) -> NodePrograms:
    """The programs of `peers/{name}`. Of the packages' own scripts only those of the packages `built` are run."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable(f"the peer `{peer}` needs Node.js and npm (Debian: apt install nodejs npm).")
    sources, folder = SOURCES / name, CACHE / name
    finished = folder / "installed.json"
    if not _is_same(finished, sources / LOCK):
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        try:
            await output_of([npm, "ci", "--silent", "--ignore-scripts", "--prefix", str(folder)], {})
            if built:
                await output_of([npm, "rebuild", "--silent", "--prefix", str(folder), *built], {})
        except RuntimeError as error:
            raise Unavailable(f"the peer `{peer}` could not be installed: {error}") from error
        shutil.copy(sources / LOCK, finished)
    for program in sources.glob("*.js"):
        shutil.copy(program, folder)
    return NodePrograms(node, folder)


def _is_same(finished: Path, lock: Path) -> bool:
    """Whether what the lock names was installed to the end, from this very lock."""
    return finished.exists() and finished.read_bytes() == lock.read_bytes()
