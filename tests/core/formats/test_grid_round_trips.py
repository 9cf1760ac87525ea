"""What a grid description says survives being read and written, and what it cannot say is reported."""

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.fidelity import lossy_items
from headnode.core.formats.grid import JOB, TASK, GridOptions, read_job, write_job
from headnode.core.formats.grid.command_lines import join, split
from headnode.core.formats.hpc_xml import HPC
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge, JobSpec, UnitType
from headnode.core.model.quantities import Seconds
from headnode.core.model.staging import transfers_of
from headnode.core.model.task import Distribution, TaskSpec, TaskType, argv_of

from . import grid_documents as documents
from . import specs

MANY = settings(max_examples=share_of(100), deadline=None, suppress_health_check=list(HealthCheck))
SAID_WHEN_READ = re.compile(
    r"(is set to an empty value, not removed|variables in a path are not replaced there)"
    r"( \(\d+ times, here first\))?$"
)
ACTED_ON = re.compile(r"%[A-Za-z_][A-Za-z0-9_.()]*%")


def read(found: Any) -> JobSpec:
    return read_job(json.dumps(found))[0]


@given(documents.jobs())
@MANY
def test_every_job_that_was_read_is_written_without_loss_and_read_as_the_same(found: dict[str, Any]) -> None:
    spec = read(found)
    text, report = write_job(spec)
    assert [item for item in lossy_items(report) if not SAID_WHEN_READ.search(item.what)] == []
    assert read_job(text)[0] == spec


@given(documents.definitions)
@MANY
def test_every_task_that_was_read_is_written_without_loss_and_read_as_the_same(found: dict[str, Any]) -> None:
    spec = read(found)
    assert spec.dialect == TASK
    assert read_job(write_job(spec, TASK)[0])[0] == spec


@given(documents.jobs())
@MANY
def test_the_files_to_be_transferred_are_the_same_after_a_round_trip(found: dict[str, Any]) -> None:
    spec = read(found)
    again = read_job(write_job(spec)[0])[0]
    for one, other in zip(spec.tasks, again.tasks, strict=True):
        assert transfers_of(spec, one) == transfers_of(again, other)


@given(st.data())
@MANY
def test_any_job_is_written_as_one_that_can_be_read(data: st.DataObject) -> None:
    spec = data.draw(specs.jobs(HPC))
    assume(
        any(task.kind in (TaskType.BASIC, TaskType.SWEEP) and 0 < task.instances < 50 for task in spec.tasks)
    )
    assume(all(task.instances < 50 for task in spec.tasks))
    text, report = write_job(spec)
    try:
        again, _ = read_job(text)
    except BadRequest as no:
        assume(no.code != "dependency-circle")  # the job was wrong before it was written
        raise
    assert read_job(write_job(again)[0])[0] == again
    for field in ("run_time", "project", "licences", "node_groups", "order_by", "hold_until"):
        lost = getattr(spec, field) != getattr(JobSpec(), field)
        assert lost == any(item.what.startswith(f"{field}:") and item.where == "job" for item in report)


@given(st.lists(documents.words, max_size=4))
@MANY
def test_a_program_is_given_exactly_the_arguments_that_were_written(arguments: list[str]) -> None:
    words = ["/bin/prog", *arguments]
    command = join(words)
    assert ACTED_ON.search(command) is None
    assert list(argv_of(command)) == words
    assert split(command, 1) == (words, False, "")


@pytest.mark.parametrize(
    ("command", "count", "executable", "arguments"),
    [
        ("/bin/echo 'a b' c", 1, "/bin/echo", ["a b", "c"]),
        ("sort -n x", 1, "/bin/sh", ["-c", "sort -n x"]),
        ("/bin/a | /bin/b", 1, "/bin/sh", ["-c", "/bin/a | /bin/b"]),
        ("mpiexec -n 4 ./solve 1", 4, "./solve", ["1"]),
        ("mpiexec -n 4 ./solve 1", 2, "/bin/sh", ["-c", "mpiexec -n 4 ./solve 1"]),
        ("mpiexec -n 4 solve", 4, "/bin/sh", ["-c", "mpiexec -n 4 solve"]),
        ("/bin/x 'open", 1, "/bin/sh", ["-c", "/bin/x 'open"]),
    ],
)
def test_a_command_line_becomes_an_executable_and_arguments(
    command: str, count: int, executable: str, arguments: list[str]
) -> None:
    assert split(command, count)[0] == [executable, *arguments]


