"""Writes `docs/asyncapi.json`, which describes the reads, commands and control streams; with `--check`, compares it.

Made from the contracts, not from the running services: what they exchange is what the contracts say.
"""

import sys

import orjson
from faststream.redis import RedisBroker, StreamSub
from faststream.specification import AsyncAPI

from deploy.checks.generated import settle
from shared.contracts import streams
from shared.contracts.commands import CommandRequest
from shared.contracts.control import ControlEntry
from shared.contracts.reads import ReadRequest


async def read(request: ReadRequest) -> None:
    """A read, answered by any reader on the asker's reply stream before its deadline, or not at all."""
    raise NotImplementedError(request)


async def command(request: CommandRequest) -> None:
    """A command to the write boundary, answered after its commit."""
    raise NotImplementedError(request)


async def control(entry: ControlEntry) -> None:
    """A change that the scopes of every gateway may depend on."""
    raise NotImplementedError(entry)


def document() -> bytes:
    """The AsyncAPI document as JSON, keys in order, so that equal contracts give equal bytes."""
    broker = RedisBroker("redis://localhost:6379")
    broker.subscriber(stream=StreamSub(streams.READS, group=streams.READERS_GROUP, consumer="reader"))(read)
    broker.subscriber(stream=StreamSub(streams.COMMANDS, group=streams.REVISION_GROUP, consumer="revision"))(command)
    broker.subscriber(stream=StreamSub(streams.CONTROL))(control)
    specification = AsyncAPI(broker, title="kandev-conversation", version="1", schema_version="3.0.0")
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(specification.to_specification().to_jsonable(), option=options)


if __name__ == "__main__":
    sys.exit(settle("asyncapi.json", document(), "deploy.checks.asyncapi", sys.argv[1:]))
