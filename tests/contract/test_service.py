"""What the running service answers is what the document says, whatever it is sent."""

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest_asyncio

from tests.conftest import new_database
from tests.contract.explorer import explore
from tests.contract.ground import FIXED, lay
from tests.support.stack import Stack

EXAMPLES = os.environ.get("KANDEV_TEST_EXAMPLES", "3")
"""Requests that are made up for each operation, beside those that follow from its schema. More find more."""

UNREACHED: Mapping[str, str] = {
    "GET /ws": "an upgrade is no answer; other tests are about the WebSocket",
    "POST /api/plugins/install": "no package can be made up; the ground installs some",
    "POST /api/v1/auth/login": "no password can be made up, and the limit of attempts is soon met",
    "PUT /api/v1/auth/password": "it would end the token that the run uses",
}
"""Operations that no request that is made up gets anything from, and why."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services with every route that there is, those for administrators and those of tests included."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/3"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address, auth="enabled", test_controls="even-with-authentication") as stack:
            yield await stack.start_all()


async def test_answers_are_as_documented(guarded: Stack, tmp_path: Path) -> None:
    ground = await lay(guarded, tmp_path)
    headers = [option for name, value in ground.headers.items() for option in ("-H", f"{name}: {value}")]
    found = await explore(guarded.url, tmp_path, ground.ids, "--max-examples", EXAMPLES, *headers)
    assert not found.failures, found.failures
    reached = {name for name, statuses in found.statuses.items() if any(status < 400 for status in statuses)}
    assert found.statuses.keys() - reached == UNREACHED.keys()


async def test_answers_are_as_documented_without_accounts(shared_stack: Stack, tmp_path: Path) -> None:
    tags = ("identity", "users", "system", "live")
    options = ["--max-examples", EXAMPLES, *(option for tag in tags for option in ("--include-tag", tag))]
    found = await explore(
        shared_stack.url,
        tmp_path,
        FIXED | dict.fromkeys(("user", "doomed_token", "binding", "prompt", "doomed_prompt"), "nothing"),
        "--exclude-checks",
        "ignored_auth",
        *options,
    )
    assert not found.failures, found.failures