def written(spec: JobSpec, dialect: str = JOB) -> tuple[Any, list[str]]:
    text, report = write_job(spec, dialect)
    return json.loads(text), [f"{item.kind.value} {item.where}: {item.what}" for item in report]


def test_a_sweep_and_those_that_wait_for_it_are_written_task_by_task() -> None:
    sweep = TaskSpec(name="case", kind=TaskType.SWEEP, start=1, end=3, command="/bin/run *")
    last = TaskSpec(name="end", command="/bin/true", depends_on=("case",))
    found, report = written(JobSpec(tasks=(sweep, last), fail_on_task_failure=True))
    assert [(task["id"], task.get("children")) for task in found["tasks"]] == [
        ("case-1", ["end"]),
        ("case-2", ["end"]),
        ("case-3", ["end"]),
        ("end", None),
    ]
    assert [task["definition"]["arguments"] for task in found["tasks"][:3]] == [["1"], ["2"], ["3"]]
    assert "approximated task 'case': each instance of a sweep is written as a task" in report


def test_names_that_are_no_ids_are_kept_as_descriptions() -> None:
    tasks = (
        TaskSpec(name="Step one!", command="/bin/a"),
        TaskSpec(command="/bin/b"),
        TaskSpec(name="Step-one", command="/bin/c"),
    )
    found, _ = written(JobSpec(tasks=tasks))
    assert [(task["id"], task.get("description")) for task in found["tasks"]] == [
        ("Step-one-2", "Step one!"),
        ("task-2", None),
        ("Step-one", None),
    ]


def test_groups_of_tasks_that_wait_for_each_other_become_children() -> None:
    tasks = tuple(
        TaskSpec(name=name, command="/bin/a", group=group) for name, group in (("a", 1), ("b", 1), ("c", 2))
    )
    found, _ = written(JobSpec(tasks=tasks, group_edges=(GroupEdge(1, 2),)))
    assert [task.get("children") for task in found["tasks"]] == [["c"], ["c"], None]


def test_everything_a_grid_job_cannot_say_is_named() -> None:
    task = TaskSpec(
        name="a",
        command="/bin/a %HOME% | b",
        minimum=1,
        maximum=4,
        run_time=Seconds(60),
        rerunnable=True,
        standard_output="out.txt",
        required_nodes=("n1", "n2"),
        valid_exit_codes=((0, 2), (5, 5)),
        environment={"x": "1", "X": "2"},
        extensions={"odd": "1"},
    )
    _, report = written(
        JobSpec(
            project="p",
            unit=UnitType.NODE,
            tasks=(task,),
            minimum=2,
            single_node=True,
            extensions={"strange": "1"},
        )
    )
    assert report == [
        "not-supported job: project: a grid job has no such property",
        "not-supported job: minimum: a grid job has no such property",
        "not-supported task 'a': run_time: a grid task has no such property",
        "not-supported task 'a': rerunnable: a grid task has no such property",
        "not-supported task 'a': required_nodes: in a grid task they mean one of several hosts",
        "approximated task 'a': private_directory: a grid task always runs in a directory of its own",
        "translated task 'a': command: it is run with /bin/sh, because an executable must be a path",
        "approximated task 'a': command: %HOME% is not replaced there: it is not shell syntax",
        "approximated task 'a': maximum: a grid task has one size, which is its minimum",
        "approximated task 'a': minimum: a grid task counts processors, not nodes: the number is kept",
        "not-supported task 'a': standard_output: it is below the home directory, so it has no URL",
        "approximated task 'a': environment: 'x' becomes 'X'",
        "approximated task 'a': valid_exit_codes: only those from 0 to 2 can be written",
        "not-supported task 'a': extension 'odd': a grid description has no place for it",
        "not-supported job: extension 'strange': a grid description has no place for it",
    ]


