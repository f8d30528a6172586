"""What a route is. The application and the OpenAPI document are both made from these, so neither can lack one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp.typedefs import Handler
from pydantic import BaseModel

from services.gateway.http.errors import ConciseError, Form, PlainError, TypedError
from shared.contracts.base import DECIMAL

Json = dict[str, Any]
"""A JSON schema, or a part of one."""

REVISION: Json = {"type": "string", "pattern": DECIMAL}
"""The schema of a revision in an answer: a decimal string, since JavaScript numbers lose precision above 2^53."""

Access = Literal["public", "user", "administrator"]
"""Who may call a route. `user`: whoever is signed in; in mode `disabled`, everybody who passes the origin rules."""

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value outside of the body. Those of the path need not be listed unless there is something to say of them.

    `repeated`: may be given several times, each time with another value.
    """

    name: str
    description: str
    place: Literal["query", "path", "header"] = "query"
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A status that a route can answer with.

    `body`: the model of a JSON body, a JSON schema, or `None` where there is no JSON body: then there is none at all,
    unless `media_type` says what it is instead. `headers`: name to meaning, of those that always come.
    `occasional_headers`: of those that may come. `Cache-Control` is `no-store` wherever neither names it. `name`: of an
    answer that many routes share.
    """

    status: int
    description: str
    body: type[BaseModel] | Json | None = None
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    occasional_headers: Mapping[str, str] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, with everything that a client may need to know of it.

    `body`: the model or schema of the JSON body; `None`: no body is read. `other_bodies`: by media type, what may be
    sent in its place. `form`: how it tells errors; the handler
    raises RequestFailed and need not care. `orders_checks`: the handler looks at the query's text itself, behind what
    is told first on its route. The errors that every route can answer with (400, 401, 403, 413, 500, 503)
    are not listed in `answers`, except where they look otherwise than elsewhere.
    """

    method: Method
    path: str
    handler: Handler
    summary: str
    tag: str
    answers: tuple[Answer, ...]
    access: Access = "user"
    form: Form = "plain"
    parameters: tuple[Parameter, ...] = ()
    body: type[BaseModel] | Json | None = None
    body_required: bool = True
    body_media_type: str = "application/json"
    other_bodies: Mapping[str, type[BaseModel] | Json] = field(default_factory=dict)
    orders_checks: bool = False


def object_schema(**properties: Json) -> Json:
    """The schema of an object that has all of these."""
    return {"type": "object", "required": list(properties), "properties": properties}


def plain_errors(*statuses: int) -> tuple[Answer, ...]:
    """Answers in the form of the first-party reads: `{"error": "<sentence>"}`."""
    return tuple(_error(status, PlainError) for status in statuses)


def typed_errors(*statuses: int) -> tuple[Answer, ...]:
    """Answers in the form of writers and plugin routes: code, sentence, whether to ask again, details."""
    return tuple(_error(status, TypedError) for status in statuses)


def concise_errors(*statuses: int) -> tuple[Answer, ...]:
    """Answers in the form of the routes on which plugins read conversations: as `typed_errors`, without details."""
    return tuple(_error(status, ConciseError) for status in statuses)


def sparse(model: type[BaseModel]) -> Json:
    """The schema of a model's JSON where fields without a value are left out instead of being null."""
    schema = model.model_json_schema()
    for each in (schema, *schema.get("$defs", {}).values()):
        properties: Json = each.get("properties", {})
        nullable = {name for name, field_schema in properties.items() if _NULL in field_schema.get("anyOf", ())}
        for name in nullable:
            kept = [choice for choice in properties[name].pop("anyOf") if choice != _NULL]
            properties[name] |= kept[0] if len(kept) == 1 else {"anyOf": kept}
            properties[name].pop("default", None)
        if "required" in each:
            each["required"] = [name for name in each["required"] if name not in nullable]
    return schema


_NULL: Json = {"type": "null"}

_MEANINGS: Mapping[int, str] = {
    400: "The request cannot be used as given; the sentence says what to correct.",
    401: "Nobody is signed in, or the credential has ended.",
    403: "Not from this host or origin, or not with these rights.",
    404: "There is no such thing, or it is not the caller's to see.",
    409: "It stands otherwise than the request expects.",
    413: "The body is too large.",
    415: "The body is of a kind that is not read here.",
    429: "Too much at once; ask again later.",
    500: "The request failed; it was logged.",
    503: "Database or broker did not answer in time; ask again.",
}

_RETRY_AFTER = {"Retry-After": "Seconds to wait before asking again."}


def _error(status: int, form: type[BaseModel]) -> Answer:
    headers: Mapping[str, str] = {}
    if status in {429, 503}:
        headers = _RETRY_AFTER
    elif status == 401:
        headers = {"WWW-Authenticate": "`Bearer`."}
    return Answer(
        status,
        _MEANINGS[status],
        form,
        headers=headers,
        occasional_headers=_RETRY_AFTER if status in {409, 500} else {},
        name=f"{form.__name__}{status}",
    )
