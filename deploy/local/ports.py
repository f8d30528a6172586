"""Which ports the embedded stack listens on."""

import errno
import random
import socket
import sys
from collections.abc import Iterable
from typing import Self

from deploy.local.errors import StackError

# Below the range from which Linux takes the ports of outgoing connections: one of those could be lent out while its
# server restarts.
PRIVATE_PORTS = range(17000, 32000)
FIRST_METRICS_PORT = 9100
LOOPBACK = "127.0.0.1"


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on the port now. A port on which only closed connections linger counts as free."""
    return _hindrance(port, host) == 0


def _hindrance(port: int, host: str) -> int:
    """The error number that keeps a server from the port; 0 when nothing does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return error.errno
            raise StackError(
                f"Nothing can listen on {host}: {error.strerror}. Set KANDEV_HOST to an address of this machine."
            ) from error
    return 0


def refusal(port: int, setting: str, hindrance: int) -> str:
    """Why a port that somebody chose is not to be had, by the error number that a server would meet."""
    if hindrance == errno.EACCES:
        return f"This user may not listen on port {port}. Choose a {setting} from 1024 up, or leave {setting} unset."
    return f"Port {port} is in use. Stop what listens there, choose another {setting}, or leave {setting} unset."


class Ports:
    """Hands out ports of this machine until it is closed; no two of these hand out the same one at a time.

    Between the choice of a port and the start of its server another stack could choose it, too. So a choice is claimed
    under a name that the kernel keeps as long as this process lives (an abstract socket; Linux only).
    """

    def __init__(self) -> None:
        self._claims: dict[int, socket.socket | None] = {}

    def close(self) -> None:
        """Gives all claims back."""
        for claim in self._claims.values():
            if claim is not None:
                claim.close()
        self._claims.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exactly(self, port: int, setting: str, host: str = LOOPBACK) -> int:
        """The port that somebody chose by `setting`. Raises `StackError` when something else has it."""
        if not self._take(port, host):
            raise StackError(refusal(port, setting, _hindrance(port, host)))
        return port

    def preferred(self, port: int, host: str = LOOPBACK) -> int:
        """This port when it is free, else some free one."""
        return port if self._take(port, host) else self.private(host)

    def upward(self, first: int, host: str = LOOPBACK) -> int:
        """The lowest free port from `first` up."""
        return self._first_of(range(first, 65536), host)

    def private(self, host: str = LOOPBACK) -> int:
        """Some free port that no outgoing connection takes by itself."""
        return self._first_of(random.sample(PRIVATE_PORTS, 200), host)

    def _first_of(self, candidates: Iterable[int], host: str) -> int:
        for port in candidates:
            if self._take(port, host):
                return port
        raise StackError(f"No free port was found on {host}. Stop what occupies them and try again.")

    def _take(self, port: int, host: str) -> bool:
        if port in self._claims or not is_free(port, host):
            return False
        if sys.platform != "linux":
            self._claims[port] = None
            return True
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0kandev-conversation:port:{port}")
        except OSError:
            claim.close()
            return False
        self._claims[port] = claim
        return True
