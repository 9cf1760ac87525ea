"""What a dialect cannot say is told, and exports of real jobs say what the scheduler knows."""

import pytest

from headnode.core.formats.fidelity import Fidelity, FidelityReport, lossy_items
from headnode.core.formats.hpc_xml import CCS, HPC, HPC_2008, read_job, write_job
from headnode.core.formats.hpc_xml.attributes import DIALECTS
from headnode.core.formats.job_views import ExportedJob, ExportedTask
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge, JobSpec, UnitType
from headnode.core.model.quantities import Instant, Priority, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.transitions import JobState, TaskState


def reported(report: FidelityReport, kind: Fidelity) -> list[tuple[str, str]]:
    return [(item.where, item.what) for item in report if item.kind is kind]


def sweep(end: int) -> TaskSpec:
    return TaskSpec(
        kind=TaskType.SWEEP, start=1, end=end, name="s*", command="run ** ^*", standard_output="*.out"
    )


def test_ccs_gets_the_nearest_priority_run_time_and_count() -> None:
    spec = JobSpec(priority=Priority(2400), run_time=Seconds(61), unit=UnitType.NODE, minimum=1, maximum=2)
    text, report = write_job(spec, CCS)
    again, _ = read_job(text)
    assert (again.priority, again.run_time, again.unit) == (2000, 120, UnitType.PROCESSOR)
    assert [what.split(":")[0] for _, what in reported(report, Fidelity.APPROXIMATED)] == [
        "sizes count nodes; CCS counts processors",
        "Runtime",
        "Priority",
    ]


@pytest.mark.parametrize(("priority", "nearest"), [(1499, 1000), (1501, 2000), (3999, 4000), (1, 0)])
def test_ccs_gets_the_name_that_is_nearest(priority: int, nearest: int) -> None:
    text, _ = write_job(JobSpec(priority=Priority(priority)), CCS)
    assert read_job(text)[0].priority == nearest


def test_ccs_is_distinguished_from_everything_it_has_no_word_for() -> None:
    spec = JobSpec(
        node_groups=("g",),
        email="a@b",
        group_edges=(GroupEdge(1, 2),),
        tasks=(TaskSpec(command="a", group=1, fail_job_on_failure=True), TaskSpec(kind=TaskType.NODE_PREP)),
    )
    text, report = write_job(spec, CCS)
    assert reported(report, Fidelity.NOT_SUPPORTED) == [
        ("Job", "NodeGroups: Compute Cluster Server 2003 has no such property"),
        ("Job", "EmailAddress: Compute Cluster Server 2003 has no such property"),
        ("Job", "Dependencies: CCS has no groups of tasks"),
        ("Task 1", "GroupId: Compute Cluster Server 2003 has no such property"),
        ("Task 1", "FailJobOnFailure: Compute Cluster Server 2003 has no such property"),
        ("Task 2", "Compute Cluster Server 2003 has no node-prep tasks: it is left out"),
    ]
    assert [task.command for task in read_job(text)[0].tasks] == ["a"]


def test_ccs_gets_a_sweep_as_tasks_of_one_name() -> None:
    text, report = write_job(JobSpec(tasks=(sweep(3), TaskSpec(command="sum", depends_on=("s*",)))), CCS)
    tasks = read_job(text)[0].tasks
    assert [task.command for task in tasks] == ["run 01 *", "run 02 *", "run 03 *", "sum"]
    assert {task.name for task in tasks[:3]} == {"s*"}
    assert tasks[1].standard_output == "2.out"
    assert "3 tasks of one name" in reported(report, Fidelity.APPROXIMATED)[1][1]


def test_ccs_refuses_to_list_a_very_large_sweep() -> None:
    assert write_job(JobSpec(tasks=(sweep(10_000),)), CCS)[0].count(b"<Task ") == 10_000
    with pytest.raises(BadRequest, match="export it as hpcpack") as caught:
        write_job(JobSpec(tasks=(sweep(10_001),)), CCS)
    assert caught.value.code == "too-large"


@pytest.mark.parametrize("dialect", [CCS, HPC_2008])
def test_the_environment_of_a_job_goes_into_its_tasks_where_jobs_have_none(dialect: str) -> None:
    spec = JobSpec(environment={"A": "1", "B": "1"}, tasks=(TaskSpec(environment={"B": "2"}), TaskSpec()))
    text, report = write_job(spec, dialect)
    again, _ = read_job(text)
    assert [task.environment for task in again.tasks] == [{"A": "1", "B": "2"}, {"A": "1", "B": "1"}]
    assert any("environment" in what for _, what in reported(report, Fidelity.APPROXIMATED))


