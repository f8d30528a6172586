"""The caller's own prompts."""

import pytest

from services.gateway.http.prompts import MAX_CHARACTERS
from services.gateway.prompts import MOST_PROMPTS
from tests.integration.identity.people import People, Person
from tests.support.socket_client import Json
from tests.support.stack import Stack

PATH = "/api/v1/prompts"


@pytest.fixture
async def somebody(people: People) -> Person:
    """A user who keeps nothing yet."""
    return await people.add()


async def ask(stack: Stack, person: Person, method: str, path: str = PATH, body: object = None) -> tuple[int, Json]:
    """Status and body of a request of this person. `body`: to be sent as JSON, or bytes that are sent as they are."""
    if isinstance(body, bytes):
        return await stack.call(method, path, headers=person.bearer, data=body)
    return await stack.call(method, path, headers=person.bearer, json=body)


async def kept(stack: Stack, person: Person, name: str = "greet", content: str = "Hello") -> Json:
    """A prompt that is kept."""
    status, prompt = await ask(stack, person, "POST", body={"name": name, "content": content})
    assert status == 201, prompt
    return prompt


async def test_a_prompt_from_its_keeping_to_its_end(accounts_stack: Stack, somebody: Person) -> None:
    prompt = await kept(accounts_stack, somebody)
    assert set(prompt) == {"id", "name", "content", "created_at", "updated_at"}
    assert (prompt["name"], prompt["content"]) == ("greet", "Hello")
    assert await ask(accounts_stack, somebody, "GET") == (200, {"prompts": [prompt], "total": 1})
    path = f"{PATH}/{prompt['id']}"
    status, changed = await ask(accounts_stack, somebody, "PATCH", path, {"content": "Bye"})
    assert (status, changed["name"], changed["content"]) == (200, "greet", "Bye")
    assert (changed["created_at"], changed["id"]) == (prompt["created_at"], prompt["id"])
    assert changed["updated_at"] > prompt["updated_at"]
    status, renamed = await ask(accounts_stack, somebody, "PATCH", path, {"name": "part", "content": None})
    assert (status, renamed["name"], renamed["content"]) == (200, "part", "Bye")
    assert await ask(accounts_stack, somebody, "DELETE", path) == (200, {"id": prompt["id"]})
    assert await ask(accounts_stack, somebody, "GET") == (200, {"prompts": [], "total": 0})
    assert (await ask(accounts_stack, somebody, "DELETE", path))[0] == 404


async def test_prompts_come_by_name(accounts_stack: Stack, somebody: Person) -> None:
    for name in ("b", "C", "a"):
        await kept(accounts_stack, somebody, name)
    _, listed = await ask(accounts_stack, somebody, "GET")
    assert [prompt["name"] for prompt in listed["prompts"]] == ["a", "b", "C"]


async def test_a_name_is_kept_once(accounts_stack: Stack, people: People, somebody: Person) -> None:
    await kept(accounts_stack, somebody, "one")
    two = await kept(accounts_stack, somebody, "two")
    for method, path, body in (
        ("POST", PATH, {"name": "one", "content": "x"}),
        ("PATCH", f"{PATH}/{two['id']}", {"name": "one"}),
    ):
        status, refused = await ask(accounts_stack, somebody, method, path, body)
        assert (status, refused["error"]["code"]) == (409, "conflict")
    assert (await ask(accounts_stack, somebody, "PATCH", f"{PATH}/{two['id']}", {"name": "two"}))[0] == 200
    await kept(accounts_stack, await people.add(), "one")


async def test_prompts_are_their_users_alone(accounts_stack: Stack, people: People, somebody: Person) -> None:
    """Another's prompt answers exactly as one that is not there, to administrators too."""
    prompt = await kept(accounts_stack, somebody)
    for other in (await people.add(), await people.add(administrator=True)):
        assert await ask(accounts_stack, other, "GET") == (200, {"prompts": [], "total": 0})
        for method, body in (("PATCH", {"content": "x"}), ("DELETE", None)):
            of_another = await ask(accounts_stack, other, method, f"{PATH}/{prompt['id']}", body)
            of_nobody = await ask(accounts_stack, other, method, f"{PATH}/nowhere", body)
            assert of_another == of_nobody
            assert of_another[0] == 404
    assert (await ask(accounts_stack, somebody, "GET"))[1]["prompts"] == [prompt]
    assert (await accounts_stack.call("GET", PATH))[0] == 401


