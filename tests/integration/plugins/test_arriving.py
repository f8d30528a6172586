"""Packages on their way in: uploads and URLs, their limits, and that nothing is left of what was refused."""

import asyncio
import itertools
import tempfile
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from services.gateway.plugins.incoming import MAX_PACKAGE_BYTES
from tests.integration.plugins.folders import names
from tests.support.plugins import manifest, package, upload
from tests.support.stack import Stack
from tests.support.waiting import eventually

_numbers = itertools.count()

MIB = b"x" * (1 << 20)
PATH = "/api/plugins/install"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the gateway, which runs in this process, puts what comes in."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


async def nothing_left(folder: Path) -> None:
    async def left() -> list[str]:
        return names(folder)

    await eventually(left, lambda found: not found)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "multipart/form-data"}, b"no boundary"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b""),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x\r\n"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"no part at all"),
        (
            {"Content-Type": "multipart/form-data; boundary=x"},
            b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\nabc\r\n--x--\r\n',
        ),
        (
            {"Content-Type": "multipart/form-data; boundary=x"},
            b'--x\r\nContent-Disposition: form-data; name="package"\r\n\r\n\r\n--x--\r\n',
        ),
        ({"Content-Type": "application/json"}, b""),
        ({"Content-Type": "application/json"}, b"{}"),
        ({"Content-Type": "application/json"}, b"[]"),
        ({"Content-Type": "application/json"}, b'{"url": 7}'),
        ({"Content-Type": "application/json"}, b'{"url": "\xff"}'),
    ],
)
async def test_bodies_that_bring_no_package(
    shared_stack: Stack, temporary: Path, headers: dict[str, str], body: bytes
) -> None:
    status, found = await shared_stack.call("POST", PATH, headers=headers, data=body)
    assert (status, list(found)) == (400, ["error"])
    await nothing_left(temporary)


async def test_another_kind_of_body_is_not_read(shared_stack: Stack) -> None:
    for kind in ("application/gzip", "text/plain"):
        assert (await shared_stack.call("POST", PATH, headers={"Content-Type": kind}, data=b"x"))[0] == 415


async def test_an_upload_that_breaks_off_leaves_nothing(shared_stack: Stack, temporary: Path) -> None:
    name = f"broken{next(_numbers)}"
    host, port = shared_stack.url.removeprefix("http://").split(":")
    archive = package(manifest(name))
    _, writer = await asyncio.open_connection(host, int(port))
    head = b'--x\r\nContent-Disposition: form-data; name="package"\r\n\r\n'
    lines = (f"POST {PATH} HTTP/1.1", "Host: localhost", "Content-Type: multipart/form-data; boundary=x")
    writer.write("\r\n".join((*lines, "Content-Length: 1000000", "", "")).encode() + head + archive)
    await writer.drain()

    async def arrived() -> bool:
        return names(temporary) != []

    await eventually(arrived)
    writer.transport.abort()
    await nothing_left(temporary)
    assert await shared_stack.pool.fetchval("SELECT count(*) FROM gateway.plugins WHERE id = $1", name) == 0


