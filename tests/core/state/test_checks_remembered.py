"""Jobs that are alike but for name and command line are checked once: nobody can tell."""

from itertools import product

import pytest
from msgspec.structs import replace

from headnode.core.model.bounds import COMMAND, NAME
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.job_record import encode_spec
from headnode.core.state.job_request import request_in, request_of
from headnode.core.state.submit import checked

ONE = TaskSpec(command="true")
JOBS = [
    JobSpec(tasks=(ONE,)),
    JobSpec(),
    JobSpec(tasks=(ONE, TaskSpec(command="false", depends_on=("b",)), TaskSpec(name="b", command="b"))),
    JobSpec(tasks=(replace(ONE, kind=TaskType.SWEEP, start=1, end=9),), exclusive=True),
    JobSpec(tasks=(replace(ONE, minimum=2, maximum=4, required_nodes=("n1",)),), minimum=2, maximum=8),
    JobSpec(tasks=(replace(ONE, minimum=5, maximum=4),)),
    JobSpec(tasks=(replace(ONE, name="a,b"),)),
    JobSpec(tasks=(replace(ONE, environment={"A=B": "c"}),)),
    JobSpec(tasks=(ONE,), priority=9_999),
    JobSpec(tasks=(replace(ONE, name="a", depends_on=("a",)),)),
]
NAMES = ["", "plain", "tab\tand \u00e9", "nul\0", "half \ud800", "n" * NAME.most, "n" * (NAME.most + 1)]
COMMANDS = ["", "true", "echo 'a b' > c", "nul\0", "half \udfff", "c" * 4000, "c" * (COMMAND.most + 1)]


def outcome(spec: JobSpec, *, remembered: bool) -> object:
    """Return what refuses a job, or its description and its request."""
    try:
        if remembered:
            data = checked(spec)
        else:
            check_job(replace(spec))
            data = encode_spec(spec)
    except BadRequest as no:
        return no.as_fields()
    return data, request_in(data) if remembered else request_of(spec)


@pytest.mark.parametrize("job", range(len(JOBS)))
def test_a_job_is_accepted_or_refused_as_if_no_other_had_been_checked(job: int) -> None:
    for _ in range(2):
        for name, command in product(NAMES, COMMANDS):
            tasks = tuple(replace(task, command=command) for task in JOBS[job].tasks)
            spec = replace(JOBS[job], name=name, tasks=tasks)
            assert outcome(spec, remembered=True) == outcome(spec, remembered=False)


def test_jobs_that_differ_in_these_texts_alone_have_one_request() -> None:
    some = [
        JobSpec(name=f"job {number}", tasks=(replace(ONE, command=f"echo {number}"),)) for number in range(3)
    ]
    assert len({id(request_in(encode_spec(spec))) for spec in some}) == 1
