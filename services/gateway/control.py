"""The control stream: what gateways tell each other."""

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from faststream.redis import RedisBroker
from pydantic import TypeAdapter, ValidationError

from shared.broker.connection import BLOCK_MS, BROKER_ERRORS
from shared.broker.guarded import Subscription, readable, undecoded
from shared.contracts import streams
from shared.contracts.control import Change, ControlEntry
from shared.contracts.errors import kinds

logger = logging.getLogger(__name__)

KEEP_ENTRIES = 1000
"""Entries kept in the stream (approximately). One that a gateway misses costs it at most one check period."""

_ENTRY = TypeAdapter(ControlEntry)

_ChangeT = TypeVar("_ChangeT", bound=Change)

# Any: a listener takes the kind of change that it is listed under, which a mapping's type cannot say.
_Listener = Callable[[Any], Awaitable[None]]


class Control:
    """This gateway's end of the control stream. Every gateway hears every entry, its own included."""

    def __init__(self, broker: RedisBroker) -> None:
        self._broker = broker
        self._origin = secrets.token_hex(4)
        self._listeners: dict[type, list[_Listener]] = {}
        subscriber = broker.subscriber(
            stream=Subscription(streams.CONTROL, polling_interval=BLOCK_MS),
            no_reply=True,
            parser=readable,
            decoder=undecoded,
        )
        subscriber(self._receive)

    def listen(self, kind: type[_ChangeT], listener: Callable[[_ChangeT], Awaitable[None]]) -> None:
        """Calls `listener` with every change of this kind, one after the other. It must not raise."""
        self._listeners.setdefault(kind, []).append(listener)

    async def announce(self, change: Change) -> None:
        """Tells every gateway. Best effort: without Redis the next check finds it."""
        entry = ControlEntry(origin=self._origin, control=change)
        try:
            await self._broker.publish(entry, stream=streams.CONTROL, maxlen=KEEP_ENTRIES)
        except BROKER_ERRORS as error:
            logger.warning("%s was not announced (%s); the next check finds it", change.kind, type(error).__name__)

    async def _receive(self, body: bytes) -> None:
        try:
            entry = _ENTRY.validate_json(body)
        except ValidationError as error:
            logger.warning("an entry of %s is passed over: %d bytes, %s", streams.CONTROL, len(body), kinds(error))
            return
        for listener in self._listeners.get(type(entry.control), ()):
            await listener(entry.control)
