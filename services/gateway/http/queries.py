"""Values of a request's query string."""

from aiohttp import web


def text(request: web.Request, name: str) -> str | None:
    """A value as it was sent: an id may begin or end with white space. Only an empty one counts as absent."""
    return request.query.get(name) or None


def word(request: web.Request, name: str) -> str:
    """A value that is one of a few words or a number, without the white space around it. Empty when it is absent."""
    return request.query.get(name, "").strip()


def unstorable(request: web.Request) -> str | None:
    """Name of the first value that holds a NUL character, which no row can hold."""
    return next((name for name, value in request.query.items() if "\x00" in value), None)
