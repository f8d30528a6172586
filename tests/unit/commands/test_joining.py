"""Joining appends: whatever order, repetition or hole they arrive in, the content only ever grows by what connects."""

import itertools
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.revision.commands.joining import Fate, Joined, Piece, join
from shared.contracts.commands import MAX_CONTENT_CHARACTERS

CHARACTERS = st.sampled_from(["a", "é", "e\u0301", "\u0301", "👩‍🚀", "\U0001d518", "日", " ", "\n"])
TEXTS = st.lists(CHARACTERS, max_size=12).map("".join)


def joined(content: str, pieces: Sequence[Piece]) -> Joined:
    least = min((piece.offset for piece in pieces), default=len(content))
    return join(len(content), content[least:], pieces)


def cut(text: str, places: Sequence[int], start: int) -> list[Piece]:
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [Piece(start + left, text[left:right]) for left, right in itertools.pairwise(edges) if left < right]


@given(TEXTS, TEXTS, st.lists(st.integers(0, 40), max_size=8), st.randoms())
def test_pieces_in_any_order_and_repeated_make_the_whole_text(
    content: str, text: str, places: list[int], order: Random
) -> None:
    pieces = cut(text, places, len(content))
    pieces += order.sample(pieces, k=len(pieces) // 2)
    order.shuffle(pieces)
    result = joined(content, pieces)
    assert result.addition == text
    assert set(result.fates) <= {Fate.WRITTEN}


@given(TEXTS, TEXTS, st.lists(st.integers(0, 40), max_size=8), st.data())
def test_what_comes_after_a_hole_waits(content: str, text: str, places: list[int], data: st.DataObject) -> None:
    pieces = cut(text, places, len(content))
    if not pieces:
        return
    missing = data.draw(st.integers(0, len(pieces) - 1))
    rest = pieces[:missing] + pieces[missing + 1 :]
    result = joined(content, rest)
    assert result.addition == "".join(piece.text for piece in pieces[:missing])
    assert result.fates == (Fate.WRITTEN,) * missing + (Fate.AHEAD,) * (len(pieces) - missing - 1)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 30), TEXTS), max_size=8))
def test_every_fate_is_true_of_the_content_that_results(content: str, raw: list[tuple[int, str]]) -> None:
    pieces = [Piece(offset, text) for offset, text in raw]
    result = joined(content, pieces)
    after = content + result.addition
    for fate, piece in zip(result.fates, pieces, strict=True):
        stands = after[piece.offset : piece.offset + len(piece.text)] == piece.text and piece.offset <= len(after)
        match fate:
            case Fate.WRITTEN:
                assert stands
                assert piece.offset + len(piece.text) > len(content)
            case Fate.PRESENT:
                assert content[piece.offset :].startswith(piece.text)
            case Fate.CONFLICT:
                assert not stands
            case Fate.AHEAD:
                assert piece.offset > len(content)
            case Fate.TOO_LONG:
                pytest.fail("no such text was made")
    # A second delivery of the same appends changes nothing.
    again = joined(after, pieces)
    assert all(
        fate is Fate.PRESENT
        for fate, before in zip(again.fates, result.fates, strict=True)
        if before in {Fate.WRITTEN, Fate.PRESENT}
    )


def test_of_two_texts_for_one_place_the_first_to_arrive_stands() -> None:
    result = joined("", [Piece(0, "ab"), Piece(0, "xy"), Piece(2, "c")])
    assert result == Joined("abc", (Fate.WRITTEN, Fate.CONFLICT, Fate.WRITTEN))


def test_an_empty_text_is_there_already_unless_its_place_is_beyond_the_end() -> None:
    assert joined("ab", [Piece(2, ""), Piece(0, ""), Piece(3, "")]).fates == (Fate.PRESENT, Fate.PRESENT, Fate.AHEAD)


def test_a_text_that_reaches_over_the_end_is_no_append() -> None:
    assert joined("ab", [Piece(1, "bc")]) == Joined("", (Fate.CONFLICT,))


def test_a_message_has_a_greatest_length() -> None:
    length = MAX_CONTENT_CHARACTERS - 2
    result = join(length, "", [Piece(length, "abc"), Piece(length, "ab")])
    assert result == Joined("ab", (Fate.TOO_LONG, Fate.WRITTEN))
