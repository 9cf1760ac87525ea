"""Jobs of every kind, for round trips.

Strategies are made once, not for each job: Hypothesis takes longer to check a new one than to draw from it.
"""

from functools import cache

from hypothesis import strategies as st
from msgspec.structs import replace

from headnode.core.formats.hpc_xml import CCS, HPC, HPC_2008
from headnode.core.model.dependency import Condition, JobDependency, NamedParent
from headnode.core.model.job import (
    Alternative,
    GroupEdge,
    HeldAmounts,
    JobSpec,
    Licence,
    NodeGroupOp,
    OrderKey,
    TaskAlternative,
    UnitType,
)
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import FOREVER, Instant, Priority, Seconds
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec, TaskType

INT = 2**31 - 1
counts = st.integers(1, INT)
sizes = st.none() | counts
amounts = st.none() | counts
anything = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff")
texts = st.text(anything | st.sampled_from("\t\n\r&<>\"'"), max_size=12)
trimmed = texts.map(str.strip)
names = st.text(
    st.characters(codec="ascii", categories=("L", "N"), include_characters="-_."), min_size=1, max_size=8
)
several = st.lists(names, max_size=3).map(tuple)
pairs = st.dictionaries(trimmed.filter(bool), trimmed, max_size=3)
codes = st.lists(
    st.tuples(st.integers(-(2**31), INT), st.integers(-(2**31), INT)).map(
        lambda ends: (min(ends), max(ends))
    ),
    min_size=1,
    max_size=3,
).map(tuple)
seconds = st.just(FOREVER) | st.integers(1, 10**9).map(lambda whole: Seconds(float(whole)))
minutes = st.just(FOREVER) | st.integers(1, 10**6).map(lambda whole: Seconds(60.0 * whole))
licences = st.lists(
    st.builds(Licence, names, st.none() | st.integers(1, 10**9 - 1)),
    max_size=3,
    unique_by=lambda wish: wish.feature,
).map(tuple)
strange = st.dictionaries(names.map(lambda name: f"Strange{name}".replace(".", "_")), texts, max_size=2)
elements = st.sampled_from(
    [
        {},
        {"<Odd>": "<Odd></Odd>"},
        {"<Odd>": '<Odd a="1">x<Inner></Inner>y</Odd>', "<Odd>#2": "<Odd></Odd>"},
        {"<Odd>": '<ns:Odd xmlns:ns="urn:odd"></ns:Odd>'},
        {"{urn:odd}attribute": "value"},
    ]
)
extensions = st.builds(lambda one, two: one | two, strange, elements)

_CCS_TASK = {
    "name": texts,
    "command": texts,
    "minimum": counts,
    "maximum": counts,
    "run_time": minutes,
    "exclusive": st.booleans(),
    "rerunnable": st.booleans(),
    "standard_input": texts,
    "standard_output": texts,
    "standard_error": texts,
    "work_directory": texts,
    "required_nodes": several,
    "depends_on": several,
    "environment": pairs,
    "properties": pairs,
    "extensions": extensions,
}
_SWEPT = {
    "kind": st.sampled_from([TaskType.BASIC, TaskType.SWEEP]),
    "start": st.integers(-1000, 1000),
    "end": st.integers(-1000, 1000),
    "increment": st.integers(1, 1000),
    "group": st.none() | counts,
    "run_time": seconds,
}
_HPC_TASK = (
    _CCS_TASK
    | _SWEPT
    | {
        "kind": st.sampled_from(list(TaskType)),
        "node_group": texts,
        "valid_exit_codes": st.none() | codes,
    }
)


_critical = st.just((False, 1)) | st.tuples(st.just(True), st.integers(1, 10**6))


def _with_critical(task: TaskSpec, critical: tuple[bool, int]) -> TaskSpec:
    return replace(task, fail_job_on_failure=critical[0], fail_job_count=critical[1])


