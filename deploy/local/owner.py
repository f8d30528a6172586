"""The user who runs the database: PostgreSQL refuses to run as root."""

import os
import pwd
from pathlib import Path

PREFERRED = ("postgres", "nobody")


def database_user(folder: Path) -> tuple[int, int] | None:
    """(uid, gid) to run the database as, or None for the user of this process.

    Root takes the owner of an existing folder, so that a later start finds its data, else an unprivileged user.
    """
    if os.geteuid() != 0:
        return None
    if folder.exists() and (status := folder.stat()).st_uid != 0:
        return status.st_uid, status.st_gid
    known = {entry.pw_name: (entry.pw_uid, entry.pw_gid) for entry in pwd.getpwall()}
    return next((known[name] for name in PREFERRED if name in known), (65534, 65534))


def hand_over(path: Path, user: tuple[int, int] | None) -> None:
    """Gives one new file or folder below the data folder to the database's user."""
    if user is not None:
        os.chown(path, *user)
