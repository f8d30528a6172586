"""How a command ends when it cannot do what it was asked."""

CANNOT = 2
"""Exit code: bad input, or something that is needed cannot be reached. What was found and what to do is on stderr."""


class CommandFailed(Exception):
    """Its text is for the person at the terminal: what was found, what was expected, what to do. Exit code 2."""
