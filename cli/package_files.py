"""Packages of plugins as somebody names them on a command line."""

import stat
from pathlib import Path

import click

from cli.errors import CommandFailed


class NoPackageFile(CommandFailed):
    """Nothing can be read under this name, or not without waiting."""


def spelled(path: Path) -> str:
    """The name as it can be printed: one need not be text."""
    return click.format_filename(path)


def expect_package_file(path: Path) -> None:
    """Raises `NoPackageFile` for everything but a regular file: a pipe would be waited for, a device never end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise NoPackageFile(f"{spelled(path)} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        raise NoPackageFile(f"{spelled(path)} cannot be read: it is no regular file.")
