"""The OpenAPI document: made from the table of routes, so that it describes each of them and no other (pure), and the
route that serves it.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web
from pydantic import BaseModel

from services.gateway.http.keys import DOCUMENT
from services.gateway.http.routes import Answer, Json, Parameter, Route, concise_errors, plain_errors, typed_errors
from services.gateway.identity.cookies import DEFAULT_PORT, cookie_name

PATH = "/api/openapi.json"

_ABOUT = """\
Conversations of agents, readable and followable. Answers hold only what their caller may see; what a caller may not
see is answered as what does not exist. Errors are either a sentence (`PlainError`) or a sentence with a code for
programs (`TypedError`, `ConciseError`), by route. While authentication is disabled, everybody who passes the rules
about hosts and origins is the local user, and credentials are ignored. The WebSocket's messages stand in
`docs/protocol.md`.
"""

_COOKIE = "What signing in sets: `kandev_session`, on other ports than 8080 with `_<port>` behind it."
_SECURITY_SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A personal access token."},
    "query": {
        "type": "apiKey",
        "in": "query",
        "name": "token",
        "description": "A personal access token, for clients of the WebSocket that cannot set headers.",
    },
}

_ID: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00-\x1f\x7f]+$"}
_TEXT: Json = {"type": "string", "pattern": r"^[^\x00]*$"}
_VARIABLE = re.compile(r"\{(\w+)(?::[^{}]*)?\}")
_NO_STORE = "#/components/headers/NoStore"
_HEADER_SCHEMAS: Mapping[str, Json] = {"Retry-After": {"type": "integer", "minimum": 1}}
_LITERAL = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose values are data, not schemas."""


class ConflictingSchemas(ValueError):
    """Two different schemas have one name."""


def document(routes: Sequence[Route], port: int = DEFAULT_PORT) -> Json:
    """The OpenAPI 3.1 document of these routes, of a gateway on this port."""
    components = _Components()
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(_plain(route.path), {})[route.method.lower()] = _operation(route, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "kandev-conversation", "version": "1", "description": _ABOUT},
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "headers": {
                "NoStore": {
                    "description": "Nothing in between may keep the answer.",
                    "required": True,
                    "schema": {"const": "no-store"},
                }
            },
            "responses": components.responses,
            "schemas": components.schemas,
            "securitySchemes": {
                "cookie": {"type": "apiKey", "in": "cookie", "name": cookie_name(port), "description": _COOKIE},
                **_SECURITY_SCHEMES,
            },
        },
    }


def rendered(routes: Sequence[Route], port: int = DEFAULT_PORT) -> bytes:
    """The document as JSON, keys in order, so that equal routes give equal bytes."""
    found = document(routes, port)
    return orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


async def describe(request: web.Request) -> web.Response:
    """The document; 304 to who has it already."""
    body = request.app[DOCUMENT]
    tag = hashlib.sha256(body).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if any(known.value in {tag, "*"} for known in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, content_type="application/json", headers=headers)


class _Components:
    """What several operations share, under one name each."""

    def __init__(self) -> None:
        self.schemas: dict[str, Json] = {}
        self.responses: dict[str, Json] = {}

    def response(self, answers: Sequence[Answer]) -> Json:
        """The response for the answers of one status; one that has a name as a reference."""
        response = _response(answers, self)
        name = answers[0].name
        if len(answers) > 1 or not name:
            return response
        self.responses[name] = response
        return {"$ref": f"#/components/responses/{name}"}

    def schema(self, body: type[BaseModel] | Json) -> Json:
        """The schema with what it defines moved into the document; that of a model as a reference."""
        if isinstance(body, dict):
            return self._schema(body)
        schema = self._schema(body.model_json_schema())
        return schema if "$ref" in schema else self._name(body.__name__, schema)

    def _name(self, name: str, schema: Json) -> Json:
        if self.schemas.setdefault(name, schema) != schema:
            raise ConflictingSchemas(f"two schemas are called {name}: give one of them another name")
        return {"$ref": f"#/components/schemas/{name}"}

    def _schema(self, schema: Json) -> Json:
        """Without titles, which repeat the names, and with references to where the definitions go."""
        for name, definition in schema.get("$defs", {}).items():
            self._name(name, self._schema(definition))
        return {
            keyword: self._value(keyword, value)
            for keyword, value in schema.items()
            if keyword not in {"$defs", "title"}
        }

    # Any: what stands behind a keyword may be of every JSON type.
    def _value(self, keyword: str, value: Any) -> Any:
        if keyword in _LITERAL:
            return value
        if keyword in {"properties", "patternProperties"}:
            return {name: self._schema(each) for name, each in value.items()}
        if isinstance(value, dict):
            return self._schema(value)
        if isinstance(value, list):
            return [self._value(keyword, each) for each in value]
        if isinstance(value, str) and value.startswith("#/$defs/"):
            return value.replace("#/$defs/", "#/components/schemas/", 1)
        return value


