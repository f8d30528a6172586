"""What plugins see of content: nothing of a system block, finished or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.sanitizer import (
    CLOSING,
    OPENING,
    TELLING_PREFIX,
    has_system_content,
    public_content,
    public_utf8,
    strip_system_content,
)

FRAGMENTS = [OPENING, CLOSING, "word", " ", "\n", "<", "<kandev-", "system>", "</kandev-", "<kandev-system >", ">"]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)


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
        ("a <S>b <S>c</S> d</S>", "a d</S>"),
        ("  x  ", "x"),
        ("<S>open only", ""),
        ("before <S>open\nsecret", "before"),
        ("<S>a</S> x <S>open</S> y <S>secret", "x y"),
        ("x <S>", "x"),
        ("</S>turned round<S>secret", "</S>turned round"),
        ("only closed</S>", "only closed</S>"),
    ],
)
def test_vectors(content: str, shown: str) -> None:
    assert public_content(tagged(content)) == tagged(shown)


def test_a_block_that_arrives_in_pieces_is_never_seen() -> None:
    """At every length that a streamed message ever had."""
    whole = tagged("Do this. <S>\ue000\ue000</S> Then <b> that <kandev-notes>.")
    for length in range(len(whole) + 1):
        shown = public_content(whole[:length])
        assert "\ue000" not in shown
        assert TELLING_PREFIX not in shown.replace("<kandev-n", "")
    assert public_content(whole) == "Do this. Then <b> that <kandev-notes>."


@pytest.mark.parametrize("length", range(1, len(OPENING)))
def test_the_end_is_cut_where_it_can_only_be_the_tag_that_begins(length: int) -> None:
    piece = OPENING[:length]
    assert public_content("text " + piece) == ("text" if length >= len(TELLING_PREFIX) else "text " + piece)
    assert public_content(piece + " text") == piece + " text"


def test_what_was_a_tag_only_without_a_block_hides_what_is_behind_it() -> None:
    assert public_content(tagged("a <kandev-sys<S>x</S>tem>secret</S>")) == "a"
    assert public_content(tagged("a <kandev-sys<S>x</S>")) == "a"


@given(st.one_of(TEXTS, st.text(), st.text(alphabet=["\x00", "\x1c", "\x85", "\u3000", "\ufeff", "é", "a", " "])))
def test_bytes_are_looked_at_as_their_text_is(text: str) -> None:
    assert public_utf8(text.encode()) == public_content(text).encode()


@given(TEXTS, TEXTS)
def test_nothing_at_or_behind_an_opening_tag_is_left(before: str, behind: str) -> None:
    shown = public_content(before + OPENING + behind)
    assert OPENING not in shown
    assert not has_system_content(shown)
    secret = "\ue000"
    assert secret not in public_content(before + OPENING + secret + behind)
    assert secret not in public_content(before + OPENING + secret + CLOSING + behind)


@given(TEXTS)
def test_plugins_see_a_beginning_of_what_first_parties_see(content: str) -> None:
    assert strip_system_content(content).startswith(public_content(content))


@given(TEXTS.filter(lambda text: "<" not in text))
def test_content_without_tags_is_only_trimmed(content: str) -> None:
    assert public_content(content) == content.strip()


class Counting(str):
    """Text that counts how many characters its searches pass over."""

    __slots__ = ("passed",)
    passed: int

    def find(self, sub: str, start: int = 0, end: int | None = None, /) -> int:  # type: ignore[override] # fewer forms
        """As `str.find`."""
        found = super().find(sub, start)
        self.passed += (len(self) if found < 0 else found + len(sub)) - start
        return found


@pytest.mark.parametrize("unit", [OPENING, CLOSING, OPENING + CLOSING, OPENING + "x" + CLOSING + " ", "<kandev-", " "])
def test_a_megabyte_is_read_a_few_times_at_most(unit: str) -> None:
    content = Counting(unit * ((1 << 20) // len(unit)))
    content.passed = 0
    public_content(content)
    assert content.passed <= 3 * len(content)
