"""Several jobs in one native file wait for one another by name."""

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from depth import share_of
from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.native import JSON, TOML, NativeJobs, read_job, read_jobs, write_jobs
from headnode.core.formats.native.keys import ALTERNATIVE_ROWS, JOB_KEYS, TASK_KEYS
from headnode.core.model.dependency import Condition, DependencyLink
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec, TaskAlternative
from headnode.core.model.job_checks import check_job
from headnode.core.model.task import Distribution, TaskSpec

from .specs import whole_jobs

SOME = settings(max_examples=share_of(30), deadline=None, suppress_health_check=list(HealthCheck))
CHAIN = """
job_group = "night"

[[jobs]]
name = "mesh"
command = "./mesh"

[[jobs]]
name = "solve"
parents = ["mesh", 12]
after_failure = 13

[[jobs.tasks]]
command = "./solve"

[[jobs]]
command = "./mend"
after_failure = "solve"
after_exit = "mesh"
after_start = "mesh"
job_group = "own"
"""


def test_jobs_wait_for_one_another_by_name_and_for_others_by_number() -> None:
    found, report = read_jobs(CHAIN)
    mesh, solve, mend = found.jobs
    assert report == ()
    assert (mesh.tasks[0].command, solve.tasks[0].command, mend.tasks[0].command) == (
        "./mesh",
        "./solve",
        "./mend",
    )
    assert (solve.parents, solve.after_failure, mend.after_failure) == ((12,), (13,), ())
    assert (mesh.job_group, solve.job_group, mend.job_group) == ("night", "night", "own")
    assert found.links == (
        DependencyLink(1, 0, Condition.ON_SUCCESS),
        DependencyLink(2, 1, Condition.ON_FAILURE),
        DependencyLink(2, 0, Condition.ON_EXIT),
        DependencyLink(2, 0, Condition.ON_START),
    )


@st.composite
def files(draw: st.DrawFn) -> NativeJobs:
    """Draw jobs, each of which may wait for those before it."""
    count = draw(st.integers(2, 4))
    jobs = tuple(replace(draw(whole_jobs()), name=f"job {number}") for number in range(count))
    pairs = [(child, parent) for child in range(count) for parent in range(child)]
    links = draw(st.lists(st.tuples(st.sampled_from(list(Condition)), st.sampled_from(pairs)), unique=True))
    order = [*DEPENDENCY_FIELDS]
    found = [DependencyLink(child, parent, condition) for condition, (child, parent) in links]
    return NativeJobs(jobs, tuple(sorted(found, key=lambda one: (one.child, order.index(one.condition)))))


@pytest.mark.parametrize("form", [TOML, JSON])
@given(given_jobs=files())
@SOME
def test_all_jobs_are_the_same_after_being_one_file(form: str, given_jobs: NativeJobs) -> None:
    text, report = write_jobs(given_jobs.jobs, given_jobs.links, form)
    assert read_jobs(text) == (given_jobs, ())
    assert report == ()


ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", "1-2", "*", "2 GB", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*TASK_KEYS, "per_node", "tasks", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)
ANY_TABLE = st.dictionaries(
    st.sampled_from([*JOB_KEYS, *ALTERNATIVE_ROWS, "sweep_end"]), ANY_VALUE, max_size=4
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "jobs": st.lists(ANY_TABLE | ANY_VALUE, max_size=3),
            "job_group": ANY_VALUE,
            "alternatives": st.lists(ANY_TABLE, max_size=2) | ANY_VALUE,
            "tasks": st.lists(ANY_TABLE, max_size=2),
            "features": ANY_VALUE,
            "distribution": ANY_VALUE,
            "resource_limits": ANY_VALUE,
        },
    )
)
@settings(SOME, max_examples=share_of(300))
def test_whatever_the_tables_hold_they_are_read_or_refused_with_a_way_out(found: dict[str, object]) -> None:
    try:
        message: object = read_jobs(msgspec.json.encode(found))[0].jobs
    except BadRequest as refused:
        message = refused.fix
    assert message


def test_a_job_that_is_waited_for_gets_a_name_of_its_own_and_that_is_told() -> None:
    jobs = (*(JobSpec(name=name, tasks=(TaskSpec(command="a"),)) for name in ("", "x", "x", "x-1")),)
    links = (DependencyLink(1, 0), DependencyLink(3, 2))
    text, report = write_jobs(jobs, links)
    found = read_jobs(text)[0]
    assert [job.name for job in found.jobs] == ["job-1", "x", "x-2", "x-1"]
    assert found.links == links
    assert [(item.kind, item.where) for item in report] == [
        (Fidelity.APPROXIMATED, "job 1"),
        (Fidelity.APPROXIMATED, "job 3"),
    ]


def test_one_job_is_written_without_a_table_of_jobs() -> None:
    assert b"jobs" not in write_jobs((JobSpec(name="a"),))[0]


