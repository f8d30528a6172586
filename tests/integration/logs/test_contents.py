"""A stack's end compares what conversations hold with what was logged."""

import logging

import pytest

from tests.support.stack import Stack

logger = logging.getLogger("services.something")


@pytest.mark.parametrize(("logged", "found"), [("it is: what somebody wrote here", True), ("nothing of it", False)])
async def test_the_content_of_a_message_in_a_line_is_found(
    database_url: str, redis_url: str, logged: str, found: bool
) -> None:
    stack = Stack(database_url, redis_url)
    async with stack:
        await stack.session("s")
        await stack.add("s", "m", content="what somebody wrote here")
        logger.warning(logged)
        assert await stack.contents_logged() == (["what somebody wrote here"] if found else [])
        await stack.pool.execute("DELETE FROM task_session_messages")