@pytest.mark.parametrize(
    ("spec", "dialect", "code"),
    [
        (JobSpec(), JOB, "no-tasks"),
        (JobSpec(tasks=(TaskSpec(command="a"), TaskSpec(command="b"))), TASK, "one-task"),
        (JobSpec(tasks=(TaskSpec(kind=TaskType.SWEEP, end=3, command="b"),)), TASK, "one-task"),
        (JobSpec(tasks=(TaskSpec(),)), TASK, "no-command"),
        (JobSpec(tasks=(TaskSpec(command="a"),)), "grids", "dialect"),
        (JobSpec(tasks=(TaskSpec(command="/bin/a \ud800"),)), JOB, "not-unicode"),
        (JobSpec(tasks=(TaskSpec(kind=TaskType.SWEEP, end=999_999, command="b"),)), JOB, "too-large"),
    ],
)
def test_what_cannot_be_written_at_all_is_refused(spec: JobSpec, dialect: str, code: str) -> None:
    with pytest.raises(BadRequest) as caught:
        write_job(spec, dialect)
    assert caught.value.code == code
    assert caught.value.fix


def test_a_thousand_tasks_that_wait_for_a_thousand_are_too_many_to_be_written() -> None:
    first = TaskSpec(name="a", kind=TaskType.SWEEP, end=999, command="/bin/a")
    tasks = (first, TaskSpec(name="b", kind=TaskType.SWEEP, end=999, command="/bin/b", depends_on=("a",)))
    with pytest.raises(BadRequest, match="too-large"):
        write_job(JobSpec(tasks=tasks))


def test_a_lenient_read_is_written_as_a_correct_description() -> None:
    loose = {"version": 2, "tasks": [{"id": "a", "executable": "/bin/hostname", "argumets": ["-f"]}]}
    spec, report = read_job(json.dumps(loose), GridOptions(lenient=True))
    assert spec.tasks[0].command == "/bin/hostname -f"
    assert any("'argumets' is not known: it is read as 'arguments'" in item.what for item in report)
    assert read_job(write_job(spec)[0])[0] == spec


@pytest.mark.parametrize("layout", [None, Distribution(nodes=1)])
def test_a_task_without_mpi_is_never_written_with_a_count_that_makes_it_mpi(
    layout: Distribution | None,
) -> None:
    task = TaskSpec(
        name="a", command="/bin/a", minimum=2, maximum=2, distribution=layout, private_directory=True
    )
    found, report = written(JobSpec(tasks=(task,)))
    assert found["tasks"][0]["definition"] == {"version": 2, "executable": "/bin/a"}
    assert report == [
        "approximated task 'a': minimum: a count above 1 means an MPI program: this program gets one"
        " processor"
    ]


@pytest.mark.parametrize("kind", ["single", "openmp", "hybrid", "mpi"])
def test_a_grid_task_keeps_the_jobtype_it_was_read_with(kind: str) -> None:
    definition = {"version": 2, "executable": "/bin/a", "count": 2, "jobtype": kind}
    found, report = written(read_job(json.dumps(definition))[0], TASK)
    assert found == definition
    assert report == []


def test_variables_of_a_grid_task_are_written_in_the_spelling_they_were_read_in() -> None:
    environment = {"foo": "1", "BAR": "2", "Qux": "3"}
    definition = {"version": 2, "executable": "/bin/a", "environment": environment}
    spec, _ = read_job(json.dumps(definition))
    assert spec.tasks[0].environment == {"FOO": "1", "BAR": "2", "QUX": "3"}
    found, report = written(spec, TASK)
    assert found["environment"] == environment
    assert report == []


def test_a_task_with_an_empty_queue_is_in_the_queue_of_its_job() -> None:
    tasks = [{"id": "a", "definition": {"version": 2, "executable": "b", "requirements": {"queue": ""}}}]
    spec = read({"version": 2, "tasks": tasks, "requirements": {"queue": "long"}})
    assert spec.template == "long"
