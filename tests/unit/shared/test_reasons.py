"""Errors in words: no class names, no texts of drivers."""

import errno
import socket

import aiohttp
import asyncpg
import pytest
import redis.exceptions

from client.reasons import reason as gateway_reason
from shared.reasons import reason

SECRET = "hunter2"


def wrapped(inner: OSError) -> redis.exceptions.RedisError:
    try:
        try:
            raise inner
        except OSError:
            raise redis.exceptions.ConnectionError(SECRET)  # noqa: B904 - as redis-py does
    except redis.exceptions.ConnectionError as error:
        return error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, SECRET), "connection refused"),
        (OSError(f"Multiple exceptions: [Errno 111] {SECRET}, [Errno 111] {SECRET}"), "connection refused"),
        (OSError(SECRET), "the connection failed"),
        (TimeoutError(SECRET), "no answer came in time"),
        (socket.gaierror(socket.EAI_NONAME, SECRET), "its host name is not known"),
        (asyncpg.InvalidPasswordError(SECRET), "the password is not accepted"),
        (asyncpg.InvalidCatalogNameError(SECRET), "there is no database of that name"),
        (asyncpg.UndefinedTableError(SECRET), "PostgreSQL answers with SQLSTATE 42P01"),
        (asyncpg.InterfaceError(SECRET), "the connection failed"),
        (wrapped(ConnectionRefusedError(errno.ECONNREFUSED, SECRET)), "connection refused"),
        (redis.exceptions.AuthenticationError(SECRET), "the user or the password is not accepted"),
        (redis.exceptions.ConnectionError(SECRET), "the connection failed"),
    ],
)
def test_of_servers(error: Exception, says: str) -> None:
    assert reason(error) == says


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (aiohttp.ServerTimeoutError(SECRET), "no answer came in time"),
        (aiohttp.ServerDisconnectedError(SECRET), "the connection was closed without an answer"),
        (aiohttp.InvalidURL(SECRET), "that is no URL of a gateway"),
        (aiohttp.ClientPayloadError(SECRET), "the connection was closed without an answer"),
        (aiohttp.ClientError(SECRET), "the connection failed"),
        (ConnectionResetError(errno.ECONNRESET, SECRET), "connection reset by peer"),
    ],
)
def test_of_gateways(error: Exception, says: str) -> None:
    assert gateway_reason(error) == says
