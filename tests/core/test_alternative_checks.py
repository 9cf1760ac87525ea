"""Each alternative of a job must be a job that could be submitted by itself."""

import pytest

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, JobSpec, TaskAlternative
from headnode.core.model.job_checks import MAX_ALTERNATIVES, check_job
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec, TaskType

WIDE = TaskSpec(command="x", minimum=2, maximum=4)
SWEEP = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=9)


def refusal(*alternatives: Alternative, tasks: tuple[TaskSpec, ...] = (WIDE,)) -> tuple[str, str]:
    """Return the code and the words with which a job of these alternatives is refused."""
    with pytest.raises(BadRequest) as refused:
        check_job(JobSpec(tasks=tasks, minimum=2, maximum=8, alternatives=alternatives))
    return refused.value.code, refused.value.what


def test_an_alternative_too_small_for_the_tasks_is_refused_by_its_number() -> None:
    code, what = refusal(Alternative(maximum=6), Alternative(minimum=1, maximum=1))
    assert code == "task-min-above-job"
    assert what.startswith("alternative 2: ")


def test_an_alternative_may_make_the_tasks_smaller_too() -> None:
    smaller = Alternative(minimum=1, maximum=1, tasks=(TaskAlternative(minimum=1, maximum=1),))
    check_job(JobSpec(tasks=(WIDE,), minimum=2, maximum=8, alternatives=(smaller,)))


def test_limits_and_sizes_of_an_alternative_are_held_to_the_same_rules() -> None:
    assert refusal(Alternative(run_time=Seconds(-1)))[1].startswith("alternative 1: ")
    assert refusal(Alternative(minimum=7, maximum=6))[0] == "max-below-min"


def test_an_alternative_speaks_of_all_tasks_or_of_none() -> None:
    code, what = refusal(Alternative(tasks=(TaskAlternative(),)), tasks=(WIDE, SWEEP))
    assert (code, what) == ("alternative-tasks", "alternative 1 describes 1 tasks; the job has 2")


def test_a_job_has_not_endlessly_many_alternatives() -> None:
    some = tuple(Alternative(run_time=Seconds(60 * n)) for n in range(1, MAX_ALTERNATIVES + 2))
    assert refusal(*some)[0] == "too-many-alternatives"
    check_job(JobSpec(tasks=(WIDE,), alternatives=some[:-1]))