_TASKS = {
    CCS: st.builds(TaskSpec, **_CCS_TASK),
    HPC_2008: st.builds(TaskSpec, **(_CCS_TASK | _SWEPT)),
    HPC: st.builds(_with_critical, st.builds(TaskSpec, **_HPC_TASK), _critical),
}
_CCS_JOB = {
    "name": texts,
    "project": texts,
    "priority": st.sampled_from([0, 1000, 2000, 3000, 4000]).map(Priority),
    "minimum": counts,
    "maximum": counts,
    "exclusive": st.booleans(),
    "run_time": minutes,
    "licences": licences,
    "requested_nodes": several,
    "run_as": texts,
    "properties": pairs,
    "extensions": extensions,
}
_2008_JOB = _CCS_JOB | {
    "minimum": sizes,
    "maximum": sizes,
    "template": texts,
    "priority": st.integers(0, 4000).map(Priority),
    "unit": st.sampled_from([UnitType.PROCESSOR, UnitType.SOCKET, UnitType.NODE]),
    "run_time": seconds,
    "run_until_canceled": st.booleans(),
    "node_groups": several,
    "preemptable": st.booleans(),
    "order_by": st.lists(
        st.builds(OrderKey, st.sampled_from(["memory", "processors"]), st.booleans()), max_size=2
    ).map(tuple),
    "minimum_memory": amounts,
    "maximum_memory": amounts,
    "minimum_processors_per_node": amounts,
    "maximum_processors_per_node": amounts,
    "fail_on_task_failure": st.booleans(),
    "group_edges": st.lists(st.builds(GroupEdge, counts, counts), max_size=4).map(tuple),
}
_HPC_JOB = _2008_JOB | {
    "unit": st.sampled_from(list(UnitType)),
    "single_node": st.booleans(),
    "node_group_op": st.sampled_from(list(NodeGroupOp)),
    "excluded_nodes": several,
    "process_memory": amounts,
    "fail_dependent_tasks": st.booleans(),
    "task_retry_limit": st.integers(0, INT),
    "valid_exit_codes": codes,
    "parents": st.lists(counts, max_size=3, unique=True).map(tuple),
    "hold_until": st.none() | st.integers(0, 4 * 10**9).map(lambda whole: Instant(float(whole))),
    "notify_on_start": st.booleans(),
    "notify_on_completion": st.booleans(),
    "email": texts,
    "environment": pairs,
}
_JOBS = {CCS: _CCS_JOB, HPC_2008: _2008_JOB, HPC: _HPC_JOB}


@cache
def jobs(dialect: str) -> st.SearchStrategy[JobSpec]:
    """Return jobs that `dialect` can say in full."""
    tasks = st.lists(_TASKS[dialect], max_size=3).map(tuple)
    return st.builds(JobSpec, **_JOBS[dialect], tasks=tasks, dialect=st.just(dialect))


