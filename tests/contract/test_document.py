"""The OpenAPI document: what it says of the routes, and where it is served."""

from pathlib import Path

import orjson
import pytest
import schemathesis
from aiohttp import web
from pydantic import BaseModel

from deploy.checks.generated import DOCS, settle
from services.gateway.http import controls, writers
from services.gateway.http.application import ROUTES, build
from services.gateway.http.openapi import ConflictingSchemas, document, rendered
from services.gateway.http.routes import Answer, Json, Parameter, Route, plain_errors, sparse, typed_errors
from tests.support.stack import Stack


async def _handler(_: web.Request) -> web.Response:
    raise NotImplementedError


class Row(BaseModel):
    """One row."""

    title: str
    note: str | None = None
    place: int | str | None


class Rows(BaseModel):
    """Rows, and rows in them."""

    rows: list[Row]
    more: "Rows | None" = None


def operation(route: Route) -> Json:
    found: Json = document([route])["paths"][route.path][route.method.lower()]
    return found


def made(**options: object) -> Route:
    given: dict[str, object] = {
        "method": "GET",
        "path": "/rows/{row_id}",
        "handler": _handler,
        "summary": "A row",
        "tag": "rows",
        "answers": (),
        **options,
    }
    return Route(**given)  # type: ignore[arg-type] # the tests' own options


def test_it_is_valid() -> None:
    schemathesis.openapi.from_dict(document(ROUTES)).validate()


def test_it_has_every_route_of_the_application_and_no_other() -> None:
    application = build(frozenset())
    routed = {
        (route.method.lower(), route.resource.canonical)
        for route in application.router.routes()
        if route.resource is not None
    }
    described = {(method, path) for path, methods in document(ROUTES)["paths"].items() for method in methods}
    assert described == routed
    assert len(described) == len(ROUTES)


