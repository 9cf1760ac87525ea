"""A filter written for HPC Pack finds in its file what it reads by name, whatever the job does not set."""

import pytest
from hypothesis import HealthCheck, given, settings
from lxml import etree

from depth import share_of
from headnode.core.formats.hpc_xml import HPC, HPC_2008, read_job, write_job
from headnode.core.formats.job_views import ExportedJob, ExportedTask
from headnode.core.model.job import GroupEdge, JobSpec
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.transitions import JobState, TaskState

from .specs import jobs

REAL_JOB = frozenset(
    """
    Version Id State SubmitTime CreateTime Name UnitType Owner UserName Project JobType JobTemplate Priority
    ExpandedPriority ErrorMessage ErrorCode ErrorParams OrderBy RequestCancel RequeueCount AutoRequeueCount
    FailureReason PendingReason AutoCalculateMax AutoCalculateMin Progress ProgressMessage NotifyOnStart
    NotifyOnCompletion ParentJobIds EstimatedProcessMemory IsExclusive RunUntilCanceled
    """.split()  # noqa: SIM905
)
"""Attributes of Job that filters of HPC Pack read by name."""
REAL_TASK = frozenset(
    """
    Version Id ParentJobId State UnitType NiceId CommandLine RequestCancel RequeueCount FailureReason
    PendingReason StartValue EndValue IncrementValue GroupId SubmitTime CreateTime ErrorMessage ErrorCode
    ErrorParams AutoRequeueCount Type Name
    """.split()  # noqa: SIM905
)
SPACE = {"hpc": "http://schemas.microsoft.com/HPCS2008R2/scheduler/"}


def live(phase: str) -> ExportedJob:
    return ExportedJob(id=7, phase=phase, owner="ann", created=Instant(1.0), submitted=Instant(1.0))


@pytest.mark.parametrize("phase", ["Validating", "Queued", "Running"])
@settings(max_examples=share_of(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=jobs(HPC))
def test_every_attribute_of_real_filter_files_is_there(phase: str, spec: JobSpec) -> None:
    about = live(phase)
    root = etree.fromstring(write_job(spec, HPC, live=about)[0])
    missing = REAL_JOB - {str(name) for name in root.attrib}
    assert missing == set()
    unit = {"processor": "Cores", "socket": "Sockets", "node": "Nodes", "gpu": "Sockets"}[spec.unit]
    assert {f"Min{unit}", f"Max{unit}"} <= set(root.attrib)
    for task in root.findall("hpc:Tasks/hpc:Task", SPACE):
        assert REAL_TASK - {str(name) for name in task.attrib} == set()
        assert {f"Min{unit}", f"Max{unit}"} <= set(task.attrib)


@pytest.mark.parametrize("dialect", [HPC_2008, HPC])
def test_a_filter_that_changes_nothing_changes_nothing(dialect: str) -> None:
    spec = JobSpec(name="a", tasks=(TaskSpec(command="x", rerunnable=True),), dialect=dialect)
    read = read_job(write_job(spec, dialect, live=live("Validating"))[0])[0]
    assert (read.minimum, read.maximum, read.parents, read.process_memory) == (None, None, (), None)
    assert read.template == "Default"


def test_sizes_that_are_calculated_are_written_as_they_are_now() -> None:
    sweep = TaskSpec(command="x *", kind=TaskType.SWEEP, start=1, end=5, minimum=2, maximum=2)
    spec = JobSpec(tasks=(sweep,))
    root = etree.fromstring(write_job(spec, HPC, live=live("Queued"))[0])
    found = [root.get(name) for name in ("MinCores", "MaxCores", "AutoCalculateMin", "AutoCalculateMax")]
    assert found == ["2", "10", "true", "true"]


@pytest.mark.parametrize(("phase", "word"), [("Validating", "Submitted"), ("Queued", "Queued")])
def test_tasks_that_have_not_started_say_so(phase: str, word: str) -> None:
    spec = JobSpec(tasks=(TaskSpec(command="x"),))
    root = etree.fromstring(write_job(spec, HPC, live=live(phase))[0])
    assert root.xpath("//hpc:Task/@State", namespaces=SPACE) == [word]


def test_tasks_that_run_have_their_own_states_and_times() -> None:
    spec = JobSpec(tasks=(TaskSpec(command="x"),))
    runs = ExportedTask(state=TaskState.RUNNING, started=Instant(61.0), requeues=2)
    about = ExportedJob(id=7, state=JobState.RUNNING, phase="Running", tasks={1: runs})
    task = etree.fromstring(write_job(spec, HPC, live=about)[0])[1][0]
    assert (task.get("State"), task.get("AutoRequeueCount")) == ("Running", "2")
    assert task.get("StartTime") == "1970-01-01T00:01:01Z"


def test_tasks_without_a_group_share_one_that_no_other_task_has() -> None:
    tasks = (TaskSpec(command="a"), TaskSpec(command="b", group=7), TaskSpec(command="c"))
    spec = JobSpec(tasks=tasks, group_edges=(GroupEdge(7, 8),))
    root = etree.fromstring(write_job(spec, HPC, live=live("Queued"))[0])
    assert root.xpath("//hpc:Task/@GroupId", namespaces=SPACE) == ["9", "7", "9"]


def test_an_export_for_people_has_only_what_the_job_sets() -> None:
    root = etree.fromstring(write_job(JobSpec(), HPC, live=ExportedJob(id=7))[0])
    assert {"JobTemplate", "OrderBy", "ParentJobIds", "Name"} & {str(name) for name in root.attrib} == set()
