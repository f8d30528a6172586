"""Which texts are one name, and which are one password."""

import pytest

from services.gateway.identity.passwords import Passwords
from services.gateway.identity.texts import password_bytes, username_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ann", "ANN"),
        ("ann", "  Ann "),
        ("r\u00e9n\u00e9", "re\u0301ne\u0301"),
        ("\u00c9mile", "e\u0301MILE"),
        ("\uff41\uff4e\uff4e", "ann"),
        ("stra\u00dfe", "STRASSE"),
        ("\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3"),
        ("\ufb01nn", "FINN"),
        ("\u212aelvin", "kelvin"),
    ],
)
def test_one_name_however_it_is_typed(one: str, other: str) -> None:
    assert username_key(one) == username_key(other)
    assert username_key(username_key(one)) == username_key(one)


@pytest.mark.parametrize(("one", "other"), [("ann", "anna"), ("a b", "ab"), ("\u0430nn", "ann")])
def test_other_names_stay_apart(one: str, other: str) -> None:
    assert username_key(one) != username_key(other)


def test_a_password_is_composed_and_nothing_else() -> None:
    assert password_bytes("e\u0301") == password_bytes("\u00e9")
    assert password_bytes("a\u00a0b\u3000c") == b"a b c"
    kept = ("ANN", "ann", "\uff41nn", " ann", "ann ", "\udcff")
    assert len({password_bytes(text) for text in kept}) == len(kept)


async def test_a_password_is_verified_however_it_is_composed() -> None:
    passwords = Passwords()
    stored = await passwords.hashed("caf\u00e9 cre\u0301me")
    assert await passwords.matches(stored, "cafe\u0301 cr\u00e9me")
    assert not await passwords.matches(stored, "cafe creme")
