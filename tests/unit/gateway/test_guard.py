"""How a route's failures are told."""

import json

import asyncpg
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from services.gateway.http.guard import admitting
from services.gateway.http.routes import Route
from shared.contracts.errors import RequestFailed


def raising(error: Exception) -> Route:
    """A route whose handler fails."""

    async def handle(_: web.Request) -> web.Response:
        raise error

    return Route("GET", "/x", handle, "", "", (), "public", form="typed")


@pytest.mark.parametrize(
    "error", [asyncpg.CannotConnectNowError("x"), asyncpg.ConnectionDoesNotExistError("x"), ConnectionRefusedError()]
)
async def test_a_database_that_is_away_is_worth_asking_again(error: Exception) -> None:
    answer = await admitting(raising(error))(make_mocked_request("GET", "/x"))
    assert isinstance(answer, web.Response)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert json.loads(answer.text or "")["error"]["retryable"] is True


async def test_a_statement_that_is_wrong_is_a_fault() -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        await admitting(raising(asyncpg.UndefinedTableError("x")))(make_mocked_request("GET", "/x"))


async def test_when_to_ask_again_is_said_where_it_is_known() -> None:
    failed = RequestFailed("limit_exceeded", "later", retry_after=77)
    answer = await admitting(raising(failed))(make_mocked_request("GET", "/x"))
    assert (answer.status, answer.headers["Retry-After"]) == (429, "77")
