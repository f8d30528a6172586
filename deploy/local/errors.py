"""Why the embedded stack could not start."""


class StackError(Exception):
    """Its text is one or more sentences for the person at the terminal: what was found and what to do."""
