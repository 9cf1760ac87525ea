"""A changed job of a batch script tells its program what the job asks for now."""

import pytest
from msgspec.structs import replace

from headnode.core.formats.batch.reading import read_script
from headnode.core.model.batch_variables import follow_request
from headnode.core.model.job import HeldAmounts, JobSpec, UnitType
from headnode.core.model.task import ScriptOrigin
from headnode.core.state.modify import followed_by_script


def script(*options: str, system: str = "slurm") -> JobSpec:
    origin = ScriptOrigin(words=("job.sh",), directory="/home/ann", options=options, system=system)
    return read_script("#!/bin/sh\ntrue\n", origin)[0]


def sized(spec: JobSpec, units: int, **fields: object) -> JobSpec:
    """Return a job whose task has another size."""
    task = replace(spec.tasks[0], minimum=units, maximum=units)
    return replace(spec, tasks=(task, *spec.tasks[1:]), **fields)


def variables(spec: JobSpec, prefix: str = "SLURM_") -> dict[str, str]:
    found = spec.tasks[0].environment
    return {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}


def changed(before: JobSpec, after: JobSpec, prefix: str = "SLURM_") -> dict[str, str | None]:
    """Return the variables that the change made other; None for those that are gone."""
    was, now = variables(before, prefix), variables(follow_request(before, after), prefix)
    return {name: now.get(name) for name in {**was, **now} if was.get(name) != now.get(name)}


@pytest.mark.parametrize(
    ("options", "units", "expected"),
    [
        (("-n2",), 4, {"NTASKS": "4", "NPROCS": "4"}),
        (("-n4", "-c2"), 4, {"NTASKS": "2", "NPROCS": "2"}),
        (("-n1", "-c8"), 4, {"CPUS_PER_TASK": "4"}),
        (("-n4", "--ntasks-per-node=4"), 2, {"NTASKS": "2", "NPROCS": "2", "NTASKS_PER_NODE": None}),
        (("-n2", "--gpus=2"), 4, {"NTASKS": "4", "NPROCS": "4", "GPUS": "4"}),
        (("--gpus=a100:2",), 4, {"GPUS": "a100:4", "NTASKS": "2", "NPROCS": "2"}),
        (("-n2", "--gpus-per-task=2"), 2, {"NTASKS": "1", "NPROCS": "1"}),
        (("-N1", "--gpus-per-node=4"), 6, {"GPUS_PER_NODE": None}),
    ],
)
def test_another_size_of_the_task_changes_the_variables_that_count(
    options: tuple[str, ...], units: int, expected: dict[str, str | None]
) -> None:
    before = script(*options)
    assert changed(before, sized(before, units)) == expected


def test_another_number_of_processors_of_each_gpu_changes_what_a_process_has() -> None:
    before = script("-n2", "--gpus=2", "--cpus-per-gpu=2", "--mem-per-gpu=4G")
    after = replace(before, processors_per_gpu=4)
    expected = {"CPUS_PER_GPU": "4", "CPUS_PER_TASK": "4", "MEM_PER_GPU": None}
    assert changed(before, after) == expected


def test_a_job_that_counts_processors_again_has_no_variables_of_gpus() -> None:
    before = script("-n2", "--gpus=2", "--cpus-per-gpu=2")
    now = variables(follow_request(before, sized(before, 2, unit=UnitType.PROCESSOR)))
    assert [name for name in now if "GPU" in name] == []
    assert (now["NTASKS"], now["CPUS_PER_TASK"]) == ("2", "1")


@pytest.mark.parametrize(
    ("system", "options", "name", "queue"),
    [
        ("slurm", ("-J", "one"), "SLURM_JOB_NAME", ""),
        ("pbs", ("-N", "one"), "PBS_JOBNAME", "PBS_QUEUE"),
        ("gridengine", ("-N", "one"), "JOB_NAME", "QUEUE"),
        ("lsf", ("-J", "one"), "LSB_JOBNAME", "LSB_QUEUE"),
    ],
)
def test_another_name_and_another_template_reach_the_program(
    system: str, options: tuple[str, ...], name: str, queue: str
) -> None:
    before = script(*options, system=system)
    found = changed(before, replace(before, name="two", template="Long"), "")
    assert found == {name: "two"} | ({queue: "Long"} if queue else {})


def test_another_amount_of_memory_reaches_the_program_and_none_takes_the_variable_away() -> None:
    before = script("--mem=100")
    assert changed(before, replace(before, held=HeldAmounts(memory=50))) == {"MEM_PER_NODE": "50"}
    assert changed(before, replace(before, held=HeldAmounts())) == {"MEM_PER_NODE": None}


def test_a_variable_that_the_user_set_and_a_job_that_is_no_script_stay_as_they_are() -> None:
    before = script("-J", "one")
    (task,) = before.tasks
    own = replace(before, tasks=(replace(task, environment={"SLURM_JOB_NAME": "mine"}),))
    assert followed_by_script(own, replace(own, name="two")).tasks == own.tasks
    plain = replace(before, dialect="")
    after = sized(plain, 9, name="two")
    assert followed_by_script(plain, after) is after


def test_what_does_not_change_the_request_changes_no_variable() -> None:
    before = script("-n2", "--gpus=2", "--mem=100")
    after = replace(before, priority=3000)
    assert follow_request(before, after) is after


def test_the_program_of_a_script_has_the_size_that_its_job_gets() -> None:
    before = script("-n4", "-c1")
    after = follow_request(before, replace(before, minimum=2, maximum=2))
    assert (after.tasks[0].minimum, after.tasks[0].maximum) == (2, 2)
    assert variables(after)["NTASKS"] == "2"
    ranges = follow_request(after, replace(after, minimum=1, maximum=6))
    assert (ranges.tasks[0].minimum, ranges.tasks[0].maximum) == (1, 6)


def test_the_tasks_of_an_array_and_a_program_smaller_than_its_job_keep_their_size() -> None:
    array = script("-n2", "--array=1-4")
    assert follow_request(array, replace(array, minimum=2, maximum=4)).tasks == array.tasks
    small = replace(script("-n2"), minimum=4, maximum=4)
    assert follow_request(small, replace(small, minimum=6, maximum=6)).tasks == small.tasks
