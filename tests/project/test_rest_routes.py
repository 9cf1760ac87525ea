"""The routes of the REST API have every verb, and keep what older documents promised."""

import copy
import json
import os
from pathlib import Path
from typing import Any, get_args

import pytest

from documents.openapi_changes import broken_promises
from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbKind
from headnode.apps.web.openapi import document, page
from headnode.apps.web.problems import problem_of
from headnode.apps.web.request_fields import LIST_PAGES
from headnode.core.model.errors import ErrorClass, NotFound
from headnode.protocol.rest_route import RestForm
from headnode.protocol.rest_routes import NOT_BY_REST, PREFIX, ROUTES
from headnode.protocol.stream_frames import NodeCommandLine

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "reference" / "openapi.json"
OLDER = sorted((ROOT / "tests" / "golden" / "rest").glob("*.json"))


def test_every_verb_has_a_route_or_a_reason_for_none() -> None:
    routed = {route.verb for route in ROUTES}
    assert routed | set(NOT_BY_REST) == set(VERBS)
    assert not routed & set(NOT_BY_REST)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_route_has_the_types_of_its_verb(route: Any) -> None:
    verb = VERBS[route.verb]
    answer = get_args(verb.answer)[0] if verb.kind is VerbKind.UPDATES else verb.answer
    answer = NodeCommandLine if route.verb == "run_on_nodes" else answer
    assert (route.request, route.answer) == (verb.request, answer)
    assert (route.form is RestForm.LINES) == (verb.kind is not VerbKind.ANSWER)
    assert (route.method == "GET") == (not verb.access.changes) or route.name in (
        "check_job",
        "check_created_job",
    )
    named = {part[1:-1] for part in route.path.split("/") if part.startswith("{")}
    assert named | set(route.fields) <= set(verb.request.__struct_fields__)


def test_names_and_places_of_routes_are_used_once() -> None:
    assert len({route.name for route in ROUTES}) == len(ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_what_guards_a_change_can_be_read() -> None:
    readable = {route.path for route in ROUTES if route.method == "GET" and route.form is RestForm.OBJECT}
    assert {route.guard for route in ROUTES if route.guard} <= readable


def test_the_document_of_the_reference_is_that_of_the_code() -> None:
    printed = json.dumps(document(), indent=1, sort_keys=True) + "\n"
    if os.environ.get("HEADNODE_BLESS"):
        DOCUMENT.write_text(printed)
    assert DOCUMENT.read_text() == printed


def test_the_document_has_every_route_and_no_reference_leads_nowhere() -> None:
    answer = document()
    assert {(method.upper(), path) for path, methods in answer["paths"].items() for method in methods} == {
        (route.method, PREFIX + route.path) for route in ROUTES
    }
    references = set(_references(answer))
    assert references
    assert references <= {f"#/components/schemas/{name}" for name in answer["components"]["schemas"]}
    assert all(route.summary in page() for route in ROUTES)


def test_the_type_of_every_problem_leads_to_a_part_of_the_page() -> None:
    for kind in ErrorClass:
        assert f'id="{kind.value}"' in page()
    problem = problem_of(NotFound(code="no-such-job", what="there is no job 7"))
    address, _, part = problem.type.partition("#")
    assert address == f"{PREFIX}/docs"
    assert f'id="{part}"' in page()


def _references(part: Any) -> Any:
    if isinstance(part, dict):
        yield from ([part["$ref"]] if "$ref" in part else [])
        for each in part.values():
            yield from _references(each)
    elif isinstance(part, list):
        for each in part:
            yield from _references(each)


@pytest.mark.parametrize("older", OLDER, ids=lambda path: path.stem)
def test_older_documents_still_hold(older: Path) -> None:
    assert broken_promises(json.loads(older.read_text()), document()) == []


def test_what_would_break_programs_is_noticed() -> None:
    old = json.loads(json.dumps(document()))
    assert broken_promises(old, old) == []
    for what, change in {
        "POST /api/v1/jobs is gone": lambda new: new["paths"]["/api/v1/jobs"].pop("post"),
        "GET /api/v1/jobs: takes query parameter owner no more": lambda new: _drop_parameter(new, "owner"),
        "GET /api/v1/jobs: query parameter limit has another type": lambda new: _parameter(
            new, "limit"
        ).update(schema={"type": "string"}),
        "GET /api/v1/jobs: requires query parameter owner": lambda new: _parameter(new, "owner").update(
            required=True
        ),
        "JobObject: has no owner any more": lambda new: _object(new, "JobObject").pop("owner"),
        "JobObject: owner has another type": lambda new: _object(new, "JobObject").update(
            owner={"type": "integer"}
        ),
        "PATCH /api/v1/jobs/{job}: takes the field terms no more": lambda new: new["paths"][
            "/api/v1/jobs/{job}"
        ]["patch"]["requestBody"]["content"]["application/json"]["schema"]["properties"].pop("terms"),
    }.items():
        new = copy.deepcopy(old)
        change(new)
        assert what in broken_promises(old, new)


def test_the_document_has_the_limits_of_lists_and_the_bodies_that_are_required() -> None:
    limits = {
        (path, each["schema"]["minimum"], each["schema"]["maximum"])
        for path, methods in document()["paths"].items()
        for each in methods.get("get", {}).get("parameters", ())
        if each["name"] == "limit" and not path.endswith("/output/{stream}")
    }
    assert (f"{PREFIX}/jobs", 1, 1000) in limits
    assert {route.verb for route in ROUTES if "limit" in route.request.__struct_fields__} <= {
        *LIST_PAGES,
        "read_output",
    }
    paths = document()["paths"]
    assert paths[f"{PREFIX}/jobs"]["post"]["requestBody"]["required"]
    assert not paths[f"{PREFIX}/created-jobs"]["post"]["requestBody"]["required"]


def _parameter(new: Any, name: str) -> Any:
    return next(each for each in new["paths"]["/api/v1/jobs"]["get"]["parameters"] if each["name"] == name)


def _drop_parameter(new: Any, name: str) -> None:
    new["paths"]["/api/v1/jobs"]["get"]["parameters"].remove(_parameter(new, name))


def _object(new: Any, name: str) -> Any:
    return new["components"]["schemas"][name]["properties"]
