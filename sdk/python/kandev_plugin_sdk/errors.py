"""What a call can fail with."""

from collections.abc import Mapping


class HostError(Exception):
    """A call failed. `code`: name of the gRPC status, such as `INTERNAL`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type["HostError"], tuple[str, str]]:
        # An exception is made anew of its text alone, in another process or as a copy.
        return type(self), (self.code, str(self))


class Unauthenticated(HostError):
    """The host does not take the token: it was replaced, or the plugin is disabled or removed."""


class PermissionDenied(HostError):
    """The plugin's manifest does not declare the capability."""


class InvalidArgument(HostError):
    """The call cannot be used as given."""


class Unavailable(HostError):
    """Nobody answered, however often it was tried."""


class DeadlineExceeded(HostError):
    """The answer did not come in time."""


class NotOffered(HostError):
    """This host does not offer the method."""


CLOSED = "CANCELLED", "the connection to the host was closed"
NO_TOKEN = "UNAUTHENTICATED", "the token holds a character that no token has"
UNREADABLE = "INTERNAL", "what the host has answered cannot be read"

_ERRORS: Mapping[str, type[HostError]] = {
    "UNAUTHENTICATED": Unauthenticated,
    "PERMISSION_DENIED": PermissionDenied,
    "INVALID_ARGUMENT": InvalidArgument,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "UNIMPLEMENTED": NotOffered,
}


def error_of(code: str, message: str) -> HostError:
    """The error of a status."""
    return _ERRORS.get(code, HostError)(code, message)
