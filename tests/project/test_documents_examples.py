"""What the documents say of names, states and job files is what the code does."""

import re
import runpy
from itertools import chain
from pathlib import Path

import pytest

from headnode.apps.server.api.nodes import node_state
from headnode.core.formats.fidelity import Awareness, Fidelity
from headnode.core.formats.hpc_xml.composite_fields import state_word
from headnode.core.formats.hpc_xml.reading import read_job
from headnode.core.launching.environment import LaunchContext, launcher_variables
from headnode.core.launching.recipe import recipe
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec
from headnode.core.model.job_checks import check_runnable
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import ANCHORS, Instant, JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.groups import GroupState
from headnode.core.state.node_record import NodeRecord
from headnode.core.state.transitions import STATE_NAMES, JobState, TaskState
from headnode.engine.parameters import PARAMETERS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("start.md", "users.md", "administrators.md", "job-files.md", "words.md", "README.md")
XML = re.compile(r"^```xml\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (.*) \|$", re.MULTILINE)
OURS = re.compile(r"(?:CCP|HEADNODE)_[A-Z_]+")


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """Return the cells of the table rows below a heading, by their first cell."""
    _, _, below = (DOCS / page).read_text().partition(f"## {heading}\n")
    assert below, f"{page} has no section {heading!r}"
    section = below.split("\n## ")[0]
    cells = [re.split(r"\s*\|\s*", row.strip()) for row in ROW.findall(section)]
    return {row[0].strip("`"): row[1:] for row in cells}


def all_variables() -> set[str]:
    """Return the names of all variables that the scheduler sets for the tasks of a job."""
    spec = JobSpec(tasks=(TaskSpec(command="x"), TaskSpec(command="x", kind=TaskType.SWEEP, end=3)))
    around = LaunchContext(
        state_directory="/state",
        agent="/run/hn.sock",
        job=JobId(7),
        spec=spec,
        node="n",
        cluster="c",
        scheduler="c",
        base={"HOME": "/h"},
        previous_job=JobId(6),
    )
    made = [recipe(around, n, task, (("n", (0,)),), 1, 1) for n, task in enumerate(spec.tasks, 1)]
    launchers = [name for name in launcher_variables("", "", "", "", "") if OURS.fullmatch(name)]
    return {*chain.from_iterable(each.environment for each in made), *launchers} - {"HOME"}


def test_every_parameter_has_a_row_with_its_default_and_bounds() -> None:
    table = rows("administrators.md", "Parameters")
    for parameter in PARAMETERS.values():
        default, bounds, _ = table[parameter.name]
        shown = f"{parameter.default} {parameter.unit}".strip() or "none"
        assert default.strip("`") == shown
        if parameter.choices:
            assert bounds == ", ".join(f"`{choice}`" for choice in parameter.choices)
        if parameter.least is not None and parameter.most is not None:
            assert bounds == f"{parameter.least:.12g} to {parameter.most:.12g}"
    assert set(table) - {"name", "---"} == {parameter.name for parameter in PARAMETERS.values()}


def test_every_variable_that_a_task_gets_is_explained_and_no_other() -> None:
    table = rows("users.md", "What a task finds around it")
    assert {name for cell in table for name in OURS.findall(cell)} == all_variables()


def test_every_state_of_a_group_and_every_condition_is_explained() -> None:
    table = rows("users.md", "Jobs that wait for each other")
    assert [state for state in table if state in set(GroupState)] == list(GroupState)
    found = " ".join(cells[0] for cells in table.values())
    for condition, field in DEPENDENCY_FIELDS.items():
        assert f"`{condition}`" in found.replace("SSS ", "")
        assert f"`{field}`" in found


@pytest.mark.parametrize("state", JobState)
def test_every_state_of_a_job_has_its_words(state: JobState) -> None:
    people, ccs, hpc, _ = rows("words.md", "States of jobs")[state.value]
    assert (people, ccs, hpc) == (STATE_NAMES[state], state_word(state, "ccs"), state_word(state, "hpcpack"))


def test_the_states_of_tasks_are_those_of_jobs_and_dispatched() -> None:
    jobs = {state.value: STATE_NAMES[state] for state in JobState}
    tasks = {state.value: STATE_NAMES[state] for state in TaskState}
    for of_jobs_only in ("validating", "handed", "suspending", "suspended", "resuming"):
        del jobs[of_jobs_only]
    assert tasks == {**jobs, "dispatched": "Queued"}
    assert "**dispatched**" in (DOCS / "words.md").read_text()


@pytest.mark.parametrize("state", NodeState)
def test_every_state_of_a_node_has_its_words(state: NodeState) -> None:
    people = rows("words.md", "States of nodes")[state.value][0]
    record = NodeRecord(NodeFacts(name="n", processors=1), state, Instant(0))
    assert people == ("–" if state is NodeState.REMOVED else node_state(ClusterState(), record, Instant(0)))


def test_every_priority_that_has_a_name_is_reported_with_its_number() -> None:
    page = (DOCS / "users.md").read_text()
    assert [name for name, number in ANCHORS.items() if f"`{name}` {number}" not in page] == []


def xml_examples() -> list[tuple[str, str]]:
    """Return (page, text) of every job file that a page shows."""
    return [(page, text) for page in PAGES for text in XML.findall((DOCS / page).read_text())]


@pytest.mark.parametrize(("page", "text"), xml_examples())
def test_every_job_file_that_is_shown_is_understood_in_full(page: str, text: str) -> None:
    spec, report = read_job(text, awareness=Awareness.REJECT)
    check_runnable(spec)
    assert [item for item in report if item.kind is not Fidelity.NOTE] == []


def test_there_are_job_files_to_look_at() -> None:
    assert len(xml_examples()) >= 3


def test_the_picture_of_a_terminal_is_drawn_from_its_text() -> None:
    drawn = runpy.run_path(str(DOCS / "pictures" / "terminal.py"))["drawn"]
    lines = (DOCS / "pictures" / "explain.txt").read_text().splitlines()
    picture = (DOCS / "pictures" / "explain.svg").read_text()
    assert picture == drawn(lines, f"What a terminal shows: {lines[0][2:]}") + "\n"


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [
        page for page in DOCS.rglob("*.md") if page.parent.name != "decisions" and page.name != "README.md"
    ]
    assert [str(page.relative_to(DOCS)) for page in pages if f"({page.relative_to(DOCS)})" not in index] == []


def test_every_decision_is_in_its_index() -> None:
    index = (DOCS / "decisions" / "README.md").read_text()
    assert [page.name for page in (DOCS / "decisions").glob("0*.md") if f"({page.name})" not in index] == []
