"""What is told of half a surrogate pair."""

import pytest

from services.gateway.surrogates import is_unicode, lone_surrogate


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (rb'"\ud83d"', r"the body holds a lone surrogate (\ud83d), which is no Unicode text"),
        (rb'{"content":"a\uDE00b"}', r"content holds a lone surrogate (\ude00), which is no Unicode text"),
        (rb'{"a":[{"b":"x"},{"b":"\ud83d"}]}', r"a.1.b holds a lone surrogate (\ud83d), which is no Unicode text"),
        (rb'{"a":{"\ud83d":1}}', r"a holds a lone surrogate (\ud83d), which is no Unicode text"),
        (r'{"é":"\ud83d"}', r"é holds a lone surrogate (\ud83d), which is no Unicode text"),
        (rb'{"a":"\ud83d","b":"\ude00"}', r"a holds a lone surrogate (\ud83d), which is no Unicode text"),
    ],
)
def test_the_first_is_told_by_its_place(data: str | bytes, problem: str) -> None:
    found = lone_surrogate(data)
    assert found is not None
    assert found.problem("the body") == problem


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        rb'{"a":"\ud83d',
        rb'{"a":"\ud83d\ude00"}',
        rb'{"a":"\\ud83d"}',
        b'{"a":"\xf0\x9f\x98\x80"}',
        b'"\\ud83d\xff"',
        b"[" * 100_000 + rb'"\ud83d"',
    ],
)
def test_what_is_something_else_is_not_told(data: bytes) -> None:
    assert lone_surrogate(data) is None


def test_a_place_is_told_in_short() -> None:
    found = lone_surrogate(b'{"' + b"a" * 1000 + rb'":"\ud83d"}')
    assert found is not None
    assert len(found.place) == 100


def test_text_is_unicode_without_one() -> None:
    assert is_unicode("\U0001f600")
    assert not is_unicode("\ud83d")
