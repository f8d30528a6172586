"""Connections to Redis."""

import asyncio
import socket

from pydantic import SecretStr
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

BLOCK_MS = 1000
"""How long a blocking read waits on the server. Shorter than the socket timeout, or an idle stream would look like a
dead server.
"""

RETRY_SECONDS = 0.05
"""Pause between attempts while Redis is away: everything works again well within 500 ms of its answering."""

READ_BYTES = 1 << 18
"""Most bytes taken from a connection in one go. A page has some hundred thousand; with the library's own 64 KiB it
would take several turns of the loop.
"""

BROKER_ERRORS = (RedisError, OSError, TimeoutError)
"""What redis-py raises when the server is away, restarting or replaced."""

_KEEPALIVE = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 2, socket.TCP_KEEPCNT: 3}


def connect(url: SecretStr) -> Redis:
    """A client that fails at once rather than hiding an outage: whoever calls decides what an outage means for it."""
    client: Redis = Redis.from_url(
        url.get_secret_value(),
        protocol=2,
        decode_responses=False,
        socket_timeout=BLOCK_MS / 1000 + 2,
        socket_connect_timeout=2,
        socket_read_size=READ_BYTES,
        socket_keepalive=True,
        socket_keepalive_options=_KEEPALIVE,
        retry=Retry(NoBackoff(), 0),
    )
    return client


def stop_if_cancelled() -> None:
    """Raises CancelledError in a task that was cancelled and goes on regardless.

    A cancellation that meets redis-py between a reply and its next read can be lost there: a loop over such reads asks
    at every turn, or it would outlive its owner.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
