from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from client.writers import Unreachable, WriteRefused, Writers


@asynccontextmanager
async def answering(status: int, body: object) -> AsyncIterator[tuple[str, list[str]]]:
    """A server with one answer for everything, and the requests it got."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.json_response(body, status=status)

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}", asked
    finally:
        await runner.cleanup()


def error(*, retryable: bool) -> object:
    return {"error": {"code": "a_code", "message": "a reason", "retryable": retryable, "details": {"length": 3}}}


async def test_a_refusal_carries_what_a_program_needs_and_is_not_repeated() -> None:
    async with answering(409, error(retryable=False)) as (url, asked), Writers(url) as writers:
        with pytest.raises(WriteRefused, match="a reason") as refused:
            await writers.append("s", "m", 0, "text")
    assert (refused.value.code, refused.value.details, len(asked)) == ("a_code", {"length": 3}, 1)


@pytest.mark.parametrize(("status", "body"), [(503, error(retryable=True)), (429, error(retryable=True)), (502, "x")])
async def test_what_may_still_succeed_is_asked_again_a_bounded_number_of_times(status: int, body: object) -> None:
    async with answering(status, body) as (url, asked), Writers(url, attempts=3, first_pause=0.001) as writers:
        with pytest.raises(WriteRefused):
            await writers.complete_turn("s", "t")
    assert len(asked) == 3


async def test_an_answer_of_something_else_is_no_success() -> None:
    async with answering(200, {"hello": "world"}) as (url, _), Writers(url) as writers:
        with pytest.raises(WriteRefused, match="without a typed answer"):
            await writers.create_workspace("w", "n")


async def test_nobody_there_is_told_after_the_last_attempt() -> None:
    async with answering(200, {}) as (url, _):
        pass
    async with Writers(url, attempts=2, first_pause=0.001) as writers:
        with pytest.raises(Unreachable, match="connection refused"):
            await writers.delete_task("t")
        with pytest.raises(Unreachable):
            await writers.reach()


async def test_ids_stand_in_paths_as_one_segment() -> None:
    answer = {"session_id": "a", "base_revision": "1", "revision": "2"}
    async with answering(200, answer) as (url, asked), Writers(url) as writers:
        written = await writers.delete_message("a/b c", "d?e%2F")
    assert asked == ["/api/v1/task-sessions/a%2Fb%20c/messages/d%3Fe%252F"]
    assert (written.base_revision, written.revision, written.changed) == (1, 2, True)
