"""Values of a request's query string."""

from collections.abc import Iterable

from aiohttp import web

from services.gateway.http.errors import BadRequest
from shared.contracts.rows import AuthorType


def text(request: web.Request, name: str) -> str | None:
    """A value as it was sent: an id may begin or end with white space. Only an empty one counts as absent."""
    return request.query.get(name) or None


def word(request: web.Request, name: str) -> str:
    """A value that is one of a few words or a number, without the white space around it. Empty when it is absent."""
    return request.query.get(name, "").strip()


def authors_named(words: Iterable[str]) -> tuple[AuthorType, ...]:
    """The authors that the values of `author_type` name, each once. Raises BadRequest."""
    authors: list[AuthorType] = []
    for each in words:
        match each:
            case "user" | "agent":
                authors.append(each)
            case _:
                raise BadRequest("unsupported author_type")
    if len(set(authors)) != len(authors):
        raise BadRequest("duplicate author_type")
    return tuple(authors)


def require_storable(request: web.Request) -> None:
    """Raises BadRequest where a value of the query holds a NUL character, which no row can hold."""
    for name, value in request.query.items():
        if "\x00" in value:
            raise BadRequest(f"{name.replace(chr(0), '?')[:100]} holds a NUL character, which no row can hold")
