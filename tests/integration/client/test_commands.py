"""`tail` and `verify` as processes, against a server of the wire."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from client.connection import SIGNED_OUT
from tests.integration.client.wire_server import WireServer
from tests.support.programs import python
from tests.unit.client.source_model import SESSION, message, turn


@asynccontextmanager
async def command(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *python("-m", "cli.main", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def finished(*arguments: str) -> tuple[int | None, str, str]:
    async with command(*arguments) as process:
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()


async def lines_until(process: asyncio.subprocess.Process, last: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or last not in lines[-1]:
        line = (await process.stdout.readline()).decode()
        assert line, lines
        lines.append(line.rstrip("\n"))
    return lines


async def test_tail_appends_lines_until_it_is_interrupted(server: WireServer) -> None:
    await server.put(message("m1", 1, "first"))
    async with command("tail", SESSION, "--url", server.url) as process:
        shown = await lines_until(process, "-- live")
        assert [line for line in shown if "first" in line]
        await server.put(message("m2", 2, "second", author="agent"))
        await lines_until(process, "second")
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0


async def test_tail_draws_a_screen_on_a_terminal(server: WireServer) -> None:
    await server.put(message("m1", 1, "first"))
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *python("-m", "cli.main", "tail", SESSION, "--url", server.url),
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "20"},
    )
    os.close(theirs)
    try:
        await drawn(ours, b"live  revision 1")
        await server.put(message("m2", 2, "second"))
        await drawn(ours, b"second")
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


async def drawn(terminal: int, text: bytes) -> None:
    seen = b""
    async with asyncio.timeout(20):
        while text not in seen:
            seen += await asyncio.to_thread(os.read, terminal, 65536)


async def test_tail_writes_json_for_programs_and_ends_with_the_session(server: WireServer) -> None:
    await server.put(message("m1", 1), message("m2", 2, author="agent"), turn("t1", 1))
    async with command("tail", SESSION, "--url", server.url, "--json", "--author", "user") as process:
        events: list[dict[str, Any]] = [orjson.loads(line) for line in await lines_until(process, '"live"')]
        assert [event["id"] for event in events if event["event"] == "row"] == ["m1", "t1"]
        await server.remove_session()
        out, err = await process.communicate()
        assert orjson.loads(out.splitlines()[-1])["reason"] == "removed"
        assert (process.returncode, err.decode()) == (0, f"Session {SESSION} was removed.\n")


@pytest.mark.parametrize("arguments", [["tail"], ["tail", "--json"], ["verify"]])
async def test_a_session_that_is_not_there(server: WireServer, arguments: list[str]) -> None:
    ended = await finished(*arguments, "nobody", "--url", server.url)
    assert ended == (2, "", "Error: There is no session nobody, or it is not yours to read.\n")


async def test_tail_of_a_session_that_is_no_longer_its_readers(server: WireServer) -> None:
    """Not a removal: the reader is told that it cannot be told apart, and programs by the exit code."""
    await server.put(message("m1", 1))
    async with command("tail", SESSION, "--url", server.url, "--json") as process:
        await lines_until(process, '"live"')
        await server.to_all("", "", terminal=True)
        out, err = await process.communicate()
    assert orjson.loads(out.splitlines()[-1])["reason"] == "ended"
    assert err.decode() == f"Session {SESSION} is no longer yours to read, or was removed.\n"
    assert process.returncode == 1


async def test_tail_of_somebody_who_is_signed_out(server: WireServer) -> None:
    await server.put(message("m1", 1))
    async with command("tail", SESSION, "--url", server.url, "--json", KANDEV_TOKEN="kandev_pat_x") as process:
        await lines_until(process, '"live"')
        await server.to_all("", "", terminal=True)
        (opened,) = server.sockets
        await opened.close(code=SIGNED_OUT)
        out, err = await process.communicate()
    assert orjson.loads(out.splitlines()[-1])["reason"] == "unauthenticated"
    assert err.decode() == "Signed out: the access token in KANDEV_TOKEN is no longer valid.\n"
    assert process.returncode == 1


@pytest.mark.parametrize("name", ["tail", "verify"])
async def test_nothing_answers(name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = await finished(name, SESSION, "--url", url)
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: no gateway answers at {url}: connection refused. Start it")
    assert "Traceback" not in err


async def test_verify_of_a_session_that_changes(server: WireServer) -> None:
    server.page_rows = 3
    await server.put(*(message(f"m{number}", number, author="agent" if number % 2 else "user") for number in range(20)))
    async with command("verify", SESSION, "--url", server.url, "--seconds", "0.3", "--json") as process:
        await server.until(lambda: len(server.requests) >= 2)
        for number in range(10):
            await server.put(message("m1", 1, f"grows {number}", author="agent"))
        out, err = await process.communicate()
    reports = [orjson.loads(line) for line in out.splitlines()]
    assert (process.returncode, err) == (0, b"")
    assert [(report["scope"], report["outcome"], report["rows"]) for report in reports] == [
        ("all rows", "equal", 20),
        ("prompts", "equal", 10),
    ]


async def test_verify_tells_what_differs(server: WireServer) -> None:
    await server.put(message("m1", 1, "true"))
    async with command("verify", SESSION, "--url", server.url, "--seconds", "0.5") as process:
        await server.until(lambda: len(server.scopes) == 2)
        server.falsify = "false"
        await server.until(lambda: server.pages_read >= 4)
        await server.put(message("m1", 1, "really true"))
        out, _ = await process.communicate()
    text = out.decode()
    assert process.returncode == 1
    assert text.count("different") == 2
    assert "message m1 content: source 'really true', shown 'false'" in text


async def test_verify_of_a_session_that_is_removed(server: WireServer) -> None:
    await server.put(message("m1", 1))
    async with command("verify", SESSION, "--url", server.url, "--seconds", "0.5") as process:
        await server.until(lambda: server.pages_read >= 4)
        await server.remove_session()
        out, _ = await process.communicate()
    assert process.returncode == 0
    assert out.decode().count("removed") == 2


@pytest.fixture
def full() -> Iterator[int]:
    """An output that has no room for anything."""
    with Path("/dev/full").open("wb") as output:
        yield output.fileno()


@pytest.mark.parametrize("arguments", [["tail"], ["tail", "--json"], ["verify", "--seconds", "0"]])
async def test_output_that_does_not_fit_is_a_sentence(server: WireServer, full: int, arguments: list[str]) -> None:
    await server.put(message("m1", 1))
    process = await asyncio.create_subprocess_exec(
        *python("-m", "cli.main", *arguments, SESSION, "--url", server.url),
        stdout=full,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert (process.returncode, err) == (2, b"Error: The output cannot be written: No space left on device.\n")


async def test_the_address_that_up_prints_for_the_socket_works(server: WireServer) -> None:
    await server.put(message("m1", 1))
    async with command("tail", SESSION, "--url", f"ws://127.0.0.1:{server.port}/ws") as process:
        await lines_until(process, "-- live")


async def test_verify_writes_revisions_as_decimal_strings(server: WireServer) -> None:
    await server.put(message("m1", 1))
    code, out, _ = await finished("verify", SESSION, "--url", server.url, "--seconds", "0", "--json")
    report = orjson.loads(out.splitlines()[0])
    assert (code, report["revision"], report["source_revision"]) == (0, "1", "1")
