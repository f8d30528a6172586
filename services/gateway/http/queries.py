"""Values of a request's query string."""

from aiohttp import web

from services.gateway.http.errors import BadRequest


def text(request: web.Request, name: str) -> str | None:
    """A value as it was sent: an id may begin or end with white space. Only an empty one counts as absent."""
    return request.query.get(name) or None


def word(request: web.Request, name: str) -> str:
    """A value that is one of a few words or a number, without the white space around it. Empty when it is absent."""
    return request.query.get(name, "").strip()


def require_storable(request: web.Request) -> None:
    """Raises BadRequest where a value of the query holds a NUL character, which no row can hold."""
    for name, value in request.query.items():
        if "\x00" in value:
            raise BadRequest(f"{name.replace(chr(0), '?')[:100]} holds a NUL character, which no row can hold")