def test_its_names_are_given_once() -> None:
    operations = [each for methods in document(ROUTES)["paths"].values() for each in methods.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    for each in operations:
        names = [(parameter["in"], parameter["name"]) for parameter in each.get("parameters", ())]
        assert len(set(names)) == len(names)


def test_the_copy_in_the_documentation_is_up_to_date() -> None:
    assert (DOCS / "openapi.json").read_bytes() == rendered(ROUTES)


def test_an_outdated_copy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.checks.generated.DOCS", tmp_path)
    assert settle("made.json", b"{}", "made", ["--check"]) == 1
    assert settle("made.json", b"{}", "made", []) == 0
    assert settle("made.json", b"{}", "made", ["--check"]) == 0
    assert settle("made.json", b"[]", "made", ["--check"]) == 1


async def test_it_is_served_to_everybody_and_not_twice_to_one(shared_stack: Stack) -> None:
    async with shared_stack.http.get(f"{shared_stack.url}/api/openapi.json") as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        port = answer.url.port or 0
        assert await answer.read() == rendered(ROUTES, port)
        tag = answer.headers["ETag"]
    for known, status in ((tag, 304), (f'"other", W/{tag}', 304), ("*", 304), ('"other"', 200), ("nonsense", 200)):
        async with shared_stack.http.get(
            f"{shared_stack.url}/api/openapi.json", headers={"If-None-Match": known}
        ) as answer:
            assert (known, answer.status, answer.headers["ETag"]) == (known, status, tag)
            assert answer.headers["Cache-Control"] == "no-cache"


def test_parameters_of_the_path_are_found_there() -> None:
    parameters = operation(made(parameters=(Parameter("limit", "Rows."),)))["parameters"]
    assert [(each["name"], each["in"], each["required"]) for each in parameters] == [
        ("row_id", "path", True),
        ("limit", "query", False),
    ]
    assert parameters[0]["schema"]["maxLength"] == 255


def test_what_a_route_says_of_a_parameter_of_its_path_counts() -> None:
    said = Parameter("row_id", "A number.", "path", {"type": "integer"})
    parameter = operation(made(parameters=(said,)))["parameters"][0]
    assert (parameter["description"], parameter["schema"]) == ("A number.", {"type": "integer"})


def test_a_path_is_shown_without_its_patterns() -> None:
    found = document([made(path="/files/{name:.*}")])["paths"]
    assert list(found) == ["/files/{name}"]
    assert found["/files/{name}"]["get"]["operationId"] == "get_files_name"


def test_a_repeated_parameter_is_a_list() -> None:
    schema = {"type": "string", "enum": ["a", "b"]}
    parameter = operation(made(parameters=(Parameter("kind", "Kinds.", schema=schema, repeated=True),)))
    assert parameter["parameters"][1]["schema"] == {"type": "array", "items": schema, "uniqueItems": True}


@pytest.mark.parametrize(
    ("options", "statuses"),
    [
        ({}, {"400", "401", "403", "500", "503"}),
        ({"access": "public"}, {"400", "403", "500", "503"}),
        ({"access": "administrator"}, {"400", "401", "403", "500", "503"}),
        ({"method": "POST", "body": Row}, {"400", "401", "403", "413", "500", "503"}),
        ({"answers": plain_errors(404)}, {"400", "401", "403", "404", "500", "503"}),
    ],
)
def test_errors_that_every_route_can_answer_with(options: dict[str, object], statuses: set[str]) -> None:
    assert set(operation(made(**options))["responses"]) == statuses


@pytest.mark.parametrize("form", ["plain", "typed"])
def test_errors_are_in_the_form_of_the_route(form: str) -> None:
    found = document([made(form=form)])
    name = f"{form.title()}Error"
    assert found["paths"]["/rows/{row_id}"]["get"]["responses"]["400"] == {"$ref": f"#/components/responses/{name}400"}
    content = found["components"]["responses"][f"{name}400"]["content"]
    assert content["application/json"]["schema"] == {"$ref": f"#/components/schemas/{name}"}


def test_an_error_that_looks_otherwise_is_told_so() -> None:
    answers = (Answer(503, "Not yet.", {"type": "object"}),)
    assert operation(made(answers=answers))["responses"]["503"]["description"] == "Not yet."


def test_headers_of_errors() -> None:
    responses = document([made(answers=typed_errors(409, 429))])["components"]["responses"]
    required = {
        name: {header: told["required"] for header, told in response["headers"].items() if "$ref" not in told}
        for name, response in responses.items()
    }
    assert required["PlainError401"] == {"WWW-Authenticate": True}
    assert required["PlainError503"] == required["TypedError429"] == {"Retry-After": True}
    assert required["PlainError500"] == required["TypedError409"] == {"Retry-After": False}
    assert required["PlainError400"] == {}


def test_nothing_is_kept_by_caches_unless_the_route_says_so() -> None:
    kept = Answer(200, "Kept.", headers={"Cache-Control": "`immutable`."})
    responses = operation(made(answers=(kept, Answer(204, "Nothing."))))["responses"]
    assert responses["200"]["headers"]["Cache-Control"]["description"] == "`immutable`."
    assert responses["204"]["headers"]["Cache-Control"] == {"$ref": "#/components/headers/NoStore"}


def test_who_may_ask() -> None:
    assert operation(made(access="public"))["security"] == []
    assert operation(made())["security"] == [{"cookie": []}, {"bearer": []}]
    assert operation(made(path="/ws"))["security"] == [{"cookie": []}, {"bearer": []}, {"query": []}]
    assert operation(made(access="administrator"))["description"] == "For administrators."


def test_the_cookie_is_that_of_the_gateway() -> None:
    """Browsers share cookies between the ports of a host, so each gateway has one of its own."""
    for port, name in ((8080, "kandev_session"), (9090, "kandev_session_9090")):
        scheme = document([made()], port)["components"]["securitySchemes"]["cookie"]
        assert (scheme["in"], scheme["name"]) == ("cookie", name)


def test_bodies_of_commands_have_no_further_fields() -> None:
    bodies = [route.body for route in (*writers.ROUTES, *controls.ROUTES) if isinstance(route.body, dict)]
    assert bodies
    assert all(body["additionalProperties"] is False for body in bodies)


def test_models_become_components_under_their_names() -> None:
    found = document([made(method="POST", body=Row, answers=(Answer(200, "Rows.", Rows),))])
    route = found["paths"]["/rows/{row_id}"]["post"]
    assert route["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Row"}
    assert route["responses"]["200"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Rows"}
    schemas = found["components"]["schemas"]
    assert schemas["Rows"]["properties"]["rows"]["items"] == {"$ref": "#/components/schemas/Row"}
    assert schemas["Row"]["properties"]["title"] == {"type": "string"}
    schemathesis.openapi.from_dict(found).validate()


def test_one_name_for_two_schemas_is_refused() -> None:
    other = {"$ref": "#/$defs/Row", "$defs": {"Row": {"type": "string"}}}
    with pytest.raises(ConflictingSchemas, match="Row"):
        document([made(method="POST", body=Row, answers=(Answer(200, "Another.", other),))])


def test_an_answer_of_several_kinds() -> None:
    answers = (
        Answer(200, "One.", {"type": "string"}),
        Answer(200, "Other.", {"type": "integer"}),
        Answer(200, "A file.", None, "application/zip"),
    )
    response = operation(made(answers=answers))["responses"]["200"]
    assert response["description"] == "One. Other. A file."
    assert response["content"] == {
        "application/json": {"schema": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        "application/zip": {},
    }


def test_fields_without_a_value_are_left_out() -> None:
    assert sparse(Row)["required"] == ["title"]
    note, place = (sparse(Row)["properties"][name] for name in ("note", "place"))
    assert note == {"type": "string", "title": "Note"}
    assert place == {"anyOf": [{"type": "integer"}, {"type": "string"}], "title": "Place"}


def test_equal_routes_give_equal_bytes() -> None:
    assert rendered(ROUTES) == rendered(ROUTES)
    assert orjson.loads(rendered(ROUTES)) == document(ROUTES)
