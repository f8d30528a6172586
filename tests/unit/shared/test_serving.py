"""What is refused before the application sees it: a JSON sentence, without a byte of what was sent."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from shared.serving import Runner
from shared.settings import Settings
from shared.telemetry import configure_logging

SECRET = "planted-secret"

HEAD = f"GET /{SECRET} HTTP/1.1\r\nHost: a\r\n"
REFUSED = {
    "a header without a colon": f"{HEAD}{SECRET} broken\r\n\r\n",
    "a header with a control character": f"{HEAD}Cookie: kandev_session={SECRET}\x01\r\n\r\n",
    "a header's name": f"{HEAD}x {SECRET}: 1\r\n\r\n",
    "a request line": f"GET /ws?token={SECRET} and more HTTP/1.1\r\n\r\n",
    "a version": f"GET /{SECRET} HTTP/9\r\n\r\n",
    "a method": f"G@T{SECRET} / HTTP/1.1\r\n\r\n",
    "a long line": f"GET /{SECRET * 1000} HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long header": f"{HEAD}Authorization: Bearer {SECRET * 1000}\r\n\r\n",
    "two lengths": f"{HEAD}Content-Length: 1\r\nContent-Length: 2{SECRET}\r\n\r\n",
    "an expectation": f"{HEAD}Expect: {SECRET}\r\n\r\n",
}


async def echo(request: web.Request) -> web.Response:
    """Reads the body."""
    return web.json_response({"bytes": len(await request.read())})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Of a server."""
    application = web.Application()
    application.router.add_post("/", echo)
    runner = Runner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def answered(port: int, sent: str) -> tuple[int, str, str]:
    """Status, head and body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent.encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split()[1]) for line in head.splitlines() if line.startswith("Content-Length"))
    body = (await reader.readexactly(length)).decode()
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), head, body


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
async def test_it_is_told_without_a_byte_of_it(
    port: int, sent: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure_logging(Settings(), "test")
    status, head, body = await answered(port, sent)
    assert status in {400, 417}
    assert set(json.loads(body)) == {"error"}
    assert "Content-Type: application/json" in head
    assert "Cache-Control: no-store" in head
    assert SECRET not in head + body
    assert "planted" not in head + body
    logged = capfd.readouterr().err
    assert SECRET not in logged
    assert "ERROR" not in logged


async def test_what_is_sent_well_passes(port: int) -> None:
    status, _, body = await answered(port, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
    assert (status, json.loads(body)) == (200, {"bytes": 3})


def test_a_body_that_breaks_off_is_a_warning_at_most(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure_logging(Settings(), "test")
    logger = logging.getLogger("aiohttp.server")
    for _ in range(3):
        logger.error("Unhandled exception", exc_info=web.RequestPayloadError(SECRET))
    logged = capfd.readouterr().err
    assert logged.count("\n") == 1
    assert "WARNING" in logged
    assert SECRET not in logged
    assert "Error at" not in logged
