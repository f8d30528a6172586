"""The command `kandev-conversation`: what it offers, and how every part of it ends."""

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import click

from cli.errors import CANNOT, CommandFailed
from cli.lazy import Entry, LazyGroup

INTERRUPTED = 130
"""Exit code after ctrl-c, as shells use it."""

UNREAD = 1
"""Exit code when the reader of the output went away."""

_OF_OUTPUT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "up": Entry("cli.up", "up", "Start everything on this machine and keep it running."),
        "import": Entry("cli.transcripts_import", "import_", "Import coding-agent transcripts."),
        "replay": Entry("cli.replay", "replay", "Play a transcript as a new, live conversation."),
        "sessions": Entry("cli.sessions", "sessions", "List the sessions there are, newest first."),
        "tail": Entry("cli.tail", "tail", "Follow a conversation in the terminal."),
        "verify": Entry("cli.verify", "verify", "Check that what followers see equals the source."),
        "doctor": Entry("cli.doctor", "doctor", "Find what is wrong, and say what to do."),
        "settings": Entry("cli.settings", "settings", "List every setting with its value and meaning."),
        "plugin": Entry("cli.plugin", "plugin", "Pack and check plugins; install and manage them at a gateway."),
        "migrate": Entry("cli.migrate", "migrate", "Bring the database to this version's schema."),
        "cutover": Entry("cli.cutover", "cutover", "Give up the journal that kandev kept before."),
        "detach": Entry("cli.detach", "detach", "Take this service out of a database again."),
        "user": Entry("cli.user", "user", "Accounts and access tokens."),
        "workspace": Entry("cli.workspace", "workspace", "Who sees which conversations."),
        "keys": Entry("cli.keys", "keys", "The keys that sign what plugins show."),
        "psql": Entry("cli.psql", "psql", "Open psql on the database."),
        "run": Entry("cli.run", "run", "Run one service: revision, reader or gateway."),
    }
)


@click.command(cls=LazyGroup, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kandev-conversation")
def kandev_conversation() -> None:
    """Agent conversations in PostgreSQL, followable live and correct.

    \b
    A first look, in two terminals:
      kandev-conversation up
      kandev-conversation replay session.jsonl --speed 5   (prints the session's id)
      kandev-conversation tail SESSION          (`sessions` lists them)

    \b
    Everyday work:
      kandev-conversation import ~/transcripts/*.jsonl
      kandev-conversation verify SESSION
      kandev-conversation doctor
      kandev-conversation psql -- -c "SELECT id FROM task_sessions"

    \b
    Exit codes: 0 done; 1 done, and something was found wrong; 2 could not be
    done (the reason is on standard error); 130 interrupted before it was done.
    Ctrl-c is the usual end of up, run, tail and replay: 0. So is an import that
    left out lines: they are named on standard error.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and ends the process with its exit code."""
    sys.exit(_flushed(_outcome(None if arguments is None else list(arguments))))


def _flushed(code: int) -> int:
    """The exit code, once the last output is written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _not_written(error)
    return code


def _not_written(error: OSError) -> int:
    """The end of a command whose output nobody takes: quiet when the reader went away, else with a sentence."""
    # What is still held back would fail once more when the interpreter ends.
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    if error.errno == errno.EPIPE:
        return UNREAD
    click.echo(f"Error: The output cannot be written: {error.strerror}.", err=True)
    return CANNOT


def _outcome(arguments: list[str] | None) -> int:
    try:
        code = kandev_conversation.main(arguments, prog_name="kandev-conversation", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except CommandFailed as error:
        click.echo(f"Error: {error}", err=True)
        return CANNOT
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        return INTERRUPTED
    except OSError as error:
        if error.errno not in _OF_OUTPUT:
            raise
        return _not_written(error)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