needs = st.builds(
    NodeNeeds,
    **dict.fromkeys(
        (
            *("names", "excluded", "patterns", "excluded_patterns", "feature_patterns"),
            *("lacking", "architectures", "systems"),
        ),
        several,
    ),
    features=st.lists(several, max_size=3).map(tuple),
    **dict.fromkeys(
        [field for field in NodeNeeds.__struct_fields__ if field.startswith("minimum_")],
        st.just(0) | st.integers(1, 10**6),
    ),
)
few = st.integers(1, 100)
distributions = (
    st.builds(Distribution, round_robin=st.booleans())
    | st.builds(Distribution, per_node=few)
    | st.builds(Distribution, nodes=few)
    | st.builds(Distribution, geometry=st.lists(st.lists(few, min_size=1).map(tuple), min_size=1).map(tuple))
)
moments = st.integers(0, 4 * 10**9).map(lambda whole: Instant(float(whole)))
sides = st.none() | st.integers(0, 2**64)
limits = st.lists(st.builds(ResourceLimit, names, sides, sides), max_size=3).map(tuple)
ids = st.lists(counts, max_size=3, unique=True).map(tuple)
NEW_OF_TASKS = {
    "needs": needs,
    "distribution": st.none() | distributions,
    "resource_limits": limits,
    "private_directory": st.booleans(),
    "temporary_directory": st.none() | st.booleans(),
    "append_output": st.booleans(),
    "append_error": st.booleans(),
}
NEW_OF_JOBS = {
    "description": texts,
    "job_group": texts,
    "needs": needs,
    "together": st.booleans(),
    "after_failure": ids,
    "after_exit": ids,
    "after_start": ids,
    "after_corresponding": ids,
    "singleton": st.booleans(),
    "contiguous": st.booleans(),
    "dependencies": st.lists(
        st.one_of(
            st.builds(
                JobDependency,
                st.integers(1, 99),
                st.sampled_from([one for one in Condition if one is not Condition.ON_CORRESPONDING]),
                st.integers(0, 99),
            ),
            st.builds(
                lambda job, delay: JobDependency(job, Condition.ON_START, delay=Seconds(float(delay))),
                st.integers(1, 99),
                st.integers(1, 1000),
            ),
        ),
        max_size=2,
    ).map(tuple),
    "any_dependency": st.booleans(),
    "named_parents": st.lists(
        st.builds(NamedParent, names, st.booleans(), st.sampled_from(Condition)).filter(
            lambda parent: not (parent.by_id and parent.name.isdecimal())  # that is a number: `parents`
        ),
        max_size=2,
    ).map(tuple),
    "held": st.builds(HeldAmounts, memory=counts, disk=counts, swap=counts),
    "holds": several,
    "end_by": st.none() | moments,
    "reservation": st.just("") | names,
    "switches": st.just(0) | few,
    "switches_wait": st.sampled_from((Seconds(300.0), Seconds(60.0), FOREVER)),
    "minimum_run_time": st.sampled_from((None, Seconds(2.0))),
    "resource": st.just("") | names,
    "processors_per_gpu": st.just(1) | few,
    "signal": st.sampled_from(("", "USR1@1", "B:USR2@1", "S:TERM@1")),
    "suspendable": st.booleans(),
    "interactive": st.booleans(),
    "resource_limits": limits,
}
"""What the three dialects of Compute Cluster XML have no words for."""


_new_of_task = st.fixed_dictionaries({}, optional=NEW_OF_TASKS)
_new_of_job = st.fixed_dictionaries({}, optional=NEW_OF_JOBS)


def alternatives(spec: JobSpec) -> st.SearchStrategy[tuple[Alternative, ...]]:
    """Return lists of other requests for a job; a unit is said only where it is another one."""
    return _alternatives(spec.unit, len(spec.tasks))


@cache
def _alternatives(own: UnitType, count: int) -> st.SearchStrategy[tuple[Alternative, ...]]:
    of_task = st.builds(
        TaskAlternative,
        minimum=sizes,
        maximum=sizes,
        run_time=st.none() | seconds,
        end=st.none() | few,
        needs=st.none() | needs,
        distribution=st.none() | distributions,
    )
    one = st.builds(
        Alternative,
        unit=st.sampled_from([None, *(unit for unit in UnitType if unit is not own)]),
        minimum=sizes,
        maximum=sizes,
        processors_per_gpu=st.none() | few,
        run_time=st.none() | seconds,
        exclusive=st.none() | st.booleans(),
        single_node=st.none() | st.booleans(),
        licences=st.none() | licences,
        node_groups=st.none() | several,
        requested_nodes=st.none() | several,
        excluded_nodes=st.none() | several,
        minimum_memory=amounts,
        maximum_memory=amounts,
        process_memory=amounts,
        held=st.none() | st.builds(HeldAmounts, memory=counts),
        needs=st.none() | needs,
        tasks=st.just(()) | st.lists(of_task, min_size=count, max_size=count).map(tuple),
    )
    return st.lists(one, max_size=2).map(tuple)


@st.composite
def whole_jobs(draw: st.DrawFn, dialect: str = HPC) -> JobSpec:
    """Draw a job that may say anything that the model has a place for."""
    spec = draw(jobs(dialect))
    tasks = tuple(replace(task, **draw(_new_of_task)) for task in spec.tasks)
    spec = replace(spec, tasks=tasks, **draw(_new_of_job))
    return replace(spec, alternatives=draw(alternatives(spec)))