def test_what_xml_cannot_hold_is_replaced_and_told() -> None:
    spec = JobSpec(name="bell\x07", environment={"A": " padded "}, tasks=(TaskSpec(command="\ud800"),))
    text, report = write_job(spec, HPC)
    again, _ = read_job(text)
    assert (again.name, again.tasks[0].command, again.environment) == (
        "bell\ufffd",
        "\ufffd",
        {"A": "padded"},
    )
    assert [where for where, _ in reported(report, Fidelity.APPROXIMATED)] == ["Job", "Job", "Task 1"]


def test_a_dialect_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadRequest, match="ccs, hpcpack-2008, hpcpack"):
        write_job(JobSpec(), "pbs")


LIVE = ExportedJob(
    id=7,
    state=JobState.FAILED,
    owner="alice",
    created=Instant(0.0),
    submitted=Instant(60.0),
    started=Instant(61.5),
    message="task 1 failed",
    nodes=("n1", "n2"),
    backfilled=True,
    requeues=2,
    tasks={1: ExportedTask(state=TaskState.FAILED, exit_code=3, started=Instant(62.0), nodes=("n2",))},
)
SPEC = JobSpec(name="a", minimum=1, maximum=1, tasks=(TaskSpec(command="x"), TaskSpec(command="y")))


def test_an_export_to_hpc_pack_has_its_attributes_in_the_known_order() -> None:
    text = write_job(SPEC, HPC, live=LIVE)[0].decode()
    start = (
        '<Job Version="3.000" Id="7" State="Failed" SubmitTime="1970-01-01T00:01:00Z" '
        'CreateTime="1970-01-01T00:00:00Z" StartTime="1970-01-01T00:01:01.5Z" Name="a" IsExclusive="false" '
        'RunUntilCanceled="false" UnitType="Core" Owner="alice" UserName="alice" Project="" JobType="Batch" '
        'Priority="Normal" RequeueCount="2" ErrorMessage="task 1 failed" AutoCalculateMax="false" '
        'AutoCalculateMin="false" FailOnTaskFailure="false" MinCores="1" MaxCores="1" '
        'xmlns="http://schemas.microsoft.com/HPCS2008R2/scheduler/">'
    )
    assert text.splitlines()[1] == start
    assert '<Task Version="3.000" Id="1" ParentJobId="7" State="Failed" UnitType="Core" NiceId="1"' in text
    assert 'ExitCode="3"' in text


def test_an_export_to_ccs_uses_the_words_of_its_schema() -> None:
    text = write_job(SPEC, CCS, live=LIVE)[0].decode()
    assert 'Status="Failed"' in text
    assert 'SubmittedBy="alice"' in text
    assert 'AllocatedNodes="n1,n2" IsBackfill="true"' in text
    assert '<Task Id="2" ParentJobId="7" Status="NotSubmitted"' in text
    for state, word in ((JobState.FINISHED, "Completed"), (JobState.CANCELED, "Cancelled")):
        assert f'Status="{word}"' in write_job(SPEC, CCS, live=ExportedJob(id=1, state=state))[0].decode()


def test_the_phase_shows_a_filter_why_it_is_called() -> None:
    text = write_job(SPEC, HPC, live=ExportedJob(id=1, state=JobState.QUEUED, phase="Validating"))[0].decode()
    assert 'State="Validating"' in text


@pytest.mark.parametrize("dialect", [CCS, HPC_2008, HPC])
def test_what_only_the_scheduler_knows_does_not_change_the_job_that_is_read(dialect: str) -> None:
    plain = read_job(write_job(SPEC, dialect)[0])[0]
    live, report = read_job(write_job(SPEC, dialect, live=LIVE)[0])
    assert live == plain
    assert {item.kind for item in report} == {Fidelity.NOTE}


def test_what_the_scheduler_writes_of_itself_is_reported_in_one_note_for_jobs_and_one_for_tasks() -> None:
    live = ExportedJob(
        id=7, state=JobState.RUNNING, owner="ann", submitted=Instant(1e9), started=Instant(1e9)
    )
    text, _ = write_job(JobSpec(tasks=(TaskSpec(command="a"), TaskSpec(command="b"))), HPC, live=live)
    notes = reported(read_job(text)[1], Fidelity.NOTE)
    assert [where for where, what in notes if "by the scheduler only" in what] == ["Job", "Task"]
    (of_job,) = (what for where, what in notes if where == "Job" and "by the scheduler only" in what)
    assert all(repr(name) in of_job for name in ("Id", "State", "SubmitTime", "Owner")), of_job


@pytest.mark.parametrize("name", ["xmln", "xmlnsx", "XmlVersion", "Xmlns"])
@pytest.mark.parametrize("namespace", [dialect.namespace for dialect in DIALECTS.values()])
def test_an_attribute_that_is_not_known_survives_whatever_it_is_called(name: str, namespace: str) -> None:
    spec, _ = read_job(f'<Job {name}="{namespace}" Odd="1"><Tasks><Task CommandLine="x"/></Tasks></Job>')
    text, report = write_job(spec, spec.dialect)
    assert read_job(text)[0] == spec
    assert lossy_items(report) == ()
