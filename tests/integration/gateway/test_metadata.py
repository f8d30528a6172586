"""Metadata as large and as strange as it may be, all the way from a writer to what is shown."""

from io import BytesIO
from itertools import count
from typing import Any

import orjson
import pytest

from shared.metadata import MAX_BYTES
from tests.support.stack import Stack

WIDE: dict[str, dict[str, Any]] = {
    "lists": {"a": [[]] * 340_000},
    "objects": {"a": [{"b": 1}] * 130_000},
    "deep": {"a": [orjson.loads("[" * 97 + "]" * 97)] * 5_000},
    "numbers": {"a": [1] * 500_000},
    "text": {"a": "\x01" * 170_000},
}
"""Metadata of nearly as many bytes as are kept."""


_numbers = count()


def error_of(answer: dict[str, Any]) -> str:
    """The sentence of a refusal."""
    message: str = answer["error"]["message"]
    return message


@pytest.fixture
async def session_id(shared_stack: Stack) -> str:
    """A session of task `t`."""
    name = f"metadata{next(_numbers)}"
    await shared_stack.session(name)
    return name


@pytest.fixture(params=WIDE)
def wide(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One of them."""
    found = WIDE[request.param]
    assert 0.9 * MAX_BYTES < len(orjson.dumps(found)) <= MAX_BYTES
    return found


async def test_rows_of_large_metadata_are_written_and_read(
    shared_stack: Stack, session_id: str, wide: dict[str, Any]
) -> None:
    where = f"/api/v1/task-sessions/{session_id}/messages"
    for number in range(4):
        body = orjson.dumps({"id": f"{session_id}-{number}", "author_type": "user", "metadata": wide})
        for _ in range(2):
            status, answer = await shared_stack.call("POST", where, data=BytesIO(body))
            assert status == 200, answer
    async with shared_stack.http.get(f"{shared_stack.url}{where}?limit=4") as read:
        page = await read.read()
    assert page.count(b'"metadata":' + orjson.dumps(wide)) == 4


async def test_more_than_is_kept_is_refused_by_its_limit(shared_stack: Stack, session_id: str) -> None:
    body = orjson.dumps({"id": f"{session_id}-m", "author_type": "user", "metadata": {"a": "x" * MAX_BYTES}})
    where = f"/api/v1/task-sessions/{session_id}/messages"
    status, answer = await shared_stack.call("POST", where, data=BytesIO(body))
    assert (status, error_of(answer)) == (
        400,
        f"metadata: larger than {MAX_BYTES} bytes of JSON, the most that is kept",
    )


@pytest.mark.parametrize("given", [[], "{}", 1, True, None])
async def test_what_is_no_object_is_refused(shared_stack: Stack, session_id: str, given: object) -> None:
    body = {"id": f"{session_id}-m", "author_type": "user", "metadata": given}
    status, answer = await shared_stack.call("POST", f"/api/v1/task-sessions/{session_id}/messages", json=body)
    assert (status, error_of(answer)) == (400, "metadata: expected an object")


async def test_more_than_is_kept_that_sql_has_written_is_not_shown(shared_stack: Stack, session_id: str) -> None:
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, metadata) "
        "SELECT $1 || '-m', id, task_id, 'user', 'text', $2 FROM task_sessions WHERE id = $1",
        session_id,
        orjson.dumps({"a": "x" * MAX_BYTES}).decode(),
    )
    _, page = await shared_stack.call("GET", f"/api/v1/task-sessions/{session_id}/messages?limit=1")
    rows = page["messages"]
    assert isinstance(rows, list)
    [row] = rows
    assert (row["content"], "metadata" in row) == ("text", False)
