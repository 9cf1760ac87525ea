"""A job of the cluster is shown in SSS with what became of it."""

import pytest
from msgspec.structs import replace

from headnode.core.formats.dialects import read, write
from headnode.core.formats.job_views import DeliveredResources, ExportedInstance, ExportedJob, ExportedTask
from headnode.core.formats.sss import JobGroup, SssJob, Task, TaskGroup, read_document
from headnode.core.formats.sss.properties import Consumable
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.transitions import JobState

SPEC = JobSpec(name="j", holds=("user",), tasks=(TaskSpec(command="/bin/a"),))


def shown(live: ExportedJob, spec: JobSpec = SPEC) -> SssJob:
    """The job as its document has it."""
    (entry,) = read_document(write(spec, "sss", live)[0])[0].entries
    job = entry.jobs[0] if isinstance(entry, JobGroup) else entry
    assert isinstance(job, SssJob)
    return job


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (JobState.CONFIGURING, "Hold"),
        (JobState.QUEUED, "Idle"),
        (JobState.RUNNING, "Running"),
        (JobState.SUSPENDING, "Running"),
        (JobState.SUSPENDED, "Suspended"),
        (JobState.RESUMING, "Suspended"),
        (JobState.ENDING, "Running"),
        (JobState.FINISHED, "Completed"),
        (JobState.FAILED, "Completed"),
        (JobState.CANCELED, "Completed"),
    ],
)
def test_every_state_has_its_word(state: JobState, word: str) -> None:
    assert shown(ExportedJob(id=1, state=state)).value("State") == word


def test_a_job_that_waits_for_a_release_is_on_hold_with_the_holds_that_are_on() -> None:
    held = shown(
        ExportedJob(id=1, state=JobState.QUEUED, holds=("system", "user"), pending_reason="it is held")
    )
    assert (held.value("State"), held.value("StatusMessage")) == ("Hold", "it is held")
    assert [one.value for one in held.all("Hold")] == ["System", "User"]
    released = shown(ExportedJob(id=1, state=JobState.QUEUED, holds=()))
    assert (released.value("State"), [*released.all("Hold")]) == ("Idle", [])


def test_what_became_of_the_job_is_reported_beside_what_it_was_given() -> None:
    live = ExportedJob(
        id=7,
        state=JobState.FAILED,
        owner="ada",
        submitted=Instant(100.0),
        started=Instant(110.0),
        ended=Instant(150.0),
        message="task 1 failed\nwith 3",
        nodes=("n1", "n2"),
        tasks={1: ExportedTask(exit_code=3)},
        starts=2,
        suspended=Seconds(10.0),
        delivered=DeliveredResources(
            processors=6,
            nodes=2,
            processor_seconds=Seconds(55.4),
            wall_seconds=Seconds(30.0),
            memory_average=100,
            memory_maximum=200,
            exit_code=139,
        ),
    )
    job = shown(live)
    found = ("ExitCode", "StartCount", "SuspendDuration", "StatusMessage", "CpuDuration")
    assert [job.value(name) for name in found] == [139, 2, 10, "task 1 failed with 3", 55.0]
    assert job.delivered is not None
    given = [
        (one.name, one.value, one.metric if isinstance(one, Consumable) else "")
        for one in job.delivered.properties
    ]
    assert given == [
        ("User", "ada", ""),
        ("Processors", 6, ""),
        ("NodeCount", 2, ""),
        ("Node", "n1", ""),
        ("Node", "n2", ""),
        ("Memory", 100.0, "Average"),
        ("Memory", 200.0, "Max"),
        ("Duration", 30.0, ""),
    ]
    assert read(write(SPEC, "sss-3.0", live)[0]).only_job().tasks == SPEC.tasks


