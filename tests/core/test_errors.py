"""Errors: what programs get of them is what commands and clients act on."""

import ast
from pathlib import Path

import pytest

import headnode
from headnode.apps.client.failures import refusal_in
from headnode.core.formats.slash_terms import read_terms
from headnode.core.model.errors import (
    BadRequest,
    Broken,
    ErrorClass,
    HeadnodeError,
    NotAllowed,
    NotFound,
    Refused,
    Unavailable,
    WrongState,
)

CLASSES = {
    BadRequest: ("bad-input", 2),
    NotAllowed: ("not-allowed", 1),
    NotFound: ("not-found", 1),
    WrongState: ("conflict", 1),
    Unavailable: ("busy", 1),
    Broken: ("fault", 1),
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_error_says_its_class_and_the_exit_status_follows_from_it(kind: type[HeadnodeError]) -> None:
    answer = kind(code="c", what="it failed", fix="do so", path=("tasks", 1)).as_fields()
    assert (answer["class"], answer["exit_status"]) == CLASSES[kind]
    assert (answer["code"], answer["what"], answer["fix"], answer["path"]) == (
        "c",
        "it failed",
        "do so",
        ["tasks", 1],
    )


def test_the_page_of_the_protocol_has_each_class_with_its_exit_status() -> None:
    page = (Path(__file__).parents[2] / "docs" / "contracts" / "01-local-protocol.md").read_text()
    for each in ErrorClass:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{each}` |"))
        assert row.endswith(f"| {each.exit_status} |")


def test_every_class_is_that_of_one_error() -> None:
    assert {name for name, _ in CLASSES.values()} == {each.value for each in ErrorClass}


@pytest.mark.parametrize(
    "kind", [BadRequest, NotAllowed, NotFound, WrongState], ids=lambda kind: kind.__name__
)
def test_a_client_raises_a_refusal_as_the_error_that_it_was(kind: type[Refused]) -> None:
    found = kind(code="c", what="it failed", path=("terms", "runtime")).as_fields()
    again = refusal_in(found)
    assert type(again) is kind
    assert again.as_fields() == found


READERS = {"match", "fullmatch", "search", "finditer", "findall", "split", "partition", "startswith", "index"}
SENTENCES = ("what", "sentence")  # attributes of an error


def test_no_code_reads_the_sentences_of_errors() -> None:
    """What an error is about is in its code, path and place, so that its sentence can be reworded."""
    sources = [path.read_text() for path in Path(headnode.__file__).parent.rglob("*.py")]
    calls = [
        node
        for source in sources
        if any(f".{name}" in source for name in SENTENCES)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
    ]
    readers = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in READERS]
    assert readers
    assert [ast.unparse(call) for call in readers if any(map(_is_sentence, (call.func, *call.args)))] == []


def _is_sentence(node: ast.expr) -> bool:
    """Whether it is the sentence of an error, or a method of it."""
    return any(isinstance(one, ast.Attribute) and one.attr in SENTENCES for one in ast.walk(node))


@pytest.mark.parametrize(
    ("job", "tasks", "path"),
    [
        ({"runtime": "soon"}, [], ("terms", "runtime")),
        ({"prioritty": "1"}, [], ("terms", "prioritty")),
        ({}, [{"command": "x"}, {"command": "y", "runtime": "soon"}], ("tasks", 1, "runtime")),
        ({}, [{"comand": "x"}], ("tasks", 0, "comand")),
        ({"numprocessors": "1", "numnodes": "1"}, [], ("terms",)),
    ],
)
def test_an_option_that_is_wrong_is_found_by_its_path(
    job: dict[str, str], tasks: list[dict[str, str]], path: tuple[str | int, ...]
) -> None:
    with pytest.raises(BadRequest) as caught:
        read_terms(job, tasks)
    assert caught.value.path == path
