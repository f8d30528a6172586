"""Commands as they arrive on their stream: one group of all replicas, each entry acknowledged once it is answered.

Entries of different requests run at the same time: an asker who needs an order waits for each answer. What a replica
took and did not finish, because it died, is claimed by another.
"""

import asyncio
import logging
import secrets
import time

from faststream import AckPolicy
from faststream.exceptions import NackMessage
from faststream.redis.message import RedisStreamMessage
from pydantic import SecretStr, TypeAdapter, ValidationError
from redis.exceptions import ResponseError

from services.revision import metrics
from services.revision.commands import consumers
from services.revision.commands.boundary import WriteBoundary
from services.revision.commands.transaction import DeadlinePassed
from shared.broker.connection import BLOCK_MS, BROKER_ERRORS, connect
from shared.broker.guarded import Group, GroupGuard, Subscription, open_broker, readable, undecoded
from shared.broker.replies import ReplyWriter, is_past
from shared.contracts.base import Contract
from shared.contracts.commands import CommandRequest
from shared.contracts.errors import Failure, RequestFailed, kinds
from shared.contracts.replies import Envelope
from shared.contracts.streams import COMMANDS, REVISION_GROUP
from shared.telemetry import logged_with

logger = logging.getLogger(__name__)

WORKERS = 64
"""Commands of this process at a time. More than it has database connections, because appends wait for their window;
few enough that 64 commands of ordinary size are nothing in memory."""

FETCH = 32
"""Most entries of one read: what a dying replica takes down with it until another claims it."""

CLAIM_AFTER_MS = 10_000
"""An entry that its consumer has held this long is claimed. Longer than the usual deadline of five seconds: a claimed
entry is mostly past it and only dropped."""

CLAIM_EVERY_MS = 1000
"""Pause between two looks for such entries."""

CLAIM_WORKERS = 4
"""Claimed commands at a time: there are few, and they must not crowd out the living."""

CLEAN_SECONDS = 15.0
"""Pause between two looks for consumers of dead processes."""

_REQUEST: TypeAdapter[CommandRequest] = TypeAdapter(CommandRequest)
_ENVELOPE: TypeAdapter[Envelope] = TypeAdapter(Envelope)


class CommandRequests:
    """Reads commands, has them executed, and answers. `claim_after_ms`: see `CLAIM_AFTER_MS`."""

    def __init__(self, url: SecretStr, boundary: WriteBoundary, claim_after_ms: int = CLAIM_AFTER_MS) -> None:
        self._boundary = boundary
        self._claim_after_ms = claim_after_ms
        self._client = connect(url)
        self._replies = ReplyWriter(self._client)
        self.consumer = f"revision-{secrets.token_hex(8)}"
        broker = open_broker(url)
        new = Subscription(
            COMMANDS,
            group=REVISION_GROUP,
            consumer=self.consumer,
            last_id=">",
            max_records=FETCH,
            polling_interval=BLOCK_MS,
        )
        left = Subscription(
            COMMANDS,
            group=REVISION_GROUP,
            consumer=self.consumer,
            last_id=">",
            min_idle_time=claim_after_ms,
            polling_interval=CLAIM_EVERY_MS,
        )
        for stream, workers in ((new, WORKERS), (left, CLAIM_WORKERS)):
            subscriber = broker.subscriber(
                stream=stream,
                max_workers=workers,
                ack_policy=AckPolicy.ACK,
                no_reply=True,
                parser=readable,
                decoder=_itself,
            )
            subscriber(self._handle)
        self._guard = GroupGuard(broker, url, [Group(COMMANDS, REVISION_GROUP)])

    @property
    def connected(self) -> bool:
        """Whether Redis answers and commands are being read."""
        return self._guard.connected

    async def run(self) -> None:
        """Reads until it is cancelled; then what is under way is finished and the consumer removed."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._guard.run())
                tasks.create_task(self._clean())
        finally:
            await self._leave()

    async def drain(self) -> None:
        """Takes no more commands while `run` runs. Returns once those under way are carried out and answered."""
        await self._guard.leave()

    async def _handle(self, message: RedisStreamMessage) -> None:
        """Carries out one entry, then acknowledges and removes it: what is done takes up no memory in Redis."""
        await self._carry_out(await undecoded(message))
        try:
            await message.ack()
            await message.delete()
        except BROKER_ERRORS:
            # Claimed later, and by then past its deadline.
            raise NackMessage from None

    async def _carry_out(self, body: bytes) -> None:
        try:
            request = _REQUEST.validate_json(body)
        except ValidationError as error:
            await self._refuse_unreadable(body, error)
            return
        if is_past(request.deadline):
            metrics.COMMANDS.labels(request.command.kind, "expired").inc()
            return
        deadline = asyncio.get_running_loop().time() + request.deadline / 1000 - time.time()
        try:
            with logged_with(request=request.request_id), metrics.COMMAND_SECONDS.labels(request.command.kind).time():
                result = await self._boundary.execute(request.identity, request.command, deadline)
        except RequestFailed as failed:
            metrics.COMMANDS.labels(request.command.kind, failed.failure.code).inc()
            await self._send(request, failed.failure)
        except DeadlinePassed:
            metrics.COMMANDS.labels(request.command.kind, "expired").inc()
            logger.debug("command %s passed its deadline", request.request_id)
        else:
            metrics.COMMANDS.labels(request.command.kind, "done").inc()
            await self._send(request, result)

    async def _refuse_unreadable(self, body: bytes, error: ValidationError) -> None:
        """An asker that can be told apart is told which fields; content is never part of it."""
        fields = ", ".join(sorted({".".join(str(part) for part in found["loc"]) for found in error.errors()})[:5])
        try:
            envelope = _ENVELOPE.validate_json(body)
        except ValidationError:
            logger.warning("an entry of %s is no command: %d bytes, %s", COMMANDS, len(body), kinds(error))
            return
        if not is_past(envelope.deadline):
            await self._send(
                envelope, Failure(code="invalid_query", message=f"this is no command that is known: {fields}")
            )

    async def _send(self, request: Envelope, body: Contract) -> None:
        try:
            if isinstance(body, Failure):
                await self._replies.refuse(request.reply_to, request.request_id, body)
            else:
                await self._replies.answer(request.reply_to, request.request_id, body)
        except BROKER_ERRORS:
            # Left pending: claimed later, and by then past its deadline or done before.
            raise NackMessage from None

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_SECONDS)
            try:
                removed = await consumers.remove_dead(self._client)
            except BROKER_ERRORS as error:
                logger.debug("no look for dead consumers (%s)", type(error).__name__)
            else:
                if removed:
                    logger.info("removed %d consumers of processes that are gone", removed)

    async def _leave(self) -> None:
        try:
            await consumers.hand_over(self._client, self.consumer, self._claim_after_ms)
            await consumers.remove_if_done(self._client, self.consumer)
        except (ResponseError, *BROKER_ERRORS) as error:
            logger.debug("consumer %s stays (%s)", self.consumer, type(error).__name__)
        finally:
            await self._client.aclose()


async def _itself(message: RedisStreamMessage) -> RedisStreamMessage:
    """The decoder: who carries an entry out also removes it, and a handler of `open_broker` is given one value."""
    return message
