"""Turns a new process into a supervised program: tied to its parent's life, and as another user where asked.

Run by path and on the standard library alone (`python -I -S launch.py PLAN PROGRAM ARGUMENTS...`), so that it
costs a few milliseconds. The process id stays the same: the launcher replaces itself by the program.

A user who must not be root may be unable to reach the program or its data (a checkout below `/root`, a home with
mode 0700). Then the launcher enters a mount namespace of its own, covers the first closed directory on the way with
an empty one that everybody may enter, and binds the needed folders back in under their own paths. Nobody else sees
this, and no permission is changed.
"""

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
CANNOT_LAUNCH = 2


def launched(
    argv: Sequence[str], *, death_signal: int, user: tuple[int, int] | None = None, needs: Sequence[Path] = ()
) -> list[str]:
    """The command line that runs `argv` (whose first item is an absolute path) through this launcher.

    `death_signal` is what the program receives when the process that calls this function dies (Linux only; the
    thread that starts the program must live as long as the process). `user` is (uid, gid); `needs` are absolute
    folders that this user has to reach, outermost ones only.
    """
    plan = {"parent": os.getpid(), "signal": death_signal, "user": user, "needs": [str(path) for path in needs]}
    return [sys.executable, "-I", "-S", __file__, json.dumps(plan), *argv]


def _first_closed(needs: Sequence[str], uid: int, gid: int) -> list[str]:
    """For every needed folder the topmost directory on the way that the user may not enter ('' where all are open)."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        _become(uid, gid)
        closed = [
            next((str(p) for p in (*reversed(Path(need).parents), Path(need)) if not os.access(p, os.X_OK)), "")
            for need in needs
        ]
        os.write(sender, json.dumps(closed).encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as answer:
        found: list[str] = json.loads(answer.read())
    os.waitpid(child, 0)
    return found


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _call(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _open_the_way(needs: Sequence[str], closed: Sequence[str]) -> None:
    """Makes every needed folder reachable in a mount namespace of this process."""
    library = ctypes.CDLL(None, use_errno=True)
    _call(library, "unshare", CLONE_NEWNS)
    _call(library, "mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    hidden = [(need, os.open(need, os.O_PATH)) for need, at in zip(needs, closed, strict=True) if at]
    covers = {at for at in closed if at}
    for cover in sorted(covers):
        if not any(parent in covers for parent in map(str, Path(cover).parents)):
            _call(library, "mount", b"tmpfs", cover.encode(), b"tmpfs", 0, b"mode=0755,size=64k")
    for need, handle in hidden:
        Path(need).mkdir(parents=True, exist_ok=True)
        _call(library, "mount", f"/proc/self/fd/{handle}".encode(), need.encode(), None, MS_BIND | MS_REC, None)
        os.close(handle)


def _die_with(parent: int, signal_number: int) -> None:
    """Asks the kernel to signal this process when its parent dies. A change of user would clear it."""
    if sys.platform != "linux":
        return
    _call(ctypes.CDLL(None, use_errno=True), "prctl", PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(CANNOT_LAUNCH)


def main() -> None:
    """Carries out the plan in the first argument and becomes the program in the rest."""
    plan, argv = json.loads(sys.argv[1]), sys.argv[2:]
    if plan["user"] is not None:
        uid, gid = plan["user"]
        os.umask(0o022)
        closed = _first_closed(plan["needs"], uid, gid)
        if any(closed):
            try:
                _open_the_way(plan["needs"], closed)
            except OSError as error:
                sys.exit(
                    f"User id {uid} may not enter {next(filter(None, closed))}, and no mount namespace can be made "
                    f"here ({error}). Run this as an ordinary user, set KANDEV_DATA_DIR to a folder that others may "
                    "enter, or set DATABASE_URL."
                )
        _become(uid, gid)
    _die_with(plan["parent"], plan["signal"])
    os.execv(argv[0], argv)  # noqa: S606 - the caller's own command line


if __name__ == "__main__":
    main()
