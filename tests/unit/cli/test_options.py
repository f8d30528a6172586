"""What is refused before a command does anything."""

import click
import pytest

from cli.counting import counted
from cli.errors import CommandFailed
from cli.options import SESSION, TITLE, Finite


@pytest.mark.parametrize("text", ["", "a\nb", "\x7f", "x" * 256, "\udcff"])
def test_an_id_that_cannot_exist(text: str) -> None:
    with pytest.raises(CommandFailed, match="No session has such an id"):
        SESSION.convert(text, None, None)


@pytest.mark.parametrize("text", ["x" * 255, "nobody", "ä b/c?#"])
def test_an_id_that_may(text: str) -> None:
    assert SESSION.convert(text, None, None) == text


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "\udcff"])
def test_a_name_that_says_nothing(text: str) -> None:
    with pytest.raises(click.BadParameter):
        TITLE.convert(text, None, None)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "-1", "one"])
def test_a_number_that_is_none(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Finite(min=0).convert(text, None, None)  # type: ignore[arg-type]  # as click calls it


def test_numbers_of_things() -> None:
    assert [counted(number, "line") for number in (0, 1, 2, 1000)] == ["0 lines", "1 line", "2 lines", "1,000 lines"]
    assert counted(1, "more line", "more lines") == "1 more line"
    assert counted(2, "more line", "more lines") == "2 more lines"
