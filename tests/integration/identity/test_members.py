"""Members of workspaces: who may see, set and remove them, and what it changes."""

import itertools

import pytest

from services.gateway.identity.accounts import Accounts
from shared.contracts import streams
from tests.integration.identity.people import SECOND, People, Person
from tests.support.stack import Stack

_numbers = itertools.count()

UNSEEN = "there is no such workspace, or it is not yours to see"


@pytest.fixture
async def workspace(guarded: Stack, person: Person) -> str:
    """A workspace that `person` has made, hence owns."""
    name = f"members{next(_numbers)}"
    made = await guarded.call("POST", "/api/v1/workspaces", json={"id": name, "name": name}, headers=person.bearer)
    assert made[0] == 200
    return name


def refusal(body: dict[str, object]) -> tuple[object, object]:
    """Code and sentence of a typed error."""
    error = body["error"]
    assert isinstance(error, dict)
    return error["code"], error["message"]


async def test_who_makes_a_workspace_owns_it(guarded: Stack, people: People, person: Person, workspace: str) -> None:
    other = await people.add()
    owner = await guarded.pool.fetchval("SELECT owner_id FROM workspaces WHERE id = $1", workspace)
    assert owner == person.id
    _, listed = await guarded.call("GET", "/api/v1/workspaces", headers=other.bearer)
    assert workspace not in str(listed)
    for owner_id, expected in ((person.id, 400), ("", 200), (other.id, 200)):
        body = {"id": f"{workspace}-{owner_id}-x", "name": "", "owner_id": owner_id}
        assert (await guarded.call("POST", "/api/v1/workspaces", json=body, headers=other.bearer))[0] == expected


async def test_a_member_sees_what_is_there(guarded: Stack, people: People, person: Person, workspace: str) -> None:
    other = await people.add()
    path = f"/api/v1/workspaces/{workspace}/members"
    assert await guarded.call("GET", path, headers=other.bearer) == (404, {"error": UNSEEN})
    done = (200, {"workspace_id": workspace, "user_id": other.id})
    for _ in range(2):
        assert await guarded.call("PUT", f"{path}/{other.id}", headers=person.bearer) == done
    expected = {
        "workspace_id": workspace,
        "owner_id": person.id,
        "members": [{"user_id": other.id, "username": other.username, "display_name": "", "role": "member"}],
    }
    for who in (person, other):
        assert await guarded.call("GET", path, gateway=SECOND, headers=who.bearer) == (200, expected)
    for _ in range(2):
        assert await guarded.call("DELETE", f"{path}/{other.id}", headers=person.bearer) == done
    assert await guarded.call("GET", path, headers=other.bearer) == (404, {"error": UNSEEN})


async def test_a_foreign_workspace_is_told_before_who_has_an_account(
    guarded: Stack, people: People, person: Person, workspace: str
) -> None:
    other = await people.add()
    for method in ("PUT", "DELETE"):
        for named in (person.id, person.username, "nobody"):
            path = f"/api/v1/workspaces/{workspace}/members/{named}"
            status, body = await guarded.call(method, path, headers=other.bearer)
            assert (status, refusal(body)) == (404, ("not_found", UNSEEN))


async def test_a_username_stands_for_the_id(guarded: Stack, people: People, person: Person, workspace: str) -> None:
    """However it is capitalised. Where it is also somebody's id, theirs is meant."""
    other = await people.add()
    path = f"/api/v1/workspaces/{workspace}/members"
    done = (200, {"workspace_id": workspace, "user_id": other.id})
    for method in ("PUT", "DELETE"):
        assert await guarded.call(method, f"{path}/{other.username.upper()}", headers=person.bearer) == done
    await Accounts(guarded.pool).add(other.id, "")
    assert await guarded.call("PUT", f"{path}/{other.id}", headers=person.bearer) == done


async def test_every_gateway_is_told(guarded: Stack, people: People, person: Person, workspace: str) -> None:
    other = await people.add()
    path = f"/api/v1/workspaces/{workspace}/members/{other.id}"
    for method in ("PUT", "DELETE"):
        assert (await guarded.call(method, path, headers=person.bearer))[0] == 200
    entries = [str(fields) for _, fields in await guarded.redis.xrange(streams.CONTROL) or ()]
    told = [entry for entry in entries if "membership_changed" in entry and workspace in entry and other.id in entry]
    assert len(told) == 2


async def test_who_may_change_members(guarded: Stack, people: People, person: Person, workspace: str) -> None:
    """Whoever does not see the workspace is told that there is none; whoever does and does not own it, that they may
    not. An administrator has to see it, too.
    """
    member, stranger, administrator = await people.add(), await people.add(), await people.add(administrator=True)
    path = f"/api/v1/workspaces/{workspace}/members"
    assert (await guarded.call("PUT", f"{path}/{member.id}", headers=person.bearer))[0] == 200
    for method in ("PUT", "DELETE"):
        for who, status, code in (
            (member, 403, "forbidden"),
            (stranger, 404, "not_found"),
            (administrator, 404, "not_found"),
        ):
            found, body = await guarded.call(method, f"{path}/{member.id}", headers=who.bearer)
            assert (found, refusal(body)[0]) == (status, code)
    assert (await guarded.call("PUT", f"{path}/{administrator.id}", headers=person.bearer))[0] == 200
    assert (await guarded.call("DELETE", f"{path}/{member.id}", headers=administrator.bearer))[0] == 200
    everyones = "/api/v1/workspaces/w/members"
    assert (await guarded.call("PUT", f"{everyones}/{member.id}", headers=person.bearer))[0] == 403
    assert (await guarded.call("PUT", f"{everyones}/{member.id}", headers=administrator.bearer))[0] == 200


@pytest.mark.parametrize("user_id", ["nobody", "%00", "x" * 300])
async def test_nobody_is_made_a_member_without_an_account(
    guarded: Stack, person: Person, workspace: str, user_id: str
) -> None:
    status, body = await guarded.call("PUT", f"/api/v1/workspaces/{workspace}/members/{user_id}", headers=person.bearer)
    assert (status, refusal(body)) == (404, ("not_found", "there is no such user"))


@pytest.mark.parametrize("workspace_id", ["nothing", "%00", "x" * 300])
async def test_a_workspace_that_is_not_there(guarded: Stack, person: Person, workspace_id: str) -> None:
    path = f"/api/v1/workspaces/{workspace_id}/members"
    assert await guarded.call("GET", path, headers=person.bearer) == (404, {"error": UNSEEN})
    for method in ("PUT", "DELETE"):
        status, body = await guarded.call(method, f"{path}/{person.id}", headers=person.bearer)
        assert (status, refusal(body)) == (404, ("not_found", UNSEEN))
