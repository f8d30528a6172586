"""Programs that tests start: each dies with the test process, however that ends."""

import signal
import sys
from pathlib import Path

from deploy.local.launch import launched


def python(*arguments: str | Path, death_signal: signal.Signals = signal.SIGKILL) -> list[str]:
    """The command line of a Python program. `death_signal`: what it receives when this process dies; one that has
    programs of its own to end wants to hear of it.
    """
    return launched([sys.executable, *map(str, arguments)], death_signal=death_signal)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie that nobody has collected does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
