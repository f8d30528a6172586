"""Why something could not be reached, in words for people. Never an error's own text: drivers quote addresses there."""

import errno
import os
import socket

import asyncpg
from redis.exceptions import AuthenticationError, RedisError, ResponseError

NO_TIME = "no answer came in time"
NO_HOST = "its host name is not known"
FAILED = "the connection failed"

_BY_STATE = {
    "28P01": "the password is not accepted",
    "28000": "the user or the password is not accepted",
    "3D000": "there is no database of that name",
    "42501": "the role lacks a right",
    "53300": "it has no connection to spare",
    "57P03": "it is starting up or shutting down",
}
# The first kind that fits; the narrower ones come first.
_BY_KIND: tuple[tuple[type[BaseException], str], ...] = (
    (AuthenticationError, "the user or the password is not accepted"),
    (ResponseError, "Redis refuses the request"),
    (TimeoutError, NO_TIME),
    (socket.gaierror, NO_HOST),
    (ValueError, "the address is none of its kind"),
)


def reason(error: BaseException) -> str:
    """Half a sentence about an operating system's error, or one of asyncpg or redis-py."""
    if isinstance(error, asyncpg.PostgresError):
        return _BY_STATE.get(str(error.sqlstate), f"PostgreSQL answers with SQLSTATE {error.sqlstate}")
    if isinstance(error, RedisError) and isinstance(error.__context__, OSError):
        return reason(error.__context__)
    for kind, sentence in _BY_KIND:
        if isinstance(error, kind):
            return sentence
    return _of_number(error) if isinstance(error, OSError) else FAILED


def _of_number(error: OSError) -> str:
    number = error.errno
    if number is None and f"[Errno {errno.ECONNREFUSED}]" in str(error):
        # Several addresses of one name were tried; only the text has their numbers.
        number = errno.ECONNREFUSED
    return os.strerror(number).lower() if number is not None and number > 0 else FAILED
