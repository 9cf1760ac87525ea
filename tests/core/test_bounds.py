"""A job is held against every bound before anything else looks at it."""

import time
from typing import Any

import pytest

from documents.bounds_page import BOUNDS
from headnode.core.model import bounds as b
from headnode.core.model.bounds import Bound
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, GroupEdge, JobSpec, Licence
from headnode.core.model.job_checks import check_job
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import Distribution, TaskSpec, TaskType


def job(task: dict[str, Any] | None = None, **options: Any) -> JobSpec:
    return JobSpec(tasks=(TaskSpec(**({"command": "true"} | (task or {}))),), **options)


def texts(name: str, bound: Bound) -> list[Any]:
    return [
        pytest.param({name: "x" * size}, size <= bound.most, id=f"{name}-{size}")
        for size in (bound.most, bound.most + 1)
    ]


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        *texts("name", b.NAME),
        *texts("project", b.NAME),
        *texts("template", b.NAME),
        *texts("job_group", b.NAME),
        *texts("run_as", b.NAME),
        *texts("description", b.NOTE),
        *texts("email", b.ADDRESS),
    ],
)
def test_texts_of_a_job_have_bounds(options: dict[str, str], fits: bool) -> None:
    _held(job(**options), fits)


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        *texts("name", b.NAME),
        *texts("command", b.COMMAND),
        *texts("node_group", b.NAME),
        *texts("standard_output", b.PATH),
        *texts("work_directory", b.PATH),
        ({"command": "ä" * (b.COMMAND.most // 2 + 1)}, False),
        ({"environment": {"A": "x" * (b.VARIABLE.most - 2)}}, True),
        ({"environment": {"A": "x" * b.VARIABLE.most}}, False),
        ({"environment": {f"A{number}": "x" * 100_000 for number in range(11)}}, False),
        ({"properties": {f"A{number}": "x" * 60_000 for number in range(20)}}, False),
        ({"depends_on": ("x",) * (b.LIST.most + 1)}, False),
        ({"valid_exit_codes": ((0, 0),) * (b.SHORT_LIST.most + 1)}, False),
        ({"needs": NodeNeeds(names=("x" * (b.NAME.most + 1),))}, False),
        ({"needs": NodeNeeds(features=(("x" * (b.NAME.most + 1),),))}, False),
        ({"needs": NodeNeeds(patterns=("x" * (b.PATTERN.most + 1),))}, False),
        ({"distribution": Distribution(geometry=(tuple(range(b.GEOMETRY.most + 1)),))}, False),
        ({"group": 2**60}, False),
        ({"run_time": Seconds(1e11)}, False),
        ({"kind": TaskType.SWEEP, "start": 2**70, "end": 2**70}, False),
        ({"kind": TaskType.SWEEP, "start": 1, "end": 2, "increment": 2**64}, False),
    ],
)
def test_texts_lists_and_numbers_of_a_task_have_bounds(options: dict[str, Any], fits: bool) -> None:
    _held(job(options), fits)


@pytest.mark.parametrize(
    "options",
    [
        {"requested_nodes": ("n",) * (b.LIST.most + 1)},
        {"requested_nodes": ("n" * (b.NAME.most + 1),)},
        {"licences": (Licence("x" * (b.NAME.most + 1), 1),)},
        {"licences": (Licence("x", 2**40),)},
        {"parents": (2**63,)},
        {"group_edges": (GroupEdge(2**63, 1),)},
        {"group_edges": (GroupEdge(1, 2),) * (b.LIST.most + 1)},
        {"alternatives": (Alternative(requested_nodes=("n" * (b.NAME.most + 1),)),)},
        {"environment": {"A": "x" * b.VARIABLE.most}},
        {"run_time": Seconds(1e300)},
    ],
)
def test_lists_and_numbers_of_a_job_have_bounds(options: dict[str, Any]) -> None:
    _held(job(**options), False)


def test_a_job_has_so_many_tasks_and_bytes() -> None:
    _held(JobSpec(tasks=(TaskSpec(command="x"),) * (b.TASKS_OF_JOB.most + 1)), False)
    _held(JobSpec(tasks=(TaskSpec(command="x" * b.COMMAND.most),) * 130), False)


def test_a_name_of_a_megabyte_is_refused_at_once() -> None:
    began = time.process_time()
    _held(job(name="x" * 1_000_000), False)
    assert time.process_time() - began < 1.0


def _held(spec: JobSpec, fits: bool) -> None:
    if fits:
        check_job(spec)
        return
    with pytest.raises(BadRequest) as refused:
        check_job(spec)
    assert len(refused.value.what) < 500


def test_every_bound_is_in_the_table_once() -> None:
    rows = [row for _, rows in BOUNDS for row in rows]
    named = [value for value in vars(b).values() if isinstance(value, Bound)]
    assert len({row.what for row in rows}) == len(rows) == len(named)
    assert set(rows) == set(named)
