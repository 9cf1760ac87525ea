"""What node filters read and write: nothing is lost on the way, and nothing wrong is let through."""

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.launching.environment import SHEPHERD_MARKER, TASK_MARKER
from headnode.core.launching.node_filters import (
    NodeFilterInput,
    NodeFilterResult,
    affinity,
    apply_answer,
    command_line,
    question_at_start,
)
from headnode.core.launching.recipe import Recipe
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import JobId
from headnode.core.model.task import argv_of

OURS = {TASK_MARKER: "7.1.1.1", SHEPHERD_MARKER: "abc"}
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
recipes = st.builds(
    Recipe,
    argv=st.one_of(
        st.lists(texts, min_size=1, max_size=4).map(tuple), texts.map(lambda text: ("/bin/sh", "-c", text))
    ),
    environment=st.dictionaries(texts.filter(lambda n: n and "=" not in n), texts).map(
        lambda e: {**e, **OURS}
    ),
    work_directory=st.just("/home/ada"),
    stdin=st.sampled_from(("", "/in")),
    stdout=st.sampled_from(("", "/out")),
    stderr=st.just(""),
    private=st.booleans(),
)
processors = st.sets(st.integers(0, 200)).map(lambda found: tuple(sorted(found)))
questions = st.builds(
    NodeFilterInput,
    job=st.just(JobId(7)),
    task=st.integers(1, 9),
    attempt=st.integers(1, 9),
    user=st.just("ada"),
    recipe=recipes,
    processors=processors,
    held=st.just((0, 1)),
)
PLAIN = NodeFilterInput(
    JobId(7), 2, 3, "ada",
    Recipe(("prog", "one two"), {"A": "b", **OURS}, "/home/ada", "", "/home/ada/out", ""),
    (1, 64), (0, 1),
)  # fmt: skip


def answer(asked: NodeFilterInput = PLAIN, **start: Any) -> NodeFilterResult:
    """Return what becomes of a task whose filter changes these of m_Item2."""
    reply = json.loads(question_at_start(asked))
    reply["m_Item2"].update(start)
    return apply_answer(asked, json.dumps(reply).encode())


@given(questions)
def test_a_filter_that_says_what_it_reads_changes_nothing(asked: NodeFilterInput) -> None:
    assert apply_answer(asked, question_at_start(asked).encode()) == NodeFilterResult(
        asked.recipe, asked.processors
    )


@given(st.one_of(st.binary(max_size=40), st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(
        st.sampled_from(("m_Item2", "m_Item3", "commandLine", "affinity", "environmentVariables", "")),
        inner, max_size=4,
    )),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_whatever_a_filter_says_is_understood_or_refused_as_the_filters_fault(text: bytes) -> None:
    try:
        found = apply_answer(PLAIN, text)
    except BadRequest:
        return
    assert {**found.recipe.environment, **OURS} == found.recipe.environment


def test_the_shape_is_that_of_the_linux_node_manager() -> None:
    reply = json.loads(question_at_start(PLAIN))
    assert list(reply) == ["m_Item1", "m_Item2", "m_Item3"]
    assert reply["m_Item1"] == {"JobId": 7, "TaskId": 2, "ResIds": [0, 1]}
    assert reply["m_Item2"] == {
        "commandLine": "prog 'one two'",
        "stdin": "",
        "stdout": "/home/ada/out",
        "stderr": "",
        "workingDirectory": "/home/ada",
        "environmentVariables": {"A": "b", **OURS},
        "affinity": [2, 1],
        "taskRequeueCount": 2,
        "inputFiles": "",
        "outputFiles": "",
    }
    assert reply["m_Item3"] == "ada"


def test_each_field_can_be_changed_and_paths_are_below_the_new_directory() -> None:
    found = answer(
        commandLine="wrap prog | cat",
        workingDirectory="sub",
        stdin="in",
        stdout="",
        stderr="/err",
        environmentVariables={"C": "d"},
        affinity=[-(2**63), 3],
    )
    recipe = found.recipe
    assert recipe.argv == ("/bin/sh", "-c", "wrap prog | cat")
    assert (recipe.work_directory, recipe.stdin) == ("/home/ada/sub", "/home/ada/sub/in")
    assert (recipe.stdout, recipe.stderr) == ("", "/err")
    assert recipe.environment == {"C": "d", **OURS}
    assert found.processors == (63, 64, 65)


def test_what_is_left_out_or_null_stays_as_it_was() -> None:
    assert apply_answer(PLAIN, b'{"m_Item2": {"stdin": null, "affinity": null}}') == NodeFilterResult(
        PLAIN.recipe, (1, 64)
    )


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "command": ({"commandLine": 5}, "commandLine that is not text"),
    "environment": ({"environmentVariables": {"A": 5}}, "environmentVariables that are not"),
    "name": ({"environmentVariables": {"A=B": "5"}}, "variable with the name 'A=B'"),
    "no name": ({"environmentVariables": {"": "5"}}, "variable with the name ''"),
    "affinity": ({"affinity": ["1"]}, "affinity that is not a list"),
    "large affinity": ({"affinity": [2**64]}, "affinity that is not a list"),
    "true affinity": ({"affinity": [True]}, "affinity that is not a list"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_what_is_of_another_type_is_refused_by_its_name(case: str) -> None:
    start, why = WRONG[case]
    with pytest.raises(BadRequest, match=why):
        answer(**start)


def test_no_filter_makes_a_task_somebody_elses_or_has_another_directory_removed() -> None:
    with pytest.raises(BadRequest, match="changes the user from 'ada' to 'root', which no filter may"):
        apply_answer(PLAIN, json.dumps({**json.loads(question_at_start(PLAIN)), "m_Item3": "root"}).encode())
    private = NodeFilterInput(
        JobId(7), 1, 1, "ada", Recipe(("x",), dict(OURS), "/t/own", "", "", "", True), (), ()
    )
    with pytest.raises(BadRequest, match="changes the work directory of a task that has one of its own"):
        answer(private, workingDirectory="/home/ada")
    assert answer(private, commandLine="y").recipe.work_directory == "/t/own"


@given(st.lists(texts, min_size=1, max_size=4))
def test_a_command_line_runs_the_words_it_was_made_of(words: list[str]) -> None:
    argv = argv_of(command_line(words))
    assert list(argv) == words or shlex.split(argv[2]) == words or words[:2] == ["/bin/sh", "-c"]


@given(processors)
def test_affinity_shows_every_processor_in_signed_words(found: tuple[int, ...]) -> None:
    words = affinity(found)
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert found == tuple(
        at * 64 + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1
    )


def test_an_answer_that_is_too_deep_is_refused_as_other_text_that_cannot_be_read() -> None:
    with pytest.raises(BadRequest, match="not JSON"):
        apply_answer(PLAIN, b'{"m_Item2": ' + 5000 * b"[" + 5000 * b"]" + b"}")
