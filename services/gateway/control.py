"""The control stream: what gateways tell each other."""

import logging
import secrets

from faststream.redis import RedisBroker
from pydantic import TypeAdapter, ValidationError

from services.gateway.scopes.checks import Checks
from services.gateway.scopes.hub import Hub
from shared.broker.connection import BLOCK_MS, BROKER_ERRORS
from shared.broker.guarded import Subscription, readable, undecoded
from shared.contracts import streams
from shared.contracts.control import AccessChanged, ControlEntry
from shared.contracts.errors import kinds

logger = logging.getLogger(__name__)

KEEP_ENTRIES = 1000
"""Entries kept in the stream (approximately). One that a gateway misses costs it at most one check period."""

_ENTRY = TypeAdapter(ControlEntry)


class Control:
    """This gateway's end of the control stream. Every gateway reads every entry, its own included."""

    def __init__(self, broker: RedisBroker, hub: Hub, checks: Checks) -> None:
        self._broker = broker
        self._hub = hub
        self._checks = checks
        self._origin = secrets.token_hex(4)
        subscriber = broker.subscriber(
            stream=Subscription(streams.CONTROL, polling_interval=BLOCK_MS),
            no_reply=True,
            parser=readable,
            decoder=undecoded,
        )
        subscriber(self._receive)

    async def announce(self, change: AccessChanged) -> None:
        """Tells every gateway. Best effort: without Redis the next check finds it."""
        entry = ControlEntry(origin=self._origin, control=change)
        try:
            await self._broker.publish(entry, stream=streams.CONTROL, maxlen=KEEP_ENTRIES)
        except BROKER_ERRORS as error:
            logger.warning("a change of access was not announced (%s); the next check finds it", type(error).__name__)

    async def _receive(self, body: bytes) -> None:
        try:
            entry = _ENTRY.validate_json(body)
        except ValidationError as error:
            logger.warning("an entry of %s is passed over: %d bytes, %s", streams.CONTROL, len(body), kinds(error))
            return
        if self._hub.follows(entry.control.session_id):
            self._checks.at_once([entry.control.session_id])
