"""Bundles and other files: types, conditional requests, caching, and nothing but what the package lists."""

import asyncio
import hashlib
import itertools
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from multidict import CIMultiDictProxy
from yarl import URL

from services.gateway.http.plugin_files import ASK_AGAIN, FOR_GOOD
from tests.support.plugins import install, manifest, package, set_status, upload
from tests.support.stack import Stack

_numbers = itertools.count()

FILES = {
    "ui/plugin.css": b"a{}",
    "ui/deep/er/chunk.mjs": b"1",
    "ui/icon.svg": b"<svg/>",
    "ui/data.bin": bytes(range(256)),
    "ui/empty.txt": b"",
    "icon.png": b"PNG",
    "server/secret.js": b"secret",
}


@pytest.fixture
async def plugin(shared_stack: Stack) -> str:
    """The path of a plugin with files, of the test's own."""
    name = f"shown{next(_numbers)}"
    declared = manifest(name, more={"icon": "icon.png"})
    assert (await upload(shared_stack, package(declared, **FILES)))[0] == 201
    return f"/api/plugins/{name}"


async def get(
    stack: Stack, path: str, gateway: str = "gateway", **headers: str
) -> tuple[int, bytes, CIMultiDictProxy[str]]:
    url = URL(stack.url_of(gateway) + path, encoded=True)
    async with stack.http.get(url, headers=headers) as answer:
        return answer.status, await answer.read(), answer.headers


async def test_the_bundle(shared_stack: Stack, plugin: str) -> None:
    status, body, headers = await get(shared_stack, f"{plugin}/bundle")
    assert (status, body) == (200, b'export default "1.0.0";\n')
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert headers["Cache-Control"] == ASK_AGAIN
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["ETag"] == f'"{hashlib.sha256(body).hexdigest()}"'
    for tag in (headers["ETag"], f'"other", {headers["ETag"]}', "*", f"W/{headers['ETag']}"):
        status, body, again = await get(shared_stack, f"{plugin}/bundle", **{"If-None-Match": tag})
        assert (status, body, again["ETag"]) == (304, b"", headers["ETag"])
    assert (await get(shared_stack, f"{plugin}/bundle", **{"If-None-Match": '"other"'}))[0] == 200


async def test_only_a_url_that_names_the_package_is_kept_for_good(shared_stack: Stack, plugin: str) -> None:
    digest = await shared_stack.pool.fetchval(
        "SELECT package_hash FROM gateway.plugins WHERE id = $1", plugin.split("/")[3]
    )
    for version, expected in (
        (f"1.0.0-{digest[:12]}", FOR_GOOD),
        ("1.0.0", ASK_AGAIN),
        ("", ASK_AGAIN),
        (f"1.0.1-{digest[:12]}", ASK_AGAIN),
    ):
        for path in ("bundle", "ui/ui/plugin.css"):
            _, _, headers = await get(shared_stack, f"{plugin}/{path}?v={version}")
            assert headers["Cache-Control"] == expected, version


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("ui/plugin.css", "text/css; charset=utf-8"),
        ("ui/deep/er/chunk.mjs", "text/javascript; charset=utf-8"),
        ("ui/icon.svg", "image/svg+xml; charset=utf-8"),
        ("ui/data.bin", "application/octet-stream"),
        ("ui/empty.txt", "text/plain; charset=utf-8"),
        ("icon.png", "image/png"),
    ],
)
async def test_files_have_the_type_of_their_ending(shared_stack: Stack, plugin: str, path: str, kind: str) -> None:
    status, body, headers = await get(shared_stack, f"{plugin}/ui/{path}")
    assert (status, body) == (200, FILES[path])
    assert headers["Content-Type"] == kind
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Length"] == str(len(body))


async def test_whatever_a_manifest_names_for_the_browser_is_loaded_by_the_addresses_of_the_boot_payload(
    shared_stack: Stack,
) -> None:
    name = f"styled{next(_numbers)}"
    styles = ["/ui/a b.css", "/ui/50%.css", "/ui/a%2Fb.css", "/ui/what?.css", "/ui/#1.css", "/ui/é+.css", "/css/a.css"]
    declared = manifest(name, more={"ui": {"bundle": "/dist/b#.js", "styles": styles}})
    contents = {path.removeprefix("/"): path.encode() for path in (*styles, "/dist/b#.js")}
    status, answer = await upload(shared_stack, package(declared, **contents))
    assert status == 201, answer
    _, boot = await shared_stack.call("GET", "/api/v1/boot")
    (plugin,) = (each for each in boot["plugins"] if each["id"] == name)  # type: ignore[attr-defined] # a list, as the document says
    for url, path in zip((plugin["bundleUrl"], *plugin["styleUrls"]), ("/dist/b#.js", *styles), strict=True):
        status, body, headers = await get(shared_stack, url)
        assert (status, body) == (200, path.encode())
        assert headers["Cache-Control"] == FOR_GOOD


