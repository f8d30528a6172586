"""What a scope is told."""

from tests.support.stack import Stack


async def test_a_commit_becomes_a_frame(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    reply = await client.subscribe("s")
    revision = await stack.revision("s")
    assert reply["success"] is True
    assert reply["revision"] == str(revision)
    await stack.add("s", "m", content="hello")
    await client.reached(revision + 1)
    [frame] = client.told()
    assert (frame["base_revision"], frame["revision"]) == (str(revision), str(revision + 1))
    [operation] = frame["operations"]
    assert operation["kind"] == "upsert"
    assert operation["message"]["content"] == "hello"
    assert operation["message"]["prompt_index"] == 1
