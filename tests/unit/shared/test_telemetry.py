"""Nothing that an exception carries reaches a log line."""

import asyncio
import gc
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from shared.contracts.rows import MessageRow
from shared.settings import Settings
from shared.telemetry import configure_logging, logged_with, name_logged

SECRET = "planted-secret"
FORMATS: tuple[Literal["text", "json"], ...] = ("text", "json")

logger = logging.getLogger("tests.telemetry")


@pytest.fixture(params=FORMATS)
def lines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Everything that was logged so far."""
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    root = logging.getLogger()
    handlers, level, hook = root.handlers[:], root.level, sys.excepthook
    root.handlers = []
    configure_logging(Settings(log_format=request.param), "test")
    yield written.getvalue
    root.handlers, root.level, sys.excepthook = handlers, level, hook


def fail() -> None:
    """Fails with a value, and with another behind it."""
    try:
        dict[str, int]()[SECRET]
    except KeyError as error:
        raise ValueError(f"Failing row contains ({SECRET})") from error


def test_an_exception_is_logged_by_type_and_place(lines: Callable[[], str]) -> None:
    try:
        fail()
    except ValueError:
        logger.exception("it failed")
    assert SECRET not in lines()
    assert "it failed" in lines()
    assert "ValueError at " in lines()
    assert "test_telemetry.py" in lines()
    assert "fail" in lines()


def test_an_exception_among_the_arguments(lines: Callable[[], str]) -> None:
    error = ValueError(SECRET)
    logger.warning("one %s, two %r", error, error)
    logger.warning("named %(error)s", {"error": error})
    logger.warning(error)
    logger.warning("beside it", extra={"cause": error})
    assert SECRET not in lines()
    assert "one ValueError" in lines()
    assert "named ValueError" in lines()


def test_a_refused_row(lines: Callable[[], str]) -> None:
    try:
        TypeAdapter(MessageRow).validate_python({"id": 7, "content": [SECRET]})
    except ValidationError:
        logger.exception("a row cannot be read")
    assert SECRET not in lines()
    assert "ValidationError" in lines()


async def test_a_task_that_nobody_awaited(lines: Callable[[], str]) -> None:
    """The event loop's own lines show the task, and in it the exception."""

    async def work() -> None:
        raise ValueError(SECRET)

    task = asyncio.ensure_future(work())
    await asyncio.wait([task])
    del task
    gc.collect()
    assert "Task exception was never retrieved" in lines()
    assert SECRET not in lines()


def test_ordinary_arguments_are_shown(lines: Callable[[], str]) -> None:
    logger.info("%d rows of %s", 3, "s", extra={"size": 9})
    assert "3 rows of s" in lines()


def test_lines_for_machines_are_json(monkeypatch: pytest.MonkeyPatch, lines: Callable[[], str]) -> None:
    try:
        fail()
    except ValueError:
        logger.exception("it failed")
    if lines().startswith("{"):
        found = json.loads(lines().splitlines()[-1])
        assert found["service"] == "test"
        assert found["level"] == "ERROR"
        assert found["error"].startswith("ValueError at ")


async def fail_together() -> None:
    """Ends as a service does whose parts run side by side."""
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(fail))


async def test_the_error_that_ends_a_process_is_one_discreet_line(lines: Callable[[], str]) -> None:
    try:
        await fail_together()
    except ExceptionGroup as error:
        sys.excepthook(type(error), error, error.__traceback__)
    assert SECRET not in lines()
    assert "ValueError at " in lines()
    assert "CRITICAL" in lines()
    assert lines().count("\n") == 1


async def test_requests_that_are_no_http_are_told_once(lines: Callable[[], str]) -> None:
    runner = web.AppRunner(web.Application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET / HTTP/1.1\r\nHost: a\r\n{SECRET} broken\r\n\r\n".encode())
        assert b" 400 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
    await runner.cleanup()
    assert SECRET not in lines()
    assert "WARNING" in lines()
    assert lines().count("\n") == 1


def test_a_pool_that_waits_for_its_database_says_nothing_itself(lines: Callable[[], str]) -> None:
    logging.getLogger("asyncpg.pool").warning("a connection could not be restored")
    logging.getLogger("asyncpg.pool").error("a pool is broken")
    assert "restored" not in lines()
    assert "broken" in lines()


async def test_what_is_being_done_is_named_by_whatever_it_begins_and_by_nothing_else(
    lines: Callable[[], str],
) -> None:
    async def work() -> None:
        logger.warning("at work")

    with logged_with(connection="c1"):
        with logged_with(request="r1"):
            task = asyncio.create_task(work())
            assert name_logged("request") == "r1"
        logger.warning("between")
    await task
    logger.warning("afterwards")
    assert name_logged("request") is None

    def of(message: str) -> str:
        return next(line for line in lines().splitlines() if message in line)

    assert all(name in of("at work") for name in ("c1", "r1"))
    assert "c1" in of("between")
    assert "r1" not in of("between")
    assert not any(name in of("afterwards") for name in ("c1", "r1"))
    if of("at work").startswith("{"):
        found = json.loads(of("at work"))
        assert (found["connection"], found["request"]) == ("c1", "r1")