async def test_how_many_prompts_a_user_may_keep(accounts_stack: Stack, people: People, somebody: Person) -> None:
    await accounts_stack.pool.execute(
        "INSERT INTO gateway.custom_prompts (id, user_id, name, content) "
        "SELECT $1 || n, $1, 'n' || n, 'x' FROM generate_series(1, $2::int) n",
        somebody.id,
        MOST_PROMPTS,
    )
    status, refused = await ask(accounts_stack, somebody, "POST", body={"name": "one more", "content": "x"})
    assert (status, refused["error"]["code"]) == (409, "conflict")
    await kept(accounts_stack, await people.add())
    assert (await ask(accounts_stack, somebody, "DELETE", f"{PATH}/{somebody.id}1"))[0] == 200
    await kept(accounts_stack, somebody, "one more")


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        [],
        {"name": "x"},
        {"content": "x"},
        {"name": "", "content": "x"},
        {"name": " x", "content": "x"},
        {"name": "x" * 101, "content": "x"},
        {"name": "a\x00b", "content": "x"},
        {"name": "a\nb", "content": "x"},
        {"name": 7, "content": "x"},
        {"name": "x", "content": ""},
        {"name": "x", "content": 7},
        {"name": "x", "content": "a\x00b"},
        {"name": "x", "content": "x" * (MAX_CHARACTERS + 1)},
    ],
)
async def test_prompts_that_cannot_be(accounts_stack: Stack, somebody: Person, body: object) -> None:
    prompt = await kept(accounts_stack, somebody)
    status, refused = await ask(accounts_stack, somebody, "POST", body=body)
    assert (status, refused["error"]["code"]) == (400, "invalid_query")
    assert await ask(accounts_stack, somebody, "GET") == (200, {"prompts": [prompt], "total": 1})


@pytest.mark.parametrize(
    "body",
    [{}, {"name": None}, {"unknown": "x"}, {"name": ""}, {"name": "a\x00b"}, {"content": ""}, {"content": ["x"]}],
)
async def test_changes_that_cannot_be(accounts_stack: Stack, somebody: Person, body: object) -> None:
    prompt = await kept(accounts_stack, somebody)
    status, refused = await ask(accounts_stack, somebody, "PATCH", f"{PATH}/{prompt['id']}", body)
    assert (status, refused["error"]["code"]) == (400, "invalid_query")
    assert await ask(accounts_stack, somebody, "GET") == (200, {"prompts": [prompt], "total": 1})


@pytest.mark.parametrize("data", [b"{", b'{"name":"\\ud800","content":"x"}', b'{"name":"x","content":"\xff"}'])
async def test_bodies_that_are_not_json(accounts_stack: Stack, somebody: Person, data: bytes) -> None:
    assert (await ask(accounts_stack, somebody, "POST", body=data))[0] == 400


@pytest.mark.parametrize("content", ["\u202eright to left", "مرحبا", "x" * MAX_CHARACTERS, "\x01\x7f\u2028\n", "{}"])
async def test_text_is_carried_unchanged(accounts_stack: Stack, somebody: Person, content: str) -> None:
    await kept(accounts_stack, somebody, content=content)
    _, listed = await ask(accounts_stack, somebody, "GET")
    assert listed["prompts"][0]["content"] == content


@pytest.mark.parametrize("name", ["nowhere", "%00", "x" * 300, "a%0Ab", "%F0%9F%98%80", "%ED%A0%80", "'"])
async def test_ids_that_are_not_there(accounts_stack: Stack, somebody: Person, name: str) -> None:
    for method, body in (("PATCH", {"content": "x"}), ("DELETE", None)):
        assert (await ask(accounts_stack, somebody, method, f"{PATH}/{name}", body))[0] == 404