def _operation(route: Route, components: _Components) -> Json:
    operation: Json = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "security": _security(route),
        "responses": _responses(route, components),
    }
    if route.access == "administrator":
        operation["description"] = "For administrators."
    if parameters := [_parameter(parameter) for parameter in _parameters(route)]:
        operation["parameters"] = parameters
    if route.body is not None:
        bodies = {route.body_media_type: route.body, **route.other_bodies}
        content = {media_type: {"schema": components.schema(body)} for media_type, body in bodies.items()}
        operation["requestBody"] = {"required": route.body_required, "content": content}
    return operation


def _plain(path: str) -> str:
    """The path with its variables by name alone, without the patterns that aiohttp takes."""
    return _VARIABLE.sub(r"{\1}", path)


def _operation_id(route: Route) -> str:
    return re.sub(r"\W+", "_", f"{route.method.lower()} {_plain(route.path)}").strip("_")


def _security(route: Route) -> list[Json]:
    if route.access == "public":
        return []
    schemes = ["cookie", "bearer", *(["query"] if route.path == "/ws" else [])]
    return [{scheme: []} for scheme in schemes]


def _parameters(route: Route) -> Iterable[Parameter]:
    told = {parameter.name: parameter for parameter in route.parameters if parameter.place == "path"}
    for name in _VARIABLE.findall(route.path):
        yield told.get(name) or Parameter(name, f"Id of the {name.removesuffix('_id')}.", "path", _ID)
    yield from (parameter for parameter in route.parameters if parameter.place != "path")


def _parameter(parameter: Parameter) -> Json:
    schema = _TEXT if parameter.schema == {"type": "string"} else parameter.schema
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "required": parameter.required or parameter.place == "path",
        "schema": {"type": "array", "items": schema, "uniqueItems": True} if parameter.repeated else schema,
    }


def _responses(route: Route, components: _Components) -> Json:
    own = {answer.status for answer in route.answers}
    answers: dict[int, list[Answer]] = {}
    for answer in (*route.answers, *(answer for answer in _common_errors(route) if answer.status not in own)):
        answers.setdefault(answer.status, []).append(answer)
    return {str(status): components.response(answers[status]) for status in sorted(answers)}


def _common_errors(route: Route) -> Iterable[Answer]:
    statuses = [400, 403, 500, 503]
    if route.access != "public":
        statuses.append(401)
    if route.body is not None:
        statuses.append(413)
    return _ERRORS[route.form](*statuses)


_ERRORS = {"plain": plain_errors, "typed": typed_errors, "concise": concise_errors}


def _response(answers: Sequence[Answer], components: _Components) -> Json:
    """Of all answers of one status; they may be of several media types."""
    response: Json = {"description": " ".join(dict.fromkeys(answer.description for answer in answers))}
    content: dict[str, list[Json]] = {}
    headers: Json = {}
    for answer in answers:
        if answer.body is not None:
            content.setdefault(answer.media_type, []).append({"schema": components.schema(answer.body)})
        elif answer.media_type not in {"", "application/json"}:
            content.setdefault(answer.media_type, []).append({})
        for told, required in ((answer.headers, True), (answer.occasional_headers, False)):
            for name, meaning in told.items():
                schema = _HEADER_SCHEMAS.get(name, {"type": "string"})
                headers[name] = {"description": meaning, "required": required and len(answers) == 1, "schema": schema}
    if content:
        response["content"] = {media_type: _either(each) for media_type, each in content.items()}
    response["headers"] = headers if "Cache-Control" in headers else {"Cache-Control": {"$ref": _NO_STORE}, **headers}
    return response


def _either(media: Sequence[Json]) -> Json:
    return media[0] if len(media) == 1 else {"schema": {"anyOf": [each["schema"] for each in media]}}


_CACHING = {"ETag": "Changes with the document.", "Cache-Control": "`no-cache`: ask each time whether it has changed."}

ROUTES = (
    Route(
        "GET",
        PATH,
        describe,
        "This document",
        "system",
        (
            Answer(200, "An OpenAPI 3.1 document.", {"type": "object"}, headers=_CACHING),
            Answer(304, "It is the one that `If-None-Match` names.", headers=_CACHING),
        ),
        "public",
        parameters=(Parameter("If-None-Match", "`ETag` of the document that the caller has.", "header"),),
    ),
)
