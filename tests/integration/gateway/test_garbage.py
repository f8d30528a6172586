"""Whatever stands in the streams costs a log line without content, and nothing else."""

import logging

import pytest
from redis.asyncio import Redis

from shared.contracts import streams
from shared.settings import Settings
from shared.telemetry import configure_logging
from tests.support.stack import Stack
from tests.support.waiting import eventually

SECRET = "planted-secret"

ENTRIES: tuple[dict[bytes | str, bytes | str], ...] = (
    {"x": SECRET},
    {"__data__": f'{{"a":"{SECRET}"}}'},
    {"__data__": f'{{"data":"{SECRET}","headers":["{SECRET}"]}}'},
    {"__data__": f'{{"origin":["{SECRET}"],"control":{{"kind":"{SECRET}","session_id":7}}}}'},
    {"__data__": f'{{"request_id":"{SECRET}","reply_to":7,"deadline":"{SECRET}","read":{{"kind":"{SECRET}"}}}}'},
    {b"\xff": SECRET},
    {"__data__": b"\xff" + SECRET.encode()},
    {"__data__": f"[{SECRET}"},
    {"i": b"\xff" + SECRET.encode(), "o": "1", "b": SECRET},
    {"i": SECRET, "o": SECRET},
    {"s": SECRET, "k": SECRET, "t": SECRET, "q": "1", "r": SECRET},
    {"s": "s", "k": "change", "t": "1", "q": "7", "r": f'{{"kind":"{SECRET}"}}'},
    {"s": "s", "k": "change", "t": "1", "q": "8", "r": f'{{"kind":"change","operations":"{SECRET}"}}'},
)


async def in_every_stream(redis: Redis) -> None:
    """Adds each entry to each stream that is there."""
    found = [key async for key in redis.scan_iter("conversation:*", _type="stream")]
    kinds = {key.split(b":")[1] for key in found}
    assert kinds == {b"reads", b"commands", b"control", b"presence", b"replies", b"receipts"}
    for stream in found:
        for entry in ENTRIES:
            await redis.xadd(stream, entry)  # type: ignore[arg-type] # redis-py's parameter is an invariant dict


async def test_garbage_in_every_stream(
    stack: Stack, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await stack.call("DELETE", "/api/v1/task-sessions/nobody")
    await stack.redis.xadd(streams.CONTROL, {"__data__": "{}"})
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    configure_logging(Settings(), "test")
    await in_every_stream(stack.redis)
    message = {"id": "m", "author_type": "user", "content": "x"}
    await eventually(
        lambda: stack.call("POST", "/api/v1/task-sessions/s/messages", json=message), lambda found: found[0] < 300
    )
    await eventually(lambda: stack.call("GET", "/api/v1/task-sessions/s/messages"), lambda found: found[0] == 200)
    await client.until(lambda: bool(client.told()))
    for name in ("gateway", "reader", "revision"):
        assert (await stack.status(name))[0] == 200
    # What could be read from them is done with, and nothing of it is pending.
    await eventually(lambda: stack.redis.xlen(streams.COMMANDS), lambda length: length == 0)
    await eventually(lambda: stack.redis.xlen(streams.READS), lambda length: length == 0)
    logged = capfd.readouterr().err
    assert SECRET not in logged
    assert "input_value" not in logged
    for line in logged.splitlines():
        assert line[:2].isdigit(), f"a line without a beginning: {line}"
    for stream in ("reads", "commands", "control", "receipt", "reply"):
        assert stream in logged
