"""Which passwords and names are taken."""

import pytest

from services.gateway.identity.accounts import usable_display_name, usable_username
from services.gateway.identity.passwords import Passwords, is_outdated, require_password
from shared.contracts.errors import RequestFailed


@pytest.mark.parametrize("password", ["12345678", "x" * 1024, "ä" * 512, "\x00" * 8, "\udc80" * 8, "        "])
async def test_a_password(password: str) -> None:
    stored = await Passwords().hashed(password)
    assert stored.startswith("$argon2id$")
    assert not is_outdated(stored)
    assert await Passwords().matches(stored, password)
    assert not await Passwords().matches(stored, password + "x")


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025, "ä" * 513])
async def test_what_is_no_password(password: str) -> None:
    with pytest.raises(RequestFailed) as refused:
        require_password(password)
    assert not password or password not in str(refused.value)
    with pytest.raises(RequestFailed):
        await Passwords().hashed(password)


@pytest.mark.parametrize("stored", [None, "", "nonsense", "$argon2id$v=19$m=8,t=1,p=1$AAAA$AAAA"])
async def test_nothing_matches_what_is_no_hash(stored: str | None) -> None:
    assert not await Passwords().matches(stored, "12345678")


@pytest.mark.parametrize(
    ("given", "kept"), [(" Ann ", "Ann"), ("a b", "a b"), ("ä" * 100, "ä" * 100), ("日本", "日本")]
)
def test_a_username(given: str, kept: str) -> None:
    assert usable_username(given) == kept


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "a\nb", "a\x00b", "a\x7f", "\ud800"])
def test_what_is_no_username(name: str) -> None:
    with pytest.raises(RequestFailed):
        usable_username(name)


def test_a_display_name_may_be_empty() -> None:
    assert usable_display_name("  ") == ""
    with pytest.raises(RequestFailed):
        usable_display_name("a\x1b[0m")
