"""What the running service answers is what the document says, whatever it is sent."""

import os
from pathlib import Path

from tests.contract.explorer import explore
from tests.support.stack import Stack

EXAMPLES = os.environ.get("KANDEV_TEST_EXAMPLES", "10")
"""Requests that are made up for each operation, beside those that follow from its schema. More find more."""


async def prepare(stack: Stack) -> None:
    """Makes the rows that `schemathesis.toml` names, so that requests meet something."""
    for number in (1, 2, 3):
        await stack.pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, 'w')", f"deleted-{number}")
        await stack.session(f"deleted-{number}", f"deleted-{number}")
    await stack.session("explored")
    for name in (*(f"explored-{number}" for number in (1, 2, 3)), *(f"deleted-{number}" for number in (1, 2, 3))):
        await stack.add("explored", name, content="<kandev-system>hidden</kandev-system> shown")
    await stack.pool.execute(
        "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('explored-turn', 'explored', 't')"
    )


async def test_answers_are_as_documented(shared_stack: Stack, tmp_path: Path) -> None:
    await prepare(shared_stack)
    found = await explore(shared_stack.url, tmp_path, "--max-examples", EXAMPLES, "--exclude-checks", "ignored_auth")
    assert not found.failures, found.failures
    never = {name for name, statuses in found.statuses.items() if not any(status < 400 for status in statuses)}
    assert never == {"GET /ws"}, "no request that was made up came as far as an answer: the test shows nothing of these"
