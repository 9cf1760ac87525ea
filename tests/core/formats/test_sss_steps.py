"""Tasks that wait for each other become jobs of an SSS job group, in the same order."""

import json

import pytest

from headnode.core.formats.dialects import ReadJobs, ReadOptions, convert, read, write_together
from headnode.core.formats.fidelity import Fidelity, lossy_items
from headnode.core.formats.sss.conversion.document_writing import steps_of
from headnode.core.model.dependency import Condition
from headnode.core.model.job import Alternative, GroupEdge, JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec, TaskType

CHAIN = (TaskSpec(name="a", command="/bin/a"), TaskSpec(name="b", command="/bin/b", depends_on=("a",)))


def order_of(reading: ReadJobs) -> set[tuple[str, str, Condition]]:
    """Which job waits for which, by their names, and how."""
    names = [job.name for job in reading.jobs]
    return {(names[link.child], names[link.parent], link.condition) for link in reading.links}


@pytest.mark.parametrize("dialect", ["sss", "sss-3.0"])
def test_the_order_of_a_grid_graph_is_kept_by_dependencies_of_a_job_group(dialect: str) -> None:
    children = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
    tasks = [
        {"id": name, "children": below, "definition": {"version": 2, "executable": f"/bin/{name}"}}
        for name, below in children.items()
    ]
    text = json.dumps({"version": 2, "description": "graph", "tasks": tasks})
    _, _, (written, report) = convert(text, ReadOptions(), dialect)
    back = read(written)
    success = Condition.ON_SUCCESS
    assert order_of(back) == {
        (child, parent, success) for parent, below in children.items() for child in below
    }
    assert {job.job_group for job in back.jobs} == {"graph"}
    assert [job.tasks[0].command for job in back.jobs] == ["/bin/a", "/bin/b", "/bin/c", "/bin/d"]
    assert not [item for item in lossy_items(report) if "depends_on" in item.what]


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({}, Condition.ON_EXIT),
        ({"fail_dependent_tasks": True}, Condition.ON_SUCCESS),
        ({"fail_on_task_failure": True}, Condition.ON_SUCCESS),
    ],
)
def test_a_step_waits_for_success_only_where_a_failed_task_stops_those_behind_it(
    fields: dict[str, bool], condition: Condition
) -> None:
    steps = steps_of(JobSpec(tasks=CHAIN, **fields))  # of the test itself
    assert steps is not None
    assert [(link.child, link.parent, link.condition) for link in steps.links] == [(1, 0, condition)]


def test_what_means_something_else_in_each_step_is_reported() -> None:
    spec = JobSpec(
        name="j", tasks=CHAIN, run_time=Seconds(60), single_node=True, maximum=4, notify_on_start=True
    )
    steps = steps_of(spec)
    assert steps is not None
    assert {item.what.partition(":")[0] for item in steps.report if item.kind is Fidelity.APPROXIMATED} == {
        "run_time",
        "single_node",
        "maximum",
        "notify_on_start",
    }
    assert {job.job_group for job in steps.jobs} == {"j"}


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(tasks=CHAIN, alternatives=(Alternative(minimum=1),)),
        JobSpec(tasks=(*CHAIN, TaskSpec(kind=TaskType.NODE_PREP, command="/bin/p"))),
        JobSpec(
            tasks=(CHAIN[0], TaskSpec(name="c", command="/bin/c", group=2), CHAIN[1]),
            group_edges=(GroupEdge(1, 2),),
        ),
    ],
)
def test_an_order_that_a_job_group_cannot_keep_is_reported_as_lost(spec: JobSpec) -> None:
    assert steps_of(spec) is None
    report = write_together(ReadJobs(dialect="native", jobs=(spec,), links=(), report=()), "sss")[1]
    assert [
        item.what for item in lossy_items(report) if item.what.startswith("depends_on: not available in SSS")
    ]


def test_tasks_that_do_not_wait_stay_one_job() -> None:
    assert steps_of(JobSpec(tasks=(CHAIN[0], TaskSpec(command="/bin/c")))) is None
