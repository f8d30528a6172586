"""What `--help` says of every command."""

from collections.abc import Iterator

import click
import pytest

from cli.main import kandev_conversation


def _commands(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        yield f"{name} {each}".strip(), command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{name} {each}")


COMMANDS = dict(_commands(kandev_conversation))


@pytest.mark.parametrize("name", COMMANDS)
def test_no_paragraph_has_an_indentation_of_its_own(name: str) -> None:
    """A mark of click's that does not stand alone on its line marks nothing and is printed as blanks."""
    command = COMMANDS[name]
    told = command.get_help(click.Context(command))
    paragraphs = [paragraph.removeprefix("\n") for paragraph in told.split("\n\n")]
    assert [text for text in paragraphs if "\b" in text] == []
    assert [text for text in paragraphs if text.startswith("   ") and text.strip()] == []