def test_without_measurements_the_duration_is_the_time_it_did_not_stand_still() -> None:
    live = ExportedJob(
        id=1, state=JobState.FINISHED, started=Instant(5.0), ended=Instant(25.0), suspended=Seconds(4.0)
    )
    job = shown(live)
    assert job.delivered is not None
    assert [one.value for one in job.delivered.properties if one.name == "Duration"] == [16.0]
    assert job.value("ExitCode") is None


def test_a_job_of_a_group_is_shown_in_its_group() -> None:
    spec = JobSpec(name="j", job_group="g", parents=(3,), tasks=SPEC.tasks)
    job = shown(ExportedJob(id=9, state=JobState.RUNNING, started=Instant(1.0), owner="ada"), spec)
    assert (job.id, job.value("State"), job.value("Dependency"), job.delivered is not None) == (
        "9",
        "Running",
        "3",
        True,
    )


def test_the_tasks_of_task_groups_tell_where_and_when_they_ran_and_are_the_same_tasks_when_read() -> None:
    tasks = (TaskSpec(name="m", command="/bin/m"), TaskSpec(name="s", command="/bin/s"))
    spec = JobSpec(minimum=2, maximum=2, together=True, tasks=tasks)
    ran = ExportedTask(nodes=("n2",), started=Instant(5.0), ended=Instant(9.0), exit_code=1)
    live = ExportedJob(id=1, state=JobState.RUNNING, started=Instant(4.0), tasks={1: ExportedTask(), 2: ran})
    master, slave = shown(live, spec).task_groups
    assert isinstance(master, TaskGroup)
    assert isinstance(slave, TaskGroup)
    assert master.tasks == ()
    (task,) = slave.tasks
    assert isinstance(task, Task)
    assert [(one.name, one.value) for one in task.properties] == [
        ("EndTime", 9.0),
        ("ExitCode", 1),
        ("StartTime", 5.0),
        ("Node", "n2"),
    ]
    assert read(write(spec, "sss", live)[0]).only_job().tasks == tasks


@pytest.mark.parametrize("dialect", ["sss", "sss-3.0"])
def test_a_job_of_one_task_tells_where_and_when_that_ran_and_is_the_same_job_when_read(dialect: str) -> None:
    ran = ExportedTask(nodes=("n1", "n2"), started=Instant(5.0), ended=Instant(9.0), exit_code=3)
    live = ExportedJob(id=1, state=JobState.FAILED, started=Instant(4.0), ended=Instant(9.0), tasks={1: ran})
    text = write(SPEC, dialect, live)[0]
    (entry,) = read_document(text)[0].entries
    assert isinstance(entry, SssJob)
    (group,) = entry.task_groups
    assert isinstance(group, TaskGroup)
    (task,) = group.tasks
    assert isinstance(task, Task)
    assert (task.value("StartTime"), task.value("EndTime"), task.value("ExitCode")) == (5.0, 9.0, 3)
    assert [one.value for one in task.all("Node")] == ["n1", "n2"]
    assert read(text).only_job().tasks == read(write(SPEC, dialect)[0]).only_job().tasks


def test_a_job_whose_only_task_has_not_started_has_no_task_element() -> None:
    assert shown(ExportedJob(id=1, state=JobState.QUEUED, tasks={1: ExportedTask()})).task_groups == ()


def test_a_job_tells_the_host_from_which_it_was_submitted_unless_it_was_submitted_elsewhere_first() -> None:
    live = ExportedJob(id=1, state=JobState.QUEUED, submit_host="login1")
    assert shown(live).value("SubmitHost") == "login1"
    text = "<Job><Id>1</Id><Executable>a</Executable><SubmitHost>first.example</SubmitHost></Job>"
    assert shown(live, read(text).only_job()).value("SubmitHost") == "first.example"
    assert shown(ExportedJob(id=1)).value("SubmitHost") is None


