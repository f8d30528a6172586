"""System blocks are taken out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.sanitizer import CLOSING, OPENING, has_system_content, strip_system_content

REFERENCE = re.compile(f"{OPENING}.*?{CLOSING}\\s*", re.DOTALL)

TOKENS = [OPENING, CLOSING, "word", " ", "\n", "\u00a0", "<", "<kandev-system >", "<KANDEV-SYSTEM>"]
FRAGMENTS = [*TOKENS, "<kandev-", "system>", "</kandev-", "/", ">"]


def tagged(text: str) -> str:
    """Text with `<S>` written out."""
    return text.replace("<S>", OPENING).replace("</S>", CLOSING)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("Hello world", "Hello world"),
        ("", ""),
        ("<S>system content only</S>", ""),
        ("<S>hidden</S>\n\nvisible text", "visible text"),
        ("<S>first</S> middle <S>second</S> end", "middle end"),
        ("<S>open only", "<S>open only"),
        (" <S>open only ", "<S>open only"),
        ("only closed</S>", "only closed</S>"),
        ("</S>turned round<S>", "</S>turned round<S>"),
        ("a <S>b <S>c</S> d</S>", "a d</S>"),
        ("  x  ", "x"),
        ("before <S>x</S>after", "before after"),
        ("before<S>x</S> \t\n after", "beforeafter"),
        ("<S></S>", ""),
        ("<S>a</S><S>b</S>", ""),
        ("<S>a</S>x<S>b</S>", "x"),
        ("<S>line\nline</S>x", "x"),
        ("<S>a</S> x <S>open", "x <S>open"),
    ],
)
def test_vectors(content: str, shown: str) -> None:
    assert strip_system_content(tagged(content)) == tagged(shown)


@pytest.mark.parametrize(
    "content",
    ["<KANDEV-SYSTEM>x</KANDEV-SYSTEM>", "<kandev-system >x</kandev-system>", '<kandev-system a="b">x</kandev-system>'],
)
def test_only_the_exact_tag_counts(content: str) -> None:
    assert strip_system_content(content) == content
    assert not has_system_content(content)


@pytest.mark.parametrize(
    ("content", "has"),
    [("", False), ("x", False), ("<S>", False), ("</S><S>", False), ("<S></S>", True), ("a<S>b<S>c</S>", True)],
)
def test_whether_there_is_a_block(content: str, has: bool) -> None:
    assert has_system_content(tagged(content)) is has


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_the_rule_in_one_expression(content: str) -> None:
    assert strip_system_content(content) == REFERENCE.sub("", content).strip()
    assert has_system_content(content) is (REFERENCE.search(content) is not None)


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join))
def test_no_complete_pair_survives(content: str) -> None:
    """Whole tags only: what becomes a tag once a block is gone was text, and stays text (the rule runs once)."""
    shown = strip_system_content(content)
    assert not has_system_content(shown)
    assert strip_system_content(shown) == shown


class Counting(str):
    """Text that counts how many characters its searches pass over."""

    __slots__ = ("passed",)
    passed: int

    def find(self, sub: str, start: int = 0, end: int | None = None, /) -> int:  # type: ignore[override] # fewer forms
        """As `str.find`."""
        found = super().find(sub, start)
        self.passed += (len(self) if found < 0 else found + len(sub)) - start
        return found


@pytest.mark.parametrize(
    "unit",
    [OPENING, CLOSING, OPENING + CLOSING, OPENING + "x" + CLOSING + " ", CLOSING + OPENING, "<", "<kandev-system", " "],
)
def test_a_megabyte_is_read_a_few_times_at_most(unit: str) -> None:
    content = Counting(unit * ((1 << 20) // len(unit)))
    content.passed = 0
    strip_system_content(content)
    has_system_content(content)
    assert content.passed <= 5 * len(content)
