"""The OpenAPI document of the REST API, and a page of its routes, made from the table of routes.

Source:  OpenAPI Specification 3.1.0; JSON Schema 2020-12.
"""

import html
import inspect
from functools import cache
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

import headnode
from headnode.apps.client.creating_questions import CREATING_QUESTIONS
from headnode.apps.web.problems import MEDIA_TYPE, Problem
from headnode.apps.web.request_fields import JOB_FILE_TYPES, JSON, LIST_PAGES
from headnode.core.model.errors import ErrorClass
from headnode.protocol.requests import VerbRequest
from headnode.protocol.rest_route import RestBody, RestForm, RestRoute
from headnode.protocol.rest_routes import PREFIX, ROUTES

Schema = dict[str, Any]
_REFERENCE: Final = "#/components/schemas/{name}"


@cache
def document() -> Schema:
    """Return the OpenAPI document."""
    answers = [route.answer for route in ROUTES]
    schemas = _schemas(*answers, Problem)
    for route in ROUTES:
        schemas |= _inside(route.request)
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headnode",
            "version": "1",
            "summary": "Jobs, nodes and settings of a compute cluster",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": dict(schemas),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _schemas(*types: type) -> dict[str, Schema]:
    """Return the schemas of types by their names.  Before 0.23 msgspec kept the indentation of docstrings."""
    _, schemas = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
    return schemas


def _operation(route: RestRoute) -> Schema:
    """Return what the document says of a route."""
    operation: Schema = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.path.split("/")[1]],
        "parameters": _parameters(route),
        "responses": {
            str(route.status): _answer(route),
            "default": {
                "description": "A problem",
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if route.body is not RestBody.QUERY:
        operation["requestBody"] = _body(route)
    return operation


def _fields(route: RestRoute, *, in_path: bool) -> dict[str, Schema]:
    """Return the schemas of the fields that are in the path, or of those that are elsewhere."""
    schema = _inlined(route.request)
    return {
        name: _with_page(route, each) if name == "limit" else each
        for name, each in schema["properties"].items()
        if name not in route.fields and (f"{{{name}}}" in route.path) is in_path
    }


def _with_page(route: RestRoute, limit: Schema) -> Schema:
    page_of = LIST_PAGES.get(route.verb)
    return limit if page_of is None else limit | {"minimum": 1, "maximum": page_of.most}


@cache
def _inlined(request: type[VerbRequest]) -> Schema:
    """Return the schema of a request; those of the objects inside it are components."""
    schemas = _schemas(request)
    schema: Schema = schemas[request.__name__]
    return schema


def _inside(request: type[VerbRequest]) -> Schema:
    """Return the schemas of the objects inside a request by their names."""
    schemas = _schemas(request)
    return {name: each for name, each in schemas.items() if name != request.__name__}


def _required(route: RestRoute) -> list[str]:
    return [
        name for name in _inlined(route.request).get("required", ()) if name in _fields(route, in_path=False)
    ]


def _parameters(route: RestRoute) -> list[Schema]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in _fields(route, in_path=True).items()
    ]
    if route.body is RestBody.QUERY:
        required = _required(route)
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": _plain(schema)}
            for name, schema in _fields(route, in_path=False).items()
        ]
    for name, description in _headers(route).items():
        parameters.append(
            {
                "name": name,
                "in": "header",
                "description": description,
                "schema": {"type": "string", "maxLength": 4096},
            }
        )
    return parameters


def _headers(route: RestRoute) -> dict[str, str]:
    """Return the headers that a route takes, and what each does."""
    headers: dict[str, str] = {}
    if route.verb in CREATING_QUESTIONS and route.method == "POST":
        headers["Idempotency-Key"] = "1 to 64 characters; a request with the same key is carried out once"
    if route.guard:
        headers["If-Match"] = "an entity tag: refused with 412 if what it changes has another now"
    if route.method == "GET" and route.form is RestForm.OBJECT:
        headers["If-None-Match"] = "an entity tag: answered with 304 if it is still the same"
    if route.form is RestForm.BYTES:
        headers["Range"] = "one range of bytes"
    return headers


def _plain(schema: Schema) -> Schema:
    """Return the schema of a field in a query, where there is no null: that is to leave it out."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(kinds) == 1:
        only: Schema = kinds[0]
        return only
    return {name: value for name, value in schema.items() if name != "default" or value is not None}


def _body(route: RestRoute) -> Schema:
    fields = _fields(route, in_path=False)
    required = _required(route)
    schema: Schema = {"type": "object", "properties": fields, "additionalProperties": False}
    if required:
        schema["required"] = required
    content: Schema = {JSON: {"schema": schema}}
    if route.body in (RestBody.JOB_FILE, RestBody.TEXT):
        content |= {kind: {"schema": {"type": "string"}} for kind in JOB_FILE_TYPES}
    return {"required": bool(required) or route.needs_body, "content": content}


def _answer(route: RestRoute) -> Schema:
    """Return what the document says of the answer that is no problem."""
    kind = "application/x-ndjson" if route.form is RestForm.LINES else JSON
    reference = {"$ref": f"#/components/schemas/{route.answer.__name__}"}
    if route.form is RestForm.BYTES:
        content = {"text/plain": {"schema": {"type": "string"}}, kind: {"schema": reference}}
        return {"description": "The bytes; or a part of them as JSON", "content": content}
    return {"description": route.summary, "content": {kind: {"schema": reference}}}


def document_routes() -> list[BaseRoute]:
    """Return the addresses of the document and of the page of routes; they need no log-in."""

    async def serve_document(request: Request) -> Response:  # noqa: ARG001
        return Response(msgspec.json.encode(document()), media_type=JSON)

    async def serve_page(request: Request) -> Response:  # noqa: ARG001
        return HTMLResponse(page())

    return [Route(f"{PREFIX}/openapi.json", serve_document), Route(f"{PREFIX}/docs", serve_page)]


@cache
def page() -> str:
    """Return the page of routes."""
    rows = "\n".join(
        f"<tr><td>{route.method}</td><td><code>{html.escape(PREFIX + route.path)}</code></td>"
        f"<td>{html.escape(route.summary)}</td><td>{html.escape(_takes(route))}</td></tr>"
        for route in ROUTES
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<title>REST API - Headnode</title></head>\n"
        f"<body><main><h1>REST API of Headnode {html.escape(headnode.__version__)}</h1>\n"
        f'<p><a href="{PREFIX}/openapi.json">OpenAPI document</a></p>\n'
        "<table><thead><tr><th>Method</th><th>Address</th><th>What it does</th><th>Fields</th></tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table>\n<h2>Errors</h2>\n<dl>\n{_errors()}\n</dl></main></body></html>\n"
    )


_REMEDIES: Final = {
    ErrorClass.BAD_INPUT: "Change the request: what is wrong is at path.",
    ErrorClass.NOT_ALLOWED: "Log in, or ask a user with the right.",
    ErrorClass.NOT_FOUND: "Name something that exists.",
    ErrorClass.CONFLICT: "Look at the state of the job or node first.",
    ErrorClass.BUSY: "Try again later, after the seconds of Retry-After.",
    ErrorClass.FAULT: "Report a bug.",
}


def _errors() -> str:
    """Return a part for each class of errors: the type of a problem leads there."""
    return "\n".join(
        f'<dt id="{kind.value}">{kind.value}</dt><dd>{html.escape(remedy)}</dd>'
        for kind, remedy in _REMEDIES.items()
    )


def _takes(route: RestRoute) -> str:
    required = _required(route)
    names = _fields(route, in_path=False)
    return ", ".join(name if name in required else f"[{name}]" for name in names)