@pytest.mark.parametrize("announced", [True, False])
async def test_more_than_a_package_may_have_is_refused_without_being_held(
    shared_stack: Stack, temporary: Path, announced: bool
) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="package"\r\n\r\n'

    async def body() -> AsyncIterator[bytes]:
        yield head
        for _ in range(101):
            yield MIB

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    if announced:
        headers["Content-Length"] = str(len(head) + 101 * len(MIB))
    tracemalloc.start()
    try:
        async with (
            aiohttp.ClientSession() as http,
            http.post(shared_stack.url + PATH, headers=headers, data=body()) as answer,
        ):
            assert (answer.status, await answer.json()) == (413, {"error": "a package is at most 100 MiB"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * len(MIB)
    await nothing_left(temporary)


class Origin:
    """A server that packages are fetched from."""

    def __init__(self, archive: bytes) -> None:
        self.archive = archive
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Whatever the path asks for."""
        self.asked.append((request.path, dict(request.headers)))
        match request.path.rpartition("/")[2]:
            case "good":
                return web.Response(body=self.archive, headers={"Content-Encoding": "gzip"})
            case "again":
                raise web.HTTPFound("/listed/good")
            case "away":
                raise web.HTTPFound("/elsewhere/good")
            case "inside":
                raise web.HTTPFound("/listed/../elsewhere/good")
            case "file":
                raise web.HTTPFound("file:///etc/passwd")
            case "loop":
                raise web.HTTPFound("/listed/loop")
            case "cut":
                response = web.StreamResponse(headers={"Content-Length": "1000"})
                await response.prepare(request)
                await response.write(b"only this")
                if request.transport is not None:
                    request.transport.abort()
                return response
            case "large":
                response = web.StreamResponse()
                await response.prepare(request)
                for _ in range(101):
                    await response.write(MIB)
                return response
        raise web.HTTPNotFound


@pytest.fixture(scope="module")
async def origin(shared_stack: Stack) -> AsyncIterator[Origin]:
    """A server, and a gateway `fetching` that may fetch from below its `/listed`."""
    origin = Origin(b"")
    application = web.Application()
    application.router.add_get("/{path:.*}", origin.answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    origin.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    await shared_stack.start("gateway", name="fetching", plugin_sources=f"https://example.org/a, {origin.url}/listed")
    await shared_stack.ready("fetching")
    yield origin
    await shared_stack.stop("fetching")
    await runner.cleanup()


async def fetched(stack: Stack, url: str, gateway: str = "fetching") -> tuple[int, dict[str, Any]]:
    status, body = await stack.call("POST", PATH, gateway=gateway, json={"url": url})
    return status, dict(body)


async def test_a_package_is_fetched_from_a_listed_place(shared_stack: Stack, origin: Origin, temporary: Path) -> None:
    for way in ("good", "again"):
        origin.archive = package(manifest(f"fetched{next(_numbers)}"))
        status, body = await fetched(shared_stack, f"{origin.url}/listed/{way}?token=1")
        assert status == 201, body
    for _, headers in origin.asked:
        assert not {"Cookie", "Authorization"} & headers.keys()
    await nothing_left(temporary)


async def test_where_nothing_is_listed_nothing_is_fetched(shared_stack: Stack, origin: Origin) -> None:
    origin.asked.clear()
    status, body = await fetched(shared_stack, f"{origin.url}/listed/good", "gateway")
    assert status == 400
    assert "KANDEV_PLUGIN_SOURCES" in body["error"]
    assert origin.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "{}/elsewhere/good",
        "{}/listedgood",
        "{}/listed/../elsewhere/good",
        "{}/listed/%2e%2e/elsewhere/good",
        "{}/listed/..%2felsewhere/good",
        "http://localhost:1/listed/good",
        "http://user:password@127.0.0.1/listed/good",
        "ftp://127.0.0.1/listed/good",
        "file:///etc/passwd",
        "/listed/good",
        "http://",
        "http:///listed/good",
        "http://[::1/listed/good",
        "http://127.0.0.1:99999999/listed/good",
        "{}/listed/go od",
        "{}\\@example.org/listed/good",
        "",
    ],
)
async def test_what_is_not_listed_is_not_asked(shared_stack: Stack, origin: Origin, url: str) -> None:
    origin.asked.clear()
    status, body = await fetched(shared_stack, url.format(origin.url))
    assert (status, list(body)) == (400, ["error"])
    assert "password" not in body["error"] or "must hold no" in body["error"]
    assert origin.asked == []


@pytest.mark.parametrize(
    ("way", "asked"), [("away", 1), ("inside", 1), ("file", 1), ("loop", 6), ("absent", 1), ("cut", 1)]
)
async def test_what_leads_nowhere(shared_stack: Stack, origin: Origin, temporary: Path, way: str, asked: int) -> None:
    origin.asked.clear()
    status, body = await fetched(shared_stack, f"{origin.url}/listed/{way}")
    assert (status, list(body)) == (400, ["error"])
    assert len(origin.asked) == asked
    await nothing_left(temporary)


async def test_a_fetched_package_is_no_larger_than_an_uploaded_one(
    shared_stack: Stack, origin: Origin, temporary: Path
) -> None:
    assert 101 * len(MIB) > MAX_PACKAGE_BYTES
    status, body = await fetched(shared_stack, f"{origin.url}/listed/large")
    assert (status, body) == (413, {"error": "a package is at most 100 MiB"})
    await nothing_left(temporary)


async def test_what_is_refused_is_gone(shared_stack: Stack, temporary: Path) -> None:
    assert (await upload(shared_stack, b"no archive"))[0] == 400
    await nothing_left(temporary)