def test_a_group_shows_its_state_and_when_it_came() -> None:
    spec = JobSpec(name="j", job_group="g", tasks=SPEC.tasks)
    live = ExportedJob(id=9, state=JobState.QUEUED, group_state="Unstarted", group_created=Instant(77.0))
    (group,) = read_document(write(spec, "sss", live)[0])[0].entries
    assert isinstance(group, JobGroup)
    assert (group.id, group.value("State"), group.value("CreationTime")) == ("g", "Unstarted", 77.0)


def test_a_canceled_job_says_so_in_its_status_message() -> None:
    assert shown(ExportedJob(id=1, state=JobState.CANCELED)).value("StatusMessage") == "the job was canceled"


def test_a_started_job_tells_whose_it_is_and_where_it_ran_in_what_was_delivered() -> None:
    spec = JobSpec(name="j", project="climate", template="long", tasks=SPEC.tasks)
    live = ExportedJob(
        id=1,
        state=JobState.RUNNING,
        started=Instant(4.0),
        owner="ada",
        owner_group="staff",
        machine="colony",
    )
    job = shown(live, spec)
    assert job.delivered is not None
    assert [(one.name, one.value) for one in job.delivered.properties] == [
        ("Machine", "colony"),
        ("Queue", "long"),
        ("Project", "climate"),
        ("Group", "staff"),
        ("User", "ada"),
    ]
    assert job.value("Machine") == "colony"
    waiting = shown(ExportedJob(id=1, state=JobState.QUEUED, owner="ada", machine="colony"), spec)
    assert (waiting.value("Machine"), waiting.delivered) == (None, None)


@pytest.mark.parametrize("command", ["/bin/a", "/bin/a *"])
@pytest.mark.parametrize("dialect", ["sss", "sss-3.0"])
def test_each_instance_of_a_sweep_shows_where_and_when_it_ran_and_is_the_same_sweep_when_read(
    command: str, dialect: str
) -> None:
    sweep = TaskSpec(name="s", kind=TaskType.SWEEP, start=1, end=3, command=command)
    spec = JobSpec(minimum=3, maximum=3, together=True, tasks=(sweep, TaskSpec(name="m", command="/bin/m")))
    ran = {
        3: ExportedInstance(nodes=("n2", "n3"), started=Instant(6.0)),
        1: ExportedInstance(nodes=("n1",), started=Instant(5.0), ended=Instant(9.0), exit_code=2),
    }
    live = ExportedJob(
        id=1,
        state=JobState.RUNNING,
        started=Instant(4.0),
        tasks={1: ExportedTask(instances=ran), 2: ExportedTask()},
    )
    text, report = write(spec, dialect, live)
    (entry,) = read_document(text)[0].entries
    assert isinstance(entry, SssJob)
    group = entry.task_groups[0]
    assert isinstance(group, TaskGroup)
    found = ("Id", "StartTime", "EndTime", "ExitCode")
    tasks = [one for one in group.tasks if isinstance(one, Task) and one.value("StartTime")]
    assert [[one.value(name) for name in found] for one in tasks] == [
        ["1", 5.0, 9.0, 2],
        ["3", 6.0, None, None],
    ]
    assert [[node.value for node in one.all("Node")] for one in tasks] == [["n1"], ["n2", "n3"]]
    asked = read(write(spec, dialect, replace(live, tasks={}))[0]).only_job().tasks
    assert read(text).only_job().tasks == asked
    assert all("Task element" not in item.what for item in report)


def test_instances_that_have_no_task_element_are_reported() -> None:
    sweep = TaskSpec(kind=TaskType.SWEEP, start=1, end=3, command="/bin/a")
    task = ExportedTask(
        instances={1: ExportedInstance(nodes=("n1",), started=Instant(5.0))}, all_listed=False
    )
    live = ExportedJob(id=1, state=JobState.RUNNING, started=Instant(4.0), tasks={1: task})
    assert [
        (item.where, item.what)
        for item in write(JobSpec(tasks=(sweep,)), "sss", live)[1]
        if "Task element" in item.what
    ] == [("task 1", "only the first 1 instances that have started have a Task element")]
