"""The gateway's routes for plugins, as the commands ask them: once, since somebody waits and can ask again."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import aiohttp
import orjson
import rich.progress
from rich.console import Console

from cli.errors import CommandFailed
from cli.package_files import expect_package_file, spelled
from cli.target import identity_refused, target_token, target_url
from client.reasons import reason

SILENT_SECONDS = 150.0
"""Longest wait for an answer: unpacking and storing the largest package, or fetching it, takes a good part of that."""

# Any: what a gateway answers is looked at field by field.
Json = dict[str, Any]


def ask(url: str | None, method: str, path: str, body: Mapping[str, object] | None = None) -> Json:
    """The JSON answer of a route below `/api/plugins`. Raises `CommandFailed` for every other."""
    return asyncio.run(_asked(target_url(url), method, path, json=body))


def send(url: str | None, package: Path) -> Json:
    """Uploads a package, with a bar on a terminal; the answer to it. Raises `CommandFailed`."""
    expect_package_file(package)
    try:
        with rich.progress.open(
            package,
            "rb",
            description="Uploading",
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        ) as file:
            return asyncio.run(_uploaded(target_url(url), file))
    except OSError as error:
        raise CommandFailed(f"{spelled(package)} cannot be read: {error.strerror}.") from None


def named(plugin_id: str) -> str:
    """The path of one plugin."""
    return f"/{quote(plugin_id, safe='')}"


async def _uploaded(url: str, file: BinaryIO) -> Json:
    form = aiohttp.FormData()
    form.add_field("package", file, filename="package.tar.gz", content_type="application/gzip")
    return await _asked(url, "POST", "/install", data=form)


async def _asked(
    url: str, method: str, path: str, *, json: Mapping[str, object] | None = None, data: aiohttp.FormData | None = None
) -> Json:
    token = target_token()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as http,
            http.request(method, f"{url}/api/plugins{path}", json=json, data=data) as answer,
        ):
            return _answer(answer.status, await answer.read())
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise CommandFailed(
            f"The gateway at {url} cannot be used: {reason(error)}. Start everything here with "
            "`kandev-conversation up`, or name a running gateway with --url."
        ) from None


def _answer(status: int, content: bytes) -> Json:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise CommandFailed(f"That is no gateway of this service: it answers {status} without JSON.")
    if status < 300:
        return body
    if status == 401:
        raise CommandFailed(identity_refused())
    raise CommandFailed(f"The gateway refuses this ({status}): {body.get('error')}.")
