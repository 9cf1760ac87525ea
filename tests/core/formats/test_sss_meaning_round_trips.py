"""A job written as an SSS document and read again is the same, but for what the report lists."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from depth import share_of
from headnode.core.formats.fidelity import Fidelity, FidelityReport
from headnode.core.formats.sss import SssVersion, read_document, write_document
from headnode.core.formats.sss.conversion import document_of, jobs_in
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, JobSpec, Licence, NodeGroupOp, TaskAlternative, UnitType
from headnode.core.model.job_checks import check_job
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import FOREVER, Instant, Priority, Seconds
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec, TaskType

from .specs import elements, pairs, texts

MANY = settings(max_examples=share_of(150), deadline=None, suppress_health_check=list(HealthCheck))
LISTED = (Fidelity.NOT_SUPPORTED, Fidelity.APPROXIMATED, Fidelity.TRANSLATED)

words = st.sampled_from(["", "a", "b c", "d/e", "~/f", "$HOME/g", "~"])
commands = (
    st.sampled_from(
        [
            *(
                "/bin/date",
                "hostname",
                "/bin/echo 'a b' \"$X\"",
                "a | b > c",
                "exit 3",
                "~/bin/run -x 1",
                "x  y",
            ),
            *(
                "/bin/sh -c 'exit 3'",
                "A=1 /bin/env",
                "/bin/echo %HOME%",
                "prog --case *",
                "/p ^* ^^ x^y",
                "it's",
            ),
            *("./a.out '#b'", "#script", "http://host/x", "'/with blank/x' ''", "/p ***.dat", "", " "),
        ]
    )
    | texts
)
ids = st.lists(st.integers(1, 99), max_size=2, unique=True).map(tuple)
node_lists = st.lists(st.sampled_from(["n1", "n2", "n3"]), max_size=3).map(tuple)
spans = st.sampled_from([FOREVER, Seconds(60.0), Seconds(3600.0), Seconds(0.5), Seconds(1e10)])
either = st.sampled_from([(), (), ("a",), ("a", "b")])
needs = st.just(NodeNeeds()) | st.builds(
    NodeNeeds,
    names=st.sampled_from([(), (), ("n1",), ("n1", "n2")]),
    excluded=st.sampled_from([(), ("n9",)]),
    patterns=st.sampled_from([(), ("n.*",), ("n[1-3]", "m.*")]),
    excluded_patterns=st.sampled_from([(), ("x.*",)]),
    features=st.sampled_from([(), (("a",),), (("a", "b"),), (("a",), ("b", "c"))]),
    feature_patterns=st.sampled_from([(), ("gpu.*",)]),
    lacking=either,
    architectures=either,
    systems=either,
    minimum_memory=st.sampled_from([0, 0, 512]),
    minimum_disk=st.sampled_from([0, 7]),
    minimum_swap=st.sampled_from([0, 9]),
    minimum_speed=st.sampled_from([0, 0, 0, 1]),
)
placed = st.none() | st.sampled_from(
    [
        *(Distribution(), Distribution(per_node=2), Distribution(nodes=1), Distribution(nodes=3)),
        *(Distribution(round_robin=True), Distribution(nodes=2, round_robin=True)),
        *(Distribution(per_node=1, round_robin=True), Distribution(geometry=((1, 3), (2,)))),
    ]
)
limits = st.lists(
    st.builds(
        ResourceLimit,
        st.sampled_from(["cpu", "core", "nofile", "as", "strange"]),
        st.sampled_from([None, 1, 9]),
        st.sampled_from([None, 9, 10]),
    ),
    max_size=2,
    unique_by=lambda one: one.name,
).map(tuple)
moments = st.sampled_from([None, None, Instant(0.0), Instant(1.5e9), Instant(0.5), Instant(5e9)])
codes = st.none() | st.just(((0, 0), (3, 7)))


variables = pairs.map(lambda each: {name.replace("=", "_"): text for name, text in each.items()})
_TASK = (
    st.fixed_dictionaries(  # strategies are made once: to check a new one takes longer than to draw from it
        {
            "name": st.sampled_from(["", "main", "other"]) | texts.map(lambda text: text.replace(",", "")),
            "command": commands,
            "minimum": st.integers(1, 4),
            "maximum": st.integers(0, 3),  # more than the minimum
            "run_time": spans,
            "rerunnable": st.booleans(),
            "environment": variables,
            "required_nodes": st.sampled_from([(), (), ("n1",), ("n1", "n2")]),
            "properties": pairs,
            "extensions": elements,
            "needs": needs,
            "distribution": placed,
            "resource_limits": limits,
            "kind": st.sampled_from([TaskType.SWEEP, *[TaskType.BASIC] * 3]),
            "standard_input": words,
            "standard_output": words,
            "standard_error": words,
            "work_directory": words,
        }
    )
)
_SWEPT = st.fixed_dictionaries(
    {"start": st.sampled_from([1, 1, 5]), "end": st.integers(0, 4), "increment": st.integers(1, 2)}
)
_NODE_GROUP = st.just("") | st.sampled_from(["", "g1", "g2"])
_NOT_PLAIN_TASK = st.fixed_dictionaries(
    {"valid_exit_codes": codes, "fail_job_on_failure": st.booleans(), "group": st.none() | st.integers(1, 3)}
)


@st.composite
def tasks(draw: st.DrawFn, *, plain: bool) -> TaskSpec:
    """A task; a plain one has nothing that SSS has no word for."""
    fields: dict[str, Any] = draw(_TASK)
    fields["maximum"] += fields["minimum"]
    if fields["kind"] is TaskType.SWEEP:
        fields |= draw(_SWEPT)
        fields["end"] += fields["start"]
    if not fields["required_nodes"]:
        fields["node_group"] = draw(_NODE_GROUP)
    if not plain:
        fields |= draw(_NOT_PLAIN_TASK)
    return TaskSpec(**fields)


_TASKS = {plain: st.lists(tasks(plain=plain), max_size=3).map(tuple) for plain in (False, True)}
_memory = st.integers(1, 5000)
_features = st.builds(Licence, st.sampled_from(["a", "b"]), st.none() | st.integers(1, 9))
_JOB = st.fixed_dictionaries(
    {
        "name": texts,
        "project": texts,
        "reservation": texts,
        "template": texts,
        "run_as": texts,
        "priority": st.sampled_from([0, 2000, 2150, 4000]).map(Priority),
        "unit": st.sampled_from(UnitType),
        "minimum": st.none() | st.integers(4, 9),
        "maximum": st.none() | st.integers(9, 40),
        "single_node": st.booleans(),
        "run_time": spans,
        "licences": st.lists(_features, max_size=2, unique_by=lambda one: one.feature).map(tuple),
        "requested_nodes": node_lists,
        "excluded_nodes": st.sampled_from([(), ("n9",), ("n8", "n9")]),
        "minimum_memory": st.none() | _memory,
        "maximum_memory": st.none() | _memory,
        "minimum_processors_per_node": st.none() | st.integers(1, 8),
        "parents": ids,
        "hold_until": moments,
        "notify_on_start": st.booleans(),
        "notify_on_completion": st.booleans(),
        "email": st.sampled_from(["", "ann@example.org", "mailto:x", "http://x"]),
        "environment": variables,
        "properties": pairs,
        "extensions": elements,
        "description": texts,
        "job_group": st.sampled_from(["", "", "g", " g"]),
        "needs": needs,
        "together": st.booleans(),
        **dict.fromkeys(("after_failure", "after_exit", "after_start"), ids),
        "holds": st.sampled_from([(), ("user",), ("system", "Maintenance")]),
        "end_by": moments,
        "suspendable": st.booleans(),
        "interactive": st.booleans(),
        "resource_limits": limits,
    }
)
_NODE_GROUPS = st.sampled_from([(), ("g1",), ("g1", "g2")])
_NOT_PLAIN_JOB = st.fixed_dictionaries(
    {
        "exclusive": st.booleans(),
        "fail_on_task_failure": st.booleans(),
        "node_group_op": st.sampled_from(NodeGroupOp),
        "task_retry_limit": st.integers(0, 2),
    }
)


@st.composite
def jobs(draw: st.DrawFn, *, plain: bool = False) -> JobSpec:
    """A job that a cluster would not refuse."""
    found = draw(_TASKS[plain])
    fields: dict[str, Any] = draw(_JOB)
    if fields["minimum_memory"] and fields["maximum_memory"]:
        sides = sorted((fields["minimum_memory"], fields["maximum_memory"]))
        fields["minimum_memory"], fields["maximum_memory"] = sides
    if not any(task.node_group for task in found):
        fields["node_groups"] = draw(_NODE_GROUPS)
    if not plain:
        fields |= draw(_NOT_PLAIN_JOB)
    return JobSpec(**fields, tasks=found, alternatives=draw(other_requests(len(found))))


@cache
def other_requests(count: int) -> st.SearchStrategy[tuple[Alternative, ...]]:
    """Other requests of a job with so many tasks: of the job, of a task, or both, as documents have."""
    of_job = {
        "minimum": st.just(4),
        "maximum": st.just(40),
        "run_time": st.sampled_from([Seconds(60.0), Seconds(30.0)]),
        "needs": needs,
        "requested_nodes": node_lists,
        "minimum_memory": st.just(77),
        "licences": st.just((Licence("a", 1),)),
        "exclusive": st.just(True),
    }
    of_task = st.fixed_dictionaries(
        {}, optional={"needs": needs, "run_time": st.just(Seconds(60.0)), "distribution": placed}
    )
    several = st.lists(of_task.map(lambda each: TaskAlternative(**each)), min_size=count, max_size=count)
    one = st.builds(
        lambda job, own: Alternative(**job, tasks=tuple(own)),
        st.fixed_dictionaries({}, optional=of_job),
        st.just([]) | several,
    )
    return st.lists(one, max_size=2).map(tuple)


def is_possible(spec: JobSpec) -> bool:
    """Whether the model has such a job."""
    try:
        check_job(spec)
    except BadRequest:
        return False
    return True


def again(spec: JobSpec, version: SssVersion) -> tuple[JobSpec, FidelityReport]:
    """The job after it was an SSS document in XML, and what was told when it was written."""
    document, report = document_of(spec, version)
    text, also = write_document(document)
    read, found = read_document(text)
    assert not [item for item in found if item.kind is not Fidelity.NOT_SUPPORTED]
    (back,) = jobs_in(read).jobs
    return back, (*report, *also)


def differing(one: JobSpec | TaskSpec, other: JobSpec | TaskSpec) -> Iterator[str]:
    """The fields that are not equal; the Id that SSS must have, and the dialect, are no loss."""
    for field in one.__struct_fields__:
        left, right = getattr(one, field), getattr(other, field)
        if field == "extensions":
            left, right = ({key: each[key] for key in each if key != "<Id>"} for each in (left, right))
        if left != right and field not in ("dialect", "tasks"):
            yield field


def lost_fields(spec: JobSpec, back: JobSpec) -> set[str]:
    """The fields of the job and of its tasks that are not equal."""
    lost = set(differing(spec, back))
    if len(spec.tasks) != len(back.tasks):
        return lost | {"tasks"}
    return lost.union(*(differing(*pair) for pair in zip(spec.tasks, back.tasks, strict=True)))


def named(report: FidelityReport, *kinds: Fidelity) -> set[str]:
    """The fields that the report is about."""
    fields = {item.what.partition(":")[0] for item in report if item.kind in kinds}
    return fields | {"tasks"} if "kind" in fields else fields


@pytest.mark.parametrize("version", SssVersion)
@given(spec=jobs().filter(is_possible))
@MANY
def test_what_is_lost_is_what_the_report_lists(version: SssVersion, spec: JobSpec) -> None:
    back, report = again(spec, version)
    lost = lost_fields(spec, back)
    if "tasks" not in named(report, *LISTED):
        assert lost <= named(report, *LISTED)


@given(spec=jobs().filter(is_possible))
@MANY
def test_what_is_listed_as_not_supported_is_lost(spec: JobSpec) -> None:
    back, report = again(spec, SssVersion.V3_1)
    if "tasks" not in lost_fields(spec, back):
        assert named(report, Fidelity.NOT_SUPPORTED) <= lost_fields(spec, back)


@given(spec=jobs(plain=True).filter(is_possible))
@MANY
def test_a_job_that_was_a_document_is_the_same_ever_after(spec: JobSpec) -> None:
    once, _ = again(spec, SssVersion.V3_1)
    twice, _ = again(once, SssVersion.V3_1)
    assert lost_fields(once, twice) == set()


@given(spec=jobs().filter(is_possible))
@MANY
def test_a_job_that_was_a_document_is_one_the_cluster_takes(spec: JobSpec) -> None:
    back, _ = again(spec, SssVersion.V3_1)
    check_job(replace(back, environment={}))
