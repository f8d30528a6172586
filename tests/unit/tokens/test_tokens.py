"""Tokens verify as they were signed, for as long as they live, and in no other form."""

import base64
import hashlib
import hmac
import string
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.reads import Keyset
from shared.tokens import (
    KEY_BYTES,
    MAX_TOKEN_CHARACTERS,
    BindingClaims,
    Claims,
    CursorClaims,
    TokenInvalid,
    is_signed,
    new_key,
    sign,
    verify,
)

KEY, OTHER_KEY = b"k" * KEY_BYTES, b"o" * KEY_BYTES
EXPIRY = 1_000_000
ALPHABET = string.ascii_letters + string.digits + "-_"


def binding(**more: Any) -> BindingClaims:
    """Claims of a binding that expires at `EXPIRY`."""
    return BindingClaims(**{"plugin_id": "p", "user_id": "u", "generation": 7, "expires_at": EXPIRY, **more})


def cursor() -> CursorClaims:
    """Claims of a cursor that expires at `EXPIRY`."""
    return CursorClaims(
        plugin_id="p",
        user_id="u",
        generation=7,
        expires_at=EXPIRY,
        fingerprint="f",
        epoch="e",
        position=Keyset(time=-5, id="m"),
    )


def refused(token: str, keys: tuple[bytes, ...] = (KEY,), now: int = 0, kind: type[Claims] = BindingClaims) -> bool:
    """Whether a token is not believed."""
    try:
        verify(token, keys, now, kind)
    except TokenInvalid:
        return True
    return False


def signed(payload: bytes, key: bytes = KEY) -> str:
    """A token of any payload, put together by hand."""
    return signed_text(base64.urlsafe_b64encode(payload).rstrip(b"=").decode(), key)


def signed_text(payload: str, key: bytes = KEY) -> str:
    """A token whose first part is this text."""
    signature = hmac.digest(key, payload.encode(), hashlib.sha256)
    return payload + "." + base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


@pytest.mark.parametrize("claims", [binding(), cursor(), binding(user_id="\U0001f600" * 255, plugin_id="\x1f'\"")])
def test_what_was_signed_is_read(claims: Claims) -> None:
    token = sign(claims, KEY)
    assert verify(token, (KEY,), 0, type(claims)) == claims
    assert token == signed(orjson.dumps(claims.model_dump()))
    assert set(token) <= set(ALPHABET + ".")


def test_a_token_dies_at_its_expiry() -> None:
    token = sign(binding(), KEY)
    assert not refused(token, now=EXPIRY - 1)
    assert refused(token, now=EXPIRY)
    assert is_signed(token, (KEY,))


def test_a_token_is_of_its_kind_alone() -> None:
    assert refused(sign(cursor(), KEY))
    assert refused(sign(binding(), KEY), kind=CursorClaims)
    as_cursor = {**binding().model_dump(), "kind": "cursor"}
    assert refused(signed(orjson.dumps(as_cursor)))


def test_any_key_that_is_known_verifies_and_no_other() -> None:
    token = sign(binding(), OTHER_KEY)
    assert refused(token)
    assert not refused(token, (KEY, OTHER_KEY))
    assert refused(token, ())


def test_no_two_tokens_are_alike() -> None:
    assert sign(binding(), KEY) != sign(binding(), KEY)
    assert new_key() != new_key()
    assert len(new_key()) == KEY_BYTES


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("place", [0, 10, -1])
def test_no_character_can_be_changed(part: int, place: int) -> None:
    parts = sign(binding(), KEY).split(".")
    for character in ALPHABET:
        if character == parts[part][place]:
            continue
        changed = list(parts[part])
        changed[place] = character
        told = [*parts]
        told[part] = "".join(changed)
        # The last character of a signature has two bits that decoding drops: they count all the same.
        assert refused(".".join(told))


@pytest.mark.parametrize(
    "form",
    ["", ".", "{}", "{}.", ".{}", "{0}.{0}", "{}=", "{}\n", " {}", "{}.x", "{}\ud800", "{}\u00e9", "{}\x00", "{}%00"],
)
def test_nothing_is_added_or_left_out(form: str) -> None:
    payload = sign(binding(), KEY).partition(".")[0]
    assert refused(form.format(payload))
    if form != "{}":
        assert refused(form.format(sign(binding(), KEY)))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b"{",
        *(orjson.dumps({**binding().model_dump(), field: wrong}) for field, wrong in (
            ("v", 2), ("v", "1"), ("kind", "resume"), ("generation", "7"), ("generation", 7.0), ("expires_at", True),
            ("plugin_id", None), ("user_id", 1), ("nonce", ""), ("more", 1),
        )),
        *(orjson.dumps({name: value for name, value in binding().model_dump().items() if name != field})
          for field in ("plugin_id", "user_id", "generation", "expires_at")),
    ],
)  # fmt: skip
def test_claims_are_read_strictly_even_where_they_are_signed(payload: bytes) -> None:
    assert refused(signed(payload))


@pytest.mark.parametrize("payload", ["A", "AAAAA", "e30", "\u00e9", "+/+/"])
def test_what_is_no_encoding_of_claims_is_refused_even_where_it_is_signed(payload: str) -> None:
    assert refused(signed_text(payload))


def test_what_is_longer_than_any_token_is_not_looked_at() -> None:
    longest = sign(binding(user_id="\U0001f600" * 255, plugin_id="\U0001f600" * 255), KEY)
    assert len(longest) < MAX_TOKEN_CHARACTERS
    assert refused(sign(binding(user_id="u" * MAX_TOKEN_CHARACTERS), KEY))


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_is_a_token_by_chance(first: str, second: str) -> None:
    assert refused(first)
    assert refused(f"{first}.{second}")


def test_a_refusal_says_nothing() -> None:
    with pytest.raises(TokenInvalid) as found:
        verify(signed(b'{"secret":1}'), (KEY,), 0, BindingClaims)
    assert str(found.value) == ""
    assert found.value.__cause__ is None