@pytest.mark.parametrize(
    "path",
    [
        "plugin.css",
        "ui",
        "ui/",
        "ui/absent.js",
        "ui/deep",
        "ui//plugin.css",
        "/ui/plugin.css",
        "ui/./plugin.css",
        "UI/plugin.css",
        "ui/plugin.css/",
        "ui/plugin.css%00",
        "ui/plugin.css%20",
        "manifest.yaml",
        "checksums.txt",
        "server/secret.js",
        "ui/../server/secret.js",
        "ui/..%2fserver/secret.js",
        "ui/%2e%2e/server/secret.js",
        "ui/%2e%2e%2fserver%2fsecret.js",
        "ui/%252e%252e/server/secret.js",
        "ui/..%5cserver%5csecret.js",
        "ui/..;/server/secret.js",
        "ui/%c0%ae%c0%ae/server/secret.js",
        "ui/%uff0e%uff0e/server/secret.js",
        "../manifest.yaml",
        "%2e%2e/manifest.yaml",
        "..%2f..%2f..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "ui/" + "a" * 6000,
    ],
)
async def test_nothing_else_is_served(shared_stack: Stack, plugin: str, path: str) -> None:
    status, body, headers = await get(shared_stack, f"{plugin}/ui/{path}")
    assert status == 404, body
    assert headers["Content-Type"].startswith("application/json")
    assert b"secret" not in body
    assert b"root:" not in body


async def test_a_raw_path_out_of_the_package_is_not_served(shared_stack: Stack, plugin: str) -> None:
    # As no client library would send it.
    address = urlsplit(shared_stack.url)
    for path in ("ui/../../server/secret.js", "ui/ui/../../../../../../../../etc/passwd", "ui/ui\\..\\server"):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(f"GET {plugin}/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.split(b" ")[1] in {b"400", b"404"}
        assert b"root:" not in answer


async def test_plugins_without_and_unknown_plugins(shared_stack: Stack) -> None:
    bare = f"bare{next(_numbers)}"
    await upload(shared_stack, package(manifest(bare, more={"ui": {}})))
    assert (await get(shared_stack, f"/api/plugins/{bare}/bundle"))[:2] == (
        404,
        b'{"error": "the plugin has no bundle"}',
    )
    for path in ("bundle", "ui/ui/plugin.css"):
        assert (await get(shared_stack, f"/api/plugins/unknown/{path}"))[0] == 404


@pytest.mark.parametrize("status", ["disabled", "error", "registered"])
async def test_an_inactive_plugin_serves_nothing(shared_stack: Stack, plugin: str, status: str) -> None:
    await set_status(shared_stack, plugin.split("/")[3], status)
    for path in ("bundle", "ui/ui/plugin.css", "ui/absent"):
        answered, body, headers = await get(shared_stack, f"{plugin}/{path}")
        assert (answered, body) == (503, b'{"error": "plugin is not active"}')
        assert headers["Retry-After"]


@pytest.fixture(scope="module")
async def sharing(shared_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Stack, Path]]:
    """Two further gateways that unpack below one folder."""
    folder = tmp_path_factory.mktemp("cache") / "made" / "by the gateway"
    for name in ("one", "two"):
        await shared_stack.start("gateway", name=name, cache_dir=folder)
        await shared_stack.ready(name)
    yield shared_stack, folder
    for name in ("one", "two"):
        await shared_stack.stop(name)


async def test_gateways_share_what_is_unpacked(sharing: tuple[Stack, Path]) -> None:
    stack, folder = sharing
    name = f"shared{next(_numbers)}"
    await install(stack, name, gateways=("one", "two"))
    for gateway in ("one", "two", "one"):
        assert (await get(stack, f"/api/plugins/{name}/bundle", gateway))[1] == b'export default "1.0.0";\n'
    digest = await stack.pool.fetchval("SELECT package_hash FROM gateway.plugins WHERE id = $1", name)
    assert [path.name for path in folder.iterdir() if path.name.startswith(digest)] == [digest]


async def test_a_damaged_entry_is_made_anew(sharing: tuple[Stack, Path]) -> None:
    stack, folder = sharing
    name = f"damaged{next(_numbers)}"
    await install(stack, name, gateways=("one", "two"))
    path = f"/api/plugins/{name}/bundle"
    assert (await get(stack, path, "one"))[0] == 200
    digest = await stack.pool.fetchval("SELECT package_hash FROM gateway.plugins WHERE id = $1", name)
    (folder / digest / "files" / "ui" / "bundle.js").write_bytes(b"something else")
    assert (await get(stack, path, "two"))[1] == b'export default "1.0.0";\n'
    # Found good before, and edited since.
    (folder / digest / "files" / "ui" / "bundle.js").write_bytes(b"something else")
    for gateway in ("one", "two"):
        assert (await get(stack, path, gateway))[1] == b'export default "1.0.0";\n'
    # One that was found good before, and is gone now.
    shutil.rmtree(folder / digest)
    assert (await get(stack, path, "two"))[1] == b'export default "1.0.0";\n'
