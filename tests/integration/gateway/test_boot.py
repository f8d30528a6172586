"""The boot payload: who asks, what is served, and which plugins to load."""

from services.gateway.http.boot import Boot
from tests.integration.identity.people import People
from tests.support.plugins import install, set_status
from tests.support.socket_client import Json
from tests.support.stack import Stack

PATH = "/api/v1/boot"


async def booted(stack: Stack, **headers: str) -> Json:
    """The payload, as the contract has it."""
    status, body = await stack.call("GET", PATH, headers=headers)
    assert status == 200
    Boot.model_validate(body)
    return body


async def test_without_accounts(shared_stack: Stack) -> None:
    body = await booted(shared_stack)
    assert body["user"] == {
        "id": "default-user",
        "username": "local",
        "display_name": "Local user",
        "administrator": True,
    }
    assert body["features"] == {"authentication": False, "test_controls": False}
    assert body["versions"] == {"kandev": "0.95.0", "protocol": 2}
    assert body["locale"] == "en"
    assert body["locales"] == ["en", "pt-pt", "zh-cn", "zh-hk", "zh-tw"]
    assert set(body["limits"]) == {
        "page_rows",
        "message_characters",
        "socket_message_bytes",
        "scopes",
        "prompts",
        "prompt_characters",
    }


async def test_the_locale_is_the_browsers(shared_stack: Stack) -> None:
    body = await booted(shared_stack, **{"Accept-Language": "de,zh-Hant;q=0.5"})
    assert body["locale"] == "zh-tw"


async def test_with_accounts(accounts_stack: Stack, people: People) -> None:
    assert (await accounts_stack.call("GET", PATH))[0] == 401
    for administrator in (False, True):
        person = await people.add(administrator=administrator)
        body = await booted(accounts_stack, **person.bearer)
        assert body["user"] == {
            "id": person.id,
            "username": person.username,
            "display_name": "",
            "administrator": administrator,
        }
        assert body["features"]["authentication"] is True


async def test_plugins_are_listed_while_they_are_active(shared_stack: Stack) -> None:
    assert (await booted(shared_stack))["plugins"] == []
    await install(shared_stack, "one")
    (listed,) = (await booted(shared_stack))["plugins"]
    assert (listed["id"], listed["name"]) == ("one", "The plugin one")
    assert listed["bundleUrl"].startswith("/api/plugins/one/bundle?v=1.0.0-")
    assert set(listed) == {"id", "name", "bundleUrl"}
    await install(shared_stack, "one", "1.1.0")
    (upgraded,) = (await booted(shared_stack))["plugins"]
    assert upgraded["bundleUrl"] != listed["bundleUrl"]
    await set_status(shared_stack, "one", "disabled")
    assert (await booted(shared_stack))["plugins"] == []