@pytest.mark.parametrize(
    ("text", "code", "what", "fix"),
    [
        (
            '[[jobs]]\nname = "a"\n[[jobs]]\nparents = "b"',
            "unknown-job",
            "line 4, column 0: job 2: parents",
            "",
        ),
        ('[[jobs]]\nname = "mesh"\n[[jobs]]\nparents = "mash"', "unknown-job", "'mash'", "'mesh'?"),
        ('parents = "a"', "unknown-job", "line 1, column 0: job: parents names 'a'", "number"),
        (
            '[[jobs]]\nname = "a"\n[[jobs]]\nname = "a"\n[[jobs]]\nafter_exit = "a"',
            "name-twice",
            "line 6, column 0: job 3: after_exit names 'a', but 2 jobs",
            "",
        ),
        (
            '[[jobs]]\nname = "a"\nparents = "b"\n[[jobs]]\nname = "b"\nafter_start = "a"',
            "dependency-circle",
            "line 1, column 0: the jobs wait for each other in a circle: a -> b -> a",
            "",
        ),
        ('[[jobs]]\nname = "a"\nparents = "a"', "dependency-circle", "a -> a", ""),
        (
            'name = "x"\n[[jobs]]\nname = "a"',
            "misplaced-key",
            "line 1, column 0: 'name' is above",
            "jobs",
        ),
        ("jobs = []", "value", "line 1, column 0: jobs is an empty list, not a list of jobs", "[[jobs]]"),
        ("jobs = [1]", "not-a-job", "job 1 is not a table", ""),
        (
            '[[jobs]]\n[[jobs.tasks]]\ncomand = "a"',
            "unknown-key",
            "line 3, column 0: job 1: task 1",
            "'command'",
        ),
        (
            '[[jobs]]\n[[jobs]]\nnaem = "a"',
            "unknown-key",
            "line 3, column 0: job 2: there is no key",
            "'name'",
        ),
        ("job_group = 3\n[[jobs]]", "value", "line 1, column 0: file: job_group: 3 is not text", ""),
        ('[[jobs]]\ncommand = "a"\ntasks = []', "misplaced-key", "line 2, column 0: 'command' stands", ""),
    ],
)
def test_what_is_wrong_between_jobs_is_named_with_its_place(
    text: str, code: str, what: str, fix: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        read_jobs(text)
    no = caught.value
    assert (no.code, what in no.what, fix in no.fix) == (code, True, True), str(no)


def test_who_wants_one_job_is_told_of_several() -> None:
    with pytest.raises(BadRequest, match="several-jobs"):
        read_job(CHAIN)


def test_jobs_in_json_are_the_same_words() -> None:
    document = {"jobs": [{"name": "a"}, {"parents": ["a", 3]}]}
    found = read_jobs(json.dumps(document))[0]
    assert (found.links, found.jobs[1].parents) == ((DependencyLink(1, 0),), (3,))


@pytest.mark.parametrize(
    ("text", "code", "what", "fix"),
    [
        ("features = [3]", "features", "3 is not a feature", "either"),
        ('features = [["a", 3]]', "features", "a list", "either"),
        ("node_speed = 2400", "speed", "2400", "MHz"),
        ('node_speed = "2.4001 GHz"', "speed", "is not a speed", "whole MHz"),
        ('node_speed = "0.5 MHz"', "speed", "is not a speed", "whole MHz"),
        ('command = "a"\ndistribution = "robin"', "distribution", "'robin'", "per_node"),
        ('command = "a"\n[distribution]\npernode = 2', "distribution", "'pernode'", "'per_node'?"),
        (
            'command = "a"\n[distribution]\nper_node = "2"',
            "distribution",
            "per_node: '2' is not a whole number",
            "",
        ),
        ('command = "a"\n[distribution]\nnodes = 0', "distribution", "nodes: 0 is not", "or leave it out"),
        ('command = "a"\n[distribution]\nround_robin = 1', "distribution", "round_robin: 1 is not", ""),
        ('command = "a"\n[distribution]\ngeometry = [1]', "distribution", "geometry", "[[1, 2], [3]]"),
        ('resource_limits = "x"', "resource-limit", "'x'", "nofile"),
        ("[resource_limits]\nnofile = 1.5", "resource-limit", "value of 'nofile', 1.5,", "nofile"),
        ('[resource_limits]\nas = "a lot"', "resource-limit", "as: 'a lot'", ""),
        ('[[alternatives]]\nname = "a"', "unknown-key", "line 2, column 0: alternative 1: there is", ""),
        ("[[alternatives]]\nnodes = 1\nsockets = 2", "unit-mismatch", "line 2, column 0: alternative 1", ""),
        (
            'command = "a"\n[[alternatives]]\n[[alternatives.tasks]]\n[[alternatives.tasks]]',
            "tasks",
            "2 tasks",
            "",
        ),
        (
            'command = "a"\n[[alternatives]]\nnodes = "2-*"',
            "size",
            "line 2, column 0: alternative 1 gives no size for a task",
            "2-8",
        ),
        ("alternatives = [3]", "value", "alternative 1 is 3, not a table", "processors = 2"),
        ("[[tasks]]\nmem = 3", "unknown-key", "task 1", "'node_memory'"),
        ("gang = true", "unknown-key", "'gang'", "'together'"),
    ],
)
def test_what_is_wrong_with_the_finer_keys_is_named(text: str, code: str, what: str, fix: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_job(text)
    no = caught.value
    assert (no.code, what in no.what, fix in no.fix) == (code, True, True), str(no)


def test_an_alternative_of_a_job_without_tables_of_tasks_says_the_size_of_its_task() -> None:
    text = """command = "a"
processors = 4
run_time = "1h"

[[alternatives]]
processors = 2
run_time = "2h"

[alternatives.distribution]
per_node = 1
"""
    spec = read_job(text)[0]
    (other,) = spec.alternatives
    assert (other.minimum, other.run_time) == (None, 7200)
    assert other.tasks == (TaskAlternative(minimum=2, maximum=2, distribution=Distribution(per_node=1)),)
    check_job(spec)
    assert write_jobs((spec,))[0].decode() == text


def test_an_alternative_may_count_something_else_than_the_job() -> None:
    spec = read_job(
        """
[[tasks]]
processors = 4
[[alternatives]]
nodes = 2
[[alternatives]]
processors = 2
"""
    )[0]
    nodes, processors = spec.alternatives
    assert (nodes.unit, nodes.minimum, nodes.maximum) == ("node", 2, 2)
    assert (processors.unit, processors.minimum) == (None, 2)
