"""The one form of tokens that are shown once."""

import hashlib

import pytest

from services.gateway.token_text import TokenText, is_token_id, new_token, token_from

SECRET = "s" * 43


def test_a_new_token_is_read_again_and_is_its_own_alone() -> None:
    token, other = new_token("kandev_pat_"), new_token("kandev_pat_")
    assert token_from("kandev_pat_", str(token)) == token
    assert token.secret_hash == hashlib.sha256(token.secret.encode()).digest()
    assert token.is_of(token.secret_hash)
    assert not token.is_of(other.secret_hash)
    assert not token.is_of(None)
    assert (token.id, token.secret) != (other.id, other.secret)


@pytest.mark.parametrize("secret", ["s" * 20, "s" * 128, "_" * 43, "-_aZ09" * 5])
def test_secrets_of_another_length_and_with_the_separator_are_read(secret: str) -> None:
    assert token_from("p_", f"p_01234abc_{secret}") == TokenText("p_", "01234abc", secret)


@pytest.mark.parametrize(
    "text",
    [
        *("", "p_", f"01234abc_{SECRET}", f"q_01234abc_{SECRET}", f"p_01234abc{SECRET}", f"p_01234ab_{SECRET}"),
        *(f"p_01234abcd_{SECRET}", f"p_01234ABC_{SECRET}", "p_01234abc_" + "s" * 19, "p_01234abc_" + "s" * 129),
        *(f"p_01234abc_{SECRET}\n", f" p_01234abc_{SECRET}", f"p_01234abc_{SECRET}é", f"p_01234abc_{SECRET}="),
        *(f"p_0123\u066434a_{SECRET}", f"p_01234abc_{SECRET}\x00"),
    ],
)
def test_what_has_another_form_is_none(text: str) -> None:
    assert token_from("p_", text) is None


def test_what_may_be_an_id() -> None:
    assert [is_token_id(text) for text in ("01234abc", "01234abC", "01234ab", "01234abc\n")] == [True, *[False] * 3]


def test_a_secret_is_not_shown() -> None:
    assert SECRET not in repr(TokenText("p_", "01234abc", SECRET))
